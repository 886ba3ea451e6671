"""Accuracy against the share answered: the numbers by hand, and the picture shows them."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from polycal.plotting import AcceptanceDisplay
from tests.toys.plots import Slope, inside

# 25 sure rows of which one is wrong, 15 unsure ones of which five are, 10 sure ones that are out.
P = np.repeat([[0.9, 0.1], [0.4, 0.6], [0.99, 0.01]], [25, 15, 10], axis=0)
Y = np.r_[[1], np.zeros(24), np.ones(10), np.zeros(5), np.ones(10)].astype(int)
OUT = np.repeat([False, True], [40, 10])


def test_acceptance_by_hand():
    display = AcceptanceDisplay.from_predictions(Y, P, out=OUT)
    at = dict(zip(np.round(50 * display.answered).astype(int), display.accuracy, strict=True))
    assert min(at) == 20
    assert at[25] == 24 / 25
    assert at[40] == 34 / 40
    assert at[50] == 34 / 50  # those that are out come last, though they are the surest
    assert_allclose(display.expected[-1], (25 * 0.9 + 15 * 0.6 + 10 * 0.99) / 50)
    assert display.share_in == 0.8
    assert (display.lower <= display.accuracy).all()
    assert (display.accuracy <= display.upper).all()
    assert AcceptanceDisplay.from_predictions(Y[:3], P[:3]).answered.tolist() == [1.0]


def test_acceptance_plot():
    display = AcceptanceDisplay.from_predictions(Y, P, out=OUT, name="toy")
    assert display.plot() is display
    accuracy, expected = display.ax_.lines
    assert_allclose(accuracy.get_ydata(), display.accuracy)
    assert_allclose(expected.get_ydata(), display.expected)
    assert accuracy.get_linestyle() != expected.get_linestyle()
    words = ["toy", "95 % interval", "expected", "out", "accuracy of these rows"]
    inside(display.figure_, words)
    plain = AcceptanceDisplay.from_predictions(Y, P).plot()
    labels = [text.get_text() for text in plain.ax_.get_legend().get_texts()]
    assert "out" not in labels


def test_acceptance_of_an_estimator(plane):
    X, y, model = plane
    far = np.concatenate([X, X + 100])
    display = AcceptanceDisplay.from_estimator(model, far, np.concatenate([y, y]))
    out = model.explain(far).verdict == "out"
    assert display.share_in == pytest.approx(1 - out.mean())
    assert display.accuracy[-1] == pytest.approx((model.predict(far) == np.tile(y, 2)).mean())
    assert display.name == "GeodesicCalibrator"


def test_acceptance_errors(plane):
    X, y, _ = plane
    with pytest.raises(TypeError, match="method answer; Slope has none"):
        AcceptanceDisplay.from_estimator(Slope(), X, y)
    with pytest.raises(ValueError, match="out must hold a truth value for each of the 50 rows"):
        AcceptanceDisplay.from_predictions(Y, P, out=[0, 1])
