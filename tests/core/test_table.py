"""Missing values and categories, in a table and in a model."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from polycal import PAPER, GeodesicCalibrator
from polycal.core.table import Table, find_categories
from tests.toys.models import small_forest, small_network
from tests.toys.tables import boosting, make_mixed


def test_a_table_by_hand():
    X = pd.DataFrame(
        {"c": pd.Categorical(["x", "y", None]), "a": [1.0, np.nan, 3.0], "b": [1, 2, 3]}
    )
    table, encoded = Table.learn(X, find_categories(X, "from_dtype"))
    assert_array_equal(encoded, table.encode(X))
    assert_array_equal(table.numbers, [1, 2])
    assert_array_equal(table.level_offsets, [0, 4, 6])  # missing, x, y, never seen; there, missing
    nan = np.nan
    expected = [[1, 1, 1, 0], [nan, 2, 2, 1], [3, 3, 0, 0]]
    assert_array_equal(table.encode(X), expected)
    new = pd.DataFrame({"c": ["z"], "a": [0.0], "b": [np.nan]})
    assert_array_equal(table.encode(new), [[0, nan, 3, 0]])


def test_numbers_alone_stay_as_they_are():
    X = np.random.default_rng(0).normal(size=(5, 3))
    table, encoded = Table.learn(X, find_categories(X, "from_dtype"))
    assert_array_equal(encoded, table.encode(X))
    assert_array_equal(table.encode(X), X)
    assert len(table.level_offsets) == 1


def with_codes():
    """Numbers from 0 to 9, with 99999 and -999 in some rows of the first column; IQR 4.5."""
    X = np.tile(np.arange(10.0), 10)[:, None] * [1.0, 1.0]
    X[:4, 0], X[4:7, 0], X[7, 0], X[8:10, 0] = 99999.0, -999.0, np.nan, 5000.0
    return X


def test_a_far_value_that_several_rows_share_is_a_code():
    X = with_codes()
    table, encoded = Table.learn(X, find_categories(X, None), robust=True)
    assert_array_equal(table.with_missing, [0])
    assert_array_equal(table.codes, [-999.0, 99999.0])  # two rows with 5000 are no code
    assert_array_equal(table.level_offsets, [0, 4])  # there, missing, the codes
    assert_array_equal(encoded[:10, 2], [3, 3, 3, 3, 2, 2, 2, 1, 0, 0])
    assert np.isnan(encoded[:8, 0]).all()
    assert_array_equal(encoded[10:, :2], X[10:])
    assert (encoded[8:10, 0] < 100).all()  # 5000, compressed
    assert_array_equal(encoded, table.encode(X))
    assert X[0, 0] == 99999.0  # the rows of the caller stay as they are
    new = np.array([[99999.0, 99999.0], [99998.0, 1.0], [np.nan, 1.0], [3.0, 1.0]])
    expected = np.array([[np.nan, 99999, 3], [99998, 1, 0], [np.nan, 1, 1], [3, 1, 0]])
    assert_array_equal(table.encode(new), table.fences.compress(expected))
    assert list(table.contradictions()) == []
    known = table.is_code(encoded)
    assert_array_equal(known, np.isin(X, [99999.0, -999.0]))
    part, _ = Table.learn(X[3:], np.empty(0), robust=True, coded=known[3:])
    assert_array_equal(part.codes, table.codes)  # in one row of this part
    assert_array_equal(Table.learn(X[3:], np.empty(0), robust=True)[0].codes, [-999.0])
    plain, rows = Table.learn(X, find_categories(X, None))
    assert len(plain.codes) == 0
    assert_array_equal(rows[:, :2], X)


def test_a_code_may_be_shared_by_columns():
    X = np.random.default_rng(0).normal(size=(80, 4))
    X[3, 0] = X[5, 1] = X[9, 2] = 99999.0
    X[11, 3] = 88888.0
    table, _ = Table.learn(X, np.empty(0), robust=True)
    assert_array_equal(table.codes, [99999.0] * 4)  # of every column, also where no row has it
    assert_array_equal(table.with_missing, [0, 1, 2, 3])
    X[9, 2] = 0.0
    assert len(Table.learn(X, np.empty(0), robust=True)[0].codes) == 0


def test_a_tail_without_a_gap_has_no_codes_before_it():
    """Steps of the tail are at most 10 interquartile ranges; the last one is longer."""
    x = np.concatenate([np.linspace(0, 2, 101), [5, 14, 24, 34, 44, 55, 55, 55, 60]])[:, None]
    assert_array_equal(Table.learn(x, np.empty(0), robust=True)[0].codes, [55])


def test_codes_in_many_rows_and_in_columns_that_are_mostly_equal():
    rng = np.random.default_rng(0)
    many, both, counts, two = rng.normal(size=(4, 1000))
    many[:600] = 99999.0
    both[:300], both[300:600] = 99999.0, -999.0
    counts[:] = rng.poisson(0.1, 1000)
    plain = counts.copy()
    counts[:20] = 99999.0
    two[:] = np.where(two > 0, 0.0, 99999.0)  # two values are not a code and another
    X = np.stack([many, both, counts, plain, two], axis=1)
    table, _ = Table.learn(X, np.empty(0), robust=True)
    assert_array_equal(table.codes, [99999.0, -999.0, 99999.0, 99999.0])
    assert_array_equal(table.with_missing[table.code_number], [0, 1, 1, 2])


@pytest.mark.parametrize("bandwidth", ["geodesic", "polytope"])
def test_a_query_with_a_code_is_as_usual_as_its_share(bandwidth, blobs):
    """Rows with 99999 are in distribution, rows with another far value are not."""
    X, y = blobs
    X, new = X[:500].copy(), X[500:].copy()
    X[::10, 2], new[:, 2] = 99999.0, 99999.0
    model = GeodesicCalibrator(small_forest(), bandwidth=bandwidth, random_state=0).fit(X, y[:500])
    assert len(model.model_.reference.table.codes) == (bandwidth == "geodesic")
    if bandwidth == "polytope":
        return
    assert np.median(model.in_distribution(new)) > 0.9
    surprise = model.explain(new).surprise
    assert_allclose(surprise[:, 2], surprise[0, 2], atol=5)  # the log of a share
    new[:, 2] = 99990.0
    assert model.in_distribution(new).max() < 1e-6
    assert (model.explain(new).top_features(1)[0] == "x2").all()


@pytest.mark.parametrize(
    "wanted",
    [["colour", "size"], [2, 3], [-2, -1], [False, False, True, True], np.array([2, 3])],
    ids=["names", "numbers", "from the end", "mask", "array"],
)
def test_categories_by_name_number_and_mask(wanted):
    X, _ = make_mixed(20)
    assert_array_equal(find_categories(X, wanted), [2, 3])
    assert_array_equal(find_categories(X, "from_dtype"), [2, 3])
    assert len(find_categories(X, None)) == 0


def test_containers_give_the_same_rows():
    X, _ = make_mixed(50)
    wanted = find_categories(X, "from_dtype")
    expected = Table.learn(X, wanted)[0].encode(X)
    polars = pl.DataFrame(
        {
            "a": X["a"].to_list(),
            "b": [None if np.isnan(v) else v for v in X["b"]],
            "colour": pl.Series(X["colour"].astype(str).to_list(), dtype=pl.Categorical),
            "size": X["size"].astype(int).to_list(),
        }
    )
    assert_array_equal(Table.learn(polars, wanted)[1], expected)
    assert_array_equal(find_categories(polars, "from_dtype"), [2])
    objects = X.astype(object).to_numpy()
    assert_array_equal(Table.learn(objects, wanted)[1], expected)
    nullable = X.astype({"a": "Float64", "b": "Float64"})
    assert_array_equal(Table.learn(nullable, wanted)[1], expected)


MODELS = {
    "boosting": boosting,
    "forest of numbers": lambda: make_pipeline(
        make_column_transformer(
            (OneHotEncoder(handle_unknown="ignore"), ["colour", "size"]), remainder="passthrough"
        ),
        small_forest(),
    ),
}


@pytest.mark.parametrize("plan", ["holdout", "cv"])
@pytest.mark.parametrize("setting", [{}, PAPER], ids=["default", "paper"])
@pytest.mark.parametrize("name", MODELS)
def test_mixed_rows(name, setting, plan):
    X, y = make_mixed(900)
    model = GeodesicCalibrator(MODELS[name](), calibration=plan, random_state=0, **setting)
    model.fit(X[:700], y[:700])
    P = model.predict_proba(X[700:])
    assert_allclose(P.sum(axis=1), 1, atol=1e-9)
    assert model.score(X[700:], y[700:]) > 0.8
    far = X[700:].assign(a=1e6)
    assert_allclose(model.predict_proba(far), np.tile(model.priors_, (200, 1)), atol=1e-6)


def test_an_unseen_category_lowers_the_density():
    X, y = make_mixed(900)
    model = GeodesicCalibrator(boosting(), random_state=0).fit(X[:700], y[:700])
    rows = X[700:].copy()
    before = model.score_samples(rows)
    rows["colour"] = pd.Categorical(["violet"] * 200)
    assert (model.score_samples(rows) < before).mean() > 0.99
    assert np.median(model.score_samples(rows)) < np.quantile(before, 0.2)


def test_a_value_that_was_never_missing_lowers_the_density():
    X, y = make_mixed(900)
    model = GeodesicCalibrator(boosting(), random_state=0).fit(X[:700], y[:700])
    rows = X[700:].assign(a=np.nan)
    assert np.median(model.score_samples(rows)) < np.quantile(model.score_samples(X[700:]), 0.2)


def test_missing_values_in_a_forest(blobs):
    X, y = blobs
    rng = np.random.default_rng(0)
    X = np.where(rng.random(X.shape) < 0.1, np.nan, X)
    model = GeodesicCalibrator(small_forest(), random_state=0).fit(X[:500], y[:500])
    assert model.score(X[500:], y[500:]) > 0.8
    reading = model.model_.parent.read(X[:50])
    assert_array_equal(reading.modes.codes, model.estimator_.apply(X[:50]))
    assert_allclose(reading.proba, model.estimator_.predict_proba(X[:50]))


def test_categories_in_an_array_and_in_a_frame_are_the_same():
    X, y = make_mixed(400)
    codes = X.assign(colour=X["colour"].cat.codes, size=X["size"].cat.codes).to_numpy(dtype=float)
    framed = GeodesicCalibrator(boosting(), random_state=0).fit(X, y)
    plain = GeodesicCalibrator(
        boosting(categorical_features=[2, 3]), categorical_features=[2, 3], random_state=0
    ).fit(codes, y)
    assert_allclose(plain.predict_proba(codes), framed.predict_proba(X), atol=1e-9)


def test_columns_that_are_no_numbers_get_a_remedy():
    X, y = make_mixed(100)
    words = X.assign(colour=X["colour"].astype(str))
    with pytest.raises(ValueError, match="column 'colour' holds '.*categorical_features"):
        GeodesicCalibrator(boosting()).fit(words, y)
    with pytest.raises(ValueError, match=r"NaN in column \['b'\].*Pipeline with an imputer"):
        GeodesicCalibrator(small_network()).fit(X[["a", "b"]], y)
    with pytest.raises(ValueError, match="names 'shape', which is not in the table"):
        GeodesicCalibrator(boosting(), categorical_features=["shape"]).fit(X, y)
    with pytest.raises(ValueError, match="holds 9, which is no column of X with 4"):
        GeodesicCalibrator(boosting(), categorical_features=[9]).fit(X, y)
    with pytest.raises(ValueError, match="categorical_features must be"):
        GeodesicCalibrator(boosting(), categorical_features="colour").fit(X, y)
    with pytest.raises(ValueError, match="infinity"):
        GeodesicCalibrator(boosting()).fit(X.assign(a=np.inf), y)
    with pytest.raises(ValueError, match='distance="euclidean" needs numbers'):
        GeodesicCalibrator(boosting(), distance="euclidean").fit(X, y)


def test_a_pipeline_puts_the_density_where_its_last_step_is(blobs):
    X, y = blobs
    pipeline = make_pipeline(StandardScaler(), small_forest())
    model = GeodesicCalibrator(pipeline, calibration="holdout", random_state=0).fit(X * 1e3, y)
    assert np.abs(model.polytopes_.mean).max() < 10  # scaled
    assert_allclose(model.predict_proba(X[:3] * 1e9), np.tile(model.priors_, (3, 1)), atol=1e-9)
    by_hand = GeodesicCalibrator(small_forest(), calibration="holdout", random_state=0)
    rows = model.polytopes_.counts.sum()
    assert rows == by_hand.fit(X * 1e3, y).polytopes_.counts.sum()


def test_single_rows_of_a_category_of_many_levels_are_as_new_values():
    """So a column of ids does not make a level for each row."""
    words = [f"K{i}" for i in range(300)] + ["a", "a", "b", "b", None, None]
    table, encoded = Table.learn(pd.DataFrame({"key": words}), np.array([0]))
    assert table.levels[0].tolist() == [None, "a", "b"]
    assert encoded[:, 0].tolist() == [3.0] * 300 + [1.0, 1.0, 2.0, 2.0, 0.0, 0.0]
    assert table.encode(pd.DataFrame({"key": ["K7", "new"]})).tolist() == [[3.0], [3.0]]
    few, _ = Table.learn(pd.DataFrame({"key": words[:255]}), np.array([0]))
    assert len(few.levels[0]) == 255
