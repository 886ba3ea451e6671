"""Polytopes: the distinct modes of the training rows, with counts, means and variances.

They form a monoid: ``merge`` joins two partial ones (two batches, two workers) into
one, by adding counts and combining means and variances (Chan, Golub and LeVeque).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ._types import ActivationModes

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
        n_numbers = X.shape[1] - (len(start) - 1)
        counts = np.zeros((len(y), n_classes))
        counts[np.arange(len(y)), y] = weight
        levels = np.zeros((len(y), start[-1]))
        places = start[:-1] + X[:, n_numbers:].astype(np.int64)
        levels[np.arange(len(y))[:, None], places] = weight[:, None]
        numbers, observed = X[:, :n_numbers], weight[:, None]
        missing = np.isnan(numbers)
        if missing.any():
            numbers, observed = np.where(missing, 0.0, numbers), observed * ~missing
        return _combine(modes, counts, numbers, np.zeros_like(numbers), observed, levels)

    def merge(self, other: Polytopes) -> Polytopes:
        """Both together, as if all rows had come at once."""
        observed = [self.observed, other.observed]
        width = max(part.shape[1] for part in observed)
        wide = [np.broadcast_to(part, (len(part), width)) for part in observed]
        return _combine(
            self.modes.append(other.modes),
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
    modes: ActivationModes,
    counts: NDArray,
    mean: NDArray,
    variance: NDArray,
    observed: NDArray,
    levels: NDArray,
) -> Polytopes:
    """Join the entries that have equal modes."""
    distinct, owner = modes.distinct()
    order = np.argsort(owner, kind="stable")
    starts = np.searchsorted(owner[order], np.arange(len(distinct)))

    def total(values: NDArray) -> NDArray:
        return np.add.reduceat(values[order], starts, axis=0)

    joined = total(observed)
    divisor = np.where(joined > 0, joined, 1.0)
    center = total(observed * mean) / divisor
    spread = total(observed * (variance + (mean - center[owner]) ** 2)) / divisor
    return Polytopes(distinct, total(counts), center, spread, joined, total(levels))
