"""How the columns of a file are read."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

from polycal.cli.columns import typed
from polycal.cli.files import Source
from polycal.cli.roles import chosen_roles, decide
from polycal.core.roles import CATEGORY, DATE, DROPPED, ID, NUMBER, TEXT

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


def test_dates_that_end_are_said_once(table):
    """The advice works: of a column that --date or --drop names nothing is said."""
    message = (
        r"later dates .*'since' \(2020-01-01 to 2021-02-03; after about 2021-04-23\), 'german'"
    )
    dates = ["since", "german", "american"]
    with pytest.warns(UserWarning, match=f"{message}.*--drop since, .* --date since uses"):
        decide(table[dates], {}, [])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        decide(table[dates], chosen_roles(dates, date=dates[:2], drop=dates[2:]), [])


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
        ({"number": ["height=-999x"]}, "behind the name stand numbers for missing values"),
        ({"number": ["height="]}, "behind the name stand numbers for missing values"),
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


QUANTITIES = {
    "price": [f"CHF {x:.2f}" for x in RNG.lognormal(3, 1, N)],
    "rate": [f"{x:.1f} %" for x in RNG.uniform(-9, 9, N)],
    "way": [f"{x} km" for x in RNG.integers(1, 300, N)],
    "people": [f"{x:,}".replace(",", "\u202f") for x in RNG.integers(1000, 10**7, N)],
    "debt": [f"\u2212{x:,}".replace(",", "'") for x in RNG.integers(1000, 10**7, N)],
}


def test_units_and_marks_between_thousands_are_numbers(tmp_path):
    table = write(tmp_path / "t.csv", QUANTITIES)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        roles = decide(table, {}, [])
    assert roles.roles == (NUMBER,) * 5
    assert roles.units == ("CHF", "%", "km", "", "")
    assert roles.reasons[:3] == ("in CHF", "in %", "in km")
    X = typed(table, roles)
    assert X["price"].tolist() == [float(x[4:]) for x in QUANTITIES["price"]]
    assert X["rate"].tolist() == [float(x[:-2]) for x in QUANTITIES["rate"]]
    assert X["people"].tolist() == [float(x.replace("\u202f", "")) for x in QUANTITIES["people"]]
    assert X["debt"].tolist() == [-float(x[1:].replace("'", "")) for x in QUANTITIES["debt"]]


@pytest.mark.parametrize("cell", ["USD 5", "5", "0.1%"])
def test_another_unit_than_in_the_fit_is_an_error(tmp_path, cell):
    roles = decide(write(tmp_path / "t.csv", QUANTITIES), {}, [])
    new = write(tmp_path / "n.csv", {**{name: ["1"] for name in QUANTITIES}, "price": [cell]})
    message = rf"'price' must hold finite numbers in CHF, as in the fit; line 2 .* '{cell}'"
    with pytest.raises(ValueError, match=message):
        typed(new, roles)


def test_two_units_are_no_number_without_a_word(tmp_path):
    table = write(tmp_path / "t.csv", {"a": ["5 $", "7 $", "9 $", "5 €"] * 100, "b": ["1"] * N})
    message = "'a' is read as a category, though 300 of 400 cells are numbers in \\$; .* '5 €'"
    with pytest.warns(UserWarning, match=message):
        assert decide(table, {}, []).roles[0] == CATEGORY


@pytest.mark.parametrize("cells", [["1a", "2a", "3a"], ["Q1", "Q2", "Q3"], ["SKU1", "SKU2"]])
def test_names_with_numbers_are_categories(tmp_path, cells):
    table = write(tmp_path / "t.csv", {"a": cells * 60, "b": ["1"] * (60 * len(cells))})
    assert decide(table, {}, []).roles[0] == CATEGORY


def test_cells_that_are_no_dates(tmp_path):
    """A few are missing, with a note; dates in two formats are not guessed at."""
    days = pd.date_range("2020-01-01", periods=N).strftime("%d.%m.%Y").tolist()
    spoilt = ["00.00.0000", "soon", *days[2:]]
    mixed = [*days[:200], *pd.date_range("2020-01-01", periods=200).strftime("%Y-%m-%d")]
    table = write(tmp_path / "t.csv", {"a": spoilt, "b": mixed, "c": ["1"] * N})
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        roles = decide(table, {}, [])
    notes = [str(w.message) for w in found]
    assert any("'a' is read as dates, and '00.00.0000', 'soon' as missing" in n for n in notes)
    assert any("'b' (id: 400 distinct" in n and "dates in several formats" in n for n in notes)
    assert roles.details[0] == ("%d.%m.%Y", "00.00.0000", "soon")
    assert typed(table, roles)["a"].isna().tolist() == [True, True, *[False] * (N - 2)]


def test_what_is_left_out_says_how_to_use_it(tmp_path):
    """The advice works; a column without values needs none."""
    numbers = [f"bad{i}" if i % 40 == 0 else f"{RNG.normal():.6f}" for i in range(N)]
    short = pd.date_range("1940-01-01", periods=N, freq="51D").strftime("%d.%m.%y")
    for cells, said, option in (
        (numbers, "of which 390 are numbers.*--number a;", {"number": ["a"]}),
        (short, "unknown century.*--date a=%d.%m.%y or", {"date": ["a=%d.%m.%y"]}),
    ):
        table = write(tmp_path / "t.csv", {"a": cells, "b": ["1"] * N})
        with pytest.warns(UserWarning, match=said):
            assert decide(table, {}, []).roles[0] == ID
        roles = decide(table, chosen_roles(["a", "b"], **option), [])
        assert typed(table, roles)["a"].notna().mean() > 0.9
    table = write(tmp_path / "t.csv", {"a": [""] * N, "b": ["1"] * N})
    with pytest.warns(UserWarning, match=r"left out: 'a' \(dropped: every value is missing\)\.$"):
        decide(table, {}, [])


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_codes_for_missing_values(tmp_path, kind):
    """Named in one note for all columns; the note says how they become missing, or stay."""
    cells = RNG.integers(0, 90, N).astype(float)
    cells[::40], other = -999.0, np.where(np.arange(N) % 40 == 1, 99999.0, cells + 900)
    frame = pd.DataFrame({"a": cells, "b": other, "c": np.arange(N) / 7})
    path = tmp_path / f"t.{kind}"
    frame.to_csv(path, index=False) if kind == "csv" else frame.to_parquet(path)
    table = Source(path).read()
    with pytest.warns(UserWarning, match="may be codes") as said:
        roles = dict(decide(table, {}, []).items())
    assert len(said) == 1
    text = str(said[0].message)
    assert "'a' (-999 in 10 of 400 rows), 'b' (99999 in 10 of 400 rows)" in text
    assert "--number a=-999; --number a reads" in text
    assert roles["a"].reason == "-999 in 10 of 400 rows, perhaps for a missing value"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        chosen = chosen_roles(list(table.columns), number=["a=-999", "b"])
        found = decide(table, chosen, [])
    X = typed(table, found)
    assert np.isnan(X["a"][::40]).all()
    assert np.isfinite(X.drop(index=X.index[::40])).all(axis=None)
    assert X["b"].max() == 99999.0
    with pytest.warns(UserWarning, match="no cell of column 'c' is -8, 9.5"):
        decide(table, chosen_roles(list(table.columns), number=["a", "b", "c=-8,9.5"]), [])
