"""How the columns of a file are read: by the options, or by what their cells look like."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._utils.arrays import Array, Bools, Floats, Ints
from .._utils.optional import optional
from ..core.roles import (
    CATEGORY,
    DATE,
    DROPPED,
    ID,
    LEFT_OUT,
    MAY_BE_CODE,
    NUMBER,
    NUMBERS_THE_ROWS,
    PLURAL,
    ColumnRoles,
    Role,
    codes_in,
    dates_that_end,
    is_counter,
    later_is_out,
    role_of_words,
)
from .columns import CODE_OF, MARKS, MISSING, TRUTH, codes_of, quoted, stripped, typed
from .dates import DATE_LIKE, find_format, parse_dates, shown_format
from .files import decimal_of, no_column, place_of
from .numbers import find_unit, parse_numbers, split_unit

# Numbers in text, where other cells are at most this share, and of at most so many kinds.
OTHER_SHARE = 0.05
OTHER_KINDS = 3
# Share of numbers from which a category is worth a note.
MOSTLY = 0.5
CODE = re.compile(r"0\d+")
SHORT_DATE = re.compile(r"\d\d?([./-])\d\d?\1\d\d")
SHORT_DATES = ", perhaps dates of an unknown century"
TO_NUMBER = " are numbers"


def decide(
    table: Any,
    chosen: dict[str, Role],
    left_out: Iterable[str | None],
    known: dict[str, Role] | None = None,
) -> ColumnRoles:
    """The role of each column of a table; ``chosen`` are those that the user has named.

    ``left_out`` are the target and the weights, which have no role. ``known`` are roles that other
    rows of the file have shown.
    """
    names = [name for name in table.columns if name not in set(left_out)]
    roles, known = {}, known or {}
    for name in names:
        if name in chosen:
            roles[name] = _settle(table, name, chosen[name])
        else:
            roles[name] = known[name] if name in known else _find(table, name)
    unused = {n: r for n, r in roles.items() if n not in chosen and r.role in LEFT_OUT}
    if unused:
        shown = ", ".join(f"{name!r} ({r.role}: {r.reason})" for name, r in unused.items())
        name = next((n for n, role in unused.items() if role.role != DROPPED), None)
        advice = f" {_advice(name, unused[name])}" if name is not None else ""
        warnings.warn(f"left out: {shown}.{advice}", stacklevel=2)
    coded = {n: r for n, r in roles.items() if r.role == NUMBER and r.reason.endswith(MAY_BE_CODE)}
    if coded:
        _note_codes(coded)
    dates = {n: r for n, r in roles.items() if r.role == DATE and n not in chosen}
    days = typed(table, ColumnRoles.of(dates))
    ending = dates_that_end({name: days[name].dropna().to_numpy() for name in dates})
    if ending:
        asked = quoted(next(iter(ending)))
        warnings.warn(
            f"{later_is_out(ending)} say --drop {asked}, or write the month or weekday in its "
            f"place; --date {asked} uses it without this note.",
            stacklevel=2,
        )
    return ColumnRoles.of(roles, decimal=decimal_of(table))


def _advice(name: str, role: Role) -> str:
    """How to use a column that is left out, or to leave it out without a note."""
    asked = quoted(name)
    option = f"--{CATEGORY} {asked}"
    if role.reason == NUMBERS_THE_ROWS or role.reason.endswith(TO_NUMBER):
        option = f"--{NUMBER} {asked}"
    elif role.reason.endswith(SHORT_DATES):
        option = f"--{DATE} {quoted(name + '=%d.%m.%y')} or {option}"
    return f"To use a column, say {option}; --drop {asked} leaves it out without this note."


def _note_codes(coded: dict[str, Role]) -> None:
    said = {name: role.reason.split("; ")[-1] for name, role in coded.items()}
    shown = ", ".join(f"{name!r} ({text.removesuffix(MAY_BE_CODE)})" for name, text in said.items())
    name, text = next(iter(said.items()))
    asked = f"{name}={text.split(' ', 1)[0]}"
    warnings.warn(
        f"numbers that may be codes for missing values: {shown}. They are read as numbers. Where "
        f"they are missing values, say --number {quoted(asked)}; --number {quoted(name)} reads "
        "them as numbers without this note.",
        stacklevel=3,
    )


def chosen_roles(names: list[str], **options: list[str] | None) -> dict[str, Role]:
    """Roles that the options --drop, --category, --number, --date and --text give to columns.

    A date may have its format behind the name, and a number its codes: "NAME=-999,99999".
    """
    found: dict[str, Role] = {}
    details: tuple[str, ...]
    for option, values in options.items():
        for value in values or []:
            name, details = value, ()
            if option in (DATE, NUMBER) and value not in names and "=" in value:
                name, _, behind = value.partition("=")
                details = (behind,) if option == DATE else _codes(name, behind)
            if name not in names:
                raise no_column(f"--{option}", name, names)
            if name in found:
                raise ValueError(f"column {name!r} is named by two options; name it once.")
            role = DROPPED if option == "drop" else option
            found[name] = Role(role, f"--{option}", details)
    return found


def _codes(name: str, given: str) -> tuple[str, ...]:
    """Numbers that stand for a missing value, as a role keeps them."""
    texts = given.split(",")
    if np.isnan(parse_numbers(np.array(texts, dtype=object), ".")).any():
        raise ValueError(
            f"--number {quoted(f'{name}={given}')}: behind the name stand numbers for missing "
            f"values, with a point and without blanks, such as {name}=-999 or {name}=-999,99999."
        )
    return tuple(f"{CODE_OF}{text}" for text in texts)


def _find(table: Any, name: str) -> Role:
    column = table[name]
    if table.attrs.get("typed", True):
        return _role_of_type(name, column)
    cells = Cells.of(table, name)
    if not len(cells.words):
        return Role(DROPPED, "every value is missing")
    if {word.lower() for word in set(cells.words)} <= set(TRUTH):
        return Role(NUMBER, "true is 1, false is 0")
    return _as_date(cells) or _as_number(cells) or _as_words(cells)


@dataclass(frozen=True)
class Cells:
    """The cells of a column of text that are not empty."""

    table: Any
    name: str
    rows: Ints
    words: Array

    @classmethod
    def of(cls, table: Any, name: str) -> Cells:
        text = stripped(table[name])
        rows = np.flatnonzero(~np.isin(text, list(MISSING)))
        return cls(table, name, rows, text[rows])

    def numbers(self) -> tuple[Floats, str]:
        """The cells as numbers, NaN for what is none, and their unit if they have one."""
        decimal = self.table.attrs.get("decimal", ".")
        values = parse_numbers(self.words, decimal)
        if not len(values) or np.isnan(values).mean() <= OTHER_SHARE:
            return values, ""
        unit = find_unit(self.words)
        return (parse_numbers(self.words, decimal, unit) if unit else values), unit

    def may_be_missing(self, other: Bools) -> bool:
        """Whether cells that do not fit the others may be read as missing."""
        kinds = set(self.words[other])
        few = bool(other.mean() <= OTHER_SHARE) and len(kinds) <= OTHER_KINDS
        return (few or kinds <= MARKS) and not other.all()

    def read_as(self, role: str, other: Bools) -> str:
        """Says that some cells are read as missing; returns the reason of the role."""
        if not other.any():
            return ""
        n, shown = int(other.sum()), self.listed(other)
        first = place_of(self.table, int(self.rows[other][0]))
        warnings.warn(
            f"column {self.name!r} is read as {PLURAL[role]}, and {shown} as missing, in {n} of "
            f"{len(self.words)} cells, the first in {first}. If it is a category, "
            f"say --category {quoted(self.name)}.",
            stacklevel=2,
        )
        return f"{n} of {len(self.words)} cells missing: {shown}"

    def listed(self, other: Bools) -> str:
        """Cells that do not fit the others, in words."""
        return ", ".join(map(repr, sorted(set(self.words[other]))[:OTHER_KINDS]))


def _as_date(cells: Cells) -> Role | None:
    like = {word for word in set(cells.words) if DATE_LIKE.fullmatch(word)}
    found = find_format(like)
    if found is None:
        return None
    date_format, unsure = found
    words = np.array(sorted(like), dtype=object)
    known = set(words[parse_dates(words, date_format).notna().to_numpy()])
    other = ~np.isin(cells.words, list(known))
    if not cells.may_be_missing(other):
        return None
    reason = _from(date_format, unsure)
    if not set(cells.words[other]) <= MARKS:
        reason = "; ".join([reason, cells.read_as(DATE, other)])
    return Role(DATE, reason, (date_format, *sorted(set(cells.words[other]) - MARKS)))


def _as_number(cells: Cells) -> Role | None:
    words, (values, unit) = cells.words, cells.numbers()
    other = np.isnan(values)
    if not cells.may_be_missing(other):
        return None
    bare = {(split_unit(word) or (word,))[0] for word in set(words[~other])}
    if any(map(CODE.fullmatch, bare)):
        return None
    whole = all(word.lstrip("+-").isdigit() for word in words[~other])
    if whole and is_counter(cells.name, values[~other]):
        return Role(ID, NUMBERS_THE_ROWS)
    reasons = [_in(unit).strip(), cells.read_as(NUMBER, other), codes_in(values)]
    kinds = tuple(sorted(set(words[other])))
    return Role(NUMBER, "; ".join(filter(None, reasons)), kinds, unit)


def _as_words(cells: Cells) -> Role:
    role = role_of_words(cells.words.tolist())
    values, unit = cells.numbers()
    numbers = ~np.isnan(values)
    if all(map(DATE_LIKE.fullmatch, set(cells.words))):
        if role.role == CATEGORY:
            warnings.warn(
                f"column {cells.name!r} is read as a category, though it holds dates, in several "
                "formats. Write them in one, or say --drop or --category, then without this note.",
                stacklevel=2,
            )
        return Role(role.role, f"{role.reason}, dates in several formats")
    if any(map(CODE.fullmatch, set(cells.words[numbers]))):
        return Role(role.role, f"{role.reason}, with leading zeros")
    if role.role == CATEGORY and numbers.mean() >= MOSTLY:
        warnings.warn(
            f"column {cells.name!r} is read as a category, though {int(numbers.sum())} of "
            f"{len(cells.words)} cells are numbers{_in(unit)}; others are "
            f"{cells.listed(~numbers)}. To read those as missing, say --number "
            f"{quoted(cells.name)}.",
            stacklevel=2,
        )
    if role.role == ID and numbers.mean() >= MOSTLY:
        return Role(ID, f"{role.reason}, of which {int(numbers.sum())}{_in(unit)}{TO_NUMBER}")
    if all(map(SHORT_DATE.fullmatch, set(cells.words))):
        return Role(role.role, f"{role.reason}{SHORT_DATES}")
    return role


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
        return Role(NUMBER, codes_in(values.to_numpy(dtype=float)))
    words = np.array([str(value) for value in values], dtype=object)
    found = find_format(set(words))
    return Role(DATE, _from(*found), found[:1]) if found else role_of_words(words.tolist())


def _settle(table: Any, name: str, role: Role) -> Role:
    """A role that the user has chosen, with what can be found about it."""
    if role.role == DATE and not role.details:
        if table.attrs.get("typed", True) and table[name].dtype.kind == "M":
            return role
        words = Cells.of(table, name).words
        words = words[~np.isin(words, list(MARKS))]
        found = find_format(set(words))
        if found is None:
            raise ValueError(
                f"--date {name!r}: the format of {next(iter(words), '')!r} is not known. Say how "
                f"it is written: --date {quoted(name + '=%d-%b-%Y')}."
            )
        return Role(DATE, f"--date, {_from(*found)}", found[:1])
    if role.role != NUMBER:
        return role
    settled = role
    if not table.attrs.get("typed", True):
        settled = _settle_number(Cells.of(table, name), role)
    if role.details:
        _check_codes(table, name, settled)
    return settled


def _check_codes(table: Any, name: str, role: Role) -> None:
    """Say which codes that the user has named are in no cell."""
    words = tuple(text for text in role.details if not text.startswith(CODE_OF))
    plain = typed(table, ColumnRoles.of({name: Role(NUMBER, "", words, role.unit)}))[
        name
    ].to_numpy()
    absent = [code for code in codes_of(role) if not (plain == code).any()]
    if absent:
        shown = ", ".join(f"{code:.10g}" for code in absent)
        warnings.warn(f"--number: no cell of column {name!r} is {shown}.", stacklevel=3)


def _settle_number(cells: Cells, role: Role) -> Role:
    words = cells.words
    if {word.lower() for word in set(words)} <= set(TRUTH):
        return Role(NUMBER, "--number")
    values, unit = cells.numbers()
    other = np.isnan(values)
    if len(words) and other.all():
        raise ValueError(
            f"--number {quoted(cells.name)}: no cell is a number; the first is {words[0]!r}. "
            "Leave the option out."
        )
    missing = other | np.isin(values, codes_of(role))
    gone = f", {int(missing.sum())} of {len(words)} cells missing" if missing.any() else ""
    kinds = tuple(sorted(set(words[other])))
    return Role(NUMBER, f"--number{_in(unit)}{gone}", (*role.details, *kinds), unit)


def _in(unit: str) -> str:
    return f" in {unit}" if unit else ""


def _from(date_format: str, unsure: str) -> str:
    return f"days since 1970, from {shown_format(date_format)}{unsure}"
