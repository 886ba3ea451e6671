"""Any classifier: its probabilities are all that is read, random hyperplanes stand in for modes."""

from __future__ import annotations

import sys
from contextlib import suppress
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.base import is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.utils import get_tags

from ..core.reading import ActivationModes, Reading
from .base import Adapter
from .networks import to_proba

METHOD = "predict_proba"
# Classifiers for those who gave a regressor of another name.
REGRESSORS = {
    **dict.fromkeys(["LinearRegression", "Ridge", "Lasso", "ElasticNet"], "LogisticRegression"),
    "SVR": "CalibratedClassifierCV(SVC(), ensemble=False)",
}
# Meta-estimators whose y has several columns.
OF_SEVERAL_LABELS = ("MultiOutputClassifier", "ClassifierChain")
# Parameters that hold other estimators.
PARTS = ("estimator", "estimators", "final_estimator")


class ClassifierAdapter(Adapter):
    """The modes are absent; ``ReferenceSet`` makes them from the features."""

    family = "any classifier with predict_proba and classes_"

    def problem(self) -> str | None:
        estimator = self.estimator
        name = type(estimator).__name__
        if name in OF_SEVERAL_LABELS:
            return f"{name} gives a row several labels; use the classifier inside, for one column"
        if isinstance(estimator, FrozenEstimator):
            return "it holds a FrozenEstimator; freeze the outermost estimator alone"
        if not hasattr(estimator, "fit") and not self.is_fitted:
            return f"{name} is not a known family"
        # An ensemble of others knows only after its fit whether all of them have probabilities.
        later = not self.is_fitted and any(hasattr(estimator, part) for part in PARTS)
        if hasattr(estimator, "predict_proba") or (later and hasattr(type(estimator), METHOD)):
            return None
        return _without_probabilities(estimator)

    @cached_property
    def takes_categories(self) -> bool:  # type: ignore[override]
        """Whether the classifier says so, or is not one of scikit-learn's own."""
        if not type(self.estimator).__module__.startswith("sklearn."):
            return True
        return bool(get_tags(self.estimator).input_tags.categorical)

    @cached_property
    def allows_missing(self) -> bool:
        try:
            return super().allows_missing
        except (AttributeError, TypeError, ValueError):  # it has no tags, and decides itself
            return True

    def check_fitted(self) -> None:
        if hasattr(self.estimator, "__sklearn_tags__"):
            super().check_fitted()
        elif not hasattr(self.estimator, "classes_"):
            raise NotFittedError(f"{type(self.estimator).__name__} has no classes_; fit it first.")

    def read(self, X: Any, verbose: int = 0) -> Reading:
        name = type(self.estimator).__name__
        if not hasattr(self.estimator, METHOD):
            raise TypeError(f"{_without_probabilities(self.estimator)}.")
        if not hasattr(self.estimator, "classes_"):
            raise TypeError(
                f"{name} has no classes_, so that the columns of its predict_proba have no names. "
                "Set classes_ to the sorted labels in its fit."
            )
        proba = np.asarray(self.estimator.predict_proba(X), dtype=np.float64)
        if proba.ndim and len(proba) != len(X):
            raise ValueError(
                f"predict_proba of {name} must return one row for each of the {len(X)} rows; got "
                f"{len(proba)}."
            )
        remedy = f"Wrap {name} so that predict_proba returns one row of probabilities for each row."
        proba = to_proba(proba, "probabilities", remedy, name)
        return Reading(ActivationModes.absent(len(proba)), proba, X)


def _without_probabilities(estimator: Any) -> str:
    name = type(estimator).__name__
    if getattr(estimator, "voting", None) == "hard":
        return f'{name} has no predict_proba with voting="hard"; use voting="soft"'
    with suppress(AttributeError, TypeError, ValueError):  # it has no tags
        if is_regressor(estimator):
            namesake = name.replace("Regressor", "Classifier")
            exists = hasattr(sys.modules[type(estimator).__module__.split(".")[0]], namesake)
            if not exists and not hasattr(sys.modules[type(estimator).__module__], namesake):
                namesake = "RandomForestClassifier"
            return (
                f"{name} is a regressor, and has no predict_proba; use a classifier, such as "
                f"{REGRESSORS.get(name, namesake)}"
            )
        if is_classifier(estimator):
            return (
                f"{name} has no predict_proba as it is set; use "
                f"CalibratedClassifierCV({name}(...), ensemble=False), which gives it one"
            )
    return f"{name} has no predict_proba, so it is no classifier with probabilities"
