"""Polytopes: the distinct modes of the training rows, with counts, means and variances.

They form a monoid: ``merge`` joins two partial ones (two batches, two workers) into
one, by adding counts and combining means and variances (Chan, Golub and LeVeque).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ._types import ActivationModes


@dataclass(frozen=True)
class Polytopes:
    """Weighted class counts, mean and diagonal variance of each polytope.

    Guarantees: modes are distinct and in canonical order; ``merge`` is associative and
    commutative up to rounding; counts add up to the weight of the rows.
    """

    modes: ActivationModes
    counts: NDArray  # (n_polytopes, n_classes), weighted
    mean: NDArray  # (n_polytopes, n_features)
    variance: NDArray  # (n_polytopes, n_features), within the polytope, not regularised

    @classmethod
    def from_rows(
        cls, modes: ActivationModes, X: NDArray, y: NDArray, weight: NDArray, n_classes: int
    ) -> Polytopes:
        """Polytopes of rows with class codes y in 0..n_classes-1 and positive weights."""
        counts = np.zeros((len(y), n_classes))
        counts[np.arange(len(y)), y] = weight
        return _combine(modes, counts, X, np.zeros_like(X))

    def merge(self, other: Polytopes) -> Polytopes:
        """Both together, as if all rows had come at once."""
        return _combine(
            self.modes.append(other.modes),
            np.concatenate([self.counts, other.counts]),
            np.concatenate([self.mean, other.mean]),
            np.concatenate([self.variance, other.variance]),
        )

    def __len__(self) -> int:
        return len(self.counts)

    @property
    def size(self) -> NDArray:
        """Total weight of each polytope."""
        return self.counts.sum(axis=1)


def _combine(
    modes: ActivationModes, counts: NDArray, mean: NDArray, variance: NDArray
) -> Polytopes:
    """Join the entries that have equal modes."""
    distinct, owner = modes.distinct()
    order = np.argsort(owner, kind="stable")
    starts = np.searchsorted(owner[order], np.arange(len(distinct)))
    size = counts.sum(axis=1)

    def total(values: NDArray) -> NDArray:
        return np.add.reduceat(values[order], starts, axis=0)

    joined = total(size)[:, None]
    center = total(size[:, None] * mean) / joined
    spread = total(size[:, None] * (variance + (mean - center[owner]) ** 2)) / joined
    return Polytopes(distinct, total(counts), center, spread)
