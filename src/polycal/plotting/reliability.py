"""Confidence against accuracy."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from .._utils.validation import check_weights, class_columns, count, share
from ..metrics import expected_calibration_error
from ..metrics.calibration import equal_width
from ..metrics.input import check_labels, check_probabilities
from .style import BLUE, GREY, SKY, legend_above, model_name, new_axes, require


def wilson_interval(accuracy: NDArray, n: NDArray, level: float) -> tuple[NDArray, NDArray]:
    """Wilson's score interval of a share observed in n rows.

    (p + z^2/2n -+ z sqrt(p(1-p)/n + z^2/4n^2)) / (1 + z^2/n), inside [0, 1] for any p.
    """
    z2 = float(ndtri(0.5 + level / 2)) ** 2
    middle = accuracy + z2 / (2 * n)
    reach = np.sqrt(z2 * (accuracy * (1 - accuracy) / n + z2 / (4 * n**2)))
    scale = 1 + z2 / n
    # At accuracy 0 or 1 one end is exactly 0 or 1, but for rounding.
    return np.clip((middle - reach) / scale, 0, 1), np.clip((middle + reach) / scale, 0, 1)


@dataclass(kw_only=True, eq=False, repr=False)
class ReliabilityDisplay:
    """Reliability diagram: accuracy in bins of confidence, with counts and intervals.

    Make it by ``from_estimator`` or ``from_predictions``.

    Parameters
    ----------
    bin_edges : ndarray of shape (n_bins + 1,)
        Equal widths from 0 to 1; a bin holds its right edge.
    counts : ndarray of shape (n_bins,)
        Rows of each bin, or their weight, scaled to mean 1.
    confidence, accuracy : ndarray of shape (n_bins,)
        Mean of the highest probability, and share of rows whose class it is; NaN where a bin is
        empty.
    lower, upper : ndarray of shape (n_bins,)
        Wilson's interval of the accuracy; NaN where a bin is empty.
    level : float
        Coverage of the interval.
    ece : float
        ``polycal.metrics.expected_calibration_error`` with these bins.
    name : str

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

    bin_edges: NDArray
    counts: NDArray
    confidence: NDArray
    accuracy: NDArray
    lower: NDArray
    upper: NDArray
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
        """The numbers of a fitted classifier on rows that it was not fitted on.

        Parameters
        ----------
        estimator : fitted classifier with ``predict_proba`` and ``classes_``
        X : rows that the estimator takes
        y : array-like of shape (n_samples,)
            Labels, as in ``classes_``.
        n_bins, level, sample_weight, name
            As in ``from_predictions``; the name of the class by default.
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
        """The numbers of given probabilities.

        Parameters
        ----------
        y : array-like of shape (n_samples,)
            Column of P that is the true class, 0 to n_classes - 1.
        P : array-like of shape (n_samples, n_classes)
            Predicted probabilities; the first of equal ones is the prediction.
        n_bins : int, default=20
        level : float, default=0.95
            Coverage of Wilson's interval of each bin.
        sample_weight : array-like of shape (n_samples,), default=None
            The interval takes (sum w)^2 / sum w^2 rows for the rows of a bin.
        name : str, default="model"
            For the title.
        """
        count(n_bins=n_bins)
        share(level=level)
        P = check_probabilities(P)
        y = check_labels(y, P)
        weight = check_weights(sample_weight, len(P))
        bins = equal_width(P.max(axis=1), n_bins)

        def total(values: NDArray) -> NDArray:
            return np.bincount(bins, values, minlength=n_bins)

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
            Where to draw; the counts go below it. None makes a figure.

        Returns
        -------
        self
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
            clip_on=False,  # a point at accuracy 0 or confidence 1 is whole
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
