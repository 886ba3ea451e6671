"""A stream that goes on from a plain fit: what the fit must keep for it, and the stream."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from .._utils.arrays import Floats, Ints
from .._utils.saved import saved_array, saved_number, saved_part
from ..core.columns import Columns
from ..core.execution import Execution
from ..core.moments import Moments
from ..core.polytopes import Polytopes
from ..core.reading import ActivationModes, LabelledRows, Reading
from ..kernels import keys_of
from ..kernels.stored_modes import drawn
from ..posterior.votes import HyperplaneVotes, QueryVotes
from .folds import CalibrationFold
from .reference_set import ReferenceSet, ReferenceSettings
from .reservoir import Reservoir
from .stream import (
    MOST_CALIBRATION_ROWS,
    N_FACTS,
    Frame,
    Kernel,
    Stream,
    hashes_of,
    is_told_by_content,
)

# Polytopes that are added in one go.
AT_ONCE = 16_384
# Rows that say whether rows differ.
DISTINCT_ROWS = 10_000


@dataclass(frozen=True)
class StreamStart:
    """What a stream needs to go on from a fit, beside the reference set.

    The polytopes have the sums of all rows that the fit did not hold out. Held-out rows are rows
    to calibrate on in the stream too; as many as its reservoir takes are kept here.
    """

    own_axes: ClassVar[tuple[str, ...]] = ("facts", "clipped_polytopes")

    # the fields of ``Columns``
    columns: Floats = saved_array("float64 facts numbers", least=-np.inf, most=np.inf)
    clipped: bool = saved_number(bool)  # whether widths are those of clipped rows
    # polytopes whose moments differ where values far outside are clipped, and these moments
    clipped_polytope: Ints = saved_array("int64 clipped_polytopes", least=0)
    clipped_mean: Floats = saved_array("float64 clipped_polytopes numbers")
    clipped_variance: Floats = saved_array("float64 clipped_polytopes numbers", least=0.0)
    by_content: bool = saved_number(bool)
    seed: int = saved_number(int)
    # the user's weights are those of the reference set times this
    weight_unit: float = saved_number(float, above=0.0)
    # of the rows that are not held out, which come first among the labels by hyperplanes
    n_of_class: Ints = saved_array("int64 classes", least=0)
    n_modes: int = saved_number(int, above=-1, below=2**63)
    n_rows: int = saved_number(int, above=1, below=2**63)  # with those held out
    reservoir: Reservoir = saved_part()

    @classmethod
    def of(
        cls,
        reference: ReferenceSet,
        reading: Reading,
        rows: LabelledRows,
        n_held: int,
        first: int,
        folds: list[CalibrationFold],
        settings: ReferenceSettings,
        weight_unit: float,
    ) -> Self:
        """What is to be kept of a fit on these rows, calibrated on the rows of the folds.

        ``n_held`` rows were held out in all, and ``first`` is the place of their first one among
        all rows that the user gave.
        """
        n_numbers = len(reference.table.numbers)
        columns, clipped = reference.columns, reference.clipped
        facts = np.ones((N_FACTS, n_numbers)) if columns is None else np.stack(columns)
        changed = np.zeros(0, dtype=np.int64)
        if clipped is not None:
            same = (clipped.mean == reference.polytopes.mean).all(axis=1)
            same &= (clipped.variance == reference.polytopes.variance).all(axis=1)
            changed = np.flatnonzero(~same)
        moments = reference.polytopes if clipped is None else clipped
        some = reading.take(np.arange(0, len(rows), -(-len(rows) // DISTINCT_ROWS)))
        by_content = is_told_by_content(some)
        reservoir = Reservoir(MOST_CALIBRATION_ROWS)
        for fold in folds:
            hashes = hashes_of(fold.X, first + fold.rows.ids, by_content)
            parts = fold.rows.y, weight_unit * fold.rows.weight
            order = drawn(hashes ^ np.uint64(settings.seed))
            reservoir = reservoir.merge(
                Reservoir.of(reservoir.most, fold.reading, fold.X, *parts, order)
            )
        second = reference.hyperplanes
        n_modes = 0
        if isinstance(second, QueryVotes):
            assert second.evidence.row_mode is not None
            n_modes = int(second.evidence.row_mode[: len(rows)].max()) + 1
        return cls(
            facts,
            columns is not None,
            changed,
            moments.mean[changed],
            moments.variance[changed],
            by_content,
            settings.seed,
            weight_unit,
            np.bincount(rows.y, minlength=settings.n_classes),
            n_modes,
            len(rows) + n_held,
            reservoir,
        )

    def contradictions_with(self, reference: ReferenceSet) -> Iterator[str]:
        """Inconsistencies with the reference set that was read from the same file."""
        table, second = reference.table, reference.hyperplanes
        n_columns = len(table.numbers) + len(table.level_offsets) - 1
        if self.reservoir.modes is None:
            yield "a fit that goes on as a stream has no calibration rows"
        elif self.reservoir.X.shape[1] != n_columns:
            yield "the calibration rows of a fit have other features"
        elif not _alike(self.reservoir.modes, reference.polytopes.modes):
            yield "the calibration rows of a fit have other modes"
        if len(self.columns) != N_FACTS or not (Columns(*self.columns).spread > 0).all():
            yield "the columns of a fit are not described"
        if (self.clipped_polytope >= len(reference.polytopes)).any():
            yield "a polytope that does not exist has moments of clipped rows"
        if isinstance(second, QueryVotes):
            if not 0 < self.n_modes <= len(second.evidence.modes):
                yield "there are other modes by hyperplanes than the fit had"
        elif isinstance(second, HyperplaneVotes):
            n_of_class = np.bincount(second.y, minlength=len(self.n_of_class))
            if (self.n_of_class > n_of_class).any():
                yield "there are fewer labels by hyperplanes than rows of the fit"


def stream_of_fit(
    start: StreamStart,
    reference: ReferenceSet,
    settings: ReferenceSettings,
    half_life: float | None,
    execution: Execution,
) -> Stream:
    """A stream that holds the rows of a fit.

    Guarantees: its sums are those of a stream to which the rows of the fit were added, with those
    held out set apart (to rounding). Edge cases: where old rows fade, those of the fit are all as
    old as the last of them.
    """
    settings = replace(settings, seed=start.seed)
    columns = Columns(*start.columns)
    parts = reference.table, columns, reference.planes, settings, start.clipped, start.by_content
    frame, reservoir = Frame.of(*parts), start.reservoir
    assert reservoir.modes is not None
    stand_in = reference.planes is not None and reference.hyperplanes is None
    known = reservoir.modes[:1], reservoir.X[:1], stand_in
    stream = Stream.like(frame, *known, settings, half_life)
    time = 0.0 if half_life is None else start.n_rows / half_life
    grown = stream.grow_to(time)
    unit, log_time = start.weight_unit * grown, np.log(2) * time
    for first in range(0, len(reference.polytopes), AT_ONCE):
        some = np.arange(first, min(first + AT_ONCE, len(reference.polytopes)))
        values = unit * _values(start, frame.moments, reference.polytopes, some)
        counts = unit * reference.polytopes.counts[some]
        modes = reference.polytopes.modes[some]
        _add(stream.parent, modes, counts, values, log_time, execution)
    if stream.hyperplanes is not None:
        sides, counts = _labels_by_planes(start, reference)
        for first in range(0, len(sides), AT_ONCE):
            rows = np.arange(first, min(first + AT_ONCE, len(sides)))
            weight = unit * counts[rows]
            _add(stream.hyperplanes, sides[rows], weight, weight, log_time, execution)
    n_voting = int(start.n_of_class.sum())
    stream.reservoir = reservoir.at(time)
    stream.class_weight = unit * reference.polytopes.counts.sum(axis=0)
    stream.aged_rows, stream.n_rows = n_voting * grown, start.n_rows
    stream.set_unit()
    return stream


def _add(
    kernel: Kernel,
    modes: ActivationModes,
    counts: Floats,
    values: Floats,
    time: float,
    execution: Execution,
) -> None:
    """Add modes with their class counts, and the sums that are stored with them."""
    mode, y = np.nonzero(counts)
    kernel.tables.add(modes[mode], y, counts[mode, y], execution)
    key = keys_of(modes, execution)
    some = np.flatnonzero(kernel.stored.admits(key, time))
    kernel.stored.add(modes[some], key[some], values[some], time)


def _values(start: StreamStart, moments: Moments, polytopes: Polytopes, some: Ints) -> Floats:
    """What the rows of some polytopes add up to."""
    mean, variance = polytopes.mean[some], polytopes.variance[some]
    clipped = None
    if start.clipped:
        clipped = mean.copy(), variance.copy()
        place = np.searchsorted(start.clipped_polytope, some)
        place = np.minimum(place, max(len(start.clipped_polytope) - 1, 0))
        if len(start.clipped_polytope):
            here = start.clipped_polytope[place] == some
            clipped[0][here] = start.clipped_mean[place[here]]
            clipped[1][here] = start.clipped_variance[place[here]]
    counts, levels = polytopes.counts[some], polytopes.levels[some]
    return moments.sums(counts, polytopes.observed[some], (mean, variance), clipped, levels)


def _labels_by_planes(
    start: StreamStart, reference: ReferenceSet
) -> tuple[ActivationModes, Floats]:
    """Sides and class counts of the rows that the fit did not hold out."""
    votes = reference.hyperplanes
    if isinstance(votes, QueryVotes):
        evidence = votes.evidence
        return evidence.modes[: start.n_modes], evidence.counts[: start.n_modes]
    assert votes is not None
    # Rows are ordered by class, and those that were held out come last in each.
    first = np.searchsorted(votes.y, np.arange(len(start.n_of_class)))
    ends = zip(first, start.n_of_class, strict=True)
    rows = np.concatenate([np.arange(begin, begin + n) for begin, n in ends])
    counts = np.zeros((len(rows), len(start.n_of_class)))
    counts[np.arange(len(rows)), votes.y[rows]] = votes.weight[rows]
    return votes.index.modes[rows], counts


def _alike(one: ActivationModes, other: ActivationModes) -> bool:
    shapes = one.codes.shape[1] == other.codes.shape[1]
    return shapes and (one.sizes, one.packed) == (other.sizes, other.packed)
