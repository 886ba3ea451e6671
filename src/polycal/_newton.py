"""Newton's method for a convex function of few variables, some of which may not be negative."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

MOST_STEPS = 100
# Relative fall of the value in one step below which the minimum is reached.
TOLERANCE = 1e-10
# Added to the curvature, in units of its mean: directions in which nothing changes stay put.
RIDGE = 1e-9
ENOUGH = 1e-4  # Armijo's share of the fall that the slope promises


def minimize_convex(
    function: Callable[[NDArray], tuple[float, NDArray, NDArray]],
    start: NDArray,
    bounded: NDArray,
) -> tuple[NDArray, float]:
    """The minimum and its value (Bertsekas 1982, projected Newton).

    ``function`` gives value, slope and curvature; ``bounded`` marks variables that must be at
    least 0. Those that lie on the bound and press against it sit out of a step.
    """
    here, (value, slope, curvature) = start, function(start)
    for _ in range(MOST_STEPS):
        free = ~(bounded & (here <= 0) & (slope > 0))
        part = curvature[np.ix_(free, free)]
        part[np.diag_indices(len(part))] += RIDGE * np.trace(part) / len(part)
        step = np.zeros(len(here))
        step[free] = -np.linalg.solve(part, slope[free])
        share = 1.0
        while True:
            there = here + share * step
            there[bounded] = np.maximum(there[bounded], 0.0)
            found = function(there)
            if found[0] <= value + ENOUGH * slope @ (there - here):
                break
            share /= 2
            if share < TOLERANCE:
                return here, value
        fall = value - found[0]
        here, (value, slope, curvature) = there, found
        if fall <= TOLERANCE * abs(value):
            break
    return here, value
