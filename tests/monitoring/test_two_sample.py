"""The comparison of two samples: valid at any size, and each statistic by hand."""

from __future__ import annotations

import numpy as np
import pytest

from polycal.monitoring import two_sample
from polycal.monitoring.two_sample import (
    column_statistics,
    compare,
    mean_statistic,
    memberships,
    tail_statistic,
)


def mixed(rng, n_known, n_new):
    """Numbers with missing values, one of few values, and a symbol."""
    n = n_known + n_new
    rows = rng.normal(size=(n, 4))
    rows[rng.random(n) < 0.2, 1] = np.nan
    rows[:, 2] = rows[:, 2].round()
    rows[:, 3] = rng.integers(0, 4, n)
    score = rows[:, 0] + rng.normal(size=n)
    return rows, np.array([False, False, False, True]), {"log f": score}


@pytest.mark.parametrize(("n_known", "n_new"), [(40, 200), (200, 30)])
def test_alarms_without_a_difference(monkeypatch, n_known, n_new):
    """The p-value is at most t in at most a share t of the samples, for each statistic too."""
    monkeypatch.setattr(two_sample, "N_PERMUTATIONS", 79)
    rng = np.random.default_rng(0)
    found = []
    for _ in range(300):
        difference = compare(*mixed(rng, n_known, n_new), n_known, rng)
        found.append([difference.p_value, *difference.by_part.values()])
    for t in (0.05, 0.2):
        rate = (np.array(found) <= t + 1e-9).mean(axis=0)
        assert (rate <= t + 3.5 * np.sqrt(t * (1 - t) / 300)).all(), rate


@pytest.mark.parametrize("change", ["number", "missing", "symbol", "score", "together"])
def test_each_kind_of_difference_is_seen(change):
    rng = np.random.default_rng(1)
    rows, is_symbol, scores = mixed(rng, 300, 200)
    new = np.arange(300, 500)
    if change == "number":
        rows[new, 0] += 0.7
    elif change == "missing":
        rows[new[:80], 1] = np.nan
    elif change == "symbol":
        rows[new[:60], 3] = 9
    elif change == "score":
        scores["log f"][new[:30]] -= 9
    else:  # many numbers move a little
        rows, is_symbol = rng.normal(size=(500, 12)), np.zeros(12, dtype=bool)
        rows[new] += 0.15
    found = compare(rows, is_symbol, scores, 300, rng)
    assert found.p_value <= 0.01
    column = {"number": 0, "missing": 1, "symbol": 3}.get(change)
    if column is not None:
        assert found.column_p[column] <= 0.01
        assert np.argmin(found.column_p) == column
        assert found.largest >= found.column_distance[column] > 0.15
    if change == "together":
        assert found.by_part["means"] <= 0.01
        assert found.by_part["means"] < found.by_part["columns"]


def test_column_statistics_by_hand():
    """Of five known rows none, and of five new rows four are symbol 1; binary numbers likewise."""
    rows = np.array([[0, 0]] * 5 + [[1, 1]] * 4 + [[0, 0]], dtype=float)
    batch = memberships(5, 5, np.random.default_rng(0))
    z, distance = column_statistics(rows, np.array([False, True]), batch)
    np.testing.assert_allclose(distance, [0.8, 0.8])
    # 4 of 10 rows are ones: mean 2, variance 4 * 1/2 * 1/2 * 6/9.
    np.testing.assert_allclose(z[:, 0], 2 / np.sqrt(2 / 3))
    assert column_statistics(np.zeros((10, 1)), np.array([False]), batch)[0].max() == 0


def test_the_tail_counts_low_scores_alone():
    batch = memberships(50, 50, np.random.default_rng(0))
    low = np.concatenate([np.arange(50.0), np.full(10, -5.0), np.arange(40.0) + 0.5])
    z, size = tail_statistic(low, batch)
    assert z[0] > 3
    assert 0.15 < size <= 0.2
    assert tail_statistic(-low, batch)[0][0] < 3


def test_columns_in_blocks_are_columns_at_once(monkeypatch):
    rng = np.random.default_rng(2)
    rows, is_symbol, _ = mixed(rng, 30, 20)
    batch = memberships(30, 20, rng)
    whole = column_statistics(rows, is_symbol, batch)
    monkeypatch.setattr(two_sample, "BLOCK", 1)
    for one, other in zip(whole, column_statistics(rows, is_symbol, batch), strict=True):
        np.testing.assert_allclose(one, other)


def test_means_by_hand():
    """A column of six zeros and six ones has the mean 1/2 and the variance 1/4."""
    rows = np.repeat([0.0, 1.0, 0.0, 1.0], [5, 4, 1, 2])[:, None]
    batch = memberships(5, 7, np.random.default_rng(0))
    sums = (2 * rows[:, 0] - 1) @ batch
    np.testing.assert_allclose(mean_statistic(rows, batch), np.sqrt(sums**2 / 2), rtol=1e-6)
    nothing = np.column_stack([np.full(12, np.nan), np.ones(12)])
    assert (mean_statistic(nothing, batch) == 0).all()


def test_more_columns_than_rows_are_compared_in_the_same_way():
    """Columns that are copies of one count as one with a smaller ridge, on either side."""
    rng = np.random.default_rng(3)
    rows, batch = rng.normal(size=(40, 3)), memberships(25, 15, rng)
    some, many = (mean_statistic(np.tile(rows, (1, k)), batch) for k in (13, 14))
    np.testing.assert_allclose(some, many, rtol=0.01)
    assert some.argmax() == many.argmax()
