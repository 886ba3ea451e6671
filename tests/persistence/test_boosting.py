"""Boosted trees come back from a file with their categories."""

from __future__ import annotations

import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from sklearn.ensemble import HistGradientBoostingClassifier

import polycal
from polycal import GeodesicCalibrator
from polycal.persistence import AlteredFileError
from tests.toys.families import catboost, lightgbm, xgboost
from tests.toys.model_files import again, assert_same, forged, mixed


@pytest.mark.parametrize("name", ["hist", "lightgbm", "xgboost", "catboost"])
def test_categories_and_missing_values(name, tmp_path):
    X, y = mixed()
    X["colour"] = X["colour"].astype("category")
    parent = {
        "hist": lambda: HistGradientBoostingClassifier(max_iter=20, random_state=0),
        "lightgbm": lightgbm,
        "xgboost": lambda: xgboost().set_params(enable_categorical=True, tree_method="hist"),
        "catboost": lambda: catboost().set_params(cat_features=["colour"]),
    }[name]()
    model = GeodesicCalibrator(parent, calibration="holdout", random_state=0).fit(X, y)
    loaded = again(model, tmp_path)
    assert_same(loaded, model, X[:100])
    assert_array_equal(loaded.feature_names_in_, ["a", "b", "colour"])
    if name != "xgboost":  # which refuses a level that it has not seen
        new = X[:3].assign(colour=pd.Categorical(["pink"] * 3))
        assert_array_equal(loaded.score_samples(new), model.score_samples(new))


def test_the_state_of_lightgbm_is_whole(iris, tmp_path):
    """Its other methods need what answers do not."""
    X, y = iris
    parent = lightgbm().set_params(class_weight={0: 1.0, 1: 2.0, 2: 1.5})
    model = GeodesicCalibrator(parent, calibration="holdout", random_state=0).fit(X, y)
    own, other = (vars(m.estimator_) for m in (model, again(model, tmp_path)))
    assert own.keys() - other.keys() <= {"_objective"}
    assert other["_class_weight"] == own["_class_weight"] == {0: 1.0, 1: 2.0, 2: 1.5}
    compared = {"_Booster", "_le", "_best_score", "_class_weight"} ^ own.keys() & other.keys()
    assert {key: repr(other[key]) for key in compared} == {key: repr(own[key]) for key in compared}


def test_forged_attributes_of_lightgbm(iris, tmp_path):
    X, y = iris
    model = GeodesicCalibrator(lightgbm(), calibration="holdout", random_state=0).fit(X, y)
    model.save(tmp_path / "m")

    def edit(manifest, arrays):
        pairs = manifest["parent"]["more"]["dict"]
        pairs[[key for key, _ in pairs].index("_other_params")][1] = [1]

    with pytest.raises(AlteredFileError):
        polycal.load(forged(tmp_path / "m", edit))
