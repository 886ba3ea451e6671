"""Is a difference more than chance?"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray


def n_effective(weight: NDArray) -> float:
    """Rows of equal weight that would say as much: (sum of weights)^2 / sum of squares."""
    return float(weight.sum() ** 2 / (weight**2).sum())


def above_chance(extra: NDArray, weight: NDArray) -> bool:
    """Whether paired differences have a mean above one standard error of it."""
    mean = np.average(extra, weights=weight)
    variance = np.average((extra - mean) ** 2, weights=weight)
    return bool(mean > math.sqrt(variance / n_effective(weight)))
