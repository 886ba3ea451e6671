"""Intervals of a calibration error: order, coverage, and the debiased value."""

from __future__ import annotations

import numpy as np
import pytest

from polycal.metrics import (
    calibration_error_interval,
    classwise_calibration_error,
    expected_calibration_error,
)
from polycal.metrics.calibration import Gaps, gaps_by_cell
from polycal.metrics.interval import bootstrap_errors, cell_sums, cross_fitted_error
from tests.toys.metrics import CALIBRATION_ERRORS, STRATEGIES, calibrated


@pytest.mark.parametrize("classwise", [False, True])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_interval_is_ordered_around_the_plain_value(classwise, strategy):
    y, P = calibrated(np.random.default_rng(1), 1500, 1.5)
    options = {"strategy": strategy, "sample_weight": np.random.default_rng(2).random(1500)}
    found = calibration_error_interval(y, P, 10, classwise=classwise, random_state=0, **options)
    assert found.value == CALIBRATION_ERRORS[classwise](y, P, 10, **options)
    assert all(type(figure) is float for figure in found)
    assert 0 < found.low < found.debiased < found.value < found.high < 1
    again = calibration_error_interval(y, P, 10, classwise=classwise, random_state=0, **options)
    assert again == found


def test_interval_ignores_rows_of_weight_0_and_the_scale_of_weights():
    y, P = calibrated(np.random.default_rng(1), 300, 1.5)
    plain = calibration_error_interval(y, P, random_state=0)
    zeros = np.concatenate([np.zeros(50), np.full(300, 4.0)])
    more = calibration_error_interval(
        np.r_[1 - y[:50], y], np.r_[P[:50], P], sample_weight=zeros, random_state=0
    )
    assert more == pytest.approx(plain)


def test_interval_of_one_row():
    found = calibration_error_interval([0], [[0.7, 0.3]])
    assert found == pytest.approx((0.3, 0.0, 0.0, 0.3))


def test_narrower_at_a_lower_level():
    y, P = calibrated(np.random.default_rng(1), 500, 1.5)
    wide = calibration_error_interval(y, P, random_state=0)
    narrow = calibration_error_interval(y, P, level=0.5, random_state=0)
    assert wide.low < narrow.low < narrow.high < wide.high


def test_cross_fitting_equals_its_definition_over_all_halvings():
    """The form with |G| and |S| has the mean of sgn(A) B + sgn(B) A over every halving."""
    rng = np.random.default_rng(0)
    gap, cell = rng.normal(0.2, 1, 9), np.array([0, 0, 0, 0, 0, 1, 1, 1, 2])
    total = 0.0
    for halving in range(2**9):
        first = (halving >> np.arange(9)) % 2 == 1
        for r in range(3):
            a, b = gap[first & (cell == r)].sum(), gap[~first & (cell == r)].sum()
            total += np.sign(a) * b + np.sign(b) * a
    gaps = Gaps(gap[:, None], cell[:, None], 3, np.ones(9) / 9)
    by_cell = cell_sums(gaps)
    found = cross_fitted_error(by_cell, 40_000, np.random.default_rng(0))
    assert found == pytest.approx(total / 2**9, abs=0.05)
    alone = Gaps(gap[:, None], np.arange(9)[:, None], 9, gap)
    assert cross_fitted_error(cell_sums(alone), 10, rng) == 0.0


def test_bootstrap_errors_have_the_mean_of_a_plain_bootstrap():
    y, P = calibrated(np.random.default_rng(1), 60, 1.5)
    weight = np.random.default_rng(2).random(60)
    gaps = gaps_by_cell(y, P, 5, weight, "width", classwise=True)
    by_cell = cell_sums(gaps)
    rng = np.random.default_rng(3)
    found = bootstrap_errors(by_cell, gaps.share, 4000, rng)
    plain = []
    for _ in range(1000):
        rows = rng.integers(60, size=60)
        plain.append(classwise_calibration_error(y[rows], P[rows], 5, sample_weight=weight[rows]))
    assert found.mean() == pytest.approx(np.mean(plain), abs=4 * np.std(plain) / 1000**0.5)
    assert found.std() == pytest.approx(np.std(plain), rel=0.1)


@pytest.mark.parametrize("classwise", [False, True])
def test_chance_gaps_vanish_from_the_debiased_value(classwise):
    """Perfectly calibrated: the plain value is clearly above 0, the cross-fitted mean is 0."""
    rng = np.random.default_rng(0)
    plain, cross = [], []
    for _ in range(150):
        y, P = calibrated(rng, 300)
        gaps = gaps_by_cell(y, P, 20, None, "width", classwise=classwise)
        plain.append(gaps.error())
        by_cell = cell_sums(gaps)
        cross.append(cross_fitted_error(by_cell, 50, rng))
    assert np.mean(plain) > 0.04
    assert abs(np.mean(cross)) < 4 * np.std(cross) / 150**0.5 < 0.008
    y, P = calibrated(rng, 10_000)
    found = calibration_error_interval(y, P, classwise=classwise, random_state=0)
    assert found.low == 0.0
    assert found.debiased < 0.3 * found.value


def test_clear_gaps_stay_in_the_debiased_value():
    """Constant 0.9 with accuracy 0.6: no halving doubts the sign."""
    y, P = np.repeat([0, 1], [600, 400]), np.tile([0.9, 0.1], (1000, 1))
    found = calibration_error_interval(y, P, random_state=0)
    assert found.debiased == pytest.approx(0.3)
    # The standard error of the accuracy is sqrt(0.6 * 0.4 / 1000) = 0.0155.
    assert found.low == pytest.approx(0.3 - 1.96 * 0.0155, abs=0.008)
    assert found.high == pytest.approx(0.3 + 1.96 * 0.0155, abs=0.008)


@pytest.mark.parametrize("temperature", [1.0, 1.2, 2.0])
def test_the_interval_holds_the_error_of_the_population(temperature):
    rng = np.random.default_rng(0)
    population = expected_calibration_error(*calibrated(rng, 1_000_000, temperature))
    if temperature == 1.0:
        population = 0.0
    held = []
    for seed in range(200):
        y, P = calibrated(rng, 500, temperature)
        found = calibration_error_interval(y, P, n_rounds=100, random_state=seed)
        held.append(found.low <= population <= found.high)
    assert np.mean(held) >= 0.92
