"""A fit where the rows lie: each partition of a Dask collection is added up on a worker.

Two passes, as in ``fit_batches``: one samples, one adds. A worker adds its partitions one after
the other to one stream, which is made, read and forgotten inside of one task; streams of workers
are merged two by two. So a worker holds a few streams and partitions, however many rows there are.
A task never changes what another task made, so that a worker may be lost at any time.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from joblib import parallel_config
from sklearn.frozen import FrozenEstimator

from .._utils import validation
from .._utils.arrays import Array, Floats, Ints
from .._utils.labels import check_labels
from .._utils.optional import optional
from .._utils.sklearn_compat import n_rows_of
from ..calibration import guards
from ..calibration.stream import Frame, Stream
from ..calibration.stream_fit import lacks_of
from ..core.copies import LowestHashes, row_hashes
from ..core.execution import Execution
from ..parents import Adapter
from .batches import Sample, columns_of_levels, is_weightless
from .collections import SharedModel
from .dask_progress import Progress, current_client, told, workers_of
from .dask_rows import Partition, Partitions, check_columns
from .streaming import FRAME_ROWS, _check_plan, _checked_classes, _raw_weights, warn_of_levels

# Rows of X, and of X_cal, that are looked through for copies of each other, at most about.
HASHES = 1_000_000
# Samples that are merged in one task.
SAMPLES_AT_ONCE = 8
# Tasks, at most about, that the partitions of one chain are divided into.
LINKS = 32
# Memory of a worker for each chain, by memory_limit: a chain holds up to four streams in passing,
# each of at most half of memory_limit, and a partition as it is read.
CHAIN_MEMORY = 3.0


class Found(NamedTuple):
    """What the first pass finds in some partitions."""

    sample: Sample
    labels: set[Any]
    n_rows: dict[int, int]  # rows of positive weight, by partition


class Sources(NamedTuple):
    """What ``fit`` was given, in partitions; calibration rows may be local."""

    rows: Partitions
    calibration: Partitions | None
    X_cal: Any
    y_cal: Any

    @property
    def calibrates(self) -> bool:
        """Whether calibration rows are given."""
        return self.calibration is not None or self.X_cal is not None


def fit_on_dask(
    model: Any,
    X: Any,
    y: Any,
    sample_weight: Any,
    groups: Any,
    X_cal: Any,
    y_cal: Any,
    fit_params: dict[str, Any],
) -> None:
    """Fit a calibrator with a frozen parent on Dask collections."""
    _check(model, groups, X_cal, y_cal)
    parent = Adapter.find(model._make_parent())
    _check_parent(parent)
    guards.check_fit_parameters(parent, fit_params)
    on_dask = X_cal is not None and validation.is_dask(X_cal)
    cal = Partitions(X_cal, y_cal, name="X_cal") if on_dask else None
    local = (None, None) if on_dask else (X_cal, y_cal)
    sources = Sources(Partitions(X, y, sample_weight), cal, *local)
    if not sources.calibrates:
        guards.say_what_is_assumed(model.calibration)
    with Progress(model.verbose) as progress:
        stream = _stream_of(model, parent, sources, progress)
    lacks = lacks_of(stream, model.classes_)
    if lacks is not None:
        raise ValueError(f"there are too few rows to fit on a cluster: {lacks}. Use fit on rows.")
    model._recalibrate(parent, stream)
    model.stream_ = stream


def _stream_of(model: Any, parent: Adapter, sources: Sources, progress: Progress) -> Stream:
    """The stream of all rows, with a frame that a sample of them sets."""
    parts, seed = sources.rows, model._stream_options(2).reference.seed
    progress.begin("sample", len(parts) + len(sources.calibration or ()))
    named = model.categorical_features, parent.raw_input
    n_hashes = HASHES if sources.calibrates else 0
    found = _first_pass(parts, seed, named, n_hashes, progress)
    if not found.sample.n_rows:
        raise ValueError("X holds no row. Give partitions with rows.")
    if sources.calibration is not None:
        given = _first_pass(sources.calibration, seed, named, n_hashes, progress).sample
        guards.check_new_hashes(found.sample.hashes, given.hashes)
    elif sources.X_cal is not None:
        guards.check_new_hashes(found.sample.hashes, _hashes_of(sources.X_cal))
    empty = _empty_stream(model, parent, found, sources, seed)
    chains = Chains.of_cluster(validation.n_bytes(model.memory_limit))
    shared = _shared(model, parent, empty, chains)
    counts = [found.n_rows.get(i, 0) for i in range(len(parts))]
    places = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
    vote = False if sources.calibrates else None
    progress.begin("tables", len(parts) + len(sources.calibration or ()))
    tops = chains.streams(parts, places[:-1], shared, vote, progress)
    if sources.calibration is not None:
        begin = np.full(len(sources.calibration), places[-1])
        tops += chains.of_one(sources.calibration, begin, shared, True, progress)
    stream: Stream = _compute(_merged(tops), progress)
    if sources.X_cal is not None:
        reading, codes, weight, _ = model._read_batch(sources.X_cal, sources.y_cal, None, parent)
        stream.add(reading, codes, weight, model._execution, apart=True)
    return stream


# --------------------------------------------------------------------- checks


def _check(model: Any, groups: Any, X_cal: Any, y_cal: Any) -> None:
    """Raise an error for what rows on a cluster have no way to follow."""
    model._check_streaming()
    if groups is not None:
        raise ValueError(
            "groups are not supported for Dask collections. Give calibration rows of other groups "
            "as X_cal and y_cal."
        )
    if model.half_life is not None:
        raise ValueError(
            "half_life needs rows in an order, which partitions of a Dask collection have not. "
            "Use half_life=None, or partial_fit."
        )
    _check_plan(model.calibration)
    if (X_cal is None) != (y_cal is None):
        raise ValueError("X_cal and y_cal go together: give both or neither.")


def _check_parent(parent: Adapter) -> None:
    if not parent.is_fitted:
        raise ValueError(
            "X is a Dask collection, and the parent is not fitted: polycal does not fit it on a "
            "cluster. Fit it yourself, on a sample or with lightgbm.dask or xgboost.dask, and give "
            "FrozenEstimator(parent); fit_batches fits one on a sample."
        )


# ----------------------------------------------------------------- first pass


def _first_pass(
    parts: Partitions, seed: int, named: tuple[Any, bool], n_hashes: int, progress: Progress
) -> Found:
    """Labels, numbers of rows, a uniform sample, and the lowest hashes of rows, if any."""
    dask = optional("dask", "dask")
    sample = dask.delayed(_sample, pure=False)
    join = dask.delayed(_join, pure=False)
    known = parts.meta, seed, named, n_hashes, progress.topic
    found = [sample(part, inputs, *known) for part, inputs in parts]
    while len(found) > 1:
        steps = range(0, len(found), SAMPLES_AT_ONCE)
        found = [join(found[i : i + SAMPLES_AT_ONCE]) for i in steps]
    result: Found = _compute(found[0], progress)
    return result


def _sample(
    part: Partition,
    inputs: list[Any],
    meta: Any,
    seed: int,
    named: tuple[Any, bool],
    n_hashes: int,
    topic: str,
) -> Found:
    """What one partition adds to the first pass."""
    sample, labels, kept = Sample(FRAME_ROWS, seed, n_hashes), set(), 0
    try:
        X, y, weight = part.make(inputs)
        check_columns(X, meta)
        if n_rows_of(X):
            values, weights = _labels_and_weights(X, y, weight)
            labels.update(np.unique(values[weights > 0]).tolist())
            sample.watch(columns_of_levels(X, *named))
            sample.add(X, values, weights)
            kept = int((weights > 0).sum())
    except (TypeError, ValueError) as error:
        raise part.error(error) from error
    told(topic, "sample", part.name, part.number)
    return Found(sample, labels, {part.number: kept})


def _hashes_of(X: Any) -> LowestHashes:
    found = LowestHashes(HASHES)
    hashes = row_hashes(X)
    if hashes is not None:
        found.add(hashes)
    return found


def _labels_and_weights(X: Any, y: Any, weight: Any) -> tuple[Array, Floats]:
    values = check_labels(y, n_rows_of(X))
    if is_weightless(weight):
        return values, np.zeros(len(values))
    return values, _raw_weights(weight, len(values))


def _join(found: Sequence[Found]) -> Found:
    """What all of these found."""
    first = found[0].sample
    sample = Sample(first.most, first.seed, first.hashes.most)
    labels: set[Any] = set()
    n_rows: dict[int, int] = {}
    for some in found:
        sample.merge(some.sample)
        labels |= some.labels
        n_rows |= some.n_rows
    return Found(sample, labels, n_rows)


def _empty_stream(model: Any, parent: Adapter, found: Found, sources: Sources, seed: int) -> Stream:
    """A stream without rows, whose columns, units and hyperplanes come from the sample."""
    model.classes_ = _checked_classes(sorted(found.labels), parent)
    X, y, _, _ = found.sample.rows()
    if not parent.raw_input:
        warn_of_levels(X, found.sample, model.categorical_features)
    try:
        X, y = model._check_table(parent, X, y, reset=True)
    except (TypeError, ValueError):
        _say_where(model, parent, sources.rows)
        raise
    names = getattr(model, "feature_names_in_", None)
    parent.check_features(getattr(model, "n_features_in_", None), names)
    reading = parent.read(X, 0)
    parent.check_classes(model.classes_, reading.proba)
    settings = replace(model._stream_options(len(model.classes_)).reference, seed=seed)
    return Stream.empty(Frame.learn(reading, settings), reading, settings, None)


def _say_where(model: Any, parent: Adapter, parts: Partitions) -> None:
    """Raise the first error that a partition by itself gives: it has a name, and a sample none."""
    dask = optional("dask", "dask")
    trouble = dask.delayed(_trouble, pure=False)
    sent = copy(model)
    sent.parent_ = parent
    shared = dask.delayed(SharedModel(sent), traverse=False)
    for error in dask.compute(*(trouble(part, inputs, shared) for part, inputs in parts)):
        if error is not None:
            raise error


def _trouble(part: Partition, inputs: list[Any], shared: SharedModel) -> Exception | None:
    """What is wrong with one partition."""
    X, y, _ = part.make(inputs)
    model = copy(shared.model)  # which learns the columns of this partition
    try:
        if n_rows_of(X) > 1:
            model._check_table(model.parent_, X, y, reset=True)
    except (TypeError, ValueError) as error:
        return part.error(error)
    return None


# ---------------------------------------------------------------- second pass


def _shared(model: Any, parent: Adapter, empty: Stream, chains: Chains) -> Any:
    """The model with its parent and empty stream, as one node of the graph."""
    sent = copy(model)
    sent.__dict__.pop("model_", None)
    sent.stream_, sent.parent_ = empty, parent
    given = sent.estimator
    if isinstance(given, FrozenEstimator) and given.estimator is not parent.estimator:
        # One of lightgbm.dask or xgboost.dask, which is opened once, and not in each task.
        sent.estimator = FrozenEstimator(parent.estimator)
    if sent.n_jobs is None and chains.threads > 1:
        sent.n_jobs = chains.threads
    return optional("dask", "dask").delayed(SharedModel(sent), traverse=False)


class Chains(NamedTuple):
    """How many streams are filled at a time, by a chain of tasks each, with how many threads."""

    workers: tuple[str | None, ...]  # of each chain; None: wherever
    threads: int

    @classmethod
    def of_cluster(cls, memory: float) -> Chains:
        """On each worker of the cluster in use as many as its memory and threads allow."""
        client = current_client()
        workers = [] if client is None else workers_of(client)
        if not workers:
            return cls((None,), 1)
        places: list[str | None] = []
        threads = []
        for worker in workers:
            room = int(worker.memory / (CHAIN_MEMORY * memory))
            n_chains = max(1, min(worker.n_threads, room))
            places += [worker.address] * n_chains
            threads.append(max(1, worker.n_threads // n_chains))
        return cls(tuple(places), min(threads))

    def streams(
        self, parts: Partitions, places: Ints, shared: Any, apart: bool | None, progress: Progress
    ) -> list[Any]:
        """Lazy streams, one for each chain."""
        tasks = list(zip(parts, places.tolist(), strict=True))
        runs = [run for run in _divided(tasks, len(self.workers)) if run]
        return [
            self._chain(run, worker, shared, apart, progress)
            for run, worker in zip(runs, self.workers, strict=False)
        ]

    def of_one(
        self, parts: Partitions, places: Ints, shared: Any, apart: bool | None, progress: Progress
    ) -> list[Any]:
        """A single lazy stream."""
        return Chains(self.workers[:1], self.threads).streams(
            parts, places, shared, apart, progress
        )

    def _chain(
        self,
        run: list[Any],
        worker: str | None,
        shared: Any,
        apart: bool | None,
        progress: Progress,
    ) -> Any:
        """A stream that one task after the other adds partitions to, on one worker if it lives."""
        dask = optional("dask", "dask")
        add = dask.delayed(_add, pure=False)
        stream = None
        where = {} if worker is None else {"workers": [worker], "allow_other_workers": True}
        with dask.annotate(**where):
            for link in _divided(run, min(LINKS, len(run))):
                rows = [(part, inputs, place) for (part, inputs), place in link]
                stream = add(stream, shared, rows, apart, progress.topic)
        return stream


def _add(
    stream: Stream | None,
    shared: SharedModel,
    rows: list[tuple[Partition, list[Any], int]],
    apart: bool | None,
    topic: str,
) -> Stream:
    """A new stream, of the rows of another one and of some partitions."""
    model = shared.model
    stream = model.stream_.without_rows() if stream is None else stream.copy()
    for part, inputs, place in rows:
        try:
            X, y, weight = part.make(inputs)
            if n_rows_of(X) and not is_weightless(weight):
                # In the processes of a cluster, joblib's own backend is a single thread.
                with parallel_config("threading"):
                    reading, codes, weights, _ = model._read_batch(X, y, weight, model.parent_)
                    # The stream counts on from its own first row.
                    first = place - stream.n_rows
                    stream.add(reading, codes, weights, model._execution, first, apart=apart)
        except (TypeError, ValueError) as error:
            raise part.error(error) from error
        told(topic, "tables", part.name, part.number)
    return stream


def _divided(items: list[Any], n: int) -> list[list[Any]]:
    """Runs of items in their order, of about equal length."""
    ends = np.linspace(0, len(items), n + 1).round().astype(int)
    return [items[a:b] for a, b in pairwise(ends)]


def _merged(streams: list[Any]) -> Any:
    """A lazy stream of all rows, by a tree of merges."""
    merge = optional("dask", "dask").delayed(_merge, pure=False)
    while len(streams) > 1:
        pairs = [streams[i : i + 2] for i in range(0, len(streams), 2)]
        streams = [merge(*pair) if len(pair) == 2 else pair[0] for pair in pairs]
    return streams[0]


def _merge(one: Stream, other: Stream) -> Stream:
    merged = one.copy()
    merged.merge(other, Execution())
    return merged


def _compute(lazy: Any, progress: Progress) -> Any:
    """The value of one task at the end of all others."""
    value = lazy.compute()
    progress.complete()
    return value
