"""The density of numbers, symbols and holes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from polycal.core.density import Density, Ranges, row_terms
from polycal.core.polytopes import Polytopes
from polycal.gate.bandwidth import polytope_density
from tests.toys.polytopes import mixed_polytopes


def test_the_density_of_a_mixed_row_by_hand():
    """One number with mean 1 and variance 4, one symbol of shares 0.75 and 0.25."""
    density = Density.from_parts(
        np.array([[1.0]]),
        np.array([[4.0]]),
        np.ones(1),
        log_missing=np.array([np.log(0.01)]),
        log_share=np.log([[0.75, 0.25]]),
        level_offsets=np.array([0, 2]),
    )
    X = np.array([[3.0, 0.0], [3.0, 1.0], [np.nan, 0.0]])
    at = np.zeros((3, 1), dtype=int)
    normal = np.exp(-0.5) / np.sqrt(2 * np.pi * 4)
    expected = np.log([normal * 0.75, normal * 0.25, 0.01 * 0.75])
    assert_allclose(density.log_density(X, at)[:, 0], expected)
    heights = [-0.5, -0.5 + np.log(1 / 3), np.log(0.01)]  # 1 at the centre
    assert_allclose(density.log_kernel(X, at)[:, 0], heights)


@pytest.mark.parametrize("bandwidth", ["own", "shared"])
def test_densities_side_by_side_are_those_of_one_row_at_a_time(bandwidth):
    modes, X, y, weight, start = mixed_polytopes()
    polytopes = Polytopes.from_rows(modes, X, y, weight, 2, start)
    density = polytope_density(polytopes, 0.1, start)
    if bandwidth == "shared":
        density = replace(density, precision=density.precision[:1])
    index = np.random.default_rng(1).integers(-1, len(polytopes), (80, 5))
    kernel, total = density.log_kernel(X, index), density.log_density(X, index)
    for i, j in np.ndindex(index.shape):
        expected = (-np.inf, 0.0)
        if index[i, j] >= 0:
            expected = row_terms(X[i], index[i, j], density.arrays)
        assert (kernel[i, j], total[i, j]) == (expected[0], sum(expected))


def test_how_far_a_row_is_out_of_a_range():
    rng = np.random.default_rng(0)
    low, high = -rng.random(6), rng.random(6)
    ranges = Ranges(low, high, (high - low) / 2)
    X = 2 * rng.standard_cauchy((50, 8))  # the last two are symbols
    X[rng.random(X.shape) < 0.3] = np.nan
    numbers = X[:, :6]
    away = np.maximum(low - numbers, numbers - high) / ranges.unit
    expected = np.fmax(np.nan_to_num(away, nan=-1.0), 0).max(axis=1)
    assert_allclose(ranges.beyond(X, n_jobs=2), expected, rtol=1e-15)
    assert (expected == 0).any()
    assert list(ranges.contradictions()) == []
    assert list(replace(ranges, low=high + 1).contradictions())
    huge = np.full((1, 6), -1e308)
    assert_array_equal(replace(ranges, unit=np.full(6, 1e-9)).beyond(huge), [1e300])
