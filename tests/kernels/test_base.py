"""Every index against the reference."""

from __future__ import annotations

import pickle
import weakref

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import config_context

from polycal.core.execution import Execution
from polycal.core.reading import ActivationModes
from polycal.kernels import Search, build_index, reference
from tests.toys.kernels import (
    BITS,
    EXECUTION,
    INDEXES,
    all_log_densities,
    gaussians_at,
    modes_for,
    random_gaussians,
    random_leaves,
)


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
    assert_array_equal(both.class_sums, sums)
    expected = [reference.class_sums(K, counts, e) for e in exponents]
    assert_allclose(sums, expected, rtol=1e-9)


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


@pytest.mark.parametrize("kind", INDEXES)
def test_an_index_keeps_the_counts_of_one_pass_only(kind):
    rng = np.random.default_rng(4)
    stored, queries = modes_for(kind, rng, 60), modes_for(kind, rng, 20)
    index, exponents = INDEXES[kind](stored), np.array([2.0])
    K = reference.similarity(queries, stored)
    for counts in (rng.uniform(0.5, 3, (60, 4)), np.eye(4)[rng.integers(0, 4, 60)]):
        with config_context(working_memory=0.01):  # several blocks
            sums = index.class_sums(queries, counts, exponents, EXECUTION)
        assert_allclose(sums[0], reference.class_sums(K, counts, 2.0), rtol=1e-9)
        again = pickle.loads(pickle.dumps(index))
        assert_array_equal(again.class_sums(queries, counts, exponents, EXECUTION), sums)


@pytest.mark.parametrize("kind", INDEXES)
def test_an_index_does_not_hold_the_counts_themselves(kind):
    """After a fit they are a copy as large as the labels of all modes."""
    rng = np.random.default_rng(5)
    index, counts = INDEXES[kind](modes_for(kind, rng, 60)), np.eye(4)[rng.integers(0, 4, 60)]
    left, expected = weakref.ref(counts), counts.sum(axis=0)
    flat = np.array([1e-300])  # K^0: every mode that shares something counts alike
    own = index.modes[:1]
    sums = index.class_sums(own, counts, flat, EXECUTION)
    K = reference.similarity(own, index.modes)
    assert_allclose(sums[0, 0], (K > 0)[0] @ counts)
    if kind == "torch":
        return  # on a CPU its tensor is the array itself
    del counts
    assert left() is None
    again = np.tile(expected, (60, 1))  # other counts, maybe at the same address
    sums = index.class_sums(own, again, flat, EXECUTION)
    assert_allclose(sums[0, 0], (K > 0).sum() * expected)


@pytest.mark.parametrize("fill", [True, False])
@pytest.mark.parametrize("kind", INDEXES)
def test_every_search_returns_the_similarity_at_its_index(kind, fill):
    rng = np.random.default_rng(12)
    stored, queries = modes_for(kind, rng, 60), modes_for(kind, rng, 25)
    gaussians, X = random_gaussians(rng, 60, 3), rng.normal(size=(25, 3))
    near = INDEXES[kind](stored).nearest(queries, X, Search(gaussians, 60, fill), EXECUTION)
    K = reference.similarity(queries, stored)
    there = near.index >= 0
    at = np.take_along_axis(K, np.maximum(near.index, 0), axis=1)
    assert_allclose(near.similarity, np.where(there, at, 0.0), rtol=1e-15)
    assert there.all() if fill else (near.similarity[there] > 0).all()
