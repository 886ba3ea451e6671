"""scikit-learn trees and forests: one group of leaf ids."""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from .._utils.arrays import Array, Floats, Ints
from .._utils.blocks import map_blocks
from .._utils.compiled import njit
from ..core.reading import ActivationModes, Reading
from ..core.table import numbers_of
from .base import Adapter, check_float32, out_of_bag_reading

# Rows that go down a tree at the same time, so that their memory accesses overlap.
ROWS_AT_A_TIME = 16


def node_type(number: type) -> np.dtype[Any]:
    """A packed node; unsigned, so that the walk checks no index for being negative."""
    index = [(name, np.uint32) for name in ("feature", "left", "right")]
    return np.dtype([("threshold", number), *index])


NODE = node_type(np.float32)  # as scikit-learn's trees compare


class PackedTrees(NamedTuple):
    """The nodes of all trees, one tree after the other."""

    start: Array  # (n_trees + 1,), first node of each tree, and the number of nodes
    nodes: Array  # (n_nodes,), of dtype NODE
    value: Array  # (n_nodes, n_classes), class probabilities in each node


class ForestAdapter(Adapter):
    """Leaf ids and probabilities from one walk down each tree.

    The walk is the forest's own ``apply`` and ``predict_proba`` together, over nodes packed
    so tightly that it takes less time than either.
    """

    family = "RandomForestClassifier, ExtraTreesClassifier, DecisionTreeClassifier"
    handles = (
        ("sklearn", "RandomForestClassifier"),
        ("sklearn", "ExtraTreesClassifier"),
        ("sklearn", "DecisionTreeClassifier"),
    )
    single_precision = True

    @cached_property
    def _packed(self) -> PackedTrees:
        """Made at the first reading. Two threads that make it at once make the same."""
        trees = [t.tree_ for t in getattr(self.estimator, "estimators_", [self.estimator])]
        return PackedTrees(
            start=np.concatenate([[0], np.cumsum([t.node_count for t in trees])]),
            nodes=np.concatenate([_pack(tree) for tree in trees]),
            value=np.concatenate([tree.value[:, 0, :] for tree in trees]),
        )

    @cached_property
    def _width(self) -> int:
        """Number of features that the trees need at least."""
        return int(self._packed.nodes["feature"].max()) + 1

    @property
    def has_out_of_bag(self) -> bool:
        return bool(getattr(self.estimator, "bootstrap", False))

    def out_of_bag(self, reading: Reading, groups: Ints | None = None) -> tuple[Reading, Floats]:
        start, value = self._packed.start, self._packed.value

        def votes(tree: int, leaves: Array) -> Array:
            tree_votes: Array = value[start[tree] + leaves]
            return tree_votes

        return out_of_bag_reading(reading, self.estimator, votes, groups)

    def read(self, X: Any, verbose: int = 0) -> Reading:
        numbers = numbers_of(X)
        check_float32(X)
        if np.isnan(numbers).any():  # the packed nodes do not say where missing values go
            leaves = self.estimator.apply(X).reshape(len(numbers), -1)
            return Reading(ActivationModes.from_leaves(leaves), self.estimator.predict_proba(X), X)
        values = numbers.astype(np.float32)  # as scikit-learn's trees compare
        packed = self._packed
        _check_width(values.shape[1], self._width)
        n_trees = len(packed.start) - 1
        leaves = np.empty((len(values), n_trees), dtype=np.int32)
        proba = np.zeros((len(values), packed.value.shape[1]))

        def walk(rows: slice) -> None:
            _walk(values[rows], *packed, leaves[rows], proba[rows])

        map_blocks(walk, len(values), 4 * n_trees, n_jobs=self._n_jobs)
        return Reading(ActivationModes.from_leaves(leaves), proba / n_trees, X)

    @property
    def _n_jobs(self) -> int | None:
        return getattr(self.estimator, "n_jobs", None)


def _check_width(n_features: int, needed: int) -> None:
    """The walk itself looks up features without checks."""
    if n_features < needed:
        raise ValueError(
            f"X has {n_features} features; the trees need at least {needed}. Give the features "
            "that they were fitted on."
        )


def _pack(tree: Any) -> Array:
    """Nodes of one tree; the children of a leaf are the leaf itself, so a walk stays there."""
    nodes = np.empty(tree.node_count, dtype=NODE)
    leaf = tree.children_left < 0
    own = np.arange(tree.node_count)
    nodes["threshold"] = float32_threshold(tree.threshold)
    nodes["feature"] = np.where(leaf, 0, tree.feature)
    nodes["left"] = np.where(leaf, own, tree.children_left)
    nodes["right"] = np.where(leaf, own, tree.children_right)
    return nodes


def float32_threshold(threshold: Array) -> Array:
    """The largest float32 below or at each threshold: no float32 number lies between them."""
    with np.errstate(over="ignore"):  # a threshold beyond float32 is above every number
        rounded = threshold.astype(np.float32)
    above = rounded > threshold
    rounded[above] = np.nextafter(rounded[above], np.float32(-np.inf))
    return rounded


@njit(nogil=True, cache=True)
def descend(rows: Array, tree: Array, at: Array) -> None:
    """Fill in the leaf of each of at most ROWS_AT_A_TIME rows."""
    at[:] = 0
    moving = np.uint32(1)
    while moving:
        moving = np.uint32(0)
        for i in range(len(rows)):
            node = tree[at[i]]
            # A choice between two numbers, not a branch that cannot be predicted.
            step = node.right if rows[i, node.feature] > node.threshold else node.left
            moving |= step ^ at[i]
            at[i] = step


@njit(nogil=True, cache=True)
def _walk(
    X: Array,
    start: Array,
    nodes: Array,
    value: Array,
    leaves: Array,
    proba: Array,
) -> None:
    """Fill in the leaf of each row in each tree, and the sum of the leaves' probabilities."""
    at = np.empty(ROWS_AT_A_TIME, np.uint32)
    for t in range(len(start) - 1):
        tree, votes = nodes[start[t] : start[t + 1]], value[start[t] : start[t + 1]]
        for first in range(0, len(X), ROWS_AT_A_TIME):
            n = min(ROWS_AT_A_TIME, len(X) - first)
            descend(X[first : first + n], tree, at)
            for i in range(n):
                leaves[first + i, t] = at[i]
                for y in range(votes.shape[1]):
                    proba[first + i, y] += votes[at[i], y]
