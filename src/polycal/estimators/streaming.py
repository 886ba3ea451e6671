"""Fits that rows are added to: ``partial_fit``, and ``fit_batches`` for more rows than memory."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import NotFittedError
from sklearn.utils.metaestimators import available_if
from tqdm.auto import tqdm

from .._utils import validation
from .._utils.arrays import Array, Floats, Ints
from .._utils.labels import check_label_values, check_labels
from .._utils.sklearn_compat import n_rows_of
from .._utils.warnings import DataWarning
from ..calibration.fit import Options
from ..calibration.fitted_model import FittedModel
from ..calibration.stream import Frame, Stream
from ..calibration.stream_fit import lacks_of, model_of_stream
from ..calibration.stream_start import stream_of_fit
from ..core.reading import Reading
from ..core.table import MANY_LEVELS, column_values, find_categories, is_missing
from ..parents import Adapter
from .base import BaseCalibrator
from .batches import (
    MOST_LEVELS,
    Sample,
    batches_of,
    columns_of_levels,
    is_weightless,
    parquet_frames,
)
from .collections import RESULTS, answer_part

# Rows that columns, categories and hyperplanes are learned from, and a parent is fitted on.
FRAME_ROWS, PARENT_ROWS = 10_000, 100_000


def _takes_more_rows(model: Streaming) -> bool:
    """Whether there is a stream, or a parent that one can begin with; an error says what to do."""
    if "stream_" in vars(model):
        return True
    try:
        frozen = Adapter.find(model._make_parent()).is_fitted
    except (TypeError, ValueError):  # the call itself says what is wrong with the parent
        return True
    if not frozen:
        raise AttributeError(
            "partial_fit needs a parent that is fitted already and stays as it is: give "
            "FrozenEstimator(parent), fitted on other rows. fit_batches fits one on a sample."
        )
    return True


class Streaming(BaseCalibrator):
    """Methods of a calibrator whose rows come in batches; its parent stays as it is."""

    half_life: float | None
    stream_: Stream

    @available_if(_takes_more_rows)
    def partial_fit(
        self,
        X: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        classes: ArrayLike | None = None,
    ) -> Self:
        """Add rows to the model, at a cost that depends on their number alone.

        The parent must be fitted already (``FrozenEstimator``), on none of these rows, and stays
        as it is. A tenth of the rows, at random, goes to a reservoir of 10,000 that the pool, the
        gate and the floor are fitted on. The labels of all others count in the votes at once. The
        first batch fixes the columns, their units and the hyperplanes, so let it stand for all
        rows. Neighbours, pool, gate and floor are fitted again whenever there are a fifth more
        rows; ``recalibrate`` does so at once.

        After a ``fit`` with a frozen parent the rows of the fit are those that the stream begins
        with: rows that it calibrated on are in the reservoir, all others vote.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            New rows, in any form that the parent takes.
        y : array-like of shape (n_samples,)
            Their labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.
        classes : array-like of shape (n_classes,), default=None
            All labels there will be. Needed at the first call if the parent does not know them.

        Returns
        -------
        self : object
            The estimator, which answers once there are some calibration rows of every class.
        """
        nothing = n_rows_of(X) == 0 or is_weightless(sample_weight)
        if nothing and ("stream_" in vars(self) or "model_" in vars(self)):
            return self
        before = dict(vars(self))
        try:
            stream = self._begun(X, y, sample_weight, classes)
            reading, codes, weight, _ = self._read_batch(X, y, sample_weight, stream=stream)
            self._check_levels(reading.features, stream)
        except BaseException:  # nothing was added yet
            self.__dict__.clear()
            self.__dict__.update(before)
            raise
        self.stream_ = stream
        stream.add(reading, codes, weight, self._execution)
        if stream.is_due and lacks_of(stream, self.classes_) is None:
            self.recalibrate()
        return self

    def recalibrate(self) -> Self:
        """Fit neighbours, pool, gate and floor on what the stream holds now.

        ``partial_fit`` does so from time to time. Models of the same rows are the same after it,
        whatever the batches were.

        Returns
        -------
        self : object
            The estimator.
        """
        if "stream_" not in vars(self):
            raise NotFittedError("recalibrate needs a stream. Call partial_fit or fit_batches.")
        self._recalibrate(self._parent_of_stream(), self.stream_)
        return self

    @property
    def n_rows_seen_(self) -> int:
        """Number of rows that were added by ``partial_fit`` or ``fit_batches``."""
        return self.stream_.n_rows

    def fit_batches(
        self,
        batches: Any,
        *,
        target: str | None = None,
        classes: ArrayLike | None = None,
        parent_rows: int = PARENT_ROWS,
    ) -> Self:
        """Fit on more rows than there is memory for, batch by batch.

        There are two passes. The first finds the classes and a uniform sample of the rows, from
        which columns, units and hyperplanes are learned. A parent that is not fitted yet is fitted
        on ``parent_rows`` of them, at most half of all rows. The second adds the rows as
        ``partial_fit`` does, so that the result does not depend on their order, or on the batches.
        Memory is bounded by ``memory_limit``, twice that in passing, and some batches.

        Parameters
        ----------
        batches : path, iterable or callable
            The path of a Parquet file; a list, or any object that can be iterated more than once,
            of batches ``(X, y)`` or ``(X, y, sample_weight)``; or a function without arguments
            that returns an iterator of these.
        target : str, default=None
            Column of the labels, of a Parquet file.
        classes : array-like of shape (n_classes,), default=None
            All labels; default: those that the first pass finds.
        parent_rows : int, default=100_000
            Rows that a parent is fitted on, if it is not fitted yet. They vote, and are never
            calibrated on.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        before = dict(vars(self))
        try:
            self._check_streaming()
            _check_plan(self.calibration)
            validation.count(parent_rows=parent_rows)
            self._fit_batches(batches_of(batches, target), classes, parent_rows)
        except BaseException:  # a model that was fitted before stays as it was
            self.__dict__.clear()
            self.__dict__.update(before)
            raise
        return self

    def predict_batches(self, batches: Any, method: str = "predict_proba") -> Iterator[Array]:
        """Answer batch by batch.

        Parameters
        ----------
        batches : path, iterable or callable
            The path of a Parquet file, an iterable of tables X, or a function that returns one.
        method : str, default="predict_proba"
            Name of the method that answers: "predict_proba", "predict_log_proba", "predict",
            "score_samples" or "in_distribution".

        Yields
        ------
        ndarray
            What the method returns for each batch.
        """
        validation.one_of(list(RESULTS), method=method)
        if isinstance(batches, str) or hasattr(batches, "__fspath__"):
            batches = parquet_frames(str(batches))
        known = list(getattr(self, "feature_names_in_", ()))
        for number, X in enumerate(batches() if callable(batches) else batches):
            if known and hasattr(X, "columns") and set(known) < set(X.columns):
                X = X[known]  # a file has the labels too
            yield answer_part(X, self, method, f"batch {number}")

    # ------------------------------------------------------------------ steps

    def _fit(self, X: Any, *others: Any) -> None:
        """A fit ends the stream; on Dask collections it begins one where the rows lie."""
        self.__dict__.pop("stream_", None)
        if validation.is_dask(X):
            from .dask_fit import fit_on_dask  # which has this module's steps run on workers

            fit_on_dask(self, X, *others)
        else:
            super()._fit(X, *others)

    def _fit_batches(self, begin: Any, classes: Any, parent_rows: int) -> None:
        self.__dict__.pop("stream_", None)
        parent = Adapter.find(self._make_parent())
        options = self._stream_options(2)
        seed = options.reference.seed
        sample = Sample(FRAME_ROWS if parent.is_fitted else parent_rows, seed)
        labels: set[Any] = set()
        for X, y, weight in self._watched(begin(), "sample"):
            sample.watch(columns_of_levels(X, self.categorical_features, parent.raw_input))
            values = check_labels(y, n_rows_of(X))
            weights = _raw_weights(weight, len(values))
            labels.update(np.unique(values[weights > 0]).tolist())
            sample.add(X, values, weights)
        if not sample.n_rows:
            raise ValueError("batches holds no row. Give at least one batch of rows.")
        known = sorted(labels) if classes is None else classes
        self.classes_ = _checked_classes(known, parent)
        most = sample.most if parent.is_fitted else min(parent_rows, sample.n_rows // 2)
        X, y, weight, limit = sample.rows(max(most, 1))
        if not parent.raw_input:
            warn_of_levels(X, sample, self.categorical_features)
        X, y = self._check_table(parent, X, y, reset=True)
        parent_is_given = parent.is_fitted
        if not parent_is_given:
            codes = np.searchsorted(self.classes_, y)
            parent = parent.fit(X, codes, self.classes_, weight if (weight != 1).any() else None)
        reading = parent.read(X, self.verbose)
        parent.check_classes(self.classes_, reading.proba)
        settings = replace(self._stream_options(len(self.classes_)).reference, seed=seed)
        stream = Stream.empty(Frame.learn(reading, settings), reading, settings, self.half_life)
        first = 0
        for X, y, weight in self._watched(begin(), "tables", sample.n_rows):
            in_sample = None
            if not parent_is_given:
                in_sample = sample.holds(X, first, limit)
            first += n_rows_of(X)
            reading, codes, weight, kept = self._read_batch(X, y, weight, parent)
            in_sample = None if in_sample is None else in_sample[kept]
            stream.add(reading, codes, weight, self._execution, known=in_sample)
        if first != sample.n_rows:
            raise ValueError(
                f"batches held {sample.n_rows} rows in the first pass and {first} in the second. "
                "Give a list, or a function that returns the same rows each time."
            )
        lacks = lacks_of(stream, self.classes_)
        if lacks is not None:
            raise ValueError(f"there are too few rows to fit in batches: {lacks}. Use fit.")
        self._recalibrate(parent, stream)
        self.stream_ = stream

    def _watched(self, batches: Iterator[Any], name: str, total: int | None = None) -> Any:
        """Batches that have rows which count, with a progress bar."""
        with tqdm(desc=name, unit="row", total=total, disable=not self.verbose) as bar:
            for batch in batches:
                n_rows = n_rows_of(batch[0])
                if n_rows and not is_weightless(batch[2]):
                    yield batch
                bar.update(n_rows)

    def _begun(self, X: Any, y: Any, sample_weight: Any, classes: Any) -> Stream:
        """The stream so far, or one that begins with these rows."""
        self._check_streaming()
        known = "stream_" in vars(self) or "model_" in vars(self)
        if known and classes is not None and not np.array_equal(np.unique(classes), self.classes_):
            raise ValueError(
                f"classes differ from those of the first call, {self.classes_.tolist()}. "
                "Leave classes out, or begin a new model."
            )
        if "stream_" in vars(self):
            self._check_same_half_life()
            return self.stream_
        if "model_" in vars(self):
            return self._begun_from_fit()
        _check_plan(self.calibration)
        parent = Adapter.find(self._make_parent())
        if classes is None:
            classes = parent.known_classes
            if classes is None:
                raise ValueError(
                    "classes is missing: the parent does not know its labels. Give all labels at "
                    "the first call of partial_fit."
                )
        self.classes_ = _checked_classes(classes, parent)
        options = self._stream_options(len(self.classes_))
        reading = self._read_batch(X, y, sample_weight, parent, reset=True)[0]
        parent.check_classes(self.classes_, reading.proba)
        if len(reading) < 2:
            raise ValueError("the first batch must hold at least 2 rows of positive weight.")
        settings = options.reference
        return Stream.empty(Frame.learn(reading, settings), reading, settings, self.half_life)

    def _check_same_half_life(self) -> None:
        began = self.stream_.half_life
        if self.half_life != began:
            raise ValueError(
                f"half_life is {self.half_life!r}, and the stream began with {began!r}: rows of "
                f"other weights cannot be told apart. Use half_life={began!r}, or a new model."
            )

    def _begun_from_fit(self) -> Stream:
        """A stream that holds the rows of the fit."""
        start = self.model_.start
        if start is None:
            raise ValueError(
                "partial_fit cannot go on from this fit: its parent was not frozen, or it had "
                'groups or search="exact", or it was saved by an older version. Fit it again '
                "with FrozenEstimator(parent) and without these, or begin with fit_batches or "
                "partial_fit."
            )
        settings = self._stream_options(len(self.classes_)).reference
        known = start, self.model_.reference, settings, self.half_life
        stream = stream_of_fit(*known, self._execution)
        lacks = lacks_of(stream, self.classes_)
        if lacks is not None:
            raise ValueError(
                f"partial_fit cannot go on from this fit: it has {lacks}. Fit it again with more "
                "rows to calibrate on."
            )
        return stream

    def _read_batch(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        parent: Adapter | None = None,
        reset: bool = False,
        stream: Stream | None = None,
    ) -> tuple[Reading, Ints, Floats, Ints]:
        """Reading, class codes, weights and numbers of the rows of positive weight."""
        parent = self._parent_of_stream() if parent is None else parent
        check_label_values(y)
        parent.check_table(X)
        X, y = self._check_table(parent, X, y, reset=reset)
        if stream is not None and not parent.raw_input:
            self._check_levels(X, stream)  # before a parent says so in words of its own
        labels = check_labels(y, n_rows_of(X))
        codes = _class_codes(labels, self.classes_)
        weight = _raw_weights(sample_weight, len(labels))
        reading = parent.read(X, 0)
        kept = np.flatnonzero(weight > 0)
        if len(kept) < len(weight):
            reading, codes, weight = reading.take(kept), codes[kept], weight[kept]
        return reading, codes, weight, kept

    def _parent_of_stream(self) -> Adapter:
        """The parent that the model has, which ``fit_batches`` may have fitted; else the frozen."""
        known = "model_" in vars(self)
        return self.model_.parent if known else Adapter.find(self._make_parent())

    def _recalibrate(self, parent: Adapter, stream: Stream) -> None:
        lacks = lacks_of(stream, self.classes_)
        if lacks is not None:
            longer = "" if stream.half_life is None else ", or use a longer half_life"
            raise NotFittedError(
                f"the stream is too short to be calibrated: {lacks}. Add rows{longer}."
            )
        prior = None if self.prior is None else validation.check_prior(self.prior, self.classes_)
        options = self._stream_options(len(self.classes_))
        model: FittedModel = model_of_stream(
            stream, parent, self.classes_, prior, options, self._execution
        )
        self.model_ = model

    def _stream_options(self, n_classes: int) -> Options:
        return Options.from_parameters(self.get_params(deep=False), n_classes)

    def _check_streaming(self) -> None:
        """Raise an error for parameters that a stream has no way to follow."""
        self._check_parameters()
        if self.half_life is not None:
            validation.positive(half_life=self.half_life)
            if self.half_life < 1:
                raise ValueError(
                    f"half_life is a number of rows, of at least 1; got {self.half_life!r}. With "
                    "thousands of rows, so many recent ones count."
                )
        sampled = self.posterior in ("pooled", "parent") and self.gate == "geodesic"
        if not sampled or self.distance != "geodesic" or self.gamma != "auto":
            raise ValueError(
                'a stream needs posterior="pooled" or "parent", gate="geodesic", '
                'distance="geodesic" and gamma="auto". Use these, or fit.'
            )
        if self.search == "exact":
            raise ValueError(
                'a stream keeps no row to be compared with: search="exact" is not possible. Use '
                'search="auto", or fit.'
            )

    def _check_levels(self, X: Any, stream: Stream) -> None:
        """Raise an error for a category that was not among those of the first rows."""
        table = stream.frame.table
        for j, known in zip(table.categories, table.levels, strict=True):
            if len(known) >= MANY_LEVELS:  # of which only some are known
                continue
            levels = set(known.tolist())
            new = [v for v in column_values(X, j).tolist() if not is_missing(v) and v not in levels]
            if new:
                name = f"{X.columns[j]!r}" if hasattr(X, "columns") else f"{j}"
                raise ValueError(
                    f"column {name} holds {new[0]!r}, which is none of the categories that the "
                    f"stream began with: {sorted(map(str, levels))[:20]}. Begin with rows that "
                    "have every category, or leave these rows out."
                )


def warn_of_levels(X: Any, sample: Sample, categorical_features: Any) -> None:
    """Warn of categories with so many levels that a sample X may lack some."""
    crowded = [j for j in sample.crowded if j in find_categories(X, categorical_features)]
    if crowded:
        j = crowded[0]
        name = repr(X.columns[j]) if hasattr(X, "columns") else str(j)
        warnings.warn(
            f"column {name} has more than {MOST_LEVELS} levels: those that no row of a random "
            f"sample of {n_rows_of(X)} has are unknown to the model. Merge rare levels if they "
            "matter.",
            DataWarning,
            stacklevel=2,
        )


def _raw_weights(sample_weight: Any, n_rows: int) -> Floats:
    """Weights as they were given; those of several batches must have one unit."""
    scaled = validation.check_weights(sample_weight, n_rows)
    unit = validation.mean_weight(sample_weight)
    return scaled if unit is None else scaled * unit


def _check_plan(calibration: Any) -> None:
    """Raise unless a share of the rows may be held out: rows of a stream are seen only once."""
    if calibration not in ("auto", "holdout"):
        raise ValueError(
            f"calibration={calibration!r} is not possible for rows that come in parts: a share of "
            'them is held out. Use "auto" or "holdout", or fit with rows in memory.'
        )


def _checked_classes(classes: Any, parent: Adapter) -> Array:
    found: Array = np.unique(check_labels(classes, len(np.asarray(classes))))
    if len(found) < 2:
        raise ValueError(f"classes must hold at least 2 labels; got {found.tolist()}.")
    return found


def _some(labels: Array) -> str:
    """The first labels of a list that may be long."""
    shown = ", ".join(map(repr, labels[:20].tolist()))
    return f"[{shown}, ...]" if len(labels) > 20 else f"[{shown}]"


def _class_codes(labels: Array, classes: Array) -> Ints:
    unknown = np.setdiff1d(labels, classes)
    if len(unknown):
        raise ValueError(
            f"y holds {_some(unknown)}, which is none of the classes that the stream began with, "
            f"{_some(classes)}. Leave these rows out, or begin a new model with all classes."
        )
    return np.searchsorted(classes, labels)
