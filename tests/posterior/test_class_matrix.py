"""The matrix: what one class's probability says for another."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize
from scipy.special import log_softmax

from polycal.posterior import class_matrix
from polycal.posterior.class_matrix import fit_class_matrix
from polycal.posterior.fit import CalibrationLabels, fit_pooled, refit_through_gate


def toy(n=300, n_classes=4, seed=0):
    """Two sources, log pi of a pool, class codes, weights and priors."""
    rng = np.random.default_rng(seed)
    proba = rng.dirichlet(np.ones(n_classes), (2, n))
    log_pi = np.log(0.5 * proba[0] + 0.5 * rng.dirichlet(np.ones(n_classes), n))
    y = np.array([rng.choice(n_classes, p=p) for p in proba[1]])
    shares, prior = np.array([0.25, 0.75]), rng.dirichlet(np.full(n_classes, 9))
    return log_pi, proba, shares, y, rng.uniform(0.5, 2, n), prior, 0.8 * n


def penalised(theta, log_pi, proba, shares, y, weight, prior, n):
    """The log-loss with labels smoothed by one row of the prior, and the ridge."""
    k = len(prior)
    M, offset = theta.reshape(k, k + 1)[:, :k], theta.reshape(k, k + 1)[:, k]
    q = shares[0] * proba[0] + shares[1] * proba[1]
    found = np.array([lp + M @ np.log(row) + offset for lp, row in zip(log_pi, q, strict=True)])
    found = log_softmax(found, axis=1)
    target = (n * np.eye(k)[y] + prior) / (n + 1)
    return -np.average((target * found).sum(1), weights=weight) + 0.5 * k / n * (theta**2).sum()


@pytest.mark.parametrize("n_classes", [3, 4])
def test_the_matrix_is_the_minimum_that_scipy_finds(n_classes):
    rows = toy(n_classes=n_classes)
    matrix, offset = fit_class_matrix(*rows)
    found = np.column_stack([matrix.weights, offset]).ravel()
    how = {"method": "BFGS", "options": {"gtol": 1e-7}}
    expected = minimize(penalised, np.zeros(len(found)), args=rows, **how)
    assert penalised(found, *rows) <= expected.fun + 1e-12
    assert_allclose(found, expected.x, atol=1e-4)
    assert np.abs(found).max() > 0.05


def test_relabelled_classes_permute_the_matrix():
    log_pi, proba, shares, y, weight, prior, n = toy()
    matrix, offset = fit_class_matrix(log_pi, proba, shares, y, weight, prior, n)
    order = np.array([2, 0, 3, 1])
    new = np.argsort(order)[y]  # the class that was order[c] is now c
    known = (log_pi[:, order], proba[..., order], shares, new, weight, prior[order], n)
    other, other_offset = fit_class_matrix(*known)
    assert_allclose(other.weights, matrix.weights[np.ix_(order, order)], atol=1e-7)
    assert_allclose(other_offset, offset[order], atol=1e-7)


def test_rows_do_not_depend_on_the_others():
    rows = toy()
    (matrix, offset), again = fit_class_matrix(*rows), fit_class_matrix(*rows)
    assert_array_equal(matrix.weights, again[0].weights)
    assert_array_equal(offset, again[1])
    proba, together = rows[1], matrix(rows[1])
    assert_array_equal(np.concatenate([matrix(proba[:, i : i + 1]) for i in range(300)]), together)
    q = np.tensordot(matrix.shares, proba, 1)
    assert_allclose(together, np.log(q) @ matrix.weights.T, rtol=1e-12, atol=1e-12)


def test_a_class_that_tells_two_others_apart():
    """Both sources give classes 0 and 1 alike; that of 2 is high where the label is 1."""
    rng = np.random.default_rng(0)
    n, prior = 2000, np.array([0.4, 0.4, 0.2])
    y = rng.choice(3, n, p=prior)
    third = np.where(y == 1, 0.2, 0.05) * rng.uniform(0.8, 1.25, n)
    third[y == 2] = 0.8
    P = np.column_stack([(1 - third) / 2, (1 - third) / 2, third])
    rows = CalibrationLabels(y[::2], np.ones(n // 2), P[::2], prior, n, n // 2)
    posterior = fit_pooled(None, (1,), rows, prior)
    posterior = refit_through_gate(posterior, None, (1,), rows, np.ones(n // 2))
    without = replace(posterior, pool=replace(posterior.pool, matrix=None))
    right, before = (
        np.exp(p.log_proba(P[1::2]))[np.arange(n // 2), y[1::2]] for p in (posterior, without)
    )
    assert -np.log(before).mean() > 0.4
    assert -np.log(right).mean() < 0.1


def test_labels_at_random_leave_the_matrix_small():
    """20 classes of ten rows each: 400 numbers that say nothing."""
    rng = np.random.default_rng(0)
    n, k = 200, 20
    proba, prior = rng.dirichlet(np.ones(k), (1, 5 * n)), np.full(k, 1 / k)
    y, log_pi = np.arange(5 * n) % k, np.log(np.full((5 * n, k), 1 / k))
    known = (log_pi[:n], proba[:, :n], np.ones(1), y[:n], np.ones(n), prior, n)
    matrix, offset = fit_class_matrix(*known)
    new = log_softmax(log_pi[n:] + matrix(proba[:, n:]) + offset, axis=1)
    assert -new[np.arange(4 * n), y[n:]].mean() < np.log(k) + 0.25


def test_two_or_many_classes_have_none_and_many_rows_are_sampled(monkeypatch):
    assert fit_class_matrix(*toy(n_classes=2)) is None
    rows = toy(n=20_000)
    every, _ = fit_class_matrix(*rows)
    monkeypatch.setattr(class_matrix, "MOST_PRODUCTS", 16 * 15_000)
    some, _ = fit_class_matrix(*rows)
    assert 0 < np.abs(some.weights - every.weights).max() < 0.05
    monkeypatch.setattr(class_matrix, "MOST_CLASSES", 3)
    assert fit_class_matrix(*rows) is None
