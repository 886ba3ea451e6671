"""Measures of calibration, in and out of distribution."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = [
    "auroc",
    "expected_calibration_error",
    "mean_max_confidence",
    "ood_calibration_error",
]


def expected_calibration_error(
    y: ArrayLike, P: ArrayLike, n_bins: int = 20, *, sample_weight: ArrayLike | None = None
) -> float:
    """Mean gap between confidence and accuracy over equal-width bins of confidence.

    Bin r holds confidences in ((r-1)/R, r/R]; the last one includes 1.0.

    Parameters
    ----------
    y : array-like of shape (n_samples,)
        Column of P that is the true class, 0 to n_classes - 1.
    P : array-like of shape (n_samples, n_classes)
        Predicted probabilities.
    n_bins : int, default=20
    sample_weight : array-like of shape (n_samples,), default=None

    Examples
    --------
    >>> round(expected_calibration_error([0, 0, 0, 1, 1], [[0.9, 0.1]] * 5), 12)
    0.3
    """
    y, P = np.asarray(y), np.asarray(P, dtype=float)
    if y.shape != P.shape[:1] or not np.isin(y, np.arange(P.shape[-1])).all():
        raise ValueError(
            f"y must hold a column of P (0 to {P.shape[-1] - 1}) for each of its {len(P)} rows. "
            "For other labels use np.searchsorted(model.classes_, y)."
        )
    weight = np.ones(len(y)) if sample_weight is None else np.asarray(sample_weight, dtype=float)
    confidence = P.max(axis=1)
    gap = weight * (confidence - (P.argmax(axis=1) == y))
    # The inner edges r / R as floats, so that a confidence on an edge falls into its bin.
    bins = np.searchsorted(np.arange(1, n_bins) / n_bins, confidence, side="left")
    return float(np.abs(np.bincount(bins, gap, minlength=n_bins)).sum() / weight.sum())


def ood_calibration_error(P: ArrayLike, priors: ArrayLike) -> float:
    """Mean distance between the highest probability and the highest true prior.

    Examples
    --------
    >>> ood_calibration_error([[0.5, 0.5], [1.0, 0.0]], [0.5, 0.5])
    0.25
    """
    return float(np.abs(np.asarray(P).max(axis=1) - np.max(np.asarray(priors))).mean())


def mean_max_confidence(P: ArrayLike) -> float:
    """Mean of the highest probability of each row.

    Examples
    --------
    >>> mean_max_confidence([[0.5, 0.5], [1.0, 0.0]])
    0.75
    """
    return float(np.asarray(P).max(axis=1).mean())


def auroc(id_scores: ArrayLike, ood_scores: ArrayLike) -> float:
    """Chance that an in-distribution row scores above an out-of-distribution one.

    Higher scores mean more in distribution; ties count one half.

    Examples
    --------
    >>> auroc([2.0, 3.0], [1.0, 2.0])
    0.875
    """
    inside, outside = np.asarray(id_scores, dtype=float), np.sort(np.asarray(ood_scores, float))
    below: NDArray = np.searchsorted(outside, inside, side="left")
    up_to: NDArray = np.searchsorted(outside, inside, side="right")
    return float((below + up_to).mean() / (2 * len(outside)))
