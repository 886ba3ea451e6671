"""The geodesic kernel: the reference against enumeration, every fast path against it."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import config_context

from polycal.core.reading import ActivationModes
from polycal.kernels import (
    Execution,
    ForestIndex,
    NetworkIndex,
    Search,
    TorchIndex,
    build_index,
    euclidean_nearest,
    pair_similarity,
    reference,
)
from polycal.parents import find_adapter
from tests.toys.kernels import (
    BITS,
    EXECUTION,
    INDEXES,
    PARTS,
    all_log_densities,
    gaussians_at,
    modes_for,
    random_gaussians,
    random_leaves,
)
from tests.toys.models import random_modes, small_forest, small_network

# ------------------------------------------------------------ the reference


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
    reading = find_adapter(net)(net).read(X[:100])
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
    modes = find_adapter(forest)(forest).read(X).modes
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


# ----------------------------------------------------------- the fast paths


@pytest.mark.parametrize("kind", INDEXES)
@pytest.mark.parametrize(("memory", "n_jobs"), [(1024, 1), (0.02, 1), (1024, 2), (0.02, 3)])
def test_fast_paths_equal_the_reference(kind, memory, n_jobs):
    rng = np.random.default_rng(1)
    stored, queries = modes_for(kind, rng, 150), modes_for(kind, rng, 70)
    gaussians, X = random_gaussians(rng, 150, 3), rng.normal(size=(70, 3))
    K = reference.similarity(queries, stored)
    log_density = all_log_densities(gaussians, X)
    index, execution = INDEXES[kind](stored), Execution(n_jobs=n_jobs)
    counts = rng.uniform(0.5, 3, (150, 4))
    values = rng.normal(size=(150, 130))
    exponents = np.array([0.3, 2.0, 40.0])
    with config_context(working_memory=memory):
        assert_allclose(index.similarity(queries, execution), K, atol=1e-12)
        for k in (1, 10, 150):
            near = index.nearest(queries, X, Search(gaussians, k), execution)
            expected, order = reference.nearest(K, log_density, k)
            assert_array_equal(near.index, order)
            assert_allclose(near.similarity, expected, atol=1e-12)
        assert_allclose(index.matmul(queries, values, execution), K @ values, atol=1e-10)
        sums = index.class_sums(queries, counts, exponents, execution)
        # The first 90 modes are polytopes, the rest only carry labels; both in one look.
        first = gaussians_at(gaussians.mean[:90], 1 / gaussians.precision[:90])
        search = Search(first, 10, counts=counts, exponents=exponents)
        both = index.nearest(queries, X, search, execution)
    similarity, order = reference.nearest(K[:, :90], log_density[:, :90], 10)
    assert_array_equal(both.index, order)
    assert_allclose(both.similarity, similarity, atol=1e-12)
    assert_array_equal(both.sums, sums)
    expected = [reference.class_sums(K, counts, e) for e in exponents]
    assert_allclose(sums, expected, rtol=1e-9)


@pytest.mark.parametrize("kind", BITS)
def test_labels_by_the_hidden_layers_and_neighbours_by_all_in_one_look(kind):
    rng = np.random.default_rng(3)
    layers = [rng.random((120, size)) < 0.5 for size in (7, 300, 3)]
    stored, queries = (ActivationModes.from_bits([b[rows] for b in layers]) for rows in PARTS)
    hidden, asked = (ActivationModes.from_bits([b[rows] for b in layers[:2]]) for rows in PARTS)
    gaussians, X = random_gaussians(rng, 80, 3), rng.normal(size=(40, 3))
    counts, exponents = rng.uniform(0.5, 3, (80, 4)), np.array([2.0, 4.0, 40.0])
    device = {"device": "cpu"} if kind == "torch" else {}
    index = build_index(stored, **device, hidden_labels=True)
    search = Search(gaussians, 10, counts=counts, exponents=exponents)
    near = index.nearest(queries, X, search, EXECUTION)
    K = reference.similarity(queries, stored)
    similarity, order = reference.nearest(K, all_log_densities(gaussians, X), 10)
    assert_array_equal(near.index, order)
    assert_allclose(near.similarity, similarity, atol=1e-12)
    expected = [
        reference.class_sums(reference.similarity(asked, hidden), counts, e) for e in exponents
    ]
    assert_allclose(near.sums, expected, rtol=1e-9)
    assert_array_equal(near.sums, index.class_sums(queries, counts, exponents, EXECUTION))
    alone = index.nearest(queries, X, Search(gaussians, 10), EXECUTION)
    assert_array_equal(alone.index, near.index)
    assert_array_equal(alone.similarity, near.similarity)
    assert_array_equal(
        index.similarity(queries, EXECUTION), INDEXES[kind](stored).similarity(queries, EXECUTION)
    )


@pytest.mark.parametrize("kind", BITS)
def test_a_network_of_three_hundred_layers(kind):
    """300^300 paths are no number any more; their share is."""
    rng = np.random.default_rng(10)
    first = [rng.random((6, 300)) < 0.5 for _ in range(300)]
    second = [bits ^ (rng.random((6, 300)) < 0.02) for bits in first]
    stored, queries = ActivationModes.from_bits(first), ActivationModes.from_bits(second)
    ratio = [(q[:, None] == s[None]).mean(axis=2) for q, s in zip(second, first, strict=True)]
    expected = np.exp(np.log(ratio).sum(axis=0))
    assert (expected.diagonal() > 1e-4).all()
    index = INDEXES[kind](stored)
    assert_allclose(index.similarity(queries, EXECUTION), expected, rtol=1e-10)
    apart = build_index(stored, "cpu" if kind == "torch" else None, hidden_labels=True)
    gaussians, X = random_gaussians(rng, 6, 2), rng.normal(size=(6, 2))
    search = Search(gaussians, 1, counts=np.eye(6), exponents=np.array([1.0]))
    near = apart.nearest(queries, X, search, EXECUTION)
    assert_allclose(near.similarity[:, 0], expected.diagonal(), rtol=1e-10)
    hidden = np.exp(np.log(ratio[:-1]).sum(axis=0))
    assert_allclose(near.sums[0], hidden / hidden.max(axis=1, keepdims=True), rtol=1e-9)
    pairs = pair_similarity(queries, stored, np.arange(6)[:, None], EXECUTION)
    assert_allclose(pairs[:, 0], expected.diagonal(), rtol=1e-10)


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


@pytest.mark.parametrize("kind", INDEXES)
def test_queries_without_any_agreement(kind):
    """fill=True ranks modes with K = 0 by density; fill=False leaves the place empty."""
    if kind in BITS:
        stored = ActivationModes.from_bits([np.zeros((4, 3), bool)])
        query = ActivationModes.from_bits([np.ones((1, 3), bool)])
    else:
        stored = ActivationModes.from_leaves(np.arange(12).reshape(4, 3))
        query = ActivationModes.from_leaves(np.array([[99, 99, 99]]))
    gaussians = gaussians_at(np.array([[5.0], [1.0], [0.5], [7.0]]), np.ones((4, 1)))
    index, X = INDEXES[kind](stored), np.array([[0.0]])
    full = index.nearest(query, X, Search(gaussians, 2), EXECUTION)
    assert_array_equal(full.index, [[2, 1]])
    empty = index.nearest(query, X, Search(gaussians, 2, fill=False), EXECUTION)
    assert_array_equal(empty.index, [[-1, -1]])
    assert_array_equal(empty.similarity, [[0.0, 0.0]])
    sums = index.class_sums(query, np.ones((4, 2)), np.array([1.0]), EXECUTION)
    assert_array_equal(sums, np.zeros((1, 1, 2)))


@pytest.mark.parametrize("kind", INDEXES)
def test_modes_without_counts_do_not_set_the_maximum(kind):
    """Rows of a fold are taken out of the counts; their modes stay in the index."""
    rng = np.random.default_rng(4)
    stored = modes_for(kind, rng, 30)
    counts = rng.uniform(0.1, 1, (30, 3))
    counts[:10] = 0.0
    sums = INDEXES[kind](stored).class_sums(stored[:10], counts, np.array([60.0]), EXECUTION)
    K = reference.similarity(stored[:10], stored[10:])
    assert_allclose(sums[0], reference.class_sums(K, counts[10:], 60.0), rtol=1e-8)


def test_large_exponents_do_not_underflow():
    """K = 1/20 to the power 1000 is 0 in floating point; relative to the maximum it is not."""
    rng = np.random.default_rng(5)
    stored, queries = random_leaves(rng, 50, 20, 400), random_leaves(rng, 50, 20, 400)
    sums = build_index(stored).class_sums(queries, np.ones((50, 1)), np.array([1e3]), EXECUTION)
    shared = reference.similarity(queries, stored).max(axis=1) > 0
    assert shared.any()
    assert (sums[0, shared] >= 1).all()


def test_the_cheaper_forest_method_is_chosen():
    rng = np.random.default_rng(6)
    assert ForestIndex(random_leaves(rng, 500, n_leaves=2)).method == "scan"
    assert ForestIndex(random_leaves(rng, 500, n_leaves=300)).method == "index"


def test_leaf_ids_beyond_16_bits():
    rng = np.random.default_rng(7)
    leaves = rng.integers(65530, 65540, (40, 5))
    modes = ActivationModes.from_leaves(leaves)
    K = ForestIndex(modes, method="scan").similarity(modes, EXECUTION)
    assert_allclose(K, reference.similarity(modes, modes), atol=1e-12)


@pytest.mark.parametrize("kind", INDEXES)
def test_euclidean_nearest_and_pair_similarity(kind):
    rng = np.random.default_rng(8)
    stored, queries = modes_for(kind, rng, 60), modes_for(kind, rng, 25)
    gaussians, X = random_gaussians(rng, 60, 3), rng.normal(size=(25, 3))
    distance, index = euclidean_nearest(X, gaussians, 4, EXECUTION)
    full = np.linalg.norm(X[:, None] - gaussians.mean[None], axis=2)
    order = np.argsort(full, axis=1)[:, :4]
    assert_array_equal(index, order)
    assert_allclose(distance, np.take_along_axis(full, order, axis=1))
    K = reference.similarity(queries, stored)
    pairs = pair_similarity(queries, stored, index, EXECUTION)
    assert_allclose(pairs, np.take_along_axis(K, index, axis=1), atol=1e-12)


def test_gpu_index_is_equal_to_the_last_bit_and_travels_without_its_device():
    rng = np.random.default_rng(9)
    stored, queries = random_modes(rng, 90, (300, 64, 3)), random_modes(rng, 40, (300, 64, 3))
    expected = NetworkIndex(stored).similarity(queries, EXECUTION)
    assert_array_equal(TorchIndex(stored, "cpu").similarity(queries, EXECUTION), expected)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("torch.cuda.is_available", lambda: False)
        away, apart = (
            pickle.loads(pickle.dumps(build_index(stored, "cuda", hidden_labels=hidden)))
            for hidden in (False, True)
        )
        assert isinstance(away, TorchIndex)
        assert_array_equal(away.similarity(queries, EXECUTION), expected)
        gaussians, X = random_gaussians(rng, 90, 3), rng.normal(size=(40, 3))
        counts = rng.uniform(0.5, 3, (90, 4))
        search = Search(gaussians, 5, counts=counts, exponents=np.array([2.0]))
        for here, there in ((away, NetworkIndex(stored)), (apart, NetworkIndex(stored, True))):
            near, usual = (i.nearest(queries, X, search, EXECUTION) for i in (here, there))
            assert_array_equal(near.index, usual.index)
            assert_array_equal(near.sums, usual.sums)
