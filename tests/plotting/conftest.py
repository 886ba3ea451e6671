"""A fitted model of two features; figures are closed after each test."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from polycal import GeodesicCalibrator
from tests.toys.models import small_forest


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


@pytest.fixture(scope="session")
def plane():
    """Two overlapping blobs with string labels, and a calibrator of two features."""
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(-1, 0.6, (60, 2)), rng.normal(1, 0.6, (60, 2))])
    y = np.repeat(["left", "right"], 60)
    return X, y, GeodesicCalibrator(small_forest(), random_state=0).fit(X, y)
