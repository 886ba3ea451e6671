"""Labelled probabilities with and without faults in their calibration."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from polycal.metrics import classwise_calibration_error, expected_calibration_error

CALIBRATION_ERRORS = (expected_calibration_error, classwise_calibration_error)
STRATEGIES = ("width", "mass")


@st.composite
def labelled(draw):
    """y, P, weight and n_bins, with zeros, ones, ties and probabilities on the edges of bins."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, n_classes = draw(st.integers(1, 40)), draw(st.integers(2, 4))
    parts = rng.multinomial(20, rng.dirichlet(np.ones(n_classes)), size=n) / 20
    P = parts if draw(st.booleans()) else rng.dirichlet(np.ones(n_classes), n)
    weight = rng.integers(0, 4, n)
    weight[0] += 1
    return rng.integers(0, n_classes, n), P, weight, draw(st.integers(1, 25))


def calibrated(rng, n, temperature=1.0):
    """Two classes whose log odds are normal; P is calibrated at temperature 1."""
    odds = rng.normal(0, 2, n)
    p = 1 / (1 + np.exp(-odds * temperature))
    y = (rng.random(n) < 1 / (1 + np.exp(-odds))).astype(int)
    return y, np.column_stack([1 - p, p])
