"""How each column of a table is read, and why: its role."""

from __future__ import annotations

import datetime
import re
import sys
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import narwhals.stable.v2 as nw
import numpy as np
from tqdm import tqdm

from .._utils.arrays import Array, Floats
from .._utils.saved import saved_number, saved_value
from .._utils.warnings import DataWarning, warn
from .codes import likely_codes
from .table import find_categories

NUMBER, CATEGORY, DATE, TEXT, ID, DROPPED = "number", "category", "date", "text", "id", "dropped"
PLURAL = {NUMBER: "numbers", CATEGORY: "categories", DATE: "dates", TEXT: "text"}
ROLES = (NUMBER, CATEGORY, DATE, TEXT, ID, DROPPED)
LEFT_OUT = (TEXT, ID, DROPPED)
DECIMAL_MARKS = (".", ",")
# Text is near-unique where at least this share of its values are distinct, in enough rows.
NEAR_UNIQUE = 0.9
LEAST_ROWS = 20
# Text of so many words on average, whose values mostly differ, is prose.
PROSE_WORDS = 4.0
PROSE_DISTINCT = 0.5
# Rows of which a counter is not a coincidence.
COUNTER_ROWS = 50
CAMEL_ID = re.compile("[a-z0-9]I[dD]$")  # customerId, not BID or PAID
NUMBERS_THE_ROWS = "numbers the rows"
MAY_BE_CODE = ", perhaps for a missing value"
USE_IT = "To use one nevertheless, list it in categorical_features, or make it a column of floats."
MICROSECONDS_A_DAY = 86_400e6
# Part of a day that is no more than rounding.
ROUNDING = 1e-6
# Most rows that are later than the last date by this share of the range are out of distribution
# (300 to 3000 rows, 1 to 12 other columns: a third of them at the least, mostly all).
LATER = 0.2
# Days for which a model may be in use. Dates of a wide range, such as of birth, stay known so long.
IN_USE = 2 * 365


class Role(NamedTuple):
    """How one column is read."""

    role: str
    reason: str
    # of a number: texts that stand for a missing value, and "=-999" for a number that does; of a
    # date: its format; of a category: the role that its data type alone would give
    details: tuple[str, ...] = ()
    unit: str = ""  # of a number in a text file, such as "%"


@dataclass(frozen=True)
class ColumnRoles:
    """The role of each column of a table, in the order of the table.

    A date is a number, its days since 1970. Text, ids and dropped columns are left out of the
    features.
    """

    names: tuple[str, ...] = saved_value()
    roles: tuple[str, ...] = saved_value()
    reasons: tuple[str, ...] = saved_value()
    details: tuple[tuple[str, ...], ...] = saved_value()
    # whether the parent gets the table unchanged, as a Pipeline does
    unchanged: bool = saved_number(bool)
    # the decimal mark of the text file that the columns were read from; None without one
    decimal: str | None = saved_value(default=None)
    # the unit of each number, as it was in the text file; none in files that are older than units
    units: tuple[str, ...] = saved_value(default=())

    @classmethod
    def of(
        cls, columns: dict[str, Role], unchanged: bool = False, decimal: str | None = None
    ) -> ColumnRoles:
        """Build from the role of each column."""
        found = columns.values()
        parts = [tuple(part) for part in zip(*found, strict=True)] or [(), (), (), ()]
        roles, reasons, details, units = parts
        units = units if any(units) else ()
        return cls(tuple(columns), roles, reasons, details, unchanged, decimal, units)

    def __len__(self) -> int:
        return len(self.names)

    def items(self) -> Iterator[tuple[str, Role]]:
        """Name and role of each column."""
        units = self.units or ("",) * len(self)
        parts = zip(self.names, self.roles, self.reasons, self.details, units, strict=True)
        for name, role, reason, details, unit in parts:
            yield name, Role(role, reason, details, unit)

    def with_role(self, *roles: str) -> list[str]:
        """Names of the columns that have one of these roles."""
        return [name for name, role in zip(self.names, self.roles, strict=True) if role in roles]

    @property
    def features(self) -> list[str]:
        """Names of the columns that the model uses."""
        return self.with_role(NUMBER, CATEGORY, DATE)

    def __str__(self) -> str:
        """One line for each column."""
        width = max((len(name) for name in self.names), default=0)
        return "\n".join(
            f"{name:{width}}  {role.role:8}  {role.reason}".rstrip() for name, role in self.items()
        )

    def prepare(self, X: Any) -> Any:
        """A frame of the features, with dates as days; X itself where nothing has to change.

        Where a column has another type than in the fit, that is an error, or a warning if the
        values can be used nevertheless.
        """
        frame = as_frame(X)
        if frame is None:
            return X
        changed = []
        for name, role in self.items():
            if name not in frame.columns or (role.role in LEFT_OUT and not self.unchanged):
                continue
            column = frame[name]
            _compare(name, role, column, self.unchanged)
            if role.role == DATE and not self.unchanged and _kind(column) == DATE:
                changed.append(days_since_1970(column).alias(name))
        absent = [] if self.unchanged else self.with_role(*LEFT_OUT)
        absent = [name for name in absent if name in frame.columns]
        if not changed and not absent:
            return X
        return frame.with_columns(*changed).drop(absent).to_native()

    def contradictions(self) -> Iterator[str]:
        """Inconsistencies in roles that were read from a file, as messages."""
        texts = (self.names, self.roles, self.reasons)
        if not all(_is_texts(part) for part in texts) or not isinstance(self.details, tuple):
            yield "the roles of the columns are not text"
        elif len({*map(len, texts), len(self.details)}) > 1:
            yield "the roles of the columns do not fit their names"
        elif not set(self.roles) <= set(ROLES) or not all(map(_is_texts, self.details)):
            yield "the role of a column is not known"
        elif not _is_texts(self.units) or len(self.units) not in (0, len(self.names)):
            yield "the units of the columns do not fit their names"
        elif self.decimal is not None and not _is_decimal_mark(self.decimal):
            yield "the decimal mark is neither a point nor a comma"


def as_frame(X: Any) -> Any:
    """X as a frame of narwhals; None if it is no frame, or its columns have no names."""
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    if not isinstance(frame, nw.DataFrame) or not all(type(n) is str for n in frame.columns):
        return None
    return frame


def learn_roles(X: Any, declared: Sequence[str], unchanged: bool) -> ColumnRoles | None:
    """The roles of the columns of a frame; None if X has no named columns.

    ``declared`` names categories that the user has declared, which are never ids. ``unchanged``
    says that the parent gets the frame as it is.
    """
    frame = as_frame(X)
    if frame is None:
        return None
    roles = {}
    for name in frame.columns:
        column = frame[name]
        kind = _kind(column)
        if unchanged:
            roles[name] = Role(kind, "")
        elif name in declared:
            roles[name] = Role(CATEGORY, "declared", (kind,))
        else:
            roles[name] = _role_of(column, kind)
    found = ColumnRoles.of(roles, unchanged)
    if roles and not unchanged and not found.features:
        raise ValueError(
            f"X has no column that says something about new rows: {', '.join(_left_out(found))}. "
            f"{USE_IT}"
        )
    return found


def _role_of(column: Any, kind: str) -> Role:
    if kind == NUMBER:
        if column.dtype.is_integer() and is_counter(column.name, column.drop_nulls().to_numpy()):
            return Role(ID, NUMBERS_THE_ROWS)
        return Role(NUMBER, codes_in(_floats(column)))
    if kind == DATE:
        return Role(DATE, "days since 1970")
    words = _words(column)
    if kind == TEXT and all(map(_is_number, words)):
        return Role(NUMBER, "text of numbers" if words else "every value is missing")
    role = role_of_words(words)
    if role.role in (ID, TEXT):
        return role
    return Role(CATEGORY, role.reason, (kind,))


def _compare(name: str, role: Role, column: Any, unchanged: bool) -> None:
    """Raise or warn if a column has another type than in the fit."""
    kind = _kind(column)
    was = role.details[0] if role.role == CATEGORY and role.details else role.role
    if kind == was or column.is_null().all():
        return
    if role.role == DATE and kind == NUMBER and not unchanged:
        return  # days already
    if role.role in (NUMBER, DATE) or kind == DATE:
        numerals = role.role == NUMBER and kind == TEXT and all(map(_is_number, _words(column)))
        if not numerals:
            raise ValueError(
                f"column {name!r} held {PLURAL[was]} in the fit, and holds {PLURAL[kind]} now. "
                "Convert it to the type that it had."
            )
    elif NUMBER in (kind, was):
        warnings.warn(
            f"column {name!r} held {PLURAL[was]} in the fit, and holds {PLURAL[kind]} now: none of "
            "its values may be known. Convert it to the type that it had.",
            stacklevel=2,
        )


def _words(column: Any) -> list[str]:
    values = column.cast(nw.String) if _kind(column) == CATEGORY else column
    return [str(value) for value in values.drop_nulls().to_list()]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _kind(column: Any) -> str:
    """What the data type of a column says: number, category, date, or text for all others."""
    dtype = column.dtype
    if dtype.is_numeric() or dtype == nw.Boolean:
        return NUMBER
    if dtype in (nw.Categorical, nw.Enum):
        return CATEGORY
    if dtype in (nw.Datetime, nw.Date):
        return DATE
    if dtype == nw.Object:
        values = [value for value in column.to_list() if value is not None and value == value]
        for kind, types in (
            (NUMBER, (int, float, np.number, np.bool_)),
            (DATE, (datetime.date, np.datetime64)),
        ):
            if values and all(isinstance(value, types) for value in values):
                return kind
    return TEXT


def days_since_1970(column: Any) -> Any:
    """A column of dates as days; a time zone is turned into UTC."""
    if column.dtype == nw.Object:
        missing = [value is None or value != value for value in column.to_list()]
        values = [None if gone else v for v, gone in zip(column.to_list(), missing, strict=True)]
        days = np.array(values, dtype="datetime64[us]").astype(np.float64) / MICROSECONDS_A_DAY
        days[missing] = np.nan
        empty = column.is_null().cast(nw.Float64)
        return empty.scatter(list(range(len(days))), days.tolist())
    return column.dt.timestamp("us").cast(nw.Float64) / MICROSECONDS_A_DAY


def _floats(column: Any) -> Floats:
    try:
        return np.array(column.drop_nulls().to_list(), dtype=np.float64)
    except (TypeError, ValueError):
        return np.empty(0)


def codes_in(values: Floats) -> str:
    """Which numbers look like codes for missing values, as a reason; "" without any."""
    found = likely_codes(values)
    shown = (f"{value:.10g} in {count:,} of {len(values):,}" for value, count in found.items())
    return f"{', '.join(shown)} rows{MAY_BE_CODE}" if found else ""


def is_counter(name: str, values: Array) -> bool:
    """Whether whole numbers number the rows: all distinct, and without gaps or named as an id."""
    if len(values) < LEAST_ROWS or len(np.unique(values)) < len(values):
        return False
    words = name.lower().replace("_", " ").replace("-", " ").replace(":", " ").split()
    if {"id", "index", "unnamed", "uuid"} & set(words) or CAMEL_ID.search(name):
        return True
    return len(values) >= COUNTER_ROWS and int(values.max()) - int(values.min()) < len(values)


def role_of_words(words: Sequence[str]) -> Role:
    """Category, text or id, by the texts that are not missing."""
    if not words:
        return Role(DROPPED, "every value is missing")
    n_distinct = len(set(words))
    share = n_distinct / len(words)
    if len(words) >= LEAST_ROWS and share >= PROSE_DISTINCT:
        n_words = sum(len(text.split()) for text in words) / len(words)
        if n_words >= PROSE_WORDS:
            return Role(TEXT, f"prose, {n_words:.0f} words on average")
    if len(words) >= LEAST_ROWS and share >= NEAR_UNIQUE:
        return Role(ID, f"{n_distinct:,} distinct values in {len(words):,} rows")
    return Role(CATEGORY, f"{n_distinct:,} {'level' if n_distinct == 1 else 'levels'}")


def _is_texts(values: Any) -> bool:
    return isinstance(values, tuple) and all(type(value) is str for value in values)


def declared_names(X: Any, categorical_features: Any) -> list[str]:
    """Names of the columns that ``categorical_features`` lists; none by data type."""
    if categorical_features is None or isinstance(categorical_features, str):
        return []
    names = [str(name) for name in X.columns]
    return [names[j] for j in find_categories(X, categorical_features)]


def report_roles(X: Any, columns: ColumnRoles, verbose: int) -> None:
    """Warn about columns that are left out, and dates; with ``verbose``, list all columns."""
    if columns.unchanged:
        return
    if verbose:
        tqdm.write(f"Columns:\n{columns}", file=sys.stderr)
    left_out = _left_out(columns)
    if left_out:
        warn(
            f"X has columns that say nothing about new rows, and they are left out: "
            f"{', '.join(left_out)}. {USE_IT} model.columns_ says how each column was read.",
            DataWarning,
        )
    frame = as_frame(X)
    dates = {name: days_since_1970(frame[name]) for name in columns.with_role(DATE)}
    ending = dates_that_end({name: days.drop_nulls().to_numpy() for name, days in dates.items()})
    if ending:
        warn(
            f"{later_is_out(ending)} leave the column out, or give its month or weekday in its "
            "place. A column of days since 1970 is taken without this warning.",
            DataWarning,
        )


def dates_that_end(dates: dict[str, Array]) -> dict[str, str]:
    """Columns of dates, as days since 1970, of which a model in use will see later ones.

    The text is their range, and from when on most rows are out of distribution.
    """
    found = {}
    for name, days in dates.items():
        if len(days) and LATER * (days.max() - days.min()) <= IN_USE:
            first, last = days.min(), days.max()
            until = day_as_text(last + LATER * (last - first))
            found[name] = f"{days_as_text(first, last)}; after about {until}"
    return found


def later_is_out(ending: dict[str, str]) -> str:
    """What dates that end will do to later rows."""
    shown = ", ".join(f"{name!r} ({until})" for name, until in ending.items())
    return (
        f"most rows of later dates will be out of distribution, and their answers near the class "
        f"priors: {shown}. If there will be such rows,"
    )


def days_as_text(first: float, last: float) -> str:
    """A range of days since 1970, as dates."""
    return f"{day_as_text(first)} to {day_as_text(last)}"


def day_as_text(day: float) -> str:
    """A day since 1970, as a date."""
    return str(np.datetime64(int(np.floor(day + ROUNDING)), "D"))


def _left_out(columns: ColumnRoles) -> list[str]:
    """Columns that are left out, each with the reason."""
    return [f"{name!r} ({role.reason})" for name, role in columns.items() if role.role in LEFT_OUT]


def _is_decimal_mark(value: Any) -> bool:
    return isinstance(value, str) and value in DECIMAL_MARKS
