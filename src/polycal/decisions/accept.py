"""How sure an answer must be, so that few of the accepted ones are wrong."""

from __future__ import annotations

import numpy as np
from scipy.stats import beta

from .._utils.arrays import Bools, Floats, Ints
from .rows import n_groups_worth

# Thresholds that are tried, at equal steps of the rows.
N_STEPS = 50
# Instead of 0, below a fraction.
SMALLEST = 1e-300


def highest_doubt(
    doubt: Floats,
    wrong: Bools,
    weight: Floats,
    group: Ints,
    error_rate: float,
    confidence: float,
) -> float | None:
    """Answers of a lower doubt are wrong in at most ``error_rate``, with this confidence.

    ``doubt`` is the probability that an answer is wrong, by the model. None if no answer can be
    accepted; inf if all can.

    Thresholds are the doubts of the rows at equal steps, so the rows below one are a sample of all
    rows below it. Each is tested by the binomial bound of Clopper and Pearson, from one that is
    most likely to pass by the doubts alone, to higher ones, until the first that fails. Since the
    order does not depend on the labels, the confidence holds for whichever passes last (testing
    in a fixed sequence).
    """
    order = np.argsort(doubt, kind="stable")
    doubt, weight = doubt[order], weight[order]
    group = np.unique(group[order], return_inverse=True)[1]
    thresholds = _thresholds(doubt)
    below = np.searchsorted(doubt, thresholds)
    worth = np.array([n_groups_worth(weight[:n], group[:n]) for n in below])

    def surely(wrong: Floats) -> Floats:
        """Confidence that less than ``error_rate`` of the rows below each threshold are wrong."""
        total = np.append(0.0, np.cumsum(weight * wrong))[below]
        errors = worth * total / np.maximum(np.append(0.0, np.cumsum(weight))[below], SMALLEST)
        sure = beta.cdf(error_rate, errors + 1, np.maximum(worth - errors, SMALLEST))
        return np.where(errors < worth, sure, 0.0)

    start = int(np.argmax(surely(doubt)))
    passes = surely(wrong[order].astype(float))[start:] >= confidence
    n_passed = len(passes) if passes.all() else int(np.argmin(passes))
    return float(thresholds[start + n_passed - 1]) if n_passed else None


def _thresholds(doubt: Floats) -> Floats:
    """Of ascending doubts, those at equal steps of the rows, and inf."""
    ranks = np.unique(np.linspace(0, len(doubt), N_STEPS + 1).astype(int)[1:-1])
    return np.append(np.unique(doubt[ranks]) if len(doubt) else [], np.inf)
