"""Estimators of scikit-learn in a file: what is restored, and what needs trust."""

from __future__ import annotations

import os
import subprocess

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier
from sklearn.feature_selection import SelectFromModel
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

import polycal
from polycal import GeodesicCalibrator
from polycal.persistence import AlteredFileError, UnknownTypeError
from polycal.persistence.container import read, write
from tests.toys.model_files import again, assert_same
from tests.toys.models import small_forest


def test_a_selector_with_boosted_trees_inside(rows, tmp_path):
    """An unfitted estimator as a parameter, a fitted one as an attribute."""
    X, y = rows
    selector = SelectFromModel(GradientBoostingClassifier(n_estimators=5, random_state=0))
    model = GeodesicCalibrator(make_pipeline(selector, small_forest()), calibration="holdout")
    model.set_params(random_state=0).fit(X, y)
    assert_same(again(model, tmp_path), model, X)


def test_a_crafted_estimator_runs_no_code(iris, tmp_path):
    """An object that would run something at its creation is named and refused."""
    import skops.io

    X, y = iris
    model = GeodesicCalibrator(HistGradientBoostingClassifier(max_iter=3), calibration="holdout")
    model.set_params(random_state=0).fit(X, y)
    model.save(tmp_path / "m.polycal")
    _, manifest, arrays = read(tmp_path / "m.polycal")
    bad = skops.io.dumps({"a": subprocess.Popen, "b": os.system})
    arrays["parent.skops"] = np.frombuffer(bad, np.uint8)
    write(tmp_path / "bad", manifest, arrays)
    with pytest.raises(UnknownTypeError, match="Popen"):
        polycal.load(tmp_path / "bad")
    arrays["parent.skops"] = np.frombuffer(bad[:-30], np.uint8)
    write(tmp_path / "bad", manifest, arrays)
    with pytest.raises(AlteredFileError):
        polycal.load(tmp_path / "bad")


def test_boosted_trees_that_lead_out_of_their_nodes(iris, tmp_path):
    X, y = iris
    model = GeodesicCalibrator(HistGradientBoostingClassifier(max_iter=3), calibration="holdout")
    model.set_params(random_state=0).fit(X, y)
    model.save(tmp_path / "m.polycal")
    for field, number in [("left", 10**6), ("feature_idx", 77), ("right", 0)]:
        _, manifest, arrays = read(tmp_path / "m.polycal")
        arrays[f"parent.nodes.{field}"][0] = number
        write(tmp_path / "bad", manifest, arrays)
        with pytest.raises(AlteredFileError):
            polycal.load(tmp_path / "bad")


def test_estimators_with_unchecked_compiled_code_need_trust(iris, tmp_path):
    X, y = iris
    chosen = make_pipeline(SelectFromModel(SVC(kernel="linear")), small_forest())
    model = GeodesicCalibrator(chosen, calibration="holdout", random_state=0).fit(X, y)
    model.save(tmp_path / "m")
    with pytest.raises(UnknownTypeError, match=r"sklearn.svm._classes.SVC.*trusted="):
        polycal.load(tmp_path / "m")
    loaded = polycal.load(tmp_path / "m", trusted=[SVC])
    assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
