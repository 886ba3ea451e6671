"""The fit of the pool of parent and votes, Newton's method, and what it may not invent."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import check_grad, minimize
from scipy.special import softmax
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression

from polycal import GeodesicCalibrator
from polycal.posterior.fit import (
    CalibrationLabels,
    PoolPrior,
    fit_pool,
    fit_pooled,
    refit_through_gate,
)
from polycal.posterior.newton import minimize_convex
from polycal.posterior.posterior import Posterior, mixture, views_of
from tests.toys.models import small_forest


def test_pool_recovers_the_posterior_that_made_the_labels():
    """Two sources with known weights of log p and a class offset."""
    rng = np.random.default_rng(0)
    n = 40_000
    sources = softmax(rng.normal(size=(2, n, 3)) * 1.5, axis=2)
    offset = np.array([0.3, 0.0, -0.3])
    P = softmax(0.8 * np.log(sources[0]) + 0.4 * np.log(sources[1]) + offset, axis=1)
    y = (rng.random((n, 1)) > P.cumsum(axis=1)).sum(axis=1)
    views = np.stack([views_of(p, np.ones(3) / 3, 10**9) for p in sources])
    pool, loss, _ = fit_pool(views, y, np.ones(n), np.ones(3) / 3)
    assert loss == pytest.approx(-np.log(P[np.arange(n), y]).mean(), abs=0.01)
    assert np.abs(np.exp(pool(views)) - P).mean() < 0.01


def test_pool_stays_finite_on_separable_rows():
    """Perfect sources would drive the weights to infinity without the prior's row."""
    y = np.arange(100) % 2
    P = np.where(np.eye(2)[y] == 1, 0.99, 0.01)
    views = np.stack([views_of(P, np.array([0.5, 0.5]), 100)] * 2)
    pool, _, _ = fit_pool(views, y, np.ones(100), np.array([0.5, 0.5]))
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
        patch.setattr("polycal.posterior.fit.minimize_convex", spy)
        fit_pool(views, y, weight, prior)
    return caught


@pytest.mark.parametrize("block", [2**14, 28])
def test_slope_and_curvature_of_the_pool(monkeypatch, block):
    """By finite differences, also where rows come in many blocks."""
    rng = np.random.default_rng(0)
    monkeypatch.setattr("polycal.posterior.fit.BLOCK", block)
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
    pool, value, _ = fit_pool(*toy)
    assert value == pytest.approx(slow, rel=1e-8)
    assert value <= slow * (1 + 1e-9)
    assert (pool.weights[:, :2] >= 0).all()
    again, same, _ = fit_pool(*toy, start_from=pool)
    assert same == pytest.approx(value, rel=1e-9)
    assert_allclose(again(toy[0]), pool(toy[0]), atol=1e-4)


@pytest.mark.parametrize("block", [2**22, 28])
def test_pool_on_a_torch_device_is_the_same(monkeypatch, block):
    pytest.importorskip("torch")
    monkeypatch.setattr("polycal.posterior.fit.DEVICE_BLOCK", block)
    toy = toy_pool(np.random.default_rng(5), 4)
    (here, value, _), (there, same, _) = fit_pool(*toy), fit_pool(*toy, device="cpu")
    assert same == pytest.approx(value, rel=1e-12)
    assert_allclose(there.weights, here.weights, atol=1e-6)
    assert_allclose(there.offset, here.offset, atol=1e-6)


@pytest.mark.parametrize("n_classes", [2, 5])
def test_pool_from_a_far_start(n_classes):
    """The parabola there, where p is 0 or 1, says little about the minimum."""
    toy = toy_pool(np.random.default_rng(n_classes), n_classes)
    pool, value, _ = fit_pool(*toy)
    for side in (30.0, -30.0):
        weights = np.array([[0.0, 30.0, 9 * side], [1e-14, 30.0, 9 * side]])
        far = replace(pool, weights=weights, offset=np.linspace(-side, side, n_classes))
        assert fit_pool(*toy, start_from=far)[1] == pytest.approx(value, rel=1e-8)


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

    monkeypatch.setattr("polycal.posterior.fit.minimize_convex", counted)
    proba = np.exp(views[:, 0]) / np.exp(views[:, 0]).sum(axis=2, keepdims=True)
    shifted = proba * prior / (proba * prior).sum(axis=2, keepdims=True)
    _, value, _ = fit_pool(np.stack([views_of(p, prior, 60) for p in shifted]), y, weight, prior)
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


@pytest.mark.parametrize("depth", [1, None], ids=["stumps", "deep"])
def test_labels_without_signal_give_about_the_prior(depth):
    """No confidence is invented: calibration rows do not see a trace of their own label."""
    losses, confidences = [], []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(1200, 3)), np.arange(1200) % 2
        parent = small_forest(max_depth=depth, random_state=seed)
        model = GeodesicCalibrator(parent, random_state=seed).fit(X[:800], y[:800])
        P = model.predict_proba(X[800:])
        losses.append(-np.log(P[np.arange(400), y[800:]]).mean())
        confidences.append(P.max(axis=1).mean())
    # The pool has 8 free numbers and 240 calibration rows: 8 / (2 * 240) = 0.017 is chance.
    assert np.mean(losses) < np.log(2) + 0.017 + 0.01
    assert np.mean(confidences) < 0.57


def test_constant_features_give_the_prior():
    X, y = np.ones((200, 3)), np.arange(200) % 2
    model = GeodesicCalibrator(small_forest(), random_state=0).fit(X, y)
    assert_allclose(model.predict_proba(X[:1]), [[0.5, 0.5]], atol=0.02)


@pytest.mark.parametrize("posterior", ["pooled", "parent", "kernel"])
def test_class_shares_of_the_calibration_rows_do_not_matter(posterior):
    """X half and half, X_cal 90 / 10: the answer follows ``prior``, whatever X_cal holds."""
    X, y = make_classification(6000, n_features=6, n_informative=4, class_sep=0.7, random_state=1)
    few = np.flatnonzero(y[2000:4000] == 1)[:90] + 2000
    held = np.r_[np.flatnonzero(y[2000:4000] == 0)[:810] + 2000, few]
    new = np.r_[np.flatnonzero(y[4000:] == 0)[:810], np.flatnonzero(y[4000:] == 1)[:90]] + 4000
    model = GeodesicCalibrator(small_forest(n_estimators=50), posterior=posterior, prior=[0.9, 0.1])
    model.fit(X[:2000], y[:2000], X_cal=X[held], y_cal=y[held])
    assert model.predict_proba(X[new])[:, 1].mean() == pytest.approx(0.1, abs=0.03)
    even = GeodesicCalibrator(small_forest(n_estimators=50), posterior=posterior)
    even.fit(X[:2000], y[:2000], X_cal=X[held], y_cal=y[held])
    assert even.priors_[1] == pytest.approx(0.5, abs=0.02)
    assert even.predict_proba(X[4000:])[:, 1].mean() == pytest.approx(0.5, abs=0.05)


def test_the_pool_is_fitted_for_the_mixture_that_is_used():
    """Rows that the gate gives to the prior have labels at random, and must not bend the pool."""
    rng = np.random.default_rng(0)
    n, prior = 4000, np.array([0.5, 0.5])
    P = rng.uniform(0.02, 0.98, n)[:, None] * [-1, 1] + [1, 0]
    inside = rng.random(n) < 0.8
    y = (rng.random(n) < np.where(inside, P[:, 1], 0.5)).astype(int)
    alpha, weight = np.where(inside, 0.999, 0.001), np.ones(n)
    first, _, _ = fit_pool(views_of(P, prior, n)[None], y, weight, prior)
    before = Posterior(None, first, prior, prior, prior, n)
    rows = CalibrationLabels(y, weight, P, prior, n, n)
    after = refit_through_gate(before, None, (1,), rows, alpha)

    def loss(posterior):
        found = mixture(alpha, posterior.log_proba(P), prior)
        return -np.log(found[np.arange(n), y]).mean()

    assert loss(after) < loss(before) - 0.005
    assert np.abs(np.exp(after.log_proba(P))[inside] - P[inside]).mean() < 0.02
    everywhere = refit_through_gate(before, None, (1,), rows, np.ones(n))
    assert_allclose(everywhere.pool.weights, first.weights, atol=1e-3)
    votes = Posterior(1.0, None, prior, prior, prior, n)
    assert refit_through_gate(votes, P[None], (1, 1), rows, alpha) is votes  # no pool


def two_sources(n=400, seed=0, right="parent"):
    """Calibration rows of a parent and of votes, one of which is the truth and the other noise."""
    rng = np.random.default_rng(seed)
    prior = np.array([0.5, 0.5])
    truth, noise = (rng.uniform(0.02, 0.98, n)[:, None] * [-1, 1] + [1, 0] for _ in range(2))
    y = (rng.random(n) < truth[:, 1]).astype(int)
    parent, votes = (truth, noise) if right == "parent" else (noise, truth)
    rows = CalibrationLabels(y, np.ones(n), parent, prior, n, n)
    return rows, votes[None], truth, fit_pooled(votes[None], (1, 1), rows, prior)


def test_evidence_by_hand(monkeypatch):
    """Laplace's method, with the curvature that the optimiser sees; weights at 0 are left out."""
    views, y, weight, prior = toy_pool(np.random.default_rng(1), 3)
    views[1] = views_of(np.roll(np.exp(views[1, 0]), 1, axis=1), prior, len(y))  # mostly wrong
    toy, n = (views, y, weight, prior), len(y)
    loss = spied_loss(monkeypatch, *toy)["loss"]
    pool, lowest, found = fit_pool(*toy)
    theta = np.append(pool.weights, pool.offset)
    free = np.append(np.tile([False, False, True], len(views)), np.ones(3, dtype=bool))
    inside = free | (theta > 0)
    assert not inside.all()
    curvature = n * loss(theta)[2][np.ix_(inside, inside)]
    expected = -n * lowest - 0.5 * np.linalg.slogdet(curvature)[1]  # log precision is 0
    assert found == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_evidence_says_whether_the_parent_alone_is_right(seed):
    for right in ("parent", "votes"):
        rows, votes, truth, before = two_sources(seed=seed, right=right)
        known = (before, votes, (1, 1), rows, np.ones(len(truth)))
        after = refit_through_gate(*known, believe_parent=True)
        plain = refit_through_gate(*known)
        if right == "votes":
            assert_allclose(after.pool.weights, plain.pool.weights, atol=1e-3)
            continue
        close = PoolPrior.parent_alone(2)
        assert np.abs(after.pool.weights - close.centre).max() < 0.3
        assert after.pool.levels is None
        found, other = (
            np.abs(np.exp(posterior.log_proba(rows.parent_proba, votes)) - truth).mean()
            for posterior in (after, plain)
        )
        assert found < other


@pytest.mark.slow
@pytest.mark.parametrize(("n", "most"), [(150, 0.005), (600, 0.002)])
def test_a_parent_that_is_right_loses_little(n, most):
    """Logistic regression on labels of a logistic model, mean of twelve data sets."""
    extra = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(n + 2000, 6))
        y = (X @ rng.normal(size=6) + rng.logistic(size=len(X)) > 0).astype(int)
        plain = LogisticRegression().fit(X[:n], y[:n])
        model = GeodesicCalibrator(LogisticRegression(), random_state=seed).fit(X[:n], y[:n])
        own, ours = (
            -np.log(m.predict_proba(X[n:])[np.arange(2000), y[n:]]).mean() for m in (plain, model)
        )
        extra.append(ours - own)
    assert np.mean(extra) < most
