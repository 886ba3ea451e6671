"""What rows of a polytope add up to: class weights, moments of numbers, weights of levels.

Moments here are plain sums, so that those of two sets of rows are added, in any order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from .._utils.arrays import Floats, Ints
from .._utils.saved import saved_array, saved_number
from .polytopes import Polytopes
from .reading import ActivationModes

# Part of a mean square that is no more than its rounding.
ROUNDING = 1e-13
# Units from the middle beyond which squares would overflow in a sum.
FARTHEST = 1e140


@dataclass(frozen=True)
class Moments:
    """The columns of a table of sums over rows, in the order of ``rows``.

    Numbers are measured from ``middle`` in ``unit``, so that a variance does not cancel. With
    ``clipped``, there are moments of clipped rows too, which widths are estimated from.
    """

    middle: Floats = saved_array("float64 numbers")
    unit: Floats = saved_array("float64 numbers")
    level_offsets: Ints = saved_array("int64 offsets")
    n_classes: int = saved_number(int, above=0, below=2**31)
    clipped: bool = saved_number(bool)

    @property
    def n_values(self) -> int:
        """Number of columns."""
        n_moments = 5 if self.clipped else 3
        return self.n_classes + n_moments * len(self.middle) + int(self.level_offsets[-1])

    def rows(self, X: Floats, clipped: Floats | None, y: Ints, weight: Floats) -> Floats:
        """The values of encoded rows, shape (n_rows, n_values)."""
        n, n_numbers, row = len(y), len(self.middle), np.arange(len(y))
        counts = np.zeros((n, self.n_classes))
        counts[row, y] = weight
        levels = np.zeros((n, int(self.level_offsets[-1])))
        level = self.level_offsets[:-1] + X[:, n_numbers:].astype(np.int64)
        levels[row[:, None], level] = weight[:, None]
        parts = [counts, weight[:, None] * ~np.isnan(X[:, :n_numbers])]
        for some in (X, clipped) if clipped is not None else (X,):
            z = self._measured(some[:, :n_numbers])
            parts += [weight[:, None] * z, weight[:, None] * z * z]
        return np.concatenate([*parts, levels], axis=1)

    def sums(
        self,
        counts: Floats,
        observed: Floats,
        moments: tuple[Floats, Floats],
        clipped: tuple[Floats, Floats] | None,
        levels: Floats,
    ) -> Floats:
        """The values that the rows of polytopes add up to, from means and variances.

        ``clipped`` are those of the clipped rows.
        """
        weight = np.broadcast_to(observed, moments[0].shape)
        parts = [counts, weight]
        for mean, variance in (moments, clipped) if clipped is not None else (moments,):
            z = self._measured(mean)
            parts += [weight * z, weight * (variance / self.unit**2 + z * z)]
        return np.concatenate([*parts, levels], axis=1)

    def _measured(self, numbers: Floats) -> Floats:
        """Numbers from the middle in the unit; 0 where one is missing."""
        with np.errstate(over="ignore"):
            z = (numbers - self.middle) / self.unit
        return np.clip(np.nan_to_num(z, nan=0.0), -FARTHEST, FARTHEST)

    def polytopes(
        self, modes: ActivationModes, values: Floats, factor: float
    ) -> tuple[Polytopes, Polytopes | None]:
        """Polytopes by the sums of their rows times a factor, and those of the clipped rows."""
        n_numbers = len(self.middle)
        widths = [self.n_classes] + [n_numbers] * (5 if self.clipped else 3)
        counts, observed, *moments = np.split(factor * values, np.cumsum(widths), axis=1)
        levels = moments.pop()
        size = counts.sum(axis=1, keepdims=True)
        complete = n_numbers == 0 or np.allclose(observed, size, rtol=1e-9)
        weight = size if complete else observed

        def of(first: Floats, second: Floats) -> Polytopes:
            divisor = np.where(observed > 0, observed, 1.0)
            mean, square = first / divisor, second / divisor
            variance = square - mean**2
            variance = np.where(variance > ROUNDING * square, variance, 0.0)
            mean = np.where(observed > 0, self.middle + self.unit * mean, 0.0)
            return Polytopes(modes, counts, mean, self.unit**2 * variance, weight, levels)

        clipped = of(*moments[2:]) if self.clipped else None
        return of(*moments[:2]), clipped

    def contradictions(self) -> Iterator[str]:
        """Inconsistencies in a table that was read from a file, as messages."""
        if not np.isfinite(self.middle).all() or not (self.unit > 0).all():
            yield "moments of a stream have no unit"
