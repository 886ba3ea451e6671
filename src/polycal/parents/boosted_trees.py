"""Boosted trees that split numbers: leaves and probabilities from one compiled walk.

LightGBM and HistGradientBoosting walk down their trees twice, once for the leaves, as eight bytes
each, and once for the probabilities. This walk takes a fraction of both. It knows splits of numbers
alone; a model with other splits is read by its own library.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit, softmax

from .._utils.arrays import Array, Bools, Floats
from .._utils.blocks import map_blocks
from .._utils.compiled import njit
from .._utils.sklearn_compat import hist_gradient_boosting_nodes
from .forest import ROWS_AT_A_TIME, descend, node_type

NODE = node_type(np.float64)
# Rows of a block, and the leaves found for them, stay in the processor's cache.
BLOCK_BYTES = 2**19
# LightGBM's decision_type: a bit for categories, one for "missing values go left", and from the
# third bit on what is missing: nothing (NaN is 0), zeros, or NaN.
CATEGORY, MISSING_LEFT, MISSING_SHIFT = 1, 2, 2
NOTHING_MISSING, ZERO_MISSING = 0, 1


@dataclass(frozen=True)
class BoostedTrees:
    """Nodes of all trees, one tree after the other; the children of a leaf are the leaf itself."""

    start: Array  # (n_trees + 1,), first node of each tree, and the number of nodes
    nodes: Array  # (n_nodes,), of dtype NODE
    nan_right: Bools  # (n_nodes,), whether missing values go right
    first_leaf: Array  # (n_trees,), node that the library counts as leaf 0
    value: Floats  # (n_nodes,), raw score of each leaf
    baseline: Floats  # (n_outputs,), raw scores before the first tree
    sigmoid: float | None  # factor of the logistic curve with one output; None: softmax

    @classmethod
    def of_lightgbm(cls, booster: Any) -> BoostedTrees | None:
        """The trees that a Booster predicts with; None where one is not of plain splits."""
        # Below the trees stand names of features, which may look like anything.
        text, _, _ = booster.model_to_string().partition("\nend of trees\n")
        head, *parts = text.split("\nTree=")
        fields = _fields(head)
        objective, *settings = fields.get("objective", "none").split()
        factor = [part[len("sigmoid:") :] for part in settings if part.startswith("sigmoid:")]
        plain = objective == "multiclass" or (objective == "binary" and len(factor) == 1)
        if not plain or "average_output" in head.split("\n"):
            return None
        trees = [_lightgbm_tree(_fields(part)) for part in parts]
        baseline = np.zeros(int(fields["num_tree_per_iteration"]))
        return cls._build(trees, baseline, float(factor[0]) if objective == "binary" else None)

    @classmethod
    def of_hist_gradient_boosting(cls, estimator: Any) -> BoostedTrees | None:
        """The trees of a fitted model; None where one is not of plain splits."""
        found, baseline = hist_gradient_boosting_nodes(estimator)
        trees = [_hist_tree(nodes) for nodes in found]
        return cls._build(trees, baseline, 1.0 if len(baseline) == 1 else None)

    @classmethod
    def _build(
        cls, trees: Sequence[Tree | None], baseline: Floats, sigmoid: float | None
    ) -> BoostedTrees | None:
        known = [tree for tree in trees if tree is not None and tree.is_walkable]
        if len(known) < len(trees) or len(trees) == 0:
            return None
        return cls(
            np.cumsum([0, *(len(tree.nodes) for tree in known)]),
            np.concatenate([tree.nodes for tree in known]),
            np.concatenate([tree.nan_right for tree in known]),
            np.array([tree.first_leaf for tree in known], dtype=np.uint32),
            np.concatenate([tree.value for tree in known]),
            baseline,
            sigmoid,
        )

    @property
    def width(self) -> int:
        """Number of features that the trees need at least."""
        return int(self.nodes["feature"].max()) + 1

    def read(self, X: Floats, n_jobs: int | None) -> tuple[Array, Floats]:
        """Leaves, shape (n_samples, n_trees), and class probabilities."""
        n_rows, n_trees = len(X), len(self.first_leaf)
        largest = (np.diff(self.start) - self.first_leaf).max()
        leaves = np.empty((n_rows, n_trees), np.uint8 if largest < 2**8 else np.int32)
        raw = np.tile(self.baseline, (n_rows, 1))
        trees = (self.start, self.nodes, self.nan_right, self.first_leaf, self.value)

        def walk(rows: slice) -> None:
            missing = bool(np.isnan(X[rows]).any())
            _walk(X[rows], *trees, missing, leaves[rows], raw[rows])

        row_bytes = leaves.itemsize * n_trees + 8 * X.shape[1]
        map_blocks(walk, n_rows, row_bytes, n_jobs=n_jobs, block_bytes=BLOCK_BYTES)
        if self.sigmoid is None:
            return leaves, softmax(raw, axis=1)
        positive = expit(self.sigmoid * raw)
        return leaves, np.concatenate([1.0 - positive, positive], axis=1)


@dataclass(frozen=True)
class Tree:
    """One tree, as in ``BoostedTrees``."""

    nodes: Array
    nan_right: Bools
    value: Floats
    first_leaf: int = 0

    @property
    def is_walkable(self) -> bool:
        """Whether every walk ends in a leaf: the walk itself checks nothing."""
        own, left, right = np.arange(len(self.nodes)), self.nodes["left"], self.nodes["right"]
        leaf = (left == own) & (right == own)
        down = (left > own) & (right > own) & (left < len(own)) & (right < len(own))
        lengths = {len(self.nodes), len(self.nan_right), len(self.value)}
        return len(lengths) == 1 and bool((leaf | down).all()) and self.first_leaf < len(own)


def _fields(text: str) -> dict[str, str]:
    """The lines name=value of one part of LightGBM's text."""
    lines = (line.partition("=") for line in text.split("\n"))
    return {name: value for name, equals, value in lines if equals}


def _lightgbm_tree(fields: dict[str, str]) -> Tree | None:
    """A tree from its part of the text, splits first; None where it has other splits."""
    if fields.get("is_linear", "0") != "0":
        return None
    n_leaves = int(fields["num_leaves"])
    n_splits, n_nodes = n_leaves - 1, 2 * n_leaves - 1
    value = np.append(np.zeros(n_splits), _numbers(fields["leaf_value"], float))
    nodes, nan_right = _leaves(n_nodes), np.zeros(n_nodes, dtype=bool)
    if n_splits:
        kind = _numbers(fields["decision_type"], int)
        missing = kind >> MISSING_SHIFT
        if (kind & CATEGORY).any() or (missing == ZERO_MISSING).any():
            return None
        feature, threshold = _numbers(fields["split_feature"], int), _numbers(fields["threshold"])
        children = [_numbers(fields[f"{side}_child"], int) for side in ("left", "right")]
        if {len(part) for part in (kind, feature, threshold, *children)} != {n_splits}:
            return None
        nodes["feature"][:n_splits], nodes["threshold"][:n_splits] = feature, threshold
        for side, child in zip(("left", "right"), children, strict=True):
            nodes[side][:n_splits] = np.where(child < 0, n_splits + ~child, child)
        by_zero = missing == NOTHING_MISSING
        nan_right[:n_splits] = np.where(by_zero, threshold < 0.0, (kind & MISSING_LEFT) == 0)
    return Tree(nodes, nan_right, value, n_splits)


def _hist_tree(found: Array) -> Tree | None:
    """A tree from scikit-learn's nodes, in their order; None where it has other splits."""
    split = found["is_leaf"] == 0
    if found["is_categorical"][split].any():
        return None
    nodes = _leaves(len(found))
    for name, theirs in (("feature", "feature_idx"), ("threshold", "num_threshold")):
        nodes[name][split] = found[theirs][split]
    nodes["left"][split], nodes["right"][split] = found["left"][split], found["right"][split]
    return Tree(nodes, split & (found["missing_go_to_left"] == 0), found["value"].copy())


def _leaves(n: int) -> Array:
    """Nodes that are all leaves."""
    nodes = np.zeros(n, dtype=NODE)
    nodes["left"] = nodes["right"] = np.arange(n)
    return nodes


def _numbers(text: str, kind: type = float) -> Array:
    return np.array(text.split(), dtype=kind)


@njit(nogil=True, cache=True)
def _walk(
    X: Array,
    start: Array,
    nodes: Array,
    nan_right: Bools,
    first_leaf: Array,
    value: Floats,
    missing: bool,
    leaves: Array,
    raw: Floats,
) -> None:
    """Fill in the leaf of each row in each tree, and add up the scores of each output."""
    at, n_outputs = np.empty(ROWS_AT_A_TIME, np.uint32), raw.shape[1]
    for t in range(len(first_leaf)):
        nodes_here = slice(start[t], start[t + 1])
        tree, score, right = nodes[nodes_here], value[nodes_here], nan_right[nodes_here]
        for first in range(0, len(X), ROWS_AT_A_TIME):
            n = min(ROWS_AT_A_TIME, len(X) - first)
            rows = X[first : first + n]
            if missing:
                _descend_with_missing(rows, tree, right, at)
            else:
                descend(rows, tree, at)
            for i in range(n):
                leaves[first + i, t] = at[i] - first_leaf[t]
                raw[first + i, t % n_outputs] += score[at[i]]


@njit(nogil=True, cache=True)
def _descend_with_missing(rows: Array, tree: Array, nan_right: Bools, at: Array) -> None:
    """Fill in the leaf of each row, of which some numbers are NaN."""
    for i in range(len(rows)):
        here, step = np.uint32(0), tree[0].left
        while True:
            node = tree[here]
            x = rows[i, node.feature]
            right = nan_right[here] if np.isnan(x) else x > node.threshold
            step = node.right if right else node.left
            if step == here:
                break
            here = step
        at[i] = here
