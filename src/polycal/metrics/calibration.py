"""Binned calibration error, of the highest probability or of each class."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from .._utils.arrays import Floats, Ints
from .._utils.significance import WEIGHT_ROUNDING
from .._utils.validation import check_weights, count, one_of
from .input import check_labels, check_probabilities

STRATEGIES = ("width", "mass")


def expected_calibration_error(
    y: ArrayLike,
    P: ArrayLike,
    n_bins: int = 20,
    *,
    sample_weight: ArrayLike | None = None,
    strategy: str = "width",
) -> float:
    """Mean gap between confidence and accuracy over bins of confidence (ECE).

    The confidence c_i is the highest probability of row i, and a_i is 1 if that class is the
    true one, else 0. With B_r the rows of bin r::

        ECE = sum_r |B_r|/n |mean of c over B_r - mean of a over B_r|
            = 1/n sum_r |sum over B_r of (c_i - a_i)|.

    Parameters
    ----------
    y : array-like of shape (n_samples,)
        Column of P that is the true class, 0 to n_classes - 1.
    P : array-like of shape (n_samples, n_classes)
        Predicted probabilities; the first of equal ones is the prediction.
    n_bins : int, default=20
        R, the number of bins.
    sample_weight : array-like of shape (n_samples,), default=None
        Weight of each row; equal weights by default.
    strategy : {"width", "mass"}, default="width"
        "width": bin r of 1 to R holds ((r-1)/R, r/R]; the first also 0.0, the last ends with 1.0.
        "mass": bins of nearly equal weight. With F(c) the share of rows up to c and F(c-) the
        share below it, c falls into bin 1 + floor(R (F(c-) + F(c)) / 2), so that rows of equal
        confidence share a bin.

    Returns
    -------
    float
        Between 0 and 1.

    Notes
    -----
    Guarantees: each row is in exactly one bin; the order of rows does not matter, nor does that of
    classes unless two share the highest probability; a row of weight 2 counts as two.

    Edge cases: an empty bin adds nothing; one bin gives ``|mean confidence - accuracy|``; a
    confidence on an edge belongs to the bin below that edge, where r/R is the nearest float; if all
    confidences are equal, "mass" has only one bin with rows.

    The value of a finite sample is above 0 even for a perfect model:
    ``calibration_error_interval`` estimates by how much.

    Examples
    --------
    >>> round(expected_calibration_error([0, 0, 0, 1, 1], [[0.9, 0.1]] * 5), 12)
    0.3
    """
    return gaps_by_cell(y, P, n_bins, sample_weight, strategy, classwise=False).error()


def classwise_calibration_error(
    y: ArrayLike,
    P: ArrayLike,
    n_bins: int = 20,
    *,
    sample_weight: ArrayLike | None = None,
    strategy: str = "width",
) -> float:
    """Mean over classes of the gap between probability and frequency, over bins of probability.

    Every column of P counts, not only the highest. With B_rk the rows whose P_ik is in bin
    r::

        1/K sum_k sum_r |B_rk|/n |mean of P_ik over B_rk - share of class k in B_rk|.

    Parameters
    ----------
    y : array-like of shape (n_samples,)
        Column of P that is the true class, 0 to n_classes - 1.
    P : array-like of shape (n_samples, n_classes)
        Predicted probabilities.
    n_bins : int, default=20
        R, the number of bins of each class.
    sample_weight : array-like of shape (n_samples,), default=None
        Weight of each row; equal weights by default.
    strategy : {"width", "mass"}, default="width"
        As in ``expected_calibration_error``, for each column separately.

    Returns
    -------
    float
        Between 0 and 2 / n_classes, for two classes or more.

    Notes
    -----
    Guarantees: each row is in exactly one bin of each class; the order of rows and of classes does
    not matter; a row of weight 2 counts as two.

    Edge cases: a class without rows adds its mean probability; the probability 0.0 is in the first
    bin; with many classes most bins hold probabilities near 0, and the mean is small for any model.

    Examples
    --------
    >>> round(classwise_calibration_error([0, 0, 0, 1, 1], [[0.9, 0.1]] * 5), 12)
    0.3
    """
    return gaps_by_cell(y, P, n_bins, sample_weight, strategy, classwise=True).error()


@dataclass(frozen=True)
class Gaps:
    """Contribution of each row to the gap of its cell; a cell is a bin, or a bin of one class.

    The error is the sum over cells of the absolute sum of ``gap``.
    """

    gap: Floats  # (n_samples, 1 or n_classes), share of the weight times probability - outcome
    cell: Ints  # the same shape, 0 to n_cells - 1
    n_cells: int
    share: Floats  # (n_samples,) of the weight, sums to 1

    def error(self) -> float:
        """Sum over cells of the absolute gap."""
        total = np.bincount(self.cell.ravel(), self.gap.ravel(), minlength=self.n_cells)
        return float(np.abs(total).sum())


def gaps_by_cell(
    y: ArrayLike,
    P: ArrayLike,
    n_bins: int,
    sample_weight: ArrayLike | None,
    strategy: str,
    *,
    classwise: bool,
) -> Gaps:
    """Check the input, bin the probabilities, and weigh the gaps."""
    count(n_bins=n_bins)
    one_of(STRATEGIES, strategy=strategy)
    P = check_probabilities(P)
    y = check_labels(y, P)
    weight = check_weights(sample_weight, len(P))
    share = weight / weight.sum()
    if classwise:
        value, outcome = P, y[:, None] == np.arange(P.shape[1])
    else:
        guess = P.argmax(axis=1)[:, None]
        value, outcome = np.take_along_axis(P, guess, axis=1), guess == y[:, None]
    n_columns = value.shape[1]
    if strategy == "width":
        cell = equal_width(value, n_bins)
    else:
        cell = np.stack([equal_mass(column, share, n_bins) for column in value.T], axis=1)
    cell += n_bins * np.arange(n_columns)
    gap = (share / n_columns)[:, None] * (value - outcome)
    return Gaps(gap, cell, n_bins * n_columns, share)


def equal_width(value: Floats, n_bins: int) -> Ints:
    """Bin of each value in [0, 1], of any shape: 0 for [0, 1/R], then r for (r/R, (r+1)/R]."""
    # The inner edges r / R as floats, so that a value on an edge falls into its bin.
    return np.searchsorted(np.arange(1, n_bins) / n_bins, value, side="left")


def equal_mass(value: Floats, share: Floats, n_bins: int) -> Ints:
    """Bin of each value, shape (n_samples,), by the mid-rank, in weight, of its ties."""
    order = np.argsort(value)
    ordered = value[order]
    below = np.concatenate([[0.0], np.cumsum(share[order])])
    first = below[np.searchsorted(ordered, value, side="left")]
    last = below[np.searchsorted(ordered, value, side="right")]
    bins = np.floor(n_bins * (first + last) / 2 + WEIGHT_ROUNDING).astype(np.intp)
    # Rows of weight 0 above all others would lie beyond the last bin.
    clipped: Ints = np.minimum(bins, n_bins - 1)
    return clipped
