"""Nearest polytopes by Euclidean distance to their means, a variant in the paper."""

from __future__ import annotations

import numpy as np

from .._utils.arrays import Floats, Ints
from .._utils.blocks import map_blocks
from .._utils.compiled import njit
from ..core.execution import Execution
from ..core.neighbours import Neighbours
from ..core.reading import ActivationModes
from .base import Search
from .select import select_row


class EuclideanIndex:
    """``nearest`` of a ``KernelIndex``, by the distance of the rows to the polytopes' means."""

    def __init__(self, modes: ActivationModes):
        self.modes = modes

    def nearest(
        self, queries: ActivationModes, X: Floats, search: Search, execution: Execution
    ) -> Neighbours:
        """The k nearest means, with the kernel K of each; ties by log density, then index."""
        k = search.k

        def block(rows: slice) -> Ints:
            index = np.empty((rows.stop - rows.start, k), dtype=np.int64)
            _nearest_means(X[rows], search.density.arrays, np.empty(index.shape), index)
            return index

        blocks = map_blocks(
            block,
            len(X),
            16 * k,
            n_jobs=execution.n_jobs,
            verbose=execution.verbose,
            desc="nearest means",
        )
        index = np.concatenate(blocks)
        return Neighbours(pair_similarity(queries, self.modes, index, execution), index)


def pair_similarity(
    queries: ActivationModes, stored: ActivationModes, index: Ints, execution: Execution
) -> Floats:
    """K of each query with the stored modes index[i, :], shape of ``index``."""

    def block(rows: slice) -> Floats:
        other = stored.codes[index[rows]]  # (q, k, n_columns)
        own = queries.codes[rows][:, None, :]
        matches = np.ones(other.shape[:2])
        groups = zip(stored.column_ranges, stored.sizes, stored.divisors, strict=True)
        for (start, stop), size, divisor in groups:
            a, b = own[..., start:stop], other[..., start:stop]
            if stored.packed:
                matches *= size - np.bitwise_count(a ^ b).sum(axis=2, dtype=np.int64)
            else:
                matches *= (a == b).sum(axis=2)
            matches /= divisor
        return matches

    row_bytes = 2 * index.shape[1] * stored.codes.shape[1] * stored.codes.itemsize
    return np.concatenate(map_blocks(block, len(index), row_bytes, n_jobs=execution.n_jobs))


@njit(nogil=True, cache=True)
def _nearest_means(X, density, out_score, out_ids):
    mean = density.mean
    n = mean.shape[0]
    ids, keep = np.arange(n), np.empty(n, np.int64)
    score = np.empty(n)
    for i in range(X.shape[0]):
        for r in range(n):
            total = 0.0
            for j in range(X.shape[1]):
                z = X[i, j] - mean[r, j]
                total += z * z
            score[r] = -total
        select_row(score, ids, n, X[i], density, keep, out_score[i], out_ids[i])
