"""Private names of scikit-learn: the leaves of its boosted trees, and trees that stay in bounds."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn
from sklearn.ensemble import (
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    IsolationForest,
)
from sklearn.tree import DecisionTreeClassifier
from threadpoolctl import threadpool_limits

from polycal._utils import sklearn_compat
from polycal._utils.sklearn_compat import hist_gradient_boosting_leaves, walks_within
from tests.toys.boosting import N, frame, numbers
from tests.toys.models import small_forest


@pytest.fixture(autouse=True)
def one_thread():
    """Threads of HistGradientBoosting wait for each other on a busy machine."""
    with threadpool_limits(1):
        yield


def small_boosting():
    return HistGradientBoostingClassifier(max_iter=8, max_leaf_nodes=6, min_samples_leaf=5)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_leaf_values_sum_to_the_decision_function(n_classes):
    """Fails loudly when scikit-learn changes where HistGradientBoosting keeps its trees."""
    X, y = frame()
    y = y if n_classes == 3 else (y > 0).astype(int)
    estimator = small_boosting().fit(X, y)
    leaves = hist_gradient_boosting_leaves(estimator, X)
    scores = np.repeat(estimator._baseline_prediction, N, axis=0)
    trees = [(k, tree) for trees in estimator._predictors for k, tree in enumerate(trees)]
    assert leaves.shape == (N, len(trees))
    for t, (k, tree) in enumerate(trees):
        assert tree.nodes["is_leaf"][leaves[:, t]].all()
        scores[:, k] += tree.nodes["value"][leaves[:, t]]
    known = estimator.decision_function(X).reshape(N, -1)
    np.testing.assert_allclose(scores, known, rtol=1e-12, atol=1e-12)


def test_reading_leaves_does_not_change_the_model():
    X, y = frame()
    estimator = small_boosting().fit(X, y)
    before = estimator.predict_proba(X)
    hist_gradient_boosting_leaves(estimator, X)
    np.testing.assert_array_equal(estimator.predict_proba(X), before)


def test_another_scikit_learn_is_named(monkeypatch):
    X, y, _ = numbers()
    estimator = small_boosting().fit(X, y)
    wanted = f"scikit-learn {sklearn.__version__}".replace(".", r"\.")
    with monkeypatch.context() as patch:
        patch.setattr(sklearn_compat, "_number_nodes", lambda tree: tree)
        with pytest.raises(RuntimeError, match=wanted):
            hist_gradient_boosting_leaves(estimator, X)
    with monkeypatch.context() as patch:
        patch.delattr(estimator, "_predictors")
        with pytest.raises(RuntimeError, match=f"{wanted}.*_predictors"):
            hist_gradient_boosting_leaves(estimator, X)


def test_trees_of_other_features_do_not_walk(iris):
    X, y = iris
    wide = np.hstack([X, X])
    forest = small_forest(n_estimators=3).fit(X, y)
    assert walks_within(forest)
    forest.estimators_[1] = DecisionTreeClassifier().fit(wide, y)
    assert not walks_within(forest)
    boosted = GradientBoostingRegressor(n_estimators=2).fit(X, y)
    assert walks_within(boosted)
    boosted.estimators_[1, 0] = GradientBoostingRegressor(n_estimators=1).fit(wide, y)[0][0]
    assert not walks_within(boosted)
    lonely = IsolationForest(n_estimators=2, max_features=2).fit(X)
    assert walks_within(lonely)
    lonely.estimators_features_[0] = np.array([0])
    assert not walks_within(lonely)


def test_categories_that_the_bins_do_not_know(iris):
    """scikit-learn looks a category up among those of the bins, without a check."""
    X, y = iris
    codes = np.round(X)
    model = HistGradientBoostingClassifier(
        max_iter=3, min_samples_leaf=3, categorical_features=[0, 1, 2, 3]
    ).fit(codes, y)
    assert walks_within(model)
    model._bin_mapper.is_categorical_ = np.zeros(4, dtype=np.uint8)
    assert not walks_within(model)
