"""Every simulated table, a large sample of each, and a test that rows follow a distribution."""

from __future__ import annotations

from functools import cache

import pytest
from scipy.stats import kstest

from polycal.simulations import (
    make_circle,
    make_gaussian_xor,
    make_polynomial,
    make_sinewave,
    make_spiral,
    make_trunk,
)
from polycal.simulations.densities import cosine, cubic, line, sine

MAKERS = {
    "spiral": make_spiral,
    "circle": make_circle,
    "sinewave": make_sinewave,
    "gaussian_xor": make_gaussian_xor,
    "polynomial": make_polynomial,
    "trunk": make_trunk,
}
CURVES = {"sinewave": (cosine, sine), "polynomial": (line, cubic)}
each_simulation = pytest.mark.parametrize("name", MAKERS)


@cache
def sample(name, bounded=False):
    options = {"bounded": True} if bounded else {}
    return MAKERS[name](400_000, random_state=0, **options)


def assert_follows(values, cdf):
    """Kolmogorov-Smirnov; the seeds are fixed, so the level is that of one run."""
    assert kstest(values, cdf).pvalue > 1e-3
