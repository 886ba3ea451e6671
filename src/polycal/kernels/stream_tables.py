"""Class sums of rows that agree along sampled paths, in tables that rows are added to.

They estimate what ``PathTables`` do, and merge: tables of two sets of rows, added up, are those of
all rows, whatever the order. So they serve streams, batches and clusters.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from .._utils.arrays import Array, Floats, Ints
from .._utils.blocks import map_blocks
from .._utils.saved import LARGEST_WEIGHT, saved_array, saved_number, unsaved
from ..core.execution import Execution
from ..core.reading import ActivationModes
from .path_tables import Sampling, draw_paths, path_hashes
from .stream_loops import add_buckets, add_found, add_rows

# Part of the slots of a table that may be filled.
LOAD = 0.7
# Slots that a table begins with, about, and rows that are added in one go.
FIRST_SLOTS, ROWS_AT_ONCE = 4096, 4096
# A scale keeps at least 2 to the power of minus this of its buckets.
MOST_BITS = 24
# Part of the most buckets that may be left where those of hardly any weight were forgotten.
ENOUGH = 0.75
# Least buckets of one sequence and scale for which tables are worth having.
LEAST_BUCKETS = 64


@dataclass
class StreamTables:
    """Buckets of rows that agree along sampled paths, with the weight of each class.

    Rows are added in place, at a cost that depends on their number alone. A table is an array of
    slots of which each holds the 64 bits of a bucket's key and its class sums.

    Each scale has an equal part of the memory. Once a sequence has more buckets than fit, those
    whose hash has any of the lowest bits are left out, of all sequences and for ever.

    Guarantees: the sums and the bits left out are those of all rows that were added, in any order
    and any batches, here or in tables that were merged (to rounding). The expected class sums at
    scale e are those of K^e. Edge cases: two paths of different rows have one key once in 2^64.
    """

    own_axes: ClassVar[tuple[str, ...]] = (
        "stream_sequences",
        "stream_draws",
        "stream_scales",
        "stream_tables",
        "stream_buckets",
        "places of ('stream_buckets', 'classes')",
    )

    draws: Array = saved_array("int32 stream_sequences stream_draws")  # path by path
    salt: Array = saved_array("uint64 stream_sequences")  # in which hashes of sequences differ
    scales: Ints = saved_array("int64 stream_scales")  # ascending numbers of paths
    n_groups: int = saved_number(int, above=0, below=2**31)  # numbers of a path; 1 for leaf ids
    n_classes: int = saved_number(int, above=0, below=2**31)
    # most buckets of one sequence at one scale
    most: int = saved_number(int, above=0, below=2**40)
    # A bucket is left out at a scale if its hash has any of these bits.
    left_out_bits: Array = saved_array("uint64 stream_scales")
    # What a sum is multiplied by where it is looked up: weights may be in other units than rows.
    unit: float = saved_number(float, above=0.0, below=math.inf)
    # Only in the form that is saved: the buckets of each table, ascending by their keys.
    n_buckets: Ints = saved_array("int64 stream_tables")
    key: Array = saved_array("uint64 stream_buckets")
    total: Floats = saved_array("float64 stream_buckets classes", sparse=True)
    # of each scale, (n_sequences, n_slots, 1 + n_classes)
    slots: list[Floats] = unsaved("filled with the buckets", default=None)
    used: Ints = unsaved("counted", default=None)  # (n_scales, n_sequences), buckets
    # Buckets of less weight are left out before half of all are, where there is no room.
    least: float = unsaved("given with each batch", default=0.0)

    @classmethod
    def empty(
        cls, modes: ActivationModes, n_classes: int, n_groups: int, sampling: Sampling
    ) -> StreamTables:
        """Tables without rows, for modes like these; paths go through the first groups."""
        n, n_scales = sampling.n_sequences, len(sampling.scales)
        draws = draw_paths(modes, n_groups, sampling.scales, n, sampling.seed)
        slot_bytes = 8.0 * (1 + n_classes)
        memory = min(sampling.memory, 2.0**50) - draws.nbytes
        most = int(LOAD * memory / (n * n_scales * slot_bytes))
        if most < LEAST_BUCKETS:
            least = LEAST_BUCKETS / LOAD * n * n_scales * slot_bytes + draws.nbytes
            raise ValueError(
                f"memory_limit is too small for the tables of a stream with {n_classes} classes: "
                "hardly any row would be found. Use at least "
                f"{math.ceil(10 * least / sampling.memory) / 10:.1f} times as much."
            )
        tables = cls(
            draws=draws,
            salt=np.random.default_rng(sampling.seed).integers(0, 2**64, n, dtype=np.uint64),
            scales=sampling.scales,
            n_groups=n_groups,
            n_classes=n_classes,
            most=most,
            left_out_bits=np.zeros(n_scales, np.uint64),
            unit=1.0,
            n_buckets=np.zeros(n * n_scales, np.int64),
            key=np.zeros(0, np.uint64),
            total=np.zeros((0, n_classes)),
        )
        tables.make_slots(tables.first_slots)
        return tables

    # ------------------------------------------------------------------ rows

    def add(self, modes: ActivationModes, y: Ints, weight: Floats, execution: Execution) -> None:
        """Add rows with these modes, class codes and weights."""
        y = y.astype(np.int32)
        for rows in self._steps(len(modes)):
            self._add(modes[rows], y[rows], weight[rows], execution)

    def _add(self, modes: ActivationModes, y: Ints, weight: Floats, execution: Execution) -> None:
        self._make_room(len(modes), execution)
        views = [slots.view(np.uint64) for slots in self.slots]

        def add(some: slice) -> None:
            hashes = self._hashes(modes, some)
            for e, (slots, keys) in enumerate(zip(self.slots, views, strict=True)):
                places = slots[some], keys[some], self.used[e, some]
                add_rows(hashes[:, e], self.left_out_bits[e], y, weight, *places)

        self._of_sequences(add, len(modes), execution)
        self._leave_out(execution)

    def merge(self, other: StreamTables, execution: Execution) -> None:
        """Add all that is in other tables, of the same paths."""
        self._check_same_paths(other)
        for e in range(len(self.scales)):
            bits = max(self.left_out_bits[e], other.left_out_bits[e])
            self._thin(e, bits, execution)
            # No step brings more than fits into the slots that are free.
            for places in self._steps(other.slots[e].shape[1]):
                self._make_room(places.stop - places.start, execution, e)
                self._insert(e, other.slots[e][:, places].copy(), execution)
                self._leave_out(execution, e)

    def look_up(self, modes: ActivationModes, hashes: Array | None = None) -> Floats:
        """Estimated class sums, shape (n_scales, n_queries, n_classes).

        They are those of sum_s K^e n_sy times the number of sequences.
        """
        hashes = self.hashes(modes) if hashes is None else hashes
        sums = np.zeros((len(self.scales), len(modes), self.n_classes))
        for e, slots in enumerate(self.slots):
            add_found(hashes[:, e], self.left_out_bits[e], slots, slots.view(np.uint64), sums[e])
        # What the buckets that were left out would add is added by those that were not.
        sums *= (self.unit * (self.left_out_bits.astype(float) + 1.0))[:, None, None]
        return sums

    def rescale(self, factor: float) -> None:
        """Multiply all weights by a power of two, which is exact."""
        for slots in self.slots:
            slots[:, :, 1:] *= factor

    # ----------------------------------------------------------------- slots

    def hashes(self, modes: ActivationModes) -> Array:
        """Hash of each mode along each sequence up to each scale."""
        return self._hashes(modes, slice(0, len(self.draws)))

    def _hashes(self, modes: ActivationModes, some: slice) -> Array:
        out = np.empty((some.stop - some.start, len(self.scales), len(modes)), np.uint64)
        paths = self.draws[some], self.salt[some]
        path_hashes(modes, *paths, self.scales * self.n_groups, out)
        return out

    def _steps(self, n: int) -> Iterator[slice]:
        """So many at once that there is room beside the most buckets."""
        step = max(1, min(ROWS_AT_ONCE, (self.most_slots - self.most) // 2))
        for start in range(0, n, step):
            yield slice(start, min(start + step, n))

    @property
    def most_slots(self) -> int:
        """Slots of a table when it has grown."""
        return math.ceil(self.most / LOAD)

    @property
    def first_slots(self) -> int:
        """A part of the most slots that doubling leads back to."""
        halvings = max(0, math.ceil(math.log2(self.most_slots / FIRST_SLOTS)))
        return math.ceil(self.most_slots / 2.0**halvings)

    def make_slots(self, n_slots: int) -> None:
        """Begin with empty slots, so many for each table."""
        shape = (len(self.draws), n_slots, 1 + self.n_classes)
        self.slots = [np.zeros(shape) for _ in self.scales]
        self.used = np.zeros((len(self.scales), len(self.draws)), np.int64)

    def _of_sequences(self, function: Any, bytes_each: float, execution: Execution) -> None:
        row_bytes = 8.0 * len(self.scales) * bytes_each
        few = 8 * row_bytes  # so that the hashes stay in the cache
        map_blocks(function, len(self.draws), row_bytes, n_jobs=execution.n_jobs, block_bytes=few)

    def _make_room(self, n: int, execution: Execution, scale: int | None = None) -> None:
        """Double the slots of a scale until n more buckets fit in."""
        for e in range(len(self.scales)) if scale is None else [scale]:
            n_slots, needed = self.slots[e].shape[1], self.used[e].max() + n
            while needed > LOAD * n_slots and n_slots < self.most_slots:
                n_slots = min(2 * n_slots, self.most_slots)
            if n_slots > self.slots[e].shape[1]:
                source = self.slots[e]
                self.slots[e] = np.zeros((len(source), n_slots, source.shape[2]))
                self.used[e] = 0
                self._insert(e, source, execution)

    def _insert(self, e: int, source: Floats, execution: Execution) -> None:
        """Add buckets of other slots of this scale."""
        bits, keys = self.left_out_bits[e], source.view(np.uint64)
        slots = self.slots[e]
        new_keys = slots.view(np.uint64)

        def insert(some: slice) -> None:
            for r in range(some.start, some.stop):
                to = slots[r], new_keys[r], self.used[e, r : r + 1]
                add_buckets(source[r], keys[r], bits, 0.0, *to)

        map_blocks(insert, len(slots), 1.0, n_jobs=execution.n_jobs, block_bytes=0)

    def _leave_out(self, execution: Execution, scale: int | None = None) -> None:
        """Leave out half of the buckets of a scale until those of each sequence fit."""
        for e in range(len(self.scales)) if scale is None else [scale]:
            most: float = self.most
            if self.least and self.used[e].max() > most:
                self._thin(e, self.left_out_bits[e], execution, self.least)
                most = ENOUGH * most  # or the same would be due again soon
            while self.used[e].max() > most:
                bits = (self.left_out_bits[e] << np.uint64(1)) | np.uint64(1)
                if int(bits).bit_length() > MOST_BITS:
                    raise ValueError(
                        "memory_limit is too small for so many rows: hardly any would be found. "
                        "Use more memory."
                    )
                self._thin(e, bits, execution)

    def _thin(self, e: int, bits: Any, execution: Execution, least: float = 0.0) -> None:
        """Leave out the buckets with these bits, and those of less weight."""
        if bits == self.left_out_bits[e] and least == 0.0:
            return
        self.left_out_bits[e] = bits
        slots = self.slots[e]
        keys = slots.view(np.uint64)

        def thin(some: slice) -> None:
            for r in range(some.start, some.stop):
                kept = slots[r].copy()
                slots[r] = 0.0
                self.used[e, r] = 0
                to = slots[r], keys[r], self.used[e, r : r + 1]
                add_buckets(kept, kept.view(np.uint64), bits, least, *to)

        map_blocks(thin, len(slots), 1.0, n_jobs=execution.n_jobs, block_bytes=0)

    def _check_same_paths(self, other: StreamTables) -> None:
        same = self.most == other.most and self.n_classes == other.n_classes
        for mine, theirs in ((self.draws, other.draws), (self.salt, other.salt)):
            same = same and np.array_equal(mine, theirs)
        if not same:
            raise ValueError(
                "these tables are of other paths, so that they cannot be merged. Begin both with "
                "the same model."
            )

    # ------------------------------------------------------------------ form

    def copy(self) -> Self:
        """The same tables in memory of their own."""
        return replace(
            self,
            left_out_bits=self.left_out_bits.copy(),
            slots=[slots.copy() for slots in self.slots],
            used=self.used.copy(),
        )

    def without_rows(self) -> Self:
        """Tables of the same paths without rows."""
        new = replace(self, left_out_bits=np.zeros_like(self.left_out_bits), unit=1.0)
        new.make_slots(new.first_slots)
        return new

    def to_save(self) -> Self:
        """The form that is saved, which depends on the buckets alone."""
        n_buckets, keys, totals = [], [], []
        for slots in self.slots:
            for table in slots:
                key = table.view(np.uint64)[:, 0]
                filled = np.flatnonzero(key)
                filled = filled[np.argsort(key[filled])]
                n_buckets.append(len(filled))
                keys.append(key[filled])
                totals.append(table[filled, 1:])
        return replace(
            self,
            n_buckets=np.array(n_buckets, np.int64),
            key=np.concatenate(keys),
            total=np.concatenate(totals),
        )

    def __getstate__(self) -> dict[str, Any]:
        """As it is saved: a copy for another process holds no empty slots."""
        return {**vars(self.to_save()), "slots": None, "used": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.unpack()

    @classmethod
    def restore(cls, **saved: Any) -> StreamTables:
        """From a file; what does not fit is left to ``contradictions``."""
        tables = cls(**saved)
        if next(tables.faults(), None) is None:
            tables.unpack()
        return tables

    def unpack(self) -> None:
        """Put the buckets into slots."""
        n = len(self.draws)
        counts, place = self.n_buckets.reshape(len(self.scales), n), 0
        self.make_slots(self.first_slots)
        for e, of_scale in enumerate(counts):
            self._make_room(int(of_scale.max(initial=0)), Execution(), e)
            slots = self.slots[e]
            for r, n_buckets in enumerate(of_scale):
                some = slice(place, place + n_buckets)
                source = np.empty((n_buckets, slots.shape[2]))
                keys = source.view(np.uint64)
                source[:, 1:], keys[:, 0] = self.total[some], self.key[some]
                to = slots[r], slots[r].view(np.uint64), self.used[e, r : r + 1]
                add_buckets(source, keys, np.uint64(0), 0.0, *to)
                place += n_buckets
        self.n_buckets = np.zeros(counts.size, np.int64)
        self.key, self.total = np.zeros(0, np.uint64), np.zeros((0, self.n_classes))

    def contradictions(self) -> Iterator[str]:
        """Inconsistencies in tables that were read from a file, as messages."""
        if self.slots is None:
            yield from self.faults()

    def faults(self) -> Iterator[str]:
        """Why the buckets of a file cannot be put into slots, as messages."""
        n_tables, scales = len(self.draws) * len(self.scales), self.scales.tolist()
        ascending = len(scales) > 0 and scales[0] > 0 and scales == sorted(set(scales))
        if not ascending or self.draws.shape[1] != scales[-1] * self.n_groups:
            yield "sampled paths have other lengths than their scales"
        elif n_tables == 0 or len(self.n_buckets) != n_tables:
            yield "a stream has other tables than its paths"
        elif self.n_buckets.min() < 0 or self.n_buckets.sum() != len(self.key):
            yield "the buckets of a stream are not those of its tables"
        elif self.n_buckets.max() > self.most or len(self.total) != len(self.key):
            yield "a table of a stream has more buckets than it may"
        elif self.total.shape[1] != self.n_classes:
            yield "the buckets of a stream are of other classes"
        else:
            yield from self._bad_buckets()

    def _bad_buckets(self) -> Iterator[str]:
        total, bits = self.total, self.left_out_bits
        if not np.isin(bits, 2 ** np.arange(MOST_BITS + 1, dtype=np.uint64) - 1).all():
            yield "the tables of a stream leave out other buckets than they may"
        if total.size and not (total.min() >= 0 and total.max() < LARGEST_WEIGHT):
            yield "a bucket of a stream holds a weight that is none"
        table = np.repeat(np.arange(len(self.n_buckets)), self.n_buckets)
        ordered = (np.diff(table) > 0) | (self.key[1:] > self.key[:-1])
        left_out = self.key & np.repeat(bits, len(self.draws))[table]
        if not ordered.all() or (len(self.key) and not self.key.all()) or left_out.any():
            yield "the keys of a stream's buckets are out of order, or left out"

    def contradictions_with(self, modes: ActivationModes) -> Iterator[str]:
        """Inconsistencies between consistent tables and the modes that they are of."""
        n_numbers = modes.codes.shape[1] * (64 if modes.packed else 1)
        if self.draws.min() < 0 or self.draws.max() >= n_numbers:
            yield "sampled paths pass symbols that modes do not have"

    @property
    def share_kept(self) -> Floats:
        """Share of the buckets that are kept at each scale."""
        kept: Floats = 1.0 / (self.left_out_bits.astype(float) + 1.0)
        return kept

    @property
    def nbytes(self) -> int:
        """Memory of the tables."""
        return self.draws.nbytes + self.salt.nbytes + sum(slots.nbytes for slots in self.slots)
