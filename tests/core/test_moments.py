"""Sums over rows make the same polytopes as the rows themselves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal

from polycal.core.moments import Moments
from polycal.core.polytopes import Polytopes
from polycal.core.reading import ActivationModes

RNG = np.random.default_rng(0)
N = 200
OFFSETS = np.array([0, 3, 5])
MODES = ActivationModes.from_leaves(RNG.integers(0, 4, (N, 2)))
Y, WEIGHT = RNG.integers(0, 3, N), RNG.random(N) + 0.5


def rows(missing):
    """Three numbers around 1000, and a category of three levels and a symbol of two."""
    numbers = RNG.normal(1000.0, [0.1, 1.0, 10.0], (N, 3))
    level = np.zeros(N)
    if missing:
        numbers[RNG.random(N) < 0.2, 1] = np.nan
        level = np.isnan(numbers[:, 1]).astype(float)
    return np.column_stack([numbers, RNG.integers(0, 3, N), level])


def made(X, clipped=None):
    moments = Moments(
        np.full(3, 1000.0), np.array([0.1, 1.0, 10.0]), OFFSETS, 3, clipped is not None
    )
    distinct, owner = MODES.distinct()
    values = moments.rows(X, clipped, Y, WEIGHT)
    assert values.shape == (N, moments.n_values)
    sums = np.zeros((len(distinct), values.shape[1]))
    np.add.at(sums, owner, values)
    return moments.polytopes(distinct, sums, 2.0)


def test_polytopes_equal_those_of_the_rows():
    for missing in (False, True):
        X = rows(missing)
        found, clipped = made(X, np.minimum(X, 1000.0))
        for some, of in ((found, X), (clipped, np.minimum(X, 1000.0))):
            expected = Polytopes.from_rows(MODES, of, Y, 2 * WEIGHT, 3, OFFSETS)
            assert_array_equal(some.modes.codes, expected.modes.codes)
            for name in ("counts", "mean", "variance", "observed", "levels"):
                assert_allclose(getattr(some, name), getattr(expected, name), atol=1e-9)
    assert made(X)[1] is None


def test_a_single_row_does_not_vary():
    moments = Moments(np.zeros(1), np.ones(1), np.zeros(1, dtype=int), 2, False)
    X = np.array([[1 / 3], [1e3]])
    values = moments.rows(X, None, np.array([0, 1]), np.array([0.7, 3.0]))
    polytopes, _ = moments.polytopes(ActivationModes.from_leaves(np.eye(2, dtype=int)), values, 1.0)
    assert_array_equal(polytopes.variance, 0)
    assert_allclose(polytopes.mean, X)
    forged = replace(moments, unit=np.zeros(1))
    assert list(moments.contradictions()) == []
    assert list(forged.contradictions()) == ["moments of a stream have no unit"]
