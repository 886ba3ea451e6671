"""Maps of the posterior: the numbers by hand, and the picture shows the numbers."""

from __future__ import annotations

import numpy as np
import pytest

from polycal.plotting import PosteriorMapDisplay
from tests.toys.plots import Slope, inside, matplotlib, texts_apart


def test_posterior_map_by_hand():
    X = np.array([[0.0, 10.0], [1.0, 30.0]])
    display = PosteriorMapDisplay.from_estimator(Slope(), X, resolution=5, margin=0.5)
    np.testing.assert_allclose(display.x0, [-0.5, 0, 0.5, 1, 1.5])
    np.testing.assert_allclose(display.x1, [0, 10, 20, 30, 40])
    assert display.proba.shape == (5, 5, 2)
    for row in display.proba:  # the first feature runs along a row
        np.testing.assert_allclose(row[:, 1], [0, 0, 0.5, 1, 1])
    assert display.points is None


def test_posterior_map_draws_one_class():
    X = np.array([[0.0, 10.0], [1.0, 30.0]])
    display = PosteriorMapDisplay.from_estimator(Slope(), X, [1, 0], resolution=5)
    assert display.plot(class_label=1) is display
    (image,) = display.ax_.images
    np.testing.assert_allclose(image.get_array(), display.proba[:, :, 1])
    np.testing.assert_allclose(image.get_extent(), [-0.75, 1.75, -5, 45])
    assert image.get_clim() == (0, 1)
    drawn = [points.get_offsets().tolist() for points in display.ax_.collections]
    assert drawn == [[[1.0, 30.0]], [[0.0, 10.0]]]  # class 0, then class 1
    inside(display.figure_, ["feature 1", "feature 2", "probability of class 1", "Slope"])


def test_posterior_map_draws_the_most_probable():
    P = [[1.0, 0.0], [0.75, 0.25], [0.5, 0.5], [0.0, 1.0]]
    display = PosteriorMapDisplay.from_predictions([0, 1], [0, 1], P, classes=["u", "v"]).plot()
    (image,) = display.ax_.images
    blue, orange = (matplotlib.colors.to_rgb(c) for c in ("#0072B2", "#D55E00"))
    np.testing.assert_allclose(image.get_array()[0, 0], blue)
    np.testing.assert_allclose(image.get_array()[0, 1], (1 + np.array(blue)) / 2)
    np.testing.assert_allclose(image.get_array()[1, 0], 1)  # no class leads: white
    np.testing.assert_allclose(image.get_array()[1, 1], orange)
    names = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert names == ["class u", "class v"]


def test_posterior_map_of_an_estimator(plane):
    X, y, model = plane
    display = PosteriorMapDisplay.from_estimator(model, X, y, resolution=7, margin=5)
    grid = [[display.x0[2], display.x1[4]]]
    np.testing.assert_allclose(display.proba[4, 2], model.predict_proba(grid)[0])
    np.testing.assert_allclose(display.proba[0, 0], model.priors_)  # far: the prior
    assert (display.classes[display.point_classes] == y).all()
    texts_apart(display.plot().figure_)


def test_posterior_map_frame():
    pandas = pytest.importorskip("pandas")
    seen = []

    class Named(Slope):
        def predict_proba(self, X):
            seen.append(list(X.columns))
            return super().predict_proba(X)

    frame = pandas.DataFrame({"age": [0.0, 1.0], "dose": [0.0, 1.0]})
    display = PosteriorMapDisplay.from_estimator(Named(), frame, resolution=2)
    assert seen == [["age", "dose"]]
    assert display.plot().ax_.get_ylabel() == "dose"


def test_posterior_map_errors():
    with pytest.raises(ValueError, match="X must have 2 features; it has 3"):
        PosteriorMapDisplay.from_estimator(Slope(), np.zeros((4, 3)))
    with pytest.raises(ValueError, match="X must be finite"):
        PosteriorMapDisplay.from_estimator(Slope(), [[0.0, np.nan]])
    make = PosteriorMapDisplay.from_predictions
    with pytest.raises(ValueError, match="one row for each of the 2 x 2 points"):
        make([0, 1], [0, 1], [[0.5, 0.5]])
    with pytest.raises(ValueError, match="x0 must hold two or more increasing"):
        make([1, 0], [0, 1], [[0.5, 0.5]] * 4)
    with pytest.raises(ValueError, match="both or neither"):
        make([0, 1], [0, 1], [[0.5, 0.5]] * 4, X=[[0, 0]])
    with pytest.raises(ValueError, match=r"class_label must be one of the classes \[0, 1\]"):
        make([0, 1], [0, 1], [[0.5, 0.5]] * 4).plot(class_label="x")
    with pytest.raises(ValueError, match="more than 8 classes"):
        make([0, 1], [0, 1], np.full((4, 9), 1 / 9)).plot()
