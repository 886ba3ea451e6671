"""Layers of bits, here and by the code of the GPU."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import config_context

from polycal.core.execution import Execution
from polycal.core.reading import ActivationModes
from polycal.kernels import NetworkIndex, Search, build_index, pair_similarity, reference
from tests.toys.kernels import BITS, EXECUTION, INDEXES, PARTS, all_log_densities, random_gaussians
from tests.toys.models import random_modes


@pytest.mark.parametrize(("n_classes", "per_mode"), [(1, 1), (2, 1), (2, 2), (40, 1), (40, 30)])
def test_network_sums_of_modes_with_one_and_many_classes(n_classes, per_mode):
    rng = np.random.default_rng(per_mode)
    stored, queries = random_modes(rng, 150, (9, 3)), random_modes(rng, 30, (9, 3))
    counts = np.zeros((150, n_classes))
    for row in counts[10:]:  # ten modes have no labels
        row[rng.permutation(n_classes)[:per_mode]] = rng.choice([0.5, 1.0, 3.0])
    exponents = np.array([0.5, 1.0, 2.0, 5.0, 3.0, 6.0])  # three runs of doubled ones
    index = NetworkIndex(stored)
    product = index._prepare_counts(counts).starts is None
    assert product == (n_classes == 1 or per_mode > 1)
    K = reference.similarity(queries, stored)[:, 10:]
    expected = [reference.class_sums(K, counts[10:], e) for e in exponents]
    sums = index.class_sums(queries, counts, exponents, EXECUTION)
    assert_allclose(sums, expected, rtol=1e-9)
    gaussians, X = random_gaussians(rng, 150, 3), rng.normal(size=(30, 3))
    search = Search(gaussians, 5, counts=counts, exponents=exponents)
    assert_allclose(index.nearest(queries, X, search, EXECUTION).class_sums, expected, rtol=1e-9)


def one_class_each(rng, n, n_classes, classes=None):
    """A random weight of each mode for one class; ten modes have no label."""
    counts = np.zeros((n, n_classes))
    of_mode = rng.choice(np.arange(n_classes) if classes is None else classes, n)
    counts[np.arange(n), of_mode] = rng.uniform(0.1, 3, n)
    counts[:10] = 0.0
    return counts


@pytest.mark.parametrize(
    ("size", "n_classes", "classes", "exponents"),
    [
        (300, 2, None, [8.0, 32.0, 128.0]),
        (300, 12, None, [0.3, 1.0, 7.7]),
        (1, 3, None, [1.0, 2.0]),  # some queries have no bit in common with any mode
        (64, 5, [1, 3], [8.0, 32.0]),  # three classes have no rows
        (300, 2, None, [8.0, 1e5]),  # powers underflow
        (300, 2, None, [1e9]),
    ],
)
def test_sums_of_one_layer_equal_the_reference(size, n_classes, classes, exponents):
    rng = np.random.default_rng(size)
    stored, queries = random_modes(rng, 150, (size,)), random_modes(rng, 30, (size,))
    if size == 1:
        stored, queries = (ActivationModes.from_bits([b]) for b in (np.ones((150, 1)), np.eye(1)))
        queries = queries.append(ActivationModes.from_bits([np.zeros((1, 1))]))
    counts, powers = one_class_each(rng, 150, n_classes, classes), np.array(exponents)
    K = reference.similarity(queries, stored)[:, 10:]
    expected = [reference.class_sums(K, counts[10:], e) for e in powers]
    index = NetworkIndex(stored)
    sums = index.class_sums(queries, counts, powers, EXECUTION)
    assert_allclose(sums, expected, rtol=1e-9)
    for y in range(n_classes):
        assert (sums[:, :, y] > 0).any() == (counts[:, y] > 0).any()
    gaussians, X = random_gaussians(rng, 150, 3), rng.normal(size=(len(queries), 3))
    near = index.nearest(queries, X, Search(gaussians, 5, True, counts, powers), EXECUTION)
    assert_array_equal(near.class_sums, sums)
    alone = index.nearest(queries, X, Search(gaussians, 5, True), EXECUTION)
    assert_array_equal(near.similarity, alone.similarity)
    assert_array_equal(near.index, alone.index)


def test_sums_by_the_hidden_layer_of_two():
    rng = np.random.default_rng(0)
    stored, queries = random_modes(rng, 150, (70, 3)), random_modes(rng, 30, (70, 3))
    counts, powers = one_class_each(rng, 150, 3), np.array([2.0, 8.0, 32.0])
    hidden = [ActivationModes.from_bits([next(modes.groups())]) for modes in (queries, stored)]
    K = reference.similarity(*hidden)[:, 10:]
    expected = [reference.class_sums(K, counts[10:], e) for e in powers]
    sums = NetworkIndex(stored, hidden_labels=True).class_sums(queries, counts, powers, EXECUTION)
    assert_allclose(sums, expected, rtol=1e-9)


@pytest.mark.parametrize("n_classes", [2, 6])
def test_sums_of_one_layer_whose_modes_have_many_classes(n_classes):
    rng = np.random.default_rng(n_classes)
    stored, queries = random_modes(rng, 80, (200,)), random_modes(rng, 30, (200,))
    counts, powers = rng.uniform(0.1, 2, (80, n_classes)), np.array([8.0, 32.0, 100.0])
    K = reference.similarity(queries, stored)
    expected = [reference.class_sums(K, counts, e) for e in powers]
    sums = NetworkIndex(stored).class_sums(queries, counts, powers, EXECUTION)
    assert_allclose(sums, expected, rtol=1e-9)


@pytest.mark.parametrize("sizes", [(200,), (200, 3)])
def test_sums_without_any_label_are_zero(sizes):
    rng = np.random.default_rng(0)
    stored, queries = random_modes(rng, 80, sizes), random_modes(rng, 30, sizes)
    sums = NetworkIndex(stored).class_sums(
        queries, np.zeros((80, 3)), np.array([2.0, 8.0]), EXECUTION
    )
    assert_array_equal(sums, np.zeros((2, 30, 3)))


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("megabytes", [0.05, 1024])
def test_sums_of_one_layer_are_equal_in_any_block(n_jobs, megabytes):
    rng = np.random.default_rng(0)
    stored, queries = random_modes(rng, 300, (130,)), random_modes(rng, 200, (130,))
    counts, powers = one_class_each(rng, 300, 3), np.array([8.0, 32.0])
    index = NetworkIndex(stored)
    expected = index.class_sums(queries, counts, powers, EXECUTION)
    with config_context(working_memory=megabytes):
        found = index.class_sums(queries, counts, powers, Execution(n_jobs=n_jobs))
    assert_array_equal(found, expected)


@pytest.mark.parametrize("kind", BITS)
def test_labels_by_the_hidden_layers_and_neighbours_by_all_in_one_look(kind):
    rng = np.random.default_rng(3)
    layers = [rng.random((120, size)) < 0.5 for size in (7, 300, 3)]
    stored, queries = (ActivationModes.from_bits([b[rows] for b in layers]) for rows in PARTS)
    hidden, asked = (ActivationModes.from_bits([b[rows] for b in layers[:2]]) for rows in PARTS)
    gaussians, X = random_gaussians(rng, 80, 3), rng.normal(size=(40, 3))
    counts, exponents = rng.uniform(0.5, 3, (80, 4)), np.array([2.0, 4.0, 40.0])
    device = {"device": "cpu"} if kind == "torch" else {}
    if device:
        pytest.importorskip("torch")
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
    assert_allclose(near.class_sums, expected, rtol=1e-9)
    assert_array_equal(near.class_sums, index.class_sums(queries, counts, exponents, EXECUTION))
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
    assert_allclose(near.class_sums[0], hidden / hidden.max(axis=1, keepdims=True), rtol=1e-9)
    pairs = pair_similarity(queries, stored, np.arange(6)[:, None], EXECUTION)
    assert_allclose(pairs[:, 0], expected.diagonal(), rtol=1e-10)
