"""Levels of confidence, and rows brought to a confidence."""

from __future__ import annotations

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal

from polycal.posterior.levels import fit_levels, with_confidence


def test_confidence_map_follows_the_share_of_right_answers():
    rng = np.random.default_rng(0)
    P = rng.dirichlet([1, 1, 1], 6000)
    # Right eight times as often in ten as the confidence says.
    right = rng.random(6000) < 0.8 * P.max(axis=1)
    y = np.where(right, P.argmax(axis=1), P.argmin(axis=1))
    levels = fit_levels(np.log(P), y, np.ones(6000))
    moved = np.exp(levels(np.log(P)))
    assert_allclose(moved.sum(axis=1), 1)
    assert_array_equal(moved.argsort(axis=1), P.argsort(axis=1))
    # Where many rows support a level; within it all rows come close together.
    before, after = P.max(axis=1), moved.max(axis=1)
    inner = (before > 0.5) & (before < 0.9)
    assert np.abs(after[inner] - 0.8 * before[inner]).mean() < 0.065
    # The order of rows stays; with three classes, where the twofold limit does not hold.
    reached = np.abs(after - levels.target(before)) < 1e-9
    assert reached.mean() > 0.7
    order = np.argsort(before[reached])
    assert (np.diff(after[reached][order]) > -1e-9).all()
    assert (np.diff(levels.target(np.linspace(0.34, 1, 500))) > 0).all()


def test_confidence_levels_by_hand():
    """Four rows at 0.6 with two right, four at 0.9 with all right, 100 rows of the pool each."""
    P = np.repeat([[0.6, 0.4], [0.9, 0.1]], 4, axis=0)
    y = np.array([0, 0, 1, 1, 0, 0, 0, 0])
    levels = fit_levels(np.log(P), y, np.ones(8))
    assert_allclose(levels.value, [(2 + 60) / 104, (4 + 90) / 104])
    assert_allclose(levels.edge, [0.75])
    expected = [0.1 * 0.7 + 0.9 * 62 / 104, 0.1 * 0.8 + 0.9 * 94 / 104]
    assert_allclose(levels.target(np.array([0.7, 0.8])), expected)


def test_no_confidence_levels_where_the_rows_themselves_pay_for_them():
    """All right, half of them sure and half undecided: one level would take the sure ones' word."""
    P = np.repeat([[0.98, 0.01, 0.01], [0.51, 0.48, 0.01]], 24, axis=0)
    right, weight = np.zeros(48, dtype=int), np.ones(48)
    assert fit_levels(np.log(P), right, weight) is None
    half_right = np.arange(48) // 24 * (np.arange(48) % 2)
    assert len(fit_levels(np.log(P), half_right, weight).value) == 2


def test_with_confidence_reaches_its_target_and_keeps_the_order():
    rng = np.random.default_rng(1)
    P = rng.dirichlet(np.ones(5), 200)
    limits = [(P**t / (P**t).sum(axis=1, keepdims=True)).max(axis=1) for t in (0.5, 2.0)]
    target = rng.uniform(*limits)
    moved = np.exp(with_confidence(np.log(P), target))
    assert_allclose(moved.max(axis=1), target, rtol=1e-13)
    assert_array_equal(moved.argsort(axis=1), P.argsort(axis=1))
    for far, limit in zip((0.0, 1.0), limits, strict=True):  # at most twofold
        assert_allclose(np.exp(with_confidence(np.log(P), np.full(200, far))).max(axis=1), limit)


def test_with_confidence_where_a_class_is_excluded():
    """0.64 and 0.36 to the power 1/2 are as 4 to 3; what has no probability gets none."""
    with np.errstate(divide="ignore"):
        log_proba = np.log([[0.64, 0.36, 0.0], [0.64, 0.36, 0.0]])
    moved = np.exp(with_confidence(log_proba, np.array([4 / 7, 0.7])))
    assert_allclose(moved, [[4 / 7, 3 / 7, 0.0], [0.7, 0.3, 0.0]], rtol=1e-12)
