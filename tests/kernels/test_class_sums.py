"""Labels in a look: sums by class, what an index keeps of the counts, and blocks."""

from __future__ import annotations

import pickle
import subprocess
import sys
import threading
import weakref

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import config_context

from polycal._utils.blocks import map_blocks
from polycal.core.reading import ActivationModes
from polycal.kernels import ForestIndex, NetworkIndex, Search, reference
from polycal.kernels.forest_loops import one_row_classes
from tests.toys.kernels import (
    EXECUTION,
    INDEXES,
    all_log_densities,
    gaussians_at,
    modes_for,
    random_gaussians,
    random_leaves,
)
from tests.toys.models import random_modes


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

    assert_allclose(near.sums, sums_of(counts), rtol=1e-9)
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
    assert_allclose(near.sums[0], K, rtol=1e-9)


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


@pytest.mark.parametrize(("n_classes", "per_mode"), [(1, 1), (2, 1), (2, 2), (40, 1), (40, 30)])
def test_network_sums_of_modes_with_one_and_many_classes(n_classes, per_mode):
    rng = np.random.default_rng(per_mode)
    stored, queries = random_modes(rng, 150, (9, 3)), random_modes(rng, 30, (9, 3))
    counts = np.zeros((150, n_classes))
    for row in counts[10:]:  # ten modes have no labels
        row[rng.permutation(n_classes)[:per_mode]] = rng.choice([0.5, 1.0, 3.0])
    exponents = np.array([0.5, 1.0, 2.0, 5.0, 3.0, 6.0])  # three runs of doubled ones
    index = NetworkIndex(stored)
    product = index._prepare(counts)[2] is None
    assert product == (n_classes == 1 or per_mode > 1)
    K = reference.similarity(queries, stored)[:, 10:]
    expected = [reference.class_sums(K, counts[10:], e) for e in exponents]
    sums = index.class_sums(queries, counts, exponents, EXECUTION)
    assert_allclose(sums, expected, rtol=1e-9)
    gaussians, X = random_gaussians(rng, 150, 3), rng.normal(size=(30, 3))
    search = Search(gaussians, 5, counts=counts, exponents=exponents)
    assert_allclose(index.nearest(queries, X, search, EXECUTION).sums, expected, rtol=1e-9)


def test_small_blocks_have_a_few_rows_and_stay_within_memory():
    """Rows of a block, by hand: budget over the bytes of a row, but 8 where memory allows."""

    def sizes(bytes_per_row, **kwargs):
        return map_blocks(lambda rows: rows.stop - rows.start, 20, bytes_per_row, **kwargs)

    assert sizes(100.0, block_bytes=1000.0) == [10, 10]
    assert sizes(500.0, block_bytes=1000.0) == [8, 8, 4]
    with config_context(working_memory=0.002):  # 2097 bytes
        assert sizes(500.0, block_bytes=1000.0) == [4] * 5
        assert sizes(5000.0, block_bytes=1000.0) == [1] * 20


def test_blocks_in_threads_run_together_come_in_order_and_raise():
    together = threading.Barrier(2, timeout=60)

    def first_row(rows):
        together.wait()  # breaks unless two blocks are in flight
        return rows.start

    assert map_blocks(first_row, 200, 1.0, n_jobs=2) == [0, 100]

    def fail(rows):
        if rows.start:
            raise ValueError("the second block")

    with pytest.raises(ValueError, match="the second block"):
        map_blocks(fail, 200, 1.0, n_jobs=2)


def test_blocks_are_done_when_the_interpreter_is_about_to_end():
    """A thread outlives the main one, when a pool of threads takes no more work."""
    script = """
import threading
from polycal._utils.blocks import map_blocks

def late():
    threading.main_thread().join()
    print(map_blocks(lambda rows: rows.start, 200, 1.0, n_jobs=2))

threading.Thread(target=late).start()
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout == "[0, 100]\n", done.stderr
