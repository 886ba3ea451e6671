"""The index by sampled paths: class sums and neighbours of rows that agree along random paths."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from .._utils.arrays import Floats, Ints
from ..core.execution import Execution
from ..core.neighbours import Neighbours
from ..core.reading import ActivationModes
from .base import KernelIndex, Search
from .forest import leaf_matmul
from .path_tables import PathTables, Sampling, draw_paths
from .sampled_loops import near_sums, path_symbols, select_rows, shared_leaves, shared_units
from .streamed import StreamedTables

# Modes that a query meets most, of which the nearest by exact K are its neighbours.
CANDIDATES = 64
# Stored modes that stand for all where a query meets too few, but neighbours are asked for anyway.
OTHERS = 10_000
# Random paths by which K is estimated where it weighs sums over all rows.
WEIGHING_PATHS = 128


class SampledIndex(KernelIndex):
    """Class sums and neighbours by ``PathTables``; K of the neighbours is exact.

    The tables are built at the first query, unless they are given.
    """

    device: str | None = None  # of torch, where the tables are built; None is the CPU

    def __init__(
        self,
        modes: ActivationModes,
        counts: Floats,
        n_candidates: int,
        sampling: Sampling,
        hidden_labels: bool = False,
        tables: PathTables | StreamedTables | None = None,
    ):
        super().__init__(modes)
        self.hidden_labels = hidden_labels and len(modes.sizes) > 1
        self.n_candidates, self.sampling = n_candidates, sampling
        self._counts, self._tables, self._execution = counts, tables, Execution()

    @classmethod
    def restore(
        cls,
        modes: ActivationModes,
        counts: Floats,
        tables: PathTables | StreamedTables,
        hidden_labels: bool,
    ) -> SampledIndex:
        """The index with tables that were built before."""
        sampling = Sampling(tables.scales, len(tables.draws), np.inf, 0)
        return cls(modes, counts, tables.n_candidates, sampling, hidden_labels, tables)

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_execution": Execution()}

    @property
    def tables(self) -> PathTables | StreamedTables:
        """The tables of buckets."""
        if self._tables is None:
            n_groups = len(self.modes.sizes) - self.hidden_labels
            stored = (self.modes, self._counts, self.n_candidates)
            self._tables = PathTables.build(*stored, n_groups, self.sampling, self._build_how)
        return self._tables

    @property
    def _build_how(self) -> Execution:
        return replace(self._execution, device=self.device)

    def forget_tables(self) -> None:
        """Give the memory of the tables back; they are built again where they are asked for."""
        self._tables, self._kept_counts = None, (None, None)

    def _build(self, execution: Execution) -> None:
        self._execution = execution
        self.tables  # noqa: B018

    def _prepare_counts(self, counts: Floats) -> PathTables | None:
        """Tables of what these counts are less than those of the tables, or None."""
        if counts is self._counts:
            return None
        less = self._counts - counts
        changed = np.flatnonzero(less.any(axis=1))
        if len(changed) == 0:
            return None
        tables = self.tables
        assert isinstance(tables, PathTables)  # a stream leaves no labels out
        return tables.of(self.modes[changed], less[changed], 0, self._build_how)

    def _look_up(
        self,
        queries: ActivationModes,
        n_classes: int,
        n_found: int,
        less: PathTables | None,
        exponents: Floats,
    ) -> tuple[Floats, Ints]:
        return self.tables.look_up(queries, n_classes, n_found, less, exponents)

    def _similarity_block(self, queries: ActivationModes) -> Floats:
        """K with all stored modes, as every index gives it."""
        everything = np.broadcast_to(np.arange(len(self.modes)), (len(queries), len(self.modes)))
        return self._similarity(queries, everything)

    def _similarity(
        self, queries: ActivationModes, ids: Ints, n_groups: int | None = None
    ) -> Floats:
        """K of each query with the stored modes of these numbers; 0 for -1.

        With ``n_groups``, it is that of the first groups of symbols, up to a constant.
        """
        K, stored = np.empty(ids.shape), self.modes
        if not stored.packed:
            shared_leaves(queries.codes, stored.codes, ids, K)
            return K
        ranges, sizes = np.array(stored.column_ranges), np.array(stored.sizes, dtype=float)
        layers = (ranges[:n_groups], sizes[:n_groups], np.array(stored.divisors)[:n_groups])
        shared_units(queries.codes, stored.codes, ids, *layers, K)
        return K

    def _nearest_block(
        self, queries: ActivationModes, X: Floats, search: Search, execution: Execution
    ) -> Neighbours:
        if search.n_parts > 1:
            raise ValueError("sampled tables have no parts of the trees; use the exact index.")
        tables = self.tables
        counts = self._counts if search.counts is None else search.counts
        less = None if search.counts is None else self._prepared_counts(counts)
        asked = (queries, counts.shape[1], CANDIDATES, less, search.exponents)
        sums, ids = self._look_up(*asked)
        K = self._similarity(queries, ids)
        near = _select(K, ids, X, search)
        few = np.flatnonzero((near.index < 0).any(axis=1))
        if search.fill and len(few):
            step = -(-search.n_candidates // OTHERS)
            others = np.arange(0, search.n_candidates, step)
            both = np.concatenate([ids[few], np.tile(others, (len(few), 1))], axis=1)
            _forget_repeated(both)
            more = _select(self._similarity(queries[few], both), both, X[few], search)
            near.index[few], near.similarity[few] = more.index, more.similarity
        if search.counts is None:
            return near
        if tables.n_groups < len(self.modes.sizes):  # labels are not weighed by the output layer
            K = self._similarity(queries, ids, tables.n_groups)
        return replace(near, class_sums=self._sums_at(sums, K, ids, counts, search.exponents))

    def _sums_at(
        self, sums: Floats, K: Floats, ids: Ints, counts: Floats, exponents: Floats
    ) -> Floats:
        """Class sums by the tables where they have the exponent as a scale, else by near modes.

        A high exponent leaves few modes, which sequences bring together with a query too rarely.
        The near modes of a query have nearly all of that weight, and their K is exact. One that is
        as near as the nearest counts as if every sequence met it.
        """
        tables = self.tables
        place = np.minimum(np.searchsorted(tables.scales, exponents), len(tables.scales) - 1)
        found: Floats = sums[place]
        by_near = np.flatnonzero(tables.scales[place] != exponents)
        if len(by_near):
            near = np.zeros((len(by_near), *sums.shape[1:]))
            near_sums(K, ids, counts, exponents[by_near], near)
            found[by_near] = len(tables.draws) * tables.row_weight * near
        return found

    def _nearest_bytes(self, search: Search) -> float:
        # Number, similarity and two copies of each mode that stands for all.
        n_others = min(OTHERS, search.n_candidates) if search.fill else 0
        return 8.0 * (len(self.tables.start) + 2 * CANDIDATES + 4 * n_others)

    def _class_sums_bytes(self, counts: Floats, exponents: Floats) -> float:
        return float(8 * (len(self.tables.start) + len(exponents) * counts.shape[1]))

    def _class_sums_block(
        self, queries: ActivationModes, counts: Floats, exponents: Floats
    ) -> Floats:
        less = self._prepared_counts(counts)
        n_found = 0 if np.isin(exponents, self.tables.scales).all() else CANDIDATES
        sums, ids = self._look_up(queries, counts.shape[1], n_found, less, exponents)
        K = self._similarity(queries, ids, self.tables.n_groups)
        return self._sums_at(sums, K, ids, counts, exponents)

    def matmul(self, queries: ActivationModes, values: Floats, execution: Execution) -> Floats:
        """K @ values from sums over each leaf, where K is the share of some random paths."""
        stored, one_path = self.modes, np.array([1])
        queries = queries.coded_like(stored)
        seed = self.sampling.seed
        if stored.packed:
            paths = draw_paths(stored, len(stored.sizes), one_path, WEIGHING_PATHS, seed)
            left, right = (path_symbols(modes.codes, paths) for modes in (queries, stored))
        else:
            trees = np.random.default_rng(seed).permutation(stored.sizes[0])
            trees = np.sort(trees[:WEIGHING_PATHS])
            left, right = (modes.codes[:, trees] for modes in (queries, stored))
        return leaf_matmul(left, right, values, execution)


def _select(K: Floats, ids: Ints, X: Floats, search: Search) -> Neighbours:
    """The nearest of some stored modes."""
    sim = np.empty((len(ids), search.k))
    index = np.empty(sim.shape, dtype=np.int64)
    select_rows(K, ids, search.fill, X, search.density.arrays, sim, index)
    return Neighbours(sim, index)


def _forget_repeated(ids: Ints) -> None:
    """Set to -1 what occurs in its row before."""
    for row in ids:
        _, first = np.unique(row, return_index=True)
        repeated = np.ones(len(row), dtype=bool)
        repeated[first] = False
        row[repeated] = -1
