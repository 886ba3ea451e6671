"""Loans of a bank that does not exist, as two CSV files of the package."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from .._utils.optional import optional

if TYPE_CHECKING:
    import pandas as pd

FILES = ("loans", "loans_new")


def path(name: str) -> Path:
    """Path of a CSV file that comes with polycal.

    Parameters
    ----------
    name : {"loans", "loans_new"}
        The table: 800 loans to fit a model on, or 250 others with three odd rows among them.

    Returns
    -------
    Path
        The file, to be read or copied.

    Examples
    --------
    >>> from polycal import datasets
    >>> print(datasets.path("loans").read_text(encoding="utf-8").splitlines()[0])
    loan id;opened;branch;purpose;income;amount;rate;years employed;outcome
    """
    if name not in FILES:
        raise ValueError(f"name must be one of {', '.join(map(repr, FILES))}; got {name!r}.")
    return Path(__file__).parent / f"{name}.csv"


def load_loans(*, new: bool = False) -> pd.DataFrame:
    """Read the table of loans; needs pandas.

    The loans are made up, by a seeded script. Files and frame have the same rows: an id
    ("loan id"), a date ("opened"), two categories with rare levels ("branch", "purpose"), four
    numbers ("income", "amount", "rate", "years employed"; some are missing) and the label
    "outcome": "repaid", "late" or "default".

    Parameters
    ----------
    new : bool, default=False
        Whether to read the 250 new loans instead of the 800 to fit a model on. The first three of
        them are odd: an amount with a slip of the decimal mark, a branch that no other loan has,
        and a rate in another unit.

    Returns
    -------
    DataFrame
        One row for each loan, with numbers, dates and categories in their data types.

    Examples
    --------
    >>> from polycal.datasets import load_loans
    >>> load_loans().shape
    (800, 9)
    """
    pandas = optional("pandas", "frame")
    table: pd.DataFrame = pandas.read_csv(
        path("loans_new" if new else "loans"),
        sep=";",
        decimal=",",
        na_values="n.a.",
        parse_dates=["opened"],
        date_format="%d.%m.%Y",
        dtype={"branch": "category", "purpose": "category"},
    )
    return table
