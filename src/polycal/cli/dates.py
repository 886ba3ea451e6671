"""Dates as people write them, and their days since 1970."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from .._utils.arrays import Array
from .._utils.optional import optional

EPOCH = "1970-01-01"
ISO = "ISO8601"
ISO_CLOCK = r"\d\d:\d\d(:\d\d(\.\d+)?)?( ?(Z|[+-]\d\d:?\d\d))?"
ISO_DATE = re.compile(rf"\d{{4}}-\d\d-\d\d([T ]{ISO_CLOCK})?")
# What a day looks like, and how pandas reads it; the same for the clock that may follow.
DAYS = {
    r"\d{4}/\d\d?/\d\d?": "%Y/%m/%d",
    r"\d\d?\.\d\d?\.\d{4}": "%d.%m.%Y",
    r"\d\d?-[A-Z][a-z][a-z]-\d{4}": "%d-%b-%Y",
    r"\d\d? [A-Z][a-z][a-z] \d{4}": "%d %b %Y",
    r"\d\d?/[A-Z][a-z][a-z]/\d{4}": "%d/%b/%Y",
}
CLOCKS = {
    "": "",
    r" \d\d?:\d\d": " %H:%M",
    r" \d\d?:\d\d:\d\d": " %H:%M:%S",
    r" \d\d?:\d\d [AaPp][Mm]": " %I:%M %p",
    r" \d\d?:\d\d:\d\d [AaPp][Mm]": " %I:%M:%S %p",
    r":\d\d:\d\d:\d\d [+-]\d{4}": ":%H:%M:%S %z",  # of web servers
}
# Days and months that may have changed places: 03/17/2024 or 17/03/2024.
EITHER = re.compile(r"(\d\d?)([/-])(\d\d?)\2\d{4}(.*)")
DATE_LIKE = re.compile(
    rf"(\d{{4}}-\d\d-\d\d|{'|'.join(DAYS)}|\d\d?/\d\d?/\d{{4}}|\d\d?-\d\d?-\d{{4}})([T :].*)?"
)


def find_format(words: set[str]) -> tuple[str, str] | None:
    """The format that all texts have, and a note where they leave it open."""
    if not words:
        return None
    if all(map(ISO_DATE.fullmatch, words)):
        return ISO, ""
    for clock, clock_format in CLOCKS.items():
        for day, day_format in DAYS.items():
            if all(map(re.compile(day + clock).fullmatch, words)):
                return day_format + clock_format, ""
        found = _either(words, clock)
        if found is not None:
            return found[0] + clock_format, found[1]
    return None


def _either(words: set[str], clock: str) -> tuple[str, str] | None:
    parts = [EITHER.fullmatch(word) for word in words]
    if not all(part and re.fullmatch(clock, part[4]) for part in parts):
        return None
    marks = {part[2] for part in parts if part}
    if len(marks) > 1:
        return None
    mark = marks.pop()
    first = max(int(part[1]) for part in parts if part)
    second = max(int(part[3]) for part in parts if part)
    day_first, month_first = f"%d{mark}%m{mark}%Y", f"%m{mark}%d{mark}%Y"
    if max(first, second) > 12:
        return (day_first if first > 12 else month_first), ""
    return month_first, f", which the values do not tell apart from {day_first}"


def shown_format(date_format: str) -> str:
    """A format in words."""
    return "year-month-day" if date_format == ISO else date_format


def parse_dates(words: Array, date_format: str) -> Any:
    """Texts as dates in UTC; NaT for what has another format. None is missing."""
    if all(word is None or ISO_DATE.fullmatch(word) for word in set(words)):
        date_format = ISO  # plain in any file
    pandas = optional("pandas", "cli")
    texts = pandas.Series(words, dtype=object)
    return pandas.to_datetime(texts, format=date_format, errors="coerce", utc=True)


def days_of(dates: Any) -> Array:
    """Days since 1970."""
    pandas = optional("pandas", "cli")
    days = (dates - pandas.Timestamp(EPOCH, tz="UTC")) / pandas.Timedelta(days=1)
    return np.asarray(days.to_numpy(dtype=float))
