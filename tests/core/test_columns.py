"""Ranges, quartiles and fences of columns, which a few far values do not move."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from polycal.core import columns as columns_module
from polycal.core.columns import FAR, Columns, Fences


def test_a_tail_is_part_of_the_range():
    x = np.concatenate([np.linspace(0, 2, 101), [5, 14, 24, 34, 44, 55, 55, 55, 60]])[:, None]
    columns = Columns.of(np.concatenate([x, -x], axis=1))
    assert_array_equal([columns.low, columns.high], [[0, -60], [60, 0]])
    middle = np.quantile(x, [0.25, 0.75]).mean()
    assert_allclose(columns.unit, 60 - middle)
    assert (
        columns.spread[0]
        == columns.spread[1]
        == pytest.approx(np.subtract(*np.quantile(x, [0.75, 0.25])))
    )
    assert_allclose(columns.upper[0], np.quantile(x, 0.75) + 10 * columns.spread[0])


def test_squares_that_overflow_are_refused():
    X = np.random.default_rng(0).normal(size=(50, 2))
    Columns.of(X * [1, 1e149]).check(np.arange(2))
    with pytest.raises(ValueError, match="column 1 are larger than 1e.150.*Divide the column"):
        Columns.of(X * [1, 1e154]).check(np.arange(2))


def test_the_spread_of_a_column_that_hardly_varies():
    rare = np.zeros(100)
    rare[:5] = 8.0
    nothing = np.full(100, np.nan)
    X = np.stack([rare, np.full(100, -3.0), np.zeros(100), nothing, np.full(100, 0.1)], axis=1)
    X[0, 4] += 1e-17
    columns = Columns.of(X)
    assert_allclose(columns.spread, [rare.std(), 3, 1, 1, 0.1])
    assert_allclose(columns.unit, [8, 3, 1, 1, 0.1])
    assert np.isinf(columns.upper).all()
    assert columns.clip(X) is X


@pytest.mark.parametrize("factor", [2.0**-40, 2.0**40])
def test_columns_follow_the_unit(factor):
    x = np.random.default_rng(0).standard_cauchy((500, 3))
    x[:, 1] = x[:, 1] > 3
    x[:, 2] = 7
    for there, scaled in zip(Columns.of(x), Columns.of(factor * x), strict=True):
        assert_array_equal(factor * there, scaled)


def test_quartiles_of_many_rows_are_those_of_some(monkeypatch):
    x = np.random.default_rng(0).normal(size=(4000, 2))
    x[:3, 0] = 1e6
    monkeypatch.setattr(columns_module, "QUARTILE_ROWS", 1000)
    some = Columns.of(x)
    monkeypatch.undo()
    everything = Columns.of(x)
    assert_array_equal(some.high, everything.high)  # of all rows
    assert_allclose(some.spread, everything.spread, rtol=0.15)
    assert some.spread[0] != everything.spread[0]


@pytest.mark.parametrize("n", [60, 1000])
@pytest.mark.parametrize("wrong", [[15.0], [-200.0], [15.0, -20.0], [12.0, 1e9]])
def test_one_or_two_wrong_values_do_not_stretch_a_range(n, wrong):
    x = np.random.default_rng(0).normal(size=(n, 1))
    x[: len(wrong), 0] = wrong
    columns = Columns.of(x)
    assert columns.low[0] > -6
    assert columns.high[0] < 6
    assert columns.unit[0] < 6
    x[:4, 0] = 15.0, 14.0, 13.0, 12.0  # four are a tail
    assert Columns.of(x).high[0] == 15.0


def test_a_rare_level_is_part_of_the_range():
    """Where most values are equal, nothing tells which of the others is wrong."""
    x = np.zeros((500, 1))
    x[3] = 4.0
    assert Columns.of(x).high[0] == 4.0


def test_beyond_a_fence_distances_count_by_their_logarithm():
    x = np.random.default_rng(0).normal(size=(999, 1))
    first, third = np.quantile(x, [0.25, 0.75])
    width = third - first
    fences = Fences.of(x)
    assert_allclose([fences.lower[0], fences.upper[0]], [first - FAR * width, third + FAR * width])
    assert fences.compress(x) is x
    beyond = np.array([[0.0], [width], [1e6 * width], [1e300]])
    expected = width * np.log1p(beyond / width)
    assert_allclose(fences.compress(fences.upper + beyond), fences.upper + expected, rtol=1e-12)
    assert_allclose(fences.compress(fences.lower - beyond), fences.lower - expected, rtol=1e-12)
    steps = np.linspace(-50, 50, 5001)[:, None]
    assert (np.diff(fences.compress(steps), axis=0) > 0).all()
    assert np.isnan(fences.compress(np.array([[np.nan], [1e9]]))[0, 0])
    assert np.isfinite(fences.compress(np.array([[1.7e308], [-1.7e308]]))).all()


def test_fences_of_columns_that_hardly_vary():
    rare, constant, missing = np.zeros(100), np.full(100, 3.0), np.full(100, np.nan)
    rare[:5] = 2.0, 2.0, 4.0, 6.0, 1e5
    fences = Fences.of(np.stack([rare, constant, missing], axis=1))
    assert_allclose(fences.upper, [40.0, np.inf, np.inf])  # ten times the median, 4
    assert_allclose(fences.lower, [-40.0, -np.inf, -np.inf])
    assert list(fences.contradictions()) == []
    assert list(Fences(fences.upper, fences.lower).contradictions())


@pytest.mark.parametrize("factor", [2.0**-300, 2.0**40, 2.0**400])
def test_fences_follow_the_unit(factor):
    x = np.random.default_rng(1).standard_cauchy((500, 2))
    x[:, 1] *= x[:, 1] > 3
    fences, scaled = Fences.of(x), Fences.of(factor * x)
    assert_allclose(scaled.compress(factor * x), factor * fences.compress(x), rtol=1e-12)
