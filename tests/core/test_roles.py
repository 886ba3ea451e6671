"""Roles of the columns of a frame."""

from __future__ import annotations

import datetime
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder

import polycal
from polycal import FewRowsWarning, GeodesicCalibrator
from polycal.core.roles import (
    CATEGORY,
    DATE,
    ID,
    NUMBER,
    TEXT,
    ColumnRoles,
    Role,
    dates_that_end,
    learn_roles,
)
from tests.toys.models import small_forest

N = 120
RNG = np.random.default_rng(0)
DAYS = pd.date_range("2020-01-01", periods=N)
COLUMNS = {
    "x": (RNG.normal(size=N), NUMBER),
    "n": (RNG.integers(0, 9, N), NUMBER),
    "on": ([True, False] * 60, NUMBER),
    "numerals": ([f"{i / 7:.2f}" for i in range(N)], NUMBER),
    "city": (["Bonn", "Köln", None] * 40, CATEGORY),
    "customer": ([f"K{i:05d}" for i in RNG.permutation(N)], ID),
    "row": (np.arange(N), ID),
    "note": ([f"one two three four {i}" for i in range(N)], TEXT),
    "when": (DAYS.to_pydatetime().tolist(), DATE),
    "day": (DAYS.date.tolist(), DATE),
}
VALUES = {name: values for name, (values, _) in COLUMNS.items()}
LIBRARIES = {"pandas": pd.DataFrame, "polars": pl.DataFrame}


@pytest.mark.parametrize("library", LIBRARIES)
def test_roles_of_frames(library):
    X = LIBRARIES[library](VALUES)
    roles = learn_roles(X, [], unchanged=False)
    found = dict(zip(roles.names, roles.roles, strict=True))
    assert found == {name: role for name, (_, role) in COLUMNS.items()}
    prepared = roles.prepare(X)
    assert type(prepared) is type(X)
    assert list(prepared.columns) == roles.features
    assert [float(day) for day in prepared["when"]] == [18262.0 + i for i in range(N)]
    assert [float(day) for day in prepared["day"]] == [18262.0 + i for i in range(N)]
    assert "customer  id        120 distinct values in 120 rows" in str(roles)


def test_a_time_zone_and_a_missing_date():
    local = DAYS.tz_localize("Europe/Berlin")
    X = pd.DataFrame({"a": local, "b": [datetime.date(2020, 1, 1), None] * 60}, index=range(7, 127))
    prepared = learn_roles(X, [], unchanged=False).prepare(X)
    assert prepared["a"].iloc[0] == 18262 - 1 / 24
    np.testing.assert_array_equal(prepared["b"], [18262, np.nan] * 60)
    assert prepared.index.tolist() == X.index.tolist()


def test_a_frame_of_numbers_is_left_as_it_is():
    X = pd.DataFrame({"x": VALUES["x"], "y": VALUES["n"]})
    assert learn_roles(X, [], unchanged=False).prepare(X) is X
    assert learn_roles(pd.DataFrame({0: [1.0]}), [], unchanged=False) is None  # no names
    assert learn_roles(np.zeros((3, 2)), [], unchanged=False) is None


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_counter_may_lack_a_number(library):
    values = [None, *range(1, N)]
    X = LIBRARIES[library]({"x": VALUES["x"], "row": values})
    if library == "pandas":
        X["row"] = pd.array(values, dtype="Int64")
    assert learn_roles(X, [], unchanged=False).roles == (NUMBER, ID)


@pytest.mark.parametrize(
    ("role", "names"),
    [
        (ID, ["id", "ID", "customerId", "userID", "user_id"]),
        (NUMBER, ["BID", "PAID", "width", "valid"]),
    ],
)
def test_names_of_ids(role, names):
    X = pd.DataFrame({"x": VALUES["x"], **dict.fromkeys(names, 7 * np.arange(N))})
    assert learn_roles(X, [], unchanged=False).with_role(role)[-len(names) :] == names


def test_a_table_of_ids_alone_is_an_error():
    X = pd.DataFrame({"row": VALUES["row"]})
    with pytest.raises(ValueError, match=r"no column that .*'row' \(numbers the rows\).*floats"):
        learn_roles(X, [], unchanged=False)


def test_declared_categories_are_no_ids():
    X = pd.DataFrame({"customer": VALUES["customer"], "row": VALUES["row"]})
    assert learn_roles(X, ["customer", "row"], unchanged=False).roles == (CATEGORY, CATEGORY)
    assert learn_roles(X, [], unchanged=True).roles == (TEXT, NUMBER)


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("when", VALUES["city"], "'when' held dates in the fit, and holds text now"),
        ("x", VALUES["city"], "'x' held numbers in the fit, and holds text now"),
        ("x", VALUES["when"], "'x' held numbers in the fit, and holds dates now"),
        ("city", VALUES["day"], "'city' held text in the fit, and holds dates now"),
    ],
)
def test_another_type_is_an_error(column, values, message):
    X = pd.DataFrame(VALUES)
    roles = learn_roles(X, [], unchanged=False)
    with pytest.raises(ValueError, match=message):
        roles.prepare(X.assign(**{column: values}))


def test_numbers_for_text_are_reported():
    X = pd.DataFrame(VALUES)
    roles = learn_roles(X, [], unchanged=False)
    with pytest.warns(UserWarning, match="'city' held text in the fit, and holds numbers now"):
        roles.prepare(X.assign(city=1.0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        roles.prepare(X.assign(when=18262.0, numerals=2.5, city=None, row="x"))  # days, and ids


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"names": ("a",)}, "do not fit their names"),
        ({"roles": ("number", "colour")}, "is not known"),
        ({"details": ((), (1,))}, "is not known"),
        ({"reasons": "ab"}, "are not text"),
        ({"decimal": ";"}, "neither a point nor a comma"),
    ],
)
def test_roles_of_a_damaged_file(change, message):
    good = ColumnRoles.of({"a": Role(NUMBER, ""), "b": Role(ID, "")})
    assert not list(good.contradictions())
    fields = {name: getattr(good, name) for name in ("names", "roles", "reasons", "details")}
    (found,) = ColumnRoles(**{**fields, **change}, unchanged=False).contradictions()
    assert message in found


@pytest.fixture(scope="module")
def mixed():
    rng = np.random.default_rng(1)
    X = pd.DataFrame({"x": rng.normal(size=300), "z": rng.normal(size=300)})
    X["when"] = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, 300), unit="D")
    X["customer"] = [f"K{i}" for i in range(300)]
    return X, (X["x"] + rng.normal(0, 0.3, 300) > 0).astype(int)


@pytest.mark.parametrize("library", LIBRARIES)
def test_estimators_leave_ids_out_and_take_dates(library, mixed, tmp_path):
    X, y = mixed
    X = LIBRARIES[library]({name: X[name].tolist() for name in X.columns})
    model = GeodesicCalibrator(small_forest(), random_state=0)
    with pytest.warns(UserWarning, match="left out: 'customer'.*categorical_features"):
        model.fit(X, y)
    assert model.columns_.features == ["x", "z", "when"] == list(model.feature_names_in_)
    P = model.predict_proba(X)
    days = (mixed[0]["when"] - pd.Timestamp("1970-01-01")) / pd.Timedelta(days=1)
    np.testing.assert_array_equal(
        P, model.predict_proba(mixed[0][["x", "z"]].assign(when=days).set_axis(range(5, 305)))
    )
    model.save(tmp_path / "m.polycal")
    loaded = polycal.load(tmp_path / "m.polycal")
    assert loaded.columns_ == model.columns_
    np.testing.assert_array_equal(loaded.predict_proba(X), P)
    with pytest.raises(ValueError, match="'when' held dates in the fit, and holds text now"):
        loaded.predict(mixed[0].assign(when="soon"))


def test_a_fit_says_from_when_on_later_dates_will_be_out(mixed):
    X, y = mixed
    model = GeodesicCalibrator(small_forest(), random_state=0)
    X = X[["x", "when"]].assign(paid=X["when"] + pd.Timedelta(days=30))
    message = (
        r"'when' \(2020-01-04 to 2022-06-17; after about 2022-12-13\), 'paid' \(2020-02-03 to "
        r"2022-07-17; after about 2023-01-12\)\. .* leave the column out, or"
    )
    with pytest.warns(polycal.DataWarning, match=message):
        model.fit(X, y)
    later = X.assign(when=pd.Timestamp("2022-12-20"), paid=pd.Timestamp("2023-01-20"))
    assert (model.explain(later).verdict == "out").mean() > 0.5
    days = (X["when"] - pd.Timestamp("1970-01-01")).dt.days
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(X[["x"]].assign(when=days), y)


def test_dates_of_a_wide_range_end_late():
    """Years pass before births of 70 years are out; dates of a single day end at once."""
    births, day = np.array([-7000.0, 18500.0]), np.array([18262.0] * 3)
    ending = {"day": "2020-01-01 to 2020-01-01; after about 2020-01-01"}
    assert dates_that_end({"born": births, "day": day, "empty": day[:0]}) == ending


def test_pipelines_and_frozen_parents_get_the_frame_as_it_is(mixed):
    X, y = mixed
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", FewRowsWarning)
        encoder = (OrdinalEncoder(), ["customer"])
        columns = make_column_transformer(encoder, remainder="passthrough")
        pipeline = make_pipeline(columns, small_forest())
        model = GeodesicCalibrator(pipeline, calibration="holdout", random_state=0)
        model.fit(X.drop(columns="when").assign(customer="K"), y)
        assert model.columns_.roles == (NUMBER, NUMBER, TEXT)
        rows = X[["x", "z"]].assign(row=range(300))
        parent = HistGradientBoostingClassifier(max_iter=5).fit(rows[:200], y[:200])
        frozen = GeodesicCalibrator(FrozenEstimator(parent))
        frozen.fit(rows[:200], y[:200], X_cal=rows[200:], y_cal=y[200:])
        assert frozen.columns_.features == ["x", "z", "row"]


def test_verbose_says_how_columns_are_read(mixed, capsys):
    X, y = mixed
    model = GeodesicCalibrator(small_forest(), random_state=0, verbose=1)
    model.fit(X[["x", "when"]], y)
    assert "when  date      days since 1970" in capsys.readouterr().err
