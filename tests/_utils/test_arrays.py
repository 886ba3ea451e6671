"""What is checked of arrays: shares and order."""

from __future__ import annotations

import numpy as np
import pytest

from polycal._utils.arrays import are_shares, is_ascending

LOWEST, HIGHEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


@pytest.mark.parametrize(
    ("values", "ascending", "strictly"),
    [
        ([], True, True),
        ([7], True, True),
        ([1, 2, 3], True, True),
        ([1, 1, 2], True, False),
        ([2, 1], False, False),
        ([3, 2**18, LOWEST + 7], False, False),  # of which the difference overflows
        ([-2, HIGHEST], True, True),
        ([HIGHEST, LOWEST], False, False),
    ],
)
def test_order(values, ascending, strictly):
    array = np.array(values, dtype=np.int64)
    assert is_ascending(array) == ascending
    assert is_ascending(array, strictly=True) == strictly


def test_shares():
    rows = np.array([[0.25, 0.75], [0.0, 1.0]])
    assert are_shares(rows)
    assert not are_shares(rows + np.array([0.0, 1e-6]))
    assert are_shares(rows + np.array([0.0, 1e-6]), tolerance=1e-5)
    assert not are_shares(rows - [[0.0, 1e-6], [0.0, 0.0]])
    assert not are_shares(np.array([-0.5, 1.5]))
    assert not are_shares(np.array([np.nan, 1.0]))
