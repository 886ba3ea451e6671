"""Conformal p-values, selection, and the share of new rows: what they promise, by simulation."""

from __future__ import annotations

import numpy as np
import pytest

from polycal.monitoring.conformal import one_of_each, p_values, select, share_new


def test_p_values_count_ties_against_the_row():
    known = np.array([1.0, 2.0, 2.0, 3.0])
    found = p_values(known, np.array([0.0, 2.0, 2.5, 9.0, -np.inf]))
    np.testing.assert_allclose(found, [0.2, 0.8, 0.8, 1.0, 0.2])


@pytest.mark.parametrize("draw", ["normal", "ties"])
def test_p_values_are_valid(draw):
    """P(p <= t) is at most t, on average over calibration sets."""
    rng = np.random.default_rng(0)
    found = []
    for _ in range(4000):
        rows = rng.normal(size=25) if draw == "normal" else rng.integers(0, 4, 25).astype(float)
        found.append(p_values(rows[:24], rows[24:])[0])
    for t in (0.04, 0.12, 0.4):
        assert np.mean(np.array(found) <= t) <= t + 3 * np.sqrt(t * (1 - t) / 4000)


def test_selection_keeps_the_false_discovery_rate_and_finds_new_rows():
    rng = np.random.default_rng(1)
    false, found = [], []
    for _ in range(400):
        known = rng.normal(size=400)
        new = np.concatenate([rng.normal(size=170), rng.normal(-4, 1, size=30)])
        chosen = select(p_values(known, new), 0.1)
        false.append(chosen[:170].sum() / max(chosen.sum(), 1))
        found.append(chosen[170:].mean())
    assert np.mean(false) <= 0.1 + 3 * np.std(false) / 20
    assert np.mean(found) > 0.7


def test_selection_by_hand():
    p = np.array([0.01, 0.02, 0.6, 0.9])  # three quarters at most are not new: (1 + 2) / (4 / 2)
    assert select(p, 0.1).tolist() == [True, True, False, False]
    assert not select(p, 0.01).any()


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5])
def test_interval_of_the_share_of_new_rows(share):
    """Far rows are all seen, so that the share itself is in the interval."""
    rng = np.random.default_rng(2)
    inside, middle = [], []
    for _ in range(100):
        n_new = int(share * 300)
        new = np.concatenate([rng.normal(-9, 1, n_new), rng.normal(size=300 - n_new)])
        value, low, high = share_new([(rng.normal(size=500), new)], 0.95)
        assert low <= value <= high
        inside.append(low <= share <= high)
        middle.append(value)
    assert np.mean(inside) >= 0.93
    assert abs(np.median(middle) - share) < 0.03


def test_the_lower_end_is_a_whole_number_of_rows_and_0_for_few():
    _, low, high = share_new([(np.arange(30.0), np.array([5.0]))], 0.95)
    assert low == 0.0
    assert high <= 1.0
    assert share_new([(np.arange(30.0), np.array([-5.0]))], 0.95)[1] == 0.0
    assert share_new([(np.arange(300.0), np.full(40, -5.0))], 0.95)[1] > 0.8


def test_one_row_of_each_group_and_rows_by_their_weight():
    rng = np.random.default_rng(3)
    group = np.repeat(np.arange(2000), 2)
    weight = np.where(np.arange(4000) < 2000, 1.0, 0.25)
    rows = one_of_each(group, weight, rng)
    assert len(np.unique(group[rows])) == len(rows)
    heavy = rows < 2000
    assert heavy.sum() == 1000
    assert 200 < (~heavy).sum() < 300
    assert len(one_of_each(np.arange(50), np.full(50, 0.7), rng)) == 50
