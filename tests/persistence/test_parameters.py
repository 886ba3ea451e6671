"""Parameters in a file."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import polycal
from polycal import GeodesicCalibrator
from tests.toys.model_files import assert_same, forged
from tests.toys.models import small_forest


def test_parameters_that_a_file_cannot_hold(iris, tmp_path):
    model = GeodesicCalibrator(small_forest(), random_state=np.random.RandomState(0)).fit(*iris)
    with pytest.warns(
        UserWarning, match=r"GeodesicCalibrator\(random_state=...\) is a RandomState"
    ):
        model.save(tmp_path / "m.polycal")
    loaded = polycal.load(tmp_path / "m.polycal")
    assert loaded.random_state is None
    assert_same(loaded, model, iris[0])


def test_a_forged_number_of_threads_starts_few(file, small):
    model = polycal.load(forged(file, lambda m, a: m["parameters"]["values"].update(n_jobs=10**9)))
    assert_array_equal(model.predict_proba(small[1]), small[2])
