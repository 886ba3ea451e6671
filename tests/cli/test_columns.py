"""Values of the columns of a file."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from polycal.cli.columns import typed
from polycal.cli.files import Source
from polycal.core.roles import CATEGORY, DATE, NUMBER, ColumnRoles, Role


def write(path, columns):
    pd.DataFrame(columns).to_csv(path, index=False)
    return Source(path).read()


def test_what_cannot_be_read_names_its_line(tmp_path):
    table = write(tmp_path / "t.csv", {"a": ["1", "x"], "d": ["2020-01-01", "soon"]})
    with pytest.raises(ValueError, match=r"must hold finite numbers; line 3 of .*t\.csv holds 'x'"):
        typed(table, ColumnRoles.of({"a": Role(NUMBER, "")}))
    infinite = write(tmp_path / "i.csv", {"a": ["1", "-inf", "1e400"]})
    with pytest.raises(ValueError, match=r"must hold finite numbers; line 3 .* holds '-inf'"):
        typed(infinite, ColumnRoles.of({"a": Role(NUMBER, "")}))
    with pytest.raises(
        ValueError, match=r"'d' must hold dates as year-month-day; line 3 of .* 'soon'"
    ):
        typed(table, ColumnRoles.of({"d": Role(DATE, "")}))
    frame = pd.DataFrame({"a": pd.to_datetime(["2020-01-01"])})
    with pytest.raises(ValueError, match="'a' held numbers in the fit, and holds dates"):
        typed(frame, ColumnRoles.of({"a": Role(NUMBER, "")}))


def test_text_of_categories():
    table = pd.DataFrame({"a": [1.0, np.nan, 3.0], "b": ["x", None, "y"], "c": [True, False, True]})
    found = typed(table, ColumnRoles.of(dict.fromkeys("abc", Role(CATEGORY, ""))))
    assert found["a"].tolist() == ["1", None, "3"]
    assert found["b"].tolist() == ["x", None, "y"]
    assert found["c"].tolist() == ["True", "False", "True"]


def test_blanks_are_no_part_of_a_category(tmp_path):
    table = write(tmp_path / "t.csv", {"a": ["x", " x", "x ", " ", " NA", "y"], "b": range(6)})
    found = typed(table, ColumnRoles.of({"a": Role(CATEGORY, "")}))
    assert found["a"].tolist() == ["x", "x", "x", None, None, "y"]


def test_text_of_a_number_does_not_depend_on_the_others():
    roles = ColumnRoles.of({"a": Role(CATEGORY, "")})
    table = pd.DataFrame({"a": [1.0, 2.5, np.nan]})
    assert typed(table, roles)["a"].tolist() == ["1", "2.5", None]
    assert typed(table[:1], roles)["a"].tolist() == ["1"]
    assert typed(table.astype("Float64"), roles)["a"].tolist() == ["1", "2.5", None]
