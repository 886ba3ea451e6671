"""The walk down boosted trees gives the library's own leaves and probabilities, or is not used."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from threadpoolctl import threadpool_limits

from polycal.parents.boosted_trees import BoostedTrees, _hist_tree, _lightgbm_tree
from polycal.parents.boosting import HistGradientBoostingAdapter, LightGBMAdapter
from tests.toys.boosting import own_leaves

lightgbm = pytest.importorskip("lightgbm")
N = 400


@pytest.fixture(autouse=True)
def one_thread():
    with threadpool_limits(1):
        yield


def rows(seed=0, missing=0.0):
    """Rows with ties, zeros of both signs, huge, tiny and infinite numbers, and some NaN."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, 5)).round(1)
    X[rng.random(X.shape) < 0.05] = -0.0
    X[:, 3] *= 1e-310
    X[:20, 4] = [1e300, -1e300, np.inf, -np.inf, 5e-324] * 4
    X[rng.random(X.shape) < missing] = np.nan
    return X


def labels(X, n_classes):
    signal = np.nan_to_num(X[:, 0]) + np.nan_to_num(X[:, 1])
    noise = np.random.default_rng(1).normal(size=len(X))
    return np.digitize(signal + noise, np.linspace(-1, 1, n_classes - 1))


def fit(name, X, n_classes=3, **settings):
    y = labels(X, n_classes)
    if name == "hgb":
        return HistGradientBoostingClassifier(max_iter=8, random_state=0, **settings).fit(X, y)
    settings = {"n_estimators": 8, "n_jobs": 1, "verbose": -1, **settings}
    return lightgbm.LGBMClassifier(random_state=0, **settings).fit(X, y)


def trees_of(estimator):
    if isinstance(estimator, HistGradientBoostingClassifier):
        return BoostedTrees.of_hist_gradient_boosting(estimator)
    return BoostedTrees.of_lightgbm(estimator.booster_)


def check_walk(estimator, X):
    trees = trees_of(estimator)
    leaves, proba = trees.read(X, 1)
    np.testing.assert_array_equal(leaves, own_leaves(estimator, X))
    np.testing.assert_allclose(proba, estimator.predict_proba(X), rtol=1e-12)
    for jobs, some in ((2, slice(None)), (1, slice(3, 20))):
        again = trees.read(X[some], jobs)
        np.testing.assert_array_equal(again[0], leaves[some])
        np.testing.assert_array_equal(again[1], proba[some])


@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("name", ["lightgbm", "hgb"])
def test_walk_equals_the_library(name, n_classes, missing):
    X = rows(missing=missing)
    if name == "hgb":
        X = np.clip(X, -1e30, 1e30)
    estimator = fit(name, X, n_classes)
    check_walk(estimator, X)
    new = rows(seed=1, missing=0.3)  # NaN also where training rows had none
    check_walk(estimator, new)


@pytest.mark.parametrize(
    "settings",
    [
        {"use_missing": False},
        {"boosting_type": "dart"},
        {"objective": "binary", "sigmoid": 2.0},
        {"num_leaves": 300, "min_child_samples": 1},
        {"max_depth": 1},
        {"n_estimators": 1, "min_child_samples": 10_000},  # trees of one leaf
    ],
)
def test_walk_knows_other_settings(settings):
    X = rows(missing=0.1)
    check_walk(fit("lightgbm", X, 2, **settings), X)


@pytest.mark.parametrize(
    "settings",
    [
        {"zero_as_missing": True},
        {"linear_tree": True},
        {"boosting_type": "rf", "subsample": 0.5, "subsample_freq": 1},
        {"objective": "multiclassova"},
    ],
)
def test_other_models_are_read_by_the_library(settings):
    X = rows()
    X = np.clip(X, -1e30, 1e30)
    estimator = fit("lightgbm", X, 3, **settings)
    assert trees_of(estimator) is None
    adapter = LightGBMAdapter(estimator)
    assert adapter._walk(X) is None
    if "multiclassova" not in settings.values():  # whose scores do not sum to 1
        np.testing.assert_array_equal(adapter.read(X).proba, estimator.predict_proba(X))


@pytest.mark.parametrize("dtype", ["i8", "i4", ">f8", "f4", "f8"])
def test_large_numbers_are_rounded_as_lightgbm_rounds_them(dtype):
    """It turns arrays of other numbers than floats into float32, where 10^8 + 1 is 10^8."""
    X = np.random.default_rng(0).integers(10**8, 10**8 + 3000, (N, 3))
    y = (X[:, 0] % 200 > 100).astype(int)
    estimator = lightgbm.LGBMClassifier(n_estimators=20, min_child_samples=2, n_jobs=1, verbose=-1)
    estimator.fit(X.astype(float), y)
    reading = LightGBMAdapter(estimator).read(X.astype(dtype))
    proba = estimator.predict_proba(X.astype(dtype))
    np.testing.assert_allclose(reading.proba, proba, rtol=1e-12)


@pytest.mark.filterwarnings("ignore:The argument 'eval_set' is deprecated")
def test_early_stopped_trees_are_those_that_predict():
    X = rows()
    y = labels(X, 2)
    estimator = lightgbm.LGBMClassifier(n_estimators=60, verbose=-1)
    stop = lightgbm.early_stopping(2, verbose=False)
    held = [(X[200:], y[200:])]
    estimator.fit(X[:200], y[:200], eval_set=held, callbacks=[stop])
    assert estimator.best_iteration_ < 60
    check_walk(estimator, X)


def test_models_with_categories_are_read_by_the_library():
    X = np.clip(rows(), -1e30, 1e30)
    X[:, 2] = np.random.default_rng(2).integers(0, 6, N)
    y = (X[:, 2] % 2).astype(int)
    hist = HistGradientBoostingClassifier(max_iter=3, categorical_features=[2]).fit(X, y)
    plain = lightgbm.LGBMClassifier(n_estimators=3, verbose=-1)
    for estimator in (hist, plain.fit(X, y, categorical_feature=[2])):
        assert trees_of(estimator) is None


@pytest.mark.parametrize("name", ["lightgbm", "hgb"])
def test_trees_that_are_not_the_librarys_are_not_used(name):
    """A walk whose leaves or probabilities differ on the rows that prove it gives way."""
    X = np.clip(rows(), -1e30, 1e30)
    estimator = fit(name, X)
    adapter = (LightGBMAdapter if name == "lightgbm" else HistGradientBoostingAdapter)(estimator)
    assert adapter._walk(X) is not None
    value = adapter._trees.value.copy()
    value[: adapter._trees.start[1]] += 1.0
    wrong_value = replace(adapter._trees, value=value)
    nodes = adapter._trees.nodes.copy()
    nodes["threshold"] = -nodes["threshold"] - 3.0
    for wrong in (wrong_value, replace(adapter._trees, nodes=nodes)):
        adapter.__dict__["_trees"] = wrong
        assert adapter._walk(X) is None
        np.testing.assert_array_equal(adapter.read(X).proba, estimator.predict_proba(X))


def test_features_may_have_any_name():
    """LightGBM's text, from which trees are read, holds the names too."""
    names = ["Tree=0", "average_output", "objective=none", "end of trees", "line\u2028end"]
    X = pd.DataFrame(np.clip(rows(), -1e30, 1e30), columns=names)
    estimator = fit("lightgbm", X.to_numpy()).fit(X, labels(X.to_numpy(), 3))
    leaves, proba = LightGBMAdapter(estimator)._walk(X)
    np.testing.assert_array_equal(leaves, own_leaves(estimator, X))
    np.testing.assert_allclose(proba, estimator.predict_proba(X), rtol=1e-12)


def test_a_parameter_of_predictions_leaves_the_library_alone():
    estimator = fit("lightgbm", rows(), pred_early_stop=True)
    assert LightGBMAdapter(estimator)._trees is None


TREE = {
    "num_leaves": "3",
    "leaf_value": "0.1 0.2 0.3",
    "decision_type": "2 2",
    "split_feature": "0 1",
    "threshold": "0.5 0.25",
    "left_child": "1 -1",
    "right_child": "-2 -3",
}


def test_a_tree_by_hand():
    tree = _lightgbm_tree(TREE)
    assert tree.is_walkable
    trees = BoostedTrees._build([tree], np.zeros(1), 1.0)
    X = np.array([[0.6, 0.0], [0.5, 0.25], [0.5, 0.26], [np.nan, 9.0]])
    leaves, proba = trees.read(X, 1)
    assert leaves.ravel().tolist() == [1, 0, 2, 2]  # NaN counts as 0 where nothing is missing
    np.testing.assert_allclose(proba[:, 1], 1 / (1 + np.exp(-np.array([0.2, 0.1, 0.3, 0.3]))))


@pytest.mark.parametrize(
    "change",
    [
        {"left_child": "0 -1"},  # a circle
        {"left_child": "7 -1"},  # beyond the tree
        {"right_child": "-2 -9"},
        {"leaf_value": "0.1 0.2"},
        {"threshold": "0.5"},
    ],
)
def test_a_forged_tree_is_not_walked(change):
    tree = _lightgbm_tree(TREE | change)
    assert tree is None or not tree.is_walkable
    assert BoostedTrees._build([tree], np.zeros(1), 1.0) is None


def test_a_forged_hist_tree_is_not_walked():
    X = np.clip(rows(), -1e30, 1e30)
    nodes = fit("hgb", X)._predictors[0][0].nodes.copy()
    assert _hist_tree(nodes).is_walkable
    nodes["left"][0] = len(nodes)
    assert not _hist_tree(nodes).is_walkable
