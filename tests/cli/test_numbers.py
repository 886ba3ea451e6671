"""Numbers as people write them."""

from __future__ import annotations

import numpy as np
import pytest

from polycal.cli.numbers import find_decimal, find_unit, parse_numbers, split_unit


@pytest.mark.parametrize(
    ("rows", "separator", "decimal"),
    [
        ([["1,5", "x"], ["2,25", "y"]], ";", ","),
        ([["1.234,5"], ["-7,1"]], ";", ","),
        ([["1,234"], ["5,678"]], ",", "."),  # quoted thousands
        ([["1.5", "3,7"], ["2.5", ""]], ",", "."),
        ([["12.03.2024"]], ";", "."),
        ([["0,5", "1.234", "5.678"]], ";", ","),  # thousands with a point
        ([["0.5", "1,234", "5,678"]], ";", "."),
        ([["1,234"], ["5,678"]], ";", ","),
        ([["0.123", "7"]], ";", "."),
        ([["CHF 3,50", "12,5%"]], ";", ","),
        ([["6 179,24"]], ",", ","),
    ],
)
def test_decimal_marks(rows, separator, decimal):
    assert find_decimal(rows, separator) == decimal


@pytest.mark.parametrize(
    ("word", "decimal", "value"),
    [
        ("1,5", ",", 1.5),
        ("-1.234,5", ",", -1234.5),
        ("1.234.567", ",", 1234567.0),
        ("2,5e-3", ",", 0.0025),
        ("3.5", ",", 3.5),
        ("1,234.5", ".", 1234.5),
        ("12,34", ".", np.nan),
        ("1e3", ".", 1000.0),
        ("x", ",", np.nan),
        ("6 179,24", ",", 6179.24),
        ("1\u202f234", ".", 1234.0),
        ("1'234.5", ".", 1234.5),
        ("12 34", ".", np.nan),
        ("1 234'567", ".", np.nan),
        ("\u22125.5", ".", -5.5),
        ("5 %", ".", np.nan),
    ],
)
def test_numbers(word, decimal, value):
    np.testing.assert_equal(parse_numbers(np.array([word], dtype=object), decimal), [value])


@pytest.mark.parametrize(
    ("word", "parts"),
    [
        ("12,5%", ("12,5", "%")),
        ("-$1,234.50", ("-1,234.50", "$")),
        ("$-5", ("-5", "$")),
        ("1.234,50 €", ("1.234,50", "€")),
        ("CHF 229,69", ("229,69", "CHF")),
        ("Fr. 5", ("5", "Fr.")),
        ("3 m\u00b2", ("3", "m\u00b2")),
        ("5 km/h", ("5", "km/h")),
        ("-2 °C", ("-2", "°C")),
        ("7", ("7", "")),
        ("SKU 12", None),
        ("C-001", None),
        ("10:30", ("10.5", "hours:minutes")),
        ("36:00:36", ("36.01", "hours:minutes")),
        ("10:75", None),
        (">5", None),
        ("€ 5 m", None),
        ("+49 30 123 456", None),
        ("", None),
    ],
)
def test_parts_of_a_quantity(word, parts):
    assert split_unit(word) == parts


def test_unit_of_most():
    def unit(*words):
        return find_unit(np.array(words, dtype=object))

    assert unit("5 %", "6 %", "x") == "%"
    assert unit("5 %", "6", "7") == ""
    assert unit("5 kg", "6 kg") == ""  # may be names
    assert unit(*(f"{i} kg" for i in range(21))) == "kg"
    assert unit("10:30", "11:45") == "hours:minutes"
    assert unit("x", "y") == unit() == ""


@pytest.mark.parametrize("decimal", [".", ","])
def test_times_are_hours(decimal):
    words = np.array(["10:30", "00:07:30", "7"], dtype=object)
    np.testing.assert_equal(parse_numbers(words, decimal, "hours:minutes"), [10.5, 0.125, np.nan])
