"""The last step of the pool: one answer for confidences that the rows cannot tell apart."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.special import log_softmax
from sklearn.isotonic import IsotonicRegression, isotonic_regression

from .._utils.significance import above_chance

# Newton's steps for the temperature of each row, at most; about six are taken.
MOST_STEPS = 50
SMALLEST_STEP = 1e-15
# A row is sharpened or flattened at most twofold: an isotonic step over rows of nearly equal
# confidence is mostly chance.
SHARPEST = 2.0
# The pool's own word in each level counts as much as this many calibration rows.
POOL_ROWS = 100.0
# Part of the way to its level that a confidence goes; the rest keeps the order of all rows.
TO_LEVEL = 0.95


@dataclass(frozen=True)
class ConfidenceLevels:
    """Moves the highest probability c of each row most of the way to its level.

    Levels are the steps of an isotonic regression of being right on c: confidences that the
    calibration rows do not tell apart. Each row is sharpened or flattened as a whole, so the
    order of its classes stays. So does the order of rows by c, but for rows of three and more
    classes that reach the twofold limit.
    """

    edge: NDArray  # between the levels, ascending
    value: NDArray  # of each level, ascending

    def target(self, confidence: NDArray) -> NDArray:
        level = self.value[np.searchsorted(self.edge, confidence)]
        return (1.0 - TO_LEVEL) * confidence + TO_LEVEL * level

    def __call__(self, log_proba: NDArray) -> NDArray:
        target = self.target(np.exp(log_proba.max(axis=1)))
        return with_confidence(log_proba, target)


def fit_levels(log_proba: NDArray, y: NDArray, weight: NDArray) -> ConfidenceLevels | None:
    """Levels from the calibration rows, each with its share of right answers.

    A share of few rows is mostly chance, so the level's mean confidence stands beside it with
    the weight of POOL_ROWS; then no level reaches 0 or 1 either.

    None where they raise the log-loss of the rows themselves by more than a standard error: few
    rows, all of them right at confidences that have nothing in common.
    """
    confidence = np.exp(log_proba.max(axis=1))
    right = (log_proba.argmax(axis=1) == y).astype(float)
    steps = IsotonicRegression().fit(confidence, right, sample_weight=weight)
    _, level = np.unique(steps.predict(confidence), return_inverse=True)

    def total(values: NDArray) -> NDArray:
        return np.bincount(level, weight * values)

    size = total(np.ones_like(weight))
    value = (total(right) + POOL_ROWS * total(confidence) / size) / (size + POOL_ROWS)
    low, high = np.full(len(size), np.inf), np.zeros(len(size))
    np.minimum.at(low, level, confidence)
    np.maximum.at(high, level, confidence)
    value = isotonic_regression(value, sample_weight=size + POOL_ROWS)
    levels = ConfidenceLevels(0.5 * (high[:-1] + low[1:]), value)
    extra = (log_proba - levels(log_proba))[np.arange(len(y)), y]
    return None if above_chance(extra, weight) else levels


def with_confidence(log_proba: NDArray, target: NDArray) -> NDArray:
    """Rows p^t / sum p^t whose highest probability is the target, by Newton's method on t.

    t stays between 1/2 and 2; a target beyond that gives the nearest row within.
    """
    temper = np.empty(len(log_proba))
    _solve(log_proba, target, temper)
    return log_softmax(temper[:, None] * log_proba, axis=1)


@njit(nogil=True, cache=True)
def _solve(log_proba, target, temper):
    """log sum (p / max p)^t is convex and falls with t: steps from the left never pass the aim."""
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
