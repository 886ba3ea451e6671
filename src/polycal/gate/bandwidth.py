"""The shape of each polytope's density: centre, variance, and the shares of its symbols."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace

import numpy as np

from .._utils.arrays import Floats, Ints
from .._utils.compiled import njit
from .._utils.significance import WEIGHT_ROUNDING
from ..core.columns import Columns
from ..core.density import Density, Ranges
from ..core.execution import Execution
from ..core.polytopes import NO_SYMBOLS, Polytopes
from ..kernels import KernelIndex

# Least that is added to a variance, whatever the unit of a feature.
LEAST_VARIANCE = 1e-290


@dataclass(frozen=True)
class EstimatedFrom:
    """Some rows of a set of polytopes, which widths and shares are estimated from."""

    rows: Polytopes
    polytope: Ints  # number, among all polytopes, of each polytope in ``rows``


class Bandwidth(ABC):
    """How the widths of the densities are estimated."""

    # whether the range of each feature counts, and values far outside of it do not
    robust = False

    def __init__(self, regularization: float):
        self.regularization = regularization

    @abstractmethod
    def density(
        self,
        polytopes: Polytopes,
        index: KernelIndex,
        level_offsets: Ints,
        execution: Execution,
        *,
        directions: bool = False,
        columns: Columns | None = None,
        estimated_from: EstimatedFrom | None = None,
    ) -> Density:
        """The density of each polytope.

        ``directions`` is True where the rows are embeddings of length 1. ``columns`` describes the
        numbers, for a bandwidth that is robust. With ``estimated_from``, widths are estimated from
        these rows only.
        """


class PolytopeBandwidth(Bandwidth):
    """``bandwidth="polytope"``: variance of the rows in the polytope, as in the paper."""

    def density(
        self,
        polytopes: Polytopes,
        index: KernelIndex,
        level_offsets: Ints,
        execution: Execution,
        *,
        directions: bool = False,
        columns: Columns | None = None,
        estimated_from: EstimatedFrom | None = None,
    ) -> Density:
        return polytope_density(polytopes, self.regularization, level_offsets)


class GeodesicBandwidth(Bandwidth):
    """``bandwidth="geodesic"``: variance of all rows, weighted by similarity.

    With ``directions``, it is one width for all features and polytopes.
    """

    robust = True

    def density(
        self,
        polytopes: Polytopes,
        index: KernelIndex,
        level_offsets: Ints,
        execution: Execution,
        *,
        directions: bool = False,
        columns: Columns | None = None,
        estimated_from: EstimatedFrom | None = None,
    ) -> Density:
        if directions:
            return class_density(polytopes, self.regularization)
        assert columns is not None
        least = self.regularization * np.minimum(columns.spread, 1e150) ** 2
        around = columns.clip(polytopes.mean)
        settings = (np.maximum(least, LEAST_VARIANCE), execution, level_offsets, estimated_from)
        density = geodesic_density(polytopes, index, *settings, around)
        return replace(density, ranges=Ranges(columns.low, columns.high, columns.unit))


def polytope_density(
    polytopes: Polytopes, regularization: float, level_offsets: Ints = NO_SYMBOLS
) -> Density:
    """As in the paper: mean and variance of the rows in the polytope, plus lambda.

    A number that is missing in all rows of a polytope has the mean and variance of all rows.
    """
    mean, variance = polytopes.mean, polytopes.variance
    weight = np.broadcast_to(polytopes.observed, mean.shape)
    empty = weight == 0
    if empty.any():
        center, spread = _overall(mean, variance, polytopes.observed)
        mean, variance = np.where(empty, center, mean), np.where(empty, spread, variance)
    shares = smoothed_shares(polytopes.levels, polytopes.levels, level_offsets)
    return _assemble(polytopes, mean, variance + regularization, np.log(shares), level_offsets)


def geodesic_density(
    polytopes: Polytopes,
    index: KernelIndex,
    regularization: float | Floats,
    execution: Execution,
    level_offsets: Ints = NO_SYMBOLS,
    estimated_from: EstimatedFrom | None = None,
    around: Floats | None = None,
) -> Density:
    """Variance around the polytope's mean over all rows, weighted by K(r, s), shrunk halfway.

    local_r = sum_s K(r, s) n_s (var_s + (mu_s - mu_r)^2) / sum_s K(r, s) n_s + lambda
    sigma_r^2 = sqrt(local_r * mean of local over all rows), feature by feature.

    Most polytopes of a default forest hold one row, so the local variance is estimated from few
    neighbours; shrunk halfway (on the log scale) to the common one, it detects new classes better.
    The shares of a symbol are K-weighted and shrunk halfway in the same way. A number that is
    missing in all rows of a polytope has the K-weighted mean of the others.

    With ``estimated_from``, variances and shares are estimated from these rows alone; the centres
    are those of all rows. ``around`` is what the variances are around, if it is not the means of
    the polytopes: an outlier is the centre of its polytope, but must not set its width. lambda, the
    ``regularization``, is one number, or one for each feature.
    """
    some = estimated_from or EstimatedFrom(polytopes, np.arange(len(polytopes)))
    rows, polytope = some.rows, some.polytope
    n_numbers, n_levels = polytopes.mean.shape[1], polytopes.levels.shape[1]
    weight = rows.observed  # one column, or one for each number
    width = weight.shape[1]
    # Centred, so that the difference of squares below does not cancel.
    center, overall = _overall(rows.mean, rows.variance, weight)
    moments = np.zeros((len(polytopes), width + 2 * n_numbers + n_levels))
    _fill_moments(weight, rows.mean, rows.variance, center, polytope, moments)
    moments[polytope, width + 2 * n_numbers :] = rows.levels
    sums = index.matmul(polytopes.modes, moments, execution)
    del moments
    # The centres are the means of the polytopes, except for numbers that all their rows miss.
    mean = polytopes.mean.copy() if polytopes.observed.shape[1] > 1 else polytopes.mean
    variance = np.empty_like(mean)
    around = polytopes.mean if around is None else around
    _local_variances(sums, width, polytopes.observed, center, overall, around, mean, variance)
    near_levels = sums[:, width + 2 * n_numbers :]
    variance += regularization
    common_variance = rows.size @ (variance if estimated_from is None else variance[polytope])
    # The product of two roots neither overflows nor is 0, whatever the unit of a feature.
    np.sqrt(variance, out=variance)
    variance *= np.sqrt(common_variance / rows.size.sum())
    near_shares = smoothed_shares(near_levels, rows.levels, level_offsets)
    common = smoothed_shares(rows.levels.sum(axis=0)[None], rows.levels, level_offsets)
    log_share = 0.5 * (np.log(near_shares) + np.log(common))
    return _assemble(polytopes, mean, variance, log_share, level_offsets)


def class_density(polytopes: Polytopes, regularization: float) -> Density:
    """One width for every feature and polytope, for rows that are directions.

    sigma^2 = variance of a feature around the mean of its class, mean over the features, + lambda

    All features of an embedding have the same unit, so the kernel depends on the angle alone.
    """
    mean, size, counts = polytopes.mean, polytopes.size, polytopes.counts
    of_class = counts.sum(axis=0)
    centers = counts.T @ mean / of_class[:, None]
    squares = size @ np.einsum("ij,ij->i", mean, mean) + (size @ polytopes.variance).sum()
    within = (squares - of_class @ np.einsum("ij,ij->i", centers, centers)) / size.sum()
    variance = np.full((1, mean.shape[1]), max(within, 0.0) / mean.shape[1] + regularization)
    return _assemble(polytopes, mean, variance, np.empty((len(mean), 0)), NO_SYMBOLS)


def smoothed_shares(local: Floats, levels: Floats, level_offsets: Ints) -> Floats:
    """Share of each level, with one extra row that is divided by the shares among all rows.

    Those shares have one extra row themselves, which is divided equally. So a level without any
    row has a positive share, below that of every level with rows.
    """
    width = np.diff(level_offsets)

    def normalised(counts: Floats, one_row: Floats) -> Floats:
        if len(width) == 0:
            return counts
        total = np.add.reduceat(counts, level_offsets[:-1], axis=1) + 1.0
        return (counts + one_row) / np.repeat(total, width, axis=1)

    common = normalised(levels.sum(axis=0)[None], np.repeat(1.0 / width, width))
    return normalised(local, common)


def _overall(mean: Floats, variance: Floats, weight: Floats) -> tuple[Floats, Floats]:
    """Mean and variance of each number over all rows that have it.

    ``weight`` has a column for each number, or one column for all.
    """
    center, spread = np.zeros(mean.shape[1]), np.zeros(mean.shape[1])
    _overall_moments(mean, variance, weight, center, spread)
    return center, spread


# Compiled loops without temporary arrays: with embeddings of a thousand numbers each such array
# would be half a gigabyte.


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
def _fill_moments(weight, mean, variance, center, polytope, out):
    """Weight, weighted mean and weighted mean square of each polytope, in its row of ``out``."""
    width, n = weight.shape[1], mean.shape[1]
    for i in range(len(polytope)):
        row = out[polytope[i]]
        for c in range(width):
            row[c] = weight[i, c]
        for j in range(n):
            w = weight[i, j if width > 1 else 0]
            if w > 0:
                moved = mean[i, j] - center[j]
                row[width + j] = w * moved
                row[width + n + j] = w * (variance[i, j] + moved * moved)


@njit(nogil=True, cache=True)
def _local_variances(sums, width, observed, center, overall, around, mean, out_variance):
    """Variance ``around`` each centre from K-weighted moments; sets means without rows."""
    n, wide = mean.shape[1], observed.shape[1] > 1
    for r in range(mean.shape[0]):
        for j in range(n):
            weight = sums[r, j if width > 1 else 0]
            first = sums[r, width + j] / weight if weight > 0 else 0.0
            is_observed = observed[r, j if wide else 0] > 0
            moved = around[r, j] - center[j] if is_observed else first
            if not is_observed:
                mean[r, j] = first + center[j]
            if weight > 0:
                second = sums[r, width + n + j] / weight
                out_variance[r, j] = max(second - 2 * moved * first + moved * moved, 0.0)
            else:
                out_variance[r, j] = overall[j]


def _assemble(
    polytopes: Polytopes,
    mean: Floats,
    variance: Floats,
    log_share: Floats,
    level_offsets: Ints,
) -> Density:
    size = polytopes.size
    # As if one extra row had the number missing with probability 1/2.
    log_missing = np.full(mean.shape[1], -np.log(2.0 * (size.sum() + 1.0)))
    if polytopes.observed.shape[1] > 1:  # symbols encode which numbers are missing
        complete = (1.0 - WEIGHT_ROUNDING) * size[:, None]
        log_missing[(polytopes.observed < complete).any(axis=0)] = 0.0
    symbols = (log_missing, log_share, level_offsets)
    return Density.from_parts(mean, variance, size / size.sum(), *symbols)
