"""Labelled rows: their weights, and how many groups they are worth."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from polycal.decisions.rows import JudgedRows, n_groups_worth


def test_weights_follow_the_class_shares():
    P = np.array([[0.9, 0.1], [0.2, 0.8], [0.5, 0.5], [0.3, 0.7]])
    y, group = np.array([0, 1, 0, 1]), np.array([0, 0, 1, 1])
    out = np.array([False, False, True, False])
    rows = JudgedRows.with_prior(P, y, np.array([1.0, 1, 2, 2]), group, out, np.array([0.5, 3]))
    assert_array_equal(rows.weight, [0.5, 3, 1, 6])
    assert_array_equal(rows.new_weight, [1.5, 9])  # 6 in two groups
    assert_array_equal(rows.own, [0.9, 0.8, 0.5, 0.7])
    inside = rows.take(~out)
    assert len(inside) == 3
    assert_array_equal(inside.own, [0.9, 0.8, 0.7])
    assert_array_equal(inside.new_weight, rows.new_weight)


def test_groups_worth():
    assert n_groups_worth(np.empty(0), np.empty(0, int)) == 0
    assert n_groups_worth(np.ones(6), np.arange(6)) == 6
    assert n_groups_worth(np.ones(6), np.array([5, 5, 5, 2, 2, 2])) == 2
    assert n_groups_worth(np.array([1.0, 3.0]), np.arange(2)) == pytest.approx(1.6)
    assert_allclose(n_groups_worth(np.array([4.0, 1e-9]), np.arange(2)), 1)
