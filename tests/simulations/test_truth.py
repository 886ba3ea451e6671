"""The true posterior is the class frequency, and the ratio of the stated densities."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit
from scipy.stats import multivariate_normal, norm

from polycal.simulations import densities, make_spiral, true_posterior
from tests.toys.simulations import each_simulation, sample


def assert_class_frequencies(name, X, y, n_cells):
    """Labels are draws from the posterior, in cells of the plane and in bins of the posterior."""
    p = true_posterior(name, X)[:, 1]
    variance = p * (1 - p)
    reach = 4 if name == "trunk" else 1.2
    column = np.clip(((X / reach + 1) * 25).astype(int), 0, 49)
    for cells, least in ((50 * column[:, 0] + column[:, 1], n_cells), ((p * 40).astype(int), 38)):
        spread = np.bincount(cells, weights=variance)
        enough = spread >= 5  # about normal
        z = np.bincount(cells, weights=y - p)[enough] / np.sqrt(spread[enough])
        assert len(z) >= least
        assert np.abs(z).max() < 4.5
        assert abs((z**2).mean() - 1) < 5 * np.sqrt(2 / len(z))
        assert_rare_labels_are_rare(y[~enough[cells]], p[~enough[cells]])


def assert_rare_labels_are_rare(y, p):
    expected = np.minimum(p, 1 - p).sum()
    rare = np.count_nonzero((p > 0.5) != y)
    assert abs(rare - expected) < 5 * np.sqrt(expected) + 3


@pytest.mark.parametrize(
    ("name", "bounded", "n_cells"),
    [
        ("circle", False, 700),
        ("sinewave", False, 80),
        ("gaussian_xor", False, 300),
        ("gaussian_xor", True, 300),
        ("polynomial", False, 300),
        ("trunk", False, 600),
    ],
)
def test_posterior_is_the_class_frequency_in_cells(name, bounded, n_cells):
    assert_class_frequencies(name, *sample(name, bounded), n_cells)


def test_spiral_posterior_is_the_class_frequency_in_cells(monkeypatch):
    X, y = sample("spiral")
    # The arms are 10 standard deviations apart: about one label in 5 million is on the wrong one.
    assert_rare_labels_are_rare(y, true_posterior("spiral", X)[:, 1])
    monkeypatch.setattr(densities, "ANGLE_NOISE", 1.0)
    assert_class_frequencies("spiral", *make_spiral(400_000, random_state=0), n_cells=1000)


@each_simulation
def test_posterior_rows_sum_to_one(name):
    rng = np.random.default_rng(0)
    X = np.r_[rng.uniform(-2, 2, (1000, 2)), np.zeros((1, 2)), rng.uniform(-1e6, 1e6, (100, 2))]
    posterior = true_posterior(name, X)
    assert posterior.shape == (1101, 2)
    assert (posterior >= 0).all()
    assert_allclose(posterior.sum(axis=1), 1, rtol=1e-14)


@pytest.mark.parametrize("n_features", [1, 2, 20])
def test_trunk_posterior_is_logistic(n_features):
    X = 3 * np.random.default_rng(0).standard_normal((200, n_features))
    log_odds = 2 * sum(X[:, i] / np.sqrt(i + 1) for i in range(n_features))
    assert_allclose(true_posterior("trunk", X)[:, 0], expit(log_odds), rtol=1e-12)
    assert_array_equal(true_posterior("trunk", np.full((1, n_features), 1e300)), [[1, 0]])


def test_gaussian_xor_posterior_is_the_ratio_of_mixtures():
    X = np.random.default_rng(0).uniform(-1.5, 1.5, (200, 2))
    mixture = [
        sum(multivariate_normal.pdf(X, np.multiply(sign, center), 0.0625) for sign in (1, -1))
        for center in ([0.5, -0.5], [0.5, 0.5])
    ]
    assert_allclose(
        true_posterior("gaussian_xor", X), (mixture / np.sum(mixture, axis=0)).T, rtol=1e-9
    )
    toy = true_posterior("gaussian_xor", [[0.5, 0.5], [0.5, -0.5], [0, 0.3], [0.15, 0.15]])
    assert_allclose(toy[:, 1], [1, 0, 0.5, np.cosh(2.4) / (np.cosh(2.4) + 1)], atol=1e-3)
    assert true_posterior("gaussian_xor", [[1e300, 1e299]])[0, 1] == 1


def test_spiral_posterior_is_the_ratio_of_wrapped_normals():
    rng = np.random.default_rng(0)
    radius, angle = rng.uniform(0, 1, 200), rng.uniform(-np.pi, np.pi, 200)
    X = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
    laps = 2 * np.pi * np.arange(-5, 6)
    density = [
        norm.pdf(angle[:, None] + laps, 4 * np.pi * radius[:, None] + np.pi * k, 0.3).sum(axis=1)
        for k in (0, 1)
    ]
    expected = (density / np.sum(density, axis=0)).T
    assert_allclose(true_posterior("spiral", X), expected, rtol=1e-9)
    assert_allclose(true_posterior("spiral", -X), expected[:, ::-1], rtol=1e-9)
    # A quarter turn after radius 1/8, and half way between the arms.
    on_arm, between = [0, 0.125], [0.125, 0]
    assert_allclose(true_posterior("spiral", [on_arm, between])[:, 0], [1, 0.5], atol=1e-12)


def test_circle_and_curve_posteriors_at_hand_computed_points():
    # Half way between the two circles only the masses in the box are left.
    z_inner, z_outer = 0.99823, 0.77529
    at_middle = true_posterior("circle", [[0.875, 0], [0, -0.875], [0.7, 0.525]])[:, 0]
    assert_allclose(at_middle, z_outer / (z_inner + z_outer), rtol=1e-5)
    # At x_1 = 0.5 the cosine is 0 and the sine 1; the log odds are linear in the height.
    heights = np.array([0.4, 0.5, 0.6])
    at_half = true_posterior("sinewave", np.c_[np.full(3, 0.5), heights])[:, 1]
    assert_allclose(at_half, expit((2 * heights - 1) / 0.02), rtol=1e-9)
    # Line and cubic cross at 0.
    z_line, z_cubic = 0.96011, 0.98609
    crossing = true_posterior("polynomial", [[0, 0], [0, 0.3]])[:, 0]
    assert_allclose(crossing, z_cubic / (z_line + z_cubic), rtol=1e-5)


@pytest.mark.parametrize("name", ["spiral", "circle", "sinewave", "polynomial"])
def test_the_prior_is_given_where_no_class_has_rows(name):
    outside = [[1.001, 0.2], [0.2, -1.001], [-5, 5], [1e300, 1e300]]
    assert_array_equal(true_posterior(name, outside), np.full((4, 2), 0.5))
    corner_and_center = true_posterior("spiral", [[0.9, 0.9], [0, 0]])
    assert_array_equal(corner_and_center, np.full((2, 2), 0.5))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: true_posterior("moons", [[0, 0]]), "'spiral', .*'trunk'; got 'moons'"),
        (lambda: true_posterior(None, [[0, 0]]), "name must be one of"),
        (
            lambda: true_posterior("circle", [[0, 0, 0]]),
            "X must have 2 columns for the 'circle' simulation; it has 3",
        ),
        (lambda: true_posterior("trunk", [0, 0]), "Expected 2D array"),
        (lambda: true_posterior("spiral", [[0, np.nan]]), "contains NaN"),
        (lambda: true_posterior("trunk", np.empty((0, 2))), "0 sample"),
    ],
)
def test_bad_input_of_the_posterior(call, message):
    with pytest.raises(ValueError, match=message):
        call()
