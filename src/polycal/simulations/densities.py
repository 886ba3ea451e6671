"""The six simulations as mathematics: how to draw a row of class k, and its likelihood.

``draw(y, rng)`` gives one row for each label. ``support(X)`` marks the rows where either class has
a density above 0; there, ``log_likelihood(X)``, of shape (n_samples, 2), is log p(x | k) up to a
term that the two classes share.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.integrate import quad
from scipy.special import logsumexp, ndtr

from .._utils.arrays import Bools, Floats, Ints

# Standard deviations; the paper prints variances.
ANGLE_NOISE = 0.3  # spiral, N(0, 0.09)
NOISE = 0.1  # circle, sinewave and polynomial, N(0, 0.01)
XOR_NOISE = 0.25
RADII = (0.75, 1.0)  # of the circle of class 0 and of class 1
TURNS = 2  # of each arm of the spiral

RandomState = int | np.random.RandomState | None
Draw = Callable[[Ints, np.random.RandomState], Floats]
Map = Callable[[Floats], Floats]


@dataclass(frozen=True)
class Simulation:
    """One simulation; ``n_columns`` is None when any number of columns is allowed."""

    draw: Draw
    log_likelihood: Map
    support: Callable[[Floats], Bools]
    n_columns: int | None = 2


def draw_labels(n_samples: int, rng: np.random.RandomState) -> Ints:
    """Labels, half of each class in random order; class 0 gets the extra row of an odd number."""
    y = np.arange(n_samples) % 2
    rng.shuffle(y)
    return y


def everywhere(X: Floats) -> Bools:
    """All rows."""
    return np.ones(len(X), dtype=bool)


def inside_box(X: Floats) -> Bools:
    """Which rows lie in [-1, 1] x [-1, 1]."""
    inside: Bools = np.all(np.abs(X) <= 1, axis=1)
    return inside


def draw_inside_box(draw: Draw, y: Ints, rng: np.random.RandomState) -> Floats:
    """Rows of p(x | k, x in the box): those outside are drawn again, with the same label."""
    X = draw(y, rng)
    outside = np.flatnonzero(~inside_box(X))
    while len(outside):
        X[outside] = draw(y[outside], rng)
        outside = outside[~inside_box(X[outside])]
    return X


def _from_polar(radius: Floats, angle: Floats) -> Floats:
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)


# Spiral: r ~ U(0, 1), angle ~ N(2 pi TURNS r + pi k, 0.09).


def _draw_spiral(y: Ints, rng: np.random.RandomState) -> Floats:
    radius = rng.uniform(size=len(y))
    angle = 2 * np.pi * TURNS * radius + np.pi * y + ANGLE_NOISE * rng.standard_normal(len(y))
    return _from_polar(radius, angle)


def _inside_disc(X: Floats) -> Bools:
    """Which rows lie in the unit disc without its centre, where the angle is not defined."""
    radius = np.hypot(X[:, 0], X[:, 1])
    return (radius > 0) & (radius <= 1)


def _spiral_log_likelihood(X: Floats) -> Floats:
    """Wrapped normal of the angle; 1/r, the density of r over the plane, is shared."""
    radius, angle = np.hypot(X[:, 0], X[:, 1]), np.arctan2(X[:, 1], X[:, 0])
    ahead = angle[:, None] - 2 * np.pi * TURNS * radius[:, None] - np.pi * np.arange(2)
    ahead = np.remainder(ahead + np.pi, 2 * np.pi) - np.pi
    # Three laps are enough: the fourth weighs exp(-493) at the most.
    laps = 2 * np.pi * np.array([-1, 0, 1])
    log_terms = -0.5 * ((ahead[:, :, None] + laps) / ANGLE_NOISE) ** 2
    total: Floats = logsumexp(log_terms, axis=2)
    return total


# Circle: angle ~ U(0, 2 pi), r ~ N(RADII[k], 0.01), in the box.


def _draw_circle(y: Ints, rng: np.random.RandomState) -> Floats:
    radius = np.array(RADII)[y] + NOISE * rng.standard_normal(len(y))
    angle = rng.uniform(0, 2 * np.pi, size=len(y))
    return _from_polar(radius, angle)


def _arc_in_box(radius: float) -> float:
    """Share of a circle of this radius, from 1 to sqrt(2), that lies in the box."""
    return 1 - 4 / math.pi * math.acos(1 / radius)


@cache
def circle_mass(mean: float) -> float:
    """P(x in the box) for a radius of N(mean, 0.01); quadrature, error below 1e-10."""

    def integrand(radius: float) -> float:
        z = (radius - mean) / NOISE
        return math.exp(-0.5 * z * z) / (math.sqrt(2 * math.pi) * NOISE) * _arc_in_box(radius)

    inner = ndtr((1 - mean) / NOISE)  # the disc of radius 1
    return float(inner + quad(integrand, 1, math.sqrt(2), epsabs=1e-12, limit=200)[0])


def _circle_log_likelihood(X: Floats) -> Floats:
    """A radius below 0, of probability 4e-14, is left out; 1/r is shared."""
    radius = np.hypot(X[:, 0], X[:, 1])[:, None]
    log_mass = np.log([circle_mass(mean) for mean in RADII])
    return -0.5 * ((radius - RADII) / NOISE) ** 2 - log_mass


# Sinewave and polynomial: x_1 ~ U(-1, 1), x_2 ~ N(f_k(x_1), 0.01), in the box.


@dataclass(frozen=True)
class Curves:
    """Two curves with noise in height."""

    curves: tuple[Map, Map]

    def draw(self, y: Ints, rng: np.random.RandomState) -> Floats:
        x = rng.uniform(-1, 1, size=len(y))
        height = np.where(y == 0, self.curves[0](x), self.curves[1](x))
        return np.stack([x, height + NOISE * rng.standard_normal(len(y))], axis=1)

    def log_likelihood(self, X: Floats) -> Floats:
        heights = np.stack([curve(X[:, 0]) for curve in self.curves], axis=1)
        log_mass = np.log([curve_mass(curve) for curve in self.curves])
        return -0.5 * ((X[:, 1:] - heights) / NOISE) ** 2 - log_mass


def height_mass(height: Floats) -> Floats:
    """P(|x_2| <= 1) for x_2 of N(height, 0.01)."""
    mass: Floats = ndtr((1 - height) / NOISE) - ndtr((-1 - height) / NOISE)
    return mass


@cache
def curve_mass(curve: Map) -> float:
    """P(x in the box) around a curve; quadrature, error below 1e-10."""
    return 0.5 * float(quad(lambda x: height_mass(curve(x)), -1, 1, epsabs=1e-12, limit=200)[0])


def cosine(x: Floats) -> Floats:
    return np.cos(np.pi * x)


def sine(x: Floats) -> Floats:
    return np.sin(np.pi * x)


def line(x: Floats) -> Floats:
    return x


def cubic(x: Floats) -> Floats:
    return x**3


# Gaussian XOR: x ~ N(+-[0.5, -0.5], 0.0625 I) in class 0, N(+-[0.5, 0.5], 0.0625 I) in class 1.


def _draw_gaussian_xor(y: Ints, rng: np.random.RandomState) -> Floats:
    sign = rng.choice([-1.0, 1.0], size=len(y))
    center = 0.5 * np.stack([sign, np.where(y == 1, sign, -sign)], axis=1)
    return center + XOR_NOISE * rng.standard_normal((len(y), 2))


def _gaussian_xor_log_likelihood(X: Floats) -> Floats:
    """log cosh(x . center / variance): |x|^2 and |center|^2 are shared."""
    along = np.stack([X[:, 0] - X[:, 1], X[:, 0] + X[:, 1]], axis=1) * 0.5 / XOR_NOISE**2
    return np.logaddexp(along, -along)


# Trunk: x ~ N(mu, I) in class 0, N(-mu, I) in class 1.


def trunk_mean(n_features: int) -> Floats:
    """1 / sqrt(i) for i = 1, ..., n_features."""
    return 1 / np.sqrt(np.arange(1, n_features + 1))


def draw_trunk(y: Ints, rng: np.random.RandomState, n_features: int = 2) -> Floats:
    noise = rng.standard_normal((len(y), n_features))
    return np.where(y == 0, 1, -1)[:, None] * trunk_mean(n_features) + noise


def _trunk_log_likelihood(X: Floats) -> Floats:
    """+-mu . x: |x|^2 and |mu|^2 are shared."""
    along = X @ trunk_mean(X.shape[1])
    return np.stack([along, -along], axis=1)


_sinewave = Curves((cosine, sine))
_polynomial = Curves((line, cubic))
SIMULATIONS = {
    "spiral": Simulation(_draw_spiral, _spiral_log_likelihood, _inside_disc),
    "circle": Simulation(_draw_circle, _circle_log_likelihood, inside_box),
    "sinewave": Simulation(_sinewave.draw, _sinewave.log_likelihood, inside_box),
    "gaussian_xor": Simulation(_draw_gaussian_xor, _gaussian_xor_log_likelihood, everywhere),
    "polynomial": Simulation(_polynomial.draw, _polynomial.log_likelihood, inside_box),
    "trunk": Simulation(draw_trunk, _trunk_log_likelihood, everywhere, n_columns=None),
}
