"""Bagging of trees: each tree reads its own features."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.ensemble import BaggingClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier

from polycal.parents import Adapter
from polycal.parents.bagging import BaggingAdapter
from polycal.parents.base import NO_LEAF


@pytest.mark.parametrize("estimator", [None, DecisionTreeClassifier(max_depth=3)])
@pytest.mark.parametrize("max_features", [1.0, 0.5])
def test_leaves_of_each_tree_on_its_own_features(estimator, max_features, iris):
    X, y = iris
    bag = BaggingClassifier(estimator, max_features=max_features, random_state=0).fit(X, y)
    adapter = BaggingAdapter(bag)
    assert adapter.problem() is None
    reading = adapter.read(X)
    for t, (tree, features) in enumerate(
        zip(bag.estimators_, bag.estimators_features_, strict=True)
    ):
        assert_array_equal(reading.modes.codes[:, t], tree.apply(X[:, features]))
    assert_array_equal(reading.proba, bag.predict_proba(X))


@pytest.mark.parametrize("bootstrap", [False, True])
def test_a_bag_of_other_classifiers_has_no_leaves(bootstrap, iris):
    X, y = iris
    bag = BaggingClassifier(GaussianNB(), 3, bootstrap=bootstrap, random_state=0).fit(X, y)
    assert not BaggingAdapter.is_for(bag)
    assert BaggingAdapter.is_for(BaggingClassifier(ExtraTreeClassifier()))
    adapter = Adapter.find(bag)
    assert not adapter.has_out_of_bag
    reading = adapter.read(X)
    assert reading.modes.are_absent
    assert_allclose(reading.proba, bag.predict_proba(X), atol=1e-12)


def test_out_of_bag_with_a_class_that_some_trees_were_not_fitted_on():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 2)), np.r_[np.zeros(19), np.ones(19), 2, 2].astype(int)
    bag = BaggingClassifier(n_estimators=30, random_state=0).fit(X, y)
    assert any(not np.isin([38, 39], rows).any() for rows in bag.estimators_samples_)
    adapter = BaggingAdapter(bag)
    reading, share = adapter.out_of_bag(adapter.read(X))
    out = np.stack([~np.isin(np.arange(40), rows) for rows in bag.estimators_samples_], axis=1)
    assert_allclose(share, out.mean(axis=1))
    assert_array_equal(reading.modes.codes == NO_LEAF, ~out)
    assert_allclose(reading.proba.sum(axis=1), 1.0)
