"""Numbers as people write them: decimal marks, marks between thousands, and units."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable

import numpy as np

from .._utils.arrays import Array, Floats
from .._utils.optional import optional

COMMA_NUMBER = re.compile(r"[+-]?(\d+|\d{1,3}(\.\d{3})+),\d+")
POINT_NUMBER = re.compile(r"[+-]?(\d+|\d{1,3}(,\d{3})+)\.\d+")
THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}((,\d{3})+|(\.\d{3})+)")
WITH_COMMA = re.compile(r"[+-]?(\d*|\d{1,3}(\.\d{3})+)(,\d*)?([eE][+-]?\d+)?")
WITH_COMMAS = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d+)?")
# Thousands apart by a blank of some kind or by an apostrophe, as in 1'234.50.
GROUPS = re.compile(r"(?<!\d)\d{1,3}([ '\u00a0\u2009\u202f\u2019])\d{3}(\1\d{3})*(?!\d)")
BETWEEN_GROUPS = re.compile("[ '\u00a0\u2009\u202f\u2019]")
MINUS = "\u2212"
QUANTITY = re.compile(
    r"(?P<sign>[+-]?)(?P<before>[^\W\d_]{0,3}(\.|[^\w\s.,;:/+-])?)\s*"
    r"(?P<number>[+-]?[\d.,]*\d[\d.,]*)"
    r"\s*(?P<after>[^\w\s.,;:/+-]?[^\W\d_]{0,7}[\u00b2\u00b3.]?(/[^\W\d_]{1,3})?)"
)
CURRENCY = re.compile(
    "AED|ARS|AUD|BRL|CAD|CHF|CLP|CNY|COP|CZK|DKK|EGP|EUR|GBP|HKD|HUF|IDR|ILS|INR|JPY|KRW|MAD|MXN|"
    "MYR|NOK|NZD|PHP|PKR|PLN|RON|RUB|SAR|SEK|SGD|THB|TRY|TWD|UAH|USD|VND|ZAR|Fr\\.?|kr\\.?|Kč|zł"
)
# A time of day, or a duration.
TIME = re.compile(r"(\d{1,3}):([0-5]\d)(:[0-5]\d(\.\d+)?)?")
HOURS = "hours:minutes"
# Letters after a number are a unit where there are more different numbers than this; otherwise
# they may belong to names, such as 1a and 2a.
MOST_NAMES = 20


def parse_numbers(words: Array, decimal: str, unit: str = "") -> Floats:
    """Texts as numbers; NaN for what is none, or has another unit."""
    pandas = optional("pandas", "cli")
    if unit or decimal == ",":
        words = np.array([_plain(word, decimal, unit) for word in words], dtype=object)
    values = pandas.to_numeric(words, errors="coerce").astype(float)
    if not unit and decimal == ".":
        for i in np.flatnonzero(np.isnan(values)):
            values[i] = pandas.to_numeric(_plain(words[i], decimal, ""), errors="coerce")
    found: Floats = np.asarray(values)
    return found


def find_unit(words: Array) -> str:
    """The unit of most texts, such as "%" or "CHF"; "" if they have none."""
    parts = [found for found in map(split_unit, words) if found is not None]
    if not parts:
        return ""
    (unit, times), *_ = Counter(unit for _, unit in parts).most_common(1)
    known = unit in ("%", "‰", HOURS) or _is_currency(unit)
    enough = known or len({number for number, one in parts if one == unit}) > MOST_NAMES
    return unit if enough and 2 * times > len(words) else ""


def split_unit(word: str) -> tuple[str, str] | None:
    """The number of a text and its unit; None if the text is no number. Times are hours."""
    time = TIME.fullmatch(word)
    if time is not None:
        seconds = float((time[3] or ":0")[1:])
        return repr(int(time[1]) + int(time[2]) / 60 + seconds / 3600), HOURS
    found = QUANTITY.fullmatch(_ungrouped(word))
    if found is None:
        return None
    before, after = found["before"].strip(), found["after"].strip()
    if before and (after or not _is_currency(before)):
        return None
    return found["sign"] + found["number"], before or after


def find_decimal(rows: Iterable[list[str]], separator: str) -> str:
    """The decimal mark: "," where more cells are numbers with it than with a point.

    Cells that may be thousands, such as 1.234, count only where there are no others.
    """
    comma, point = _fractions(rows)
    sure_comma, sure_point = _sure(comma), _sure(point)
    if sure_comma or sure_point:
        return "," if len(sure_comma) > len(sure_point) else "."
    return "," if separator != "," and len(comma) > len(point) else "."


def contrary_number(rows: Iterable[list[str]], decimal: str) -> str | None:
    """A cell that is a number with the other decimal mark alone; None if one surely has this."""
    comma, point = map(_sure, _fractions(rows))
    same, other = (comma, point) if decimal == "," else (point, comma)
    return other[0] if other and not same else None


def _fractions(rows: Iterable[list[str]]) -> tuple[list[str], list[str]]:
    """Cells that are numbers with a decimal comma, and those with a decimal point."""
    cells = [_bare(cell.strip()) for row in rows for cell in row if "," in cell or "." in cell]
    comma = [cell for cell in cells if COMMA_NUMBER.fullmatch(cell)]
    point = [cell for cell in cells if POINT_NUMBER.fullmatch(cell)]
    return comma, point


def _bare(cell: str) -> str:
    """The number of a cell, without its unit; the cell itself if it is no number."""
    if COMMA_NUMBER.fullmatch(cell) or POINT_NUMBER.fullmatch(cell):
        return cell
    parts = split_unit(cell)
    return cell if parts is None or parts[1] == HOURS else parts[0]


def _sure(cells: list[str]) -> list[str]:
    """Numbers whose mark cannot be that of thousands."""
    return [cell for cell in cells if not THOUSANDS.fullmatch(cell)]


def _plain(word: str, decimal: str, unit: str) -> str:
    """A number as Python writes it; a text that is no number where the unit is another."""
    word = _ungrouped(word)
    if unit:
        parts = split_unit(word)
        if parts is None or parts[1] != unit:
            return "none"
        word = parts[0]
        if unit == HOURS:
            return word
    if decimal == "," and word != "," and WITH_COMMA.fullmatch(word):
        return word.replace(".", "").replace(",", ".")
    if decimal == "." and WITH_COMMAS.fullmatch(word):  # 1,234,567.8
        return word.replace(",", "")
    return word


def _ungrouped(word: str) -> str:
    """A text with a plain minus, and without blanks or apostrophes between thousands."""
    word = word.replace(MINUS, "-", 1) if MINUS in word else word
    return GROUPS.sub(lambda found: BETWEEN_GROUPS.sub("", found[0]), word)


def _is_currency(unit: str) -> bool:
    symbol = any(unicodedata.category(mark) == "Sc" for mark in unit)
    return symbol or CURRENCY.fullmatch(unit) is not None
