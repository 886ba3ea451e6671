"""Leaf ids: an inverted index for deep trees, a vectorised comparison for shallow ones.

Both find, for one query, the stored modes that share at least one leaf and in how many
trees they do; everything else is common. The cheaper one is chosen when the index is
built. K takes only n_trees + 1 values, so a table of class counts by number of shared
leaves serves every exponent.
"""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np
from numba import njit
from numpy.typing import NDArray

from .._blocks import map_blocks
from .._density import NO_DENSITY
from .._types import ActivationModes, Near
from ._base import Effort, KernelIndex, Search
from ._select import select_row

# One visit to a stored mode through the index costs about as much as this many
# comparisons of the vectorised scan (benchmarks/speed_forest.py --crossover measures it).
VISIT_COST = 20.0
# Four-byte members in a cache line of 64 bytes.
MEMBERS_PER_LINE = 16
# Trees whose codes are read together while the index is built.
TREES_AT_ONCE = 8
NO_ROWS, NO_IDS = np.empty((0, 0)), np.empty((0, 0), dtype=np.int64)
# Columns of a matrix product that are summed over the leaves together.
COLUMNS_AT_ONCE = 64


class ForestIndex(KernelIndex):
    """Exact forest kernel; ``method`` is "index", "scan" or "auto" (the cheaper).

    The stored modes are arranged when the first query comes.
    """

    def __init__(self, modes: ActivationModes, method: str = "auto"):
        super().__init__(modes)
        self._wanted = method

    @cached_property
    def _n_leaves(self) -> NDArray:
        return self.modes.codes.max(axis=0).astype(np.int64) + 1

    @cached_property
    def _tables(self) -> tuple:
        """Whether there is an index, n_leaves, offset, start, member and column."""
        codes = self.modes.codes
        offset = np.concatenate([[0], np.cumsum(self._n_leaves)])
        start, member = _inverted_index(codes, offset)
        # Expected visits of a query that is drawn like the stored modes.
        visits = (np.diff(start).astype(float) ** 2).sum() / len(codes)
        use_index = visits * VISIT_COST <= codes.size
        if self._wanted != "auto":
            use_index = self._wanted == "index"
        small = np.uint16 if self._n_leaves.max() < 2**16 else np.int32
        column = np.empty((0, 0), small)
        if not use_index:
            start, member = np.zeros(1, np.int64), np.empty(0, np.uint32)
            column = np.ascontiguousarray(codes.T.astype(small))
        return bool(use_index), self._n_leaves, offset, start, member, column

    @property
    def method(self) -> str:
        """What is used, "index" or "scan"."""
        return "index" if self._tables[0] else "scan"

    def _arrange(self) -> None:
        self._tables  # noqa: B018

    def _scratch(self) -> tuple[NDArray, ...]:
        """tally, touched, shared, begin and end of ``_candidates``."""
        # One place more than modes: the candidate after the last is written, never read.
        n, n_trees = self.modes.codes.shape
        small = self.method == "index" and n_trees < 2**8  # the tally should stay in cache
        tally = np.zeros(n, np.uint8 if small else self._tables[-1].dtype)
        touched, shared = np.empty(n + 1, np.uint32), np.empty(n + 1, np.int32)
        return tally, touched, shared, np.empty(n_trees, np.int64), np.empty(n_trees, np.int64)

    def _similarity_block(self, queries: ActivationModes) -> NDArray:
        K = np.zeros((len(queries), len(self.modes)))
        _fill_similarity(queries.codes, self._tables, self._scratch(), K)
        return K

    def _look_block(self, queries: ActivationModes, X: NDArray, search: Search) -> Near:
        sim = np.empty((len(queries), search.k))
        ids = np.empty((len(queries), search.k), dtype=np.int64)
        table = self._survey(queries, search.counts, X, search, sim, ids)
        if search.counts is None:
            return Near(sim, ids)
        return Near(sim, ids, _table_sums(table, search.exponents))

    def _survey(
        self,
        queries: ActivationModes,
        counts: NDArray | None,
        X: NDArray = NO_ROWS,
        search: Search | None = None,
        sim: NDArray = NO_ROWS,
        ids: NDArray = NO_IDS,
    ) -> NDArray:
        """Fill sim and ids; return the class counts by number of shared leaves."""
        counts = np.empty((0, 0)) if counts is None else counts
        # table[i, m, y]: rows of class y that share exactly m leaves with query i
        shape = (len(queries), queries.codes.shape[1] + 1, counts.shape[1])
        table = np.zeros(shape)
        fill, density = False, NO_DENSITY
        if search is not None:
            fill, density = search.fill, search.density
        look = (self._tables, self._scratch())
        _survey_rows(queries.codes, *look, fill, X, density.parts, sim, ids, counts, table)
        return table

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
        self, queries: ActivationModes, counts: NDArray, exponents: NDArray
    ) -> NDArray:
        return _table_sums(self._survey(queries, counts), exponents)


def _table_sums(table: NDArray, exponents: NDArray) -> NDArray:
    """sum_m (m / max m)^exponent table[:, m] for each exponent."""
    sums = np.zeros((len(exponents), table.shape[0], table.shape[2]))
    _weigh_table(table, exponents, np.log(np.arange(1, table.shape[1])), sums)
    return sums


@njit(nogil=True, cache=True)
def _weigh_table(table, exponents, log_shared, sums):
    for i in range(table.shape[0]):
        log_top = -1.0
        for m in range(table.shape[1] - 1, 0, -1):
            if table[i, m].sum() <= 0.0:
                continue
            if log_top < 0.0:
                log_top = log_shared[m - 1]
            for e in range(len(exponents)):
                weight = math.exp(exponents[e] * (log_shared[m - 1] - log_top))
                for y in range(table.shape[2]):
                    sums[e, i, y] += weight * table[i, m, y]


@njit(nogil=True, cache=True)
def _inverted_index(codes, offset):
    """Compressed rows: the stored modes in each leaf of each tree, in ascending order.

    A counting sort for each tree, over columns that are copied together: the codes of a row
    share a cache line, and the leaves of one tree stay in cache.
    """
    n_stored, n_trees = codes.shape
    start = np.empty(offset[n_trees] + 1, np.int64)
    start[-1] = codes.size
    member = np.empty(codes.size, np.uint32)
    columns = np.empty((TREES_AT_ONCE, n_stored), np.int32)
    for first in range(0, n_trees, TREES_AT_ONCE):
        n_columns = min(TREES_AT_ONCE, n_trees - first)
        for s in range(n_stored):
            for j in range(n_columns):
                columns[j, s] = codes[s, first + j]
        for j in range(n_columns):
            t = first + j
            column, members = columns[j], member[t * n_stored : (t + 1) * n_stored]
            starts = start[offset[t] : offset[t + 1]]
            place = np.zeros(len(starts) + 1, np.int64)
            for s in range(n_stored):
                place[column[s] + 1] += 1
            for leaf in range(len(starts)):
                place[leaf + 1] += place[leaf]
                starts[leaf] = t * n_stored + place[leaf]
            for s in range(n_stored):
                members[place[column[s]]] = s
                place[column[s]] += 1
    return start, member


@njit(nogil=True, cache=True)
def _candidates(code, tables, scratch):
    """Stored modes that share a leaf with the query, and in how many trees they do.

    Returns their number n; ``scratch`` then holds them in ``touched[:n]`` and their numbers
    of shared leaves in ``shared[:n]``.
    """
    use_index, n_leaves, offset, start, member, column = tables
    tally, touched, shared, begin, end = scratch
    if use_index:
        n = _visit_leaves(code, n_leaves, offset, start, member, tally, touched, begin, end)
    else:
        n = _scan(code, n_leaves, column, tally, touched)
    for j in range(n):
        s = touched[j]
        shared[j] = tally[s]
        tally[s] = 0
    return n


@njit(nogil=True, cache=True)
def _visit_leaves(code, n_leaves, offset, start, member, tally, touched, begin, end):
    """Count the members of the query's leaves.

    The leaves of a query lie far apart in memory. Reading all addresses first, then one
    number of each cache line, lets those misses overlap; the count then runs from cache.
    """
    for t in range(len(code)):
        known = code[t] < n_leaves[t]
        leaf = offset[t] + (code[t] if known else 0)
        begin[t] = start[leaf]
        end[t] = start[leaf + 1] if known else begin[t]
    warm = 0
    for t in range(len(code)):
        for m in range(begin[t], end[t], MEMBERS_PER_LINE):
            warm |= member[m]
    n = 0
    for t in range(len(code)):
        members = member[begin[t] : end[t]]
        for m in range(len(members)):
            s = members[m]
            count = tally[s]
            touched[n] = s  # overwritten by the next one unless s is new
            n += count == 0
            tally[s] = count + 1
    begin[0] = warm  # kept, so that the compiler keeps the reads
    return n


@njit(nogil=True, cache=True)
def _scan(code, n_leaves, column, tally, touched):
    """Compare the query's leaves with those of all stored modes, tree by tree."""
    for t in range(len(code)):
        if code[t] < n_leaves[t]:
            row, wanted = column[t], column.dtype.type(code[t])
            for s in range(len(tally)):
                tally[s] += row[s] == wanted
    n = 0
    for s in range(len(tally)):
        touched[n] = s
        n += tally[s] > 0
    return n


@njit(nogil=True, cache=True)
def _fill_similarity(codes, tables, scratch, K):
    n_trees = codes.shape[1]
    touched, shared = scratch[1], scratch[2]
    for i in range(codes.shape[0]):
        n = _candidates(codes[i], tables, scratch)
        for j in range(n):
            K[i, touched[j]] = shared[j] / n_trees


@njit(nogil=True, cache=True)
def _survey_rows(codes, tables, scratch, fill, X, density, out_sim, out_ids, counts, table):
    """One look at each query's candidates: the nearest (if asked for) and the class table."""
    n_trees, k = codes.shape[1], out_sim.shape[1]
    among = len(density[2])
    touched, shared = scratch[1], scratch[2]
    # Most candidates share few leaves; four lanes spare each addition the wait for the last.
    lanes = np.zeros((4, *table.shape[1:]))
    keep = np.empty(len(touched), np.int64)
    for i in range(codes.shape[0]):
        n = _candidates(codes[i], tables, scratch)
        for j in range(n):
            row = lanes[j & 3, shared[j]]
            for y in range(counts.shape[1]):
                row[y] += counts[touched[j], y]
        if counts.shape[1] > 0:
            table[i] = lanes[0] + lanes[1] + lanes[2] + lanes[3]
            lanes[:] = 0.0
        if k > 0:
            if fill:
                n = _append_others(n, k, among, scratch)
            chosen = out_sim[i], out_ids[i]
            select_row(shared, touched, n, X[i], density, keep, *chosen)
            for j in range(k):
                out_sim[i, j] /= n_trees


@njit(nogil=True, cache=True)
def _append_others(n, k, among, scratch):
    """Add the first ``among`` stored modes that share nothing, if fewer than k share a leaf."""
    tally, touched, shared = scratch[0], scratch[1], scratch[2]
    near = 0
    for j in range(n):
        near += touched[j] < among
    if near >= k:
        return n
    for j in range(n):
        tally[touched[j]] = 1
    last = n
    for s in range(among):
        if tally[s] == 0:
            touched[last] = s
            shared[last] = 0
            last += 1
    for j in range(n):
        tally[touched[j]] = 0
    return last


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
