"""The density of each polytope, and the one loop that evaluates it.

A factor for each feature: a Gaussian for an observed number, a share for a symbol (the level
of a category, or whether a number is missing). The tie rule of the nearest polytope depends
on this density, so every back-end calls the same function: equal inputs give equal floats,
whatever the block or the thread.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from .._utils.blocks import map_blocks

HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


@dataclass(frozen=True)
class Density:
    """p densities over rows as ``Table.encode`` gives them: numbers, then symbols."""

    mean: NDArray  # (n_polytopes, n_numbers)
    precision: NDArray  # 1 / variance: (n_polytopes, n_numbers), or one row for all polytopes
    log_norm: NDArray  # (n_polytopes,), log density at the centre
    log_missing: NDArray  # (n_numbers,), of a missing number; 0 where a symbol tells it
    log_share: NDArray  # (n_polytopes, n_levels), log of the share over the symbol's largest
    start: NDArray  # (n_symbols + 1,), first level of each symbol
    log_mass: NDArray  # (n_polytopes,), log of the share of rows in the polytope

    @classmethod
    def from_parts(
        cls,
        mean: NDArray,
        variance: NDArray,
        mass: NDArray,
        log_missing: NDArray | None = None,
        log_share: NDArray | None = None,
        start: NDArray | None = None,
    ) -> Density:
        """``variance`` may have one row for all."""
        log_norm = -0.5 * _log_sums(variance) - mean.shape[1] * HALF_LOG_2PI
        log_norm = np.array(np.broadcast_to(log_norm, len(mean)))
        start = np.zeros(1, dtype=np.int64) if start is None else start
        if log_share is None:
            log_share = np.empty((len(mean), 0))
        elif len(start) > 1:
            largest = np.maximum.reduceat(log_share, start[:-1], axis=1)
            log_share = log_share - np.repeat(largest, np.diff(start), axis=1)
            log_norm = log_norm + largest.sum(axis=1)
        return cls(
            np.ascontiguousarray(mean),
            np.ascontiguousarray(1.0 / variance),
            log_norm,
            np.zeros(mean.shape[1]) if log_missing is None else log_missing,
            np.ascontiguousarray(log_share),
            start,
            np.log(mass),
        )

    def __len__(self) -> int:
        return len(self.log_norm)

    def precision_of(self, polytope: NDArray | int) -> NDArray:
        """The row of each of some polytopes."""
        shared = len(self.precision) == 1
        return self.precision[np.zeros_like(polytope) if shared else polytope]

    @property
    def parts(self) -> tuple[NDArray, ...]:
        """What ``row_log_density`` takes."""
        return (
            self.mean,
            self.precision,
            self.log_norm,
            self.log_missing,
            self.log_share,
            self.start,
        )

    def log_density(self, X: NDArray, index: NDArray, n_jobs: int | None = None) -> NDArray:
        """log density of x_i in polytope index[i, j], shape (n_samples, k); -inf for index -1."""
        log_kernel, log_norm = self._terms(X, index, n_jobs)
        return log_kernel + log_norm

    def log_kernel(self, X: NDArray, index: NDArray, n_jobs: int | None = None) -> NDArray:
        """The same over the density at the centre, so that every kernel has height 1."""
        return self._terms(X, index, n_jobs)[0]

    def _terms(self, X: NDArray, index: NDArray, n_jobs: int | None) -> tuple[NDArray, NDArray]:
        terms = np.empty(index.shape), np.empty(index.shape)

        def fill(rows: slice) -> None:
            _all_terms(X[rows], index[rows], self.parts, *(part[rows] for part in terms))

        map_blocks(fill, len(index), 16 * index.shape[1], n_jobs=n_jobs)
        return terms


def _log_sums(values: NDArray) -> NDArray:
    """Sum of logarithms of each row, a few rows at a time: no second array of that size."""
    sums = np.empty(len(values))
    for start in range(0, len(values), 256):
        rows = slice(start, start + 256)
        sums[rows] = np.log(values[rows]).sum(axis=1)
    return sums


# An empty stand-in for loops that need no density.
NO_DENSITY = Density.from_parts(np.empty((0, 0)), np.empty((0, 0)), np.empty(0))


@njit(nogil=True, cache=True)
def row_terms(x, r, parts):
    """log kernel of height 1, and log density at the centre of the row's observed features.

    Overflow far away gives -inf, never NaN, since every precision is positive.
    """
    mean, precision, log_norm, log_missing, log_share, start = parts
    n_numbers = mean.shape[1]
    own = r if precision.shape[0] > 1 else 0
    total, factors, norm = 0.0, 0.0, log_norm[r]
    for j in range(n_numbers):
        z = x[j] - mean[r, j]
        if z == z:
            total += z * z * precision[own, j]
        else:
            factors += log_missing[j]
            norm -= 0.5 * math.log(precision[own, j]) - HALF_LOG_2PI
    for c in range(len(start) - 1):
        factors += log_share[r, start[c] + np.int64(x[n_numbers + c])]
    return factors - 0.5 * total, norm


@njit(nogil=True, cache=True)
def row_log_density(x, r, parts):
    kernel, norm = row_terms(x, r, parts)
    return norm + kernel


@njit(nogil=True, cache=True)
def _all_terms(X, index, parts, out_kernel, out_norm):
    """``row_terms`` of each row in several polytopes; index -1 is no polytope.

    Feature by feature, so that the sums of all polytopes grow side by side; each is added in
    the order of ``row_terms``, and equal to the last bit.
    """
    mean, precision, log_norm, log_missing, log_share, start = parts
    n_numbers, k = mean.shape[1], index.shape[1]
    place, own = np.empty(k, np.int64), np.empty(k, np.int64)
    total, factors = np.empty(k), np.empty(k)
    for i in range(index.shape[0]):
        norm = out_norm[i]
        for m in range(k):
            place[m] = max(index[i, m], 0)
            own[m] = place[m] if precision.shape[0] > 1 else 0
            total[m], factors[m], norm[m] = 0.0, 0.0, log_norm[place[m]]
        for j in range(n_numbers):
            x = X[i, j]
            if x == x:
                for m in range(k):
                    z = x - mean[place[m], j]
                    total[m] += z * z * precision[own[m], j]
            else:
                for m in range(k):
                    factors[m] += log_missing[j]
                    norm[m] -= 0.5 * math.log(precision[own[m], j]) - HALF_LOG_2PI
        for c in range(len(start) - 1):
            level = start[c] + np.int64(X[i, n_numbers + c])
            for m in range(k):
                factors[m] += log_share[place[m], level]
        for m in range(k):
            there = index[i, m] >= 0
            out_kernel[i, m] = factors[m] - 0.5 * total[m] if there else -np.inf
            norm[m] = norm[m] if there else 0.0
