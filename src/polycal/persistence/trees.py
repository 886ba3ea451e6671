"""scikit-learn's trees as a few narrow arrays.

scikit-learn grows trees in an order where the left child is the next node. In this order the
leaves alone determine the shape of a tree. Without weights, the counts of the leaves determine
the count, value and Gini impurity of every node. What can be derived is not stored, if it is equal
to the last bit. All trees of an ensemble share the same arrays.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np

from .._utils.arrays import Array, are_shares
from .._utils.sklearn_compat import NODE_DTYPE, build_tree, tree_arrays
from ..parents.forest import NODE as PACKED
from ..parents.forest import float32_threshold
from . import tree_loops as loops
from .errors import AlteredFileError
from .values import Packer, Unpacker, expect_keys

# How far the shares of a node may be from a sum of 1.
ROUNDING = 1e-6
ALWAYS = ("n_nodes", "depth", "feature", "threshold", "missing_left", "n_samples")


@dataclass(frozen=True)
class Trees:
    """All trees of an ensemble; an array that is None can be derived from the others."""

    n_nodes: Array  # of each tree
    depth: Array  # of each tree
    feature: Array  # (n,), -1 for a leaf
    threshold: Array  # of each inner node
    missing_left: Array  # bits, whether a missing number goes left at each inner node
    children: Array | None  # (n, 2), unless the left child is the next node
    counts: Array | None  # (n_leaves, n_classes), of the rows and their copies
    n_samples: Array  # of each leaf, or of each node without counts
    weight: Array | None  # (n,), without counts
    value: Array | None  # (n, n_outputs, n_values), without counts
    impurity: Array | None  # (n,), unless Gini with counts

    @classmethod
    def from_sklearn(cls, trees: list[Any]) -> Trees:
        """From the ``tree_`` of each estimator, without what can be derived exactly."""
        states = [tree_arrays(tree) for tree in trees]
        n_nodes = np.array([len(nodes) for nodes, _, _ in states], dtype=np.int64)
        start = np.concatenate([[0], np.cumsum(n_nodes)])
        n, shape = int(start[-1]), states[0][1].shape[1:]
        inner = np.concatenate([[0], np.cumsum(n_nodes // 2)])  # every inner node has two children
        leaf = start - inner
        signed = np.int8, np.int16, np.int32
        most = max(tree.n_features for tree in trees)
        feature = np.empty(n, next(kind for kind in signed if most <= np.iinfo(kind).max))
        threshold, left = np.empty(inner[-1]), np.empty(inner[-1], bool)
        n_samples, counts = np.empty(leaf[-1], np.uint32), np.empty((leaf[-1], shape[1]), np.uint32)
        derivable = np.ones((len(trees), 3), dtype=bool)  # children, counts, impurity
        n_threads = min(4, os.cpu_count() or 1)

        def squeeze(first: int) -> None:
            longest = int(n_nodes.max())
            scratch = np.empty((longest, shape[1])), np.empty((2, longest + 1), np.int64)
            for t in range(first, len(trees), n_threads):
                own, inside, outside = _part(start, t), _part(inner, t), _part(leaf, t)
                out = feature[own], threshold[inside], left[inside]
                out_leaves = n_samples[outside], counts[outside]
                loops.squeeze(*states[t][:2], *scratch, *out, *out_leaves, derivable[t])

        with ThreadPoolExecutor(n_threads) as pool:
            list(pool.map(squeeze, range(n_threads)))
        in_order, counted, gini = (bool(derivable[:, i].all()) for i in range(3))
        counted = counted and shape[0] == 1
        every = [nodes for nodes, _, _ in states]
        children = ("left_child", "right_child")
        return cls(
            n_nodes,
            np.array([depth for _, _, depth in states], dtype=np.int64),
            feature,
            threshold,
            np.packbits(left),
            None if in_order else np.stack([_column(every, c, np.int32) for c in children], axis=1),
            _narrow(counts) if counted else None,
            _narrow(n_samples) if counted else _column(every, "n_node_samples", np.int64),
            None if counted else _column(every, "weighted_n_node_samples", np.float64),
            None if counted else np.concatenate([value for _, value, _ in states]),
            None if counted and gini else _column(every, "impurity", np.float64),
        )

    def pack(self, packer: Packer, name: str) -> dict[str, Any]:
        """One array for each field; ``name`` is the prefix of their names."""
        arrays = {field.name: getattr(self, field.name) for field in fields(self)}
        return {
            key: None if array is None else packer.array(f"{name}.{key}", array)
            for key, array in arrays.items()
        }

    @classmethod
    def unpack(cls, reader: Unpacker, node: Any, n_features: int) -> Trees:
        """Trees from a file, checked: scikit-learn walks down a tree without checks.

        A tree that does not end, that has a child outside its nodes or that reads a feature
        beyond ``n_features`` is an error.
        """
        names = [field.name for field in fields(cls)]
        parts: list[Any] = [
            None if part is None else reader.array(part) for part in expect_keys(node, *names)
        ]
        if any(parts[names.index(name)] is None for name in ALWAYS):
            raise AlteredFileError("the file lacks a part of its trees.")
        trees = cls(*parts)
        if not _fits(trees, n_features) or not trees.is_finite:
            raise AlteredFileError("the file holds trees that are not valid.")
        return trees

    @property
    def is_finite(self) -> bool:
        """Whether weights and values are finite, and no threshold is NaN.

        The threshold of a split between missing values and all others is infinite.
        """
        numbers = (self.weight, self.value)
        finite = all(array is None or np.isfinite(array).all() for array in numbers)
        return finite and not np.isnan(self.threshold).any()

    @property
    def holds_probabilities(self) -> bool:
        """Whether the values of each node are shares of the classes."""
        return self.value is None or are_shares(self.value, ROUNDING)

    @property
    def shape(self) -> tuple[int, ...]:
        """Outputs and values of each node."""
        if self.value is None:
            assert self.counts is not None
            return (1, self.counts.shape[1])
        return self.value.shape[1:]

    @cached_property
    def start(self) -> Array:
        """First node of each tree, and the number of all nodes."""
        return np.concatenate([[0], np.cumsum(self.n_nodes)])

    @cached_property
    def links(self) -> Array:
        """Children of each node within its tree, shape (n, 2); -1 for a leaf's."""
        if self.children is not None:
            return self.children
        links = np.full((len(self.feature), 2), -1, dtype=np.int32)
        loops.link(self.start, self.feature, links)
        return links

    def walkable(self) -> tuple[Array, Array, Array]:
        """What ``ForestAdapter`` walks over: first nodes, packed nodes, votes of the leaves."""
        nodes = np.empty(len(self.feature), dtype=PACKED)
        threshold = float32_threshold(self.threshold)
        loops.pack(self.start, self.feature, threshold, self.links, nodes)
        if self.counts is None:
            assert self.value is not None
            return self.start, nodes, np.ascontiguousarray(self.value[:, 0, :])
        votes = np.zeros((len(nodes), self.counts.shape[1]))
        loops.vote(self.feature, self.counts, votes)
        return self.start, nodes, votes

    def build(self, n_features: int, n_classes: Array) -> list[Any]:
        """scikit-learn's own trees; ``n_classes`` of each output."""
        inner = np.cumsum(self.feature >= 0)
        left = np.unpackbits(self.missing_left, count=len(self.threshold)).astype(bool)
        trees = []
        for t in range(len(self.n_nodes)):
            own = _part(self.start, t)
            first = int(inner[own.start - 1]) if own.start else 0
            inside = slice(first, int(inner[own.stop - 1]))
            outside = slice(own.start - first, own.stop - inside.stop)
            nodes = np.zeros(own.stop - own.start, dtype=NODE_DTYPE)
            loops.restore(
                self.feature[own], self.threshold[inside], left[inside], self.links[own], nodes
            )
            if self.counts is None:
                assert self.value is not None
                assert self.weight is not None
                value = np.ascontiguousarray(self.value[own])
                nodes["n_node_samples"] = self.n_samples[own]
                nodes["weighted_n_node_samples"] = self.weight[own]
            else:
                value = np.empty((len(nodes), 1, self.counts.shape[1]))
                loops.count(self.counts[outside], self.n_samples[outside], nodes, value)
            if self.impurity is not None:
                nodes["impurity"] = self.impurity[own]
            # Not the depth in the file: scikit-learn allocates memory for a path of this length.
            depth = loops.deepest(self.links[own])
            trees.append(build_tree(n_features, n_classes, depth, nodes, value))
        return trees


def _fits(trees: Trees, n_features: int) -> bool:
    """Whether types and lengths of the arrays are right, and every walk ends in a leaf."""
    feature, n = trees.feature, len(trees.feature)
    if feature.ndim != 1 or feature.dtype.kind != "i" or n == 0 or feature.min() < -1:
        return False
    m, narrow = int((feature >= 0).sum()), ("uint8", "uint16", "uint32")
    of_trees = (trees.n_nodes.size,)
    expected: list[tuple[Array | None, tuple[str, ...], tuple[int, ...]]] = [
        (trees.n_nodes, ("int64",), of_trees),
        (trees.depth, ("int64",), of_trees),
        (trees.threshold, ("float64",), (m,)),
        (trees.missing_left, ("uint8",), (-(-m // 8),)),
        (trees.children, ("int32",), (n, 2)),
        (trees.impurity, ("float64",), (n,)),
        (trees.weight, ("float64",), (n,)),
    ]
    if trees.counts is not None:
        expected.append((trees.counts, narrow, (n - m, *trees.counts.shape[1:2])))
        expected.append((trees.n_samples, narrow, (n - m,)))
        complete = trees.counts.ndim == 2 and trees.value is None
    else:
        expected.append((trees.n_samples, ("int64",), (n,)))
        complete = trees.weight is not None and trees.impurity is not None
        complete = complete and trees.value is not None and trees.value.ndim == 3
        if trees.value is not None:
            expected.append((trees.value, ("float64",), (n, *trees.value.shape[1:])))
    for array, dtypes, shape in expected:
        if array is not None and (array.dtype.name not in dtypes or array.shape != shape):
            return False
    # Each is checked by itself, because wrong numbers may have the right sum.
    if not complete or trees.n_nodes.size == 0 or not trees.n_nodes.min() >= 1:
        return False
    if trees.n_nodes.max() > n or trees.start[-1] != n or (m and feature.max() >= n_features):
        return False
    if trees.counts is not None and not loops.all_counted(trees.counts):
        return False
    if trees.children is None:
        return bool(loops.is_complete(trees.start, feature))
    return bool(loops.children_follow(trees.start, feature, trees.children))


def _part(start: Array, t: int) -> slice:
    return slice(int(start[t]), int(start[t + 1]))


def _column(states: list[Array], name: str, dtype: Any) -> Array:
    return np.concatenate([nodes[name] for nodes in states]).astype(dtype)


def _narrow(counts: Array) -> Array:
    """The same counts in the narrowest type."""
    top = int(counts.max())
    kinds = np.uint8, np.uint16, np.uint32
    return counts.astype(next(kind for kind in kinds if top <= np.iinfo(kind).max), copy=False)
