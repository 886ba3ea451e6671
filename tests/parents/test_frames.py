"""Tables with other values, as a library of boosted trees needs them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest

from polycal.parents.frames import clip_to_float32, fill_empty_columns, nan_for_missing

A, EMPTY = [1.0, np.nan], [np.nan, np.nan]


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, lambda t: np.array([*t.values()]).T])
def test_columns_without_a_value_become_zero(make):
    found = fill_empty_columns(make({"a": A, "b": EMPTY}))
    np.testing.assert_array_equal(np.asarray(found), [[1.0, 0.0], [np.nan, 0.0]])


def test_other_columns_stay():
    frame = pd.DataFrame({"a": A, "b": pd.Categorical([None, None])})
    assert fill_empty_columns(frame) is frame
    array = np.array([A, A]).T
    assert fill_empty_columns(array) is array
    whole = np.array([[1, 2]])
    assert fill_empty_columns(whole) is whole
    found = fill_empty_columns(pl.DataFrame({"a": A, "b": [None, None]}))
    assert found["b"].to_list() == [0.0, 0.0]


def test_markers_and_large_numbers():
    frame = pd.DataFrame({"a": [-1.0, 1e300], "b": ["x", "y"]})
    assert nan_for_missing(frame, -1.0)["a"].isna().tolist() == [True, False]
    assert nan_for_missing(np.array([[-1, 2]]), -1).tolist()[0][1] == 2
    assert nan_for_missing(frame, np.nan) is frame
    assert clip_to_float32(frame)["a"].tolist()[1] == pytest.approx(3.4028235e38)
    assert clip_to_float32(pl.DataFrame({"a": [1e300]}))["a"][0] == pytest.approx(3.4028235e38)
