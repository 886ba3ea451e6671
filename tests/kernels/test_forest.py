"""Leaves of many trees: shared leaves, labels, and the cheaper method."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import config_context

from polycal.core.density import Density
from polycal.core.execution import Execution
from polycal.core.reading import ActivationModes
from polycal.kernels import ForestIndex, Search, reference
from polycal.kernels.forest_loops import one_row_classes
from polycal.parents.base import NO_LEAF
from tests.toys.kernels import (
    EXECUTION,
    all_log_densities,
    gaussians_at,
    random_gaussians,
    random_leaves,
)


def test_modes_of_one_row_by_hand():
    counts = np.array([[0, 1, 0], [0, 0, 0], [1, 1, 0], [2, 0, 0], [0, 0, 1], [0, 0.5, 0]], float)
    assert_array_equal(one_row_classes(counts), [1, 3, -1, -1, 2, -1])


@pytest.mark.parametrize("n_leaves", [3, 60, 250])  # with 60, some neighbours share one leaf
@pytest.mark.parametrize("fill", [True, False])
def test_rows_that_share_one_leaf_are_counted_by_their_leaves(n_leaves, fill):
    rng = np.random.default_rng(n_leaves)
    stored, queries = random_leaves(rng, 400, 12, n_leaves), random_leaves(rng, 50, 12, n_leaves)
    queries.codes[0] = NO_LEAF
    queries.codes[1] = stored.codes[1]
    counts = np.eye(2)[rng.integers(0, 2, 400)] * (rng.random((400, 1)) < 0.9)
    index = ForestIndex(stored, "index")
    counted = len(index._prepare_counts(counts)[1]) > 0
    assert counted == (n_leaves * 2 <= 400)  # no more numbers than members of leaves
    gaussians, X = random_gaussians(rng, 300, 3), rng.normal(size=(50, 3))
    exponents = np.array([2.0, 32.0])
    search = Search(gaussians, 20, fill, counts, exponents)
    near = index.nearest(queries, X, search, EXECUTION)
    K, there = reference.similarity(queries, stored), counts.any(axis=1)
    sums = [reference.class_sums(K[1:, there], counts[there], e) for e in exponents]
    assert_allclose(near.class_sums[:, 1:], sums, rtol=1e-9)
    assert_array_equal(near.class_sums[:, 0], 0.0)
    similarity, order = reference.nearest(K[:, :300], all_log_densities(gaussians, X), 20)
    assert_allclose(near.similarity, similarity, atol=1e-12)
    assert_array_equal(near.index, np.where((similarity > 0) | fill, order, -1))


@pytest.mark.parametrize("method", ["index", "scan"])
@pytest.mark.parametrize("n_classes", [1, 3, 40])
def test_forest_sums_of_modes_with_no_one_and_several_rows(method, n_classes):
    rng = np.random.default_rng(n_classes)
    stored, queries = random_leaves(rng, 150, 12, 5), random_leaves(rng, 30, 12, 6)
    y = rng.integers(0, n_classes, 150)
    counts = np.eye(n_classes)[y] * (rng.random((150, 1)) < 0.7)
    counts[:20] += rng.integers(0, 2, (20, n_classes)) * rng.choice([1.0, 0.5], (20, 1))
    assert len(np.unique(np.minimum(counts.sum(axis=1), 2))) > 2
    gaussians, X = random_gaussians(rng, 90, 3), rng.normal(size=(30, 3))
    exponents, index = np.array([0.5, 8.0]), ForestIndex(stored, method)
    search = Search(gaussians, 10, counts=counts, exponents=exponents)
    near = index.nearest(queries, X, search, EXECUTION)
    K = reference.similarity(queries, stored)
    similarity, order = reference.nearest(K[:, :90], all_log_densities(gaussians, X), 10)
    assert_array_equal(near.index, order)
    assert_allclose(near.similarity, similarity, atol=1e-12)

    def sums_of(counts):
        there = counts.any(axis=1)  # the largest K is that of a mode with rows
        return [reference.class_sums(K[:, there], counts[there], e) for e in exponents]

    assert_allclose(near.class_sums, sums_of(counts), rtol=1e-9)
    less = np.where(rng.random((150, 1)) < 0.5, counts, 0.0)  # the same index, other labels
    sums = index.class_sums(queries, less, exponents, EXECUTION)
    assert_allclose(sums, sums_of(less), rtol=1e-9)


@pytest.mark.parametrize("method", ["index", "scan"])
@pytest.mark.parametrize("n_trees", [255, 256, 2**16 - 1, 2**16])
def test_forest_counts_as_many_shared_leaves_as_there_are_trees(method, n_trees):
    """Boosting has a tree for each round and class: hundreds of classes make so many."""
    leaves = np.zeros((3, n_trees), dtype=int)
    leaves[1] = 1
    leaves[2, 1:] = 2
    stored, counts = ActivationModes.from_leaves(leaves), np.eye(3)
    index = ForestIndex(stored, method)
    K = np.eye(3)
    K[0, 2] = K[2, 0] = 1 / n_trees
    assert_allclose(index.similarity(stored, EXECUTION), K, rtol=1e-15)
    search = Search(gaussians_at(np.zeros((3, 1)), np.ones((3, 1))), 3, False, counts, np.ones(1))
    near = index.nearest(stored, np.zeros((3, 1)), search, EXECUTION)
    assert_array_equal(near.index, [[0, 2, -1], [1, -1, -1], [2, 0, -1]])
    assert_allclose(near.class_sums[0], K, rtol=1e-9)


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


def test_reference_ignores_the_leaf_that_is_none():
    """An out-of-bag row agrees with nothing in the trees that saw it, in every back-end."""
    rng = np.random.default_rng(0)
    stored = ActivationModes.from_leaves(rng.integers(0, 4, (50, 12)))
    codes = rng.integers(0, 4, (20, 12))
    codes[rng.random(codes.shape) < 0.6] = NO_LEAF
    queries = ActivationModes.from_leaves(codes)
    K = reference.similarity(queries, stored)
    density = Density.from_parts(rng.normal(size=(50, 1)), np.ones((50, 1)), np.ones(50) / 50)
    for method in ("index", "scan"):
        index = ForestIndex(stored, method)
        assert_allclose(index.similarity(queries, EXECUTION), K)
        near = index.nearest(queries, np.zeros((20, 1)), Search(density, 3), EXECUTION)
        assert_allclose(near.similarity, np.sort(K, axis=1)[:, ::-1][:, :3])


def columns(modes, trees):
    return ActivationModes.from_leaves(modes.codes[:, trees])


def nearest_by_part(stored, queries, X, search, method):
    """The plain way: an index and a search for each part of the trees."""
    n = search.n_parts
    parts = [slice(first, None, n) for first in range(n)]
    alone = replace(search, counts=None, exponents=np.empty(0), n_parts=1)
    return [
        ForestIndex(columns(stored, p), method).nearest(columns(queries, p), X, alone, EXECUTION)
        for p in parts
    ]


def assert_parts_equal(stored, queries, X, search, method, execution=EXECUTION):
    index = ForestIndex(stored, method)
    found = index.nearest(queries, X, search, execution)
    whole = index.nearest(queries, X, replace(search, n_parts=1), EXECUTION)
    assert whole.parts == ()
    expected = [whole, *nearest_by_part(stored, queries, X, search, method)]
    for a, b in zip([found, *found.parts], expected, strict=True):
        assert_array_equal(a.similarity, b.similarity)
        assert_array_equal(a.index, b.index)
    if search.counts is None:
        assert found.class_sums is None
    else:
        assert_array_equal(found.class_sums, whole.class_sums)
    return found


@pytest.mark.parametrize("method", ["index", "scan"])
@pytest.mark.parametrize("n_parts", [2, 3, 5])
@pytest.mark.parametrize("fill", [True, False])
@pytest.mark.parametrize("n_leaves", [2, 6, 60])
def test_nearest_by_parts_of_the_trees_equal_an_index_for_each(method, n_parts, fill, n_leaves):
    """Few leaves tie; with many, some rows share no leaf in a part, or in any."""
    rng = np.random.default_rng(n_leaves)
    stored, queries = random_leaves(rng, 150, 17, n_leaves), random_leaves(rng, 40, 17, n_leaves)
    queries = replace(queries, codes=queries.codes.astype(np.int32))
    queries.codes[:3] = NO_LEAF
    queries.codes[3:6, ::n_parts] = NO_LEAF
    mean, X = rng.integers(0, 2, (120, 2)).astype(float), rng.integers(0, 2, (40, 2)).astype(float)
    gaussians = gaussians_at(mean, np.ones(mean.shape))  # equal densities: the index decides
    for k in (1, 10, 130):  # 130 is more than there are
        plain = Search(gaussians, k, fill, n_parts=n_parts)
        found = assert_parts_equal(stored, queries, X, plain, method)
        labels = replace(plain, counts=np.eye(3)[rng.integers(0, 3, 150)], exponents=np.ones(1))
        assert_parts_equal(stored, queries, X, labels, method)
        for part, first in zip(found.parts, range(n_parts), strict=True):
            trees = slice(first, None, n_parts)
            K = reference.similarity(columns(queries, trees), columns(stored, trees))[:, :120]
            similarity, order = reference.nearest(K, all_log_densities(gaussians, X), k)
            assert_allclose(part.similarity[:, :120], similarity, atol=1e-12)
            assert_array_equal(part.index[:, :120], np.where((similarity > 0) | fill, order, -1))
            assert (part.index[:, 120:] == -1).all()


@pytest.mark.parametrize("method", ["index", "scan"])
@pytest.mark.parametrize(("n_trees", "n_parts"), [(2, 2), (5, 5), (100, 3), (700, 3), (300, 50)])
def test_parts_of_few_and_of_many_trees(method, n_trees, n_parts):
    """The numbers of shared leaves need words of 8 to 64 bits, or more than one word."""
    rng = np.random.default_rng(n_trees)
    stored, queries = random_leaves(rng, 60, n_trees, 4), random_leaves(rng, 9, n_trees, 4)
    queries.codes[0] = stored.codes[7]  # equal in every tree
    gaussians, X = random_gaussians(rng, 60, 3), rng.normal(size=(9, 3))
    counts = np.eye(2)[rng.integers(0, 2, 60)]
    search = Search(gaussians, 10, False, counts, np.array([0.5, 8.0]), n_parts)
    found = assert_parts_equal(stored, queries, X, search, method)
    assert [part.similarity[0, 0] for part in found.parts] == [1.0] * n_parts
    one = slice(4, 5)
    assert_parts_equal(stored, queries[one], X[one], search, method)


def test_parts_do_not_depend_on_blocks_and_threads():
    rng = np.random.default_rng(8)
    stored, queries = random_leaves(rng, 300, 30), random_leaves(rng, 400, 30)
    gaussians, X = random_gaussians(rng, 300, 2), rng.normal(size=(400, 2))
    search = Search(gaussians, 10, counts=np.ones((300, 2)), exponents=np.ones(1), n_parts=3)
    for method in ("index", "scan"):
        with config_context(working_memory=0.05):
            found = assert_parts_equal(stored, queries, X, search, method, Execution(n_jobs=3))
        some = found.take(np.array([7, 3]))
        assert_array_equal(some.class_sums, found.class_sums[:, [7, 3]])
        assert_array_equal(some.parts[2].index, found.parts[2].index[[7, 3]])
