"""Rows in single precision, and the file of a small forest."""

from __future__ import annotations

import numpy as np
import pytest

from polycal import GeodesicCalibrator
from tests.toys.models import small_forest


@pytest.fixture(scope="session")
def rows(blobs):
    X, y = blobs
    return X.astype(np.float32), y


@pytest.fixture(scope="session")
def small(iris, tmp_path_factory):
    """A file, the rows, and the answers."""
    X, y = iris
    words = np.array(["setosa", "versicolor", "virginica"])[y]
    forest = small_forest(n_estimators=5, max_depth=4)
    model = GeodesicCalibrator(forest, calibration="holdout", random_state=0).fit(X, words)
    path = tmp_path_factory.mktemp("small") / "m.polycal"
    model.save(path)
    return path.read_bytes(), X[:20], model.predict_proba(X[:20])


@pytest.fixture
def file(small, tmp_path):
    path = tmp_path / "m.polycal"
    path.write_bytes(small[0])
    return path
