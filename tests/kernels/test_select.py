"""The tie rule."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from polycal.kernels import Search
from tests.toys.kernels import EXECUTION, INDEXES, gaussians_at, modes_for


@pytest.mark.parametrize("kind", INDEXES)
def test_ties_go_to_density_then_to_the_lowest_index(kind):
    """Equal modes are told apart by the density, equal densities by the index."""
    rng = np.random.default_rng(2)
    one = modes_for(kind, rng, 1)
    stored = one[np.zeros(5, dtype=int)]
    mean = np.array([[3.0], [1.0], [1.0], [0.0], [-9.0]])
    gaussians = gaussians_at(mean, np.ones((5, 1)))
    near = INDEXES[kind](stored).nearest(one, np.array([[1.0]]), Search(gaussians, 5), EXECUTION)
    assert_array_equal(near.index, [[1, 2, 3, 0, 4]])
    assert_array_equal(near.similarity, np.ones((1, 5)))
