"""The minimum of a convex function, some of whose variables must not be negative."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, cholesky, solve_triangular
from scipy.optimize import nnls

from .._utils.arrays import Bools, Floats

# Largest number of steps of Newton's method.
MOST_STEPS = 100
# A step is taken if its predicted decrease is more than this share of the value (or of
# SMALL_VALUE, if that is more: the rounding of sums of logarithms does not shrink with them).
TOLERANCE = 1e-10
SMALL_VALUE = 1e-3
# Added to the curvature, in units of its mean, so that there is no step in directions in which
# the loss is constant. The larger ones are for curvature that rounding has made negative; they
# make the step shorter.
RIDGES = (1e-9, 1e-6, 1e-3)
ARMIJO_SHARE = 1e-4  # of the decrease that the slope predicts
SHORTEST_STEP = 1e-15  # share of a step; shorter ones change nothing but rounding


def minimize_convex(
    function: Callable[[Floats], tuple[float, Floats, Floats]],
    start: Floats,
    bounded: Bools,
) -> tuple[Floats, float]:
    """Minimise a convex function by Newton's method; return the minimum and its value.

    ``function`` gives value, slope and curvature; ``bounded`` marks variables that must be at
    least 0. Each step goes straight towards the minimum, within the bounds, of the quadratic
    approximation; it is halved until the value decreases enough.
    """
    here, (value, slope, curvature) = start, function(start)
    for _ in range(MOST_STEPS):
        aim = _lowest_with_ridge(curvature, slope, here, bounded)
        promised = slope @ (here - aim)
        if promised <= TOLERANCE * max(abs(value), SMALL_VALUE):
            break
        share = 1.0
        while share > SHORTEST_STEP:
            there = here + share * (aim - here)
            found = function(there)
            if found[0] <= value - ARMIJO_SHARE * share * promised:
                break
            share /= 2
        else:
            break
        here, (value, slope, curvature) = there, found
    return here, value


def _lowest_with_ridge(curvature: Floats, slope: Floats, here: Floats, bounded: Bools) -> Floats:
    unit = np.trace(curvature) / len(here) * np.eye(len(here))
    for ridge in RIDGES[:-1]:
        with suppress(LinAlgError):
            return _lowest(curvature + ridge * unit, slope, here, bounded)
    return _lowest(curvature + RIDGES[-1] * unit, slope, here, bounded)


def _lowest(curvature: Floats, slope: Floats, here: Floats, bounded: Bools) -> Floats:
    """Minimum, within the bounds, of the quadratic approximation at ``here``.

    The bounded variables are solved first, as non-negative least squares.
    """
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
