"""Calibration errors: hand-computed toys, edges of bins, and the definition by loop."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.calibration import calibration_curve

from polycal.metrics import classwise_calibration_error, expected_calibration_error
from polycal.metrics.calibration import equal_mass
from tests.toys.metrics import CALIBRATION_ERRORS, STRATEGIES, calibrated, labelled


def bins_by_loop(values, weight, n_bins, strategy):
    """Row by row from the docstring, in whole numbers where the bins are of equal mass."""
    found = []
    for value in values:
        if strategy == "width":
            r = 1
            while value > r / n_bins and r < n_bins:
                r += 1
            found.append(r)
        else:
            below = sum(int(w) for v, w in zip(values, weight, strict=True) if v < value)
            up_to = sum(int(w) for v, w in zip(values, weight, strict=True) if v <= value)
            r = 1 + n_bins * (below + up_to) // (2 * int(sum(weight)))
            found.append(min(r, n_bins))
    return found


def error_by_loop(values, outcomes, weight, n_bins, strategy):
    bins = bins_by_loop(values, weight, n_bins, strategy)
    error = 0.0
    for r in range(1, n_bins + 1):
        rows = [i for i, b in enumerate(bins) if b == r]
        mass = sum(weight[i] for i in rows)
        if mass:
            mean = sum(weight[i] * values[i] for i in rows) / mass
            share = sum(weight[i] * outcomes[i] for i in rows) / mass
            error += mass / sum(weight) * abs(mean - share)
    return error


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("error", CALIBRATION_ERRORS)
def test_calibration_error_toys(error, strategy):
    P = np.tile([0.9, 0.1], (10, 1))
    y = np.array([0] * 6 + [1] * 4)
    assert error(y, P, strategy=strategy) == pytest.approx(0.3)
    assert error(y, P, n_bins=1, strategy=strategy) == pytest.approx(0.3)
    perfect = np.tile([0.6, 0.4], (10, 1))
    assert error(y, perfect, strategy=strategy) == pytest.approx(0.0, abs=1e-12)
    certain = np.eye(2)[y]
    assert error(y, certain, strategy=strategy) == 0.0
    assert error(1 - y, certain, strategy=strategy) == pytest.approx(1.0)
    assert error([0], [[0.7, 0.3]], strategy=strategy) == pytest.approx(0.3)


def test_one_bin_is_mean_confidence_less_accuracy():
    P = np.array([[0.9, 0.1], [0.4, 0.6], [0.7, 0.3], [0.2, 0.8]])
    assert expected_calibration_error([0, 0, 1, 1], P, n_bins=1) == pytest.approx(0.75 - 0.5)
    # Class 0: mean probability 0.55, share 0.5; class 1: 0.45 and 0.5.
    assert classwise_calibration_error([0, 0, 1, 1], P, n_bins=1) == pytest.approx(0.05)


def test_classwise_by_hand():
    P = np.array([[0.6, 0.3, 0.1], [0.6, 0.1, 0.3], [0.2, 0.2, 0.6], [0.2, 0.6, 0.2]])
    # Two bins. Class 0: low 0.2, 0.2 of which 0 right, high 0.6, 0.6 of which 1: (0.4 + 0.2) / 4.
    # Class 1: low 0.3 + 0.1 + 0.2, 1 right; high 0.6, 0 right: (0.4 + 0.6) / 4.
    # Class 2: low 0.1 + 0.3 + 0.2, 1 right; high 0.6, 1 right: (0.4 + 0.4) / 4.
    expected = (0.15 + 0.25 + 0.2) / 3
    assert classwise_calibration_error([0, 1, 2, 2], P, n_bins=2) == pytest.approx(expected)


def test_a_class_without_rows_adds_its_mean_probability():
    P = np.array([[0.5, 0.3, 0.2], [0.5, 0.3, 0.2]])
    assert classwise_calibration_error([0, 1], P) == pytest.approx((0.0 + 0.2 + 0.2) / 3)


@pytest.mark.parametrize("n_bins", [5, 10, 15, 20])
def test_a_confidence_on_an_edge_falls_into_the_bin_that_it_closes(n_bins):
    """Gaps of opposite sign cancel in one bin and add up in two."""
    for r in range(n_bins // 2 + 1, n_bins):
        edge = r / n_bins
        inside = (r - 0.5) / n_bins
        P = np.array([[edge, 1 - edge], [inside, 1 - inside]])
        error = expected_calibration_error([1, 0], P, n_bins=n_bins)
        assert error == pytest.approx(abs(edge + inside - 1) / 2)


def test_no_bin_is_lost():
    """Certain and wrong, in the last bin; certain of another class, in the first."""
    assert expected_calibration_error([1], [[1.0, 0.0]]) == 1.0
    assert classwise_calibration_error([1], [[1.0, 0.0]]) == 1.0


def test_equal_mass_by_hand():
    confidence = np.array([0.6, 0.7, 0.8, 0.9])
    P = np.column_stack([confidence, 1 - confidence])
    y = [1, 0, 1, 0]  # gaps 0.6, -0.3, 0.8, -0.1
    mass = {"strategy": "mass"}
    assert expected_calibration_error(y, P, 2, **mass) == pytest.approx((0.3 + 0.7) / 4)
    assert expected_calibration_error(y, P, 4, **mass) == pytest.approx(1.8 / 4)
    # Six rows of 0.6 span 6/9 of the weight: their middle is in the first of two bins, with none
    # of the others, whose middles are 13/18, 15/18 and 17/18.
    tied = np.concatenate([np.repeat(P[:1], 6, axis=0), P[1:]])
    error = expected_calibration_error([1] * 6 + [0, 1, 0], tied, 2, **mass)
    assert error == pytest.approx((6 * 0.6 + abs(-0.3 + 0.8 - 0.1)) / 9)


def test_equal_mass_bins_are_equal():
    rng = np.random.default_rng(0)
    bins = equal_mass(rng.random(600), np.full(600, 1 / 600), 20)
    assert (np.bincount(bins) == 30).all()


@given(labelled(), st.sampled_from(STRATEGIES))
@settings(max_examples=60, deadline=None)
def test_calibration_errors_equal_their_definition_by_loop(data, strategy):
    y, P, weight, n_bins = data
    right = [int(np.argmax(p) == label) for p, label in zip(P, y, strict=True)]
    expected = error_by_loop([max(p) for p in P], right, weight, n_bins, strategy)
    options = {"sample_weight": weight, "strategy": strategy}
    assert expected_calibration_error(y, P, n_bins, **options) == pytest.approx(expected, abs=1e-12)
    per_class = [
        error_by_loop(P[:, k], [int(label == k) for label in y], weight, n_bins, strategy)
        for k in range(P.shape[1])
    ]
    found = classwise_calibration_error(y, P, n_bins, **options)
    assert found == pytest.approx(np.mean(per_class), abs=1e-12)


def test_ece_agrees_with_scikit_learns_calibration_curve():
    y, P = calibrated(np.random.default_rng(0), 3000, 1.7)
    confidence, right = P.max(axis=1), P.argmax(axis=1) == y
    # NumPy's edges: linspace(0, 1, 21) differs from r / 20 by rounding alone.
    for strategy, edges in {
        "uniform": np.linspace(0, 1, 21),
        "quantile": np.percentile(confidence, np.linspace(0, 1, 21) * 100),
    }.items():
        share, mean = calibration_curve(right, confidence, n_bins=20, strategy=strategy)
        size = np.bincount(np.searchsorted(edges[1:-1], confidence), minlength=20)
        expected = (size[size > 0] * np.abs(share - mean)).sum() / 3000
        ours = {"uniform": "width", "quantile": "mass"}[strategy]
        assert expected_calibration_error(y, P, strategy=ours) == pytest.approx(expected)
