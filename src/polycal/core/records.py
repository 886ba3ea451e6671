"""Rows as dicts, which is what JSON holds, as a frame with the types that the fit saw."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any

import numpy as np

from .._utils.arrays import Array
from .._utils.optional import optional
from .roles import CATEGORY, DATE, LEFT_OUT, MICROSECONDS_A_DAY, NUMBER, ColumnRoles, Role
from .table import is_missing

ISO = "ISO8601"
NO_DATE = np.datetime64("NaT", "us")
EXPECTED = {
    NUMBER: "a number",
    DATE: "a date as text, year-month-day, or its days since 1970",
    CATEGORY: "a text or a number",
}


def is_records(X: Any) -> bool:
    """Whether X is one row as a dict, or a list of such rows."""
    first = X[0] if isinstance(X, (list, tuple)) and X else X
    return isinstance(first, Mapping) and not hasattr(first, "shape")  # a sparse matrix may be one


def frame_of_records(X: Any, columns: ColumnRoles | None) -> Any:
    """A pandas frame of rows that are dicts, with its columns in the order of the fit.

    Each row needs a key for each column that the model uses; None stands for a missing value.
    Other keys are ignored.

    Raises
    ------
    ValueError
        If a key is missing, or a value cannot be one of its column. It names row and key.
    """
    if columns is None:
        raise ValueError(
            "X holds rows as dicts, and the model knows no names of columns. Fit it on a frame "
            "(pandas.DataFrame), or give each row as a list of values."
        )
    rows = [X] if isinstance(X, Mapping) else list(X)
    roles = {n: r for n, r in columns.items() if columns.unchanged or r.role not in LEFT_OUT}
    for i, row in enumerate(rows):
        _check_keys(i, row, list(roles))
    pandas = optional("pandas", "frame")
    found = {}
    for name, role in roles.items():
        values = [None if is_missing(row[name]) else row[name] for row in rows]
        found[name] = _column(pandas, name, role, values, columns.unchanged)
    return pandas.DataFrame(found)


def _check_keys(i: int, row: Any, names: list[str]) -> None:
    if not isinstance(row, Mapping):
        raise TypeError(
            f"row {i} of X is a {type(row).__name__}, and other rows are dicts. Give each row as a "
            "dict."
        )
    absent = [name for name in names if name not in row]
    if absent:
        raise ValueError(
            f"row {i} of X lacks {', '.join(map(repr, absent[:10]))}; its keys are "
            f"{[str(key) for key in row][:20]}. Give a key for each column of the fit, with the "
            "value None (null in JSON) where it is missing."
        )
    for name in names:
        if isinstance(row[name], (Mapping, list, tuple, set, np.ndarray)):
            raise ValueError(
                f"row {i} of X holds a {type(row[name]).__name__} as {name!r}. Give one value; a "
                "dict of columns becomes rows with pandas.DataFrame(X)."
            )


def _column(pandas: Any, name: str, role: Role, values: list[Any], unchanged: bool) -> Any:
    """One column in the type that it had in the fit."""
    kind = role.details[0] if role.role == CATEGORY and role.details else role.role
    if kind == NUMBER:
        return _typed(_each(name, role, values, _number))
    if kind == DATE:
        known = _each(name, role, values, _date)
        dates = np.array([NO_DATE if date is None else date for date in known], "datetime64[us]")
        return dates if unchanged else _days(dates)
    if kind == CATEGORY and (unchanged or role.details):  # its data type was that of categories
        return pandas.Series(values, dtype=object).astype("category")
    if kind == CATEGORY:  # of a file: text
        values = [None if value is None else str(value) for value in values]
    missing = all(value is None for value in values)
    return pandas.Series(values, dtype=object if missing else None)


def _each(name: str, role: Role, values: list[Any], convert: Any) -> list[Any]:
    """Each value converted; an error names row and key."""
    found = []
    for i, value in enumerate(values):
        try:
            found.append(None if value is None else convert(value, role.details))
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"row {i} of X holds {value!r} as {name!r}, which must be {EXPECTED[role.role]}. "
                "Correct it, or give None (null in JSON) if it is not known."
            ) from error
    return found


def _number(value: Any, missing: tuple[str, ...]) -> Any:
    if isinstance(value, str):
        return np.nan if value in missing else float(value)
    return value if isinstance(value, (bool, int, np.integer, np.bool_)) else float(value)


def _date(value: Any, formats: tuple[str, ...]) -> Any:
    """A moment in UTC, from a text, a date or days since 1970."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return np.datetime64(round(value * MICROSECONDS_A_DAY), "us")
    if isinstance(value, str):
        value = _from_text(value, formats[0] if formats else ISO)
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        value = value.astimezone(datetime.UTC).replace(tzinfo=None)
    if isinstance(value, datetime.date):
        return np.datetime64(value, "us")
    if not isinstance(value, np.datetime64):
        raise TypeError("neither a text nor a date")
    return value.astype("datetime64[us]")


def _from_text(text: str, date_format: str) -> datetime.datetime:
    try:
        return datetime.datetime.fromisoformat(text)
    except ValueError:
        if date_format == ISO:
            raise
        return datetime.datetime.strptime(text, date_format)  # as in the file of the fit


def _days(dates: Array) -> Array:
    days = dates.astype(np.int64) / MICROSECONDS_A_DAY
    days[np.isnat(dates)] = np.nan
    return days


def _typed(numbers: list[Any]) -> Array:
    """Whole numbers as such; as floats where one is missing."""
    array = np.array([np.nan if value is None else value for value in numbers])
    return array.astype(float) if array.dtype == object else array
