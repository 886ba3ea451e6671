"""Tables of rows that agree along sampled paths, at a cost that does not grow with the rows.

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

from .._utils.arrays import Array, Floats, Ints, is_ascending
from .._utils.blocks import concatenate, map_blocks
from .._utils.saved import saved_array, saved_number, saved_weight
from .._utils.significance import WEIGHT_ROUNDING
from ..core.execution import Execution
from ..core.reading import ActivationModes
from . import torch_buckets
from .forest import VISIT_COST
from .sampled_loops import (
    BucketArrays,
    LabelledModes,
    ModeLabels,
    build_table,
    is_sound,
    leaf_hashes,
    look_up,
    most_met,
    unit_hashes,
)

# Sequences whose tables are built first to find out how much memory all of them need, and what
# others may take beyond it.
TRIAL_SEQUENCES, MARGIN = 2, 1.1
# Tables of fewer modes are built by the CPU though there is a device, which takes over a second for
# any number of modes; one core takes a second for as many.
DEVICE_MODES = 100_000
# A scale keeps at least 2 to the power of minus this of its buckets.
MOST_BITS = 6

# Work of a query, in comparisons of a leaf id in the exact scan (benchmarks/scale.py --work
# measures it): one draw of a path, one look-up in a table; one word of 64 bits of a stored mode and
# the powers of its similarity, for a network and for rows that vote by hyperplanes.
DRAW_WORK, LOOK_UP_WORK = 6.5, 1400.0
WORD_WORK, POWER_WORK = 4.0, 170.0
SIDE_WORD_WORK, SIDE_POWER_WORK = 2.6, 18.0
# Stored modes that the visits of a query are estimated from, where there are more.
COUNTED = 10_000
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
        return exact_work(modes, by_sides) > WORTH_OF_EXACT * sampled


def exact_work(modes: ActivationModes, by_sides: bool = False) -> float:
    """Comparisons of one query with all stored modes."""
    n_modes, n_columns = modes.codes.shape
    if by_sides:
        return float(n_modes * (SIDE_WORD_WORK * n_columns + SIDE_POWER_WORK))
    if modes.packed:
        return float(n_modes * (WORD_WORK * n_columns + POWER_WORK))
    # Of a query that is drawn like the stored modes; pairs of some modes show how many it meets.
    some = modes.codes[:: max(1, n_modes // COUNTED)]
    pairs = sum(float((np.bincount(column) ** 2.0).sum()) for column in some.T) - some.size
    visits = n_columns + pairs * (n_modes - 1) / max(1, len(some) * (len(some) - 1))
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
    weight: Floats = saved_weight("float64 table_modes")  # of that class
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
        n = sampling.n_sequences
        draws = draw_paths(modes, n_groups, sampling.scales, n, sampling.seed)
        salt = np.random.default_rng(sampling.seed).integers(0, 2**64, n, dtype=np.uint64)
        empty = cls.along(draws, salt, sampling.scales, n_groups)
        tables = empty.within(sampling.memory, modes, counts, execution)
        return tables.of(modes, counts, n_candidates, execution)

    @classmethod
    def along(cls, draws: Array, salt: Array, scales: Ints, n_groups: int) -> PathTables:
        """Tables of no modes, along these paths."""
        none, starts, floats = np.zeros(0, np.int32), np.zeros(1, np.int64), np.zeros(0)
        return cls(
            draws=draws,
            salt=salt,
            scales=scales,
            n_groups=n_groups,
            label=none,
            weight=floats,
            n_candidates=0,
            start=starts,
            tag=np.zeros(0, np.uint16),
            value=none,
            content_start=starts,
            content=floats,
            left_out_bits=np.zeros(len(scales), np.uint64),
        )

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
        by_device = execution.device is not None and len(modes) >= DEVICE_MODES
        build = self._on_device if by_device else self._on_cpu
        built = build(modes, (n_candidates, *known), counts.shape[1], execution)
        return replace(
            self,
            label=label,
            weight=weight,
            n_candidates=n_candidates,
            start=built.start,
            tag=built.tag,
            value=built.value,
            content_start=built.content_start,
            content=built.content,
        )

    def _on_cpu(
        self, modes: ActivationModes, known: tuple[Any, ...], n_classes: int, execution: Execution
    ) -> BucketArrays:
        labelled = LabelledModes(hash_of_all(modes, execution), *known)

        def sequences(some: slice) -> list[tuple[Array, ...]]:
            hashes = np.empty((some.stop - some.start, len(self.scales), len(modes)), np.uint64)
            self._hash(modes, hashes, some)
            return [
                build_table(h, bits, salt, labelled, n_classes)
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
        tags, values, contents = (list(parts) for parts in zip(*tables, strict=True))
        del found, tables
        return BucketArrays(
            np.cumsum([0, *map(len, tags)]),
            concatenate(tags, execution.n_jobs),
            concatenate(values, execution.n_jobs),
            np.cumsum([0, *map(len, contents)]),
            concatenate(contents, execution.n_jobs),
            self.left_out_bits,
        )

    def _on_device(
        self, modes: ActivationModes, known: tuple[Any, ...], n_classes: int, execution: Execution
    ) -> BucketArrays:
        """The same with torch; content lies in another order."""
        symbols = torch_buckets.on_device(modes.codes, execution.device).T.contiguous()
        stored = torch_buckets.DeviceModes.of(symbols, modes.packed, *known)
        steps = self.scales * self.n_groups
        paths = (self.draws, self.salt, steps, self.left_out_bits)
        built = torch_buckets.build_tables(stored, *paths, n_classes)
        return BucketArrays(**built.arrays())

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
        paths = self.draws[sequences], self.salt[sequences]
        path_hashes(modes, *paths, self.scales * self.n_groups, out)

    def hashes(self, modes: ActivationModes) -> Array:
        """Hash of each mode along each sequence up to each scale."""
        hashes = np.empty((len(self.draws), len(self.scales), len(modes)), np.uint64)
        self._hash(modes, hashes)
        return hashes

    def look_up(
        self,
        modes: ActivationModes,
        n_classes: int,
        n_found: int,
        less: PathTables | None = None,
        exponents: Floats | None = None,
        hashes: Array | None = None,
    ) -> tuple[Floats, Ints]:
        """Estimated class sums (n_scales, n_queries, n_classes), and near modes.

        The sums are those of sum_s K^e n_sy times the number of sequences. Those of the tables
        ``less`` are subtracted. The modes are the ``n_found`` that a query meets most, among those
        that may be neighbours; -1 where there are fewer. With ``exponents``, the sums at other
        scales stay 0.
        """
        n_sequences, n_scales = len(self.draws), len(self.scales)
        hashes = self.hashes(modes) if hashes is None else hashes
        sums = np.zeros((n_scales, len(modes), n_classes))
        met = np.empty((n_sequences * n_scales if n_found else 0, len(modes)), np.int32)
        is_summed = np.isin(self.scales, self.scales if exponents is None else exponents)
        look_up(hashes, self.arrays, ModeLabels(self.label, self.weight), is_summed, sums, met)
        if less is not None:
            gone, nothing = np.zeros(sums.shape), met[:0]
            labels = ModeLabels(less.label, less.weight)
            look_up(hashes, less.arrays, labels, is_summed, gone, nothing)
            sums = without(sums, gone)
        sums = self.complete(sums)
        found = np.empty((len(modes), n_found), dtype=np.int64)
        if n_found:
            most_met(met, self.scales, self.n_candidates, found)
        return sums, found

    def complete(self, sums: Floats) -> Floats:
        """What the buckets that were left out would add is added by those that were not."""
        completed: Floats = sums / self.share_kept[:, None, None]
        return completed

    def contradictions(self) -> Iterator[str]:
        """Inconsistencies in tables that were read from a file, as messages."""
        n_tables, scales = len(self.draws) * len(self.scales), self.scales.tolist()
        ascending = len(scales) > 0 and scales[0] > 0 and scales == sorted(set(scales))
        if not ascending or self.draws.shape[1] != scales[-1] * self.n_groups:
            yield "sampled paths have other lengths than their scales"
        for start, end in ((self.start, self.tag), (self.content_start, self.content)):
            bounds = start[0] == 0 and start[-1] == len(end) and is_ascending(start)
            if len(start) != n_tables + 1 or not bounds:
                yield "sampled tables begin and end elsewhere"
        if n_tables == 0 or not is_ascending(self.start, strictly=True):
            yield "a sampled table has no slots"
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
        elif not self._is_sound(n_classes):
            yield "a bucket of a sampled table has no sound content"

    def _is_sound(self, n_classes: int) -> bool:
        def some(tables: slice) -> bool:
            return bool(is_sound(self.arrays, tables.start, tables.stop, self.label, n_classes))

        return all(map_blocks(some, len(self.start) - 1, 1.0, n_jobs=-1, block_bytes=0))

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
    def row_weight(self) -> float:
        """Weight of a stored row among all rows: all of them are stored."""
        return 1.0

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


def without(sums: Floats, gone: Floats) -> Floats:
    """Class sums less those of labels that are left out; what is no more than rounding is 0."""
    left = sums - gone
    left[left <= WEIGHT_ROUNDING * sums] = 0.0
    return left


def path_hashes(modes: ActivationModes, draws: Array, salt: Array, steps: Ints, out: Array) -> None:
    """Fill out[r, e, i]: the hash of mode i along the first steps[e] draws of sequence r."""
    fill = unit_hashes if modes.packed else leaf_hashes
    fill(modes.codes, draws, salt, steps, out)


def draw_paths(
    modes: ActivationModes, n_groups: int, scales: Ints, n_sequences: int, seed: int
) -> Array:
    """Independent uniform paths through the first groups, shape (n_sequences, n_draws)."""
    rng = np.random.default_rng(seed)
    shape = (n_sequences, int(scales[-1]))
    bits = 64 if modes.packed else 1
    groups = list(zip(modes.column_ranges, modes.sizes, strict=True))[:n_groups]
    draws = [bits * first + rng.integers(0, size, shape) for (first, _), size in groups]
    flat: Array = np.stack(draws, axis=2).reshape(shape[0], -1).astype(np.int32)
    return flat


def hash_of_all(modes: ActivationModes, execution: Execution) -> Array:
    """Hash of all symbols of each mode."""
    columns = np.arange(modes.codes.shape[1], dtype=np.int32)[None]
    out, salt = np.empty((1, 1, len(modes)), np.uint64), np.ones(1, np.uint64)
    steps = np.array([columns.shape[1]])

    def hash_some(rows: slice) -> None:
        leaf_hashes(modes.codes[rows], columns, salt, steps, out[:, :, rows])

    map_blocks(hash_some, len(modes), modes.codes.itemsize * steps[0], n_jobs=execution.n_jobs)
    hashes: Array = out[0, 0]
    return hashes
