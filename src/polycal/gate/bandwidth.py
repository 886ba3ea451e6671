"""The shape of each polytope's density: centre, variance, and the shares of its symbols."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ..core.density import Density
from ..core.polytopes import NO_SYMBOLS, Polytopes
from ..core.reading import ROUNDING
from ..kernels import Execution, KernelIndex


def polytope_density(
    polytopes: Polytopes, regularization: float, start: NDArray = NO_SYMBOLS
) -> Density:
    """The paper: mean and variance of the rows inside the polytope, plus lambda.

    A number that no row of the polytope has takes the mean and variance of all rows.
    """
    mean, variance = polytopes.mean, polytopes.variance
    weight = np.broadcast_to(polytopes.observed, mean.shape)
    empty = weight == 0
    if empty.any():
        center, spread = _overall(mean, variance, polytopes.observed)
        mean, variance = np.where(empty, center, mean), np.where(empty, spread, variance)
    shares = smoothed_shares(polytopes.levels, polytopes.levels, start)
    return _assemble(polytopes, mean, variance + regularization, np.log(shares), start)


def geodesic_density(
    polytopes: Polytopes,
    index: KernelIndex,
    regularization: float,
    execution: Execution,
    start: NDArray = NO_SYMBOLS,
    counted: tuple[Polytopes, NDArray] | None = None,
) -> Density:
    """Variance around the polytope's mean over all rows, weighted by K(r, s), shrunk halfway.

    local_r = sum_s K(r, s) n_s (var_s + (mu_s - mu_r)^2) / sum_s K(r, s) n_s + lambda
    sigma_r^2 = sqrt(local_r * mean of local over all rows), feature by feature.

    Most polytopes of a default forest hold one row, so the local variance rests on few
    neighbours; halfway (on the log scale) to the common one it judges new classes better.
    The shares of a symbol are K-weighted and shrunk halfway in the same way. A number that no
    row of the polytope has takes the K-weighted mean of the others.

    ``counted`` are the rows that variances and shares are estimated from, where not all are,
    with the places of their polytopes; the centres stay those of all rows.
    """
    rows, place = counted or (polytopes, np.arange(len(polytopes)))
    n_numbers, n_levels = polytopes.mean.shape[1], polytopes.levels.shape[1]
    weight = rows.observed  # one column, or one for each number
    width = weight.shape[1]
    # Centred, so that the difference of squares below does not cancel.
    center, overall = _overall(rows.mean, rows.variance, weight)
    moments = np.zeros((len(polytopes), width + 2 * n_numbers + n_levels))
    _fill_moments(weight, rows.mean, rows.variance, center, place, moments)
    moments[place, width + 2 * n_numbers :] = rows.levels
    sums = index.matmul(polytopes.modes, moments, execution)
    del moments
    # The centres are the polytopes' own, but for numbers that no row of a polytope has.
    mean = polytopes.mean.copy() if polytopes.observed.shape[1] > 1 else polytopes.mean
    variance = np.empty_like(mean)
    _local_variances(sums, width, polytopes.observed, center, overall, mean, variance)
    near_levels = sums[:, width + 2 * n_numbers :]
    variance += regularization
    common_variance = rows.size @ (variance if counted is None else variance[place])
    variance *= common_variance / rows.size.sum()
    np.sqrt(variance, out=variance)
    near_shares = smoothed_shares(near_levels, rows.levels, start)
    common = smoothed_shares(rows.levels.sum(axis=0)[None], rows.levels, start)
    log_share = 0.5 * (np.log(near_shares) + np.log(common))
    return _assemble(polytopes, mean, variance, log_share, start)


def class_density(polytopes: Polytopes, regularization: float) -> Density:
    """One width for every feature and polytope, for rows that are directions.

    sigma^2 = variance of a feature around the mean of its class, mean over the features, + lambda

    The features of an embedding have one unit, so the kernel falls with the angle alone.
    """
    mean, size, counts = polytopes.mean, polytopes.size, polytopes.counts
    of_class = counts.sum(axis=0)
    centers = counts.T @ mean / of_class[:, None]
    squares = size @ np.einsum("ij,ij->i", mean, mean) + (size @ polytopes.variance).sum()
    within = (squares - of_class @ np.einsum("ij,ij->i", centers, centers)) / size.sum()
    variance = np.full((1, mean.shape[1]), max(within, 0.0) / mean.shape[1] + regularization)
    return _assemble(polytopes, mean, variance, np.empty((len(mean), 0)), NO_SYMBOLS)


def smoothed_shares(local: NDArray, levels: NDArray, start: NDArray) -> NDArray:
    """Share of each level, with one more row spread by the shares among all rows.

    Those have one more row themselves, spread evenly; so a level that was never seen has a
    share too, below that of every level that was.
    """
    width = np.diff(start)

    def normalised(counts: NDArray, one_row: NDArray) -> NDArray:
        if len(width) == 0:
            return counts
        total = np.add.reduceat(counts, start[:-1], axis=1) + 1.0
        return (counts + one_row) / np.repeat(total, width, axis=1)

    common = normalised(levels.sum(axis=0)[None], np.repeat(1.0 / width, width))
    return normalised(local, common)


def _overall(mean: NDArray, variance: NDArray, weight: NDArray) -> tuple[NDArray, NDArray]:
    """Mean and variance of each number over all rows that have it; weight may be one column."""
    center, spread = np.zeros(mean.shape[1]), np.zeros(mean.shape[1])
    _overall_moments(mean, variance, weight, center, spread)
    return center, spread


# Loops, since with embeddings of a thousand numbers each array is half a gigabyte.


@njit(nogil=True, cache=True)
def _overall_moments(mean, variance, weight, center, spread):
    wide = weight.shape[1] > 1
    total = np.zeros(len(center))
    for i in range(mean.shape[0]):
        for j in range(len(center)):
            w = weight[i, j if wide else 0]
            total[j] += w
            center[j] += w * mean[i, j]
    for j in range(len(center)):
        if total[j] > 0:
            center[j] /= total[j]
    for i in range(mean.shape[0]):
        for j in range(len(center)):
            away = mean[i, j] - center[j]
            spread[j] += weight[i, j if wide else 0] * (variance[i, j] + away * away)
    for j in range(len(center)):
        if total[j] > 0:
            spread[j] /= total[j]


@njit(nogil=True, cache=True)
def _fill_moments(weight, mean, variance, center, place, out):
    """Weight, weighted mean and weighted mean square of each polytope, in its row of ``out``."""
    width, n = weight.shape[1], mean.shape[1]
    for i in range(len(place)):
        row = out[place[i]]
        for c in range(width):
            row[c] = weight[i, c]
        for j in range(n):
            w = weight[i, j if width > 1 else 0]
            if w > 0:
                moved = mean[i, j] - center[j]
                row[width + j] = w * moved
                row[width + n + j] = w * (variance[i, j] + moved * moved)


@njit(nogil=True, cache=True)
def _local_variances(sums, width, observed, center, overall, mean, out_variance):
    """Variance around each mean from K-weighted moments; fills the means where none was seen."""
    n, wide = mean.shape[1], observed.shape[1] > 1
    for r in range(mean.shape[0]):
        for j in range(n):
            weight = sums[r, j if width > 1 else 0]
            first = sums[r, width + j] / weight if weight > 0 else 0.0
            there = observed[r, j if wide else 0] > 0
            moved = mean[r, j] - center[j] if there else first
            if not there:
                mean[r, j] = first + center[j]
            if weight > 0:
                second = sums[r, width + n + j] / weight
                out_variance[r, j] = max(second - 2 * moved * first + moved * moved, 0.0)
            else:
                out_variance[r, j] = overall[j]


def _assemble(
    polytopes: Polytopes, mean: NDArray, variance: NDArray, log_share: NDArray, start: NDArray
) -> Density:
    size = polytopes.size
    # One row, half of it missing, among those that had every number.
    log_missing = np.full(mean.shape[1], -np.log(2.0 * (size.sum() + 1.0)))
    if polytopes.observed.shape[1] > 1:  # numbers that were missing have a symbol for it
        complete = (1.0 - ROUNDING) * size[:, None]
        log_missing[(polytopes.observed < complete).any(axis=0)] = 0.0
    return Density.from_parts(mean, variance, size / size.sum(), log_missing, log_share, start)
