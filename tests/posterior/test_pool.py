"""The pool of parent and kernel, and Newton's method that fits it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import check_grad, minimize
from scipy.special import softmax

from polycal.posterior.newton import minimize_convex
from polycal.posterior.pool import fit_pool, views_of


def test_pool_recovers_the_posterior_that_made_the_labels():
    """Two sources with known weights of log p and a class offset."""
    rng = np.random.default_rng(0)
    n = 40_000
    sources = softmax(rng.normal(size=(2, n, 3)) * 1.5, axis=2)
    offset = np.array([0.3, 0.0, -0.3])
    P = softmax(0.8 * np.log(sources[0]) + 0.4 * np.log(sources[1]) + offset, axis=1)
    y = (rng.random((n, 1)) > P.cumsum(axis=1)).sum(axis=1)
    views = np.stack([views_of(p, np.ones(3) / 3, 10**9) for p in sources])
    pool, loss = fit_pool(views, y, np.ones(n), np.ones(3) / 3)
    assert loss == pytest.approx(-np.log(P[np.arange(n), y]).mean(), abs=0.01)
    assert np.abs(np.exp(pool(views)) - P).mean() < 0.01


def test_pool_stays_finite_on_separable_rows():
    """Perfect sources would drive the weights to infinity without the prior's row."""
    y = np.arange(100) % 2
    P = np.where(np.eye(2)[y] == 1, 0.99, 0.01)
    views = np.stack([views_of(P, np.array([0.5, 0.5]), 100)] * 2)
    pool, _ = fit_pool(views, y, np.ones(100), np.array([0.5, 0.5]))
    assert np.abs(pool.weights).sum() < 5
    assert np.exp(pool(views)).max() < 1 - 1e-4


def toy_pool(rng, n_classes, n=60):
    """Views of two noisy sources, labels and uneven weights."""
    prior = np.ones(n_classes) / n_classes
    y = rng.integers(0, n_classes, n)
    scores = rng.normal(size=(2, n, n_classes)) + 2 * np.eye(n_classes)[y]
    views = np.stack([views_of(p, prior, n) for p in softmax(scores, axis=2)])
    return views, y, rng.uniform(0, 2, n), prior


def spied_loss(monkeypatch, views, y, weight, prior):
    """What fit_pool hands to the optimiser."""
    caught = {}

    def spy(loss, start, bounded):
        caught.update(loss=loss, start=start, bounded=bounded)
        return start, 0.0

    with monkeypatch.context() as patch:
        patch.setattr("polycal.posterior.pool.minimize_convex", spy)
        fit_pool(views, y, weight, prior)
    return caught


@pytest.mark.parametrize("block", [2**14, 28])
def test_slope_and_curvature_of_the_pool(monkeypatch, block):
    """By finite differences, also where rows come in many blocks."""
    rng = np.random.default_rng(0)
    monkeypatch.setattr("polycal.posterior.pool.BLOCK", block)
    loss = spied_loss(monkeypatch, *toy_pool(rng, 4))["loss"]
    theta = rng.uniform(0.1, 1, 10)
    assert check_grad(lambda t: loss(t)[0], lambda t: loss(t)[1], theta) < 1e-6
    numeric = np.stack(
        [(loss(theta + h)[1] - loss(theta - h)[1]) / 2e-5 for h in 1e-5 * np.eye(10)]
    )
    assert_allclose(loss(theta)[2], numeric, atol=1e-8)


def lowest_by_scipy(parts):
    bounds = [(0.0, None) if b else (None, None) for b in parts["bounded"]]
    options = {"ftol": 1e-15, "gtol": 1e-9, "maxiter": 5000, "maxfun": 50000}
    return minimize(
        lambda t: parts["loss"](t)[:2], parts["start"], jac=True, bounds=bounds, options=options
    ).fun


@pytest.mark.parametrize("n_classes", [2, 3, 7])
def test_pool_is_the_minimum_that_scipy_finds(monkeypatch, n_classes):
    toy = toy_pool(np.random.default_rng(n_classes), n_classes)
    slow = lowest_by_scipy(spied_loss(monkeypatch, *toy))
    pool, value = fit_pool(*toy)
    assert value == pytest.approx(slow, rel=1e-8)
    assert value <= slow * (1 + 1e-9)
    assert (pool.weights[:, :2] >= 0).all()
    again, same = fit_pool(*toy, near=pool)
    assert same == pytest.approx(value, rel=1e-9)
    assert_allclose(again(toy[0]), pool(toy[0]), atol=1e-4)


@pytest.mark.parametrize("block", [2**22, 28])
def test_pool_on_a_torch_device_is_the_same(monkeypatch, block):
    pytest.importorskip("torch")
    monkeypatch.setattr("polycal.posterior.pool.DEVICE_BLOCK", block)
    toy = toy_pool(np.random.default_rng(5), 4)
    (here, value), (there, same) = fit_pool(*toy), fit_pool(*toy, device="cpu")
    assert same == pytest.approx(value, rel=1e-12)
    assert_allclose(there.weights, here.weights, atol=1e-6)
    assert_allclose(there.offset, here.offset, atol=1e-6)


@pytest.mark.parametrize("n_classes", [2, 5])
def test_pool_from_a_far_start(n_classes):
    """The parabola there, where p is 0 or 1, says little about the minimum."""
    toy = toy_pool(np.random.default_rng(n_classes), n_classes)
    pool, value = fit_pool(*toy)
    for side in (30.0, -30.0):
        weights = np.array([[0.0, 30.0, 9 * side], [1e-14, 30.0, 9 * side]])
        far = replace(pool, weights=weights, offset=np.linspace(-side, side, n_classes))
        assert fit_pool(*toy, near=far)[1] == pytest.approx(value, rel=1e-8)


def test_pool_of_two_rows_and_sources_that_are_sure_and_wrong(monkeypatch):
    rng = np.random.default_rng(5)
    prior, y = np.ones(3) / 3, rng.integers(0, 3, 2)
    sure = softmax(30 * rng.normal(size=(2, 2, 3)), axis=2)
    toy = np.stack([views_of(p, prior, 10**6) for p in sure]), y, np.ones(2), prior
    slow = lowest_by_scipy(spied_loss(monkeypatch, *toy))
    assert fit_pool(*toy)[1] <= slow * (1 + 1e-8)


def test_pool_does_not_chase_rounding(monkeypatch):
    """Where one class has all the weight, the loss is smaller than the rounding of its terms."""
    views, y, _, _ = toy_pool(np.random.default_rng(0), 3)
    weight = np.where(y == 0, 1e13, 1.0)
    prior = np.bincount(y, weight) / weight.sum()
    calls = []

    def counted(loss, start, bounded):
        return minimize_convex(lambda t: calls.append(1) or loss(t), start, bounded)

    monkeypatch.setattr("polycal.posterior.pool.minimize_convex", counted)
    proba = np.exp(views[:, 0]) / np.exp(views[:, 0]).sum(axis=2, keepdims=True)
    shifted = proba * prior / (proba * prior).sum(axis=2, keepdims=True)
    _, value = fit_pool(np.stack([views_of(p, prior, 60) for p in shifted]), y, weight, prior)
    assert 0 <= value < 1e-9
    assert len(calls) < 100


def test_newton_where_rounding_leaves_no_curvature():
    """A curvature that is a little negative in one direction, as rounding may leave it."""

    def valley(t):
        slope = np.array([2 * (t[0] - 1), 0.0, 0.0])
        return (t[0] - 1) ** 2, slope, np.diag([2.0, -1e-8, 0.0])

    bounded = np.array([True, True, False])
    found, value = minimize_convex(valley, np.array([0.0, 1.0, 1.0]), bounded)
    assert_allclose(found, [1.0, 1.0, 1.0], atol=1e-4)
    assert value == pytest.approx(0.0, abs=1e-8)


def test_newton_stops_on_the_bound():
    """(a - 1)^2 + (b + 1)^2 + a b + (c + 2)^2, a and b >= 0: b presses on its bound, a = 1."""

    def bowl(t):
        a, b, c = t
        value = (a - 1) ** 2 + (b + 1) ** 2 + a * b + (c + 2) ** 2
        slope = np.array([2 * (a - 1) + b, 2 * (b + 1) + a, 2 * (c + 2)])
        return value, slope, np.array([[2.0, 1.0, 0.0], [1.0, 2.0, 0.0], [0.0, 0.0, 2.0]])

    bounded = np.array([True, True, False])
    found, value = minimize_convex(bowl, np.array([0.0, 3.0, 0.0]), bounded)
    assert_allclose(found, [1.0, 0.0, -2.0], atol=1e-8)
    assert found[1] == 0
    assert value == pytest.approx(1.0)
