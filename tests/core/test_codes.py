"""Numbers that look like codes for missing values, and numbers that do not."""

from __future__ import annotations

import numpy as np
import pytest

from polycal.core.codes import likely_codes

RNG = np.random.default_rng(0)
AGE = RNG.integers(18, 90, 300).astype(float)


def with_code(values, code, n=7):
    return np.concatenate([np.full(n, float(code)), values])


@pytest.mark.parametrize(
    ("values", "code"),
    [
        (AGE, -9),
        (AGE, -99),
        (AGE, 999),
        (AGE, 99999),
        (AGE, 8888),
        (AGE, 999.9),
        (AGE, -(2**31)),
        (AGE, 1e30),
        (RNG.integers(0, 11, 300), 99),
        (RNG.normal(500, 200, 300), -9999),
        (RNG.normal(size=300), -999),
        (RNG.lognormal(3, 2, 3000), -1e20),
    ],
)
def test_a_code_and_its_rows(values, code):
    assert likely_codes(with_code(values, code)) == {code: 7}
    assert likely_codes(with_code([*values, np.nan], code)) == {code: 7}


@pytest.mark.parametrize(
    "values",
    [
        AGE,
        np.arange(100.0),  # 99 is the next number
        with_code(AGE, -999, 2),  # two rows may be an accident
        with_code(AGE, 99),
        with_code(RNG.normal(0, 500, 3000), -999),
        with_code(RNG.lognormal(5, 1, 3000), 999),
        with_code(AGE, 1000),  # far, but written as a number is
        with_code(AGE, -1),
        RNG.choice([9.99, 99.0, 999.0], 300),  # prices
        RNG.choice([0.0, 99.0], 300),
        RNG.choice([0.0, 99.0], 300) + RNG.normal(size=300),
        np.full(300, 999.0),
        np.full(300, np.nan),
        np.empty(0),
    ],
)
def test_what_is_no_code(values):
    assert likely_codes(values) == {}
