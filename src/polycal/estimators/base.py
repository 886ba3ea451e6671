"""What the estimators share: control flow only. The mathematics is in the files it calls."""

from __future__ import annotations

import os
from abc import ABCMeta, abstractmethod
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import Tags

from .._utils import validation
from ..calibration.reference_set import (
    CalibrationFold,
    ReferenceSet,
    Settings,
    cross_fitted_folds,
    holdout_folds,
    kernel_proba,
    out_of_bag_folds,
)
from ..calibration.splits import Rows, check_class_sizes, split_rows
from ..gate import gate as gate_functions
from ..gate.gate import CalibrationScores, Gate, GateInput, GaussianGate, GeodesicGate
from ..kernels import Execution
from ..posterior.posterior import fit_posterior
from .input import check_labels
from .queries import Queries
from .source import Source

PAPER = {"posterior": "kernel", "gate": "gaussian", "bandwidth": "polytope", "scoring": "ece"}


class BaseCalibrator(Queries, ClassifierMixin, BaseEstimator, metaclass=ABCMeta):
    """fit for every estimator; a subclass says what the parent is."""

    def __init__(
        self,
        *,
        posterior: str = "pooled",
        gate: str = "geodesic",
        bandwidth: str = "geodesic",
        distance: str = "geodesic",
        gamma: str | float = "auto",
        floor: str | float = "auto",
        false_alarm: str | float = 0.01,
        n_neighbors: int = 10,
        regularization: float = 1e-6,
        scoring: str = "neg_log_loss",
        calibration: str = "auto",
        calibration_size: float = 0.3,
        prior: ArrayLike | None = None,
        categorical_features: Any = "from_dtype",
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ):
        self.posterior = posterior
        self.gate = gate
        self.bandwidth = bandwidth
        self.distance = distance
        self.gamma = gamma
        self.floor = floor
        self.false_alarm = false_alarm
        self.n_neighbors = n_neighbors
        self.regularization = regularization
        self.scoring = scoring
        self.calibration = calibration
        self.calibration_size = calibration_size
        self.prior = prior
        self.categorical_features = categorical_features
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @abstractmethod
    def _make_parent(self) -> Any:
        """The parent, unfitted or frozen."""

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        with suppress(TypeError, ValueError):  # an estimator that fit will refuse
            source = Source.of(self._make_parent())
            tags.input_tags.allow_nan = source.family.allows_missing(source.estimator)
        return tags

    def fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        X_cal: Any = None,
        y_cal: ArrayLike | None = None,
    ) -> Self:
        """Fit the parent, its polytopes, and the calibration.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            Or what the parent takes: a Pipeline's input, a tensor, a Dataset, a DataLoader.
        y : array-like of shape (n_samples,)
            May be left out when a Dataset or a DataLoader brings the labels.
        sample_weight : array-like of shape (n_samples,), default=None
        X_cal, y_cal : rows to calibrate on, default=None
            Rows that the parent does not see; then nothing is held out of X.
        """
        self._check_parameters()
        self._source = Source.of(self._make_parent())
        rows = self._input_rows(X, y, sample_weight)
        held = None if X_cal is None and y_cal is None else self._held_rows(X_cal, y_cal)

        # rows -> modes -> polytopes, and the calibration rows in front of them
        unit = validation.mean_weight(sample_weight)
        landscape, exams = self._survey(rows, held, unit)

        # what the labels say there
        self._posterior = fit_posterior(
            None if self.posterior == "parent" else partial(kernel_proba, exams),
            np.concatenate([exam.reading.proba for exam in exams]),
            np.concatenate([exam.rows.y for exam in exams]),
            np.concatenate([exam.rows.weight for exam in exams]),
            pooled=self.posterior == "pooled",
            gamma=None if isinstance(self.gamma, str) else float(self.gamma),
            scoring=self.scoring,
            train_prior=landscape.kernel.prior,
            prior=self.priors_,
            n_rows=len(rows) if held is None else len(rows) + len(held),
            device=self._parent.gpu,
        )
        self.gamma_ = self._posterior.gamma
        self.pool_weights_ = self._posterior.pool_weights
        self._landscape = landscape.settle(self.gamma_, self.priors_)
        self.polytopes_ = landscape.polytopes

        # is there any data there
        exams = [exam.settle(self.gamma_, self.priors_) for exam in exams]
        self._gate, self._familiar = self._fit_gate(exams, landscape.kernel.n_samples)
        self.log_floor_ = self._gate.log_floor
        return self

    def _check_parameters(self) -> None:
        check = validation
        check.one_of(["pooled", "kernel", "parent"], posterior=self.posterior)
        check.one_of(["geodesic", "gaussian"], gate=self.gate)
        check.one_of(["geodesic", "polytope"], bandwidth=self.bandwidth)
        check.one_of(["geodesic", "euclidean"], distance=self.distance)
        check.one_of(["neg_log_loss", "ece"], scoring=self.scoring)
        check.one_of(["auto", "holdout", "oob", "cv"], calibration=self.calibration)
        check.auto_or_number(gamma=self.gamma, floor=self.floor)
        if not isinstance(self.gamma, str):
            check.positive(gamma=self.gamma)
        check.auto_or_number(false_alarm=self.false_alarm)
        if not isinstance(self.false_alarm, str):
            check.share(false_alarm=self.false_alarm)
        check.share(calibration_size=self.calibration_size)
        check.count(n_neighbors=self.n_neighbors)
        check.positive(regularization=self.regularization)

    def _input_rows(self, X: Any, y: Any, sample_weight: Any) -> Rows:
        """Validated rows with class codes; rows of weight 0 are dropped."""
        X, y = self._check_rows(X, y, reset=True)
        reading = None
        if self._source.fitted:
            self._source.check_features(
                getattr(self, "n_features_in_", None), getattr(self, "feature_names_in_", None)
            )
            self._parent = self._source.family(self._source.estimator)
            reading = self._parent.read(X, self.verbose)
        y = check_labels(y, X, reading, self._source.family.in_order(X))
        weight = validation.check_weights(sample_weight, len(y))
        self.classes_ = np.unique(y[weight > 0])
        if len(self.classes_) < 2:
            raise ValueError(
                "y must hold at least 2 classes in rows of positive weight; it holds one class, "
                f"{self.classes_.tolist()}. Give rows of every class."
            )
        rows = Rows.given(X, y, weight, reading)
        if (weight == 0).any():
            rows = rows.take(np.flatnonzero(weight))
        rows = replace(rows, y=np.searchsorted(self.classes_, rows.y))
        if reading is not None:
            self._source.check_classes(self.classes_, reading.proba)
        self.priors_ = np.bincount(rows.y, rows.weight) / rows.weight.sum()
        if self.prior is not None:
            self.priors_ = validation.check_prior(self.prior, self.classes_)
        return rows

    def _held_rows(self, X_cal: Any, y_cal: Any) -> Rows:
        """Validated calibration rows."""
        together = "X_cal and y_cal go together: give both or neither."
        if X_cal is None:
            raise ValueError(together)
        X, y = self._check_rows(X_cal, y_cal, reset=False)
        reading = self._parent.read(X, self.verbose) if self._source.fitted else None
        if y is None and (reading is None or reading.labels is None):
            raise ValueError(together)
        y = check_labels(y, X, reading, self._source.family.in_order(X))
        y = validation.check_calibration_labels(y, self.classes_)
        return Rows.given(X, y, np.ones(len(y)), reading)

    def _survey(
        self, rows: Rows, held: Rows | None, unit: float | None
    ) -> tuple[ReferenceSet, list[CalibrationFold]]:
        """The landscape of the parent, and the exams that it is calibrated by."""
        source = self._source
        fit = partial(source.fit, classes=self.classes_, unit=unit)
        plan = "given"
        if held is None:
            plan = source.plan(self.calibration, weighted=unit is not None)
            check_class_sizes(rows, self.classes_)
        self.calibration_ = plan
        if plan == "holdout":
            rows, held = split_rows(rows, self.calibration_size, self.random_state)
        if not source.fitted:
            self._parent = fit(rows)
        if held is not None:
            return holdout_folds(self._parent, rows, held, self._settings)
        if plan == "oob":
            return out_of_bag_folds(self._parent, rows, self._settings)
        return cross_fitted_folds(fit, self._parent, rows, self._settings, self.random_state)

    @property
    def _settings(self) -> Settings:
        return Settings(
            posterior=self.posterior,
            gate=self.gate,
            bandwidth=self.bandwidth,
            distance=self.distance,
            n_neighbors=self.n_neighbors,
            regularization=self.regularization,
            categorical_features=self.categorical_features,
            n_classes=len(self.classes_),
            execution=Execution(self.n_jobs, self.verbose, self._parent.gpu),
        )

    def _fit_gate(
        self, exams: list[CalibrationFold], n_samples: int
    ) -> tuple[Gate, CalibrationScores]:
        """The gate, with its floor at the false-alarm quantile of the calibration rows' log f."""
        floor = 0.0 if isinstance(self.floor, str) else float(self.floor)
        places = [
            GateInput(e.X, e.near, e.landscape.density, e.reading.energy, self.n_jobs)
            for e in exams
        ]
        gate: Gate
        if self.gate == "gaussian":
            gate = GaussianGate(n_samples, floor)
            log_f = np.concatenate([gate.log_f(place) for place in places])
        else:
            terms = [gate_functions.neighbourhood(place) for place in places]
            log_kernel, log_similarity = map(np.concatenate, zip(*terms, strict=True))
            similar = log_similarity if self.distance == "geodesic" else None
            energy = None
            if exams[0].reading.energy is not None:
                energy = np.concatenate([e.reading.energy for e in exams])
            gate = GeodesicGate.fit(n_samples, floor, log_kernel, similar, energy)
            log_f = gate.joined(log_kernel, log_similarity, energy)
        familiar = CalibrationScores(log_f, np.concatenate([e.rows.weight for e in exams]))
        self.false_alarm_ = self._false_alarm(exams, gate, familiar)
        if self.floor == "auto":
            gate = replace(gate, log_floor=familiar.floor(self.false_alarm_))
        return gate, familiar

    def _false_alarm(
        self, exams: list[CalibrationFold], gate: Gate, familiar: CalibrationScores
    ) -> float:
        """The level asked for, or the highest that the calibration rows afford."""
        if not isinstance(self.false_alarm, str):
            return float(self.false_alarm)
        held = self._posterior.fitted_prior
        kernel = None
        if self.gamma_ is not None:
            kernel = kernel_proba(exams, np.array([self.gamma_]))[0]
        log_posterior = replace(self._posterior, prior=held).log_proba(
            np.concatenate([exam.reading.proba for exam in exams]), kernel
        )
        y = np.concatenate([exam.rows.y for exam in exams])
        return gate_functions.affordable_level(gate, familiar, log_posterior, held, y)

    @property
    def estimator_(self) -> Any:
        """The fitted parent."""
        return self._parent.estimator

    def save(self, path: str | os.PathLike) -> None:
        """Write the fitted model into one file, which ``polycal.load`` reads.

        The file appears whole or not at all, and takes the place of one that is there. It holds
        no code: networks (PyTorch, skorch, Keras) are given to ``load`` again. A constructor
        parameter that a file cannot hold (a ``RandomState``, a function) gives a warning and is
        None in the loaded model.
        """
        from ..persistence import save  # the one look upwards: a model knows how to save itself

        save(self, path)
