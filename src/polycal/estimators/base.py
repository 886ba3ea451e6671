"""What the estimators share: parameters, checks of the input, and the order of the steps.

The mathematics is in ``calibration``, ``posterior`` and ``gate``.
"""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from contextlib import suppress
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import Tags

from .._utils import validation
from .._utils.arrays import Array, Floats
from .._utils.tables import facts_table
from ..calibration import guards, query_guards
from ..calibration.fit import Options, fit_model
from ..calibration.fitted_model import Answer
from ..core.execution import Execution
from ..parents import Adapter
from .checks import InputChecks
from .collections import lazy_on_dask
from .decisions import DecisionMethods
from .facts import model_facts
from .inspection import Inspection
from .watching import Watching

PAPER = {"posterior": "kernel", "gate": "gaussian", "bandwidth": "polytope", "scoring": "ece"}


class BaseCalibrator(
    InputChecks,
    Inspection,
    Watching,
    DecisionMethods,
    ClassifierMixin,
    BaseEstimator,
    metaclass=ABCMeta,
):
    """``fit`` and all queries; a subclass makes the parent."""

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
        caution: str | float = "auto",
        confidence: float | None = None,
        n_neighbors: int = 10,
        n_hyperplanes: int = 1024,
        search: str = "auto",
        memory_limit: str | float = "2GiB",
        regularization: float = 1e-6,
        scoring: str = "neg_log_loss",
        calibration: Any = "auto",
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
        self.caution = caution
        self.confidence = confidence
        self.n_neighbors = n_neighbors
        self.n_hyperplanes = n_hyperplanes
        self.search = search
        self.memory_limit = memory_limit
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
    def _make_parent(self, X: Any = None) -> Any:
        """Return the parent, not fitted yet, or frozen; X are the rows that it is for."""

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        """Parameters, and of a fitted model how it searches."""
        text: str = super().__repr__(N_CHAR_MAX)
        fitted = vars(self).get("model_")
        return text if fitted is None else f"{text}  # fitted, search: {fitted.reference.search}"

    def __str__(self) -> str:
        """Parameters, and what there is to know about a fitted model."""
        text: str = super().__repr__()
        if "model_" not in vars(self):
            return text
        return f"{text}\n\n{facts_table(model_facts(self))}"

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        with suppress(TypeError, ValueError):  # for a parent that fit will refuse
            fitted = vars(self).get("model_")
            parent = Adapter.find(self._make_parent()) if fitted is None else fitted.parent
            tags.input_tags.allow_nan = parent.allows_missing
        return tags

    def fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        groups: ArrayLike | None = None,
        X_cal: Any = None,
        y_cal: ArrayLike | None = None,
        **fit_params: Any,
    ) -> Self:
        """Fit the parent, find its polytopes, and calibrate.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training rows: an array, a frame, or another input that the parent takes (raw input
            of a Pipeline, a tensor, a Dataset, a DataLoader).
        y : array-like of shape (n_samples,)
            Labels of the rows. They may be left out when X is a Dataset or a DataLoader that
            yields the labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows, for the parent and for the calibration.
        groups : array-like of shape (n_samples,), default=None
            Group of each row, for example a patient or a device. Rows of one group are never on
            both sides of a split. With ``calibration="auto"``, groups lead to "cv" (to "holdout"
            if the parent is fitted already). Identical rows are a group by themselves.
        X_cal : array-like of shape (n_calibration_rows, n_features), default=None
            Rows to calibrate on. The parent is not fitted on them, and must not have been. All
            rows of X then go into the fit.
        y_cal : array-like of shape (n_calibration_rows,), default=None
            Labels of ``X_cal``.
        **fit_params : dict
            Other arguments of the parent's ``fit``, such as ``eval_set`` for early stopping. Each
            fit of the parent gets them as they are.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        before = dict(vars(self))
        try:
            self._fit(X, y, sample_weight, groups, X_cal, y_cal, fit_params)
        except BaseException:  # a model that was fitted before stays as it was
            self.__dict__.clear()
            self.__dict__.update(before)
            raise
        return self

    def _fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        groups: Any,
        X_cal: Any,
        y_cal: Any,
        fit_params: dict[str, Any],
    ) -> None:
        self._check_parameters()
        validation.check_local(X=X, y=y, sample_weight=sample_weight, X_cal=X_cal, y_cal=y_cal)
        guards.warn_of_other_order(X, y)
        parent = Adapter.find(self._make_parent(X))
        guards.check_fit_parameters(parent, fit_params)
        rows, classes, prior = self._check_rows(parent, X, y, sample_weight, groups)
        fit_params = self._check_eval_set(parent, X, X_cal, fit_params)
        held = None
        if X_cal is not None or y_cal is not None:
            held = self._check_calibration_rows(parent, X_cal, y_cal, classes)
            guards.check_new_rows(X, X_cal)
        elif parent.is_fitted:
            guards.say_what_is_assumed(self.calibration)
        unit = validation.mean_weight(sample_weight)
        options = Options.from_parameters(self.get_params(deep=False), len(classes))
        known = (parent, rows, held, classes, prior, options, self._execution, unit, fit_params)
        self.model_ = fit_model(*known, grouped=groups is not None)
        self.classes_ = classes

    # ------------------------------------------------------------------ queries

    def answer(self, X: Any) -> Answer:
        """Compute probabilities, scores and neighbours of the rows in one pass.

        The other methods return parts of this answer. Use it where several of them are needed:
        each of them passes over the rows again.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, in any form that the parent takes.

        Returns
        -------
        Answer
            Probabilities, posterior, score, trust weight and neighbours of each row, and what
            the parent computed for it.
        """
        rows = self._check_query(X)
        return self.model_.answer(rows, self._execution)

    def _watched_answer(self, X: Any) -> Answer:
        """The answer, with a warning where most rows are out of distribution."""
        answer = self.answer(X)
        query_guards.warn_of_shift(self.model_, answer, X, self.columns_, self._execution)
        return answer

    @lazy_on_dask
    def predict_proba(self, X: Any) -> Floats:
        """Predict the probability of each class: alpha(x) pi(x) + (1 - alpha(x)) prior.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, in any form that the parent takes.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Probabilities, with the classes in the order of ``classes_``.
        """
        return self._watched_answer(X).probabilities

    @lazy_on_dask
    def predict_log_proba(self, X: Any) -> Floats:
        """Predict the logarithm of the probability of each class.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, in any form that the parent takes.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Logarithm of ``predict_proba``; -inf where a probability is 0.
        """
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    @lazy_on_dask
    def predict(self, X: Any) -> Array:
        """Predict the class of highest probability.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, in any form that the parent takes.

        Returns
        -------
        ndarray of shape (n_samples,)
            Labels. With equal priors they are the classes that pi favours, however far a row is
            from the training data.
        """
        columns = self._watched_answer(X).most_probable
        return self.classes_[columns]

    @lazy_on_dask
    def score_samples(self, X: Any) -> Floats:
        """Score how much training data there is near each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, in any form that the parent takes.

        Returns
        -------
        ndarray of shape (n_samples,)
            The score log f: the higher, the more in distribution; -inf where no part of the
            parent treats a row like any training row.
        """
        return self.answer(X).log_f

    @lazy_on_dask
    def in_distribution(self, X: Any) -> Floats:
        """Compute the trust weight alpha of each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, in any form that the parent takes.

        Returns
        -------
        ndarray of shape (n_samples,)
            Weight of the posterior pi against the prior, from 0 (far from all training data) to
            1 (in distribution).
        """
        return self.answer(X).alpha

    # --------------------------------------------------------------- validation

    @property
    def _execution(self) -> Execution:
        validation.jobs(self.n_jobs)
        return Execution(self.n_jobs, self.verbose)

    def _check_parameters(self) -> None:
        check = validation
        check.one_of(["pooled", "kernel", "parent"], posterior=self.posterior)
        check.one_of(["geodesic", "gaussian"], gate=self.gate)
        check.one_of(["geodesic", "polytope"], bandwidth=self.bandwidth)
        check.one_of(["geodesic", "euclidean"], distance=self.distance)
        check.one_of(["neg_log_loss", "ece"], scoring=self.scoring)
        check.folds(calibration=self.calibration)
        check.auto_or_number(gamma=self.gamma)
        check.below_infinity(floor=self.floor)
        check.auto_or_number(false_alarm=self.false_alarm, caution=self.caution)
        if not isinstance(self.gamma, str):
            check.positive(gamma=self.gamma)
        if not isinstance(self.false_alarm, str):
            check.share(false_alarm=self.false_alarm)
        if not isinstance(self.caution, str):
            check.share(caution=self.caution)
        if self.confidence is not None:
            check.share(confidence=self.confidence)
        check.share(calibration_size=self.calibration_size)
        check.count(n_neighbors=self.n_neighbors)
        check.count(0, n_hyperplanes=self.n_hyperplanes)
        check.one_of(["auto", "exact", "sampled"], search=self.search)
        check.n_bytes(self.memory_limit)
        check.positive(regularization=self.regularization)
        check.jobs(self.n_jobs)
