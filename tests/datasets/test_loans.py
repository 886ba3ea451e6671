"""The table of loans: files as the script makes them, and the frame that is read from them."""

from __future__ import annotations

import pandas as pd
import pytest

from polycal.datasets import load_loans, path
from tests.datasets.make_loans import make_files


@pytest.mark.parametrize("name", ["loans", "loans_new"])
def test_files_are_those_of_the_script(name):
    assert path(name).read_text(encoding="utf-8") == make_files()[name]


def test_an_unknown_name_is_told():
    with pytest.raises(ValueError, match="name must be one of 'loans', 'loans_new'; got 'wine'"):
        path("wine")


@pytest.mark.parametrize(("new", "n_rows"), [(False, 800), (True, 250)])
def test_types_and_gaps(new, n_rows):
    table = load_loans(new=new)
    assert len(table) == n_rows
    assert table["loan id"].is_unique
    assert pd.api.types.is_datetime64_any_dtype(table["opened"])
    numbers = table[["income", "amount", "rate", "years employed"]]
    assert (numbers.dtypes == "float64").all()
    assert (numbers.isna().any() == [True, False, False, True]).all()
    assert set(table["outcome"]) == {"repaid", "late", "default"}


def test_rare_levels_and_odd_rows():
    loans, new = load_loans(), load_loans(new=True)
    assert loans["purpose"].value_counts().min() < 10
    assert new["amount"][0] > 10 * loans["amount"].max()
    assert new["branch"][1] not in set(loans["branch"])
    assert new["rate"][2] > 10 * loans["rate"].max()
