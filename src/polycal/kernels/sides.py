"""Sums of powers of K by class, where K is the share of equal bits: labelled rows, one bit a plane.

Each query is compared with every stored row. Rows are stored class after class, in tiles, word by
word; the powers of a tile are squares of squares, so that every step is vectorised.
"""

from __future__ import annotations

import numpy as np

from .._utils.arrays import Floats, Ints
from .._utils.blocks import map_blocks
from .._utils.compiled import njit
from ..core.execution import Execution
from ..core.reading import ActivationModes
from .network import TILE, count_differing, in_tiles, weighted_sum

# Queries that are compared with a tile one after the other.
QUERIES = 64
# Sums of powers below this leave too few digits; K is then taken in units of the highest.
SMALLEST_SUM = 1e-200


class LabelledSides:
    """Stored bits of rows that are ordered by class; class y has the rows starts[y] to starts[y+1].

    Guarantees: the sums do not depend on blocks and threads. Edge cases: a query without any row of
    positive weight, or with K = 0 to all of them, has sums of 0.
    """

    def __init__(self, modes: ActivationModes, starts: Ints):
        self.modes, self.starts = modes, starts
        self._tiles = in_tiles(modes)

    def class_sums(
        self, queries: ActivationModes, weight: Floats, n_squares: Ints, execution: Execution
    ) -> Floats:
        """sum over rows of (K / max K)^e weight, shape (n_exponents, n_queries, n_classes).

        The exponents e are 2 to the powers ``n_squares``, which ascend; the maximum is over rows of
        positive weight.
        """
        padded = np.zeros(len(self._tiles) * TILE)
        padded[: len(weight)] = weight
        voting = (padded > 0).astype(float)
        powers = 2.0**n_squares
        shape = (len(n_squares), len(self.starts) - 1)

        def block(rows: slice) -> Floats:
            codes = queries.codes[rows]
            sums, top = np.zeros((len(codes), *shape)), np.zeros(len(codes))
            size = float(self.modes.sizes[0])
            unit = np.full(len(codes), size)
            stored = (self._tiles, padded, voting, self.starts, n_squares)
            _tile_sums(codes, size, unit, *stored, sums, top)
            low = np.flatnonzero((top > 0) & ((top / unit) ** powers[-1] < SMALLEST_SUM))
            if len(low):  # once more, in units of the highest number of equal bits
                again = np.zeros((len(low), *shape))
                _tile_sums(codes[low], size, top[low], *stored, again, np.zeros(len(low)))
                sums[low], unit[low] = again, top[low]
            highest = (np.where(top > 0, top, unit) / unit)[:, None] ** powers
            relative: Floats = sums / highest[:, :, None]
            return relative

        found = map_blocks(block, len(queries), 8.0 * np.prod(shape), n_jobs=execution.n_jobs)
        return np.ascontiguousarray(np.concatenate(found).transpose(1, 0, 2))


@njit(nogil=True, cache=True)
def _tile_sums(queries, size, unit, tiles, weight, voting, starts, n_squares, sums, top):
    """sums[i, e, y] = sum over rows of class y of weight (equal bits / unit[i])^(2^n_squares[e]).

    top[i] is the highest number of equal bits of a row of positive weight, which ``voting`` marks.
    """
    differ, x = np.empty(TILE, np.uint64), np.empty(TILE)
    highest = np.zeros((QUERIES, TILE))
    for block in range(0, len(queries), QUERIES):
        highest[:] = 0.0
        y_first = 0
        for tile in range(tiles.shape[0]):  # a tile stays in the cache for all queries of a block
            first, stop = tile * TILE, min((tile + 1) * TILE, starts[-1])
            while starts[y_first + 1] <= first:
                y_first += 1
            words, votes = tiles[tile], voting[first : first + TILE]
            for i in range(block, min(block + QUERIES, len(queries))):
                count_differing(queries[i], words, 0, tiles.shape[1], differ)
                top_row, scale = highest[i - block], 1.0 / unit[i]
                for j in range(TILE):
                    x[j] = size - np.float64(np.int64(differ[j]))
                    top_row[j] = max(top_row[j], x[j] * votes[j])
                    x[j] *= scale
                done = 0
                for e in range(len(n_squares)):
                    while done < n_squares[e]:
                        for j in range(TILE):
                            x[j] *= x[j]
                        done += 1
                    y, begin = y_first, first
                    while begin < stop:
                        end = min(starts[y + 1], stop)
                        part = x[begin - first : end - first]
                        sums[i, e, y] += weighted_sum(part, weight[begin:end])
                        begin = end
                        y += 1
        for i in range(block, min(block + QUERIES, len(queries))):
            top[i] = highest[i - block].max()
