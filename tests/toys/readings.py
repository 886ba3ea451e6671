"""What the reading of a network must equal, whatever library it comes from."""

from __future__ import annotations

import numpy as np

# Rows, features and classes: those of the fixtures X and y.
N, D, K = 70, 5, 3


def assert_modes(reading, bits, proba):
    np.testing.assert_allclose(reading.proba, proba, atol=1e-6)
    groups = list(reading.modes.groups())
    assert len(groups) == len(bits) + 1
    for got, expected in zip(groups, [*bits, reading.proba > 1 / proba.shape[1]], strict=True):
        np.testing.assert_array_equal(got, expected)
        assert 0 < np.mean(got) < 1  # the comparison says something


def assert_same(a, b, rows=None):
    """Equal readings; ``rows`` gives the place in ``b`` of each row of ``a``."""
    rows = np.arange(len(b)) if rows is None else rows
    assert a.modes.sizes == b.modes.sizes
    np.testing.assert_array_equal(a.modes.codes, b.modes.codes[rows])
    np.testing.assert_allclose(a.proba, b.proba[rows], atol=1e-6)
    np.testing.assert_allclose(a.features, b.features[rows], atol=1e-6)
