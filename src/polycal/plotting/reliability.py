"""Accuracy against confidence."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from .._utils.arrays import Floats
from .._utils.labels import class_columns
from .._utils.validation import check_weights, count, share
from ..metrics import expected_calibration_error
from ..metrics.calibration import equal_width
from ..metrics.input import check_labels, check_probabilities
from .style import BLUE, GREY, SKY, legend_above, model_name, new_axes, require


def wilson_interval(accuracy: Floats, n: Floats, level: float) -> tuple[Floats, Floats]:
    """Wilson's score interval of a share observed in n rows.

    (p + z^2/2n -+ z sqrt(p(1-p)/n + z^2/4n^2)) / (1 + z^2/n), which lies in [0, 1] for any p.
    """
    z2 = float(ndtri(0.5 + level / 2)) ** 2
    middle = accuracy + z2 / (2 * n)
    reach = np.sqrt(z2 * (accuracy * (1 - accuracy) / n + z2 / (4 * n**2)))
    scale = 1 + z2 / n
    # At accuracy 0 or 1 one end is 0 or 1 up to rounding.
    return np.clip((middle - reach) / scale, 0, 1), np.clip((middle + reach) / scale, 0, 1)


@dataclass(kw_only=True, eq=False, repr=False)
class ReliabilityDisplay:
    """Reliability diagram: accuracy in bins of confidence, with counts and intervals.

    Make a display with ``from_estimator`` or ``from_predictions``.

    Parameters
    ----------
    bin_edges : ndarray of shape (n_bins + 1,)
        Edges of bins of equal width from 0 to 1; a bin includes its right edge.
    counts : ndarray of shape (n_bins,)
        Number of rows in each bin, or their weight, scaled to mean 1.
    confidence, accuracy : ndarray of shape (n_bins,)
        Mean of the highest probability, and share of correctly classified rows; NaN in empty bins.
    lower, upper : ndarray of shape (n_bins,)
        Wilson's interval of the accuracy; NaN in empty bins.
    level : float
        Coverage of the interval.
    ece : float
        ``polycal.metrics.expected_calibration_error`` with these bins.
    name : str
        Name of the model, for the title.

    Attributes
    ----------
    ax_, ax_counts_, figure_ : matplotlib objects
        The diagram, the counts below it, and their figure; set by ``plot``.

    Examples
    --------
    >>> from polycal.plotting import ReliabilityDisplay
    >>> P = [[0.9, 0.1]] * 5
    >>> display = ReliabilityDisplay.from_predictions([0, 0, 0, 1, 1], P, n_bins=2)
    >>> display.counts, display.accuracy, round(display.ece, 12)
    (array([0., 5.]), array([nan, 0.6]), 0.3)
    """

    bin_edges: Floats
    counts: Floats
    confidence: Floats
    accuracy: Floats
    lower: Floats
    upper: Floats
    level: float
    ece: float
    name: str
    ax_: Any = field(init=False)
    ax_counts_: Any = field(init=False)
    figure_: Any = field(init=False)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike,
        *,
        n_bins: int = 20,
        level: float = 0.95,
        sample_weight: ArrayLike | None = None,
        name: str | None = None,
    ) -> Self:
        """Compute the diagram of a fitted classifier, on rows that it was not fitted on.

        Parameters
        ----------
        estimator : fitted classifier
            It has ``predict_proba`` and ``classes_``.
        X : array-like of shape (n_samples, n_features)
            Rows that the estimator was not fitted on.
        y : array-like of shape (n_samples,)
            Labels, as in ``classes_``.
        n_bins : int, default=20
            Number of bins.
        level : float, default=0.95
            Coverage of Wilson's interval of each bin.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each row; equal weights by default.
        name : str, default=None
            Name of the model, for the title; the name of its class by default.
        """
        require(estimator, "predict_proba", "classes_")
        return cls.from_predictions(
            class_columns(y, estimator.classes_),
            estimator.predict_proba(X),
            n_bins=n_bins,
            level=level,
            sample_weight=sample_weight,
            name=model_name(estimator, name),
        )

    @classmethod
    def from_predictions(
        cls,
        y: ArrayLike,
        P: ArrayLike,
        *,
        n_bins: int = 20,
        level: float = 0.95,
        sample_weight: ArrayLike | None = None,
        name: str = "model",
    ) -> Self:
        """Compute the diagram of given probabilities.

        Parameters
        ----------
        y : array-like of shape (n_samples,)
            Column of P that is the true class, 0 to n_classes - 1.
        P : array-like of shape (n_samples, n_classes)
            Predicted probabilities; the first of equal ones is the prediction.
        n_bins : int, default=20
            Number of bins.
        level : float, default=0.95
            Coverage of Wilson's interval of each bin.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight w of each row. The effective number of rows of a bin is (sum w)^2 / sum w^2.
        name : str, default="model"
            Name of the model, for the title.
        """
        count(n_bins=n_bins)
        share(level=level)
        P = check_probabilities(P)
        y = check_labels(y, P)
        weight = check_weights(sample_weight, len(P))
        bins = equal_width(P.max(axis=1), n_bins)

        def total(values: Floats) -> Floats:
            return np.bincount(bins, values, minlength=n_bins).astype(float, copy=False)

        counts = total(weight)
        mass = np.where(counts > 0, counts, np.nan)  # NaN marks an empty bin
        accuracy = total(weight * (P.argmax(axis=1) == y)) / mass
        lower, upper = wilson_interval(accuracy, mass**2 / total(weight**2), level)
        return cls(
            bin_edges=np.arange(n_bins + 1) / n_bins,
            counts=counts,
            confidence=total(weight * P.max(axis=1)) / mass,
            accuracy=accuracy,
            lower=lower,
            upper=upper,
            level=float(level),
            ece=expected_calibration_error(y, P, n_bins, sample_weight=sample_weight),
            name=name,
        )

    def plot(self, ax: Any = None) -> Self:
        """Draw accuracy bars, a point with its interval in each bin, and the counts below.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on, with the counts below; None makes a new figure.

        Returns
        -------
        self : object
            This display, with its axes and figure.
        """
        self.ax_ = ax = new_axes(ax, (4.8, 5.6))
        self.figure_ = ax.figure
        self.ax_counts_ = below = _panel_below(ax)
        left, width, full = self.bin_edges[:-1], np.diff(self.bin_edges), self.counts > 0
        bars = {"width": width[full], "align": "edge", "linewidth": 0.6}
        ax.bar(
            left[full],
            self.accuracy[full],
            color=SKY,
            edgecolor=BLUE,
            alpha=0.55,
            label="accuracy",
            **bars,
        )
        ax.plot([0, 1], [0, 1], "--", color="black", lw=1, label="perfect calibration")
        ends = np.abs(np.stack([self.lower, self.upper]) - self.accuracy)[:, full]
        ax.errorbar(
            self.confidence[full],
            self.accuracy[full],
            yerr=ends,
            fmt="o",
            color="black",
            markerfacecolor="white",
            markersize=4,
            capsize=2,
            clip_on=False,  # draw all of a point at accuracy 0 or confidence 1
            zorder=3,
            lw=1,
            label=f"{100 * self.level:.4g} % interval",
        )
        ax.set(xlim=(0, 1), ylim=(0, 1), ylabel="accuracy")
        ax.tick_params(labelbottom=False)
        legend_above(ax, f"{self.name}: ECE {self.ece:.3f} ({len(left)} bins)", 3)

        below.bar(left[full], self.counts[full], color=GREY, edgecolor="white", **bars)
        below.set(xlim=(0, 1), xlabel="confidence (highest probability)", ylabel="rows")
        below.yaxis.get_major_locator().set_params(nbins=3)
        for panel in (ax, below):
            panel.spines[["top", "right"]].set_visible(False)
        return self


def _panel_below(ax: Any) -> Any:
    """Axes for the counts: the lower part of the cell of ``ax``, or below it without a cell."""
    cell = ax.get_subplotspec()
    if cell is None:
        return ax.inset_axes((0, -0.27, 1, 0.22))
    upper, lower = cell.subgridspec(2, 1, height_ratios=(4.5, 1), hspace=0.06)
    ax.set_subplotspec(upper)
    return ax.figure.add_subplot(lower)
