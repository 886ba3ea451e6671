"""Rows in random leaves, with and without holes, and their polytopes."""

from __future__ import annotations

import numpy as np

from polycal.core.polytopes import Polytopes
from polycal.core.reading import ActivationModes


def make_rows(n=60, seed=0):
    rng = np.random.default_rng(seed)
    modes = ActivationModes.from_leaves(rng.integers(0, 3, (n, 3)))
    return modes, rng.normal(size=(n, 4)) + 100, rng.integers(0, 3, n), rng.uniform(0.2, 3, n)


def polytopes_of(rows, index=slice(None)):
    modes, X, y, weight = rows
    return Polytopes.from_rows(modes[index], X[index], y[index], weight[index], 3)


def mixed_polytopes(seed=0, n=80):
    rng = np.random.default_rng(seed)
    numbers = rng.normal(size=(n, 2)) + 50
    numbers[rng.random(n) < 0.3, 1] = np.nan
    symbols = np.column_stack([rng.integers(0, 3, n), np.isnan(numbers[:, 1])])
    X, start = np.column_stack([numbers, symbols]), np.array([0, 4, 6])
    modes = ActivationModes.from_leaves(rng.integers(0, 3, (n, 3)))
    y, weight = rng.integers(0, 2, n), rng.uniform(0.5, 2, n)
    return modes, X, y, weight, start
