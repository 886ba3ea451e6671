"""Checks of the input of all measures. Valid arrays take two passes; errors are located after."""

from __future__ import annotations

from numbers import Real

import numpy as np

from .._utils.arrays import Floats, Ints
from .._utils.validation import as_floats

# How far a row of probabilities may be from sum 1: single precision, or four printed digits.
SUM_TOLERANCE = 1e-3


def check_probabilities(P: object, name: str = "P") -> Floats:
    """Rows of probabilities, shape (n_samples, n_classes)."""
    values = as_floats(P, name, "a row of probabilities for each sample")
    if values.ndim != 2:
        raise ValueError(
            f"{name} must have shape (n_samples, n_classes); got shape {values.shape}. For the "
            "probability p of the second of two classes give np.column_stack([1 - p, p])."
        )
    if not values.size:
        raise ValueError(
            f"{name} must hold at least one row and one class; got shape {values.shape}. "
            "Leave the measure out where there are no rows."
        )
    _refuse_bad_rows(values, name)
    return values


def check_priors(priors: object, n_classes: int) -> Floats:
    """The probability of each class, shape (n_classes,); 0 is allowed."""
    values = as_floats(priors, "priors", "one probability for each class")
    if values.shape != (n_classes,):
        raise ValueError(
            f"priors must hold one probability for each of the {n_classes} columns of P; got "
            f"shape {values.shape}. Give the true class shares in the order of the columns."
        )
    _refuse_bad_rows(values[None], "priors")
    return values


def _refuse_bad_rows(values: Floats, name: str) -> None:
    with np.errstate(invalid="ignore"):  # infinity - infinity is reported below
        total = values @ np.ones(values.shape[1])  # faster than sum over a short axis
    # NaN and infinity fail these comparisons too.
    good = (np.abs(total - 1) <= SUM_TOLERANCE).all() and values.min() >= 0
    if good:
        return
    finite = np.isfinite(values).all(axis=1)
    if not finite.all():
        raise ValueError(
            f"{name} must hold finite probabilities; row {np.argmin(finite)} has NaN or infinity. "
            "Remove such rows, or find out why the model returns them."
        )
    if values.min() < 0:
        row = np.argmax((values < 0).any(axis=1))
        raise ValueError(
            f"{name} must not be negative; row {row} has {values[row].min():.6g}. Give "
            "probabilities, as predict_proba returns them, and no logits or log probabilities."
        )
    row = np.argmax(np.abs(total - 1) > SUM_TOLERANCE)
    raise ValueError(
        f"{name} must sum to 1 in each row; row {row} sums to {total[row]:.6g}. Divide each row by "
        "its sum, or apply softmax to logits."
    )


def check_labels(y: object, P: Floats) -> Ints:
    """The column of P that is each row's true class, shape (n_samples,)."""
    n_rows, n_classes = P.shape
    expected = f"y must hold a column of P (0 to {n_classes - 1}) for each of its {n_rows} rows"
    remedy = "For other labels use np.searchsorted(model.classes_, y)."
    labels = np.asarray(y)
    if labels.shape != (n_rows,):
        raise ValueError(f"{expected}; got shape {labels.shape}. {remedy}")
    if labels.dtype.kind not in "iub":
        # Integers may be stored as floats or objects; the string "1" is a name, not column 1.
        if labels.dtype.kind != "f" and not all(isinstance(label, Real) for label in labels):
            raise ValueError(f"{expected}; got {labels[0]!r} first. {remedy}")
        values = labels.astype(float)
        strange = ~np.isfinite(values) | (values != np.floor(values))
        if strange.any():
            raise ValueError(f"{expected}; got {values[np.argmax(strange)]}. {remedy}")
        labels = values.astype(np.intp)
    if labels.min() < 0 or labels.max() >= n_classes:
        outside = labels[(labels < 0) | (labels >= n_classes)]
        raise ValueError(f"{expected}; got {outside[0]}. {remedy}")
    return labels


def check_scores(scores: object, name: str) -> Floats:
    """One score for each row, shape (n_samples,); infinity is allowed, NaN is not."""
    values = as_floats(scores, name, "one score for each row")
    if values.ndim != 1:
        raise ValueError(
            f"{name} must have shape (n_samples,), one score for each row; got shape "
            f"{values.shape}. Give for instance model.score_samples(X), or P.max(axis=1)."
        )
    if not len(values):
        raise ValueError(
            f"{name} must hold at least one score; it is empty. Leave the measure out where there "
            "are no such rows."
        )
    missing = np.isnan(values)
    if missing.any():
        raise ValueError(
            f"{name} must not hold NaN; {missing.sum()} of {len(values)} scores are, the first in "
            f"row {np.argmax(missing)}. Remove such rows, or score them -inf (out of distribution)."
        )
    return values
