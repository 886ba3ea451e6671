"""Weighted rows: how many they are worth, and whether a difference is more than chance."""

from __future__ import annotations

import math

import numpy as np

from .arrays import Floats

# Share of a weight: far above the rounding of a sum of weights, far below one row of it.
WEIGHT_ROUNDING = 1e-9


def n_effective(weight: Floats) -> float:
    """Number of rows of equal weight that are worth as much: (sum w)^2 / (sum w^2)."""
    return float(weight.sum() ** 2 / (weight**2).sum())


def above_chance(extra: Floats, weight: Floats, errors: float = 1.0) -> bool:
    """Whether the mean of paired differences is above some standard errors of it."""
    mean = np.average(extra, weights=weight)
    variance = np.average((extra - mean) ** 2, weights=weight)
    return bool(mean > errors * math.sqrt(variance / n_effective(weight)))
