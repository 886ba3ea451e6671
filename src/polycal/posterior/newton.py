"""Newton's method for a convex function of few variables, some of which may not be negative."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve, cholesky, solve_triangular
from scipy.optimize import nnls

MOST_STEPS = 100
# Fall that a step must promise to be made, relative to the value, or to SMALL if that is more:
# what sums of logarithms lose by rounding does not shrink with their value.
TOLERANCE = 1e-10
SMALL = 1e-3
# Added to the curvature, in units of its mean: directions in which nothing changes stay put.
# More where rounding has left no positive curvature; the step is shorter, and still falls.
RIDGES = (1e-9, 1e-6, 1e-3)
ENOUGH = 1e-4  # Armijo's share of the fall that the slope promises
SHORTEST = 1e-15  # share of a step; below it there is nothing but rounding


def minimize_convex(
    function: Callable[[NDArray], tuple[float, NDArray, NDArray]],
    start: NDArray,
    bounded: NDArray,
) -> tuple[NDArray, float]:
    """The minimum and its value.

    ``function`` gives value, slope and curvature; ``bounded`` marks variables that must be at
    least 0. Each step goes towards the lowest point within the bounds of the parabola there.
    The way is straight, so the value falls at first however long the step is.
    """
    here, (value, slope, curvature) = start, function(start)
    for _ in range(MOST_STEPS):
        aim = _lowest_with_ridge(curvature, slope, here, bounded)
        promised = slope @ (here - aim)
        if promised <= TOLERANCE * max(abs(value), SMALL):
            break
        share = 1.0
        while share > SHORTEST:
            there = here + share * (aim - here)
            found = function(there)
            if found[0] <= value - ENOUGH * share * promised:
                break
            share /= 2
        else:
            break
        here, (value, slope, curvature) = there, found
    return here, value


def _lowest_with_ridge(
    curvature: NDArray, slope: NDArray, here: NDArray, bounded: NDArray
) -> NDArray:
    unit = np.trace(curvature) / len(here) * np.eye(len(here))
    for ridge in RIDGES[:-1]:
        with suppress(LinAlgError):
            return _lowest(curvature + ridge * unit, slope, here, bounded)
    return _lowest(curvature + RIDGES[-1] * unit, slope, here, bounded)


def _lowest(curvature: NDArray, slope: NDArray, here: NDArray, bounded: NDArray) -> NDArray:
    """Where the parabola at ``here`` is lowest: the bounded variables first, as least squares."""
    free = ~bounded
    across = curvature[np.ix_(free, bounded)]
    inner = cho_factor(curvature[np.ix_(free, free)])
    left = curvature[np.ix_(bounded, bounded)] - across.T @ cho_solve(inner, across)
    root = cholesky(left)  # upper
    aim = left @ here[bounded] - slope[bounded] + across.T @ cho_solve(inner, slope[free])
    there = here.copy()
    there[bounded] = nnls(root, solve_triangular(root, aim, trans="T"), maxiter=MOST_STEPS)[0]
    moved = there[bounded] - here[bounded]
    there[free] -= cho_solve(inner, slope[free] + across @ moved)
    return there
