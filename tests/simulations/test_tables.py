"""Simulated tables follow their stated densities."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import kstest, norm, uniform

from polycal.simulations import make_circle, make_gaussian_xor, make_trunk
from tests.toys.simulations import CURVES, MAKERS, assert_follows, each_simulation, sample


def numerical_cdf(density, low, high):
    """Distribution function of a density known up to its mass, by the midpoint rule."""
    grid = np.linspace(low, high, 4001)
    middle = density((grid[1:] + grid[:-1]) / 2)
    steps = np.r_[0, np.cumsum(middle)]
    return lambda x: np.interp(x, grid, steps / steps[-1])


@each_simulation
def test_labels_shapes_and_seeds(name):
    make = MAKERS[name]
    X, y = make(1001, random_state=5)
    assert X.shape == (1001, 2)
    assert X.dtype == float
    assert_array_equal(np.bincount(y), [501, 500])
    assert 400 < np.count_nonzero(np.diff(y)) < 600  # random order
    again, y_again = make(1001, random_state=np.random.RandomState(5))
    assert_array_equal(again, X)
    assert_array_equal(y_again, y)
    other, _ = make(1001, random_state=6)
    assert not np.isin(other, X).any()
    assert make(random_state=0)[0].shape == (1000, 2)
    assert make(1, random_state=0)[1] == [0]


@pytest.mark.parametrize("name", ["spiral", "circle", "sinewave", "polynomial"])
def test_rows_lie_in_the_box(name):
    X, _ = sample(name)
    assert 0.999 < np.abs(X).max() <= 1
    if name == "spiral":
        assert np.linalg.norm(X, axis=1).max() <= 1


def test_bounded_gaussian_xor_lies_in_the_box():
    assert np.abs(sample("gaussian_xor", bounded=True)[0]).max() <= 1
    assert np.abs(sample("gaussian_xor")[0]).max() > 1


def test_spiral_follows_its_density():
    X, y = sample("spiral")
    radius, angle = np.linalg.norm(X, axis=1), np.arctan2(X[:, 1], X[:, 0])
    assert_follows(radius, uniform.cdf)
    ahead = angle - 4 * np.pi * radius - np.pi * y
    noise = (ahead + np.pi) % (2 * np.pi) - np.pi
    for rows in (y == 0, y == 1, radius < 0.1, radius > 0.9):
        assert_follows(noise[rows], norm(scale=0.3).cdf)


def test_circle_follows_its_density():
    X, y = sample("circle")
    radius, angle = np.linalg.norm(X, axis=1), np.arctan2(X[:, 1], X[:, 0])
    assert_follows(angle[radius < 1], uniform(-np.pi, 2 * np.pi).cdf)
    turn = np.linspace(0, 2 * np.pi, 2000, endpoint=False)
    reach = np.maximum(np.abs(np.cos(turn)), np.abs(np.sin(turn)))

    for label, center in ((0, 0.75), (1, 1.0)):

        def density(r, center=center):
            return norm.pdf(r, center, 0.1) * (r[:, None] * reach <= 1).mean(axis=1)

        assert_follows(radius[y == label], numerical_cdf(density, 0, np.sqrt(2)))


@pytest.mark.parametrize("name", CURVES)
@pytest.mark.parametrize("label", [0, 1])
def test_curves_follow_their_density(name, label):
    X, y = sample(name)
    x, height = X[y == label].T
    curve = CURVES[name][label]

    def below(t, level):
        return norm.cdf(level, curve(t), 0.1)

    assert_follows(x, numerical_cdf(lambda t: below(t, 1) - below(t, -1), -1, 1))
    rank = (below(x, height) - below(x, -1)) / (below(x, 1) - below(x, -1))
    assert_follows(rank, uniform.cdf)


@pytest.mark.parametrize("bounded", [False, True])
def test_gaussian_xor_follows_its_density(bounded):
    X, y = sample("gaussian_xor", bounded)
    # Rows of class 0 change the sign of their second feature, and are then as those of class 1.
    X = X * np.stack([np.ones(len(y)), 2 * y - 1], axis=1)
    X *= np.sign(X.sum(axis=1, keepdims=True))  # all around [0.5, 0.5], but for 1 row in 400
    high = 1.0 if bounded else np.inf
    mass = norm.cdf(high, 0.5, 0.25)
    center = X[(X > 0).all(axis=1)]
    zero = norm.cdf(0, 0.5, 0.25)
    for column in center.T:
        # Of the other Gaussian, 0.05 % of the rows reach the quadrant.
        assert (
            kstest(column, lambda t: (norm.cdf(t, 0.5, 0.25) - zero) / (mass - zero)).statistic
            < 4e-3
        )
    if not bounded:
        assert (X**2).mean() == pytest.approx(0.25 + 0.0625, rel=5e-3)
        assert (X[:, 0] * X[:, 1]).mean() == pytest.approx(0.25, rel=5e-3)


@pytest.mark.parametrize("n_features", [1, 2, 7])
def test_trunk_follows_its_density(n_features):
    X, y = make_trunk(50_000, n_features, random_state=1)
    mean = [1, 0.70711, 0.57735, 0.5, 0.44721, 0.40825, 0.37796][:n_features]
    noise = X - np.outer(1 - 2 * y, mean)
    for column in noise.T:
        assert_follows(column, norm.cdf)
    assert_allclose(np.atleast_2d(np.cov(noise.T)), np.eye(n_features), atol=0.03)


@pytest.mark.parametrize("make", MAKERS.values())
@pytest.mark.parametrize("n_samples", [0, -3, 2.5, "10", True, None])
def test_bad_number_of_rows(make, n_samples):
    with pytest.raises(ValueError, match="n_samples must be an integer of at least 1; got"):
        make(n_samples)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: make_trunk(10, 0), "n_features must be an integer of at least 1; got 0"),
        (lambda: make_circle(5, random_state="seed"), "cannot be used to seed"),
    ],
)
def test_bad_input_of_rows(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_gaussian_xor():
    X, y = make_gaussian_xor(20_000, random_state=0)
    assert y.mean() == 0.5
    for label, sign in ((0, -1), (1, 1)):
        rows = X[y == label]
        upper = rows[rows[:, 0] > 0]
        assert_allclose(rows.mean(axis=0), 0, atol=0.02)
        assert np.sign(np.median(upper[:, 1])) == sign
        assert (rows**2).mean() == pytest.approx(0.25 + 0.0625, rel=0.02)
