"""What every measure accepts and refuses: labels, probabilities, weights and scores."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings

from polycal.metrics import (
    auroc,
    calibration_error_interval,
    classwise_calibration_error,
    expected_calibration_error,
    fpr_at_tpr,
    hellinger_distance,
    mean_max_confidence,
    mean_max_confidence_on_errors,
    ood_calibration_error,
)
from tests.toys.metrics import CALIBRATION_ERRORS, STRATEGIES, labelled


@given(labelled())
@settings(max_examples=60, deadline=None)
def test_weights_are_repeated_rows_and_order_does_not_matter(data):
    y, P, weight, n_bins = data
    Q = P[::-1]
    rows = np.random.default_rng(0).permutation(np.repeat(np.arange(len(y)), weight))
    measures = [
        mean_max_confidence_on_errors,
        lambda y, P, **w: mean_max_confidence(P, **w),
        lambda y, P, **w: ood_calibration_error(P, np.eye(P.shape[1])[0], **w),
    ]
    for error in CALIBRATION_ERRORS:
        for strategy in STRATEGIES:
            measures.append(lambda y, P, e=error, s=strategy, **w: e(y, P, n_bins, strategy=s, **w))
    for measure in measures:
        expected = measure(y[rows], P[rows])
        found = measure(y, P, sample_weight=weight * 0.3)
        assert found == pytest.approx(expected, abs=1e-12, nan_ok=True)
    found = hellinger_distance(P, Q, sample_weight=weight)
    assert found == pytest.approx(hellinger_distance(P[rows], Q[rows]), abs=1e-12)


def test_labels_may_be_whole_floats_or_booleans():
    P = [[0.9, 0.1], [0.2, 0.8]]
    expected = expected_calibration_error([0, 1], P)
    for y in ([0.0, 1.0], [False, True], np.array([0, 1], dtype=object), np.uint8([0, 1])):
        assert expected_calibration_error(y, P) == expected


GOOD = np.array([[0.5, 0.5], [0.1, 0.9]])
ROW_MEASURES = {
    "expected_calibration_error": lambda P, **w: expected_calibration_error([0, 1], P, **w),
    "classwise_calibration_error": lambda P, **w: classwise_calibration_error([0, 1], P, **w),
    "calibration_error_interval": lambda P, **w: calibration_error_interval([0, 1], P, **w),
    "ood_calibration_error": lambda P, **w: ood_calibration_error(P, [0.5, 0.5], **w),
    "mean_max_confidence": mean_max_confidence,
    "mean_max_confidence_on_errors": lambda P, **w: mean_max_confidence_on_errors([0, 1], P, **w),
    "hellinger_distance": lambda P, **w: hellinger_distance(P, GOOD, **w),
}


@pytest.mark.parametrize("measure", ROW_MEASURES.values(), ids=ROW_MEASURES.keys())
@pytest.mark.parametrize(
    ("P", "message"),
    [
        ([[0.5, 0.5], [0.1, 0.8]], "sum to 1 in each row; row 1 sums to 0.9. Divide"),
        ([[0.5, 0.5], [0.0, 0.8]], "sum to 1 in each row; row 1 sums to 0.8. Divide"),
        ([[0.5, 0.5], [0.1, math.nan]], "row 1 has NaN or infinity"),
        ([[math.inf, -math.inf], [0.1, 0.9]], "row 0 has NaN or infinity"),
        ([[0.0, 1.0], [1.1, -0.1]], "not be negative; row 1 has -0.1.*no logits"),
        ([0.5, 0.9], r"shape \(n_samples, n_classes\); got shape \(2,\).*column_stack"),
        (np.empty((0, 2)), r"at least one row and one class; got shape \(0, 2\)"),
        ([["a", "b"], ["c", "d"]], "P must hold a row of probabilities"),
    ],
)
def test_bad_probabilities(measure, P, message):
    with pytest.raises(ValueError, match=message):
        measure(P)


@pytest.mark.parametrize("measure", ROW_MEASURES.values(), ids=ROW_MEASURES.keys())
@pytest.mark.parametrize(
    ("weight", "message"),
    [
        ([1, -1], "sample_weight must not be negative"),
        ([1, math.nan], "sample_weight contains NaN"),
        ([1, 1, 1], "sample_weight must hold one number for each of the 2 rows; it holds 3"),
        ([0, 0], "sample_weight is 0 for every row"),
        ([[1, 1]], r"sample_weight has shape \(1, 2\)"),
    ],
)
def test_bad_weights(measure, weight, message):
    with pytest.raises(ValueError, match=message):
        measure(GOOD, sample_weight=weight)


@pytest.mark.parametrize(
    "measure",
    [*CALIBRATION_ERRORS, calibration_error_interval, mean_max_confidence_on_errors],
)
@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([0, 2], r"column of P \(0 to 1\) for each of its 2 rows; got 2\. .*searchsorted"),
        ([-1, 0], "got -1"),
        ([0, 0.5], "got 0.5"),
        ([0, math.nan], "got nan"),
        (["0", "1"], "got .*'0'.* first"),
        (np.array(["0", 1], dtype=object), "got '0' first"),
        ([0, 1, 1], r"got shape \(3,\)"),
        ([[0], [1]], r"got shape \(2, 1\)"),
    ],
)
def test_bad_labels(measure, y, message):
    with pytest.raises(ValueError, match=message):
        measure(y, GOOD)


@pytest.mark.parametrize("measure", [auroc, fpr_at_tpr])
@pytest.mark.parametrize(
    ("scores", "message"),
    [
        ([], "must hold at least one score; it is empty"),
        ([1.0, math.nan], "must not hold NaN; 1 of 2 scores are, the first in row 1"),
        ([[1.0, 2.0]], r"must have shape \(n_samples,\).*got shape \(1, 2\)"),
        (["a"], "must hold one score for each row"),
    ],
)
def test_bad_scores(measure, scores, message):
    with pytest.raises(ValueError, match="id_scores " + message):
        measure(scores, [1.0])
    with pytest.raises(ValueError, match="ood_scores " + message):
        measure([1.0], scores)


@pytest.mark.parametrize("measure", [auroc, fpr_at_tpr])
def test_bad_weights_of_scores(measure):
    with pytest.raises(ValueError, match="id_weight must not be negative"):
        measure([1, 2], [1], id_weight=[1, -1])
    with pytest.raises(ValueError, match="ood_weight must hold one number for each of the 1 rows"):
        measure([1, 2], [1], ood_weight=[1, 1])


def test_other_bad_parameters():
    for priors, message in {
        (0.5, 0.4): "priors must sum to 1 in each row; row 0 sums to 0.9",
        (0.2, 0.3, 0.5): r"each of the 2 columns of P; got shape \(3,\)",
        (1.5, -0.5): "priors must not be negative",
        (math.nan, 1.0): "NaN",
    }.items():
        with pytest.raises(ValueError, match=message):
            ood_calibration_error(GOOD, priors)
    with pytest.raises(ValueError, match=r"got \(2, 2\) and \(1, 2\).*broadcast_to"):
        hellinger_distance(GOOD, GOOD[:1])
    with pytest.raises(ValueError, match="Q must sum to 1"):
        hellinger_distance(GOOD, 2 * GOOD)
    for tpr in (0, 1.01, math.nan, "high", True):
        with pytest.raises(ValueError, match="tpr must be above 0 and at most 1; got"):
            fpr_at_tpr([1], [0], tpr=tpr)
    for measure in (*CALIBRATION_ERRORS, calibration_error_interval):
        for n_bins in (0, 2.5, True):
            with pytest.raises(ValueError, match="n_bins must be an integer"):
                measure([0, 1], GOOD, n_bins)
        with pytest.raises(ValueError, match="strategy must be one of 'width', 'mass'"):
            measure([0, 1], GOOD, strategy="quantile")
    with pytest.raises(ValueError, match="level must lie strictly between 0 and 1"):
        calibration_error_interval([0, 1], GOOD, level=95)
    with pytest.raises(ValueError, match="n_rounds must be an integer"):
        calibration_error_interval([0, 1], GOOD, n_rounds=0)
