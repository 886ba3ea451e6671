"""Directions of an embedding: the fast terms equal their definitions, for any block and device."""

from __future__ import annotations

import pickle
from copy import deepcopy

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import config_context

from polycal.core.execution import Execution
from polycal.gate.directions import (
    NEAREST,
    Directions,
    class_distance,
    mean_cosine,
    shrinkage,
    unit_length,
)

ONE = Execution()


@pytest.fixture
def rows():
    """Rows of fit with copies, their classes, and queries that meet ties."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 8)) + 2.0
    X[20:35] = X[20]  # more copies than single precision proposes
    y = np.arange(300) % 3
    counts = np.eye(4)[y] * rng.uniform(0.5, 2.0, 300)[:, None]  # a class without rows
    queries = np.concatenate([rng.normal(size=(60, 8)), X[:40], -X[:20], 1e-3 * X[:20]])
    return X, counts, queries


def test_terms_equal_their_definitions(rows):
    X, counts, queries = rows
    found = Directions.of(X, counts, ONE)
    unit = unit_length(X)
    weight, y = counts.sum(axis=1), counts.argmax(axis=1)
    centers = np.stack([np.average(unit[y == k], axis=0, weights=weight[y == k]) for k in range(3)])
    away = unit - centers[y]
    covariance = (away * weight[:, None]).T @ away / weight.sum()
    rho = shrinkage(covariance, len(X))
    covariance = (1 - rho) * covariance + rho * np.trace(covariance) / 8 * np.eye(8)
    cosine, distance = found.terms(queries, ONE)
    stored = found.rows.astype(float)
    for x, c, d in zip(unit_length(queries), cosine, distance, strict=True):
        assert c == pytest.approx(mean_cosine(x, stored), abs=1e-12)
        assert d == pytest.approx(class_distance(x, centers, covariance), rel=1e-6)


def test_blocks_threads_and_devices_give_equal_terms(rows):
    pytest.importorskip("torch")
    X, counts, queries = rows
    directions = Directions.of(X, counts, ONE)
    expected = directions.terms(queries, ONE)
    alone = [directions.terms(query[None], ONE)[:, 0] for query in queries]
    assert_allclose(np.stack(alone, axis=1), expected, rtol=1e-12)
    with config_context(working_memory=1):
        assert_allclose(directions.terms(queries, Execution(n_jobs=3)), expected, rtol=1e-12)
    # The code for a GPU, on the CPU as torch's device.
    other = Directions.of(X, counts, Execution(device="cpu"))
    assert_allclose(other.terms(queries, Execution(device="cpu")), expected, rtol=1e-9)


def test_a_row_of_the_fit_is_not_its_own_neighbour(rows):
    pytest.importorskip("torch")
    X, counts, _ = rows
    directions = Directions.of(X, counts, ONE)
    own = np.where(np.arange(300) < 200, np.arange(300), -1)
    stored = directions.rows.astype(float)
    for execution in (ONE, Execution(device="cpu")):
        cosine = directions.terms(X, execution, own)[0]
        for i, x in enumerate(unit_length(X)):
            others = np.delete(stored, i, axis=0) if own[i] >= 0 else stored
            assert cosine[i] == pytest.approx(mean_cosine(x, others), abs=1e-12)


def test_few_rows_and_rows_without_any_variance():
    """Fewer rows than neighbours or features; a feature that never differs; rows of zeros."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5, 20))
    X[:, 3] = 0.0
    directions = Directions.of(X, np.eye(2)[[0, 1, 0, 1, 0]], ONE)
    queries = np.concatenate([X, -X, np.zeros((1, 20)), np.eye(20)[3:4]])
    cosine, distance = directions.terms(queries, ONE)
    assert np.isfinite([cosine, distance]).all()
    assert_allclose(cosine[0], (unit_length(X[:1]) @ unit_length(X).T).mean(), atol=1e-6)
    assert distance[-1] < distance[:5].min()
    same = Directions.of(np.ones((5, 3)), np.ones((5, 1)), ONE)
    assert np.isfinite(same.terms(rng.normal(size=(4, 3)), ONE)).all()
    assert NEAREST > 5


def test_shrinkage_fades_with_the_number_of_rows():
    """By hand for two equal directions, where the sphere is all there is; then as 1 / n."""
    assert shrinkage(np.eye(2), 50) == 1.0
    covariance = np.diag([4.0, 1.0, 1.0, 1.0])
    by_hand = (0.5 * 19 + 49) / ((100 + 0.5) * (19 - 49 / 4))
    assert shrinkage(covariance, 100) == pytest.approx(by_hand)
    assert shrinkage(covariance, 10**6) < 1e-4


def test_copies_hold_no_tensors(rows):
    pytest.importorskip("torch")
    X, counts, queries = rows
    directions = Directions.of(X, counts, ONE)
    before = directions.terms(queries, Execution(device="cpu"))
    for copy in (deepcopy(directions), pickle.loads(pickle.dumps(directions))):
        assert vars(copy).keys() == {"rows", "whiten", "means"}
        assert_array_equal(copy.terms(queries, Execution(device="cpu")), before)
