"""Costs: dicts and tables, and the cheapest class."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from polycal.decisions.costs import cheapest, cost_matrix

WORDS = np.array(["bad", "good"])


def test_a_dict_lists_what_is_not_one():
    assert_array_equal(cost_matrix(None, WORDS), [[0, 1], [1, 0]])
    found = cost_matrix({("bad", "good"): 5, ("good", "good"): -0.5}, WORDS)
    assert_array_equal(found, [[0, 5], [1, -0.5]])
    assert_array_equal(cost_matrix({(2, 7): 3.0}, np.array([2, 7])), [[0, 3], [1, 0]])


def test_a_table_is_taken_as_it_is():
    assert_array_equal(cost_matrix([[0, 2], [3, 0]], WORDS), [[0, 2], [3, 0]])


@pytest.mark.parametrize(
    "costs",
    [
        {"bad": 3},
        {("bad", "fair"): 3},
        {("bad", "good", "bad"): 3},
        {("bad", "good"): "much"},
        {("bad", "good"): np.nan},
        [[0, 1, 2], [1, 0, 2]],
        {("bad", "good"): 1e101},
        [[0, np.inf], [1, 0]],
        [[0, 1e308], [1, 0]],
        [[0, 1j], [1, 0]],
        "cheap",
        3,
    ],
)
def test_bad_costs(costs):
    with pytest.raises(ValueError, match="cost"):
        cost_matrix(costs, WORDS)


def test_the_cheapest_class_is_not_always_the_likeliest():
    P = np.array([[0.1, 0.9], [0.3, 0.7], [0.5, 0.5]])
    costs = np.array([[0.0, 5.0], [1.0, 0.0]])  # "good" for a bad one costs 5
    chosen, cost = cheapest(P, costs, P.argmax(axis=1))
    assert chosen.tolist() == [1, 0, 0]
    assert_allclose(cost, [0.5, 0.7, 0.5])
    even = np.array([[0.0, 1.0], [1.0, 0.0]])
    assert cheapest(P, even, np.array([1, 1, 1]))[0].tolist() == [1, 1, 1]
