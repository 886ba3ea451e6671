"""The six simulations of the paper's appendix, each with its density."""

from __future__ import annotations

from sklearn.utils import check_random_state

from .._utils.arrays import Floats, Ints
from .._utils.validation import count
from .densities import SIMULATIONS, RandomState, draw_inside_box, draw_labels, draw_trunk


def _make_in_box(name: str, n_samples: int, random_state: RandomState) -> tuple[Floats, Ints]:
    count(n_samples=n_samples)
    rng = check_random_state(random_state)
    y = draw_labels(n_samples, rng)
    return draw_inside_box(SIMULATIONS[name].draw, y, rng), y


def make_spiral(n_samples: int = 1000, *, random_state: RandomState = None) -> tuple[Floats, Ints]:
    """Two arms of a spiral, of two turns each, in the unit disc.

    In polar coordinates, with classes k = 0 and 1 equally likely::

        r ~ U(0, 1),    angle | r, k ~ N(4 pi r + pi k, 0.09)
        p(x | k) = sum over integers m of N(angle; 4 pi r + pi k + 2 pi m, 0.09) / r

    where 0.09 is a variance.

    Parameters
    ----------
    n_samples : int, default=1000
        Number of rows, half of each class; class 0 gets the extra row of an odd number.
    random_state : int, RandomState instance or None, default=None
        Pass an int for the same rows at each call.

    Returns
    -------
    X : ndarray of shape (n_samples, 2)
        Rows with a norm of at most 1.
    y : ndarray of shape (n_samples,)
        Labels 0 and 1, in random order.

    Notes
    -----
    The paper draws radius and angle independently and gives the second class the angles from
    2 pi t to 4 pi t. Taken literally, this is no spiral, and with t = 2 turns the arms
    coincide. Here the angle grows with the radius and the arms differ by half a turn, as in
    the paper's published code. Its angles are evenly spaced; here rows are independent, with
    the same density. The paper's class counts are multinomial in its appendix and exact halves
    in its main text; here they are exact halves, in every simulation.

    Examples
    --------
    >>> from polycal.simulations import make_spiral
    >>> X, y = make_spiral(100, random_state=0)
    >>> X.shape, int(y.sum()), bool((X**2).sum(axis=1).max() <= 1)
    ((100, 2), 50, True)
    """
    return _make_in_box("spiral", n_samples, random_state)


def make_circle(n_samples: int = 1000, *, random_state: RandomState = None) -> tuple[Floats, Ints]:
    """Two noisy circles around the origin, cut off by the box [-1, 1] x [-1, 1].

    In polar coordinates, with classes k = 0 and 1 equally likely and c = (0.75, 1)::

        angle ~ U(0, 2 pi),    r | k ~ N(c_k, 0.01)
        p(x | k) = N(r; c_k, 0.01) / (2 pi r Z_k) in the box, 0 outside

    where 0.01 is a variance and Z = (0.99823, 0.77529) is the mass of each class in the box.

    Parameters
    ----------
    n_samples : int, default=1000
        Number of rows, half of each class; class 0 gets the extra row of an odd number.
    random_state : int, RandomState instance or None, default=None
        Pass an int for the same rows at each call.

    Returns
    -------
    X : ndarray of shape (n_samples, 2)
        Rows in the box.
    y : ndarray of shape (n_samples,)
        Labels 0 (inner circle) and 1, in random order.

    Notes
    -----
    A row outside the box is drawn again with its label, so the classes stay equal; the paper
    says only that the circle is cut off. The published code adds noise to each axis; here
    the noise is on the radius, as the paper says.

    Examples
    --------
    >>> from polycal.simulations import make_circle
    >>> X, y = make_circle(100, random_state=0)
    >>> X.shape, int(y.sum()), bool(abs(X).max() <= 1)
    ((100, 2), 50, True)
    """
    return _make_in_box("circle", n_samples, random_state)


def make_sinewave(
    n_samples: int = 1000, *, random_state: RandomState = None
) -> tuple[Floats, Ints]:
    """A noisy cosine (class 0) and a noisy sine (class 1) in the box [-1, 1] x [-1, 1].

    With classes k = 0 and 1 equally likely, f_0(t) = cos(pi t) and f_1(t) = sin(pi t)::

        x_1 ~ U(-1, 1),    x_2 | x_1, k ~ N(f_k(x_1), 0.01)
        p(x | k) = N(x_2; f_k(x_1), 0.01) / (2 Z) in the box, 0 outside

    where 0.01 is a variance and Z = 0.88191 is the mass in the box, the same for both classes.

    Parameters
    ----------
    n_samples : int, default=1000
        Number of rows, half of each class; class 0 gets the extra row of an odd number.
    random_state : int, RandomState instance or None, default=None
        Pass an int for the same rows at each call.

    Returns
    -------
    X : ndarray of shape (n_samples, 2)
        Rows in the box.
    y : ndarray of shape (n_samples,)
        Labels 0 and 1, in random order.

    Notes
    -----
    The paper does not say how x_1 is drawn; it is uniform in its published code. A row outside
    the box is drawn again, x_1 included, which makes x_1 rarer near the crests. The published
    code's waves are sin(4 t) and cos(4 t); here they are the paper's.

    Examples
    --------
    >>> from polycal.simulations import make_sinewave
    >>> X, y = make_sinewave(100, random_state=0)
    >>> X.shape, int(y.sum()), bool(abs(X).max() <= 1)
    ((100, 2), 50, True)
    """
    return _make_in_box("sinewave", n_samples, random_state)


def make_gaussian_xor(
    n_samples: int = 1000, *, bounded: bool = False, random_state: RandomState = None
) -> tuple[Floats, Ints]:
    """Gaussian XOR: class 0 around +-[0.5, -0.5], class 1 around +-[0.5, 0.5].

    With classes k = 0 and 1 equally likely, c_0 = [0.5, -0.5] and c_1 = [0.5, 0.5]::

        p(x | k) = N(x; c_k, 0.0625 I) / 2 + N(x; -c_k, 0.0625 I) / 2
        P(Y = 1 | x) = cosh(8 (x_1 + x_2)) / (cosh(8 (x_1 + x_2)) + cosh(8 (x_1 - x_2)))

    so that the standard deviation is 0.25 in both features.

    Parameters
    ----------
    n_samples : int, default=1000
        Number of rows, half of each class; class 0 gets the extra row of an odd number.
    bounded : bool, default=False
        Whether rows outside the box [-1, 1] x [-1, 1], 4.5 % of all, are drawn again. This is
        the paper's experiment. The posterior is the same, because both classes have the same
        mass in the box.
    random_state : int, RandomState instance or None, default=None
        Pass an int for the same rows at each call.

    Returns
    -------
    X : ndarray of shape (n_samples, 2)
        Rows, in the box if ``bounded``.
    y : ndarray of shape (n_samples,)
        Labels 0 and 1, in random order.

    Notes
    -----
    The paper prints the means of class 0 for both classes.

    Examples
    --------
    >>> from polycal.simulations import make_gaussian_xor
    >>> X, y = make_gaussian_xor(100, bounded=True, random_state=0)
    >>> X.shape, int(y.sum()), bool(abs(X).max() <= 1)
    ((100, 2), 50, True)
    """
    if bounded:
        return _make_in_box("gaussian_xor", n_samples, random_state)
    count(n_samples=n_samples)
    rng = check_random_state(random_state)
    y = draw_labels(n_samples, rng)
    return SIMULATIONS["gaussian_xor"].draw(y, rng), y


def make_polynomial(
    n_samples: int = 1000, *, random_state: RandomState = None
) -> tuple[Floats, Ints]:
    """A noisy line (class 0) and a noisy cubic (class 1) in the box [-1, 1] x [-1, 1].

    With classes k = 0 and 1 equally likely, f_0(t) = t and f_1(t) = t^3::

        x_1 ~ U(-1, 1),    x_2 | x_1, k ~ N(f_k(x_1), 0.01)
        p(x | k) = N(x_2; f_k(x_1), 0.01) / (2 Z_k) in the box, 0 outside

    where 0.01 is a variance and Z = (0.96011, 0.98609) is the mass of each class in the box.

    Parameters
    ----------
    n_samples : int, default=1000
        Number of rows, half of each class; class 0 gets the extra row of an odd number.
    random_state : int, RandomState instance or None, default=None
        Pass an int for the same rows at each call.

    Returns
    -------
    X : ndarray of shape (n_samples, 2)
        Rows in the box.
    y : ndarray of shape (n_samples,)
        Labels 0 and 1, in random order.

    Notes
    -----
    The paper does not say how x_1 is drawn; it is uniform in its published code. A row outside
    the box is drawn again, x_1 included, with its label.

    Examples
    --------
    >>> from polycal.simulations import make_polynomial
    >>> X, y = make_polynomial(100, random_state=0)
    >>> X.shape, int(y.sum()), bool(abs(X).max() <= 1)
    ((100, 2), 50, True)
    """
    return _make_in_box("polynomial", n_samples, random_state)


def make_trunk(
    n_samples: int = 1000, n_features: int = 2, *, random_state: RandomState = None
) -> tuple[Floats, Ints]:
    """Trunk's two Gaussians, where each feature is less informative than the one before.

    With classes equally likely and mu_i = 1 / sqrt(i) for i = 1, ..., n_features::

        p(x | 0) = N(x; mu, I),    p(x | 1) = N(x; -mu, I)
        P(Y = 0 | x) = 1 / (1 + exp(-2 mu . x))

    The smallest possible error is ``Phi(-|mu|)``, 0.16 for one feature and 0.044 for ten.

    Parameters
    ----------
    n_samples : int, default=1000
        Number of rows, half of each class; class 0 gets the extra row of an odd number.
    n_features : int, default=2
        Number of features.
    random_state : int, RandomState instance or None, default=None
        Pass an int for the same rows at each call.

    Returns
    -------
    X : ndarray of shape (n_samples, n_features)
        Not bounded: the box of the paper's main text is for its planar simulations.
    y : ndarray of shape (n_samples,)
        Labels 0 and 1, in random order.

    Examples
    --------
    >>> from polycal.simulations import make_trunk
    >>> X, y = make_trunk(100, n_features=5, random_state=0)
    >>> X.shape, int(y.sum())
    ((100, 5), 50)
    """
    count(n_samples=n_samples, n_features=n_features)
    rng = check_random_state(random_state)
    y = draw_labels(n_samples, rng)
    return draw_trunk(y, rng, n_features), y
