"""Activation modes: packed, unpacked and compared as integers."""

from __future__ import annotations

import numpy as np
from numpy.testing import assert_array_equal

from polycal.core.reading import ActivationModes
from tests.toys.models import random_modes


def test_distinct_compares_integers():
    """Two modes that differ in one of 20,000 bits are two polytopes (K > 0.9999)."""
    bits = np.zeros((2, 20000), dtype=bool)
    bits[1, 7] = True
    assert len(ActivationModes.from_bits([bits]).distinct()[0]) == 2


def test_modes_are_packed_and_unpacked_without_loss():
    rng = np.random.default_rng(0)
    bits = [rng.random((5, n)) < 0.5 for n in (1, 64, 257)]
    modes = ActivationModes.from_bits(bits)
    for group, expected in zip(modes.groups(), bits, strict=True):
        assert_array_equal(group, expected)
    assert random_modes(rng, 3, (5,)).n_paths == 5
