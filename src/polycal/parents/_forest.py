"""scikit-learn trees and forests: one group of leaf ids."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

from .._types import ActivationModes
from ._base import Parent, check_float32


class ForestParent(Parent):
    family = "RandomForestClassifier, ExtraTreesClassifier, DecisionTreeClassifier"

    @staticmethod
    def problem(estimator: Any) -> str | None:
        known = (RandomForestClassifier, ExtraTreesClassifier, DecisionTreeClassifier)
        return None if isinstance(estimator, known) else ""

    def read(self, X: Any) -> tuple[ActivationModes, NDArray]:
        check_float32(X)
        leaves = self.estimator.apply(X)
        if leaves.ndim == 1:
            leaves = leaves[:, None]
        modes = ActivationModes.from_leaves(leaves)
        trees = getattr(self.estimator, "estimators_", [self.estimator])
        # The forest's own predict_proba, from the leaves that are already known.
        proba = np.zeros((len(leaves), len(self.estimator.classes_)))
        for t, tree in enumerate(trees):
            proba += tree.tree_.value[:, 0, :][modes.codes[:, t]]
        return modes, proba / len(trees)
