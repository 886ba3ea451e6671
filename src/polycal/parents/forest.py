"""scikit-learn trees and forests: one group of leaf ids."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

from .._utils.blocks import map_blocks
from ..core.reading import ActivationModes, Reading
from ..core.table import numbers_of
from .base import Adapter, check_float32, out_of_bag_reading

NODE = np.dtype(
    [("threshold", np.float32), ("feature", np.int32), ("left", np.int32), ("right", np.int32)]
)
# Rows that go down a tree together, so that their memory accesses overlap.
TOGETHER = 16


class ForestAdapter(Adapter):
    """Leaf ids and probabilities from one walk down each tree.

    The walk is the forest's own ``apply`` and ``predict_proba`` together, over nodes packed
    so tightly that it takes less time than either.
    """

    family = "RandomForestClassifier, ExtraTreesClassifier, DecisionTreeClassifier"

    def __init__(self, estimator: Any):
        super().__init__(estimator)
        trees = [t.tree_ for t in getattr(estimator, "estimators_", [estimator])]
        self._start = np.concatenate([[0], np.cumsum([t.node_count for t in trees])])
        self._nodes = np.concatenate([_pack(tree) for tree in trees])
        self._value = np.concatenate([tree.value[:, 0, :] for tree in trees])

    @staticmethod
    def problem(estimator: Any) -> str | None:
        known = (RandomForestClassifier, ExtraTreesClassifier, DecisionTreeClassifier)
        return None if isinstance(estimator, known) else ""

    @classmethod
    def has_out_of_bag(cls, estimator: Any) -> bool:
        return getattr(estimator, "bootstrap", False)

    def out_of_bag(self, reading: Reading) -> tuple[Reading, NDArray]:
        def votes(tree: int, leaves: NDArray) -> NDArray:
            return self._value[self._start[tree] + leaves]

        return out_of_bag_reading(reading, self.estimator, votes)

    def read(self, X: Any, verbose: int = 0) -> Reading:
        numbers = numbers_of(X)
        check_float32(numbers)
        if np.isnan(numbers).any():  # each node has its own side for missing numbers
            leaves = self.estimator.apply(X).reshape(len(numbers), -1)
            return Reading(ActivationModes.from_leaves(leaves), self.estimator.predict_proba(X), X)
        values = numbers.astype(np.float32)  # as scikit-learn's trees compare
        self._check_width(values.shape[1])
        n_trees = len(self._start) - 1
        leaves = np.empty((len(values), n_trees), dtype=np.int32)
        proba = np.zeros((len(values), self._value.shape[1]))

        def walk(rows: slice) -> None:
            _walk(values[rows], self._nodes, self._start, self._value, leaves[rows], proba[rows])

        map_blocks(walk, len(values), 4 * n_trees, n_jobs=self._jobs)
        return Reading(ActivationModes.from_leaves(leaves), proba / n_trees, X)

    @property
    def _jobs(self) -> int | None:
        return getattr(self.estimator, "n_jobs", None)

    def _check_width(self, n_features: int) -> None:
        """The walk itself looks up features without checks."""
        asked = int(self._nodes["feature"].max()) + 1
        if n_features < asked:
            raise ValueError(f"X has {n_features} features; the trees ask for {asked}.")


def _pack(tree: Any) -> NDArray:
    """Nodes of one tree; a leaf leads to itself, so a walk may go on without harm."""
    nodes = np.empty(tree.node_count, dtype=NODE)
    leaf = tree.children_left < 0
    own = np.arange(tree.node_count)
    nodes["threshold"] = float32_threshold(tree.threshold)
    nodes["feature"] = np.where(leaf, 0, tree.feature)
    nodes["left"] = np.where(leaf, own, tree.children_left)
    nodes["right"] = np.where(leaf, own, tree.children_right)
    return nodes


def float32_threshold(threshold: NDArray) -> NDArray:
    """The largest float32 below or at each threshold: no float32 number lies between them."""
    with np.errstate(over="ignore"):  # beyond float32 every number is below
        rounded = threshold.astype(np.float32)
    above = rounded > threshold
    rounded[above] = np.nextafter(rounded[above], np.float32(-np.inf))
    return rounded


@njit(nogil=True, cache=True)
def _walk(X, nodes, start, value, leaves, proba):
    at = np.empty(TOGETHER, np.int32)
    for t in range(len(start) - 1):
        tree, votes = nodes[start[t] : start[t + 1]], value[start[t] : start[t + 1]]
        for first in range(0, len(X), TOGETHER):
            n = min(TOGETHER, len(X) - first)
            at[:] = 0
            moving = 1
            while moving:
                moving = 0
                for i in range(n):
                    node = tree[at[i]]
                    right = X[first + i, node.feature] > node.threshold
                    # Arithmetic instead of a branch that the processor cannot predict.
                    step = node.left + (node.right - node.left) * np.int32(right)
                    moving |= step - at[i]
                    at[i] = step
            for i in range(n):
                leaves[first + i, t] = at[i]
                for y in range(votes.shape[1]):
                    proba[first + i, y] += votes[at[i], y]
