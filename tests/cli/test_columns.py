"""Roles of the columns of a file, and their values."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

from polycal.cli.columns import chosen_roles, decide, parse_numbers, typed
from polycal.cli.files import Source
from polycal.core.roles import CATEGORY, DATE, DROPPED, ID, NUMBER, TEXT, ColumnRoles, Role

N = 400
RNG = np.random.default_rng(0)
COLUMNS = {
    "height": (RNG.normal(170, 9, N).round(1).astype(str), NUMBER),
    "thousands": ([f'"{1000 * i + 500:,}"' for i in range(N)], NUMBER),
    "active": (["TRUE", "false"] * 200, NUMBER),
    "city": (["Köln", "NA", "", "Bonn"] * 100, CATEGORY),
    "zip": (["01067", "80331"] * 200, CATEGORY),
    "customer": ([f"K{i:05d}" for i in RNG.permutation(N)], ID),
    "row": ([str(i) for i in range(N)], ID),
    "patient_id": ([str(i) for i in RNG.permutation(10**6)[:N]], ID),
    "note": ([f"one two three four {i} six" for i in range(N)], TEXT),
    "since": (pd.date_range("2020-01-01", periods=N).strftime("%Y-%m-%d"), DATE),
    "german": (pd.date_range("2020-01-01", periods=N).strftime("%d.%m.%Y"), DATE),
    "american": (pd.date_range("2020-01-01", periods=N).strftime("%m/%d/%Y"), DATE),
    "empty": (["", "NA"] * 200, DROPPED),
}


def write(path, columns):
    table = pd.DataFrame({name: list(values) for name, values in columns.items()})
    lines = [",".join(table.columns), *(",".join(row) for row in table.to_numpy())]
    path.write_text("\n".join(lines))
    return Source(path).read()


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("columns") / "t.csv"
    return write(path, {name: values for name, (values, _) in COLUMNS.items()})


def test_roles_are_found_and_ids_are_left_out_with_a_word(table):
    with pytest.warns(UserWarning, match="left out: 'customer'.*'note'.*--category customer;"):
        roles = decide(table, {}, [])
    assert dict(zip(roles.names, roles.roles, strict=True)) == {
        name: role for name, (_, role) in COLUMNS.items()
    }
    X = typed(table, roles)
    assert list(X.columns) == roles.features
    assert X["height"].tolist() == [float(x) for x in COLUMNS["height"][0]]
    assert X["thousands"][:10].tolist() == [1000.0 * i + 500 for i in range(10)]
    assert X["active"].tolist() == [1.0, 0.0] * 200
    assert X["city"].tolist() == ["Köln", None, None, "Bonn"] * 100
    assert X["zip"].tolist() == ["01067", "80331"] * 200
    for name in ("since", "german", "american"):
        assert X[name].tolist() == [18262.0 + i for i in range(N)]  # 2020-01-01


def test_one_cell_does_not_make_a_category_of_numbers(tmp_path):
    values = RNG.normal(size=N).round(3).astype(str)
    values[16] = "n.a."
    table = write(tmp_path / "t.csv", {"a": values, "b": ["1"] * N})
    with pytest.warns(UserWarning, match=r"'n\.a\.' as missing, in 1 of 400 .* line 18 of"):
        roles = decide(table, {}, [])
    assert roles.roles == (NUMBER, NUMBER)
    assert roles.details[0] == ("n.a.",)
    assert np.flatnonzero(typed(table, roles)["a"].isna()).tolist() == [16]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        roles = decide(table, chosen_roles(["a", "b"], category=["a"]), [])
    assert typed(table, roles)["a"].tolist() == values.tolist()


def test_a_category_of_many_numbers_is_said(tmp_path):
    table = write(tmp_path / "t.csv", {"a": ["1", "2", "3", "few"] * 100, "b": ["1"] * N})
    with pytest.warns(UserWarning, match="read as a category, though 300 of 400.*--number a"):
        assert decide(table, {}, []).roles[0] == CATEGORY
    roles = decide(table, chosen_roles(["a", "b"], number=["a"]), [])
    assert roles.details[0] == ("few",)
    assert typed(table, roles)["a"][:4].tolist()[:3] == [1.0, 2.0, 3.0]


def test_options_overrule(table):
    names = list(table.columns)
    chosen = chosen_roles(
        names,
        category=["customer", "height"],
        number=["row"],
        text=["city"],
        date=["german=%d.%m.%Y"],
        drop=["note", "patient_id", "empty"],
    )
    roles = decide(table, chosen, [])
    assert roles.with_role(CATEGORY) == ["height", "zip", "customer"]
    assert {"city", "note"} & set(roles.features) == set()
    assert typed(table, roles)["row"].tolist() == list(range(N))
    assert typed(table, roles)["german"][:1].tolist() == [18262.0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"category": ["x"]}, "--category 'x' is not a column of DATA"),
        ({"category": ["city"], "number": ["city"]}, "'city' is named by two options"),
        ({"number": ["customer"]}, "--number customer: no cell is a number; the first is 'K"),
        ({"date": ["customer"]}, "--date 'customer': the format of 'K.* is not known. Say how"),
    ],
)
def test_options_that_cannot_be(table, options, message):
    with pytest.raises(ValueError, match=message):
        decide(table, chosen_roles(list(table.columns), **options), [])


def test_csv_and_parquet_give_the_same(tmp_path, table):
    """Dates with and without a time zone, numbers, truth values and categories."""
    dates = pd.date_range("2020-01-01 07:30", periods=N, freq="9h")
    frame = pd.DataFrame(
        {
            "when": dates,
            "zone": dates.tz_localize("Europe/Berlin"),
            "day": dates.date,
            "x": RNG.normal(size=N),
            "on": [True, False] * 200,
            "city": ["Köln", None] * 200,
        }
    )
    frame.loc[3, "when"] = None
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet")
    found = []
    for name in ("t.csv", "t.parquet"):
        read = Source(tmp_path / name).read()
        roles = decide(read, {}, [])
        assert roles.roles == (DATE, DATE, DATE, NUMBER, NUMBER, CATEGORY)
        found.append(typed(read, roles).reset_index(drop=True))
        other = Source(tmp_path / ("t.csv" if name == "t.parquet" else "t.parquet")).read()
        found.append(typed(other, roles).reset_index(drop=True))
    for frame in found[1:]:
        pd.testing.assert_frame_equal(frame, found[0])


def test_what_cannot_be_read_names_its_line(tmp_path):
    table = write(tmp_path / "t.csv", {"a": ["1", "x"], "d": ["2020-01-01", "soon"]})
    with pytest.raises(ValueError, match=r"must hold finite numbers; line 3 of .*t\.csv holds 'x'"):
        typed(table, ColumnRoles.of({"a": Role(NUMBER, "")}))
    infinite = write(tmp_path / "i.csv", {"a": ["1", "-inf", "1e400"]})
    with pytest.raises(ValueError, match=r"must hold finite numbers; line 3 .* holds '-inf'"):
        typed(infinite, ColumnRoles.of({"a": Role(NUMBER, "")}))
    with pytest.raises(ValueError, match=r"'d' must hold dates as ISO8601; line 3 of .* 'soon'"):
        typed(table, ColumnRoles.of({"d": Role(DATE, "")}))
    frame = pd.DataFrame({"a": pd.to_datetime(["2020-01-01"])})
    with pytest.raises(ValueError, match="'a' held numbers in the fit, and holds dates"):
        typed(frame, ColumnRoles.of({"a": Role(NUMBER, "")}))


@pytest.mark.parametrize(
    ("word", "decimal", "value"),
    [
        ("1,5", ",", 1.5),
        ("-1.234,5", ",", -1234.5),
        ("1.234.567", ",", 1234567.0),
        ("2,5e-3", ",", 0.0025),
        ("3.5", ",", 3.5),
        ("1,234.5", ".", 1234.5),
        ("12,34", ".", np.nan),
        ("1e3", ".", 1000.0),
        ("x", ",", np.nan),
    ],
)
def test_numbers(word, decimal, value):
    np.testing.assert_equal(parse_numbers(np.array([word], dtype=object), decimal), [value])


def test_text_of_categories():
    table = pd.DataFrame({"a": [1.0, np.nan, 3.0], "b": ["x", None, "y"], "c": [True, False, True]})
    found = typed(table, ColumnRoles.of(dict.fromkeys("abc", Role(CATEGORY, ""))))
    assert found["a"].tolist() == ["1", None, "3"]
    assert found["b"].tolist() == ["x", None, "y"]
    assert found["c"].tolist() == ["True", "False", "True"]


def test_text_of_a_number_does_not_depend_on_the_others():
    roles = ColumnRoles.of({"a": Role(CATEGORY, "")})
    table = pd.DataFrame({"a": [1.0, 2.5, np.nan]})
    assert typed(table, roles)["a"].tolist() == ["1", "2.5", None]
    assert typed(table[:1], roles)["a"].tolist() == ["1"]
    assert typed(table.astype("Float64"), roles)["a"].tolist() == ["1", "2.5", None]
