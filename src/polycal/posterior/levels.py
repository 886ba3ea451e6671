"""Confidence levels: rows of similar confidence and equal accuracy get nearly one confidence."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.special import log_softmax
from sklearn.isotonic import IsotonicRegression, isotonic_regression

from .._utils.arrays import Floats, Ints, is_ascending
from .._utils.compiled import njit
from .._utils.saved import saved_array, saved_number
from .._utils.significance import above_chance

# Largest number of Newton steps for the power t of each row; about six are enough.
MOST_STEPS = 50
SMALLEST_STEP = 1e-15
# The power t of a row is between 1 / SHARPEST and SHARPEST: a large isotonic step over rows of
# nearly equal confidence is mostly chance.
SHARPEST = 2.0
# In each level, the confidence of the pool has the weight of this many calibration rows.
POOL_ROWS = 100.0
# Share of the distance to its level that a confidence is moved; less than 1 keeps the order of
# all rows. Each step towards 1 lowers the ECE and raises the log-loss (docs/design.md).
TO_LEVEL = 0.9


@dataclass(frozen=True)
class ConfidenceLevels:
    """Moves the highest probability c of each row most of the way to its level.

    Levels are the steps of an isotonic regression, on the calibration rows, of whether a
    prediction is right on its confidence c. All probabilities of a row are raised to one power, so
    the order of its classes stays. The order of rows by c stays too, except for rows of three or
    more classes whose power reaches the limit.
    """

    edge: Floats = saved_array(
        "float64 edges", least=0.0, most=1.0
    )  # between the levels, ascending
    value: Floats = saved_array(
        "float64 confidence_levels", least=0.0, most=1.0
    )  # of each level, ascending
    # share of the distance to its level that a confidence is moved
    share: float = saved_number(float, above=0.0, below=1.0, default=TO_LEVEL)

    def contradictions(self) -> Iterator[str]:
        """Inconsistencies in levels that were read from a file, as messages."""
        if len(self.value) != len(self.edge) + 1:
            yield "there must be one confidence level more than edges between them"
        if not self.value.all() or not is_ascending(self.edge):
            yield "confidence levels are 0, or out of order"

    def target(self, confidence: Floats) -> Floats:
        """The confidence that each of these confidences is moved to."""
        level = self.value[np.searchsorted(self.edge, confidence)]
        return (1.0 - self.share) * confidence + self.share * level

    def __call__(self, log_proba: Floats) -> Floats:
        target = self.target(np.exp(log_proba.max(axis=1)))
        return with_confidence(log_proba, target)


def fit_levels(log_proba: Floats, y: Ints, weight: Floats) -> ConfidenceLevels | None:
    """Levels from the calibration rows; the value of a level is its accuracy.

    The accuracy of few rows is mostly chance, so it is averaged with the level's mean confidence,
    which has the weight of POOL_ROWS. So no level is exactly 0 or 1.

    The result is None where the levels raise the log-loss of these rows by more than a standard
    error. That happens where few rows of very different confidences are all predicted right.
    """
    confidence = np.exp(log_proba.max(axis=1))
    right = (log_proba.argmax(axis=1) == y).astype(float)
    steps = IsotonicRegression().fit(confidence, right, sample_weight=weight)
    _, level = np.unique(steps.predict(confidence), return_inverse=True)

    def total(values: Floats) -> Floats:
        return np.bincount(level, weight * values).astype(float, copy=False)

    size = total(np.ones_like(weight))
    value = (total(right) + POOL_ROWS * total(confidence) / size) / (size + POOL_ROWS)
    low, high = np.full(len(size), np.inf), np.zeros(len(size))
    np.minimum.at(low, level, confidence)
    np.maximum.at(high, level, confidence)
    value = isotonic_regression(value, sample_weight=size + POOL_ROWS)
    levels = ConfidenceLevels(0.5 * (high[:-1] + low[1:]), value)
    extra = (log_proba - levels(log_proba))[np.arange(len(y)), y]
    return None if above_chance(extra, weight) else levels


def with_confidence(log_proba: Floats, target: Floats) -> Floats:
    """Rows p^t / sum p^t whose highest probability is the target, by Newton's method on t.

    t is between 1/2 and 2; a target that needs another t gives the nearest of these.
    """
    temper = np.empty(len(log_proba))
    _solve(log_proba, target, temper)
    tempered: Floats = log_softmax(temper[:, None] * log_proba, axis=1)
    return tempered


@njit(nogil=True, cache=True)
def _solve(log_proba, target, temper):
    """Newton's method from the left: log sum (p / max p)^t is convex and decreasing in t."""
    for i in range(len(target)):
        row = log_proba[i]
        top = row.max()
        aim = -math.log(target[i])
        t = 1.0 / SHARPEST
        for _ in range(MOST_STEPS):
            total, fall = 0.0, 0.0
            for k in range(len(row)):
                below = top - row[k]
                part = math.exp(-t * below)
                total += part
                if part > 0.0:  # not 0 times infinity, where a class is excluded
                    fall += part * below
            step = (math.log(total) - aim) * total / fall if fall > 0.0 else 0.0
            if step <= SMALLEST_STEP or t == SHARPEST:
                break
            t = min(t + step, SHARPEST)
        temper[i] = t
