from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from polycal.reporting.classes import SHARES, ClassReport, accuracy

Y = np.array([0, 0, 1, 1, 2])
P = np.array([[0.9, 0.1, 0.0], [0.2, 0.8, 0.0], [0.1, 0.9, 0.0], [0.3, 0.7, 0.0], [0.5, 0.5, 0.0]])
GUESS = P.argmax(axis=1)


@pytest.fixture
def report():
    return ClassReport.of(Y, GUESS, P, P[::-1])


def test_confusion_is_true_class_by_predicted_class(report):
    assert_array_equal(report.confusion, [[1, 1, 0], [0, 2, 0], [1, 0, 0]])
    assert report.common_mistakes(5) == [(0, 1, 1), (2, 0, 1)]
    assert report.common_mistakes(1) == [(0, 1, 1)]


def test_figures_of_a_class_by_hand(report):
    one = report.classes[1]
    assert (one.n_rows, one.found) == (2, 1.0)
    assert_allclose([one.mean, one.share], [0.6, 0.4])
    # one row in each of the bins of 0.1, 0.5, 0.7, 0.8 and 0.9
    gaps = [0.1, 0.5, 1 - 0.7, 0.8, 1 - 0.9]
    assert_allclose(one.error, np.mean(gaps))
    assert_allclose(one.counts.sum(), 5)
    assert np.isnan(one.accuracy[one.counts == 0]).all()
    known = one.counts > 0
    assert (one.lower[known] <= one.accuracy[known]).all()
    assert (one.accuracy[known] <= one.upper[known]).all()


def test_a_class_without_rows_and_one_that_is_never_predicted():
    report = ClassReport.of(Y[:4], GUESS[:4], P[:4], P[:4])
    assert report.classes[2].n_rows == 0
    assert np.isnan(report.classes[2].found)
    assert report.classes[2].error == 0.0


def test_accuracy_among_the_most_confident():
    confidence = np.array([0.9, 0.8, 0.7, 0.6])
    found = accuracy(confidence, np.array([True, True, False, False]))
    assert_allclose(np.interp([0.25, 0.5, 1.0], SHARES, found), [1.0, 1.0, 0.5])


def test_rows_of_equal_confidence_are_answered_together():
    """No order of the rows can make the curve better than their mean."""
    for right in ([1, 1, 0, 0], [0, 0, 1, 1]):
        assert_allclose(accuracy(np.full(4, 0.7), np.array(right, dtype=bool)), 0.5)
