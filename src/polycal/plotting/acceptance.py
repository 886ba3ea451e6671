"""Accuracy of the answers that are accepted, against their share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from .._utils.arrays import Floats
from .._utils.labels import class_columns
from .._utils.validation import share
from ..metrics.input import check_labels, check_probabilities
from .reliability import wilson_interval
from .style import BLUE, GREY, ORANGE, SKY, check_mask, legend_above, model_name, new_axes, require

# Points of the curve at most, and rows of its first one.
N_POINTS = 200
FIRST = 20


@dataclass(kw_only=True, eq=False, repr=False)
class AcceptanceDisplay:
    """Accuracy against the share of rows that are answered, the surest first.

    Make a display with ``from_estimator`` or ``from_predictions``. Rows that are out of
    distribution come last.

    Parameters
    ----------
    answered : ndarray of shape (n_points,)
        Share of the rows that are answered.
    accuracy : ndarray of shape (n_points,)
        Share of them that are right.
    lower, upper : ndarray of shape (n_points,)
        Wilson's interval of the accuracy.
    expected : ndarray of shape (n_points,)
        Mean of their highest probability: the accuracy that the model expects.
    share_in : float
        Share of the rows that are not out.
    level : float
        Coverage of the interval.
    name : str
        Name of the model, for the title.

    Attributes
    ----------
    ax_, figure_ : matplotlib objects
        The axes and their figure; set by ``plot``.

    Examples
    --------
    >>> from polycal.plotting import AcceptanceDisplay
    >>> P = [[0.9, 0.1]] * 30 + [[0.6, 0.4]] * 10
    >>> display = AcceptanceDisplay.from_predictions([0] * 35 + [1] * 5, P)
    >>> float(display.answered[-1]), float(display.accuracy[-1])
    (1.0, 0.875)
    """

    answered: Floats
    accuracy: Floats
    lower: Floats
    upper: Floats
    expected: Floats
    share_in: float
    level: float
    name: str
    ax_: Any = field(init=False)
    figure_: Any = field(init=False)

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: ArrayLike, *, level: float = 0.95, name: str | None = None
    ) -> Self:
        """Compute the curve of a fitted model, on rows that it was not fitted on.

        Parameters
        ----------
        estimator : fitted polycal estimator
            The model.
        X : array-like of shape (n_samples, n_features)
            Rows that the model was not fitted on.
        y : array-like of shape (n_samples,)
            Labels, as in ``classes_``.
        level : float, default=0.95
            Coverage of Wilson's interval.
        name : str, default=None
            Name of the model, for the title; the name of its class by default.
        """
        require(estimator, "answer", "classes_", "model_")
        answer = estimator.answer(X)
        return cls.from_predictions(
            class_columns(y, estimator.classes_),
            answer.probabilities,
            out=estimator.model_.is_out(answer.log_f),
            level=level,
            name=model_name(estimator, name),
        )

    @classmethod
    def from_predictions(
        cls,
        y: ArrayLike,
        P: ArrayLike,
        *,
        out: ArrayLike | None = None,
        level: float = 0.95,
        name: str = "model",
    ) -> Self:
        """Compute the curve of given probabilities.

        Parameters
        ----------
        y : array-like of shape (n_samples,)
            Column of P that is the true class, 0 to n_classes - 1.
        P : array-like of shape (n_samples, n_classes)
            Predicted probabilities; the first of equal ones is the prediction.
        out : array-like of bool, shape (n_samples,), default=None
            Which rows are out of distribution; none by default.
        level : float, default=0.95
            Coverage of Wilson's interval.
        name : str, default="model"
            Name of the model, for the title.
        """
        share(level=level)
        P = check_probabilities(P)
        y, is_out = check_labels(y, P), check_mask(out, len(P), "out")
        confidence, right = P.max(axis=1), P.argmax(axis=1) == y
        order = np.lexsort((-confidence, is_out))
        steps = np.linspace(min(FIRST, len(P)), len(P), N_POINTS)
        n = np.unique(np.round(steps).astype(int))
        accuracy = np.cumsum(right[order])[n - 1] / n
        lower, upper = wilson_interval(accuracy, n.astype(float), level)
        return cls(
            answered=n / len(P),
            accuracy=accuracy,
            lower=lower,
            upper=upper,
            expected=np.cumsum(confidence[order])[n - 1] / n,
            share_in=float(1 - is_out.mean()),
            level=float(level),
            name=name,
        )

    def plot(self, ax: Any = None) -> Self:
        """Draw the accuracy with its interval, and the expected accuracy.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on; None makes a new figure.

        Returns
        -------
        self : object
            This display, with its axes and figure.
        """
        self.ax_ = ax = new_axes(ax, (4.8, 4.2))
        self.figure_ = ax.figure
        ends = {"color": SKY, "alpha": 0.4, "linewidth": 0}
        label = f"{100 * self.level:.4g} % interval"
        ax.fill_between(self.answered, self.lower, self.upper, label=label, **ends)
        ax.plot(self.answered, self.accuracy, color=BLUE, lw=2, label="accuracy")
        ax.plot(self.answered, self.expected, "--", color=ORANGE, lw=1.5, label="expected")
        if self.share_in < 1:
            ax.axvspan(self.share_in, 1, color=GREY, alpha=0.25, lw=0, label="out")
        bottom = min(float(self.lower.min()), float(self.expected.min()))
        ax.set(
            xlim=(0, 1),
            ylim=(max(0.0, bottom - 0.03), 1.005),
            xlabel="share of the rows that are answered, the surest first",
            ylabel="accuracy of these rows",
        )
        legend_above(ax, self.name, 4)
        ax.spines[["top", "right"]].set_visible(False)
        return self
