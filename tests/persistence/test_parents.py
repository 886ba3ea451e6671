"""Frozen parents and pipelines come back from a file."""

from __future__ import annotations

import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import polycal
from polycal import GeodesicCalibrator, TorchParent
from polycal.persistence import AlteredFileError
from tests.toys.families import torch_net, xgboost
from tests.toys.model_files import MARKS, PARENTS, again, assert_same, forged, mixed
from tests.toys.models import small_forest, small_network

pytestmark = MARKS


@pytest.mark.parametrize("name", ["forest", "hist gradient boosting", "xgboost", "pipeline"])
def test_frozen_parents_come_back_frozen(name, rows, tmp_path):
    X, y = rows
    parent = PARENTS[name]().fit(X[:300], y[:300])
    model = GeodesicCalibrator(FrozenEstimator(parent))
    model.fit(X[:300], y[:300], X_cal=X[300:], y_cal=y[300:])
    loaded = again(model, tmp_path)
    assert_same(loaded, model, X)
    assert isinstance(loaded.estimator, FrozenEstimator)
    assert loaded.estimator.estimator is loaded.estimator_
    assert_array_equal(loaded.estimator.predict_proba(X), parent.predict_proba(X))


@pytest.mark.parametrize("last", ["forest", "xgboost", "network", "hist"])
def test_pipelines(last, tmp_path):
    X, y = mixed()
    columns = make_column_transformer(
        (make_pipeline(SimpleImputer(), StandardScaler()), ["a", "b"]),
        (OneHotEncoder(handle_unknown="ignore"), make_column_selector(dtype_exclude="number")),
        sparse_threshold=0,
    )
    parent = {
        "forest": small_forest,
        "xgboost": xgboost,
        "network": small_network,
        "hist": lambda: HistGradientBoostingClassifier(max_iter=5, random_state=0),
    }[last]()
    model = GeodesicCalibrator(make_pipeline(columns, parent), calibration="holdout")
    model.set_params(random_state=0).fit(X, y)
    loaded = again(model, tmp_path)
    assert_same(loaded, model, X)
    refitted = clone(loaded).fit(X, y)
    assert_array_equal(refitted.predict_proba(X), model.predict_proba(X))


def test_a_frozen_pipeline_with_a_network(rows, tmp_path):
    """It has no unfitted copy, and needs none."""
    X, y = rows
    scaler = StandardScaler().fit(X[:300])
    net = torch_net(scaler.transform(X[:300]), y[:300])
    parent = Pipeline([("scale", scaler), ("net", TorchParent(net))])
    model = GeodesicCalibrator(FrozenEstimator(parent))
    model.fit(X[:300], y[:300], X_cal=X[300:], y_cal=y[300:])
    fresh = torch_net(X[:300], y[:300], seed=1, steps=0)
    loaded = again(model, tmp_path, fresh)
    assert_same(loaded, model, X)
    assert isinstance(loaded.estimator, FrozenEstimator)
    assert loaded.estimator.estimator is loaded.estimator_
    refitted = clone(loaded).fit(X[:300], y[:300], X_cal=X[300:], y_cal=y[300:])
    assert_array_equal(refitted.predict_proba(X), model.predict_proba(X))
    # As a parent to be fitted it is not complete.
    with pytest.raises(AlteredFileError, match="cannot be read"):
        polycal.load(
            forged(tmp_path / "m.polycal", lambda m, a: m.update(given="plain")), module=fresh
        )


@pytest.mark.parametrize("given", ["thawed", ["frozen"], {"array": "classes"}, 1])
def test_a_parent_that_was_given_in_no_known_way(given, file):
    with pytest.raises(AlteredFileError, match="how the parent was given"):
        polycal.load(forged(file, lambda m, a: m.update(given=given)))


@pytest.mark.parametrize(
    "edit",
    [
        lambda parent: parent["parameters"]["values"].update(steps=[]),
        lambda parent: parent.update(name=3),
        lambda parent: parent.update(last={"kind": "eval"}),
        lambda parent: parent.update(last=None),
        lambda parent: parent["last"].update({"class": "SVC"}),
    ],
    ids=["parameter", "name", "kind", "nothing", "class"],
)
def test_a_forged_pipeline_is_refused(edit, iris, tmp_path):
    model = GeodesicCalibrator(make_pipeline(StandardScaler(), small_forest(n_estimators=3)))
    model.set_params(calibration="holdout", random_state=0).fit(*iris).save(tmp_path / "m")
    with pytest.raises(AlteredFileError):
        polycal.load(forged(tmp_path / "m", lambda m, a: edit(m["parent"])))
