"""Random hyperplanes: the side of each on which a row lies is a mode that any table has.

A hyperplane is a unit of one wide random ReLU layer, which is on or off. K is then the share of
the hyperplanes that have two rows on the same side.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from .._utils.arrays import Array, Bools, Floats, Ints
from .._utils.blocks import map_blocks
from .._utils.saved import saved_array
from ..core.columns import Columns
from ..core.execution import Execution
from ..core.reading import ActivationModes

# Interquartile range of a normal feature of standard deviation 1.
NORMAL_WIDTH = 1.349
# Standard deviations beyond which a value is as far away as it can be.
FARTHEST = 20.0
# Rows that the offsets are drawn from.
OFFSET_ROWS = 1000
# Part of the range of projections that is no more than their rounding.
ROUNDING = 1e-9


@dataclass(frozen=True)
class Hyperplanes:
    """Random hyperplanes among rows that are encoded as a ``Table`` encodes them.

    Numbers are measured in robust standard deviations from their middle. A symbol (the level of a
    category, or whether a number is missing) is one number for each level, 1 for the level that a
    row has; a missing number lies in the middle. A hyperplane sees some of the columns, from two to
    all of them, so that columns of noise or many levels do not hide what few columns say.

    Guarantees: equal rows have equal modes, in any block. The unit of a number does not matter.
    Edge cases: a constant number is 0; a value that is far away lies no farther than 20 standard
    deviations from the middle.
    """

    middle: Floats = saved_array("float64 numbers")
    unit: Floats = saved_array("float64 numbers")
    level_offsets: Ints = saved_array("int64 offsets")
    directions: Array = saved_array("float32 hyperplane_inputs hyperplanes")
    offsets: Floats = saved_array("float64 hyperplanes")

    @classmethod
    def draw(
        cls,
        X: Floats,
        level_offsets: Ints,
        n_planes: int,
        seed: int,
        embedded: bool = False,
    ) -> Hyperplanes:
        """Directions from a normal distribution; each plane passes between two of the rows X.

        The rows are encoded. Those of an embedding (``embedded``) have one unit for all numbers,
        and each plane sees all of them.
        """
        n_numbers = X.shape[1] - (len(level_offsets) - 1)
        middle, unit = np.zeros(n_numbers), np.ones(n_numbers)
        if not embedded:
            columns = Columns.of(X[:, :n_numbers])
            middle = columns.middle
            by_quartiles = np.isfinite(columns.lower)
            unit = np.where(by_quartiles, columns.spread / NORMAL_WIDTH, columns.spread)
        rng = np.random.default_rng(seed)
        shape = (n_numbers + int(level_offsets[-1]), n_planes)
        directions = rng.standard_normal(shape, dtype=np.float32)
        if not embedded:
            n_inputs = np.append(np.ones(n_numbers, dtype=int), np.diff(level_offsets))
            directions *= np.repeat(_seen(X.shape[1], n_planes, rng), n_inputs, axis=0)
        planes = cls(middle, unit, level_offsets, directions, np.zeros(n_planes))
        share, place = rng.random(n_planes), rng.uniform(0.25, 0.75, n_planes)
        some = X if len(X) <= OFFSET_ROWS else X[rng.permutation(len(X))[:OFFSET_ROWS]]
        projections = np.sort(planes.projected(some), axis=0)
        return cls(middle, unit, level_offsets, directions, _between(projections, share, place))

    def modes(self, X: Floats, execution: Execution) -> ActivationModes:
        """The sides of all hyperplanes on which encoded rows lie, as one group of bits."""

        def block(rows: slice) -> Array:
            return ActivationModes.from_bits([self.projected(X[rows]) > self.offsets]).codes

        n_planes = len(self.offsets)
        row_bytes = 16 * n_planes + 8 * sum(self.directions.shape)
        codes = map_blocks(block, len(X), row_bytes, n_jobs=execution.n_jobs)
        return ActivationModes(np.concatenate(codes), (n_planes,), packed=True)

    def projected(self, X: Floats) -> Floats:
        """Where encoded rows lie along each direction, shape (n_samples, n_planes)."""
        n_numbers = len(self.middle)
        with np.errstate(over="ignore"):
            z = (X[:, :n_numbers] - self.middle) / self.unit
        np.nan_to_num(z, copy=False, nan=0.0)
        np.clip(z, -FARTHEST, FARTHEST, out=z)
        directions = self.directions.astype(np.float64)
        projected: Floats = z @ directions[:n_numbers]
        for symbol, first in enumerate(self.level_offsets[:-1]):
            level = X[:, n_numbers + symbol].astype(np.int64)
            projected += directions[n_numbers + first + level]
        return projected

    def contradictions(self) -> Iterator[str]:
        """Inconsistencies in hyperplanes that were read from a file, as messages."""
        if len(self.directions) != len(self.middle) + int(self.level_offsets[-1]):
            yield "hyperplanes have directions for other features"
        elif not (self.unit > 0).all() or not np.isfinite(self.middle).all():
            yield "a number has no unit for hyperplanes"


def _seen(n_columns: int, n_planes: int, rng: np.random.Generator) -> Bools:
    """Whether each plane sees each column; the logarithm of their number is evenly distributed."""
    sizes = np.ceil(n_columns ** rng.random(n_planes)).astype(int)
    seen = np.zeros((n_columns, n_planes), dtype=bool)
    for plane, size in enumerate(sizes):
        seen[rng.choice(n_columns, size, replace=False, shuffle=False), plane] = True
    return seen


def _between(projections: Floats, share: Floats, place: Floats) -> Floats:
    """For each column of sorted projections, a place between two that differ.

    ``share`` of the projections are below it, as nearly as ties allow. On a projection itself, or
    halfway, where other rows of discrete data may lie, rounding would decide on the side of a row.
    """
    n, n_planes = projections.shape
    offsets = np.empty(n_planes)
    for j in range(n_planes):
        ordered = projections[:, j]
        gap = ROUNDING * max(float(np.abs(ordered[[0, -1]]).max()), 1e-300)
        apart = np.flatnonzero(np.diff(ordered) > gap)  # the last of each group of equal ones
        if len(apart) == 0:  # all are equal, and on one side
            offsets[j] = ordered[0] - 1.0
            continue
        below = apart[np.abs((apart + 1) - share[j] * n).argmin()]
        offsets[j] = (1.0 - place[j]) * ordered[below] + place[j] * ordered[below + 1]
    return offsets
