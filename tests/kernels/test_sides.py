"""Sums of powers of the share of equal bits, by class."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import config_context

from polycal.core.execution import Execution
from polycal.core.reading import ActivationModes
from polycal.kernels import LabelledSides, reference

SQUARES = np.array([0, 3, 5, 7])


def draw(n, n_planes, n_classes, seed=0):
    """Bits of correlated rows, ordered by class, with weights of which some are 0."""
    rng = np.random.default_rng(seed)
    y = np.sort(rng.integers(0, n_classes, n))
    directions = rng.normal(size=(3, n_planes))
    modes = ActivationModes.from_bits([rng.normal(size=(n, 3)) @ directions > 0])
    asked = ActivationModes.from_bits([rng.normal(size=(70, 3)) @ directions > 0])
    weight = rng.uniform(0.5, 2, n) * (rng.random(n) < 0.8)
    return modes, y, weight, asked


def by_hand(asked, modes, y, weight, n_classes):
    voting = np.flatnonzero(weight)
    counts = np.eye(n_classes)[y[voting]] * weight[voting, None]
    K = reference.similarity(asked, modes[voting])
    return np.stack([reference.class_sums(K, counts, 2.0**n) for n in SQUARES])


@pytest.mark.parametrize(("n", "n_planes"), [(1, 5), (127, 64), (128, 300), (129, 1024), (1000, 9)])
@pytest.mark.parametrize("n_classes", [2, 7])
def test_sums_equal_the_reference(n, n_planes, n_classes):
    modes, y, weight, asked = draw(n, n_planes, n_classes)
    sides = LabelledSides(modes, np.searchsorted(y, np.arange(n_classes + 1)))
    found = sides.class_sums(asked, weight, SQUARES, Execution())
    assert_allclose(found, by_hand(asked, modes, y, weight, n_classes), rtol=1e-11, atol=1e-300)


def test_blocks_and_threads_do_not_matter():
    modes, y, weight, asked = draw(700, 200, 3)
    sides = LabelledSides(modes, np.searchsorted(y, np.arange(4)))
    whole = sides.class_sums(asked, weight, SQUARES, Execution())
    with config_context(working_memory=1e-3):
        assert_array_equal(sides.class_sums(asked, weight, SQUARES, Execution(2)), whole)
    alone = [sides.class_sums(asked[i : i + 1], weight, SQUARES, Execution()) for i in range(70)]
    assert_array_equal(np.concatenate(alone, axis=1), whole)


def test_powers_of_rows_that_have_little_in_common_do_not_vanish():
    """One equal bit in a thousand, to the power of 128, is smaller than any number."""
    bits = np.zeros((2, 1000), dtype=bool)
    bits[:, 0], bits[1, 1] = True, True
    modes = ActivationModes.from_bits([bits])
    query = np.ones((1, 1000), dtype=bool)
    asked = ActivationModes.from_bits([query])
    sides = LabelledSides(modes, np.array([0, 1, 2]))
    found = sides.class_sums(asked, np.ones(2), np.array([7]), Execution())
    assert_allclose(found[0, 0], [0.5**128, 1.0], rtol=1e-12)


def test_without_votes_the_sums_are_zero():
    modes, y, _, asked = draw(50, 40, 3)
    sides = LabelledSides(modes, np.searchsorted(y, np.arange(4)))
    assert_array_equal(sides.class_sums(asked, np.zeros(50), SQUARES, Execution()), 0.0)
    opposite = ActivationModes.from_bits([np.ones((1, 40), dtype=bool)])
    nothing = LabelledSides(ActivationModes.from_bits([np.zeros((1, 40))]), np.array([0, 1]))
    assert_array_equal(nothing.class_sums(opposite, np.ones(1), SQUARES, Execution()), 0.0)
