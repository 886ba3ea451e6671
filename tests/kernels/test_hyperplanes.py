"""Random hyperplanes: sides of rows equal a plain reference; ties leave nothing to chance."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn import config_context

from polycal.core.execution import Execution
from polycal.core.table import Table
from polycal.kernels import Hyperplanes

NO_SYMBOLS = np.zeros(1, dtype=np.int64)
ONE = Execution()


def draw(X, n_planes=256, seed=0, **kwargs):
    return Hyperplanes.draw(X, NO_SYMBOLS, n_planes, seed, **kwargs)


def bits(planes, X, execution=ONE):
    """The modes as an array of 0 and 1, one column for each plane."""
    (found,) = planes.modes(X, execution).groups()
    return found


def by_hand(planes, X):
    """The sides of complete or incomplete rows, with one-hot symbols."""
    n_numbers = len(planes.middle)
    with np.errstate(over="ignore"):
        z = (X[:, :n_numbers] - planes.middle) / planes.unit
    z = np.clip(np.where(np.isnan(z), 0.0, z), -20, 20)
    hot = [z]
    widths = np.diff(planes.level_offsets)
    for symbol, width in zip(X[:, n_numbers:].T, widths, strict=True):
        hot.append(np.eye(width)[symbol.astype(int)])
    return np.concatenate(hot, axis=1) @ planes.directions.astype(float) > planes.offsets


def gaps(planes, X):
    """How far the nearest row is from each plane, as a part of the farthest."""
    away = np.abs(planes.projected(X) - planes.offsets)
    return away.min(axis=0) / away.max(axis=0)


def normal_rows(n=300, d=4, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d)) * 10.0 ** np.arange(d)


# ---------------------------------------------------------------- modes


def test_modes_of_numbers_equal_the_reference():
    X = normal_rows()
    planes = draw(X, 300)
    quartiles = np.quantile(X, [0.25, 0.75], axis=0)
    np.testing.assert_allclose(planes.middle, quartiles.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(planes.unit, np.diff(quartiles, axis=0)[0] / 1.349, rtol=1e-12)
    other = normal_rows(seed=1)
    for rows in (X, other, 1e3 * other):
        assert_array_equal(bits(planes, rows), by_hand(planes, rows))
    assert 0.3 < bits(planes, other).mean() < 0.7


def test_modes_of_symbols_and_missing_numbers_equal_the_reference():
    rng = np.random.default_rng(0)
    rows = np.empty((300, 4), dtype=object)
    rows[:, 0], rows[:, 1] = rng.normal(size=300), rng.normal(size=300)
    rows[::9, 1] = np.nan
    rows[:, 2], rows[:, 3] = rng.choice(["red", "green", "blue"], 300), rng.choice([1, 2], 300)
    table, X = Table.learn(rows, np.array([2, 3]))
    assert np.isnan(X).any()
    planes = Hyperplanes.draw(X, table.level_offsets, 200, 0)
    # Two numbers; four levels of a colour, three of a size, and whether the second is missing.
    assert planes.directions.shape == (2 + 4 + 3 + 2, 200)
    assert_array_equal(bits(planes, X), by_hand(planes, X))
    row = table.encode(np.array([[0.0, np.nan, "violet", 7]], dtype=object))
    assert_array_equal(row[0, 2:], [3, 2, 1])  # the last level is for what the fit did not see
    assert_array_equal(bits(planes, row), by_hand(planes, row))


def test_a_missing_number_lies_in_the_middle():
    X = normal_rows()
    planes = draw(X)
    row = X[:1].copy()
    row[0, 1] = np.nan
    middle = np.where(np.isnan(row), planes.middle, row)
    assert_array_equal(planes.projected(row), planes.projected(middle))


def test_a_seed_fixes_the_planes():
    X = normal_rows()
    first, again, other = draw(X, seed=3), draw(X, seed=3), draw(X, seed=4)
    assert_array_equal(first.directions, again.directions)
    assert_array_equal(first.offsets, again.offsets)
    assert not (first.directions == other.directions).all(axis=0).any()


def test_planes_see_from_two_to_all_columns():
    X = normal_rows(d=20)
    n_seen = (draw(X, 4096).directions != 0).sum(axis=0)
    assert (n_seen.min(), n_seen.max()) == (2, 20)
    # The logarithm is evenly distributed: n ** u of the n columns, rounded up.
    shares = [(n_seen <= n).mean() for n in (2, 4, 9)]
    np.testing.assert_allclose(shares, np.log([2, 4, 9]) / np.log(20), atol=0.03)


def test_a_plane_sees_all_levels_of_a_symbol_or_none():
    X = np.random.default_rng(0).integers(0, [4, 3], size=(300, 2))
    X = np.concatenate([normal_rows(d=2), X], axis=1)
    planes = Hyperplanes.draw(X, np.array([0, 4, 7]), 200, 0)
    seen = planes.directions != 0
    for levels in (seen[2:6], seen[6:]):
        assert_array_equal(levels.all(axis=0), levels.any(axis=0))
        assert 0.2 < levels.all(axis=0).mean() < 0.8


def test_an_embedding_has_one_unit():
    X = normal_rows()
    planes = draw(X, embedded=True)
    assert (planes.directions != 0).all()
    assert_array_equal(planes.middle, 0.0)
    assert_array_equal(planes.unit, 1.0)
    assert_array_equal(bits(planes, X), by_hand(planes, X))


def test_the_share_of_equal_sides_falls_with_the_distance():
    X = np.random.default_rng(0).normal(size=(500, 3))
    planes = draw(X, 2048)
    step = np.array([0.0, 0.1, 0.3, 1.0, 3.0, 100.0])[:, None] * np.ones(3)
    sides = bits(planes, step)
    equal = (sides == sides[0]).mean(axis=1)
    assert equal[0] == 1.0
    assert (np.diff(equal) < 0).all()
    assert 0.4 < equal[-1] < 0.6  # of a far row, no plane knows more than a coin


# ---------------------------------------------------------------- units


def test_powers_of_two_change_nothing():
    X = normal_rows()
    unit = 2.0 ** np.array([-40, 3, 0, 60])
    assert_array_equal(bits(draw(X * unit), X * unit), bits(draw(X), X))


@pytest.mark.parametrize("scale", [1e-12, 1e-3, 7.0, 1e12])
def test_units_change_hardly_any_side(scale):
    X = normal_rows()
    X[::7, 2] = np.nan
    unit = np.array([1.0, scale, 1.0, 1 / scale])
    assert (bits(draw(X * unit), X * unit) != bits(draw(X), X)).mean() < 1e-5


def test_an_origin_changes_hardly_any_side():
    X = np.random.default_rng(0).normal(size=(300, 3))
    moved = X + np.array([1e6, -1e3, 0.0])
    assert (bits(draw(moved), moved) != bits(draw(X), X)).mean() < 1e-4


# ---------------------------------------------------------------- equal rows


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("megabytes", [0.001, 0.1, 1024])
def test_equal_rows_have_equal_modes_in_any_block(n_jobs, megabytes):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 13))[rng.integers(0, 40, 500)]
    planes = draw(X, 200)
    expected = planes.modes(X, ONE).codes
    with config_context(working_memory=megabytes):
        found = planes.modes(X, Execution(n_jobs=n_jobs)).codes
    assert_array_equal(found, expected)
    one_by_one = np.concatenate([planes.modes(X[i : i + 1], ONE).codes for i in range(len(X))])
    assert_array_equal(one_by_one, expected)
    distinct, owner = planes.modes(X, ONE).distinct()
    _, known = np.unique(X, axis=0, return_inverse=True)
    assert len(distinct) == 40
    assert len(set(zip(owner, known.ravel(), strict=True))) == 40


@pytest.mark.parametrize(
    "X",
    [
        np.random.default_rng(0).integers(0, 3, size=(400, 2)).astype(float),
        np.random.default_rng(1).integers(0, 2, size=(400, 12)).astype(float),
        np.random.default_rng(2).integers(-2, 3, size=(400, 6)) * 1e9,
        np.random.default_rng(3).integers(0, 3, size=(400, 2)) * 0.1 + 1e5,
    ],
    ids=["grid", "binary", "large", "decimals"],
)
def test_no_plane_passes_through_a_row_of_discrete_data(X):
    planes = draw(X, 512)
    assert (gaps(planes, X) > 1e-10).all()
    assert_array_equal(bits(planes, X), by_hand(planes, X))


def test_planes_keep_clear_of_rows_that_rounding_moves():
    """A row in another block may be rounded otherwise; its side is the same."""
    X = np.random.default_rng(0).integers(0, 4, size=(300, 5)).astype(float)
    planes = draw(X, 512)
    for nudge in (1 - 1e-13, 1 + 1e-13):
        assert_array_equal(bits(planes, X * nudge), bits(planes, X))


def test_new_rows_have_equal_modes_in_any_block():
    """Planes lie halfway between rows, where new rows of discrete data lie too."""
    rng = np.random.default_rng(0)
    X = 2.0 * rng.integers(0, 3, size=(300, 2))
    new = rng.integers(0, 5, size=(200, 2)).astype(float)
    planes = draw(X, 512)
    one_by_one = np.concatenate([planes.modes(new[i : i + 1], ONE).codes for i in range(200)])
    assert_array_equal(planes.modes(new, ONE).codes, one_by_one)


# ---------------------------------------------------------------- where planes are


@pytest.mark.parametrize(
    "X",
    [
        normal_rows(),
        np.random.default_rng(1).integers(0, 2, size=(200, 3)).astype(float),
        np.random.default_rng(2).normal(size=(2, 3)),
        np.repeat([[0.0, 0.0], [0.0, 1.0]], [1, 499], axis=0),
        np.random.default_rng(3).standard_cauchy(size=(300, 3)),
    ],
    ids=["normal", "binary", "two rows", "one other row", "cauchy"],
)
def test_both_sides_of_every_plane_hold_rows(X):
    share = bits(draw(X, 512), X).mean(axis=0)
    assert np.mean((share > 0) & (share < 1)) == 1.0


def test_shares_of_rows_below_planes_are_even():
    share = bits(draw(normal_rows(1000), 2000), normal_rows(1000)).mean(axis=0)
    np.testing.assert_allclose(np.quantile(share, [0.1, 0.5, 0.9]), [0.1, 0.5, 0.9], atol=0.04)


def test_offsets_are_those_of_some_of_many_rows():
    X = np.random.default_rng(0).normal(size=(20_000, 2))
    planes = draw(X, 64)
    share = bits(planes, X).mean(axis=0)
    assert ((share > 0) & (share < 1)).all()
    assert_array_equal(draw(X, 64).offsets, planes.offsets)


# ---------------------------------------------------------------- edges


@pytest.mark.parametrize("constant", [0.0, 7.0, -1e20])
def test_a_constant_column_counts_for_nothing(constant):
    X = normal_rows(d=3)
    X[:, 1] = constant
    planes = draw(X)
    assert_array_equal(planes.projected(X), planes.projected(np.where([0, 1, 0], np.nan, X)))
    assert_array_equal(bits(planes, X), by_hand(planes, X))


def test_a_column_without_any_number_counts_for_nothing():
    X = normal_rows(d=3)
    X[:, 1] = np.nan
    planes = draw(X)
    assert planes.middle[1] == 0.0
    assert planes.unit[1] > 0
    assert_array_equal(bits(planes, X), by_hand(planes, X))
    share = bits(planes, X).mean(axis=0)
    assert ((share > 0) & (share < 1)).all()


def test_one_row_repeated_is_on_one_side_of_all():
    X = np.tile([3.0, -1.0, np.nan], (50, 1))
    planes = draw(X)
    assert_array_equal(bits(planes, X), 1)
    assert len(planes.modes(X, ONE).distinct()[0]) == 1


def test_huge_values_are_far_and_no_error():
    X = normal_rows(d=3)
    planes = draw(X)
    huge = np.array([[1e300, 0, 0], [-1e300, 0, 0], [np.finfo(float).max] * 3])
    assert np.isfinite(planes.projected(huge)).all()
    assert_array_equal(bits(planes, huge), by_hand(planes, huge))
    assert_array_equal(bits(planes, huge[:1] / 1e100), bits(planes, huge[:1]))
    X[:, 1] *= 1e300
    fitted = draw(X)
    assert np.isfinite(fitted.offsets).all()
    assert_array_equal(bits(fitted, X), by_hand(fitted, X))
    share = bits(fitted, X).mean(axis=0)
    assert ((share > 0) & (share < 1)).all()


def test_a_column_that_spans_all_numbers():
    X = normal_rows(d=2)
    X[:, 1] = np.where(np.arange(300) % 2, 1e308, -1e308)
    planes = draw(X)
    assert np.isfinite(planes.offsets).all()
    share = bits(planes, X).mean(axis=0)
    assert ((share > 0) & (share < 1)).all()


def test_sentinels_do_not_set_the_scale():
    X = normal_rows(d=3)
    filled = X.copy()
    filled[:40, 0], filled[40:70, 2] = 999_999_999.0, -1e30
    clean, coded = draw(X), draw(filled)
    assert (coded.unit / clean.unit < 1.6).all()
    assert (coded.unit / clean.unit > 0.6).all()
    # The other rows are told apart as before.
    rest = np.arange(70, 300)
    sides = bits(coded, filled)[rest]
    assert len(np.unique(sides, axis=0)) == len(rest)
    assert 0.2 < sides.mean() < 0.8


def test_a_code_is_a_level_of_its_own():
    X = normal_rows(d=3)
    X[:40, 0] = 999_999_999.0
    table, encoded = Table.learn(X, np.empty(0, dtype=int), robust=True)
    planes = Hyperplanes.draw(encoded, table.level_offsets, 256, 0)
    assert_array_equal(bits(planes, encoded), by_hand(planes, encoded))
    same = X[:40].copy()
    same[:, 0] = planes.middle[0]
    assert (bits(planes, table.encode(same)) != bits(planes, encoded[:40])).any(axis=1).all()


# ---------------------------------------------------------------- files


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"directions": np.zeros((3, 256), np.float32)}, "directions for other features"),
        ({"level_offsets": np.array([0, 2])}, "directions for other features"),
        ({"middle": np.zeros(5), "unit": np.ones(5)}, "directions for other features"),
        ({"unit": np.array([1.0, 0.0, 1.0, 1.0])}, "no unit"),
        ({"unit": np.array([1.0, -1.0, 1.0, 1.0])}, "no unit"),
        ({"unit": np.array([1.0, np.nan, 1.0, 1.0])}, "no unit"),
        ({"middle": np.array([1.0, np.inf, 1.0, 1.0])}, "no unit"),
    ],
)
def test_contradictions(change, message):
    planes = draw(normal_rows())
    assert list(planes.contradictions()) == []
    (found,) = replace(planes, **change).contradictions()
    assert message in found
