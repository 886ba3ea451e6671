"""scikit-learn Bagging of trees: one group of leaf ids."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import BaggingClassifier
from sklearn.tree import DecisionTreeClassifier

from .._types import ActivationModes
from ._base import Parent, check_float32


class BaggingParent(Parent):
    family = "BaggingClassifier of trees"

    @staticmethod
    def problem(estimator: Any) -> str | None:
        if not isinstance(estimator, BaggingClassifier):
            return ""
        base = estimator.estimator
        if base is None or isinstance(base, DecisionTreeClassifier):
            return None
        return (
            f"a BaggingClassifier of {type(base).__name__} has no leaves; "
            "use estimator=DecisionTreeClassifier() inside it"
        )

    def read(self, X: Any) -> tuple[ActivationModes, NDArray]:
        check_float32(X)
        values = np.asarray(X, dtype=float)
        bag = self.estimator
        pairs = zip(bag.estimators_, bag.estimators_features_, strict=True)
        leaves = [tree.apply(values[:, features]) for tree, features in pairs]
        return ActivationModes.from_leaves(np.stack(leaves, axis=1)), bag.predict_proba(X)
