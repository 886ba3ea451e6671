"""What the columns of a file mean: their roles, and their values as numbers and text."""

from __future__ import annotations

import re
import shlex
import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np

from .._utils.arrays import Array, Bools, Floats
from .._utils.optional import optional
from ..core.roles import (
    CATEGORY,
    DATE,
    DROPPED,
    ID,
    LEFT_OUT,
    NUMBER,
    NUMBERS_THE_ROWS,
    ColumnRoles,
    Role,
    is_counter,
    role_of_words,
)
from .files import decimal_of, place_of

# Cells of a feature that are missing values.
MISSING = frozenset(
    {"", "NA", "N/A", "n/a", "#N/A", "#N/A N/A", "#NA", "<NA>", "NaN", "nan", "-NaN", "-nan"}
    | {"NULL", "null", "None", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN"}
)
# Cells that are missing values in a column of numbers, beside those.
MARKS = frozenset({"n.a.", "N.A.", "na", "n.d.", "k.A.", "-", "--", "?", ".", "*", "#VALUE!"})
# Numbers in text, where other cells are at most this share, and of at most so many kinds.
OTHER_SHARE = 0.05
OTHER_KINDS = 3
# Share of numbers from which a category is worth a note.
MOSTLY = 0.5
TRUTH = {"true": 1.0, "false": 0.0}
CODE = re.compile(r"0\d+")
EPOCH = "1970-01-01"
CLOCK = r"\d\d:\d\d(:\d\d(\.\d+)?)?( ?(Z|[+-]\d\d:?\d\d))?"
# Formats of dates: what a cell looks like, and how pandas reads it.
DATES = (
    (re.compile(rf"\d{{4}}-\d\d-\d\d([T ]{CLOCK})?"), "ISO8601"),
    (re.compile(r"\d{4}/\d\d?/\d\d?"), "%Y/%m/%d"),
    (re.compile(r"\d\d?\.\d\d?\.\d{4}"), "%d.%m.%Y"),
)
SLASHES = re.compile(r"(\d\d?)/(\d\d?)/\d{4}")


def decide(table: Any, chosen: dict[str, Role], left_out: Iterable[str | None]) -> ColumnRoles:
    """The role of each column of a table; ``chosen`` are those that the user has named.

    ``left_out`` are the target and the weights, which have no role.
    """
    names = [name for name in table.columns if name not in set(left_out)]
    roles = {}
    for name in names:
        roles[name] = _settle(table, name, chosen[name]) if name in chosen else _find(table, name)
    unused = {n: r for n, r in roles.items() if n not in chosen and r.role in LEFT_OUT}
    if unused:
        shown = ", ".join(f"{name!r} ({r.role}: {r.reason})" for name, r in unused.items())
        name, role = next(iter(unused.items()))
        name = _quoted(name)
        option = NUMBER if role.reason == NUMBERS_THE_ROWS else CATEGORY
        warnings.warn(
            f"left out: {shown}. To use a column, say --{option} {name}; --drop {name} leaves it "
            "out without this note.",
            stacklevel=2,
        )
    return ColumnRoles.of(roles, decimal=decimal_of(table))


def chosen_roles(names: list[str], **options: list[str] | None) -> dict[str, Role]:
    """Roles that the options --drop, --category, --number, --date and --text give to columns."""
    found: dict[str, Role] = {}
    for option, values in options.items():
        for value in values or []:
            name, date_format = value, ""
            if option == DATE and value not in names and "=" in value:
                name, _, date_format = value.partition("=")
            if name not in names:
                raise ValueError(f"--{option} {name!r} is not a column of DATA: {names[:20]}.")
            if name in found:
                raise ValueError(f"column {name!r} is named by two options; name it once.")
            role = DROPPED if option == "drop" else option
            found[name] = Role(role, f"--{option}", (date_format,) if date_format else ())
    return found


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


# ------------------------------------------------------------------ deciding


def _find(table: Any, name: str) -> Role:
    column = table[name]
    if table.attrs.get("typed", True):
        return _role_of_type(name, column)
    text = _stripped(column)
    present = ~np.isin(text, list(MISSING))
    words = text[present]
    if not len(words):
        return Role(DROPPED, "every value is missing")
    if {word.lower() for word in set(words)} <= set(TRUTH):
        return Role(NUMBER, "true is 1, false is 0")
    values = parse_numbers(words, table.attrs.get("decimal", "."))
    other = np.isnan(values)
    if not other.any():
        return _role_of_numbers(name, words, values)
    date = _date_format(words[~np.isin(words, list(MARKS))])
    if date is not None:
        return date
    kinds = sorted(set(words[other]))
    few = other.mean() <= OTHER_SHARE and len(kinds) <= OTHER_KINDS
    if (few or set(kinds) <= MARKS) and not other.all():
        first = int(np.flatnonzero(present)[np.flatnonzero(other)[0]])
        shown = ", ".join(map(repr, kinds[:OTHER_KINDS]))
        warnings.warn(
            f"column {name!r} is read as numbers, and {shown} as missing, in {int(other.sum())} of "
            f"{len(words)} cells, the first in {place_of(table, first)}. If it is a category, say "
            f"--category {_quoted(name)}.",
            stacklevel=2,
        )
        found = _role_of_numbers(name, words[~other], values[~other])
        reason = f"{int(other.sum())} of {len(words)} cells missing: {shown}"
        return Role(NUMBER, reason, tuple(kinds)) if found.role == NUMBER else found
    role = role_of_words(words.tolist())
    if role.role == CATEGORY and (~other).mean() >= MOSTLY:
        warnings.warn(
            f"column {name!r} is read as a category, though {int((~other).sum())} of {len(words)} "
            f"cells are numbers; others are {', '.join(map(repr, kinds[:OTHER_KINDS]))}. To read "
            f"those as missing, say --number {_quoted(name)}.",
            stacklevel=2,
        )
    return role


def _role_of_numbers(name: str, words: Array, values: Floats) -> Role:
    if any(CODE.fullmatch(word) for word in set(words)):
        role = role_of_words(words.tolist())
        return Role(role.role, f"{role.reason}, with leading zeros")
    whole = all(word.lstrip("+-").isdigit() for word in words[:1000]) and (values % 1 == 0).all()
    if whole and is_counter(name, values):
        return Role(ID, NUMBERS_THE_ROWS)
    return Role(NUMBER, "")


def _role_of_type(name: str, column: Any) -> Role:
    """The role of a column of a file that has types."""
    pandas = optional("pandas", "cli")
    values = column.dropna()
    if not len(values):
        return Role(DROPPED, "every value is missing")
    if isinstance(column.dtype, pandas.CategoricalDtype):
        return role_of_words([str(value) for value in values])
    kind = pandas.api.types.infer_dtype(values)
    if kind in ("datetime64", "datetime", "date"):
        return Role(DATE, "days since 1970")
    if kind == "boolean":
        return Role(NUMBER, "true is 1, false is 0")
    if kind in ("integer", "floating", "mixed-integer-float", "decimal"):
        if kind == "integer" and is_counter(name, values.to_numpy(dtype=float)):
            return Role(ID, NUMBERS_THE_ROWS)
        return Role(NUMBER, "")
    words = np.array([str(value) for value in values], dtype=object)
    return _date_format(words) or role_of_words(words.tolist())


def _settle(table: Any, name: str, role: Role) -> Role:
    """A role that the user has chosen, with what can be found about it."""
    if role.role == DATE and not role.details:
        text = _stripped(table[name])
        if not table.attrs.get("typed", True) or table[name].dtype.kind not in "M":
            found = _date_format(text[~np.isin(text, list(MISSING | MARKS))])
            if found is None:
                example = next((word for word in text if word not in MISSING | MARKS), "")
                raise ValueError(
                    f"--date {name!r}: the format of {example!r} is not known. Say how it is "
                    f"written: --date {_quoted(name + '=%d-%b-%Y')}."
                )
            return Role(DATE, f"--date, {found.reason}", found.details)
    if role.role == NUMBER and not table.attrs.get("typed", True):
        text = _stripped(table[name])
        words = text[~np.isin(text, list(MISSING))]
        other = np.isnan(parse_numbers(words, table.attrs.get("decimal", ".")))
        truth = {word.lower() for word in set(words)} <= set(TRUTH)
        if len(words) and other.all() and not truth:
            raise ValueError(
                f"--number {_quoted(name)}: no cell is a number; the first is {words[0]!r}. Leave "
                "the option out."
            )
        if other.any() and not truth:
            share = f"{int(other.sum())} of {len(words)} cells missing"
            return Role(NUMBER, f"--number, {share}", tuple(sorted(set(words[other]))))
    return role


def _date_format(words: Array) -> Role | None:
    """A date and its format, if all texts have one."""
    if not len(words):
        return None
    distinct = set(words)
    for pattern, date_format in DATES:
        if all(map(pattern.fullmatch, distinct)):
            shown = "year-month-day" if date_format == "ISO8601" else date_format
            return Role(DATE, f"days since 1970, from {shown}", (date_format,))
    parts = [SLASHES.fullmatch(word) for word in distinct]
    if not all(parts):
        return None
    first = max(int(part.group(1)) for part in parts if part)
    second = max(int(part.group(2)) for part in parts if part)
    date_format = "%d/%m/%Y" if first > 12 >= second else "%m/%d/%Y"
    sure = "" if max(first, second) > 12 else ", which the values do not tell apart from %d/%m/%Y"
    return Role(DATE, f"days since 1970, from {date_format}{sure}", (date_format,))


# ------------------------------------------------------------------ reading


def parse_numbers(words: Array, decimal: str) -> Floats:
    """Texts as numbers; NaN for what is none."""
    pandas = optional("pandas", "cli")
    if decimal == ",":
        words = np.array([_with_point(word) for word in words], dtype=object)
    values = pandas.to_numeric(words, errors="coerce").astype(float)
    bad = np.flatnonzero(np.isnan(values))
    for i in bad:  # 1,234,567.8
        if re.fullmatch(r"[+-]?\d{1,3}(,\d{3})+(\.\d+)?", words[i]):
            values[i] = float(words[i].replace(",", ""))
    found: Floats = np.asarray(values)
    return found


def _with_point(word: str) -> str:
    if re.fullmatch(r"[+-]?(\d*|\d{1,3}(\.\d{3})+)(,\d*)?([eE][+-]?\d+)?", word) and word != ",":
        return word.replace(".", "").replace(",", ".")
    return word


def _numbers(table: Any, name: str, role: Role) -> Floats:
    column = table[name]
    if column.dtype.kind in "fiub":
        return np.asarray(column.to_numpy(dtype=float))
    if column.dtype.kind == "M":
        raise ValueError(
            f"column {name!r} held numbers in the fit, and holds dates in "
            f"{table.attrs.get('file', 'DATA')}. Fit the model again with --date {_quoted(name)}."
        )
    missing = column.isna().to_numpy()
    text = _stripped(column)
    gone = missing | np.isin(text, list(MISSING | MARKS | set(role.details)))
    values: Floats = np.full(len(column), np.nan)
    values[~gone] = parse_numbers(text[~gone], table.attrs.get("decimal", "."))
    wrong = np.isnan(values) & ~gone
    if wrong.any():
        truth = [TRUTH.get(word.lower(), np.nan) for word in text[wrong]]
        values[wrong] = truth
    wrong = ~np.isfinite(values) & ~gone
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise ValueError(
            f"column {name!r} must hold finite numbers; {place_of(table, row)} holds "
            f"{column.iloc[row]!r}. Correct it (an empty cell is a missing value), or fit the "
            f"model with --category {_quoted(name)} or --drop {_quoted(name)}."
        )
    return values


def _days(table: Any, name: str, role: Role) -> Floats:
    pandas = optional("pandas", "cli")
    column = table[name]
    if column.dtype.kind in "fiu":
        return np.asarray(column.to_numpy(dtype=float))  # days already
    missing: Bools = column.isna().to_numpy()
    if column.dtype.kind == "M":
        dates = pandas.to_datetime(column, utc=True).reset_index(drop=True)
    else:
        text = _stripped(column)
        missing = missing | np.isin(text, list(MISSING | MARKS))
        found = _date_format(text[~missing])
        date_format = (role.details or (found.details if found else ("ISO8601",)))[0]
        if found is not None and found.details == ("ISO8601",):  # plain in any file
            date_format = "ISO8601"
        text[missing] = None
        dates = pandas.to_datetime(
            pandas.Series(text), format=date_format, errors="coerce", utc=True
        )
        wrong = np.flatnonzero(dates.isna().to_numpy() & ~missing)
        if len(wrong):
            row = int(wrong[0])
            raise ValueError(
                f"column {name!r} must hold dates as {date_format}; {place_of(table, row)} holds "
                f"{column.iloc[row]!r}. Correct it, or fit the model with --category "
                f"{_quoted(name)}."
            )
    start = pandas.Timestamp(EPOCH, tz="UTC")
    days: Floats = ((dates - start) / pandas.Timedelta(days=1)).to_numpy(dtype=float)
    return days


def _categories(column: Any) -> Any:
    pandas = optional("pandas", "cli")
    text = exact_text(column)
    known = {word: (None if word in MISSING else word) for word in set(text) - {None}}
    text[:] = [None if word is None else known[word] for word in text]
    return pandas.Series(text, index=column.index, dtype=object)


def _stripped(column: Any) -> Array:
    """Cells as text without blanks around it; "" where there is no value."""
    missing = column.isna().to_numpy()
    text = np.empty(len(column), dtype=object)
    cells = zip(column, missing, strict=True)
    text[:] = ["" if gone else str(cell).strip() for cell, gone in cells]
    return text


def _quoted(name: str) -> str:
    """A name as one types it in a shell."""
    return shlex.quote(name)
