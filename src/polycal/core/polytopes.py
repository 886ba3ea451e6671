"""Polytopes: the distinct modes of the training rows, with counts, means and variances.

They form a monoid: ``merge`` joins two partial ones (two batches, two workers) into
one, by adding counts and combining means and variances (Chan, Golub and LeVeque).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from .reading import ActivationModes
from .table import all_finite

NO_SYMBOLS = np.zeros(1, dtype=np.int64)


@dataclass(frozen=True)
class Polytopes:
    """Weighted class counts, mean and diagonal variance of each polytope.

    Guarantees: modes are distinct and in canonical order; ``merge`` is associative and
    commutative up to rounding; counts add up to the weight of the rows.
    """

    modes: ActivationModes
    counts: NDArray  # (n_polytopes, n_classes), weighted
    mean: NDArray  # (n_polytopes, n_numbers), of the observed; 0 where none is
    variance: NDArray  # (n_polytopes, n_numbers), within the polytope, not regularised
    observed: NDArray  # weight behind mean and variance: (n_polytopes, 1), or one per number
    levels: NDArray  # (n_polytopes, n_levels), weight of each level of each symbol

    @classmethod
    def from_rows(
        cls,
        modes: ActivationModes,
        X: NDArray,
        y: NDArray,
        weight: NDArray,
        n_classes: int,
        start: NDArray = NO_SYMBOLS,
    ) -> Polytopes:
        """Polytopes of encoded rows with class codes y in 0..n_classes-1 and positive weights."""
        return cls.from_groups(*modes.distinct(), X, y, weight, n_classes, start)

    @classmethod
    def from_groups(
        cls,
        distinct: ActivationModes,
        owner: NDArray,
        X: NDArray,
        y: NDArray,
        weight: NDArray,
        n_classes: int,
        start: NDArray = NO_SYMBOLS,
    ) -> Polytopes:
        """The same where the distinct modes, and which of them each row has, are known."""
        n_numbers = X.shape[1] - (len(start) - 1)
        counts = np.zeros((len(y), n_classes))
        counts[np.arange(len(y)), y] = weight
        levels = np.zeros((len(y), start[-1]))
        places = start[:-1] + X[:, n_numbers:].astype(np.int64)
        levels[np.arange(len(y))[:, None], places] = weight[:, None]
        numbers, observed = X[:, :n_numbers], weight[:, None]
        # Where the rows of a fit miss a number, there is a symbol that says so.
        if len(start) > 1 and not all_finite(numbers):
            missing = np.isnan(numbers)
            if missing.any():
                numbers, observed = np.where(missing, 0.0, numbers), observed * ~missing
        parts = (counts, numbers, np.empty((0, n_numbers)), observed, levels)
        return _combine(distinct, owner, *parts)

    def merge(self, other: Polytopes) -> Polytopes:
        """Both together, as if all rows had come at once."""
        observed = [self.observed, other.observed]
        width = max(part.shape[1] for part in observed)
        wide = [np.broadcast_to(part, (len(part), width)) for part in observed]
        return _combine(
            *self.modes.append(other.modes).distinct(),
            np.concatenate([self.counts, other.counts]),
            np.concatenate([self.mean, other.mean]),
            np.concatenate([self.variance, other.variance]),
            np.concatenate(wide),
            np.concatenate([self.levels, other.levels]),
        )

    def __len__(self) -> int:
        return len(self.counts)

    @property
    def size(self) -> NDArray:
        """Total weight of each polytope."""
        return self.counts.sum(axis=1)


def _combine(
    distinct: ActivationModes,
    owner: NDArray,
    counts: NDArray,
    mean: NDArray,
    variance: NDArray,
    observed: NDArray,
    levels: NDArray,
) -> Polytopes:
    """Join the entries that have equal modes; ``owner`` is the place of each one's mode."""

    def total(values: NDArray) -> NDArray:
        sums = np.zeros((len(distinct), values.shape[1]))
        _add_rows(values, owner, sums)
        return sums

    joined = total(observed)
    center = np.empty((len(distinct), mean.shape[1]))
    spread = np.zeros(center.shape)
    # A number that a row misses has no weight: then every one is divided by its own.
    alone = (np.bincount(owner) == 1) & (observed.shape[1] == 1)
    _join_moments(mean, variance, observed, owner, alone, joined, center, spread)
    return Polytopes(distinct, total(counts), center, spread, joined, total(levels))


@njit(nogil=True, cache=True)
def _add_rows(values, owner, out):
    for i in range(len(owner)):
        r = owner[i]
        for j in range(values.shape[1]):
            out[r, j] += values[i, j]


@njit(nogil=True, cache=True)
def _join_moments(mean, variance, observed, owner, alone, joined, center, spread):
    """Weighted mean of the means, and of variances plus squared distances to it.

    A loop, since with embeddings of a thousand numbers each array is half a gigabyte; for the
    same reason what is alone is copied, and rows that do not vary come without a variance.
    """
    n, wide, varies = mean.shape[1], observed.shape[1] > 1, len(variance) > 0
    for r in range(len(alone)):
        if not alone[r]:
            center[r] = 0.0
    for i in range(len(owner)):
        r = owner[i]
        if alone[r]:
            for j in range(n):
                center[r, j] = mean[i, j]
        else:
            for j in range(n):
                center[r, j] += observed[i, j if wide else 0] * mean[i, j]
    _divide(center, joined, alone)
    for i in range(len(owner)):
        r = owner[i]
        if alone[r]:
            if varies:
                for j in range(n):
                    spread[r, j] = variance[i, j]
            continue
        for j in range(n):
            away = mean[i, j] - center[r, j]
            within = variance[i, j] if varies else 0.0
            spread[r, j] += observed[i, j if wide else 0] * (within + away * away)
    _divide(spread, joined, alone)


@njit(nogil=True, cache=True)
def _divide(sums, weight, alone):
    """Sums over their weight; 0 where there is none."""
    wide = weight.shape[1] > 1
    for r in range(sums.shape[0]):
        if not alone[r]:
            for j in range(sums.shape[1]):
                w = weight[r, j if wide else 0]
                if w > 0:
                    sums[r, j] /= w
