"""A stream: what a model is made of, in a form that rows are added to and that merges."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .._utils.arrays import Array, Bools, Floats, Ints
from .._utils.saved import saved_array, saved_number, saved_part, unsaved
from ..core.columns import Columns
from ..core.copies import find_copies, row_hashes
from ..core.execution import Execution
from ..core.moments import Moments
from ..core.reading import ActivationModes, Reading
from ..core.table import Table, find_categories
from ..kernels import Hyperplanes, Sampling, StoredModes, StreamTables, keys_of
from ..kernels.stored_modes import drawn
from ..posterior.votes import (
    N_SEQUENCES,
    STREAM_HYPERPLANE_SCALES,
    STREAM_PARENT_SCALES,
    QueryVotes,
)
from .reference_set import ReferenceSettings, check_planes
from .reservoir import Reservoir

# Share of the rows of each batch that the pool, the gate and the floor are fitted on; their labels
# do not vote. Of these, so many are kept.
CALIBRATION_SHARE = 0.1
MOST_CALIBRATION_ROWS = 50_000
# Modes that are stored, as neighbours, at most.
MOST_MODES = 300_000
# Parts of the memory of a kernel that its near modes take, in tables and by themselves.
NEAR_SHARE, MODES_SHARE = 0.25, 0.5
# Bytes of a mode in the tables of one sequence, where about half of the modes have a bucket.
BYTES_IN_TABLES = 6.0
# Rows repeat by nature where fewer than this share of them are distinct.
DISTINCT = 0.9
# The calibration is due again when there are this many more rows, as a part of those that count.
DUE = 0.2
# Weights of new rows are counted in a larger unit once they grew by this power of two.
REBASE = 128
# Facts about each number.
N_FACTS = len(Columns.__annotations__)
# Age in half-lives beyond which a row of a batch has no weight beside the last one.
MOST_HALF_LIVES = 200
# Part of a new row's weight below which a bucket is forgotten where there is no room.
FADED = 2.0**-10


@dataclass(frozen=True)
class Frame:
    """What is learned at the start of a stream and never changes: columns, units, hyperplanes."""

    table: Table = saved_part()
    # the fields of ``Columns``, one after the other
    columns: Floats = saved_array("float64 facts numbers", least=-np.inf, most=np.inf)
    planes: Hyperplanes | None = saved_part()
    moments: Moments = saved_part()
    # whether rows to calibrate on are drawn by what they hold, or by their place in the stream
    by_content: bool = saved_number(bool)
    # of the paths and of what is drawn
    seed: int = saved_number(int)

    @classmethod
    def learn(cls, reading: Reading, settings: ReferenceSettings) -> Frame:
        """Learn from rows that stand for all: the first ones, or some of all."""
        categories = find_categories(reading.features, settings.categorical_features)
        directions = reading.energy is not None
        robust = settings.bandwidth.robust and not directions
        table, X = Table.learn(reading.features, categories, robust)
        check_planes(reading, settings)
        planes = None
        if reading.modes.are_absent or (settings.n_hyperplanes and settings.votes is QueryVotes):
            drawn_with = (settings.n_hyperplanes, settings.seed, directions)
            planes = Hyperplanes.draw(X, table.level_offsets, *drawn_with)
        columns = Columns.of(X[:, : len(table.numbers)])
        if robust:
            columns.check(table.numbers)
        return cls.of(table, columns, planes, settings, robust, is_told_by_content(reading))

    @classmethod
    def of(
        cls,
        table: Table,
        columns: Columns,
        planes: Hyperplanes | None,
        settings: ReferenceSettings,
        clipped: bool,
        by_content: bool,
    ) -> Frame:
        """The frame of parts that are known."""
        units = (columns.middle, columns.spread) if clipped else _plain_units(columns)
        moments = Moments(*units, table.level_offsets, settings.n_classes, clipped)
        return cls(table, np.stack(columns), planes, moments, by_content, settings.seed)

    @property
    def known_columns(self) -> Columns:
        """Where the values of each number lie."""
        return Columns(*self.columns)

    def contradictions(self) -> Iterator[str]:
        """Inconsistencies in a frame that was read from a file, as messages."""
        if len(self.columns) != N_FACTS:
            yield "the columns of a stream are not described"
        if not np.array_equal(self.moments.level_offsets, self.table.level_offsets):
            yield "a stream has moments of other levels"


@dataclass
class Kernel:
    """What a stream keeps of one kernel: class sums of all rows, and some modes with their sums."""

    stored: StoredModes = saved_part()
    tables: StreamTables = unsaved("those of the evidence of the fitted model", default=None)


@dataclass
class Stream:
    """All that a model with a frozen parent is made of, in sums that rows are added to.

    A share of the rows is set apart for the calibration, in a reservoir; all others count in the
    tables of each kernel, and in the stored modes. Rows are added at a cost that depends on their
    number alone, and streams of the same frame merge.

    Guarantees: all that is a sum is that of all rows, in any order and any batches, here or in
    streams that were merged (to rounding); so are the stored modes and the reservoir, if rows to
    calibrate on are drawn by what they hold. Edge cases: where old rows fade, their order counts,
    and streams do not merge.
    """

    frame: Frame = saved_part()
    parent: Kernel = saved_part()  # the parent's modes, or hyperplanes in place of them
    hyperplanes: Kernel | None = saved_part()
    reservoir: Reservoir = saved_part()
    class_weight: Floats = saved_array("float64 classes")  # of the rows that vote
    n_rows: int = saved_number(int, above=-1, below=2**63)
    n_rows_at_fit: int = saved_number(int, above=-1, below=2**63)  # of the present calibration
    aged_rows: float = saved_number(float)  # rows that vote, with weights by their age alone
    half_life: float | None = saved_number(float, optional=True, above=0.0)
    base: int = saved_number(int, above=-1)  # weights are in units of 2 to the power of this

    @classmethod
    def empty(
        cls, frame: Frame, reading: Reading, settings: ReferenceSettings, half_life: float | None
    ) -> Stream:
        """A stream without rows, for rows like these."""
        some = frame.table.encode(reading.features)[:1]
        return cls.like(frame, reading.modes, some, reading.modes.are_absent, settings, half_life)

    @classmethod
    def like(
        cls,
        frame: Frame,
        modes: ActivationModes,
        some: Floats,
        stand_in: bool,
        settings: ReferenceSettings,
        half_life: float | None,
    ) -> Stream:
        """A stream without rows, for modes like these and encoded rows like ``some``.

        ``stand_in`` says that hyperplanes make the modes.
        """
        n_classes, hidden = settings.n_classes, settings.votes is QueryVotes
        second = None
        sides = modes
        if frame.planes is not None:
            sides = frame.planes.modes(some, Execution())
            if not stand_in:
                second = _kernel(sides, n_classes, 1, n_classes, True, settings)
        modes = sides if stand_in else modes
        n_groups = len(modes.sizes) - (hidden and len(modes.sizes) > 1)
        n_values = frame.moments.n_values
        first = _kernel(modes, n_classes, n_groups, n_values, stand_in, settings)
        reservoir = Reservoir(MOST_CALIBRATION_ROWS)
        weight = np.zeros(n_classes)
        return cls(frame, first, second, reservoir, weight, 0, 0, 0.0, half_life, 0)

    def without_rows(self) -> Stream:
        """A stream of the same frame without rows, to be merged into this one later."""

        def empty(kernel: Kernel) -> Kernel:
            return Kernel(StoredModes(kernel.stored.most), kernel.tables.without_rows())

        return replace(
            self,
            parent=empty(self.parent),
            hyperplanes=None if self.hyperplanes is None else empty(self.hyperplanes),
            reservoir=Reservoir(self.reservoir.most),
            class_weight=np.zeros_like(self.class_weight),
            n_rows=0,
            n_rows_at_fit=0,
            aged_rows=0.0,
            base=0,
        )

    # ------------------------------------------------------------------ rows

    def add(
        self,
        reading: Reading,
        y: Ints,
        weight: Floats,
        execution: Execution,
        place: int = 0,
        known: Bools | None = None,
        apart: bool | None = None,
    ) -> None:
        """Add rows with class codes and weights.

        ``place`` is that of the first row of this stream among all rows, where there are several
        streams. ``known`` says which rows the parent was fitted on: none of these is set apart.
        ``apart`` sets all rows apart, or none, where calibration rows are given.
        """
        frame = self.frame
        X = frame.table.encode(reading.features)
        sides = None if frame.planes is None else frame.planes.modes(X, execution)
        if reading.modes.are_absent:
            assert sides is not None
            reading = replace(reading, modes=sides)
        number = self.n_rows + np.arange(len(y))
        hashes = hashes_of(X, place + number, frame.by_content)
        priority = drawn(hashes ^ np.uint64(frame.seed))
        chosen = priority < math.log(-math.log(1 - CALIBRATION_SHARE))
        if known is not None:
            chosen &= ~known
        if apart is not None:
            chosen[:] = apart
        time = np.zeros(len(y)) if self.half_life is None else number / self.half_life
        self._rebase(float(time.max(initial=0.0)))
        some = np.flatnonzero(chosen)
        if len(some):
            order = priority[some] - math.log(2) * time[some]
            parts = (reading.take(some), X[some], y[some], weight[some], order, time[some])
            self.reservoir = self.reservoir.merge(Reservoir.of(self.reservoir.most, *parts))
        votes = np.flatnonzero(~chosen & (time > time.max(initial=0.0) - MOST_HALF_LIVES))
        grown = np.exp2(time[votes] - self.base)
        modes = reading.modes[votes], None if sides is None else sides[votes]
        labels = y[votes], weight[votes] * grown
        if len(votes):
            self._add_votes(modes, X[votes], *labels, math.log(2) * time[votes], execution)
        self.aged_rows += float(grown.sum())
        self.n_rows += len(y)
        self.set_unit()

    def _add_votes(
        self,
        modes: tuple[ActivationModes, ActivationModes | None],
        X: Floats,
        y: Ints,
        weight: Floats,
        time: Floats,
        execution: Execution,
    ) -> None:
        """Add the rows that vote to each kernel."""
        moments, of_classes = self.frame.moments, np.eye(len(self.class_weight))
        clipped = self.frame.known_columns.clip(X) if moments.clipped else None
        self.class_weight = self.class_weight + np.bincount(y, weight, len(self.class_weight))
        for kernel, of_rows in zip((self.parent, self.hyperplanes), modes, strict=True):
            if kernel is None:
                continue
            assert of_rows is not None
            kernel.tables.add(of_rows, y, weight, execution)
            key = keys_of(of_rows, execution)
            some = np.flatnonzero(kernel.stored.admits(key, time))
            if kernel is self.parent:
                near = None if clipped is None else clipped[some]
                values = moments.rows(X[some], near, y[some], weight[some])
            else:
                values = of_classes[y[some]] * weight[some, None]
            kernel.stored.add(of_rows[some], key[some], values, time[some])

    def merge(self, other: Stream, execution: Execution) -> None:
        """Add all rows of another stream of the same frame."""
        if self.half_life is not None or other.half_life is not None:
            raise ValueError(
                "streams with half_life do not merge: rows would have no order. Use half_life=None."
            )
        if (self.hyperplanes is None) != (other.hyperplanes is None):
            raise ValueError("these streams have other kernels. Begin both with the same frame.")
        for mine, theirs in zip(self.kernels, other.kernels, strict=True):
            mine.tables.merge(theirs.tables, execution)
            mine.stored.merge(theirs.stored)
        self.reservoir = self.reservoir.merge(other.reservoir)
        self.class_weight = self.class_weight + other.class_weight
        self.n_rows += other.n_rows
        self.aged_rows += other.aged_rows
        self.set_unit()

    def copy(self) -> Stream:
        """The same stream in memory of its own."""

        def copied(kernel: Kernel) -> Kernel:
            return Kernel(kernel.stored.copy(), kernel.tables.copy())

        second = self.hyperplanes
        return replace(
            self,
            parent=copied(self.parent),
            hyperplanes=None if second is None else copied(second),
        )

    # --------------------------------------------------------------- weights

    def grow_to(self, time: float) -> float:
        """Weight of a new row at a time in half-lives, in the unit that weights then have."""
        self._rebase(time)
        return float(2.0 ** (time - self.base)) if self.half_life is not None else 1.0

    @property
    def kernels(self) -> list[Kernel]:
        """That of the parent, and that of hyperplanes where it is another."""
        return [kernel for kernel in (self.parent, self.hyperplanes) if kernel is not None]

    def _rebase(self, time: float) -> None:
        """Count weights in a larger unit before they grow too large; say what has faded."""
        if self.half_life is None:
            return
        steps = max(0, math.floor((time - self.base) / REBASE))
        if steps:
            self.base += steps * REBASE
            factor = 2.0 ** -(steps * REBASE)
            self.class_weight = self.class_weight * factor
            self.aged_rows *= factor
            for kernel in self.kernels:
                kernel.tables.rescale(factor)
                kernel.stored.rescale(factor, len(self.class_weight))
        for kernel in self.kernels:
            kernel.tables.least = FADED * 2.0 ** (time - self.base)

    def set_unit(self) -> None:
        """Let sums be looked up in rows of mean weight."""
        for kernel in self.kernels:
            kernel.tables.unit = self.unit

    @property
    def unit(self) -> float:
        """Factor to the sums with which rows of mean weight count as 1 row, new ones fully."""
        total = self.class_weight.sum()
        return float(self.n_effective / total) if total > 0 else 1.0

    @property
    def n_effective(self) -> float:
        """Rows that vote, where old ones count less."""
        now = 0.0 if self.half_life is None else self.n_rows / self.half_life
        return float(self.aged_rows * 2.0 ** (self.base - now))

    @property
    def n_rows_that_count(self) -> float:
        """All rows, or those of about one and a half half-lives."""
        kept = math.inf if self.half_life is None else self.half_life / math.log(2)
        return min(self.n_rows, kept)

    @property
    def is_due(self) -> bool:
        """Whether the calibration is to be fitted again."""
        return self.n_rows - self.n_rows_at_fit >= DUE * self.n_rows_that_count

    def contradictions(self) -> Iterator[str]:
        """Inconsistencies in a stream that was read from a file, as messages."""
        weight = self.class_weight
        if not (np.isfinite(weight).all() and (weight >= 0).all() and 0 <= self.aged_rows < np.inf):
            yield "the rows of a stream have no weight"
        if self.frame.moments.n_classes != len(weight):
            yield "a stream has moments of other classes"
        widths = [self.frame.moments.n_values, len(weight)]
        for kernel, n_values in zip(self.kernels, widths, strict=False):
            stored = kernel.stored
            if stored.modes is not None and stored.values.shape[1] != n_values:
                yield "the modes of a stream are stored with other sums"
        n_columns = len(self.frame.moments.middle) + len(self.frame.table.level_offsets) - 1
        if len(self.reservoir) and self.reservoir.X.shape[1] != n_columns:
            yield "the calibration rows of a stream have other features"

    def contradictions_with(self, tables: list[StreamTables]) -> Iterator[str]:
        """Inconsistencies with the tables of the fitted model, which become those of the stream."""
        if len(tables) != len(self.kernels):
            yield "a stream has other kernels than its model"
        for kernel, found in zip(self.kernels, tables, strict=False):
            kernel.tables = found
            if kernel.stored.modes is None:
                yield "a stream stores no modes"
            else:
                yield from found.contradictions_with(kernel.stored.modes)
            if found.n_classes != len(self.class_weight):
                yield "the tables of a stream are of other classes"


def _kernel(
    modes: Any,
    n_classes: int,
    n_groups: int,
    n_values: int,
    by_planes: bool,
    settings: ReferenceSettings,
) -> Kernel:
    """Tables for modes like these, and as many modes as have room beside them."""
    how = sampling_of(by_planes, settings, 1.0 - NEAR_SHARE - MODES_SHARE)
    mode_bytes = 8.0 * n_values + modes.codes.shape[1] * modes.codes.itemsize
    memory = min(settings.memory / 2, 2.0**50)
    most = min(
        MOST_MODES,
        int(NEAR_SHARE * memory / (BYTES_IN_TABLES * N_SEQUENCES)),
        int(MODES_SHARE * memory / mode_bytes),
    )
    tables = StreamTables.empty(modes, n_classes, n_groups, how)
    return Kernel(StoredModes(max(2, most)), tables)


def sampling_of(by_planes: bool, settings: ReferenceSettings, share: float) -> Sampling:
    """How the paths of a stream are sampled, with a share of the memory of a kernel."""
    scales = STREAM_HYPERPLANE_SCALES if by_planes else STREAM_PARENT_SCALES
    return Sampling(scales, N_SEQUENCES, share * settings.memory / 2, settings.seed)


def _plain_units(columns: Columns) -> tuple[Floats, Floats]:
    """Middles and units that leave numbers as they are, where these have one unit."""
    return np.zeros_like(columns.middle), np.ones_like(columns.spread)


def hashes_of(X: Floats, number: Ints, by_content: bool) -> Array:
    """Hash by which each encoded row is drawn: that of what it holds, or its number."""
    hashes = row_hashes(X) if by_content else None
    return number.astype(np.uint64) if hashes is None else hashes


def is_told_by_content(reading: Reading) -> bool:
    """Whether rows differ, or are copies where they do not: then what they hold tells them apart.

    The cells of a table with few different rows would be set apart whole.
    """
    hashes = row_hashes(reading.features)
    if hashes is None or len(np.unique(hashes)) >= DISTINCT * len(hashes):
        return True
    return find_copies(reading.features) is not None
