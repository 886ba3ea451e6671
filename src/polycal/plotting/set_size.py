"""How many classes the predicted sets have."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from .._utils.arrays import Floats, Ints
from .._utils.labels import class_columns
from .._utils.validation import share
from .style import BLUE, GREY, HATCHES, SKY, check_mask, legend_above, model_name, new_axes, require


@dataclass(kw_only=True, eq=False, repr=False)
class SetSizeDisplay:
    """Number of rows by the size of their sets, and how often sets of each size hold the class.

    Make a display with ``from_estimator`` or ``from_predictions``.

    Parameters
    ----------
    counts : ndarray of shape (n_classes + 1,)
        Number of rows whose set has 0, 1, ... classes.
    n_out : ndarray of shape (n_classes + 1,)
        How many of them are out of distribution.
    held : ndarray of shape (n_classes + 1,) or None
        Share of the sets of each size that hold the class; NaN where there are none, None without
        labels.
    coverage : float or None
        Share of all sets that hold the class; None without labels.
    wanted : float or None
        The coverage that was asked for.
    name : str
        Name of the model, for the title.

    Attributes
    ----------
    ax_, figure_ : matplotlib objects
        The axes and their figure; set by ``plot``.

    Examples
    --------
    >>> from polycal.plotting import SetSizeDisplay
    >>> display = SetSizeDisplay.from_predictions([[1, 0], [1, 1], [0, 1]], [0, 1, 0])
    >>> display.counts.tolist(), display.held.tolist()
    ([0, 2, 1], [nan, 0.5, 1.0])
    """

    counts: Ints
    n_out: Ints
    held: Floats | None
    coverage: float | None
    wanted: float | None
    name: str
    ax_: Any = field(init=False)
    figure_: Any = field(init=False)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike | None = None,
        *,
        coverage: float = 0.9,
        by_class: bool = False,
        name: str | None = None,
    ) -> Self:
        """Compute the sizes of the sets of a fitted model.

        Parameters
        ----------
        estimator : fitted polycal estimator
            The model.
        X : array-like of shape (n_samples, n_features)
            Rows that the model was not fitted on.
        y : array-like of shape (n_samples,), default=None
            Labels, as in ``classes_``, where they are known.
        coverage : float, default=0.9
            Share of new rows whose set holds their class.
        by_class : bool, default=False
            Whether the share holds for each class.
        name : str, default=None
            Name of the model, for the title; the name of its class by default.
        """
        require(estimator, "predict_set", "classes_")
        sets, out = estimator.predict_set(X, coverage, by_class=by_class, return_out=True)
        codes = None if y is None else class_columns(y, estimator.classes_)
        names = {"name": model_name(estimator, name)}
        return cls.from_predictions(sets, codes, out=out, wanted=coverage, **names)

    @classmethod
    def from_predictions(
        cls,
        sets: ArrayLike,
        y: ArrayLike | None = None,
        *,
        out: ArrayLike | None = None,
        wanted: float | None = None,
        name: str = "model",
    ) -> Self:
        """Compute the sizes of given sets.

        Parameters
        ----------
        sets : array-like of bool, shape (n_samples, n_classes)
            Whether each class is in the set.
        y : array-like of shape (n_samples,), default=None
            Column of the true class, 0 to n_classes - 1, where it is known.
        out : array-like of bool, shape (n_samples,), default=None
            Which rows are out of distribution; none by default.
        wanted : float, default=None
            The coverage that was asked for.
        name : str, default="model"
            Name of the model, for the title.
        """
        if wanted is not None:
            share(wanted=wanted)
        inside = np.asarray(sets)
        if inside.ndim != 2 or not inside.size or not np.isin(inside, (0, 1)).all():
            raise ValueError(
                "sets must be truth values of shape (n_samples, n_classes), as predict_set returns "
                f"them; got shape {inside.shape}."
            )
        size, n = inside.sum(axis=1).astype(int), inside.shape[1] + 1
        counts, held, coverage = np.bincount(size, minlength=n), None, None
        if y is not None:
            codes = np.asarray(y)
            if codes.shape != size.shape or not np.isin(codes, np.arange(n - 1)).all():
                raise ValueError(
                    f"y must hold a column of sets, 0 to {n - 2}, for each of its {len(size)} rows."
                )
            hit = inside[np.arange(len(size)), codes.astype(int)]
            total = np.bincount(size, hit, minlength=n)
            held = np.where(counts > 0, total / np.maximum(counts, 1), np.nan)
            coverage = float(hit.mean())
        n_out = np.bincount(size[check_mask(out, len(size), "out")], minlength=n)
        return cls(
            counts=counts, n_out=n_out, held=held, coverage=coverage, wanted=wanted, name=name
        )

    def plot(self, ax: Any = None) -> Self:
        """Draw a bar for each size, with the share that holds the class above it.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on; None makes a new figure.

        Returns
        -------
        self : object
            This display, with its axes and figure.
        """
        self.ax_ = ax = new_axes(ax, (4.8, 4.0))
        self.figure_ = ax.figure
        shown = np.flatnonzero(self.counts)
        places, rows = np.arange(len(shown)), self.counts[shown]
        bars = {"width": 0.8, "edgecolor": BLUE, "linewidth": 0.6}
        ax.bar(places, rows - self.n_out[shown], color=SKY, label="in distribution", **bars)
        if self.n_out.any():
            below, above = rows - self.n_out[shown], self.n_out[shown]
            hatch = {"hatch": HATCHES[1], "color": GREY, "alpha": 0.6}
            ax.bar(places, above, bottom=below, label="out", **{**bars, **hatch})
        if self.held is not None:
            for place, size in zip(places, shown, strict=True):
                ax.annotate(
                    f"{self.held[size]:.0%}",
                    (place, self.counts[size]),
                    xytext=(0, 2),
                    textcoords="offset points",
                    ha="center",
                    va="bottom",
                    fontsize=8,
                )
        ax.set_xticks(places, [str(size) for size in shown])
        ax.set(xlabel="classes in the set", ylabel="rows", ylim=(0, 1.1 * rows.max()))
        wanted = [] if self.wanted is None else [f"{self.wanted:g} wanted"]
        reached = [] if self.coverage is None else [f"{self.coverage:.3f} reached"]
        line = f"\ncoverage: {', '.join(wanted + reached)}" if wanted or reached else ""
        legend_above(ax, self.name + line, 2)
        ax.spines[["top", "right"]].set_visible(False)
        return self
