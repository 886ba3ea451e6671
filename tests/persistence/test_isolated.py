"""Boosters that are tried in a child process before this one reads them."""

from __future__ import annotations

import io
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import polycal
from polycal import GeodesicCalibrator
from polycal.persistence import AlteredFileError, isolated
from polycal.persistence.container import read
from tests.toys.families import catboost, lightgbm, xgboost
from tests.toys.model_files import mixed


def saved(name, path):
    """The file of a model with a category, and its rows."""
    X, y = mixed()
    X["colour"] = X["colour"].astype("category")
    parent = {
        "lightgbm": lightgbm,
        "xgboost": lambda: xgboost().set_params(enable_categorical=True, tree_method="hist"),
        "catboost": lambda: catboost().set_params(cat_features=["colour"]),
    }[name]()
    GeodesicCalibrator(parent, calibration="holdout", random_state=0).fit(X, y).save(path)
    return X


@pytest.mark.parametrize("name", ["lightgbm", "xgboost", "catboost"])
def test_a_good_booster_is_read_and_asked(name, tmp_path, monkeypatch):
    """What the child does, here: every question is answered, so that it walks down all trees."""
    saved(name, tmp_path / "m")
    content = read(tmp_path / "m").arrays["booster"].tobytes()
    asked, said = [], io.BytesIO()

    def ask(predict, *rows, **options):
        asked.append(np.shape(predict(*rows, **options)))

    monkeypatch.setattr(isolated, "_ask", ask)
    monkeypatch.setattr(isolated, "_limit_memory", lambda most: None)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(content)))
    monkeypatch.setattr(sys, "stdout", SimpleNamespace(buffer=said, flush=lambda: None))
    isolated.main(name)
    assert said.getvalue() == isolated.GOOD
    assert [shape[0] for shape in asked] == [isolated.N_ROWS] * 2


def test_isolation_in_a_real_child(tmp_path, monkeypatch):
    path = tmp_path / "m"
    X = saved("lightgbm", path)
    expected = polycal.load(path).predict_proba(X)
    assert_array_equal(polycal.load(path, isolate=True).predict_proba(X), expected)
    monkeypatch.setattr(isolated, "PROGRAM", "import os; os.abort()")
    with pytest.raises(AlteredFileError, match="lightgbm failed on its part of the file"):
        polycal.load(path, isolate=True)


@pytest.mark.parametrize(
    ("program", "why"),
    [
        ("import os; os.abort()", "signal 6"),
        ("import time; time.sleep(60)", "no end after 0.5 s"),
        ("raise ValueError('bad trees')", "ValueError: bad trees"),
        ("raise SystemExit(3)", "no message"),
        ("pass", "no message"),  # it ended well, and has not said that it is done
    ],
)
def test_a_child_that_does_not_say_good_is_an_error(program, why, monkeypatch):
    monkeypatch.setattr(isolated, "PROGRAM", program)
    seconds = 0.5 if "sleep" in program else 60
    with pytest.raises(AlteredFileError, match=f"of its own \\({why}\\)"):
        isolated.try_in_child("xgboost", b"", seconds)


def test_other_parents_need_no_child(file, small, monkeypatch):
    monkeypatch.setattr(isolated.subprocess, "run", None)
    assert_array_equal(polycal.load(file, isolate=True).predict_proba(small[1]), small[2])
