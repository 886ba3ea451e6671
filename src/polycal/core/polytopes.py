"""Polytopes: the distinct modes of the training rows, with counts, means and variances.

Polytopes of two sets of rows (two batches, two workers) can be merged: ``merge`` adds counts and
combines means and variances (Chan, Golub and LeVeque).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._utils.arrays import Floats, Ints
from .._utils.compiled import njit
from .._utils.saved import saved_array, saved_weight, unsaved
from .reading import ActivationModes
from .table import all_finite

NO_SYMBOLS = np.zeros(1, dtype=np.int64)


@dataclass(frozen=True)
class Polytopes:
    """Weighted class counts, mean and diagonal variance of each polytope.

    Guarantees: modes are distinct and in canonical order; ``merge`` is associative and
    commutative up to rounding; counts add up to the weight of the rows.
    """

    modes: ActivationModes = unsaved("the first modes of the label evidence")
    counts: Floats = saved_weight("float64 polytopes classes")  # weighted
    mean: Floats = saved_array("float64 polytopes numbers")  # of the observed; 0 without any
    # within the polytope, not regularised; most polytopes hold one row, which does not vary
    variance: Floats = saved_array("float64 polytopes numbers", nonzero_rows=True, least=0.0)
    # total weight of the rows in mean and variance; one column where no number is missing
    observed: Floats = saved_weight("float64 polytopes observed")
    # weight of each level; most polytopes hold one row, which has one level of each category
    levels: Floats = saved_weight("float64 polytopes levels", sparse=True)

    @classmethod
    def from_rows(
        cls,
        modes: ActivationModes,
        X: Floats,
        y: Ints,
        weight: Floats,
        n_classes: int,
        level_offsets: Ints = NO_SYMBOLS,
    ) -> Polytopes:
        """Polytopes of encoded rows with class codes y in 0..n_classes-1 and positive weights."""
        return cls.from_groups(*modes.distinct(), X, y, weight, n_classes, level_offsets)

    @classmethod
    def from_groups(
        cls,
        distinct: ActivationModes,
        owner: Ints,
        X: Floats,
        y: Ints,
        weight: Floats,
        n_classes: int,
        level_offsets: Ints = NO_SYMBOLS,
    ) -> Polytopes:
        """As ``from_rows``, from distinct modes and the number ``owner`` of each row's mode."""
        n_numbers = X.shape[1] - (len(level_offsets) - 1)
        counts = np.zeros((len(y), n_classes))
        counts[np.arange(len(y)), y] = weight
        levels = np.zeros((len(y), level_offsets[-1]))
        level = level_offsets[:-1] + X[:, n_numbers:].astype(np.int64)
        levels[np.arange(len(y))[:, None], level] = weight[:, None]
        numbers, observed = X[:, :n_numbers], weight[:, None]
        # A number that is missing in some rows of the fit has a symbol for being missing.
        if len(level_offsets) > 1 and not all_finite(numbers):
            missing = np.isnan(numbers)
            if missing.any():
                numbers, observed = np.where(missing, 0.0, numbers), observed * ~missing
        parts = (counts, numbers, np.empty((0, n_numbers)), observed, levels)
        return _combine(distinct, owner, *parts)

    @classmethod
    def restore(cls, **saved: Any) -> Polytopes:
        """Build from the parts in a file; ``ReferenceSet.restore`` fills in the modes."""
        no_modes = ActivationModes(np.empty((0, 0), dtype=np.int32), (), packed=False)
        return cls(modes=no_modes, **saved)

    def merge(self, other: Polytopes) -> Polytopes:
        """Merge both: equal to the polytopes of all their rows in one batch."""
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

    def contradictions(self) -> Iterator[str]:
        """Inconsistencies in polytopes that were read from a file, as messages."""
        if len(self) == 0:
            yield "there are no polytopes"
        if self.observed.shape[1] not in (1, self.mean.shape[1]):
            yield "there are observed weights for other numbers"

    @property
    def size(self) -> Floats:
        """Total weight of each polytope."""
        total: Floats = self.counts.sum(axis=1)
        return total


def _combine(
    distinct: ActivationModes,
    owner: Ints,
    counts: Floats,
    mean: Floats,
    variance: Floats,
    observed: Floats,
    levels: Floats,
) -> Polytopes:
    """Merge the entries that have equal modes; ``owner`` is the distinct mode of each entry."""

    def total(values: Floats) -> Floats:
        sums = np.zeros((len(distinct), values.shape[1]))
        _add_rows(values, owner, sums)
        return sums

    weight = total(observed)
    center = np.empty((len(distinct), mean.shape[1]))
    spread = np.zeros(center.shape)
    # Where a number is missing in some rows, each number has its own weight to divide by.
    alone = (np.bincount(owner) == 1) & (observed.shape[1] == 1)
    _merge_moments(mean, variance, observed, owner, alone, weight, center, spread)
    return Polytopes(distinct, total(counts), center, spread, weight, total(levels))


@njit(nogil=True, cache=True)
def _add_rows(values, owner, out):
    for i in range(len(owner)):
        r = owner[i]
        for j in range(values.shape[1]):
            out[r, j] += values[i, j]


@njit(nogil=True, cache=True)
def _merge_moments(mean, variance, observed, owner, alone, weight, center, spread):
    """Weighted mean of the means, and of variances plus squared distances to it.

    A loop, since with embeddings of a thousand numbers each array is half a gigabyte; for the
    same reason an entry that is alone in its mode is copied, and rows have no variance array.
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
    _divide(center, weight, alone)
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
    _divide(spread, weight, alone)


@njit(nogil=True, cache=True)
def _divide(sums, weight, alone):
    """Divide sums by their weight; 0 where the weight is 0."""
    wide = weight.shape[1] > 1
    for r in range(sums.shape[0]):
        if not alone[r]:
            for j in range(sums.shape[1]):
                w = weight[r, j if wide else 0]
                if w > 0:
                    sums[r, j] /= w
