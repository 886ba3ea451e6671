"""Kernel matrices: the numbers by hand, and the picture shows the numbers."""

from __future__ import annotations

import numpy as np
import pytest

from polycal.plotting import KernelMatrixDisplay
from tests.toys.plots import inside, texts_apart

K = np.array(
    [[1.0, 0.1, 0.7, 0.2], [0.1, 1.0, 0.3, 0.4], [0.7, 0.3, 1.0, 0.0], [0.2, 0.4, 0.0, 1.0]]
)


def test_kernel_matrix_by_hand():
    display = KernelMatrixDisplay.from_predictions(K, ["b", "a", "b", "a"])
    np.testing.assert_array_equal(display.order, [1, 3, 0, 2])
    np.testing.assert_array_equal(display.boundaries, [0, 2, 4])
    np.testing.assert_allclose(
        display.matrix, [[1, 0.4, 0.1, 0.3], [0.4, 1, 0.2, 0], [0.1, 0.2, 1, 0.7], [0.3, 0, 0.7, 1]]
    )
    assert display.within == pytest.approx((0.4 + 0.7) / 2)
    assert display.between == pytest.approx((0.1 + 0.3 + 0.2 + 0.0) / 4)
    single = KernelMatrixDisplay.from_predictions([[1.0]], [3])
    assert np.isnan(single.within)
    assert np.isnan(single.between)


def test_kernel_matrix_plot():
    display = KernelMatrixDisplay.from_predictions(K, ["b", "a", "b", "a"])
    assert display.plot() is display
    (image,) = display.ax_.images
    np.testing.assert_allclose(image.get_array(), display.matrix)
    across, down = display.ax_.lines  # one boundary, both ways
    assert set(across.get_ydata()) == {2}
    assert set(down.get_xdata()) == {2}
    assert [text.get_text() for text in display.ax_.get_yticklabels()] == ["a", "b"]
    np.testing.assert_allclose(display.ax_.get_yticks(), [1, 3])
    inside(display.figure_, ["class of the row", "class of the column", "similarity\n0.55"])


def test_kernel_matrix_names_do_not_touch():
    y = np.concatenate([np.arange(30), np.repeat(99, 170)])  # thirty classes of one row
    display = KernelMatrixDisplay.from_predictions(np.eye(200), y).plot()
    assert display.ax_.get_yticklabels()[-1].get_text() == "99"
    assert len(display.ax_.lines) == 60
    texts_apart(display.figure_)


def test_kernel_matrix_of_an_estimator(plane):
    X, y, model = plane
    rows = np.array([0, 100, 5, 70, 90])
    display = KernelMatrixDisplay.from_estimator(model, X[rows], y[rows])
    ordered = rows[[0, 2, 1, 3, 4]]
    np.testing.assert_array_equal(display.matrix, model.similarity(X[ordered], X[ordered]))
    assert display.within > display.between


def test_kernel_matrix_errors():
    make = KernelMatrixDisplay.from_predictions
    with pytest.raises(ValueError, match="K must be square"):
        make(K[:2], [0, 1])
    with pytest.raises(ValueError, match="y must hold one class for each of the 4 rows"):
        make(K, [0, 1])
    with pytest.raises(ValueError, match="not a distance"):
        make(3 * K, [0, 1, 0, 1])
    with pytest.raises(ValueError, match="K must lie between"):
        make(np.full((2, 2), np.nan), [0, 1])
