"""Class sums and neighbours from sampled paths, at a cost that does not grow with the rows.

K(x, s) is the share of paths (a tree, or one unit of each layer) on which two rows agree, so it is
the probability that a random path agrees, and K^e that e independent random paths do. Sequences of
random paths are drawn once. Rows that agree on the first e paths of a sequence share a bucket of
scale e. The mean over the sequences of the class sums in a query's buckets is an unbiased estimate
of sum_s K(x, s)^e n_sy, and the modes that stand for the buckets are near it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from .._utils.arrays import Array, Floats, Ints
from .._utils.blocks import map_blocks
from .._utils.saved import saved_array, saved_number
from .._utils.significance import WEIGHT_ROUNDING
from ..core.execution import Execution
from ..core.neighbours import Neighbours
from ..core.reading import ActivationModes
from .base import KernelIndex, Search
from .forest import VISIT_COST, leaf_matmul
from .sampled_loops import (
    BucketArrays,
    LabelledModes,
    ModeLabels,
    build_table,
    is_sound,
    leaf_hashes,
    look_up,
    most_met,
    near_sums,
    path_symbols,
    select_rows,
    shared_leaves,
    shared_units,
    unit_hashes,
)

# Sequences whose tables are built first to find out how much memory all of them need, and what
# others may take beyond it.
TRIAL_SEQUENCES, MARGIN = 2, 1.1
# A scale keeps at least 2 to the power of minus this of its buckets.
MOST_BITS = 6
# Weights in a file are below this, so that their sums are numbers.
LARGEST = 1e150
# Modes that a query meets most, of which the nearest by exact K are its neighbours.
CANDIDATES = 64
# Stored modes that stand for all where a query meets too few, but neighbours are asked for anyway.
OTHERS = 10_000
# Random paths by which K is estimated where it weighs sums over all rows.
WEIGHING_PATHS = 128


# Work of a query, in comparisons of a leaf id in the exact scan (benchmarks/scale.py --work
# measures it): one draw of a path, one look-up in a table; one word of 64 bits of a stored mode and
# the powers of its similarity, for a network and for rows that vote by hyperplanes.
DRAW_WORK, LOOK_UP_WORK = 30.0, 1400.0
WORD_WORK, POWER_WORK = 4.0, 170.0
SIDE_WORD_WORK, SIDE_POWER_WORK = 2.6, 18.0
# The exact search is taken while its work is at most this many times that of the sampled one,
# because it has no error.
WORTH_OF_EXACT = 2.0


@dataclass(frozen=True)
class Sampling:
    """How paths are sampled."""

    scales: Ints  # ascending numbers of paths, from 1 on
    n_sequences: int
    memory: float  # bytes of all tables, at most
    seed: int

    def is_cheaper(self, modes: ActivationModes, by_sides: bool = False) -> bool:
        """Whether a query among these modes is so much cheaper by sampled paths.

        ``by_sides`` says that the exact search would be that of rows that vote by hyperplanes.
        """
        n_draws = int(self.scales[-1]) * len(modes.sizes)
        look_ups = len(self.scales) * LOOK_UP_WORK
        sampled = self.n_sequences * (DRAW_WORK * n_draws + look_ups)
        return _exact_work(modes, by_sides) > WORTH_OF_EXACT * sampled


def _exact_work(modes: ActivationModes, by_sides: bool = False) -> float:
    """Comparisons of one query with all stored modes."""
    n_modes, n_columns = modes.codes.shape
    if by_sides:
        return float(n_modes * (SIDE_WORD_WORK * n_columns + SIDE_POWER_WORK))
    if modes.packed:
        return float(n_modes * (WORD_WORK * n_columns + POWER_WORK))
    # Of a query that is drawn like the stored modes.
    visits = sum(float((np.bincount(column) ** 2.0).sum()) for column in modes.codes.T) / n_modes
    work: float = min(visits * VISIT_COST, float(modes.codes.size))
    return work


@dataclass(frozen=True)
class PathTables:
    """Tables of buckets: the class sums of stored modes, and one mode that stands for each bucket.

    A bucket has one mode that stands for it, at random; the first ``n_candidates`` modes, which may
    be neighbours, come before others.

    A path is a column of leaf ids, or one bit of each of some groups; ``draws`` has the numbers of
    columns, or of bits in a row of packed words.

    Guarantees: the tables do not depend on the order of the modes, nor on threads. The expected
    class sums at scale e are those of K^e. Edge cases: where memory is short, buckets of fine
    scales are left out by their hash, the same for stored modes and queries, which widens the
    error of the estimate but does not bias it.
    """

    own_axes: ClassVar[tuple[str, ...]] = (
        "table_sequences",
        "table_draws",
        "table_scales",
        "table_modes",
        "table_starts",
        "table_slots",
        "table_content",
    )

    draws: Array = saved_array("int32 table_sequences table_draws")  # path by path
    salt: Array = saved_array("uint64 table_sequences")  # in which hashes of sequences differ
    scales: Ints = saved_array("int64 table_scales")  # ascending numbers of paths
    n_groups: int = saved_number(int, above=0, below=2**31)  # numbers of a path; 1 for leaf ids
    label: Array = saved_array("int32 table_modes")  # class of a mode that has one; -1 for others
    weight: Floats = saved_array("float64 table_modes")  # of that class
    n_candidates: int = saved_number(int, above=0)  # modes that may be neighbours
    start: Ints = saved_array("int64 table_starts")
    tag: Array = saved_array("uint16 table_slots")
    value: Array = saved_array("int32 table_slots")
    content_start: Ints = saved_array("int64 table_starts")
    content: Floats = saved_array("float64 table_content")
    # A bucket is left out at a scale if its hash has any of these bits.
    left_out_bits: Array = saved_array("uint64 table_scales")

    @classmethod
    def build(
        cls,
        modes: ActivationModes,
        counts: Floats,
        n_candidates: int,
        n_groups: int,
        sampling: Sampling,
        execution: Execution,
    ) -> PathTables:
        """Tables of these modes with their class counts; the first ones may be neighbours.

        Paths go through the first ``n_groups`` groups of symbols.
        """
        none, starts, floats = np.zeros(0, np.int32), np.zeros(1, np.int64), np.zeros(0)
        n = sampling.n_sequences
        empty = cls(
            draws=_draw(modes, n_groups, sampling),
            salt=np.random.default_rng(sampling.seed).integers(0, 2**64, n, dtype=np.uint64),
            scales=sampling.scales,
            n_groups=n_groups,
            label=none,
            weight=floats,
            n_candidates=0,
            start=starts,
            tag=np.zeros(0, np.uint16),
            value=none,
            content_start=starts,
            content=floats,
            left_out_bits=np.zeros(len(sampling.scales), np.uint64),
        )
        tables = empty.within(sampling.memory, modes, counts, execution)
        return tables.of(modes, counts, n_candidates, execution)

    def of(
        self, modes: ActivationModes, counts: Floats, n_candidates: int, execution: Execution
    ) -> PathTables:
        """Tables of other modes, with the same paths and the same buckets left out."""
        mode, y = np.nonzero(counts)
        first = np.searchsorted(mode, np.arange(len(modes) + 1))
        weights, one = counts[mode, y], np.diff(first) == 1
        label, weight = np.full(len(modes), -1, np.int32), np.zeros(len(modes))
        label[one], weight[one] = y[first[:-1][one]], weights[first[:-1][one]]
        known = (first, y.astype(np.int32), weights, label)
        labelled = LabelledModes(_hash_of_all(modes), n_candidates, *known)

        def sequences(some: slice) -> list[tuple[Array, ...]]:
            hashes = np.empty((some.stop - some.start, len(self.scales), len(modes)), np.uint64)
            self._hash(modes, hashes, some)
            return [
                build_table(h, bits, salt, labelled, counts.shape[1])
                for sequence, salt in zip(hashes, self.salt[some], strict=True)
                for h, bits in zip(sequence, self.left_out_bits, strict=True)
            ]

        found = map_blocks(
            sequences,
            len(self.draws),
            8.0 * len(modes) * (len(self.scales) + 6),
            n_jobs=execution.n_jobs,
            verbose=execution.verbose,
            desc="tables",
            block_bytes=0,  # a few sequences at once, so that their hashes stay near each other
        )
        tables = [table for block in found for table in block]
        del found
        tags, values, contents = zip(*tables, strict=True)
        return replace(
            self,
            label=label,
            weight=weight,
            n_candidates=n_candidates,
            start=np.cumsum([0, *map(len, tags)]),
            tag=np.concatenate(tags),
            value=np.concatenate(values),
            content_start=np.cumsum([0, *map(len, contents)]),
            content=np.concatenate(contents),
        )

    def within(
        self, memory: float, modes: ActivationModes, counts: Floats, execution: Execution
    ) -> PathTables:
        """Halve the buckets of the scale that takes most until tables of these modes fit in.

        What they take is that of the first sequences, and a margin.
        """
        n_trials = min(TRIAL_SEQUENCES, len(self.draws))
        trial = replace(self, draws=self.draws[:n_trials], salt=self.salt[:n_trials])
        trial = trial.of(modes, counts, len(modes), execution)
        slots, content = np.diff(trial.start), np.diff(trial.content_start)
        bytes_each = 6.0 * slots + 8.0 * content  # a tag and a value; content
        taken = MARGIN * len(self.draws) / n_trials * bytes_each.reshape(n_trials, -1).sum(axis=0)
        left = memory - self.draws.nbytes - 12 * len(modes)  # labels and weights
        n_bits = np.zeros(len(self.scales), dtype=int)
        while (taken / 2.0**n_bits).sum() > left and n_bits.min() <= MOST_BITS:
            n_bits[np.argmax(taken / 2.0**n_bits)] += 1
        if n_bits.max() > MOST_BITS:
            least = memory - left + np.minimum(taken, taken.sum() / 2**MOST_BITS).sum()
            raise ValueError(
                f"memory_limit is too small for the sampled tables of {len(modes):,} modes: hardly "
                f'any row would be found. Use at least "{math.ceil(2 * least / 2**20)}MiB", or '
                "fewer rows."
            )
        return replace(self, left_out_bits=(1 << n_bits.astype(np.uint64)) - np.uint64(1))

    def _hash(self, modes: ActivationModes, out: Array, sequences: slice = slice(None)) -> None:
        """Fill out[r, e, i]: the hash of mode i along sequence r up to scale e."""
        fill = unit_hashes if modes.packed else leaf_hashes
        paths = self.draws[sequences], self.salt[sequences]
        fill(modes.codes, *paths, self.scales * self.n_groups, out)

    def look_up(
        self, modes: ActivationModes, n_classes: int, n_found: int, less: PathTables | None = None
    ) -> tuple[Floats, Ints]:
        """Estimated class sums (n_scales, n_queries, n_classes), and near modes.

        The sums are those of sum_s K^e n_sy times the number of sequences. Those of the tables
        ``less`` are subtracted. The modes are the ``n_found`` that a query meets most, among those
        that may be neighbours; -1 where there are fewer.
        """
        n_sequences, n_scales = len(self.draws), len(self.scales)
        hashes = np.empty((n_sequences, n_scales, len(modes)), np.uint64)
        self._hash(modes, hashes)
        sums = np.zeros((n_scales, len(modes), n_classes))
        met = np.empty((n_sequences * n_scales if n_found else 0, len(modes)), np.int32)
        look_up(hashes, self.arrays, ModeLabels(self.label, self.weight), 1.0, sums, met)
        if less is not None:
            total, nothing = sums.copy(), met[:0]
            labels = ModeLabels(less.label, less.weight)
            look_up(hashes, less.arrays, labels, -1.0, sums, nothing)
            sums[sums <= WEIGHT_ROUNDING * total] = 0.0
        # What the buckets that were left out would add is added by those that were not.
        sums *= (self.left_out_bits.astype(float) + 1.0)[:, None, None]
        found = np.empty((len(modes), n_found), dtype=np.int64)
        if n_found:
            most_met(met, self.scales, self.n_candidates, found)
        return sums, found

    def contradictions(self) -> Iterator[str]:
        """Inconsistencies in tables that were read from a file, as messages."""
        n_tables, scales = len(self.draws) * len(self.scales), self.scales.tolist()
        ascending = len(scales) > 0 and scales[0] > 0 and scales == sorted(set(scales))
        if not ascending or self.draws.shape[1] != scales[-1] * self.n_groups:
            yield "sampled paths have other lengths than their scales"
        for start, end in ((self.start, self.tag), (self.content_start, self.content)):
            bounds = start[0] == 0 and start[-1] == len(end) and (np.diff(start) >= 0).all()
            if len(start) != n_tables + 1 or not bounds:
                yield "sampled tables begin and end elsewhere"
        if n_tables == 0 or (np.diff(self.start) < 1).any():
            yield "a sampled table has no slots"
        for values in (self.weight, self.content):
            if len(values) and not (values.min() >= 0 and values.max() < LARGEST):
                yield "a sampled table holds a weight that is none"
        if not np.isin(
            self.left_out_bits, 2 ** np.arange(MOST_BITS + 1, dtype=np.uint64) - 1
        ).all():
            yield "sampled tables leave out other buckets than they may"

    def contradictions_with(self, modes: ActivationModes, n_classes: int) -> Iterator[str]:
        """Inconsistencies between consistent tables and the modes that they are of."""
        n_numbers = modes.codes.shape[1] * (64 if modes.packed else 1)
        if self.draws.min() < 0 or self.draws.max() >= n_numbers:
            yield "sampled paths pass symbols that modes do not have"
        if len(self.label) and (self.label.min() < -1 or self.label.max() >= n_classes):
            yield "a mode of the sampled tables has no class of the model"
        if len(self.label) != len(modes) or not 0 < self.n_candidates <= len(modes):
            yield "sampled tables are of other modes"
        elif not is_sound(self.arrays, self.label, n_classes):
            yield "a bucket of a sampled table has no content"

    @property
    def arrays(self) -> BucketArrays:
        """The tables in the form that compiled loops take."""
        return BucketArrays(
            self.start,
            self.tag,
            self.value,
            self.content_start,
            self.content,
            self.left_out_bits,
        )

    @property
    def share_kept(self) -> Floats:
        """Share of the buckets that are kept at each scale."""
        kept: Floats = 1.0 / (self.left_out_bits.astype(float) + 1.0)
        return kept

    @property
    def nbytes(self) -> int:
        """Memory of the tables."""
        of_modes = (self.draws, self.salt, self.label, self.weight)
        return sum(array.nbytes for array in (*self.arrays, *of_modes))


def _draw(modes: ActivationModes, n_groups: int, sampling: Sampling) -> Array:
    """Independent uniform paths through the first groups, shape (n_sequences, n_draws)."""
    rng = np.random.default_rng(sampling.seed)
    shape = (sampling.n_sequences, int(sampling.scales[-1]))
    bits = 64 if modes.packed else 1
    groups = list(zip(modes.column_ranges, modes.sizes, strict=True))[:n_groups]
    draws = [bits * first + rng.integers(0, size, shape) for (first, _), size in groups]
    flat: Array = np.stack(draws, axis=2).reshape(shape[0], -1).astype(np.int32)
    return flat


def _hash_of_all(modes: ActivationModes) -> Array:
    """Hash of all symbols of each mode."""
    columns = np.arange(modes.codes.shape[1], dtype=np.int32)[None]
    out, salt = np.empty((1, 1, len(modes)), np.uint64), np.ones(1, np.uint64)
    leaf_hashes(modes.codes, columns, salt, np.array([columns.shape[1]]), out)
    hashes: Array = out[0, 0]
    return hashes


class SampledIndex(KernelIndex):
    """Class sums and neighbours by ``PathTables``; K of the neighbours is exact.

    The tables are built at the first query, unless they are given.
    """

    def __init__(
        self,
        modes: ActivationModes,
        counts: Floats,
        n_candidates: int,
        sampling: Sampling,
        hidden_labels: bool = False,
        tables: PathTables | None = None,
    ):
        super().__init__(modes)
        self.hidden_labels = hidden_labels and len(modes.sizes) > 1
        self.n_candidates, self.sampling = n_candidates, sampling
        self._counts, self._tables, self._execution = counts, tables, Execution()

    @classmethod
    def restore(
        cls, modes: ActivationModes, counts: Floats, tables: PathTables, hidden_labels: bool
    ) -> SampledIndex:
        """The index with tables that were built before."""
        sampling = Sampling(tables.scales, len(tables.draws), np.inf, 0)
        return cls(modes, counts, tables.n_candidates, sampling, hidden_labels, tables)

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_execution": Execution()}

    @property
    def tables(self) -> PathTables:
        """The tables of buckets."""
        if self._tables is None:
            n_groups = len(self.modes.sizes) - self.hidden_labels
            stored = (self.modes, self._counts, self.n_candidates)
            self._tables = PathTables.build(*stored, n_groups, self.sampling, self._execution)
        return self._tables

    def forget_tables(self) -> None:
        """Give the memory of the tables back; they are built again where they are asked for."""
        self._tables, self._kept_counts = None, (None, None)

    def _prepare(self, execution: Execution) -> None:
        self._execution = execution
        self.tables  # noqa: B018

    def _prepare_counts(self, counts: Floats) -> PathTables | None:
        """Tables of what these counts are less than those of the tables, or None."""
        less = self._counts - counts
        changed = np.flatnonzero(less.any(axis=1))
        if len(changed) == 0:
            return None
        return self.tables.of(self.modes[changed], less[changed], 0, self._execution)

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
        sums, ids = tables.look_up(queries, counts.shape[1], CANDIDATES, less)
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
            found[by_near] = len(tables.draws) * near
        return found

    def _nearest_bytes(self, search: Search) -> float:
        return 8.0 * (len(self.tables.start) + 2 * CANDIDATES)

    def _class_sums_bytes(self, counts: Floats, exponents: Floats) -> float:
        return float(8 * (len(self.tables.start) + len(exponents) * counts.shape[1]))

    def _class_sums_block(
        self, queries: ActivationModes, counts: Floats, exponents: Floats
    ) -> Floats:
        less = self._prepared_counts(counts)
        n_found = 0 if np.isin(exponents, self.tables.scales).all() else CANDIDATES
        sums, ids = self.tables.look_up(queries, counts.shape[1], n_found, less)
        K = self._similarity(queries, ids, self.tables.n_groups)
        return self._sums_at(sums, K, ids, counts, exponents)

    def matmul(self, queries: ActivationModes, values: Floats, execution: Execution) -> Floats:
        """K @ values from sums over each leaf, where K is the share of some random paths."""
        stored, one_path = self.modes, np.array([1])
        queries = queries.coded_like(stored)
        sampling = replace(self.sampling, scales=one_path, n_sequences=WEIGHING_PATHS)
        if stored.packed:
            paths = _draw(stored, len(stored.sizes), sampling)
            left, right = (path_symbols(modes.codes, paths) for modes in (queries, stored))
        else:
            trees = np.random.default_rng(sampling.seed).permutation(stored.sizes[0])
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
