"""Hand-computed toys for the measures and the simulated data."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.metrics import roc_auc_score

from polycal.metrics import (
    auroc,
    expected_calibration_error,
    mean_max_confidence,
    ood_calibration_error,
)
from polycal.simulations import make_gaussian_xor, sample_sphere


def test_ece_toys():
    P = np.tile([0.9, 0.1], (10, 1))
    y = np.array([0] * 6 + [1] * 4)
    assert expected_calibration_error(y, P) == pytest.approx(0.3)
    assert expected_calibration_error(y, P, n_bins=1) == pytest.approx(0.3)
    perfect = np.tile([0.6, 0.4], (10, 1))
    assert expected_calibration_error(y, perfect) == pytest.approx(0.0, abs=1e-12)
    certain = np.eye(2)[y]
    assert expected_calibration_error(y, certain) == 0.0


@pytest.mark.parametrize("n_bins", [5, 10, 15, 20])
def test_a_confidence_on_an_edge_falls_into_the_bin_that_it_closes(n_bins):
    """Gaps of opposite sign cancel in one bin and add up in two."""
    for r in range(n_bins // 2 + 1, n_bins):
        edge = r / n_bins
        inside = (r - 0.5) / n_bins
        P = np.array([[edge, 1 - edge], [inside, 1 - inside]])
        error = expected_calibration_error([1, 0], P, n_bins=n_bins)
        assert error == pytest.approx(abs(edge + inside - 1) / 2)


def test_ece_equals_its_definition_by_loop():
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.ones(3), 500)
    y, weight = rng.integers(0, 3, 500), rng.uniform(0, 2, 500)
    total = 0.0
    for r in range(20):
        c = P.max(axis=1)
        inside = (c > r / 20) & (c <= (r + 1) / 20)
        right = P.argmax(axis=1) == y
        total += abs((weight * (c - right))[inside].sum())
    expected = total / weight.sum()
    assert expected_calibration_error(y, P, sample_weight=weight) == pytest.approx(expected)


def test_the_other_measures():
    P = [[0.7, 0.3], [0.4, 0.6]]
    assert mean_max_confidence(P) == pytest.approx(0.65)
    assert ood_calibration_error(P, [0.5, 0.5]) == pytest.approx(0.15)
    rng = np.random.default_rng(0)
    inside, outside = rng.integers(2, 9, 50), rng.integers(0, 6, 70)
    expected = roc_auc_score(np.r_[np.ones(50), np.zeros(70)], np.r_[inside, outside])
    assert auroc(inside, outside) == pytest.approx(expected)


def test_gaussian_xor():
    X, y = make_gaussian_xor(20_000, random_state=0)
    assert y.mean() == 0.5
    for label, sign in ((0, -1), (1, 1)):
        rows = X[y == label]
        upper = rows[rows[:, 0] > 0]
        assert_allclose(rows.mean(axis=0), 0, atol=0.02)
        assert np.sign(np.median(upper[:, 1])) == sign
        assert (rows**2).mean() == pytest.approx(0.25 + 0.0625, rel=0.02)


def test_sphere():
    X = sample_sphere(1000, 7, 3.0, random_state=0)
    assert_allclose(np.linalg.norm(X, axis=1), 3.0)
    assert_allclose(X.mean(axis=0), 0, atol=0.2)
