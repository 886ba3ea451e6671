"""A small model with held-out calibration rows, and new rows of the same kind."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import make_classification

from polycal import GeodesicCalibrator
from tests.toys.models import small_forest


@pytest.fixture(scope="package")
def rows():
    """1000 rows of the fit with labels, and 2000 others."""
    X, y = make_classification(3000, n_features=6, n_informative=4, random_state=0)
    return X[:1000], y[:1000], X[1000:], y[1000:]


@pytest.fixture(scope="package")
def model(rows):
    X, y, _, _ = rows
    calibrator = GeodesicCalibrator(small_forest(), calibration="holdout", random_state=0)
    return calibrator.fit(X, y)


@pytest.fixture(scope="package")
def out_of_bag(rows):
    X, y, _, _ = rows
    return GeodesicCalibrator(small_forest(), calibration="oob", random_state=0).fit(X, y)


@pytest.fixture(scope="package")
def shifted(rows):
    """300 new rows, of which the first 45 are far away in two features."""
    X = rows[2][:300].copy()
    X[:45, :2] += 4 * np.std(X[:, :2], axis=0)
    return X
