"""A fitted model from a stream: neighbours, density, pool and gate by what the stream holds now."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .._utils.arrays import Array, Floats
from ..core.execution import Execution
from ..core.polytopes import Polytopes
from ..gate.bandwidth import EstimatedFrom
from ..gate.directions import Directions
from ..kernels import SampledIndex, StreamedTables
from ..parents import Adapter
from ..posterior.votes import (
    STREAM_HYPERPLANE_POWERS,
    STREAM_PARENT_POWERS,
    LabelEvidence,
    PolytopeVotes,
    QueryVotes,
)
from .fit import Calibration, Options, conclude
from .fitted_model import FittedModel
from .folds import CalibrationFold
from .reference_set import ReferenceSet, ReferenceSettings
from .stream import NEAR_SHARE, Kernel, Stream, sampling_of

# Calibration rows without which a model says nothing.
LEAST_CALIBRATION_ROWS = 20


def model_of_stream(
    stream: Stream,
    parent: Adapter,
    classes: Array,
    prior: Floats | None,
    options: Options,
    execution: Execution,
) -> FittedModel:
    """Fit what is no sum, at a cost that is bounded; later rows still count in the class sums."""
    execution = replace(execution, device=parent.gpu)
    settings = replace(options.reference, seed=stream.frame.seed)
    shares = stream.class_weight / stream.class_weight.sum()
    reference = reference_of_stream(stream, shares, settings, execution)
    reading, X, rows = stream.reservoir.rows()
    fold = CalibrationFold.score(reference, reading, rows, execution, X=X)
    found = Calibration("stream", parent, reference, [fold], None)
    n_rows = max(2, round(stream.n_effective))
    model = conclude(found, n_rows, shares if prior is None else prior, options, execution)
    stream.n_rows_at_fit = stream.n_rows
    return replace(model, stream=stream)


def lacks_of(stream: Stream, classes: Array) -> str | None:
    """What a stream still lacks to be fitted, in words; None where it lacks nothing."""
    reservoir = stream.reservoir
    n_of_class = np.bincount(reservoir.y, minlength=len(classes)) if len(reservoir) else [0]
    if len(reservoir) < LEAST_CALIBRATION_ROWS:
        return f"{len(reservoir)} calibration rows, of at least {LEAST_CALIBRATION_ROWS}"
    without = [name for name, n in zip(classes, n_of_class, strict=True) if n == 0]
    without += [name for name, w in zip(classes, stream.class_weight, strict=True) if w == 0]
    return f"no calibration row of class {without[0]}" if without else None


def reference_of_stream(
    stream: Stream, shares: Floats, settings: ReferenceSettings, execution: Execution
) -> ReferenceSet:
    """Stored modes as polytopes with their density, and the votes of all rows."""
    # Stored modes lie in the order in which they came.
    first, *others = (replace(kernel, stored=kernel.stored.to_save()) for kernel in stream.kernels)
    frame = stream.frame
    table, columns, stored = frame.table, frame.known_columns, first.stored
    assert stored.modes is not None
    modes = stored.modes
    polytopes, clipped = frame.moments.polytopes(modes, stored.values, stream.unit)
    by_query = settings.votes is QueryVotes
    stand_in = frame.planes is not None and stream.hyperplanes is None
    evidence = _evidence(first, polytopes.counts, stand_in, stream, settings, by_query, execution)
    n_samples = max(2, round(stream.n_effective))
    votes: QueryVotes | PolytopeVotes = PolytopeVotes(evidence, shares, n_samples)
    if by_query:
        powers = STREAM_HYPERPLANE_POWERS if stand_in else STREAM_PARENT_POWERS
        votes = QueryVotes(evidence, shares, n_samples, powers)
    hyperplanes = None
    for second in others:
        counts = stream.unit * second.stored.values
        labels = _evidence(second, counts, True, stream, settings, False, execution)
        hyperplanes = QueryVotes(labels, shares, n_samples, STREAM_HYPERPLANE_POWERS)
    robust = frame.moments.clipped
    some = None if clipped is None else EstimatedFrom(clipped, np.arange(len(polytopes)))
    density = settings.bandwidth.density(
        polytopes,
        evidence.index,
        table.level_offsets,
        execution,
        directions=stream.reservoir.energy is not None,
        columns=columns if robust else None,
        estimated_from=some,
    )
    no_rows = np.zeros(0, dtype=np.int64)
    return ReferenceSet(
        table,
        polytopes,
        density,
        votes,
        no_rows,
        no_rows,
        min(settings.n_neighbors, len(polytopes)),
        settings.fill,
        settings.euclidean,
        1,
        frame.planes,
        hyperplanes,
        evidence.index,
        directions=_directions(stream, polytopes, settings, execution),
    )


def _directions(
    stream: Stream, polytopes: Polytopes, settings: ReferenceSettings, execution: Execution
) -> Directions | None:
    """Centres of the stored modes as directions, where rows are those of an embedding."""
    if stream.reservoir.energy is None or not settings.directions:
        return None
    return Directions.of(polytopes.mean, polytopes.counts, execution)


def _evidence(
    kernel: Kernel,
    counts: Floats,
    by_planes: bool,
    stream: Stream,
    settings: ReferenceSettings,
    hidden_labels: bool,
    execution: Execution,
) -> LabelEvidence:
    """Labels of all rows by the tables of a kernel, and its stored modes as neighbours."""
    stored, tables = kernel.stored, kernel.tables
    assert stored.modes is not None
    modes = stored.modes
    how = sampling_of(by_planes, settings, NEAR_SHARE)
    streamed = StreamedTables.of(tables, modes, how.memory, _row_weight(stream, counts), execution)
    index = SampledIndex(modes, counts, len(modes), how, hidden_labels, streamed)
    return LabelEvidence(modes, counts, index.hidden_labels, index)


def _row_weight(stream: Stream, counts: Floats) -> float:
    """Rows of the stream for each stored one."""
    return max(1.0, stream.n_effective / float(counts.sum()))
