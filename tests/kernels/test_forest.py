"""Leaves of many trees: shared leaves, labels, and the cheaper method."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from polycal.core.density import Density
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
