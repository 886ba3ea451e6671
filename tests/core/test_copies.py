"""Copies of rows, in any container."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest

from polycal.core import copies
from polycal.core.copies import copies_between, find_copies

NAMES = list("abc")
FRAMES = {
    "array": lambda X: X,
    "pandas": lambda X: pd.DataFrame(X, columns=NAMES),
    "objects": lambda X: pd.DataFrame(X, columns=NAMES).astype(object),
    "nullable": lambda X: pd.DataFrame(X, columns=NAMES).convert_dtypes(),
    "polars": lambda X: pl.DataFrame(X, schema=NAMES),
}


def rows():
    X = np.random.default_rng(0).normal(size=(60, 3))
    X[3:9, 1] = np.nan
    X[5, 2] = 0.0
    return X


@pytest.mark.parametrize("first", FRAMES)
@pytest.mark.parametrize("second", FRAMES)
def test_copies_are_found_in_any_container(first, second):
    X = rows()
    shared, chance = copies_between(FRAMES[first](X[:50]), FRAMES[second](X[30:]))
    assert shared.tolist() == [True] * 20 + [False] * 10
    assert chance < 1e-6


def test_zeros_and_nan_have_several_bits():
    X = np.r_[rows(), rows()]
    X[65, 2] = -0.0
    X[63:69, 1] = -np.float64(np.nan)
    for frame in FRAMES.values():
        groups = find_copies(frame(X))
        np.testing.assert_array_equal(groups[:60], groups[60:])


def test_numbers_of_a_frame_are_no_python_objects(monkeypatch):
    """200,000 rows of 20 numbers would take seconds."""
    monkeypatch.setattr(copies, "_code", None)
    X = pd.DataFrame(rows(), columns=NAMES).assign(d=range(60), e=True)
    assert find_copies(X) is None
