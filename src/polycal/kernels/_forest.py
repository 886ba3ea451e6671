"""Leaf ids: an inverted index for deep trees, a vectorised comparison for shallow ones.

Both find, for one query, the stored modes that share at least one leaf and in how many
trees they do; everything else is common. The cheaper one is chosen when the index is
built. K takes only n_trees + 1 values, so a table of class counts by number of shared
leaves serves every exponent.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from .._blocks import map_blocks
from .._gaussian import Gaussians
from .._types import ActivationModes
from ._base import ROUNDING, Effort, HeldOut, KernelIndex
from ._select import select_row

# One visit to a stored mode through the index costs about as much as this many
# comparisons of the vectorised scan (measured: benchmarks/speed_forest.py --scan).
VISIT_COST = 16.0
# Columns of a matrix product that are summed over the leaves together.
COLUMNS_AT_ONCE = 64


class ForestIndex(KernelIndex):
    """Exact forest kernel; ``method`` is "index", "scan" or "auto" (the cheaper)."""

    def __init__(self, modes: ActivationModes, method: str = "auto"):
        super().__init__(modes)
        codes = modes.codes
        n_stored, n_trees = codes.shape
        self._n_leaves = codes.max(axis=0).astype(np.int64) + 1
        self._offset = np.concatenate([[0], np.cumsum(self._n_leaves)])
        visits = _visits_per_query(codes, self._n_leaves)
        scan_is_cheaper = visits * VISIT_COST > n_stored * n_trees
        self.method = ("scan" if scan_is_cheaper else "index") if method == "auto" else method
        small = np.uint16 if codes.max() < 2**16 - 1 else np.int32
        if self.method == "index":
            self._start, self._member = _inverted_index(codes, self._offset)
            self._column = np.empty((0, 0), small)
        else:
            self._start, self._member = np.zeros(1, np.int64), np.empty(0, np.int32)
            self._column = np.ascontiguousarray(codes.T.astype(small))

    @property
    def _tables(self) -> tuple:
        return (
            self.method == "index",
            self._n_leaves,
            self._offset,
            self._start,
            self._member,
            self._column,
        )

    def _scratch(self) -> tuple[NDArray, NDArray]:
        n = len(self.modes)
        return np.zeros(n, self._column.dtype), np.empty(n, np.int64)

    def _similarity_block(self, queries: ActivationModes) -> NDArray:
        K = np.zeros((len(queries), len(self.modes)))
        _fill_similarity(queries.codes, self._tables, *self._scratch(), K)
        return K

    def _nearest_block(
        self, queries: ActivationModes, X: NDArray, g: Gaussians, k: int, fill: bool
    ) -> tuple[NDArray, NDArray]:
        sim = np.empty((len(queries), k))
        ids = np.empty((len(queries), k), dtype=np.int64)
        gaussians = (g.mean, g.precision, g.log_norm)
        _nearest_rows(queries.codes, self._tables, *self._scratch(), fill, X, gaussians, sim, ids)
        return sim, ids

    def matmul(self, queries: ActivationModes, values: NDArray, effort: Effort) -> NDArray:
        """K @ values through the sums of each leaf: no pair is ever visited."""
        out = np.zeros((len(queries), values.shape[1]))
        n_leaves, stored = self._n_leaves, self.modes.codes

        def columns(block: slice) -> None:
            for start in range(block.start, block.stop, COLUMNS_AT_ONCE):
                part = slice(start, min(start + COLUMNS_AT_ONCE, block.stop))
                chunk = np.ascontiguousarray(values[:, part])
                sums = np.zeros((len(queries), chunk.shape[1]))
                _leaf_product(queries.codes, stored, n_leaves, chunk, sums)
                out[:, part] = sums

        map_blocks(
            columns,
            values.shape[1],
            8.0 * (len(queries) + len(stored) + n_leaves.max()),
            n_jobs=effort.n_jobs,
            verbose=effort.verbose,
            desc="bandwidth",
        )
        return out

    def _class_sums_bytes(self, counts: NDArray, exponents: NDArray) -> float:
        n_trees = self.modes.codes.shape[1]
        return 8.0 * ((n_trees + 1) * (counts.shape[1] + 3) + len(exponents) * counts.shape[1])

    def _class_sums_block(
        self,
        queries: ActivationModes,
        counts: NDArray,
        exponents: NDArray,
        held_out: HeldOut | None,
    ) -> tuple[NDArray, NDArray]:
        n_trees = queries.codes.shape[1]
        # table[i, m, y]: rows of class y that share exactly m leaves with query i
        table = np.zeros((len(queries), n_trees + 1, counts.shape[1]))
        _tabulate(queries.codes, self._tables, *self._scratch(), counts, table)
        if held_out is not None:
            rows, weight = np.arange(len(queries)), held_out.weight
            table[rows, n_trees, held_out.label] -= weight
            alone = table[:, n_trees].sum(axis=1) <= ROUNDING * weight
            table[alone, n_trees] = 0.0
        shared = np.arange(n_trees + 1)
        present = table.sum(axis=2) > 0
        top = np.where(present, shared, 0).max(axis=1)
        with np.errstate(divide="ignore"):
            log_ratio = np.log(shared) - np.log(np.maximum(top, 1))[:, None]
            log_top = np.log(top / n_trees)
        log_ratio = np.where(present, log_ratio, -np.inf)
        sums = [np.matmul(np.exp(e * log_ratio)[:, None, :], table)[:, 0] for e in exponents]
        return log_top, np.stack(sums)


def _visits_per_query(codes: NDArray, n_leaves: NDArray) -> float:
    """Expected index visits for a query drawn like the stored modes."""
    squares = sum(
        float((np.bincount(codes[:, t], minlength=n).astype(float) ** 2).sum())
        for t, n in enumerate(n_leaves)
    )
    return squares / len(codes)


@njit(nogil=True, cache=True)
def _inverted_index(codes, offset):
    """Compressed rows: the stored modes in each leaf of each tree, in ascending order."""
    n_stored, n_trees = codes.shape
    start = np.zeros(offset[n_trees] + 1, np.int64)
    for s in range(n_stored):
        for t in range(n_trees):
            start[offset[t] + codes[s, t] + 1] += 1
    for leaf in range(len(start) - 1):
        start[leaf + 1] += start[leaf]
    place = start[:-1].copy()
    member = np.empty(n_stored * n_trees, np.int32)
    for s in range(n_stored):
        for t in range(n_trees):
            leaf = offset[t] + codes[s, t]
            member[place[leaf]] = s
            place[leaf] += 1
    return start, member


@njit(nogil=True, cache=True)
def _candidates(code, tables, shared, touched):
    """Fill ``touched`` with the stored modes that share a leaf, ``shared`` with how many."""
    use_index, n_leaves, offset, start, member, column = tables
    n = 0
    if use_index:
        for t in range(len(code)):
            if code[t] >= n_leaves[t]:
                continue
            leaf = offset[t] + code[t]
            for m in range(start[leaf], start[leaf + 1]):
                s = member[m]
                if shared[s] == 0:
                    touched[n] = s
                    n += 1
                shared[s] += 1
        return n
    one = shared.dtype.type(1)
    for t in range(len(code)):
        if code[t] >= n_leaves[t]:
            continue
        row, wanted = column[t], column.dtype.type(code[t])
        for s in range(len(shared)):
            if row[s] == wanted:
                shared[s] += one
    for s in range(len(shared)):
        if shared[s] > 0:
            touched[n] = s
            n += 1
    return n


@njit(nogil=True, cache=True)
def _fill_similarity(codes, tables, shared, touched, K):
    n_trees = codes.shape[1]
    for i in range(codes.shape[0]):
        n = _candidates(codes[i], tables, shared, touched)
        for j in range(n):
            s = touched[j]
            K[i, s] = shared[s] / n_trees
            shared[s] = 0


@njit(nogil=True, cache=True)
def _nearest_rows(codes, tables, shared, touched, fill, X, gaussians, out_sim, out_ids):
    n_trees = codes.shape[1]
    mean, precision, log_norm = gaussians
    sim = np.empty(len(shared))
    for i in range(codes.shape[0]):
        n_shared = _candidates(codes[i], tables, shared, touched)
        n = n_shared
        if fill and n < out_sim.shape[1]:
            for s in range(len(shared)):
                if shared[s] == 0:
                    touched[n] = s
                    n += 1
        for j in range(n):
            sim[j] = shared[touched[j]] / n_trees
            shared[touched[j]] = 0
        select_row(sim, touched, n, X[i], mean, precision, log_norm, out_sim[i], out_ids[i])


@njit(nogil=True, cache=True)
def _tabulate(codes, tables, shared, touched, counts, table):
    for i in range(codes.shape[0]):
        n = _candidates(codes[i], tables, shared, touched)
        for j in range(n):
            s = touched[j]
            row = table[i, shared[s]]
            for y in range(counts.shape[1]):
                row[y] += counts[s, y]
            shared[s] = 0


@njit(nogil=True, cache=True)
def _leaf_product(queries, stored, n_leaves, values, out):
    n_trees = stored.shape[1]
    sums = np.empty((n_leaves.max(), values.shape[1]))
    for t in range(n_trees):
        sums[: n_leaves[t]] = 0.0
        for s in range(stored.shape[0]):
            sums[stored[s, t]] += values[s]
        for i in range(queries.shape[0]):
            if queries[i, t] < n_leaves[t]:
                out[i] += sums[queries[i, t]]
    out /= n_trees
