"""The index for leaf ids: inverted for deep trees, a vectorised comparison for shallow trees.

Both methods find the stored modes that share at least one leaf with a query, and in how many
trees they do. The cheaper one is chosen when the index is built. K takes only n_trees + 1 values,
so a table of class counts by number of shared leaves gives the class sums for every exponent.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import numpy as np
from tqdm.auto import tqdm

from .._utils.arrays import Array, Floats, Ints
from .._utils.blocks import FEW_ROWS, map_blocks
from ..core.density import NO_DENSITY
from ..core.execution import Execution
from ..core.neighbours import Neighbours
from ..core.reading import ActivationModes
from .base import KernelIndex, Search
from .forest_loops import (
    Labels,
    LeafTables,
    Packing,
    Scratch,
    add_leaf_sums,
    count_leaf_rows,
    fill_similarity,
    inverted_index,
    one_row_classes,
    search_rows,
    sum_leaves,
)

# One visit to a stored mode through the index costs about as much as this many
# comparisons of the vectorised scan (benchmarks/speed_forest.py --crossover measures it).
VISIT_COST = 20.0
NO_ROWS, NO_NEAR = np.empty((0, 0)), np.empty((1, 0, 0))
NO_IDS = np.empty((1, 0, 0), dtype=np.int64)
NO_LEAF_ROWS = np.empty((0, 0), dtype=np.int32)
NO_LABELS = Labels(NO_ROWS, np.empty(0, dtype=np.int32), NO_LEAF_ROWS)
# Bits of the word in which the shared leaves of a mode are counted, at most.
WORD_BITS = 64
# Sums over leaves that a matrix product keeps at a time, in bytes.
LEAF_SUMS_BYTES = 2**21


class ForestIndex(KernelIndex):
    """Exact forest kernel; ``method`` is "index", "scan" or "auto" (the cheaper).

    The tables are built at the first query.
    """

    def __init__(self, modes: ActivationModes, method: str = "auto"):
        super().__init__(modes)
        self._requested_method = method

    @cached_property
    def _n_leaves(self) -> Ints:
        largest: Ints = self.modes.codes.max(axis=0).astype(np.int64)
        return largest + 1

    @cached_property
    def _tables(self) -> LeafTables:
        codes = self.modes.codes
        offset = np.concatenate([[0], np.cumsum(self._n_leaves)])
        start, member = inverted_index(codes, offset)
        # Expected visits of a query that is drawn like the stored modes.
        visits = (np.diff(start).astype(float) ** 2).sum() / len(codes)
        use_index = visits * VISIT_COST <= codes.size
        if self._requested_method != "auto":
            use_index = self._requested_method == "index"
        small = np.uint16 if self._n_leaves.max() < 2**16 else np.int32
        column = np.empty((0, 0), small)
        if not use_index:
            start, member = np.zeros(1, np.int64), np.empty(0, np.uint32)
            column = np.ascontiguousarray(codes.T.astype(small))
        return LeafTables(bool(use_index), self._n_leaves, offset, start, member, column)

    @property
    def method(self) -> str:
        """The method in use, "index" or "scan"."""
        return "index" if self._tables.use_index else "scan"

    def _build(self, execution: Execution) -> None:
        self._tables  # noqa: B018

    def _prepare_counts(self, counts: Floats) -> tuple[Array, Array]:
        """Class of each mode, and rows by leaf and class where these take no more than members."""
        one_row, tables, n_classes = one_row_classes(counts), self._tables, counts.shape[1]
        small = tables.use_index and (len(tables.start) - 1) * n_classes <= len(tables.member)
        if not small or (one_row < 0).any():
            return one_row, NO_LEAF_ROWS
        return one_row, count_leaf_rows(tables.start, tables.member, one_row, n_classes)

    def _packing(self, n_parts: int = 1, parts: range = range(0)) -> Packing:
        """Fields for all trees and for these of n parts, in the shortest word (for the cache)."""
        n_trees = self.modes.codes.shape[1]
        sizes = [n_trees, *(len(range(part, n_trees, n_parts)) for part in parts)]
        bits = np.array([size.bit_length() for size in sizes])
        dtype = np.min_scalar_type(2 ** int(bits.sum()) - 1)
        shift = np.cumsum(bits) - bits
        step = np.ones(n_trees, dtype)
        for field, part in enumerate(parts, 1):
            step[part::n_parts] += dtype.type(1 << int(shift[field]))
        mask = np.array([(1 << int(b)) - 1 for b in bits], dtype)
        return Packing(n_parts, step, shift.astype(dtype), mask, np.array(sizes))

    def _packings(self, n_parts: int) -> list[Packing]:
        """One for each pass over the queries; nearly always, one word has room for all parts."""
        if n_parts == 1:
            return [self._packing()]
        n_trees = self.modes.codes.shape[1]
        largest = -(-n_trees // n_parts)
        at_once = (WORD_BITS - n_trees.bit_length()) // largest.bit_length()
        first = range(0, n_parts, at_once)
        return [self._packing(n_parts, range(n_parts)[a : a + at_once]) for a in first]

    def _scratch(self, packing: Packing) -> Scratch:
        # One more than there are modes: the entry after the last is written, but never read.
        n, n_trees = self.modes.codes.shape
        narrow = self._tables.column.itemsize == 2 and n_trees < 2**16
        return Scratch(
            tally=np.zeros(n, packing.step.dtype),
            column_tally=np.zeros(self._tables.column.shape[1], np.uint16 if narrow else np.uint32),
            touched=np.empty(n + 1, np.uint32),
            word=np.empty(n + 1, packing.step.dtype),
            some=np.empty(n + 1, np.int64),
            ids=np.empty(n + 1, np.uint32),
            shared=np.empty(n + 1, np.int32),
            keep=np.arange(n + 1),
            tied=np.empty(n + 1, np.bool_),
            field_counts=np.empty((len(packing.size), n_trees + 1), np.int64),
            leaf=np.empty(n_trees, np.int64),
            begin=np.zeros(n_trees, np.uint64),
            end=np.zeros(n_trees, np.uint64),
            warm=np.empty(1, np.uint32),
        )

    def _similarity_block(self, queries: ActivationModes) -> Floats:
        K = np.zeros((len(queries), len(self.modes)))
        packing = self._packing()
        fill_similarity(queries.codes, self._tables, packing, self._scratch(packing), K)
        return K

    def _nearest_block(
        self, queries: ActivationModes, X: Floats, search: Search, execution: Execution
    ) -> Neighbours:
        counts, exponents, sums = search.counts, search.exponents, None
        near: list[Neighbours] = []
        for packing in self._packings(search.n_parts):
            sim = np.empty((len(packing.size), len(queries), search.k))
            ids = np.empty(sim.shape, dtype=np.int64)
            found = self._search(queries, counts, exponents, packing, X, search, sim, ids)
            if not near:  # by all trees, which the first pass is enough for
                near.append(Neighbours(sim[0], ids[0]))
                sums = None if counts is None else found
                counts, exponents = None, exponents[:0]
            near += map(Neighbours, sim[1:], ids[1:])
        return replace(near[0], class_sums=sums, parts=tuple(near[1:]))

    def _search(
        self,
        queries: ActivationModes,
        counts: Floats | None,
        exponents: Floats,
        packing: Packing,
        X: Floats = NO_ROWS,
        search: Search | None = None,
        sim: Floats = NO_NEAR,
        ids: Ints = NO_IDS,
    ) -> Floats:
        """Fill sim and ids; return the class sums."""
        labels = NO_LABELS
        if counts is not None:
            labels = Labels(counts, *self._prepared_counts(counts))
        log_shared = np.log(np.arange(1, queries.codes.shape[1] + 1))
        sums = np.zeros((len(exponents), len(queries), labels.counts.shape[1]))
        fill, density = False, NO_DENSITY
        if search is not None:
            fill, density = search.fill, search.density
        by_class = (labels, exponents, log_shared, sums)
        tables = (self._tables, packing, self._scratch(packing))
        search_rows(queries.codes, *tables, fill, X, density.arrays, sim, ids, *by_class)
        return sums

    def matmul(self, queries: ActivationModes, values: Floats, execution: Execution) -> Floats:
        """K @ values from sums over each leaf, without a loop over pairs."""
        queries = queries.coded_like(self.modes)
        return leaf_matmul(queries.codes, self.modes.codes, values, execution)

    def _class_sums_bytes(self, counts: Floats, exponents: Floats) -> float:
        return float(8 * len(exponents) * counts.shape[1])

    def _class_sums_block(
        self, queries: ActivationModes, counts: Floats, exponents: Floats
    ) -> Floats:
        return self._search(queries, counts, exponents, self._packing())


def leaf_matmul(queries: Array, stored: Array, values: Floats, execution: Execution) -> Floats:
    """Sum over stored rows of the share of equal leaf ids times values, (n_queries, n_columns).

    Some trees at a time, whose sums stay in the cache.
    """
    n_trees, width = stored.shape[1], values.shape[1]
    values, out = np.ascontiguousarray(values), np.zeros((len(queries), width))
    n_leaves = stored.max(axis=0).astype(np.int64) + 1
    together = int(max(1, LEAF_SUMS_BYTES // (8 * width * n_leaves.max())))
    jobs = execution.n_jobs
    for first in tqdm(
        range(0, n_trees, together), desc="bandwidth", disable=not execution.verbose, leave=False
    ):
        trees = slice(first, min(first + together, n_trees))
        left, right, known = queries[:, trees], stored[:, trees], n_leaves[trees]
        sums = np.zeros((len(known), int(known.max()), width))

        def sum_some(block: slice, right: Array = right, sums: Floats = sums) -> None:
            sum_leaves(right[:, block], values, sums[block])

        def add_some(
            rows: slice, left: Array = left, known: Ints = known, sums: Floats = sums
        ) -> None:
            add_leaf_sums(left[rows], known, sums, out[rows])

        few_trees = 1 if len(known) >= 2 * FEW_ROWS else 0  # then each tree is a block
        map_blocks(sum_some, len(known), few_trees, n_jobs=jobs, block_bytes=0)
        map_blocks(add_some, len(queries), 8 * width, n_jobs=jobs)
    out /= n_trees
    return out
