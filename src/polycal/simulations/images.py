"""Images of circles, rectangles and ellipses, and the paper's three shifts between them."""

from __future__ import annotations

import numpy as np
from sklearn.utils import check_random_state

from .._utils.arrays import Bools, Floats, Ints, Singles
from .._utils.validation import count, fraction, not_negative, positive
from .densities import RandomState, draw_labels

RADIUS = 10.0  # of the circle, and of the ellipse along its second axis
HALF_SIDES = (10.0, 25.0)  # of the rectangle, along the first and the second axis


def draw_ellipses(centers: Floats, axis: float, size: int) -> Bools:
    """Pixels with (w_1 - C_1)^2 / axis^2 + (w_2 - C_2)^2 / RADIUS^2 <= 1, True inside.

    Pixel w_1, w_2 = 0, ..., size - 1 is row w_1 and column w_2. The result has shape
    (n_samples, size, size).
    """
    squared = (np.arange(size) - centers[:, :, None]) ** 2  # (n_samples, 2, size)
    # Multiplied out: no division, and only the comparison has the size of the images.
    first = RADIUS**2 * squared[:, 0, :, None]
    return first <= axis**2 * (RADIUS**2 - squared[:, 1, None, :])


def draw_rectangles(centers: Floats, size: int) -> Bools:
    """Pixels with C_i - h_i <= w_i < C_i + h_i for both axes, True inside."""
    offset = np.arange(size) - centers[:, :, None]  # (n_samples, 2, size)
    half = np.array(HALF_SIDES)[:, None]
    within = (-half <= offset) & (offset < half)
    return within[:, 0, :, None] & within[:, 1, None, :]


def _paint(mask: Bools, intensity: float) -> Singles:
    return np.multiply(mask, np.float32(intensity), dtype=np.float32)


def make_shape_images(
    n_samples: int = 4000,
    *,
    intensity: float = 127.0,
    size: int = 100,
    random_state: RandomState = None,
) -> tuple[Singles, Ints]:
    """Images of circles (class 0) and rectangles (class 1); ``intensity`` is the first shift.

    The centre (C_1, C_2) is uniform in the image. A pixel is ``intensity``::

        in a circle     where (w_1 - C_1)^2 + (w_2 - C_2)^2 <= 100,
        in a rectangle  where C_1 - 10 <= w_1 < C_1 + 10 and C_2 - 25 <= w_2 < C_2 + 25,

    and 0 elsewhere. The paper trains at 127 and tests at 0 to 254.

    Parameters
    ----------
    n_samples : int, default=4000
        Number of images, half of each class; class 0 gets the extra one of an odd number.
    intensity : float, default=127
        Value of the object's pixels, at least 0. The same seed gives the same objects at any
        intensity.
    size : int, default=100
        Height and width. Objects keep their size, and are cut off by the edge.
    random_state : int, RandomState instance or None, default=None
        Pass an int for the same images at each call.

    Returns
    -------
    images : ndarray of shape (n_samples, size, size)
        Pixels in single precision.
    y : ndarray of shape (n_samples,)
        Labels 0 and 1, in random order.

    Notes
    -----
    The paper does not say what w_1 and w_2 are. Here, as in its published code, w_1 is the row
    and w_2 the column, counted from 0, so that rectangles are wider than high.

    Examples
    --------
    >>> from polycal.simulations import make_shape_images
    >>> images, y = make_shape_images(10, random_state=0)
    >>> images.shape, float(images.max()), int(y.sum())
    ((10, 100, 100), 127.0, 5)
    """
    count(n_samples=n_samples, size=size)
    not_negative(intensity=intensity)
    rng = check_random_state(random_state)
    y = draw_labels(n_samples, rng)
    centers = rng.uniform(0, size, size=(n_samples, 2))
    mask = np.empty((n_samples, size, size), dtype=bool)
    mask[y == 0] = draw_ellipses(centers[y == 0], RADIUS, size)
    mask[y == 1] = draw_rectangles(centers[y == 1], size)
    return _paint(mask, intensity), y


def make_mixed_images(
    n_samples: int = 2000,
    *,
    epsilon: float = 0.5,
    intensity: float = 127.0,
    size: int = 100,
    random_state: RandomState = None,
) -> Singles:
    """Convex combinations of a circle and a rectangle, the second shift.

    Each image is ``epsilon * circle + (1 - epsilon) * rectangle``, pixel by pixel, of a circle
    and a rectangle as in :func:`make_shape_images` with independent centres. It is in
    distribution for ``epsilon`` 0 and 1, and farthest from it for 0.5.

    Parameters
    ----------
    n_samples : int, default=2000
        Number of images.
    epsilon : float, default=0.5
        Weight of the circle, from 0 to 1. The same seed gives the same pairs at any weight.
    intensity : float, default=127
        Value of the objects' pixels before they are mixed, at least 0.
    size : int, default=100
        Height and width.
    random_state : int, RandomState instance or None, default=None
        Pass an int for the same images at each call.

    Returns
    -------
    images : ndarray of shape (n_samples, size, size)
        Pixels in single precision.

    Examples
    --------
    >>> from polycal.simulations import make_mixed_images
    >>> images = make_mixed_images(10, epsilon=0.25, random_state=0)
    >>> images.shape, float(images.max()) <= 127
    ((10, 100, 100), True)
    """
    count(n_samples=n_samples, size=size)
    fraction(epsilon=epsilon)
    not_negative(intensity=intensity)
    centers = check_random_state(random_state).uniform(0, size, size=(2, n_samples, 2))
    images = _paint(draw_ellipses(centers[0], RADIUS, size), epsilon * intensity)
    images += _paint(draw_rectangles(centers[1], size), (1 - epsilon) * intensity)
    return images


def make_ellipse_images(
    n_samples: int = 2000,
    *,
    axis: float = 30.0,
    intensity: float = 127.0,
    size: int = 100,
    random_state: RandomState = None,
) -> Singles:
    """Images of ellipses, the third shift.

    The centre (C_1, C_2) is uniform in the image. A pixel is ``intensity`` where::

        (w_1 - C_1)^2 / axis^2 + (w_2 - C_2)^2 / 100 <= 1

    and 0 elsewhere. At ``axis`` 10 these are the circles of :func:`make_shape_images`; the
    paper sweeps it from 0.01 to 40.

    Parameters
    ----------
    n_samples : int, default=2000
        Number of images.
    axis : float, default=30
        Half the height of the ellipse, above 0; half its width is 10. The same seed gives
        the same centres at any height. Far below 0.5 most ellipses lie between the pixels and
        the image is zero.
    intensity : float, default=127
        Value of the object's pixels, at least 0.
    size : int, default=100
        Height and width. Objects keep their size, and are cut off by the edge.
    random_state : int, RandomState instance or None, default=None
        Pass an int for the same images at each call.

    Returns
    -------
    images : ndarray of shape (n_samples, size, size)
        Pixels in single precision.

    Examples
    --------
    >>> from polycal.simulations import make_ellipse_images
    >>> images = make_ellipse_images(10, axis=30, random_state=0)
    >>> images.shape, float(images.max())
    ((10, 100, 100), 127.0)
    """
    count(n_samples=n_samples, size=size)
    positive(axis=axis)
    not_negative(intensity=intensity)
    centers = check_random_state(random_state).uniform(0, size, size=(n_samples, 2))
    return _paint(draw_ellipses(centers, axis, size), intensity)
