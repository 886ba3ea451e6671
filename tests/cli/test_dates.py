"""Dates as people write them."""

from __future__ import annotations

import datetime

import numpy as np
import pytest

from polycal.cli.dates import days_of, find_format, parse_dates

DAY = datetime.datetime(2024, 3, 17, 14, 5)
DAYS = (DAY - datetime.datetime(1970, 1, 1)) / datetime.timedelta(days=1)


@pytest.mark.parametrize(
    "written",
    [
        "%Y-%m-%dT%H:%M",
        "%Y-%m-%d %H:%M:%S",
        "%Y/%m/%d %H:%M",
        "%d.%m.%Y %H:%M",
        "%m/%d/%Y %I:%M %p",
        "%d/%m/%Y %H:%M:%S",
        "%d-%m-%Y %H:%M",
        "%d-%b-%Y %H:%M",
        "%d %b %Y %H:%M",
    ],
)
def test_formats(written):
    """With a clock and without."""
    for date_format, days in ((written, DAYS), (written.split("T")[0].split(" %H")[0], DAYS // 1)):
        word = DAY.strftime(date_format)
        found, note = find_format({word})
        assert note == ""
        value = days_of(parse_dates(np.array([word, None], dtype=object), found))
        expected = DAYS if " %I" in date_format else days
        np.testing.assert_allclose(value, [expected, np.nan], atol=1e-9)


def test_dates_of_web_servers():
    found, note = find_format({"17/Mar/2024:16:05:00 +0200", "01/Apr/2024:00:00:00 +0000"})
    assert note == ""
    value = days_of(parse_dates(np.array(["17/Mar/2024:16:05:00 +0200"], dtype=object), found))
    np.testing.assert_allclose(value, [DAYS], atol=1e-9)


@pytest.mark.parametrize(
    ("words", "date_format", "note"),
    [
        ({"1/2/2024", "13/2/2024"}, "%d/%m/%Y", False),
        ({"1/2/2024", "2/13/2024"}, "%m/%d/%Y", False),
        ({"1/2/2024"}, "%m/%d/%Y", True),
        ({"1-2-2024"}, "%m-%d-%Y", True),
    ],
)
def test_days_and_months(words, date_format, note):
    found, text = find_format(words)
    assert found == date_format
    assert bool(text) == note


@pytest.mark.parametrize(
    "words", [set(), {"soon"}, {"1/2/2024", "1-2-2024"}, {"2024-01-01", "1.2.2024"}, {"1.2.24"}]
)
def test_no_format(words):
    assert find_format(words) is None
