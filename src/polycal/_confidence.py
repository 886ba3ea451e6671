"""The last step of the pool: half of an isotonic correction of the highest probability."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.special import log_softmax
from sklearn.isotonic import IsotonicRegression

# Bisection steps for the temperature of each row: 2^-45 of its range is 4e-14.
STEPS = 45
# A row is sharpened or flattened at most twofold: an isotonic step over rows of nearly equal
# confidence is mostly chance.
LOG_RANGE = math.log(2.0)


@dataclass(frozen=True)
class ConfidenceMap:
    """Moves the highest probability c of each row to (c + isotonic(c)) / 2.

    A parametric pool has bias, isotonic regression has variance and steps; their mean has a
    lower calibration error than either, at no cost in log-loss. Each row is sharpened or
    flattened as a whole, so the order of its classes stays.
    """

    knot: NDArray  # confidences, ascending
    value: NDArray  # isotonic regression there

    def target(self, confidence: NDArray) -> NDArray:
        return 0.5 * (confidence + np.interp(confidence, self.knot, self.value))

    def __call__(self, log_proba: NDArray) -> NDArray:
        target = self.target(np.exp(log_proba.max(axis=1)))
        return with_confidence(log_proba, target)


def fit_confidence(log_proba: NDArray, y: NDArray, weight: NDArray) -> ConfidenceMap:
    """Isotonic regression of being right on the highest probability.

    Among n rows one more counts as right by its own confidence, so that the map reaches
    neither 0 nor 1.
    """
    confidence = np.exp(log_proba.max(axis=1))
    right = (log_proba.argmax(axis=1) == y).astype(float)
    model = IsotonicRegression().fit(confidence, right, sample_weight=weight)
    knot = model.X_thresholds_
    share = 1.0 / (len(y) + 1.0)
    return ConfidenceMap(knot, (1.0 - share) * model.y_thresholds_ + share * knot)


def with_confidence(log_proba: NDArray, target: NDArray) -> NDArray:
    """Rows p^t / sum p^t whose highest probability is the target, by bisection on log t.

    t stays between 1/2 and 2; a target beyond that gives the nearest row within.
    """
    temper = np.empty(len(log_proba))
    _solve(log_proba, target, temper)
    return log_softmax(temper[:, None] * log_proba, axis=1)


@njit(nogil=True, cache=True)
def _solve(log_proba, target, temper):
    for i in range(len(target)):
        row = log_proba[i]
        top = row.max()
        low, high = -LOG_RANGE, LOG_RANGE
        for _ in range(STEPS):
            middle = 0.5 * (low + high)
            t = math.exp(middle)
            total = 0.0
            for k in range(len(row)):
                total += math.exp(t * (row[k] - top))
            if 1.0 / total < target[i]:
                low = middle
            else:
                high = middle
        temper[i] = math.exp(0.5 * (low + high))
