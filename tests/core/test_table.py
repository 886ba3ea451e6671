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
