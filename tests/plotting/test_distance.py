"""Confidence against distance: the numbers by hand, and the picture shows the numbers."""

from __future__ import annotations

import numpy as np
import pytest

from polycal.plotting import DistanceDisplay
from tests.toys.plots import Slope, inside


def test_distance_by_hand():
    P = [[0.5, 0.5], [1.0, 0.0], [0.2, 0.8]]
    display = DistanceDisplay.from_predictions(
        [2.0, 1.0, 1.0], {"m": P, "n": [[0.6, 0.4]] * 3}, prior=[0.3, 0.7]
    )
    np.testing.assert_array_equal(display.distance, [1, 2])
    np.testing.assert_allclose(display.confidence["m"], [0.9, 0.5])
    np.testing.assert_allclose(display.confidence["n"], [0.6, 0.6])
    assert display.prior == 0.7


def test_distance_asks_on_an_ellipsoid_of_the_data():
    asked = []

    class Recorder(Slope):
        def predict_proba(self, X):
            asked.append(X)
            return super().predict_proba(X)

    # Centre (1, 10, 7), deviations (1, 10) and their mean for the constant one
    X = [[0.0, 0.0, 7.0], [2.0, 20.0, 7.0], [0.0, 20.0, 7.0], [2.0, 0.0, 7.0]]
    display = DistanceDisplay.from_estimator(Recorder(), X, radii=[0, 0.5, 3], n_points=50)
    scale = np.array([1, 10, 11 / 3])
    distance = np.linalg.norm((asked[0] - [1, 10, 7]) / scale, axis=1)
    np.testing.assert_allclose(distance, np.repeat([0, 0.5, 3], 50) * np.sqrt(2), atol=1e-12)
    np.testing.assert_array_equal(display.distance, [0, 0.5, 3])
    assert display.data_end == 1
    assert display.prior is None
    DistanceDisplay.from_estimator(Recorder(), X, radii=[2], n_points=9, standardize=False)
    distance = np.linalg.norm(asked[1] - [1, 10, 7], axis=1)
    np.testing.assert_allclose(distance, 2 * np.sqrt(101))


def test_distance_of_a_calibrator_ends_at_the_prior(plane):
    X, _, model = plane
    models = {"mine": model, "sure": Slope()}
    display = DistanceDisplay.from_estimator(models, X, radii=[0.3, 50], n_points=40)
    assert display.prior == model.priors_.max() == 0.5
    assert display.confidence["mine"][1] == pytest.approx(0.5, abs=1e-6)
    assert display.confidence["sure"][1] > 0.95


def test_distance_plot():
    display = DistanceDisplay.from_predictions(
        [0.0, 1.0, 2.0],
        {"m": [[0.5, 0.5], [1.0, 0.0], [0.2, 0.8]], "n": [[0.6, 0.4]] * 3},
        prior=[0.3, 0.7],
        data_end=1.5,
    )
    assert display.plot() is display
    m, n, prior, end = display.ax_.lines
    np.testing.assert_allclose(m.get_ydata(), [0.5, 1, 0.8])
    np.testing.assert_allclose(n.get_ydata(), 0.6)
    np.testing.assert_allclose(m.get_xdata(), [0, 1, 2])
    assert m.get_linestyle() != n.get_linestyle()  # told apart in grey
    assert set(prior.get_ydata()) == {0.7}
    assert set(end.get_xdata()) == {1.5}
    inside(display.figure_, ["distance from", "mean highest", "highest prior (0.70)", "farthest"])


def test_distance_errors():
    make = DistanceDisplay.from_predictions
    with pytest.raises(ValueError, match="at least one model"):
        make([1.0], {})
    with pytest.raises(ValueError, match=r"each of the 1 rows of P \(model\)"):
        make([1.0, 2.0], [[0.5, 0.5]])
    with pytest.raises(ValueError, match="finite and not negative"):
        make([-1.0], [[0.5, 0.5]])
    with pytest.raises(ValueError, match="priors must hold one probability"):
        make([1.0], [[0.5, 0.5]], prior=[1.0])
    with pytest.raises(ValueError, match="radii must be increasing"):
        DistanceDisplay.from_estimator(Slope(), [[0.0, 0], [1, 1]], radii=[2, 1])
    for standardize in (True, False):
        with pytest.raises(ValueError, match="all its rows are equal"):
            DistanceDisplay.from_estimator(Slope(), np.ones((3, 2)), standardize=standardize)
