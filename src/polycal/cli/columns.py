"""The values of the columns of a file, as numbers and text."""

from __future__ import annotations

import shlex
from typing import Any

import numpy as np

from .._utils.arrays import Array, Floats
from .._utils.optional import optional
from ..core.roles import CATEGORY, DATE, NUMBER, ColumnRoles, Role
from .dates import ISO, days_of, find_format, parse_dates, shown_format
from .files import place_of
from .numbers import parse_numbers

# Cells of a feature that are missing values.
MISSING = frozenset(
    {"", "NA", "N/A", "n/a", "#N/A", "#N/A N/A", "#NA", "<NA>", "NaN", "nan", "-NaN", "-nan"}
    | {"NULL", "null", "None", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN"}
)
# Cells that are missing values in a column of numbers, beside those.
MARKS = frozenset({"n.a.", "N.A.", "na", "n.d.", "k.A.", "-", "--", "?", ".", "*", "#VALUE!"})
# Before a number, in the details of a role, that stands for a missing value.
CODE_OF = "="
# Trees compute in single precision.
LARGEST = float(np.finfo(np.float32).max)
TRUTH = {"true": 1.0, "false": 0.0}


def typed(table: Any, roles: ColumnRoles) -> Any:
    """The features: numbers and dates as floats, categories as text or None."""
    pandas = optional("pandas", "cli")
    columns = {}
    for name, role in roles.items():
        if role.role == NUMBER:
            columns[name] = _numbers(table, name, role)
        elif role.role == DATE:
            columns[name] = _days(table, name, role)
        elif role.role == CATEGORY:
            columns[name] = _categories(table[name])
    return pandas.DataFrame(columns, index=table.index)


def exact_text(column: Any) -> Array:
    """Cells as text, exactly as in the file; None where there is no value."""
    missing = column.isna().to_numpy()
    # 1.0 is 1, as it was before a missing value, whatever the other cells are.
    shown = _text_of_float if column.dtype.kind == "f" else str
    text = np.empty(len(column), dtype=object)
    text[:] = [None if gone else shown(v) for v, gone in zip(column, missing, strict=True)]
    return text


def _text_of_float(value: float) -> str:
    return str(int(value) if value.is_integer() else value)


def _numbers(table: Any, name: str, role: Role) -> Floats:
    column = table[name]
    if column.dtype.kind == "M":
        raise ValueError(
            f"column {name!r} held numbers in the fit, and holds dates in "
            f"{table.attrs.get('file', 'DATA')}. Fit the model again with --date {quoted(name)}."
        )
    gone = column.isna().to_numpy()
    if column.dtype.kind in "fiub":
        values: Floats = column.to_numpy(dtype=float, copy=True)
    else:
        text = stripped(column)
        gone = gone | np.isin(text, list(MISSING | MARKS | set(role.details)))
        values = np.full(len(column), np.nan)
        values[~gone] = parse_numbers(text[~gone], table.attrs.get("decimal", "."), role.unit)
        other = np.isnan(values) & ~gone
        values[other] = [TRUTH.get(word.lower(), np.nan) for word in text[other]]
    is_code = np.isin(values, codes_of(role))
    values[is_code] = np.nan
    gone = gone | is_code
    wrong = ~(np.abs(values) <= LARGEST) & ~gone
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        kind = "numbers below 3e38" if np.isfinite(values[row]) else "finite numbers"
        unit = f" in {role.unit}, as in the fit" if role.unit else ""
        raise ValueError(
            f"column {name!r} must hold {kind}{unit}; {place_of(table, row)} holds "
            f"{str(column.iloc[row])!r}. Correct it (an empty cell is a missing value), or fit the "
            f"model with --category {quoted(name)} or --drop {quoted(name)}."
        )
    return values


def codes_of(role: Role) -> list[float]:
    """Numbers that stand for a missing value."""
    return [float(text.removeprefix(CODE_OF)) for text in role.details if text.startswith(CODE_OF)]


def _days(table: Any, name: str, role: Role) -> Floats:
    column = table[name]
    if column.dtype.kind in "fiu":
        return np.asarray(column.to_numpy(dtype=float))  # days already
    if column.dtype.kind == "M":
        dates = optional("pandas", "cli").to_datetime(column, utc=True)
        return days_of(dates.reset_index(drop=True))
    date_format, *others = role.details or (None,)
    text = stripped(column)
    missing = column.isna().to_numpy() | np.isin(text, list(MISSING | MARKS | set(others)))
    if date_format is None:
        found = find_format(set(text[~missing]))
        date_format = found[0] if found else ISO
    text[missing] = None
    dates = parse_dates(text, date_format)
    wrong = np.flatnonzero(dates.isna().to_numpy() & ~missing)
    if len(wrong):
        row = int(wrong[0])
        raise ValueError(
            f"column {name!r} must hold dates as {shown_format(date_format)}; "
            f"{place_of(table, row)} holds {column.iloc[row]!r}. Correct it, or fit the model with "
            f"--category {quoted(name)}."
        )
    return days_of(dates)


def _categories(column: Any) -> Any:
    pandas = optional("pandas", "cli")
    text = exact_text(column)
    known = {word: word.strip() for word in set(text) - {None}}
    known = {word: (None if level in MISSING else level) for word, level in known.items()}
    text[:] = [None if word is None else known[word] for word in text]
    return pandas.Series(text, index=column.index, dtype=object)


def stripped(column: Any) -> Array:
    """Cells as text without blanks around it; "" where there is no value."""
    missing = column.isna().to_numpy()
    text = np.empty(len(column), dtype=object)
    cells = zip(column, missing, strict=True)
    text[:] = ["" if gone else str(cell).strip() for cell, gone in cells]
    return text


def quoted(name: str) -> str:
    """A name as one types it in a shell."""
    return shlex.quote(name)
