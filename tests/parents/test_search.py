"""Searches and tuned thresholds are looked through."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    RandomizedSearchCV,
    TunedThresholdClassifierCV,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from polycal import GeodesicCalibrator
from polycal.parents import Adapter
from polycal.parents.search import SearchAdapter
from tests.toys.models import small_forest

SEARCHES = {
    "grid": lambda inside, name="": GridSearchCV(inside, {f"{name}max_depth": [2, 4]}, cv=2),
    "random": lambda inside, name="": RandomizedSearchCV(
        inside, {f"{name}max_depth": [3, 4]}, n_iter=1, cv=2, random_state=0
    ),
    "tuned": lambda inside, name="": TunedThresholdClassifierCV(inside, cv=2),
    "fixed": lambda inside, name="": FixedThresholdClassifier(inside, threshold=0.7),
}


@pytest.mark.parametrize("name", SEARCHES)
def test_a_forest_inside_is_read_as_a_forest(name, blobs):
    X, y = blobs
    words = np.where(y, "yes", "no")
    search = SEARCHES[name](small_forest()).fit(X[:300], y[:300])
    inside = getattr(search, "best_estimator_", None) or search.estimator_
    model = GeodesicCalibrator(FrozenEstimator(search))
    model.fit(X[:300], y[:300], X_cal=X[300:], y_cal=y[300:])
    alone = GeodesicCalibrator(FrozenEstimator(inside))
    alone.fit(X[:300], y[:300], X_cal=X[300:], y_cal=y[300:])
    assert list(model.model_.witnesses) == ["parent", "kernel", "hyperplanes"]
    np.testing.assert_array_equal(model.predict_proba(X), alone.predict_proba(X))
    whole = GeodesicCalibrator(SEARCHES[name](small_forest()), calibration="holdout")
    weight = np.ones(len(X))
    if name in ("tuned", "fixed"):
        with pytest.raises(ValueError, match="passes no sample_weight on"):
            whole.fit(X, words, sample_weight=weight)
        weight = None
    whole.fit(X, words, sample_weight=weight)
    assert list(whole.classes_) == ["no", "yes"]
    assert isinstance(whole.model_.parent, SearchAdapter)


def test_a_pipeline_inside(blobs):
    X, y = blobs
    steps = make_pipeline(StandardScaler(), small_forest())
    model = GeodesicCalibrator(SEARCHES["grid"](steps, "randomforestclassifier__"), calibration=2)
    assert "kernel" in model.fit(X, y).model_.witnesses


def test_codes_reach_what_is_inside(blobs):
    xgboost = pytest.importorskip("xgboost")
    X, y = blobs
    search = GridSearchCV(xgboost.XGBClassifier(n_estimators=3), {"max_depth": [2]}, cv=2)
    model = GeodesicCalibrator(search, calibration="holdout").fit(X, np.where(y, "b", "a"))
    assert list(model.classes_) == ["a", "b"]
    assert "kernel" in model.model_.witnesses


def test_out_of_bag_and_other_classifiers(blobs):
    X, y = blobs
    search = SEARCHES["grid"](small_forest())
    assert GeodesicCalibrator(search, calibration="oob").fit(X, y).calibration_ == "oob"
    linear = GridSearchCV(LogisticRegression(), {"C": [1, 2]}, cv=2)
    model = GeodesicCalibrator(linear, calibration="holdout").fit(X, y)
    assert list(model.model_.witnesses) == ["parent", "hyperplanes"]
    assert not Adapter.find(linear).has_out_of_bag
