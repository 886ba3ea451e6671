"""Means over rows: confidence, its distance from the prior, distance between two posteriors."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from .._utils.validation import check_weights
from .input import check_labels, check_priors, check_probabilities


def mean_max_confidence(P: ArrayLike, *, sample_weight: ArrayLike | None = None) -> float:
    """Mean of the highest probability of each row (MMC).

    Parameters
    ----------
    P : array-like of shape (n_samples, n_classes)
        Predicted probabilities.
    sample_weight : array-like of shape (n_samples,), default=None
        Weight of each row; equal weights by default.

    Returns
    -------
    float
        Between 1 / n_classes and 1.

    Notes
    -----
    Guarantees: the order of rows and of classes does not matter; a row of weight 2 counts as two.

    Edge cases: no rows is an error.

    Examples
    --------
    >>> mean_max_confidence([[0.5, 0.5], [1.0, 0.0]])
    0.75
    """
    P = check_probabilities(P)
    return float(np.average(P.max(axis=1), weights=check_weights(sample_weight, len(P))))


def mean_max_confidence_on_errors(
    y: ArrayLike, P: ArrayLike, *, sample_weight: ArrayLike | None = None
) -> float:
    """Mean of the highest probability over misclassified rows (MMC* of the paper).

    Lower is better: a model should be unsure where it is wrong.

    Parameters
    ----------
    y : array-like of shape (n_samples,)
        Column of P that is the true class, 0 to n_classes - 1.
    P : array-like of shape (n_samples, n_classes)
        Predicted probabilities; the prediction is the highest, the first of equal ones.
    sample_weight : array-like of shape (n_samples,), default=None
        Weight of each row; equal weights by default.

    Returns
    -------
    float
        Between 1 / n_classes and 1, or NaN.

    Notes
    -----
    Guarantees: correctly classified rows do not matter; a row of weight 2 counts as two.

    Edge cases: NaN where no row of positive weight is wrong, because no rows are left to average.

    Examples
    --------
    >>> mean_max_confidence_on_errors([0, 0, 1], [[0.9, 0.1], [0.3, 0.7], [0.8, 0.2]])
    0.75
    """
    P = check_probabilities(P)
    wrong = P.argmax(axis=1) != check_labels(y, P)
    weight = check_weights(sample_weight, len(P)) * wrong
    if not weight.any():
        return float("nan")
    return float(np.average(P.max(axis=1), weights=weight))


def ood_calibration_error(
    P: ArrayLike, priors: ArrayLike, *, sample_weight: ArrayLike | None = None
) -> float:
    """Mean distance between the highest probability and the highest true prior (OCE).

    ``OCE = 1/n sum_i | max_y P_iy - max_y prior_y |``, over rows that are out of distribution.

    Parameters
    ----------
    P : array-like of shape (n_samples, n_classes)
        Probabilities predicted for out-of-distribution rows.
    priors : array-like of shape (n_classes,)
        True class probabilities of the population, in the order of the columns of P; not
        those of a resampled training set.
    sample_weight : array-like of shape (n_samples,), default=None
        Weight of each row; equal weights by default.

    Returns
    -------
    float
        From 0 (every row is as confident as the prior) to 1 - 1 / n_classes.

    Notes
    -----
    Guarantees: 0 when every row equals the priors; a row of weight 2 counts as two.

    Edge cases: only the highest values are compared, so that the right confidence in the wrong
    class also gives 0; a class may have prior 0.

    Examples
    --------
    >>> ood_calibration_error([[0.5, 0.5], [1.0, 0.0]], [0.5, 0.5])
    0.25
    """
    P = check_probabilities(P)
    distance = np.abs(P.max(axis=1) - check_priors(priors, P.shape[1]).max())
    return float(np.average(distance, weights=check_weights(sample_weight, len(P))))


def hellinger_distance(
    P: ArrayLike, Q: ArrayLike, *, sample_weight: ArrayLike | None = None
) -> float:
    """Hellinger distance between two posteriors, averaged over points.

    H(p, q) = sqrt(1/2 sum_y (sqrt p_y - sqrt q_y)^2) for each row, then the mean over rows.

    Parameters
    ----------
    P, Q : array-like of shape (n_samples, n_classes)
        For instance estimated and true posteriors at the same points.
    sample_weight : array-like of shape (n_samples,), default=None
        Weight of each row; equal weights by default.

    Returns
    -------
    float
        From 0 (equal in every row) to 1 (no class in common in any row).

    Notes
    -----
    Guarantees: symmetric in P and Q; the order of rows and of classes does not matter, if it is
    the same in both; a row of weight 2 counts as two.

    Edge cases: probabilities of 0 are exact; P and Q of different shapes are an error, a single
    row is not broadcast.

    Examples
    --------
    >>> hellinger_distance([[1.0, 0.0], [0.5, 0.5]], [[0.0, 1.0], [0.5, 0.5]])
    0.5
    """
    P, Q = check_probabilities(P), check_probabilities(Q, "Q")
    if P.shape != Q.shape:
        raise ValueError(
            f"P and Q must have the same shape; got {P.shape} and {Q.shape}. Give both posteriors "
            "at the same points, with the same classes; np.broadcast_to repeats a single row."
        )
    distance = np.sqrt(0.5 * ((np.sqrt(P) - np.sqrt(Q)) ** 2).sum(axis=1))
    return float(np.average(distance, weights=check_weights(sample_weight, len(P))))
