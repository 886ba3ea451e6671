"""Confidence and Hellinger distance: by hand, and symmetric."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings

from polycal.metrics import (
    hellinger_distance,
    mean_max_confidence,
    mean_max_confidence_on_errors,
    ood_calibration_error,
)
from tests.toys.metrics import labelled


def test_confidence_by_hand():
    P = [[0.7, 0.3], [0.4, 0.6], [0.1, 0.9]]
    assert mean_max_confidence(P) == pytest.approx(2.2 / 3)
    assert mean_max_confidence(P, sample_weight=[1, 1, 0]) == pytest.approx(0.65)
    assert ood_calibration_error(P, [0.5, 0.5]) == pytest.approx(0.7 / 3)
    # The highest prior, 0.8, is compared; it need not be of the predicted class.
    assert ood_calibration_error(P, [0.8, 0.2]) == pytest.approx((0.1 + 0.2 + 0.1) / 3)
    assert ood_calibration_error([[0.2, 0.8]] * 3, [0.2, 0.8]) == 0.0
    assert ood_calibration_error(P, [1, 0]) == pytest.approx(0.8 / 3)
    assert mean_max_confidence_on_errors([1, 1, 0], P) == pytest.approx(0.8)
    assert mean_max_confidence_on_errors([1, 1, 0], P, sample_weight=[3, 1, 1]) == pytest.approx(
        0.75
    )
    assert math.isnan(mean_max_confidence_on_errors([0, 1, 1], P))
    assert math.isnan(mean_max_confidence_on_errors([1, 1, 1], P, sample_weight=[0, 1, 1]))
    # Of equal probabilities the first is the prediction.
    assert mean_max_confidence_on_errors([0, 1], [[0.5, 0.5], [0.5, 0.5]]) == 0.5


def test_hellinger_by_hand():
    assert hellinger_distance([[1, 0]], [[0, 1]]) == 1.0
    assert hellinger_distance([[0.3, 0.7]], [[0.3, 0.7]]) == 0.0
    # 1 - (sqrt(1/2) + 0) under the root for the first row; the mean is over rows, not under it.
    first = math.sqrt(1 - math.sqrt(0.5))
    assert hellinger_distance([[1, 0], [1, 0]], [[0.5, 0.5], [0, 1]]) == pytest.approx(
        (first + 1) / 2
    )
    found = hellinger_distance([[1, 0], [1, 0]], [[0.5, 0.5], [0, 1]], sample_weight=[3, 1])
    assert found == pytest.approx((3 * first + 1) / 4)


@given(labelled())
@settings(max_examples=30, deadline=None)
def test_hellinger_is_symmetric_and_equals_its_other_form(data):
    _, P, _, _ = data
    Q = P[::-1]
    expected = np.sqrt(np.clip(1 - np.sqrt(P * Q).sum(axis=1), 0, None)).mean()
    assert hellinger_distance(P, Q) == pytest.approx(expected, abs=1e-7)  # that form cancels
    assert hellinger_distance(P, Q) == hellinger_distance(Q, P)
