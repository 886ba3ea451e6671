"""Sizes of sets: the numbers by hand, and the picture shows them."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from polycal.plotting import SetSizeDisplay
from tests.toys.plots import Slope, inside

SETS = np.array([[1, 0, 0], [0, 1, 0], [1, 1, 0], [0, 0, 0], [1, 1, 1]], dtype=bool)
Y, OUT = [0, 0, 1, 2, 2], np.arange(5) == 4


def test_sizes_by_hand():
    display = SetSizeDisplay.from_predictions(SETS, Y, out=OUT, wanted=0.6)
    assert display.counts.tolist() == [1, 2, 1, 1]
    assert display.n_out.tolist() == [0, 0, 0, 1]
    assert display.held.tolist() == [0.0, 0.5, 1.0, 1.0]
    assert (display.coverage, display.wanted) == (0.6, 0.6)
    plain = SetSizeDisplay.from_predictions(SETS)
    assert plain.held is None
    assert plain.coverage is None


def test_sizes_plot():
    display = SetSizeDisplay.from_predictions(SETS, Y, out=OUT, wanted=0.6, name="toy")
    assert display.plot() is display
    inner, outside = display.ax_.containers
    assert [bar.get_height() for bar in inner] == [1, 2, 1, 0]
    assert [bar.get_height() for bar in outside] == [0, 0, 0, 1]
    assert outside[0].get_hatch() != inner[0].get_hatch()
    words = ["toy\ncoverage: 0.6 wanted, 0.600 reached", "classes in the set", "50%", "out"]
    inside(display.figure_, words)
    assert SetSizeDisplay.from_predictions(SETS).plot().ax_.get_title() == "model"


def test_sizes_of_an_estimator(plane):
    X, y, model = plane
    display = SetSizeDisplay.from_estimator(model, X, y, coverage=0.8)
    sets = model.predict_set(X, 0.8)
    assert_array_equal(display.counts, np.bincount(sets.sum(axis=1), minlength=3))
    assert display.coverage == pytest.approx(
        sets[np.arange(len(y)), np.searchsorted(model.classes_, y)].mean()
    )
    by_class = SetSizeDisplay.from_estimator(model, X, coverage=0.8, by_class=True)
    assert by_class.counts.sum() == len(X)


def test_sizes_errors(plane):
    with pytest.raises(TypeError, match="method predict_set; Slope has none"):
        SetSizeDisplay.from_estimator(Slope(), plane[0])
    with pytest.raises(ValueError, match="sets must be truth values of shape"):
        SetSizeDisplay.from_predictions([[0.2, 0.8]])
    with pytest.raises(ValueError, match="y must hold a column of sets, 0 to 2, for each of its 5"):
        SetSizeDisplay.from_predictions(SETS, [0, 1, 2, 3, 0])
