"""The floor of log f: at most a given share of in-distribution rows has a lower score."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy.stats import beta

from .._utils.arrays import Bools, Floats, Ints
from .._utils.saved import saved_array, saved_number
from .._utils.significance import above_chance, n_effective

# Share of a score that is no more than the rounding of the sums behind it.
ROUNDING = 1e-9
#: False-alarm levels that "auto" chooses among.
LEVELS = (0.01, 0.015, 0.02, 0.03, 0.05, 0.07, 0.1)


@dataclass(frozen=True)
class CalibrationScores:
    """log f of the calibration rows: the scores of in-distribution rows."""

    log_f: Floats = saved_array("float64 calibration_rows")
    weight: Floats = saved_array("float64 calibration_rows")
    # Weight of a new row and of its group, which it counts as one with; None: the mean weight
    new_weight: float | None = saved_number(float, optional=True, above=0.0, default=None)
    # Confidence that the bound holds for this very model; None: it holds on average over models
    confidence: float | None = saved_number(
        float, optional=True, above=0.0, below=1.0, default=None
    )

    def floor(self, level: float) -> float:
        """Score that at most ``level`` of new in-distribution rows fall below."""
        if self.confidence is not None:
            level = self._confident_level(level)
        return conformal_floor(self.log_f, self.weight, level, self.new_weight)

    @property
    def n_independent(self) -> float:
        """Number of calibration rows of equal weight, or of their groups, that say as much."""
        n = n_effective(self.weight)
        unit = 1.0 if self.new_weight is None else self.new_weight / self.weight.mean()
        return n / max(unit, 1.0)

    def _confident_level(self, level: float) -> float:
        """The lower level at which at most ``level`` falls below with this confidence.

        With n independent scores and the floor at rank k, the share of new rows below the floor
        is Beta(k, n + 1 - k); k is the highest rank whose quantile is no more than the level.
        """
        n = self.n_independent
        ranks = np.arange(1, max(2, math.ceil(level * (n + 1)) + 1))
        kept = beta.cdf(level, ranks, np.maximum(n + 1 - ranks, 1e-9)) >= self.confidence
        return float(ranks[kept][-1] / (n + 1)) if kept.any() else 0.5 * level / (n + 1)

    def guarantee(self, level: float) -> str:
        """What is promised about the share of new in-distribution rows below the floor."""
        n, confidence = self.n_independent, self.confidence
        least = 1 / level - 1
        if confidence is not None:
            least = math.log(1 - confidence) / math.log(1 - level)
        if n < least * (1 - ROUNDING):
            return (
                f"none: {n:.0f} independent calibration rows are too few for a level of "
                f"{level:.2%}, which needs {math.ceil(least)}; the floor is extrapolated"
            )
        if confidence is None:
            return f"at most {level:.2%} of new in-distribution rows, on average over models"
        return f"at most {level:.2%} of new in-distribution rows, with {confidence:.0%} confidence"

    def is_below(self, log_f: Floats, floor: float) -> Bools:
        """Which scores lie below a floor by more than rounding.

        Rows of discrete data have equal scores; a whole cell of them must not fall below the
        floor by the rounding of a sum.
        """
        below: Bools = log_f < floor - ROUNDING * max(1.0, abs(floor))
        return below | np.isneginf(log_f)

    def p_value(self, log_f: Floats) -> Floats:
        """Share of in-distribution rows, the new row included, whose score is no higher.

        A new in-distribution row has p <= level with probability at most level.
        """
        order = np.argsort(self.log_f)
        below = np.concatenate([[0.0], np.cumsum(self.weight[order])])
        rank = np.searchsorted(self.log_f[order], log_f, side="right")
        new_row = self.weight.mean() if self.new_weight is None else self.new_weight
        p: Floats = (below[rank] + new_row) / (below[-1] + new_row)
        return p

    def contradictions(self) -> Iterator[str]:
        """Inconsistencies in scores that were read from a file, as messages."""
        if len(self.log_f) == 0:
            yield "there are no calibration rows"


def conformal_floor(
    log_f: Floats, weight: Floats, false_alarm: float, new_weight: float | None = None
) -> float:
    """log b: at most ``false_alarm`` of new in-distribution rows score below it.

    With n exchangeable calibration scores, the floor is the one of rank
    floor(false_alarm (n + 1)), so a new score falls below it with probability at most
    false_alarm. With weights, ranks are sums of weights, and the new row has the mean weight; with
    groups of rows, ``new_weight`` is the weight of a group, which counts as one.
    Fewer than 1 / false_alarm - 1 rows are too few for that bound; the floor is then
    extrapolated below the lowest score, by an exponential tail with the scale of the scores.
    The floor is never -inf: alpha is 0 for such a score with any floor.
    """
    finite = np.isfinite(log_f)
    if not finite.any():
        return 0.0
    order = np.argsort(log_f)
    rank = ranks(weight[order], new_weight)
    # The factor is for rounding in the sum of weights.
    last = int(np.searchsorted(rank, false_alarm * (1 + 1e-12), side="right")) - 1
    lowest = float(log_f[finite].min())
    if last < 0:
        return lowest - logistic_scale(log_f) * math.log(float(rank[0]) / false_alarm)
    return max(float(log_f[order[last]]), lowest)


def ranks(weight: Floats, new_weight: float | None) -> Floats:
    """Rank of each of some ordered rows as a share of all, the new row included."""
    below = np.cumsum(weight)
    if new_weight is None:
        rank: Floats = below / (weight.sum() + weight.mean())
    else:  # a row counts as a whole group, like the new row
        rank = (below - weight + new_weight) / (weight.sum() + new_weight)
    return rank


def affordable_level(
    alpha: Callable[[float], Floats],
    scores: CalibrationScores,
    log_posterior: Floats,
    prior: Floats,
    y: Ints,
) -> float:
    """The level of ``false_alarm="auto"``: the highest that does not raise the log-loss.

    ``alpha`` gives the trust weights of the calibration rows for a floor. The level is the highest
    of ``LEVELS`` up to which the log-loss of alpha pi + (1 - alpha) prior on these rows exceeds
    that at the lowest level by no more than one standard error of the paired difference. Rows of
    low score are often predicted wrong by pi, so that falling back to the prior costs nothing
    there.
    """

    def losses(level: float) -> Floats:
        weight = alpha(scores.floor(level))
        own = np.exp(log_posterior[np.arange(len(y)), y])
        return -np.log(weight * own + (1.0 - weight) * prior[y])

    lowest = losses(LEVELS[0])
    affordable = LEVELS[0]
    for level in LEVELS[1:]:
        if above_chance(losses(level) - lowest, scores.weight):
            break
        affordable = level
    return affordable


def logistic_scale(scores: Floats) -> float:
    """Scale of the logistic curve that has the scores' interquartile range (2 s log 3).

    In many dimensions log f varies by hundreds. Without this scale, alpha would be a step, and
    in-distribution rows just below the floor would get the prior alone.
    """
    width = interquartile_range(scores[np.isfinite(scores)])
    return width / (2 * math.log(3)) if width > 0 else 1.0


def interquartile_range(values: Floats) -> float:
    """Distance between the quartiles; 0 without values, and where it is no more than rounding."""
    if len(values) == 0:
        return 0.0
    low, high = np.quantile(values, [0.25, 0.75])
    width = float(high - low)
    return width if width > ROUNDING * max(abs(low), abs(high), 1.0) else 0.0
