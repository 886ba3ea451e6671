"""The floor of log f: at most a given share of in-distribution rows has a lower score."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from scipy.stats import beta

from .._utils.arrays import Bools, Floats, Ints
from .._utils.saved import LARGEST_WEIGHT, saved_array, saved_number, saved_weight
from .._utils.significance import above_chance, n_effective

# Share of a score that is no more than the rounding of the sums behind it.
ROUNDING = 1e-9
#: False-alarm levels that "auto" chooses among.
LEVELS = (0.01, 0.015, 0.02, 0.03, 0.05, 0.07, 0.1)
#: Levels of alpha's floor that ``caution="auto"`` chooses among for the sake of rare classes, as
#: shares of the verdict's level.
CAUTIONS = (0.5, 0.2, 0.1, 0.05, 0.02, 0.01)
# Log-loss of rare classes that such a level must save, in standard errors.
SURE_GAIN = 2.0
# Alpha's floor is below that at SURE_LEVEL by at most LONGEST_TAIL times what it would be if the
# scores had the tail of a logistic curve.
SURE_LEVEL = 0.05
LONGEST_TAIL = 12.0
# How far classes lower the floor of all rows at most, in log f: f by a factor of e.
CLASS_TAIL = 1.0
# Smallest probability in a log-loss.
SMALLEST = 1e-300
# A class is rare below this part of an equal share of the rows.
RARE = 0.2


@dataclass(frozen=True)
class CalibrationScores:
    """log f of the calibration rows: the scores of in-distribution rows."""

    log_f: Floats = saved_array("float64 calibration_rows", least=-math.inf, most=math.inf)
    weight: Floats = saved_weight("float64 calibration_rows")
    # Weight of a new row and of its group, which it counts as one with; None: the mean weight
    new_weight: float | None = saved_number(
        float, optional=True, above=0.0, below=LARGEST_WEIGHT, default=None
    )
    # Confidence that the bound holds for this very model; None: it holds on average over models
    confidence: float | None = saved_number(
        float, optional=True, above=0.0, below=1.0, default=None
    )

    # class of each row, where classes have bounds of their own
    y: Ints | None = saved_array("int64 calibration_rows", optional=True)

    def floor(self, level: float) -> float:
        """Score that at most ``level`` of new in-distribution rows fall below."""
        if self.confidence is not None:
            level = self._confident_level(level)
        return conformal_floor(self.log_f, self.weight, level, self.new_weight)

    def near_floor(self, level: float) -> float:
        """The floor at a level, not far below that at ``SURE_LEVEL``.

        The lowest scores may be those of rows with wrong values, far below all others. If alpha's
        floor were there, nothing would be below it.
        """
        sure = max(level, SURE_LEVEL)
        return max(self.floor(level), self.floor(sure) - LONGEST_TAIL * math.log(sure / level))

    def verdict_floor(self, level: float) -> float:
        """Score that at most ``level`` of all rows fall below, and of each bounded class.

        Classes lower the floor by at most ``CLASS_TAIL``. The lowest scores of a class may be those
        of rows that lie among no others; if the floor were there, hardly any row would be "out".
        """
        floor = self._floor_of_all(level)
        return max(min([floor, *self._class_floors(level).values()]), floor - CLASS_TAIL)

    def bounded_classes(self, level: float) -> Ints:
        """Classes with a bound of their own."""
        least = self._floor_of_all(level) - CLASS_TAIL
        bounded = [code for code, floor in self._class_floors(level).items() if floor >= least]
        return np.array(bounded, dtype=int)

    def _floor_of_all(self, level: float) -> float:
        """The floor for rows of any class, as near to most of the scores as the promise allows.

        Where the lowest scores are far below all others, as those of rows with wrong values are,
        one row more than the level may be below the floor. A promise with a confidence stays as it
        is; without rows enough for any promise, the floor is that of alpha.
        """
        if self.y is None or self.confidence is not None:
            return self.floor(level)
        if self.n_independent < self.least_rows(level):
            return self.near_floor(level)
        return min(self.near_floor(level), self.floor(self._with_one_row(level)))

    def _kept_level(self, level: float) -> float:
        """The level that the floor of all rows keeps."""
        moved = self._floor_of_all(level) > self.floor(level)
        return self._with_one_row(level) if moved else level

    def _with_one_row(self, level: float) -> float:
        """The level and the share of one calibration row."""
        return min(level + 1 / (self.n_independent + 1), 0.5)

    def _class_floors(self, level: float) -> dict[int, float]:
        """The floor of each class that is not rare and has rows enough.

        It is at the level plus one standard error. The lowest score of a hundred rows would hold
        the level itself, but hardly any row is below it; so it is with the rows of a rare class,
        which often lie among no others.
        """
        if self.y is None:
            return {}
        floors = {}
        for code in np.flatnonzero(~self._is_rare_class):
            some = self.of_class(int(code))
            if some.n_independent >= self.least_rows(level):
                floors[int(code)] = some.floor(with_standard_error(level, some.n_independent))
        return floors

    @property
    def _is_rare_class(self) -> Bools:
        """Which classes have few of the rows."""
        assert self.y is not None
        share = np.bincount(self.y, self.weight) / self.weight.sum()
        rare: Bools = share < RARE / len(share)
        return rare

    @property
    def is_rare(self) -> Bools:
        """Which rows are of a rare class."""
        if self.y is None:
            return np.zeros(len(self.log_f), dtype=bool)
        rare: Bools = self._is_rare_class[self.y]
        return rare

    def of_class(self, code: int) -> CalibrationScores:
        """The scores of one class."""
        assert self.y is not None
        rows = self.y == code
        return replace(self, log_f=self.log_f[rows], weight=self.weight[rows], y=None)

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
        n, least = self.n_independent, self.least_rows(level)
        if n < least:
            return (
                f"none: {n:.0f} independent calibration rows are too few for a level of "
                f"{level:.2%}, which needs {math.ceil(least)}; the floor is extrapolated"
            )
        whose = "on average over models"
        if self.confidence is not None:
            whose = f"with {self.confidence:.0%} confidence"
        kept = self._kept_level(level)
        promised = f"at most {kept:.2%} of new in-distribution rows, {whose}"
        if kept > level:
            promised += (
                f" (the level of {level:.2%} and one calibration row, since the lowest score is "
                "far below all others)"
            )
        if self.y is None:
            return promised
        n_bounded, n_classes = len(self.bounded_classes(level)), int(self.y.max()) + 1
        if n_bounded == 0:
            return promised
        if n_bounded == n_classes:
            return f"{promised}, also of each class (to a standard error)"
        return f"{promised}, also of {n_bounded} of the {n_classes} classes (to a standard error)"

    def least_rows(self, level: float) -> float:
        """Number of independent rows that the bound needs, less rounding."""
        least = 1 / level - 1
        if self.confidence is not None:
            least = math.log(1 - self.confidence) / math.log(1 - level)
        return least * (1 - ROUNDING)

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

    def at_rank(self, rank: Floats) -> Floats:
        """Scores up to which rows have these shares of the weight."""
        order = np.argsort(self.log_f)
        share = np.cumsum(self.weight[order]) / self.weight.sum()
        place = np.searchsorted(share, rank * (1 - ROUNDING))
        found: Floats = self.log_f[order[np.minimum(place, len(order) - 1)]]
        return found

    def contradictions(self) -> Iterator[str]:
        """Inconsistencies in scores that were read from a file, as messages."""
        if len(self.log_f) == 0:
            yield "there are no calibration rows"
        elif not self.weight.sum() > 0:
            yield "no calibration row has a weight"
        elif self.y is not None and self.y.min() < 0:
            yield "a calibration row has no class"


def with_standard_error(level: float, n: float) -> float:
    """The level and one standard error of the share of n rows that are out at that level."""
    return min(level + math.sqrt(level * (1 - level) / n), 0.5)


def without_excess(
    scores: CalibrationScores, usual: CalibrationScores, final: CalibrationScores
) -> CalibrationScores:
    """Scores by stand-ins for a model, less what such scores are usually above those by the model.

    ``usual`` are scores by the stand-ins of rows that they were fitted on, ``final`` those of the
    same rows by the model. The excess of a score is the difference between the two that have its
    rank, where that is positive: a model may differ from its stand-ins for some rows alone, and
    the floor is set by the lowest.
    """
    order = np.argsort(scores.log_f, kind="stable")
    rank = np.cumsum(scores.weight[order]) / scores.weight.sum()
    high, low = usual.at_rank(rank), final.at_rank(rank)
    lower = low < high
    log_f = scores.log_f.copy()
    log_f[order[lower]] -= high[lower] - low[lower]
    return replace(scores, log_f=log_f)


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


def mixture_losses(alpha: Floats, own: Floats, prior: Floats) -> Floats:
    """Log-loss of alpha pi + (1 - alpha) prior; ``own`` is pi of each row's class."""
    losses: Floats = -np.log(np.maximum(alpha * own + (1.0 - alpha) * prior, SMALLEST))
    return losses


def affordable_level(losses: Callable[[float], Floats], scores: CalibrationScores) -> float:
    """The level of ``false_alarm="auto"``: the highest that does not raise the log-loss.

    ``losses`` gives the log-losses of the calibration rows with some floor of alpha. The level is
    the highest of ``LEVELS`` up to which the mean exceeds that at the lowest level by no more than
    one standard error of the paired difference. Rows of low score are often predicted wrong by pi,
    so that falling back to the prior costs nothing there.
    """
    lowest = losses(scores.near_floor(LEVELS[0]))
    affordable = LEVELS[0]
    for level in LEVELS[1:]:
        if above_chance(losses(scores.near_floor(level)) - lowest, scores.weight):
            break
        affordable = level
    return affordable


def cautious_floor(
    losses: Callable[[float], Floats], scores: CalibrationScores, highest: float
) -> tuple[float, float]:
    """Level and floor of alpha for ``caution="auto"``: the highest, or less for rare classes.

    Rows of a rare class often lie where there is little data. Below the floor they get the prior,
    and lose their place before the others. So a level of ``CAUTIONS`` times the highest is taken,
    as far as there are rows enough for it, where it saves log-loss, and surely that of rare
    classes: a scattered class is worth it, a single odd row is not. A level above the default was
    chosen for the sake of caution, and is kept.
    """
    floor, rare = scores.near_floor(highest), scores.is_rare
    if highest > LEVELS[0] or not rare.any():
        return highest, floor
    least = (1 - ROUNDING) / (scores.n_independent + 1)
    chosen, loss = (highest, floor), losses(floor)
    for level in (part * highest for part in CAUTIONS if part * highest >= least):
        lower = scores.floor(level)
        saved = loss - losses(lower)
        sure = above_chance(saved[rare], scores.weight[rare], SURE_GAIN)
        if sure and np.average(saved, weights=scores.weight) > 0:
            chosen, loss = (level, lower), loss - saved
    return chosen


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
