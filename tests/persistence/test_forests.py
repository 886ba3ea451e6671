"""Forests from a file."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import polycal
from polycal import KernelDensityForest
from tests.toys.model_files import again, forged


def test_a_first_prediction_makes_no_estimator(iris, tmp_path):
    """scikit-learn's own trees are made from the file only when someone asks for them."""
    model = again(KernelDensityForest(10, random_state=0).fit(*iris), tmp_path)
    model.predict_proba(iris[0])
    assert "estimator" not in vars(model.model_.parent)
    assert len(model.estimator_.estimators_) == 10


def test_loading_a_forest_does_not_import_skops(small, tmp_path):
    """skops imports all of scikit-learn, which takes a second."""
    (tmp_path / "m.polycal").write_bytes(small[0])
    code = (
        "import sys, polycal; m = polycal.load(sys.argv[1]); m.save(sys.argv[1]); "
        "assert 'skops' not in sys.modules and 'pickle' not in vars(polycal.persistence)"
    )
    subprocess.run([sys.executable, "-c", code, tmp_path / "m.polycal"], check=True)


def test_rows_that_are_too_narrow_for_the_trees(file):
    """The number of features is the file's own; the compiled walk must not believe it."""
    edit = {"features": 2}
    model = polycal.load(forged(file, lambda m, a: m["state"].update(edit)))
    with pytest.raises(ValueError, match="X has 2 features; the trees need at least 4"):
        model.predict_proba(np.zeros((3, 2)))
