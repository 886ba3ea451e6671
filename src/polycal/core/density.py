"""The density of each polytope, and the loops that evaluate it.

The density is a product over the features: a Gaussian for an observed number, a share for a
symbol (the level of a category, or whether a number is missing). Ties between nearest polytopes
are broken by this density, so every kernel index calls the same function: equal inputs give equal
floats in any block and any thread.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from .._utils.arrays import Floats, Ints
from .._utils.blocks import map_blocks
from .._utils.compiled import njit
from .._utils.saved import saved_array, saved_log, saved_part

HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)
# Distances are cut here, so that their differences are numbers.
FARTHEST = 1e300
# Smallest number above 0.
SMALLEST = math.ulp(0.0)


class DensityArrays(NamedTuple):
    """The arrays of a ``Density``, for compiled loops."""

    mean: Floats
    precision: Floats
    log_norm: Floats
    log_missing: Floats
    log_share: Floats
    level_offsets: Ints


@dataclass(frozen=True)
class Ranges:
    """Lowest and highest training value of each number."""

    low: Floats = saved_array("float64 numbers")
    high: Floats = saved_array("float64 numbers")
    unit: Floats = saved_array("float64 numbers")  # about half of the range

    def beyond(self, X: Floats, n_jobs: int | None = None) -> Floats:
        """How far the number that is farthest out of its range is out, in half ranges; 0 inside."""
        out = np.empty(len(X))

        def fill(rows: slice) -> None:
            _beyond(X[rows], self.low, self.high, self.unit, out[rows])

        map_blocks(fill, len(X), 8, n_jobs=n_jobs)
        return out

    def contradictions(self) -> Iterator[str]:
        """Inconsistencies in ranges that were read from a file, as messages."""
        if not (self.low <= self.high).all() or not (self.unit > 0).all():
            yield "the range of a number is empty"


@dataclass(frozen=True)
class Density:
    """p densities over rows as ``Table.encode`` gives them: numbers, then symbols."""

    mean: Floats = saved_array("float64 polytopes numbers")
    # 1 / variance; one row where all polytopes share it
    precision: Floats = saved_array("float64 widths numbers", least=SMALLEST)
    log_norm: Floats = saved_log("float64 polytopes")  # log density at the centre
    # log density of a missing number; 0 where a symbol encodes that it is missing
    log_missing: Floats = saved_log("float64 numbers")
    # log of the share of a level over the largest share of its symbol
    log_share: Floats = saved_log("float64 polytopes levels")
    # first level of each symbol, and the number of all levels
    level_offsets: Ints = saved_array("int64 offsets")
    log_mass: Floats = saved_log("float64 polytopes", lowest=-math.inf)  # log of the share of rows
    ranges: Ranges | None = saved_part(default=None)

    @classmethod
    def from_parts(
        cls,
        mean: Floats,
        variance: Floats,
        mass: Floats,
        log_missing: Floats | None = None,
        log_share: Floats | None = None,
        level_offsets: Ints | None = None,
    ) -> Density:
        """Build from moments; ``variance`` may have one row for all polytopes."""
        log_norm = -0.5 * _log_sums(variance) - mean.shape[1] * HALF_LOG_2PI
        log_norm = np.array(np.broadcast_to(log_norm, len(mean)))
        level_offsets = np.zeros(1, dtype=np.int64) if level_offsets is None else level_offsets
        if log_share is None:
            log_share = np.empty((len(mean), 0))
        elif len(level_offsets) > 1:
            largest = np.maximum.reduceat(log_share, level_offsets[:-1], axis=1)
            log_share = log_share - np.repeat(largest, np.diff(level_offsets), axis=1)
            log_norm = log_norm + largest.sum(axis=1)
        return cls(
            np.ascontiguousarray(mean),
            np.ascontiguousarray(1.0 / variance),
            log_norm,
            np.zeros(mean.shape[1]) if log_missing is None else log_missing,
            np.ascontiguousarray(log_share),
            level_offsets,
            np.log(mass),
        )

    def __len__(self) -> int:
        return len(self.log_norm)

    def precision_of(self, polytope: Ints | int) -> Floats:
        """Precisions of some polytopes, a row for each."""
        shared = len(self.precision) == 1
        return self.precision[np.zeros_like(polytope) if shared else polytope]

    @property
    def arrays(self) -> DensityArrays:
        """The arrays in the form that compiled loops take."""
        return DensityArrays(
            self.mean,
            self.precision,
            self.log_norm,
            self.log_missing,
            self.log_share,
            self.level_offsets,
        )

    def contradictions(self) -> Iterator[str]:
        """Inconsistencies in a density that was read from a file, as messages."""
        if len(self.precision) not in (1, len(self.mean)):
            yield "there are widths for other polytopes"

    def log_density(self, X: Floats, index: Ints, n_jobs: int | None = None) -> Floats:
        """log density of x_i in polytope index[i, j], shape (n_samples, k); -inf for index -1."""
        log_kernel, log_norm = self._terms(X, index, n_jobs)
        return log_kernel + log_norm

    def log_kernel(self, X: Floats, index: Ints, n_jobs: int | None = None) -> Floats:
        """``log_density`` minus the log density at the centre, so every kernel has height 1."""
        return self._terms(X, index, n_jobs)[0]

    def beyond(self, X: Floats, n_jobs: int | None = None) -> Floats | None:
        """``Ranges.beyond`` of each row; None without ranges."""
        return None if self.ranges is None else self.ranges.beyond(X, n_jobs)

    def _terms(self, X: Floats, index: Ints, n_jobs: int | None) -> tuple[Floats, Floats]:
        terms = np.empty(index.shape), np.empty(index.shape)

        def fill(rows: slice) -> None:
            _all_terms(X[rows], index[rows], self.arrays, *(part[rows] for part in terms))

        map_blocks(fill, len(index), 16 * index.shape[1], n_jobs=n_jobs)
        return terms


def _log_sums(values: Floats) -> Floats:
    """Sum of logarithms of each row, a few rows at a time to save memory."""
    sums = np.empty(len(values))
    for first in range(0, len(values), 256):
        rows = slice(first, first + 256)
        sums[rows] = np.log(values[rows]).sum(axis=1)
    return sums


# Passed to loops that take a density but do not use it.
NO_DENSITY = Density.from_parts(np.empty((0, 0)), np.empty((0, 0)), np.empty(0))


@njit(nogil=True, cache=True)
def _beyond(X, low, high, unit, out):
    for i in range(X.shape[0]):
        farthest = 0.0
        for j in range(len(low)):
            x = X[i, j]
            if x < low[j] or x > high[j]:  # NaN is neither
                away = low[j] - x if x < low[j] else x - high[j]
                farthest = max(farthest, away / unit[j])
        out[i] = min(farthest, FARTHEST)


@njit(nogil=True, cache=True)
def row_terms(x, r, density):
    """log kernel of height 1, and log density at the centre of the row's observed features.

    Overflow far away gives -inf, never NaN, since every precision is positive.
    """
    mean, precision = density.mean, density.precision
    n_numbers, level_offsets = mean.shape[1], density.level_offsets
    own = r if precision.shape[0] > 1 else 0
    total, factors, norm = 0.0, 0.0, density.log_norm[r]
    for j in range(n_numbers):
        z = x[j] - mean[r, j]
        if z == z:
            total += z * z * precision[own, j]
        else:
            factors += density.log_missing[j]
            norm -= 0.5 * math.log(precision[own, j]) - HALF_LOG_2PI
    for c in range(len(level_offsets) - 1):
        factors += density.log_share[r, level_offsets[c] + np.int64(x[n_numbers + c])]
    return factors - 0.5 * total, norm


@njit(nogil=True, cache=True)
def _all_terms(X, index, density, out_kernel, out_norm):
    """``row_terms`` of each row in several polytopes; index -1 is no polytope.

    The outer loop is over the features, so that the inner loop over polytopes can be vectorised.
    Each sum is added in the order of ``row_terms``, and equal to it to the last bit.
    """
    mean, precision, level_offsets = density.mean, density.precision, density.level_offsets
    n_numbers, k = mean.shape[1], index.shape[1]
    polytope, own = np.empty(k, np.int64), np.empty(k, np.int64)
    total, factors = np.empty(k), np.empty(k)
    for i in range(index.shape[0]):
        norm = out_norm[i]
        for m in range(k):
            polytope[m] = max(index[i, m], 0)
            own[m] = polytope[m] if precision.shape[0] > 1 else 0
            total[m], factors[m], norm[m] = 0.0, 0.0, density.log_norm[polytope[m]]
        for j in range(n_numbers):
            x = X[i, j]
            if x == x:
                for m in range(k):
                    z = x - mean[polytope[m], j]
                    total[m] += z * z * precision[own[m], j]
            else:
                for m in range(k):
                    factors[m] += density.log_missing[j]
                    norm[m] -= 0.5 * math.log(precision[own[m], j]) - HALF_LOG_2PI
        for c in range(len(level_offsets) - 1):
            level = level_offsets[c] + np.int64(X[i, n_numbers + c])
            for m in range(k):
                factors[m] += density.log_share[polytope[m], level]
        for m in range(k):
            exists = index[i, m] >= 0
            out_kernel[i, m] = factors[m] - 0.5 * total[m] if exists else -np.inf
            norm[m] = norm[m] if exists else 0.0
