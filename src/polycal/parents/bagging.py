"""scikit-learn Bagging of trees: one group of leaf ids."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.tree import DecisionTreeClassifier

from .._utils.arrays import Array, Floats, Ints
from ..core.reading import ActivationModes, Reading
from ..core.table import numbers_of
from .base import Adapter, check_float32, out_of_bag_reading


class BaggingAdapter(Adapter):
    family = "BaggingClassifier of trees"
    handles = (("sklearn", "BaggingClassifier"),)
    single_precision = True

    @classmethod
    def is_for(cls, estimator: Any) -> bool:
        return estimator.estimator is None or isinstance(
            estimator.estimator, DecisionTreeClassifier
        )

    @property
    def has_out_of_bag(self) -> bool:
        return bool(self.estimator.bootstrap)

    def out_of_bag(self, reading: Reading, groups: Ints | None = None) -> tuple[Reading, Floats]:
        n_classes = reading.proba.shape[1]
        trees = self.estimator.estimators_

        def votes(tree: int, leaves: Array) -> Array:
            # A tree knows only the classes of its own rows.
            proba = np.zeros((len(leaves), n_classes))
            proba[:, trees[tree].classes_.astype(int)] = trees[tree].tree_.value[leaves, 0, :]
            return proba

        return out_of_bag_reading(reading, self.estimator, votes, groups)

    def read(self, X: Any, verbose: int = 0) -> Reading:
        values = numbers_of(X)
        check_float32(values)
        bag = self.estimator
        pairs = zip(bag.estimators_, bag.estimators_features_, strict=True)
        leaves = [tree.apply(values[:, features]) for tree, features in pairs]
        modes = ActivationModes.from_leaves(np.stack(leaves, axis=1))
        return Reading(modes, bag.predict_proba(X), X)
