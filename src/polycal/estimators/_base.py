"""What the estimators share: control flow only. The mathematics is in the files it calls."""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, has_fit_parameter, validate_data

from .. import _gate, _validation
from .._bandwidth import geodesic_variance, polytope_variance
from .._gate import Gate, GaussianGate, GeodesicGate
from .._gaussian import Gaussians
from .._polytopes import Polytopes
from .._posterior import CalibrationRows, decide, fit_posterior, mixture
from .._smoothing import Evidence, PolytopeRatios, QueryRatios
from .._types import ActivationModes, Near
from ..kernels import Effort, Search, build_index, euclidean_nearest, pair_similarity
from ..parents import find_family
from ._rows import Rows, split_rows

PAPER = {"posterior": "kernel", "gate": "gaussian", "bandwidth": "polytope", "scoring": "ece"}


class BaseCalibrator(ClassifierMixin, BaseEstimator, metaclass=ABCMeta):
    """fit and predict for every estimator; a subclass says what the parent is."""

    def __init__(
        self,
        *,
        posterior: str = "pooled",
        gate: str = "geodesic",
        bandwidth: str = "geodesic",
        distance: str = "geodesic",
        gamma: str | float = "auto",
        floor: str | float = "auto",
        false_alarm: float = 0.01,
        n_neighbors: int = 10,
        regularization: float = 1e-6,
        scoring: str = "neg_log_loss",
        calibration: str = "auto",
        calibration_size: float = 0.3,
        prior: ArrayLike | None = None,
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
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @abstractmethod
    def _make_parent(self) -> Any:
        """The parent, unfitted or frozen."""

    # ------------------------------------------------------------------ fit

    def fit(
        self,
        X: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        X_cal: Any = None,
        y_cal: ArrayLike | None = None,
    ) -> Self:
        """Fit the parent, its polytopes, and the calibration.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), default=None
        X_cal, y_cal : rows to calibrate on, default=None
            Rows that the parent does not see; then nothing is held out of X.
        """
        self._check_parameters()
        rows, held = self._input_rows(X, y, sample_weight, X_cal, y_cal)
        if self.prior is not None:
            self.priors_ = _validation.check_prior(self.prior, self.classes_)
        self._fit_parent(rows, weighted=sample_weight is not None)
        self._n_samples = len(rows)

        # X -> modes -> polytopes, and a Gaussian for each
        modes, parent_proba = self._parent.read(held.raw)
        self.polytopes_ = self._polytopes(self._parent.read(rows.raw)[0], rows)
        held_polytopes = self._polytopes(modes, held)
        train_prior = np.bincount(rows.y, rows.weight) / rows.weight.sum()
        kernel = self._make_kernel(train_prior, held_polytopes)
        self._index = kernel.evidence.index
        self._gaussians = Gaussians.from_variance(self.polytopes_.mean, self._variance())

        # calibration rows -> nearest -> posterior and gate
        near = self._find_nearest(modes, held.X)
        self._posterior = fit_posterior(
            None if self.posterior == "parent" else kernel,
            CalibrationRows(
                modes,
                near,
                parent_proba,
                held.y,
                held.weight,
                stored=len(self.polytopes_) + modes.distinct()[1],
                n_stored=len(self.polytopes_) + len(held_polytopes),
            ),
            pooled=self.posterior == "pooled",
            gamma=None if isinstance(self.gamma, str) else float(self.gamma),
            scoring=self.scoring,
            train_prior=train_prior,
            prior=self.priors_,
            n_rows=len(rows) + len(held),
            effort=self._effort,
        )
        self._gate = self._fit_gate(held, near)

        self.gamma_ = self._posterior.gamma
        self.log_floor_ = self._gate.log_floor
        self.pool_weights_ = self._posterior.pool_weights
        return self

    def _check_parameters(self) -> None:
        check = _validation
        check.one_of(["pooled", "kernel", "parent"], posterior=self.posterior)
        check.one_of(["geodesic", "gaussian"], gate=self.gate)
        check.one_of(["geodesic", "polytope"], bandwidth=self.bandwidth)
        check.one_of(["geodesic", "euclidean"], distance=self.distance)
        check.one_of(["neg_log_loss", "ece"], scoring=self.scoring)
        check.one_of(["auto", "holdout"], calibration=self.calibration)
        check.auto_or_number(gamma=self.gamma, floor=self.floor)
        if not isinstance(self.gamma, str):
            check.positive(gamma=self.gamma)
        check.share(false_alarm=self.false_alarm, calibration_size=self.calibration_size)
        check.count(n_neighbors=self.n_neighbors)
        check.positive(regularization=self.regularization)

    def _input_rows(
        self, X: Any, y: Any, sample_weight: Any, X_cal: Any, y_cal: Any
    ) -> tuple[Rows, Rows]:
        """Validated rows to fit on and rows to calibrate on."""
        if (X_cal is None) != (y_cal is None):
            raise ValueError("X_cal and y_cal go together: give both or neither.")
        values, y = validate_data(self, X, y, dtype=np.float64, ensure_min_samples=2)
        check_classification_targets(y)
        weight = _validation.check_weights(sample_weight, values)
        self.classes_ = np.unique(y[weight > 0])
        if len(self.classes_) < 2:
            raise ValueError(
                "y must hold at least 2 classes in rows of positive weight; it holds one class, "
                f"{self.classes_.tolist()}. Give rows of every class."
            )
        rows = Rows(X if hasattr(X, "columns") else values, values, y, weight)
        if (weight == 0).any():
            rows = rows.take(np.flatnonzero(weight))
        rows = replace(rows, y=np.searchsorted(self.classes_, rows.y))
        self.priors_ = np.bincount(rows.y, rows.weight) / rows.weight.sum()
        if X_cal is None:
            return split_rows(rows, self.classes_, self.calibration_size, self.random_state)
        values, y_cal = validate_data(self, X_cal, y_cal, dtype=np.float64, reset=False)
        codes = _validation.check_calibration_labels(y_cal, self.classes_)
        raw = X_cal if hasattr(X_cal, "columns") else values
        return rows, Rows(raw, values, codes, np.ones(len(codes)))

    def _fit_parent(self, rows: Rows, weighted: bool) -> None:
        estimator = self._make_parent()
        frozen = isinstance(estimator, FrozenEstimator)
        family = find_family(estimator.estimator if frozen else estimator)
        if frozen:
            self.estimator_ = estimator.estimator
            check_is_fitted(self.estimator_)
            names = getattr(self, "feature_names_in_", None)
            _validation.check_frozen(self.estimator_, self.classes_, self.n_features_in_, names)
        else:
            self.estimator_ = clone(estimator)
            weights = {}
            if weighted:
                if not has_fit_parameter(self.estimator_, "sample_weight"):
                    raise ValueError(
                        f"sample_weight was given, but {type(self.estimator_).__name__}.fit does "
                        "not take it. Leave it out, or fit the parent yourself and freeze it."
                    )
                weights["sample_weight"] = rows.weight
            self.estimator_.fit(rows.raw, self.classes_[rows.y], **weights)
        self._parent = family(self.estimator_)

    def _polytopes(self, modes: ActivationModes, rows: Rows) -> Polytopes:
        return Polytopes.from_rows(modes, rows.X, rows.y, rows.weight, len(self.classes_))

    def _variance(self) -> NDArray:
        if self.bandwidth == "polytope":
            return polytope_variance(self.polytopes_, self.regularization)
        return geodesic_variance(self.polytopes_, self._index, self.regularization, self._effort)

    def _make_kernel(self, train_prior: NDArray, held: Polytopes) -> QueryRatios | PolytopeRatios:
        """Where the kernel's class ratios come from, with the index over its evidence.

        The polytopes of the fit come first in the index; the calibration rows' modes follow
        where their labels count as evidence.
        """
        modes, counts = self.polytopes_.modes, self.polytopes_.counts
        if self.posterior == "pooled" and self.distance == "geodesic":
            index = build_index(modes.append(held.modes))
            evidence = Evidence(index, np.concatenate([counts, held.counts]))
            return QueryRatios(evidence, train_prior, self._n_samples)
        return PolytopeRatios(Evidence(build_index(modes), counts), train_prior, self._n_samples)

    def _fit_gate(self, held: Rows, near: Near) -> Gate:
        """The gate, with its floor at the false-alarm quantile of the calibration rows."""
        floor = 0.0 if isinstance(self.floor, str) else float(self.floor)
        gate: Gate
        if self.gate == "gaussian":
            kernel = self._posterior.kernel
            mass = self.polytopes_.size / self.polytopes_.size.sum()
            if isinstance(kernel, PolytopeRatios) and kernel.ratios is not None:
                mass = kernel.ratios @ self.priors_
            gate = GaussianGate(self._gaussians, self._n_samples, floor, np.log(mass))
        else:
            kernel_height, log_similarity = _gate.neighbourhood(self._gaussians, held.X, near)
            geodesic = self.distance == "geodesic"
            kappa = _gate.balance(kernel_height, log_similarity) if geodesic else 0.0
            scale = _gate.logistic_scale(kernel_height + kappa * log_similarity)
            gate = GeodesicGate(self._gaussians, self._n_samples, floor, kappa, scale)
        if self.floor != "auto":
            return gate
        log_f = gate.log_f(held.X, near)
        floor = _gate.conformal_floor(log_f, held.weight, self.false_alarm)
        return replace(gate, log_floor=floor)

    @property
    def _effort(self) -> Effort:
        return Effort(self.n_jobs, self.verbose)

    # -------------------------------------------------------------- queries

    def _query(self, X: Any) -> tuple[ActivationModes, NDArray, NDArray]:
        """Modes, parent posterior and numbers of new rows."""
        check_is_fitted(self, "polytopes_")
        values = validate_data(self, X, dtype=np.float64, reset=False)
        modes, proba = self._parent.read(X if hasattr(X, "columns") else values)
        return modes, proba, values

    def _find_nearest(self, modes: ActivationModes, X: NDArray, *, labels: bool = False) -> Near:
        """The polytopes that gate and posterior look at; with their labels in the same look."""
        k = min(self.n_neighbors if self.gate == "geodesic" else 1, len(self.polytopes_))
        if self.distance == "euclidean":
            _, index = euclidean_nearest(X, self._gaussians, k, self._effort)
            return Near(np.ones(index.shape), index)
        fill = self.posterior == "kernel" or self.gate == "gaussian"
        wanted = self._posterior.wanted if labels else {}
        search = Search(self._gaussians, k, fill, **wanted)
        return self._index.nearest(modes, X, search, self._effort)

    def _alpha_and_log_posterior(self, X: Any) -> tuple[NDArray, NDArray]:
        modes, parent_proba, values = self._query(X)
        near = self._find_nearest(modes, values, labels=True)
        alpha = self._gate.alpha(self._gate.log_f(values, near))
        return alpha, self._posterior.log_proba(modes, parent_proba, near, self._effort)

    def predict_proba(self, X: Any) -> NDArray:
        """alpha(x) pi(x) + (1 - alpha(x)) prior, shape (n_samples, n_classes)."""
        alpha, log_posterior = self._alpha_and_log_posterior(X)
        return mixture(alpha, log_posterior, self.priors_)

    def predict_log_proba(self, X: Any) -> NDArray:
        """Logarithm of ``predict_proba``."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def predict(self, X: Any) -> NDArray:
        """Class of highest probability; with equal priors, that of pi."""
        alpha, log_posterior = self._alpha_and_log_posterior(X)
        return self.classes_[decide(mixture(alpha, log_posterior, self.priors_), log_posterior)]

    def score_samples(self, X: Any) -> NDArray:
        """log f of each row: higher means more in distribution."""
        modes, _, values = self._query(X)
        return self._gate.log_f(values, self._find_nearest(modes, values))

    def in_distribution(self, X: Any) -> NDArray:
        """alpha of each row, in [0, 1]: the weight of pi against the prior."""
        log_f = self.score_samples(X)
        return self._gate.alpha(log_f)

    def nearest(self, X: Any, k: int = 1) -> tuple[NDArray, NDArray]:
        """Similarity and index (into ``polytopes_``) of the k nearest polytopes.

        Ties: highest similarity, then highest Gaussian log density, then lowest index.
        """
        check_is_fitted(self, "polytopes_")
        _validation.count(k=k)
        if k > len(self.polytopes_):
            raise ValueError(f"k must be at most {len(self.polytopes_)}, the polytopes; got {k}.")
        modes, _, values = self._query(X)
        if self.distance == "euclidean":
            _, index = euclidean_nearest(values, self._gaussians, k, self._effort)
            return pair_similarity(modes, self.polytopes_.modes, index, self._effort), index
        near = self._index.nearest(modes, values, Search(self._gaussians, k), self._effort)
        return near.similarity, near.index

    def similarity(self, X: Any, Y: Any) -> NDArray:
        """Geodesic kernel K between the rows of X and of Y, shape (n_X, n_Y)."""
        return build_index(self._query(Y)[0]).similarity(self._query(X)[0], self._effort)
