"""Points on spheres."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import uniform

from polycal.simulations import sample_sphere
from tests.toys.simulations import assert_follows


def test_spheres():
    X = sample_sphere(20_000, 3, 2.5, random_state=0)
    assert_allclose(np.linalg.norm(X, axis=1), 2.5)
    for column in X.T:  # Archimedes: each coordinate is uniform in three dimensions
        assert_follows(column, uniform(-2.5, 5).cdf)
    plane = sample_sphere(20_000, 2, 1.0, random_state=0)
    assert_follows(np.arctan2(plane[:, 1], plane[:, 0]), uniform(-np.pi, 2 * np.pi).cdf)
    ends = sample_sphere(10_000, 1, 3.0, random_state=0)
    assert_allclose(np.abs(ends), 3.0)
    assert abs((ends > 0).mean() - 0.5) < 0.02
    assert_array_equal(sample_sphere(5, 4, 0, random_state=0), np.zeros((5, 4)))
    assert_array_equal(
        sample_sphere(5, 4, 2, random_state=0), 2 * sample_sphere(5, 4, 1, random_state=0)
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: sample_sphere(0, 2, 1.0), "n must be an integer"),
        (lambda: sample_sphere(5, 0, 1.0), "d must be an integer"),
        (lambda: sample_sphere(5, 2, -1.0), "radius must be a finite number of at least 0; got -1"),
        (lambda: sample_sphere(5, 2, np.inf), "radius must be a finite number"),
    ],
)
def test_bad_input_of_spheres(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_sphere():
    X = sample_sphere(1000, 7, 3.0, random_state=0)
    assert_allclose(np.linalg.norm(X, axis=1), 3.0)
    assert_allclose(X.mean(axis=0), 0, atol=0.2)
