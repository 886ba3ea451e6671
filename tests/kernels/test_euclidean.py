"""Neighbours by Euclidean distance."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from polycal import GeodesicCalibrator
from polycal.kernels import EuclideanIndex, Search, pair_similarity, reference
from tests.toys.kernels import (
    EXECUTION,
    INDEXES,
    gaussians_at,
    modes_for,
    random_gaussians,
    random_leaves,
)
from tests.toys.models import small_forest, small_network


@pytest.mark.parametrize("kind", INDEXES)
def test_euclidean_nearest_and_pair_similarity(kind):
    rng = np.random.default_rng(8)
    stored, queries = modes_for(kind, rng, 60), modes_for(kind, rng, 25)
    gaussians, X = random_gaussians(rng, 60, 3), rng.normal(size=(25, 3))
    found = EuclideanIndex(stored).nearest(queries, X, Search(gaussians, 4), EXECUTION)
    index = found.index
    full = np.linalg.norm(X[:, None] - gaussians.mean[None], axis=2)
    order = np.argsort(full, axis=1)[:, :4]
    assert_array_equal(index, order)
    away = np.linalg.norm(X[:, None] - gaussians.mean[index], axis=2)
    assert_allclose(away, np.sort(full, axis=1)[:, :4])
    K = reference.similarity(queries, stored)
    pairs = pair_similarity(queries, stored, index, EXECUTION)
    assert_allclose(pairs, np.take_along_axis(K, index, axis=1), atol=1e-12)
    assert_array_equal(found.similarity, pairs)


@pytest.mark.parametrize("kind", INDEXES)
@pytest.mark.parametrize("fill", [True, False])
def test_similarities_are_those_of_the_reference(kind, fill):
    """K itself, also where it is 0: a Euclidean neighbour counts whatever its K is."""
    rng = np.random.default_rng(11)
    stored, queries = modes_for(kind, rng, 60), modes_for(kind, rng, 25)
    gaussians, X = random_gaussians(rng, 60, 3), rng.normal(size=(25, 3))
    search = Search(gaussians, 60, fill)
    found = EuclideanIndex(stored).nearest(queries, X, search, EXECUTION)
    K = reference.similarity(queries, stored)
    assert_allclose(found.similarity, np.take_along_axis(K, found.index, axis=1), rtol=1e-15)
    assert_array_equal(np.sort(found.index, axis=1), np.tile(np.arange(60), (25, 1)))
    assert found.class_sums is None


def test_equal_distances_go_to_the_higher_density_then_to_the_lowest_index():
    rng = np.random.default_rng(12)
    stored, X = random_leaves(rng, 4), np.zeros((1, 1))
    gaussians = gaussians_at(
        np.array([[1.0], [-1.0], [1.0], [-1.0]]), np.array([[1.0], [1.0], [9.0], [1.0]])
    )
    search = Search(gaussians, 4)
    found = EuclideanIndex(stored).nearest(random_leaves(rng, 1), X, search, EXECUTION)
    assert_array_equal(found.index, [[0, 1, 3, 2]])


@pytest.mark.parametrize("parent", [small_forest, small_network], ids=["forest", "network"])
def test_similarities_of_a_model(parent, blobs):
    X, y = blobs
    model = GeodesicCalibrator(parent(), distance="euclidean", random_state=0).fit(X[:400], y[:400])
    answer = model.answer(X[400:])
    K = reference.similarity(answer.reading.modes, model.polytopes_.modes)
    near = answer.neighbours
    assert_allclose(near.similarity, np.take_along_axis(K, near.index, axis=1), rtol=1e-15)
    assert_allclose(near.similarity[:, :1], model.explain(X[400:]).similarity[:, None])
    similarity, index = model.nearest(X[400:], k=3)
    assert_array_equal(index, near.index[:, :3])
    assert_array_equal(similarity, near.similarity[:, :3])
