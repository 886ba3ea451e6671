"""The only module that uses scikit-learn's private names; others import them from here."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np
import sklearn
from sklearn.ensemble import IsolationForest
from sklearn.ensemble._forest import BaseForest
from sklearn.ensemble._gb import BaseGradientBoosting
from sklearn.ensemble._hist_gradient_boosting.common import PREDICTOR_RECORD_DTYPE
from sklearn.ensemble._hist_gradient_boosting.gradient_boosting import BaseHistGradientBoosting
from sklearn.ensemble._hist_gradient_boosting.predictor import TreePredictor
from sklearn.tree._tree import NODE_DTYPE, Tree
from sklearn.utils import _safe_indexing as take_rows
from sklearn.utils.validation import _num_samples as n_rows_of

from .arrays import Array

__all__ = [
    "NODE_DTYPE",
    "PREDICTOR_RECORD_DTYPE",
    "Tree",
    "TreePredictor",
    "build_tree",
    "hist_gradient_boosting_leaves",
    "hist_gradient_boosting_nodes",
    "n_rows_of",
    "take_rows",
    "tree_arrays",
    "walks_within",
]

# Rows on which each call verifies that the leaves are those of the model.
N_VERIFIED = 5


def hist_gradient_boosting_leaves(estimator: Any, X: Any) -> Array:
    """Leaf of each row in each tree of a fitted HistGradientBoostingClassifier.

    A copy of the model, in which the value of each node is its own index, is evaluated by
    scikit-learn's public ``staged_decision_function``. So scikit-learn itself handles thresholds,
    missing values and categories, and only the arrays of nodes are private.

    Returns
    -------
    ndarray of shape (n_samples, n_iter_ * n_trees_per_iteration_), int32
        Trees in the order of ``estimator._predictors``: all trees of a round together.

    Raises
    ------
    RuntimeError
        If this version of scikit-learn stores its trees in another way.
    """
    try:
        numbered = _number_leaves(estimator)
        values = [tree.nodes["value"] for trees in estimator._predictors for tree in trees]
        baseline = estimator._baseline_prediction
    except (AttributeError, IndexError, TypeError, ValueError) as error:
        raise RuntimeError(_changed(f"{type(error).__name__}: {error}")) from error
    rounds: list[Array] = []
    before: Any = 0.0
    for stage in numbered.staged_decision_function(X):
        # Sums of integers below 2**53 are exact, so each difference is the index of a leaf.
        total = np.reshape(stage, (len(stage), -1))  # (n_samples, n_trees_per_iteration_)
        rounds.append((total - before).astype(np.int32))
        before = total
    leaves = np.concatenate(rounds, axis=1)
    _verify(estimator, X, leaves, values, baseline)
    return leaves


def hist_gradient_boosting_nodes(estimator: Any) -> tuple[list[Array], Array]:
    """Nodes of each tree of a fitted HistGradientBoostingClassifier, and the first raw scores.

    The trees are in the order of ``hist_gradient_boosting_leaves``. There are none where this
    version of scikit-learn stores them in another way, or where a column is a category: the trees
    then see other columns than X has.
    """
    needed = {"is_leaf", "is_categorical", "feature_idx", "num_threshold", "missing_go_to_left"}
    try:
        trees = [tree.nodes for trees in _rounds(estimator) for tree in trees]
        baseline = np.ravel(estimator._baseline_prediction).astype(float)
        plain = estimator.is_categorical_ is None and estimator._preprocessor is None
    except (AttributeError, ValueError):
        return [], np.zeros(1)
    known = all(needed | {"left", "right", "value"} <= set(nodes.dtype.names) for nodes in trees)
    return (trees if plain and known else []), baseline


def _number_leaves(estimator: Any) -> Any:
    """A shallow copy of the model in which the value of each node is its own index."""
    numbered = copy(estimator)
    numbered._baseline_prediction = np.zeros(estimator._baseline_prediction.shape)
    numbered._predictors = [[_number_nodes(tree) for tree in trees] for trees in _rounds(estimator)]
    return numbered


def _rounds(estimator: Any) -> Any:
    if len(estimator._predictors) != estimator.n_iter_:
        raise ValueError(f"{len(estimator._predictors)} rounds instead of {estimator.n_iter_}")
    return estimator._predictors


def _number_nodes(tree: Any) -> Any:
    numbered = copy(tree)
    numbered.nodes = tree.nodes.copy()
    numbered.nodes["value"] = np.arange(len(tree.nodes))
    return numbered


def _verify(estimator: Any, X: Any, leaves: Array, values: list[Array], baseline: Array) -> None:
    """Raise an error unless the leaves' scores sum to the decision function, on the first rows."""
    few = leaves[:N_VERIFIED]
    if len(values) != leaves.shape[1]:
        raise RuntimeError(_changed(f"{leaves.shape[1]} trees instead of {len(values)}"))
    scores = np.stack([value[few[:, t]] for t, value in enumerate(values)], axis=1)
    total = baseline + scores.reshape(len(few), -1, baseline.shape[1]).sum(axis=1)
    known = estimator.decision_function(take_rows(X, np.arange(len(few))))
    # The order of summation differs; a larger difference means another leaf.
    if not np.allclose(total, np.reshape(known, total.shape), rtol=1e-6, atol=1e-6):
        raise RuntimeError(_changed("the leaves do not sum to the decision function"))


def tree_arrays(tree: Tree) -> tuple[Array, Array, int]:
    """Nodes, values and depth of a fitted tree; the arrays are the tree's own memory."""
    state = tree.__getstate__()
    return state["nodes"], state["values"], state["max_depth"]


def build_tree(n_features: int, n_classes: Array, depth: int, nodes: Array, values: Array) -> Tree:
    """A tree from its arrays, as ``tree_arrays`` gives them; it copies them."""
    tree = Tree(n_features, n_classes, len(n_classes))
    state = {"max_depth": depth, "node_count": len(nodes), "nodes": nodes, "values": values}
    tree.__setstate__(state)
    return tree


def walks_within(estimator: Any) -> bool:
    """Whether no tree of an estimator from a file reads a feature that its rows do not have.

    scikit-learn walks down its trees without checks. A single tree, and the trees of a bagging
    ensemble, compare the width of rows with their own number of features; forests and boosting
    compare it with the number of the ensemble only.
    """
    n_features = getattr(estimator, "n_features_in_", 0)
    ensembles = (BaseForest, BaseGradientBoosting, IsolationForest)
    if isinstance(estimator, ensembles) and hasattr(estimator, "estimators_"):
        trees = [tree.tree_ for tree in np.ravel(estimator.estimators_)]
        widths = [len(part) for part in getattr(estimator, "estimators_features_", [])]
        widths = widths or [n_features] * len(trees)
        if isinstance(estimator, BaseGradientBoosting):
            alone = all(tree.n_outputs == tree.max_n_classes == 1 for tree in trees)
            width = np.shape(estimator.estimators_)[1:] == (estimator.n_trees_per_iteration_,)
            if not (alone and width):
                return False
        return [tree.n_features for tree in trees] == widths
    if isinstance(estimator, BaseHistGradientBoosting) and hasattr(estimator, "_predictors"):
        trees = [tree for trees in estimator._predictors for tree in trees]
        # Features of the trees are numbered as the bins are.
        bits, positions = estimator._bin_mapper.make_known_categories_bitsets()
        known = np.flatnonzero(estimator._bin_mapper.is_categorical_)
        there = len(positions) == n_features and bits.shape == (len(known), 8)
        return there and all(_predictor_walks_within(tree, n_features, known) for tree in trees)
    tree = getattr(estimator, "tree_", None)
    return not isinstance(tree, Tree) or tree.n_features == n_features


def _predictor_walks_within(tree: TreePredictor, n_features: int, categories: Array) -> bool:
    nodes, bitsets = tree.nodes, (tree.binned_left_cat_bitsets, tree.raw_left_cat_bitsets)
    inner = nodes[nodes["is_leaf"] == 0]
    own = np.flatnonzero(nodes["is_leaf"] == 0)
    category = inner[inner["is_categorical"] != 0]
    return bool(
        len(nodes) > 0
        and (inner["feature_idx"] >= 0).all()
        and (inner["feature_idx"] < n_features).all()
        and all((inner[c] > own).all() and (inner[c] < len(nodes)).all() for c in ("left", "right"))
        and all(part.ndim == 2 and part.shape[1] == 8 for part in bitsets)
        and all((category["bitset_idx"] < len(part)).all() for part in bitsets)
        and np.isin(category["feature_idx"], categories).all()
    )


def _changed(what: str) -> str:
    return (
        f"The installed scikit-learn {sklearn.__version__} stores the trees of "
        f"HistGradientBoostingClassifier in a way that polycal does not know ({what}). Install an "
        "older scikit-learn, and report this to polycal."
    )
