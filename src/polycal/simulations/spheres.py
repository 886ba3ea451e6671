"""Points on a sphere, to query a model far from its data."""

from __future__ import annotations

import numpy as np
from sklearn.utils import check_random_state

from .._utils.arrays import Floats
from .._utils.validation import count, not_negative
from .densities import RandomState


def sample_sphere(n: int, d: int, radius: float, *, random_state: RandomState = None) -> Floats:
    """Points that are uniform on a sphere around the origin.

    Their density is 1 / (S_d radius^(d - 1)) on the sphere, with S_d = 2 pi^(d/2) / Gamma(d/2);
    for d = 1 the two points +-radius are equally likely.

    Parameters
    ----------
    n : int
        Number of points.
    d : int
        Number of coordinates.
    radius : float
        Radius of the sphere, at least 0.
    random_state : int, RandomState instance or None, default=None
        Pass an int for the same points at each call.

    Returns
    -------
    X : ndarray of shape (n, d)
        One point in each row.

    Examples
    --------
    >>> import numpy as np
    >>> from polycal.simulations import sample_sphere
    >>> np.linalg.norm(sample_sphere(3, 5, radius=2.0, random_state=0), axis=1)
    array([2., 2., 2.])
    """
    count(n=n, d=d)
    not_negative(radius=radius)
    direction: Floats = check_random_state(random_state).standard_normal((n, d))
    X: Floats = radius * direction / np.linalg.norm(direction, axis=1, keepdims=True)
    return X
