"""The paper's variant: the nearest polytope by Euclidean distance to its mean."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from .._utils.blocks import map_blocks
from ..core.density import Density
from ..core.reading import ActivationModes
from .base import Execution
from .select import select_row


def euclidean_nearest(
    X: NDArray, density: Density, k: int, execution: Execution
) -> tuple[NDArray, NDArray]:
    """Distance and index of the k nearest means; ties by log density, then lowest index."""

    def block(rows: slice) -> tuple[NDArray, NDArray]:
        n = rows.stop - rows.start
        score, index = np.empty((n, k)), np.empty((n, k), dtype=np.int64)
        _nearest_means(X[rows], density.parts, score, index)
        return np.sqrt(-score), index

    blocks = map_blocks(
        block,
        len(X),
        16 * k,
        n_jobs=execution.n_jobs,
        verbose=execution.verbose,
        desc="nearest means",
    )
    distance, index = zip(*blocks, strict=True)
    return np.concatenate(distance), np.concatenate(index)


def pair_similarity(
    queries: ActivationModes, stored: ActivationModes, index: NDArray, execution: Execution
) -> NDArray:
    """K of each query with the stored modes index[i, :], shape of ``index``."""

    def block(rows: slice) -> NDArray:
        other = stored.codes[index[rows]]  # (q, k, n_columns)
        mine = queries.codes[rows][:, None, :]
        matches = np.ones(other.shape[:2])
        groups = zip(stored.column_ranges, stored.sizes, stored.divisors, strict=True)
        for (start, stop), size, divisor in groups:
            a, b = mine[..., start:stop], other[..., start:stop]
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
    mean = density[0]
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
