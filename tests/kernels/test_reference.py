"""The geodesic kernel: the reference against enumeration."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.frozen import FrozenEstimator

from polycal.core.reading import ActivationModes
from polycal.kernels import reference
from polycal.parents import find_adapter
from tests.toys.models import random_modes, small_forest, small_network


def test_equals_enumeration_of_activation_paths():
    """3-2-2 network: share of identical paths through inputs-free layers, by brute force."""
    rng = np.random.default_rng(0)
    sizes = (3, 2, 2)
    modes = random_modes(rng, 12, sizes)
    layers = list(modes.groups())
    K = reference.similarity(modes, modes)
    for i, j in itertools.product(range(12), repeat=2):
        same = [
            all(layer[i, node] == layer[j, node] for layer, node in zip(layers, path, strict=True))
            for path in itertools.product(*(range(size) for size in sizes))
        ]
        assert K[i, j] == pytest.approx(np.mean(same), abs=1e-15)


def test_network_of_3_2_2_units_reads_the_bits_of_each_layer(iris):
    X, y = iris
    net = small_network(hidden_layer_sizes=(3, 2)).fit(X[:100], y[:100])
    reading = find_adapter(FrozenEstimator(net)).read(X[:100])
    modes, proba = reading.modes, reading.proba
    assert modes.sizes == (3, 2, 2)
    assert_allclose(proba, net.predict_proba(X[:100]), atol=1e-12)
    hidden = np.maximum(X[:100] @ net.coefs_[0] + net.intercepts_[0], 0)
    first, second, output = modes.groups()
    assert_array_equal(first, hidden > 0)
    assert_array_equal(second, hidden @ net.coefs_[1] + net.intercepts_[1] > 0)
    assert_array_equal(output, proba > 0.5)


def test_forest_kernel_is_the_mean_of_leaf_equality(iris):
    X, y = iris
    forest = small_forest(n_estimators=7).fit(X, y)
    leaves = forest.apply(X)
    expected = (leaves[:, None, :] == leaves[None, :, :]).mean(axis=2)
    modes = find_adapter(FrozenEstimator(forest)).read(X).modes
    assert_allclose(reference.similarity(modes, modes), expected, atol=1e-15)


@st.composite
def three_modes(draw):
    if draw(st.booleans()):
        sizes = draw(st.lists(st.integers(1, 5), min_size=1, max_size=4))
        bits = [
            np.array(
                draw(
                    st.lists(
                        st.lists(st.booleans(), min_size=s, max_size=s), min_size=3, max_size=3
                    )
                )
            )
            for s in sizes
        ]
        return ActivationModes.from_bits(bits)
    width = draw(st.integers(1, 8))
    row = st.lists(st.integers(0, 3), min_size=width, max_size=width)
    return ActivationModes.from_leaves(np.array(draw(st.lists(row, min_size=3, max_size=3))))


@given(three_modes())
@settings(max_examples=200, deadline=None)
def test_kernel_properties(modes):
    """In [0, 1], symmetric, 1 iff equal modes, and 1 - K obeys the triangle inequality."""
    K = reference.similarity(modes, modes)
    assert ((K >= 0) & (K <= 1)).all()
    assert_array_equal(K, K.T)
    equal = (modes.codes[:, None] == modes.codes[None, :]).all(axis=2)
    assert_array_equal(K == 1, equal)
    d = 1 - K
    for i, j, k in itertools.permutations(range(3)):
        assert d[i, k] <= d[i, j] + d[j, k] + 1e-12
