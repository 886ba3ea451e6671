"""Rows as dicts answer as the same rows in a frame do."""

from __future__ import annotations

import datetime
import json
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_array_equal
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.feature_extraction import DictVectorizer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import polycal
from polycal import GeodesicCalibrator
from polycal.core.records import frame_of_records
from polycal.core.roles import CATEGORY, DATE, ID, NUMBER, TEXT, ColumnRoles, Role
from polycal.datasets import load_loans
from tests.toys.families import catboost, lightgbm, xgboost
from tests.toys.models import small_forest

OPTIONS = {"calibration": "holdout", "random_state": 0}
# The loans with a level that is a whole number, and a truth value.
LOANS = load_loans()
LOANS = LOANS.assign(
    district=pd.Categorical(LOANS["amount"].fillna(0).astype(int) % 4),
    # XGBoost 3.2 mixes up names with other letters where not all levels are in the rows.
    branch=LOANS["branch"].cat.rename_categories(ascii),
    new=LOANS["opened"] > pd.Timestamp("2021-01-01"),
)
X, Y = LOANS.drop(columns=["outcome", "loan id"]), LOANS["outcome"]
NAMES = list(X.columns)


def rows_of(frame):
    """The rows as JSON gives them: dates as text, None where a value is missing."""
    return json.loads(frame.to_json(orient="records", date_format="iso"))


def hist(**options):
    return HistGradientBoostingClassifier(max_iter=20, random_state=0, **options)


def encoded():
    names = ["branch", "purpose", "district"]
    columns = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), names),
        ("drop", ["opened"]),
        remainder="passthrough",
        sparse_threshold=0,
    )
    return make_pipeline(columns, hist())


PARENTS = {
    "hist gradient boosting": hist,
    "lightgbm": lightgbm,
    "xgboost": lambda: xgboost().set_params(enable_categorical=True, tree_method="hist"),
    "catboost": lambda: catboost().set_params(cat_features=["branch", "purpose", "district"]),
    "pipeline": encoded,
}


@pytest.mark.parametrize("name", PARENTS)
def test_rows_answer_as_a_frame_does(name, tmp_path):
    model = GeodesicCalibrator(PARENTS[name](), **OPTIONS).fit(X[:600], Y[:600])
    expected = model.predict_proba(X[600:])
    rows = rows_of(X[600:])
    assert any(value is None for row in rows for value in row.values())
    assert_array_equal(model.predict_proba(rows), expected)
    assert_array_equal(model.predict_proba(X[600:].to_dict("records")), expected)
    assert_array_equal(model.predict(rows), model.predict(X[600:]))
    assert_array_equal(model.explain(rows).verdict, model.explain(X[600:]).verdict)
    # One row, its keys in another order, with one that no column has.
    one = {"note": "?", **dict(reversed(rows[0].items()))}
    assert_array_equal(model.predict_proba(one), expected[:1])
    model.save(tmp_path / "m.polycal")
    assert_array_equal(polycal.load(tmp_path / "m.polycal").predict_proba(rows), expected)


def test_of_a_model_that_was_fitted_on_a_polars_frame():
    frame = pl.from_pandas(X.drop(columns="district"))
    model = GeodesicCalibrator(hist(), **OPTIONS).fit(frame[:600], Y[:600].to_numpy())
    assert_array_equal(model.predict_proba(rows_of(X[600:])), model.predict_proba(frame[600:]))


def test_words_that_are_declared_categories():
    words = X.assign(branch=X["branch"].astype(object), purpose=X["purpose"].astype(object))
    names = ["branch", "purpose", "district"]
    model = GeodesicCalibrator(lightgbm(), categorical_features=names, **OPTIONS)
    model.fit(words[:600], Y[:600])
    assert_array_equal(model.predict_proba(rows_of(X[600:])), model.predict_proba(words[600:]))


def test_of_a_model_of_the_command_line(tmp_path):
    """Dates and numbers may be written as in the file of the fit, and dates as in ISO."""
    pytest.importorskip("typer")
    from tests.toys.commands import call

    table, new = polycal.datasets.path("loans"), polycal.datasets.path("loans_new")
    path = tmp_path / "m.polycal"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # how it reads the columns, and left out the ids
        call("fit", table, "--target", "outcome", "-o", path, "--set", "n_estimators=20")
        call("predict", path, new, "-o", tmp_path / "p.csv")
    model, expected = polycal.load(path), pd.read_csv(tmp_path / "p.csv")
    cells = pd.read_csv(new, sep=";", dtype=str, keep_default_na=False)
    rows = [{k: v or None for k, v in row.items()} for row in cells.to_dict("records")]
    for row in rows:  # a decimal comma is no number in JSON
        row.update({k: v.replace(",", ".") for k, v in row.items() if v and k in NUMBERS_OF_LOANS})
    P = expected[[f"p_{label}" for label in model.classes_]].to_numpy()
    np.testing.assert_allclose(model.predict_proba(rows), P, rtol=1e-9)
    for row in rows:
        day, month, year = row["opened"].split(".")
        row["opened"] = f"{year}-{month}-{day}"
    np.testing.assert_allclose(model.predict_proba(rows), P, rtol=1e-9)


NUMBERS_OF_LOANS = ("income", "amount", "rate", "years employed")


# ------------------------------------------------------------------ values

ROLES = ColumnRoles.of(
    {
        "n": Role(NUMBER, "", ("n.a.",)),
        "day": Role(DATE, "", ("%d.%m.%Y",)),
        "city": Role(CATEGORY, "", (CATEGORY,)),
        "word": Role(CATEGORY, "", (TEXT,)),
        "code": Role(CATEGORY, ""),  # of a file
        "id": Role(ID, ""),
    }
)
ROW = {"n": 1, "day": "2020-01-01", "city": "Bonn", "word": "x", "code": 7}


def column(name, *values):
    return frame_of_records([{**ROW, name: value} for value in values], ROLES)[name]


def test_types():
    frame = frame_of_records([ROW, dict.fromkeys(ROW)], ROLES)
    assert list(frame) == list(ROW)
    assert [str(frame[name].dtype) for name in ("n", "day", "city")] == [
        "float64",
        "float64",
        "category",
    ]
    assert frame["day"][0] == 18262.0
    assert frame["code"][0] == "7"
    assert frame.isna().sum(axis=1).tolist() == [0, 5]
    assert column("n", 1, 2).dtype == np.int64
    assert column("n", "1.5", True, "n.a.").fillna(-1).tolist() == [1.5, 1.0, -1.0]
    assert column("city", 3, None).cat.categories.tolist() == [3]


@pytest.mark.parametrize(
    "value",
    [
        "2020-01-01T12:00",
        "2020-01-01 12:00:00",
        "2020-01-01T12:00:00Z",
        "2020-01-01T13:00:00+01:00",
        datetime.datetime(2020, 1, 1, 12),
        pd.Timestamp("2020-01-01 12:00", tz="UTC"),
        np.datetime64("2020-01-01T12", "h"),
        18262.5,
    ],
)
def test_dates(value):
    assert column("day", value).tolist() == [18262.5]
    assert column("day", "02.01.2020", None).fillna(-1).tolist() == [18263.0, -1.0]
    as_it_is = ColumnRoles.of({"day": Role(DATE, "")}, unchanged=True)
    found = frame_of_records({"day": value}, as_it_is)["day"]
    assert found[0] == pd.Timestamp("2020-01-01 12:00")


@pytest.mark.parametrize(
    ("row", "error", "words"),
    [
        ({"N": 1, **{k: v for k, v in ROW.items() if k != "n"}}, ValueError, "row 1 .*lacks 'n'"),
        ({**ROW, "n": "much"}, ValueError, "row 1 of X holds 'much' as 'n'.*must be a number"),
        ({**ROW, "n": ""}, ValueError, r"row 1 of X holds '' as 'n'.*None \(null in JSON\)"),
        ({**ROW, "day": "May"}, ValueError, "row 1 of X holds 'May' as 'day'.*year-month-day"),
        ({**ROW, "day": True}, ValueError, "row 1 of X holds True as 'day'"),
        ({**ROW, "city": ["a", "b"]}, ValueError, "row 1 of X holds a list as 'city'.*one value"),
        ([1, 2], TypeError, "row 1 of X is a list, and other rows are dicts"),
    ],
)
def test_bad_rows(row, error, words):
    with pytest.raises(error, match=words):
        frame_of_records([ROW, row], ROLES)


def test_columns_as_a_dict():
    columns = {name: [value, value] for name, value in ROW.items()}
    with pytest.raises(ValueError, match=r"holds a list as 'n'.*pandas.DataFrame\(X\)"):
        frame_of_records(columns, ROLES)


def test_a_model_without_names():
    rows, y = np.random.default_rng(0).normal(size=(400, 2)), np.arange(400) % 2
    model = GeodesicCalibrator(small_forest(), **OPTIONS).fit(rows, y)
    for asked in ({"a": 1, "b": 2}, [{"a": 1, "b": 2}]):
        with pytest.raises(ValueError, match=r"rows as dicts, and the model knows no names"):
            model.predict_proba(asked)


def test_a_parent_that_takes_no_missing_values():
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(400, 2)), columns=["a", "b"])
    network = polycal.KernelDensityNetwork(**OPTIONS)
    model = network.fit(frame, (frame["a"] > 0).astype(int))
    with pytest.raises(ValueError, match=r"NaN in column \['b'\], and the parent does not take"):
        model.predict_proba({"a": 1, "b": None})


def test_a_parent_that_takes_dicts_itself():
    rows = [{"a": i / 7, "city": "Bonn" if i % 3 else "Rom"} for i in range(420)]
    pipeline = make_pipeline(DictVectorizer(sparse=False), small_forest())
    model = GeodesicCalibrator(pipeline, **OPTIONS).fit(rows, np.arange(420) % 3 > 0)
    assert_array_equal(model.predict_proba([{"a": 3.0}]), model.predict_proba([{"a": 3, "b": 0}]))
