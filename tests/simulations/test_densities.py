"""The stated curves, and the share of each density inside the box."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm

from polycal.simulations.densities import (
    RADII,
    SIMULATIONS,
    circle_mass,
    cosine,
    cubic,
    curve_mass,
    line,
    sine,
)
from tests.toys.simulations import CURVES


def test_curves_are_the_stated_ones():
    t = np.array([-1.0, -0.5, 0.0, 0.5, 1.0])
    assert_allclose(cosine(t), [-1, 0, 1, 0, -1], atol=1e-15)
    assert_allclose(sine(t), [0, -1, 0, 1, 0], atol=1e-15)
    assert_array_equal(line(t), t)
    assert_array_equal(cubic(t), [-1, -0.125, 0, 0.125, 1])


def test_masses_in_the_box_are_integrated_to_the_stated_error():
    nodes, weights = np.polynomial.legendre.leggauss(300)
    for mean in RADII:
        # r = 1 / cos(u) makes the integrand smooth: the arc in the box is 1 - 4 u / pi.
        u = (nodes + 1) * np.pi / 8
        outer = norm.pdf(1 / np.cos(u), mean, 0.1) * np.tan(u) / np.cos(u) * (1 - 4 * u / np.pi)
        exact = norm.cdf(1, mean, 0.1) + np.pi / 8 * weights @ outer
        assert circle_mass(mean) == pytest.approx(exact, abs=1e-10)
    for curve in (cosine, sine, cubic):
        inside = norm.cdf(1, curve(nodes), 0.1) - norm.cdf(-1, curve(nodes), 0.1)
        assert curve_mass(curve) == pytest.approx(0.5 * weights @ inside, abs=1e-10)
    # Half of E|noise| is lost at each end of the line.
    assert curve_mass(line) == pytest.approx(1 - 0.1 / np.sqrt(2 * np.pi), abs=1e-10)


@pytest.mark.parametrize("name", ["circle", "sinewave", "polynomial"])
@pytest.mark.parametrize("label", [0, 1])
def test_masses_in_the_box_are_shares_of_unbounded_rows(name, label):
    n = 100_000
    X = SIMULATIONS[name].draw(np.full(n, label), np.random.RandomState(0))
    share = (np.abs(X) <= 1).all(axis=1).mean()
    mass = circle_mass(RADII[label]) if name == "circle" else curve_mass(CURVES[name][label])
    assert abs(share - mass) < 4 * np.sqrt(mass * (1 - mass) / n)
