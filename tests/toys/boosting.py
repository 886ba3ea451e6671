"""Small boosted trees of each library, and tables with missing values and categories."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier

# Rows of the tables.
N = 300


def model(name, **kwargs):
    """A small model of each family."""
    if name == "lightgbm":
        lgb = pytest.importorskip("lightgbm")
        small = {"n_estimators": 8, "num_leaves": 6, "min_child_samples": 5, "n_jobs": 1}
        return lgb.LGBMClassifier(**(small | {"verbose": -1} | kwargs))
    if name == "xgboost":
        xgb = pytest.importorskip("xgboost")
        return xgb.XGBClassifier(**({"n_estimators": 8, "max_depth": 3, "n_jobs": 1} | kwargs))
    if name == "catboost":
        cb = pytest.importorskip("catboost")
        small = {"n_estimators": 8, "max_depth": 3, "thread_count": 1, "verbose": 0}
        return cb.CatBoostClassifier(**(small | {"allow_writing_files": False} | kwargs))
    if name == "gb":
        return GradientBoostingClassifier(**({"n_estimators": 8, "random_state": 0} | kwargs))
    return HistGradientBoostingClassifier(
        **({"max_iter": 8, "max_leaf_nodes": 6, "min_samples_leaf": 5} | kwargs)
    )


def numbers(missing=True):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 4))
    binary = (X[:, 0] * X[:, 1] > 0).astype(int)
    three = (X[:, 0] + 0.3 * rng.normal(size=N) > 0).astype(int) + (X[:, 1] > 0.5)
    if missing:
        X[rng.random(X.shape) < 0.1] = np.nan
    return X, binary, three


def frame(missing=True):
    """Three numbers and a category that decides, some of both missing."""
    rng = np.random.default_rng(1)
    X, _, _ = numbers(missing)
    colour = rng.choice(["red", "green", "blue", "grey"], N)
    y = (colour == "red").astype(int) + (colour == "blue") * (np.nan_to_num(X[:, 0]) > 0)
    table = pd.DataFrame(X[:, :3], columns=["a", "b", "c"])
    table["colour"] = pd.Categorical(np.where(rng.random(N) < 0.1, None, colour))
    if not missing:
        table["colour"] = pd.Categorical(colour)
    return table, y


def native(name):
    """A model of the family that knows of the category, and a frame that it takes."""
    # CatBoost takes missing numbers but wants a missing category as a string.
    table, y = frame()
    if name == "catboost":
        table["colour"] = table["colour"].cat.add_categories("none").fillna("none")
    options = {
        "lightgbm": {"min_data_per_group": 1, "cat_smooth": 0.0},
        "xgboost": {"enable_categorical": True, "max_cat_to_onehot": 1},
        "catboost": {"cat_features": ["colour"]},
        "hgb": {},
    }
    return model(name, **options[name]), table, y


def own_leaves(estimator, X):
    """The library's own leaf indices; a walk in Python where it has none."""
    if isinstance(estimator, HistGradientBoostingClassifier):
        return walk(estimator, X)
    if hasattr(estimator, "calc_leaf_indexes"):
        return estimator.calc_leaf_indexes(X)
    if hasattr(estimator, "booster_"):
        return estimator.booster_.predict(X, pred_leaf=True)
    if hasattr(estimator, "get_booster"):
        import xgboost

        rows = xgboost.DMatrix(X, enable_categorical=True)
        last = getattr(estimator, "best_iteration", -1) + 1
        found = estimator.get_booster().predict(rows, pred_leaf=True, iteration_range=(0, last))
        return found.reshape(len(X), -1)
    return np.stack([tree.apply(X) for tree in estimator.estimators_.ravel()], axis=1)


def walk(estimator, X):
    """Node by node, as the documentation of HistGradientBoosting describes it."""
    values = estimator._preprocess_X(X, reset=False)
    trees = [tree for trees in estimator._predictors for tree in trees]
    leaves = np.empty((len(values), len(trees)), dtype=int)
    for t, tree in enumerate(trees):
        for i, row in enumerate(values):
            at = 0
            while not tree.nodes[at]["is_leaf"]:
                node = tree.nodes[at]
                value = row[node["feature_idx"]]
                if np.isnan(value):
                    left = node["missing_go_to_left"]
                elif node["is_categorical"]:
                    bits = tree.raw_left_cat_bitsets[node["bitset_idx"]]
                    left = bits[int(value) // 32] >> (int(value) % 32) & 1
                else:
                    left = value <= node["num_threshold"]
                at = node["left"] if left else node["right"]
            leaves[i, t] = at
    return leaves
