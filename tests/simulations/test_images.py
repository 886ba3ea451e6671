"""Images follow their formulas, pixel by pixel."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from polycal.simulations import make_ellipse_images, make_mixed_images, make_shape_images
from polycal.simulations.images import draw_ellipses, draw_rectangles

IMAGES = [make_shape_images, make_mixed_images, make_ellipse_images]


def test_circle_has_the_pixels_of_the_gauss_circle_problem():
    inside = draw_ellipses(np.array([[50.0, 40.0]]), 10.0, 100)[0]
    assert inside.sum() == 317  # whole points with p^2 + q^2 <= 100
    rows, columns = np.nonzero(inside)
    assert (rows.min(), rows.max(), columns.min(), columns.max()) == (40, 60, 30, 50)
    assert inside[56, 48]  # 6^2 + 8^2 = 100: the edge belongs to it
    assert not inside[57, 48]


def test_ellipse_axis_is_along_the_rows():
    # By hand for axis 3: a row of 21 pixels, then twice 19, 15 and 1.
    for axis, area in ((3.0, 91), (10.0, 317), (30.0, pytest.approx(np.pi * 300, rel=0.01))):
        inside = draw_ellipses(np.array([[50.0, 50.0]]), axis, 100)[0]
        rows, columns = np.nonzero(inside)
        assert (rows.min(), rows.max()) == (50 - axis, 50 + axis)
        assert (columns.min(), columns.max()) == (40, 60)
        assert inside.sum() == area
    thin = draw_ellipses(np.array([[50.0, 50.0], [50.3, 50.0]]), 0.01, 100)
    # On a row of pixels 21, ends included; between two rows none.
    assert_array_equal(thin.sum(axis=(1, 2)), [21, 0])


def test_rectangle_is_20_rows_by_50_columns():
    for center in ([50.0, 40.0], [50.3, 40.9]):
        rows, columns = np.nonzero(draw_rectangles(np.array([center]), 100)[0])
        assert len(rows) == 1000
        assert (np.ptp(rows), np.ptp(columns)) == (19, 49)
    exact = draw_rectangles(np.array([[50.0, 40.0]]), 100)[0]
    assert exact[40, 15]  # the lower end belongs to it
    assert not exact[60].any()  # the upper end does not
    assert not exact[:, 65].any()
    corner = draw_rectangles(np.array([[0.0, 0.0]]), 100)[0]
    assert corner.sum() == 10 * 25


def test_images_equal_their_formula_by_loop():
    images, y = make_shape_images(6, size=30, random_state=2)
    rng = np.random.RandomState(2)
    labels = np.arange(6) % 2
    rng.shuffle(labels)
    centers = rng.uniform(0, 30, size=(6, 2))
    assert_array_equal(y, labels)
    for image, label, (c1, c2) in zip(images, y, centers, strict=True):
        for w1 in range(30):
            for w2 in range(30):
                if label == 0:
                    inside = (w1 - c1) ** 2 + (w2 - c2) ** 2 <= 100
                else:
                    inside = c1 - 10 <= w1 < c1 + 10 and c2 - 25 <= w2 < c2 + 25
                assert image[w1, w2] == (127 if inside else 0)


def test_shape_images_and_the_shift_of_intensity():
    images, y = make_shape_images(401, random_state=0)
    assert images.shape == (401, 100, 100)
    assert images.dtype == np.float32
    assert_array_equal(np.bincount(y), [201, 200])
    assert_array_equal(np.unique(images), [0, 127])
    areas = (images > 0).sum(axis=(1, 2))
    assert areas[y == 0].max() <= 325
    assert areas[y == 1].max() == 1000
    # A centre that is uniform along an axis keeps, of a segment of half-length h at most, the
    # share 1 - h / (2 * 100) of it on average.
    kept = (1 - 10 / 200) * (1 - 25 / 200)
    assert areas[y == 1].mean() == pytest.approx(1000 * kept, rel=0.05)
    brighter, _ = make_shape_images(401, intensity=254, random_state=0)
    assert_array_equal(brighter, 2 * images)
    assert make_shape_images(4, intensity=0, random_state=0)[0].max() == 0
    assert make_shape_images(1, random_state=0)[0].shape == (1, 100, 100)


def test_mixed_images_run_from_rectangle_to_circle():
    rectangle, half, quarter, circle = (
        make_mixed_images(50, epsilon=e, random_state=0) for e in (0, 0.5, 0.25, 1)
    )
    assert half.dtype == np.float32
    assert (rectangle > 0).sum(axis=(1, 2)).max() == 1000
    assert (circle > 0).sum(axis=(1, 2)).max() <= 325
    assert_allclose(half, (rectangle + circle) / 2)
    assert_allclose(quarter, 0.75 * rectangle + 0.25 * circle)
    assert_array_equal(np.unique(half), [0, 63.5, 127])
    assert_array_equal(np.unique(circle), [0, 127])
    centers = np.random.RandomState(0).uniform(0, 100, size=(2, 50, 2))
    assert_array_equal(circle > 0, draw_ellipses(centers[0], 10.0, 100))
    assert_array_equal(rectangle > 0, draw_rectangles(centers[1], 100))


def test_ellipse_images_and_the_shift_of_axis():
    areas = [
        (make_ellipse_images(50, axis=axis, random_state=0) > 0).sum(axis=(1, 2))
        for axis in (0.01, 5, 10, 20, 40)
    ]
    assert (np.diff(areas, axis=0) >= 0).all()
    assert areas[0].sum() < 50
    assert areas[-1].max() == pytest.approx(np.pi * 400, rel=0.03)
    centers = np.random.RandomState(0).uniform(0, 100, size=(50, 2))
    images = make_ellipse_images(50, axis=10, intensity=50, random_state=0)
    assert_array_equal(images, 50.0 * draw_ellipses(centers, 10.0, 100))


@pytest.mark.parametrize("make", IMAGES)
def test_images_repeat_with_their_seed(make):
    def images(seed):
        made = make(20, size=40, random_state=seed)
        return made[0] if isinstance(made, tuple) else made

    assert images(0).shape == (20, 40, 40)
    assert_array_equal(images(0), images(0))
    assert (images(0) != images(1)).any()


@pytest.mark.parametrize("make", IMAGES)
@pytest.mark.parametrize("n_samples", [0, -3, 2.5, "10", True, None])
def test_bad_number_of_images(make, n_samples):
    with pytest.raises(ValueError, match="n_samples must be an integer of at least 1; got"):
        make(n_samples)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: make_shape_images(5, intensity=-1), "intensity must be a finite number"),
        (lambda: make_shape_images(5, size=0), "size must be an integer"),
        (lambda: make_mixed_images(5, epsilon=1.5), "epsilon must lie between 0 and 1; got 1.5"),
        (lambda: make_mixed_images(5, epsilon=np.nan), "epsilon must lie between"),
        (lambda: make_ellipse_images(5, axis=0), "axis must be a finite number above 0; got 0"),
    ],
)
def test_bad_input_of_images(call, message):
    with pytest.raises(ValueError, match=message):
        call()
