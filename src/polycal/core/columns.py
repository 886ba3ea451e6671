"""Where the values of each number lie, whatever a few far ones are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from .._utils.arrays import Bools, Floats, Ints
from .._utils.saved import saved_array

# A value is far where it is more than this many interquartile ranges outside of the quartiles.
FAR = 10.0
# Rows that quartiles are estimated from.
QUARTILE_ROWS = 10_000
# Part of a value that is no more than its rounding.
ROUNDING = 1e-13
# Largest values of a column whose squares can be added up.
LARGEST = 1e150
# The end of a range is at most this many times as far from the middle as the third value from the
# end is, or as many interquartile ranges outside of the quartiles as NEAR.
STRETCH = 1.5
NEAR = 2.0


@dataclass(frozen=True)
class Fences:
    """Bounds of each number, beyond which distances are counted by their logarithm."""

    lower: Floats = saved_array("float64 numbers", least=-np.inf, most=np.inf)
    upper: Floats = saved_array("float64 numbers", least=-np.inf, most=np.inf)

    @classmethod
    def of(cls, X: Floats) -> Fences:
        """Fences 10 interquartile ranges outside of the quartiles of each column.

        Where most values are equal, they are 10 times as far away as the median of the others is.
        Those of a constant are infinite.
        """
        first, third = quartiles(X)
        with np.errstate(over="ignore", invalid="ignore"):
            width = third - first
            varies = _varies(first, third)
            lower = np.where(varies, first - FAR * width, -np.inf)
            upper = np.where(varies, third + FAR * width, np.inf)
        low, high = np.fmin.reduce(X, axis=0), np.fmax.reduce(X, axis=0)
        for j in np.flatnonzero(~varies & (high > low)):
            with np.errstate(over="ignore", invalid="ignore"):
                away = abs(X[:, j] - first[j])
                away = away[away > ROUNDING * max(abs(low[j]), abs(high[j]))]
                half = FAR * np.median(away[np.isfinite(away)]) if len(away) else np.inf
                lower[j], upper[j] = first[j] - half, first[j] + half
        finite = np.isfinite(lower) & np.isfinite(upper) & (upper > lower)
        return cls(np.where(finite, lower, -np.inf), np.where(finite, upper, np.inf))

    def compress(self, X: Floats) -> Floats:
        """Rows with the logarithm of the distance beyond a fence; X itself where none is beyond.

        Values and slope are continuous at the fence. Without it, the squares of a column with a
        heavy tail are larger than those of all others, and nothing else can be seen.
        """
        n = len(self.lower)
        low, high = np.fmin.reduce(X, axis=0)[:n], np.fmax.reduce(X, axis=0)[:n]
        outside = np.flatnonzero((low < self.lower) | (high > self.upper))
        if len(outside) == 0:
            return X
        compressed = X.copy()
        for j in outside:
            x, lower, upper = X[:, j], self.lower[j], self.upper[j]
            unit = upper / (2 * FAR + 1) - lower / (2 * FAR + 1)  # interquartile range
            above, below = x > upper, x < lower
            compressed[above, j] = upper + _log_distance(x[above], upper, unit)
            compressed[below, j] = lower - _log_distance(-x[below], -lower, unit)
        return compressed

    def contradictions(self) -> Iterator[str]:
        """Inconsistencies in fences that were read from a file, as messages."""
        if not (self.lower < self.upper).all():
            yield "the fences of a number are out of order"


def _log_distance(x: Floats, fence: float, unit: float) -> Floats:
    """unit log(1 + distance / unit), without overflow."""
    with np.errstate(over="ignore"):
        away = np.minimum(x - fence, np.finfo(float).max / 2)
    found: Floats = unit * (np.log(unit + away) - np.log(unit))
    return found


class Columns(NamedTuple):
    """Where the values of each number lie, whatever a few far ones are."""

    # lowest and highest value, but for one or two that lie far from all others
    low: Floats
    high: Floats
    # from the middle of the quartiles to the farther end, which for an even column is half of the
    # range; of a constant c it is abs(c), or 1 for c = 0
    unit: Floats
    # interquartile range; where that is 0, standard deviation, or the unit of a constant
    spread: Floats
    lower: Floats  # quartiles -/+ 10 interquartile ranges; infinite where these are 0
    upper: Floats
    middle: Floats  # of the quartiles

    @classmethod
    def of(cls, X: Floats) -> Columns:
        """Describe each column; NaN is no value."""
        first, third = quartiles(X)
        low, high = np.fmin.reduce(X, axis=0), np.fmax.reduce(X, axis=0)
        with np.errstate(over="ignore", invalid="ignore"):
            width = third - first
            varies = _varies(first, third)
            lower = np.where(varies, first - FAR * width, -np.inf)
            upper = np.where(varies, third + FAR * width, np.inf)
            stretched = varies & (high > third + NEAR * width)
            for j in np.flatnonzero(stretched):
                high[j] = min(high[j], _end(X[:, j], first[j], third[j]))
            stretched = varies & (low < first - NEAR * width)
            for j in np.flatnonzero(stretched):
                low[j] = max(low[j], -_end(-X[:, j], -third[j], -first[j]))
        low, high = np.nan_to_num(low), np.nan_to_num(high)  # 0 without any value
        size = np.maximum(abs(low), abs(high))
        middle = np.nan_to_num(0.5 * first + 0.5 * third)
        unit = np.maximum(high - middle, middle - low)
        unit = np.where(unit > ROUNDING * size, unit, np.where(size > 0, size, 1.0))
        spread = np.where(varies, width, unit)
        for j in np.flatnonzero(~varies & (high > low)):
            with np.errstate(over="ignore", invalid="ignore"):
                deviation = np.nanstd(X[:, j])
            if np.isfinite(deviation) and deviation > ROUNDING * size[j]:
                spread[j] = deviation
        return cls(low, high, unit, spread, lower, upper, middle)

    def check(self, numbers: Ints) -> None:
        """Raise an error where the squares of a column's values would overflow."""
        large = np.flatnonzero(np.maximum(self.spread, self.unit) > LARGEST)
        if len(large):
            raise ValueError(
                f"the values of column {numbers[large[0]]} are larger than {LARGEST:g}, so that "
                "their squares overflow. Divide the column by a large number."
            )

    def clip(self, X: Floats) -> Floats:
        """Rows with each number inside the fences; X itself where all are."""
        n = len(self.low)
        low, high = np.fmin.reduce(X, axis=0)[:n], np.fmax.reduce(X, axis=0)[:n]
        outside = np.flatnonzero((low < self.lower) | (high > self.upper))
        if len(outside) == 0:
            return X
        clipped = X.copy()
        clipped[:, outside] = np.clip(X[:, outside], self.lower[outside], self.upper[outside])
        return clipped


def quartiles(X: Floats) -> tuple[Floats, Floats]:
    """First and third quartile of each column, of some rows if there are many; NaN without any."""
    if len(X) > QUARTILE_ROWS:
        X = X[np.random.default_rng(0).permutation(len(X))[:QUARTILE_ROWS]]
    ordered = np.sort(X.T, axis=1)  # NaN comes last
    last = np.maximum(np.count_nonzero(~np.isnan(ordered), axis=1) - 1, 0)
    column = np.arange(len(ordered))

    def quantile(share: float) -> Floats:
        place = share * last
        below = place.astype(np.int64)
        low, high = ordered[column, below], ordered[column, np.minimum(below + 1, last)]
        with np.errstate(over="ignore", invalid="ignore"):
            found: Floats = low + (place - below) * (high - low)
        return found

    return quantile(0.25), quantile(0.75)


def _varies(first: Floats, third: Floats) -> Bools:
    """Where quartiles differ by more than rounding."""
    width = third - first
    return np.isfinite(width) & (width > ROUNDING * np.maximum(abs(first), abs(third)))


def _end(values: Floats, first: float, third: float) -> float:
    """The highest value that a range has, by its third highest: two wrong values do not count."""
    middle = 0.5 * first + 0.5 * third
    known = values[~np.isnan(values)]
    third_highest = np.partition(known, len(known) - 3)[len(known) - 3] if len(known) > 2 else third
    reached = middle + STRETCH * (third_highest - middle)
    return float(max(reached, third + NEAR * (third - first)))
