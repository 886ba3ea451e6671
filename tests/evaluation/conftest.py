"""A forest and its calibrator on digits, with two sets of other rows, and their figures."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

from polycal import GeodesicCalibrator, evaluate
from tests.toys.models import small_forest


@pytest.fixture(scope="session")
def scene(digits):
    X, y = digits
    names = np.array([f"digit {k}" for k in range(10)])[y]
    forest = RandomForestClassifier(40, random_state=0).fit(X[:900], names[:900])
    model = GeodesicCalibrator(small_forest(n_estimators=40), random_state=0)
    models = {"forest": forest, "polycal": model.fit(X[:900], names[:900])}
    noise = np.random.default_rng(0).random((300, 64))
    outside = {"noise": noise, "inverted": 1 - X[900:1200]}
    return models, X[900:], names[900:], outside


@pytest.fixture(scope="session")
def found(scene):
    models, X, y, outside = scene
    return evaluate(models, X, y, ood=outside, n_rounds=60, random_state=0)
