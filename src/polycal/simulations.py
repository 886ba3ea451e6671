"""Simulated data with known structure."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

__all__ = ["make_gaussian_xor", "sample_sphere"]


def make_gaussian_xor(
    n_samples: int = 1000, *, random_state: int | np.random.RandomState | None = None
) -> tuple[NDArray, NDArray]:
    """Gaussian XOR: class 0 around +-[0.5, -0.5], class 1 around +-[0.5, 0.5].

    Each of the four Gaussians has standard deviation 0.25 in both features; the classes
    are equally likely.

    Returns
    -------
    X : ndarray of shape (n_samples, 2)
    y : ndarray of shape (n_samples,)
    """
    rng = check_random_state(random_state)
    y = np.arange(n_samples) % 2
    rng.shuffle(y)
    sign = rng.choice([-1.0, 1.0], size=n_samples)
    center = 0.5 * np.stack([sign, np.where(y == 1, sign, -sign)], axis=1)
    return center + 0.25 * rng.standard_normal((n_samples, 2)), y


def sample_sphere(
    n: int, d: int, radius: float, *, random_state: int | np.random.RandomState | None = None
) -> NDArray:
    """n points uniform on the sphere of the given radius in d dimensions."""
    direction = check_random_state(random_state).standard_normal((n, d))
    return radius * direction / np.linalg.norm(direction, axis=1, keepdims=True)
