"""Colours, marks that stay distinct in grey, and checks that the displays share."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from .._utils.arrays import Bools, Floats
from .._utils.optional import optional
from .._utils.validation import as_floats
from .._utils.warnings import ShiftWarning

# Okabe and Ito: distinct for colour-blind readers too. Black is kept for reference lines.
BLUE, ORANGE, GREEN, PINK = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
YELLOW, SKY, AMBER, GREY = "#F0E442", "#56B4E9", "#E69F00", "#666666"
COLORS = (BLUE, ORANGE, GREEN, PINK, AMBER, SKY, YELLOW, GREY)
LINES = ("-", "--", ":", "-.", (0, (5, 1, 1, 1, 1, 1)), (0, (8, 3)), (0, (1, 3)), (0, (3, 1)))
MARKERS = ("o", "^", "s", "D", "v", "P", "X", "*")
HATCHES = ("", "///", "...", "\\\\\\", "xxx", "---", "|||", "ooo")
# Lightness increases with the probability, so that it stays readable in grey.
SEQUENTIAL = "cividis"
SMALL = 8  # points, for legends and notes


def new_axes(ax: Any, size: tuple[float, float]) -> Any:
    """``ax``, or the only axes of a new figure."""
    plt = optional("matplotlib.pyplot", "plot")
    return plt.subplots(figsize=size, layout="constrained")[1] if ax is None else ax


def legend_above(ax: Any, title: str, n_columns: int, handles: list[Any] | None = None) -> None:
    """A legend in one row above the axes, where no data is, and the title above it."""
    ax.legend(
        handles=ax.get_legend_handles_labels()[0] if handles is None else handles,
        loc="lower center",
        bbox_to_anchor=(0.5, 1.0),
        ncols=n_columns,
        fontsize=SMALL,
        frameon=False,
        columnspacing=1.2,
        handlelength=1.8,
    )
    ax.set_title(title, pad=26)


def far_proba(estimator: Any, points: Any) -> Any:
    """Probabilities at points that are meant to be far from the data: no warning about that."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ShiftWarning)
        return estimator.predict_proba(points)


def model_name(estimator: Any, name: str | None) -> str:
    """The given name, or that of the estimator's class."""
    return type(estimator).__name__ if name is None else name


def require(estimator: Any, *methods: str) -> None:
    """Raise an error if the estimator lacks one of these attributes."""
    for method in methods:
        if not hasattr(estimator, method):
            raise TypeError(
                f"estimator must have the method {method}; {type(estimator).__name__} has none. "
                "Give a fitted polycal estimator, or compute the values and use from_predictions."
            )


def check_mask(mask: Any, n_rows: int, name: str) -> Bools:
    """A truth value for each row; False for all where the mask is None."""
    if mask is None:
        return np.zeros(n_rows, dtype=bool)
    values = np.asarray(mask)
    if values.shape != (n_rows,) or values.dtype != bool:
        raise ValueError(
            f"{name} must hold a truth value for each of the {n_rows} rows; got shape "
            f"{values.shape} of {values.dtype}."
        )
    found: Bools = values
    return found


def check_table(X: Any, n_features: int | None = None, name: str = "X") -> Floats:
    """Finite rows of shape (n_samples, n_features), at least one."""
    values = as_floats(X, name, "numbers in rows and columns")
    if values.ndim != 2 or not values.size:
        raise ValueError(
            f"{name} must have shape (n_samples, n_features) and at least one row; got shape "
            f"{values.shape}. Give the rows of a table."
        )
    if n_features is not None and values.shape[1] != n_features:
        raise ValueError(
            f"{name} must have {n_features} features; it has {values.shape[1]}. Fit the model on "
            f"{n_features} features, or on a projection to {n_features}."
        )
    if not np.isfinite(values).all():
        raise ValueError(f"{name} must be finite; it holds NaN or infinity. Remove such rows.")
    return values
