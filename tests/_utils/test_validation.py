"""Checks at the edge: what each accepts, what it refuses, and what the message names."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from polycal._utils.validation import (
    as_floats,
    auto_or_number,
    check_prior,
    check_weights,
    count,
    fraction,
    mean_weight,
    not_negative,
    one_of,
    positive,
    share,
)

NO_NUMBERS = ["1", None, True, math.nan, [1]]


@pytest.mark.parametrize(
    ("check", "good", "bad"),
    [
        (positive, [1e-300, 1, np.float32(2)], [0, -1, math.inf]),
        (not_negative, [0, 0.5, np.int8(3)], [-1e-300, math.inf]),
        (count, [1, np.int64(7)], [0, -1, 1.0]),
        (share, [1e-300, 0.5], [0, 1, -0.1, 1.1]),
        (fraction, [0, 0.5, 1], [-1e-300, 1.1]),
    ],
    ids=["positive", "not_negative", "count", "share", "fraction"],
)
def test_numbers_at_the_ends_of_each_range(check, good, bad):
    for value in good:
        check(size=value)
    for value in [*bad, *NO_NUMBERS]:
        with pytest.raises(ValueError, match="^size must .*; got ") as caught:
            check(fine=good[0], size=value)
        assert str(caught.value).endswith(f"; got {value!r}.")


def test_auto_or_number():
    auto_or_number(a="auto", b=-math.inf, c=3)
    for value in ("Auto", *NO_NUMBERS):
        with pytest.raises(ValueError, match='^gamma must be "auto" or a number; got '):
            auto_or_number(gamma=value)


def test_one_of_names_all_choices():
    one_of(("x", "y"), kind="y")
    for value in ("z", "", None, ["x"]):
        with pytest.raises(ValueError, match="^kind must be one of 'x', 'y'; got "):
            one_of(("x", "y"), kind=value)


def test_as_floats_says_what_should_be_there():
    assert_array_equal(as_floats([1, True], "w", "numbers"), [1.0, 1.0])
    with pytest.raises(ValueError, match=r"^w must hold numbers; got \['a'\]\.$"):
        as_floats(["a"], "w", "numbers")


def test_weights_have_mean_1_over_the_rows_in_use():
    assert_array_equal(check_weights(None, 3), [1, 1, 1])
    assert_array_equal(check_weights(5, 2), [1, 1])
    weights = [0, 1, 3, 0]
    assert_allclose(check_weights(weights, 4), [0, 0.5, 1.5, 0])
    assert mean_weight(weights) == 2
    assert mean_weight(None) is None


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1, -2], r"w must not be negative; its smallest value is -2\.0"),
        ([1, math.inf], "w contains NaN or infinity"),
        ([0, 0], "w is 0 for every row"),
        ([1], "w must hold one number for each of the 2 rows; it holds 1"),
        ([[1, 1]], r"w has shape \(1, 2\)"),
        ("much", "w must hold one number for each row; got 'much'"),
    ],
)
def test_bad_weights(weights, message):
    with pytest.raises(ValueError, match=message):
        check_weights(weights, 2, "w")


def test_a_prior_is_a_positive_probability_for_each_class():
    classes = np.array(["a", "b"])
    assert_allclose(check_prior([0.25, 0.75 + 1e-9], classes).sum(), 1, rtol=1e-15)
    for prior, message in [
        ([0.5, 0.6], r"prior must sum to 1; it sums to 1\.1\. Divide it by its sum"),
        ([0.0, 1.0], "prior must be positive for every class"),
        ([math.nan, 1.0], "prior must be positive for every class"),
        ([1.0], r"each of the 2 classes \['a', 'b'\], in that order; got shape \(1,\)"),
        ("even", "prior must hold one probability for each class"),
        (
            pd.Series([0.25, 0.75]),
            r"each of the classes \['a', 'b'\] and no other; it names \[0, 1",
        ),
    ]:
        with pytest.raises(ValueError, match=message):
            check_prior(prior, classes)
    by_label = {"b": 0.75, "a": 0.25}
    for given in (by_label, pd.Series(by_label)):  # as value_counts(normalize=True) gives it
        assert_allclose(check_prior(given, classes), [0.25, 0.75])
