"""The shape of each polytope's density: centre, variance, and the shares of its symbols."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ._density import Density
from ._polytopes import NO_SYMBOLS, Polytopes
from ._types import ROUNDING
from .kernels import Effort, KernelIndex


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
        center, spread = _overall(mean, variance, weight)
        mean, variance = np.where(empty, center, mean), np.where(empty, spread, variance)
    shares = smoothed_shares(polytopes.levels, polytopes.levels, start)
    return _assemble(polytopes, mean, variance + regularization, np.log(shares), start)


def geodesic_density(
    polytopes: Polytopes,
    index: KernelIndex,
    regularization: float,
    effort: Effort,
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
    spread_weight = np.broadcast_to(weight, rows.mean.shape)
    center, overall = _overall(rows.mean, rows.variance, spread_weight)
    moved = np.where(spread_weight > 0, rows.mean - center, 0.0)
    moments = np.zeros((len(polytopes), width + 2 * n_numbers + n_levels))
    moments[place, :width] = weight
    moments[place, width : width + n_numbers] = weight * moved
    moments[place, width + n_numbers : width + 2 * n_numbers] = weight * (rows.variance + moved**2)
    moments[place, width + 2 * n_numbers :] = rows.levels
    sums = index.matmul(polytopes.modes, moments, effort)
    parts = np.split(sums, [width, width + n_numbers, width + 2 * n_numbers], axis=1)
    near_weight, first, second, near_levels = parts
    divisor = np.where(near_weight > 0, near_weight, 1.0)
    first, second = first / divisor, second / divisor
    mean = np.where(polytopes.observed > 0, polytopes.mean - center, first)
    local = np.maximum(second - 2 * mean * first + mean**2, 0.0)
    local = np.where(near_weight > 0, local, overall) + regularization
    variance = np.sqrt(local * np.average(local[place], axis=0, weights=rows.size))
    near_shares = smoothed_shares(near_levels, rows.levels, start)
    common = smoothed_shares(rows.levels.sum(axis=0)[None], rows.levels, start)
    log_share = 0.5 * (np.log(near_shares) + np.log(common))
    return _assemble(polytopes, mean + center, variance, log_share, start)


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
    """Mean and variance of each number over all rows that have it."""
    total = weight.sum(axis=0)
    total = np.where(total > 0, total, 1.0)
    center = (weight * mean).sum(axis=0) / total
    return center, (weight * (variance + (mean - center) ** 2)).sum(axis=0) / total


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
