"""Sampled paths: equal to their definition, unbiased, and the same in any order and any threads."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import config_context

from polycal.core.execution import Execution
from polycal.core.reading import ActivationModes
from polycal.kernels import (
    PathTables,
    SampledIndex,
    Sampling,
    Search,
    build_index,
    path_tables,
    reference,
)
from polycal.kernels.forest import VISIT_COST
from polycal.kernels.path_tables import exact_work
from polycal.kernels.sampled import CANDIDATES
from polycal.kernels.sampled_loops import put_in_slot
from tests.toys.kernels import EXECUTION, all_log_densities, gaussians_at, random_gaussians
from tests.toys.models import random_modes
from tests.toys.paths import KINDS, SCALES, exact_sums, rows


def sampled(kind, n_sequences=50, scales=SCALES, memory=1e9, seed=0, n_candidates=None, **kwargs):
    stored, queries, counts = rows(kind, **kwargs)
    how = Sampling(scales, n_sequences, memory, seed)
    n_candidates = len(stored) if n_candidates is None else n_candidates
    index = SampledIndex(stored, counts, n_candidates, how, kind == "hidden layers")
    return index, queries, counts


@pytest.mark.parametrize("kind", KINDS)
def test_sums_equal_the_reference(kind):
    index, queries, counts = sampled(kind, seed=1)  # in which no bucket is taken for another
    tables = index.tables
    sums, _ = tables.look_up(queries, 3, 0)
    for e, scale in enumerate(SCALES):
        n_draws = scale * tables.n_groups
        expected = reference.sampled_class_sums(queries, index.modes, counts, tables.draws, n_draws)
        assert_allclose(sums[e] / len(tables.draws), expected, atol=1e-12)
    found = index.class_sums(queries, counts, np.array([2.0, 4.0]), EXECUTION)
    assert_array_equal(found, sums[1:])


@pytest.mark.parametrize("kind", KINDS)
def test_sums_are_unbiased_and_their_error_falls_with_the_sequences(kind):
    errors = []
    for n_sequences in (100, 1600):
        index, queries, counts = sampled(kind, n_sequences)
        sums, _ = index.tables.look_up(queries, 3, 0)
        exact = np.stack([exact_sums(index, queries, counts, e) for e in SCALES])
        errors.append(sums / n_sequences - exact)
        # One sequence brings at most all counts, so this is a generous standard error.
        error = np.sqrt(exact * counts.sum(axis=0) / n_sequences) + 1e-9
        assert (np.abs(errors[-1]) < 5 * error).all()
    rough, fine = (np.sqrt(np.mean(e**2, axis=(1, 2))) for e in errors)
    assert (fine < 0.5 * rough).all()  # a quarter is expected


def test_buckets_are_left_out_where_memory_is_short_and_the_sums_stay_unbiased():
    totals, exact = [], None
    for seed in range(150):
        index, queries, counts = sampled("leaves", 20, memory=40_000, seed=seed)
        assert index.tables.share_kept.min() < 1
        assert index.tables.share_kept[0] == 1  # the coarse scale needs little
        assert index.tables.nbytes < 1.2 * 40_000  # so few sequences differ
        totals.append(index.tables.look_up(queries, 3, 0)[0] / 20)
        exact = np.stack([exact_sums(index, queries, counts, e) for e in SCALES])
    mean, error = np.mean(totals, axis=0), np.std(totals, axis=0) / np.sqrt(150)
    away = np.abs(mean - exact) / (error + 1e-9)
    assert away.max() < 5
    assert 0.5 < np.sqrt(np.mean(away**2)) < 1.5


def test_a_bucket_is_hardly_ever_taken_for_another():
    """Slots know 16 bits of their bucket's hash."""
    rng = np.random.default_rng(0)
    stored = ActivationModes.from_leaves(rng.integers(0, 50, (500, 20)))
    far = ActivationModes.from_leaves(rng.integers(50, 100, (2000, 20)))
    how = Sampling(np.array([8]), 100, 1e9, 0)
    tables = PathTables.build(stored, np.ones((500, 1)), 500, 1, how, EXECUTION)
    sums, _ = tables.look_up(far, 1, 0)
    n_met = np.count_nonzero(sums) / (2000 * 100)
    assert 0 < n_met < 4 / 2**16


@pytest.mark.parametrize("spread", [1.0, 0.02])
def test_slots_are_those_of_buckets_in_the_order_of_their_keys(spread):
    """Whatever the order they come in, also where many want the last slots."""
    rng = np.random.default_rng(0)
    keys = np.uint64(2**64 - 1) - (rng.random(300) * spread * 2**64).astype(np.uint64)
    expected = np.full(601, -1)
    for row in np.argsort(keys):
        slot = (int(keys[row]) >> 32) * 601 >> 32
        while expected[slot] >= 0:
            slot = (slot + 1) % 601
        expected[slot] = row
    for _ in range(5):
        found = np.full(601, -1, np.int32)
        for row in rng.permutation(300):
            put_in_slot(row, keys, found)
        assert_array_equal(found, expected)


@pytest.mark.parametrize("n_classes", [2, 40])
def test_tables_stay_within_their_memory(n_classes):
    rng = np.random.default_rng(0)
    stored = ActivationModes.from_leaves(rng.integers(0, 6, (3000, 40))).distinct()[0]
    counts = np.eye(n_classes)[rng.integers(0, n_classes, len(stored))]
    for memory in (2e6, 6e6):
        how = Sampling(np.array([2, 8, 32]), 60, memory, 0)
        tables = PathTables.build(stored, counts, len(stored), 1, how, EXECUTION)
        assert 0.3 * memory < tables.nbytes <= memory


def test_memory_that_holds_hardly_any_row_is_an_error():
    index = sampled("leaves", memory=3000)[0]
    with pytest.raises(
        ValueError, match="memory_limit is too small .* 96 modes.* at least"
    ) as info:
        index.tables  # noqa: B018
    needed = float(str(info.value).split('"')[1].removesuffix("MiB"))
    followed = Sampling(SCALES, 50, max(needed, 0.2) * 2**20 / 2, 0)
    stored, _, counts = rows("leaves")
    PathTables.build(stored, counts, len(stored), 1, followed, EXECUTION)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"scales": np.array([1, 2, 2**62 + 1])}, "other lengths"),
        ({"scales": np.array([2, 1, 4])}, "other lengths"),
        ({"scales": np.array([0, 2, 4])}, "other lengths"),
        ({"n_groups": 2}, "other lengths"),
        ({"start": lambda t: t.start + 1}, "begin and end elsewhere"),
        ({"content_start": lambda t: t.content_start[::-1].copy()}, "begin and end elsewhere"),
        ({"left_out_bits": np.full(3, 2**64 - 1, np.uint64)}, "leave out other buckets"),
        ({"left_out_bits": np.array([0, 0, 5], np.uint64)}, "leave out other buckets"),
    ],
)
def test_tables_that_contradict_themselves(changes, message):
    tables = sampled("leaves")[0].tables
    assert list(tables.contradictions()) == []
    changed = {k: v(tables) if callable(v) else v for k, v in changes.items()}
    assert message in next(iter(replace(tables, **changed).contradictions()))


def with_weights(content, weight):
    """The content with another weight of the first class of the first bucket."""
    content = content.copy()
    content[3] = weight
    return content


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"draws": lambda t: t.draws + 1000}, "symbols that modes do not have"),
        ({"draws": lambda t: t.draws - 1000}, "symbols that modes do not have"),
        ({"label": lambda t: t.label + 3}, "no class of the model"),
        ({"label": lambda t: t.label[1:]}, "other modes"),
        ({"n_candidates": 97}, "other modes"),
        ({"value": lambda t: t.value + 10_000}, "no sound content"),
        ({"value": lambda t: np.where(t.value < 0, -(2**31), t.value)}, "no sound content"),
        ({"content": lambda t: t.content + 1e6}, "no sound content"),
        ({"content": lambda t: np.where(t.content > 2, np.nan, t.content)}, "no sound content"),
        ({"content": lambda t: with_weights(t.content, -1.0)}, "no sound content"),
        ({"content": lambda t: with_weights(t.content, np.nan)}, "no sound content"),
        ({"content": lambda t: with_weights(t.content, 1e200)}, "no sound content"),
    ],
)
def test_tables_that_contradict_their_modes(changes, message):
    index = sampled("leaves")[0]
    assert list(index.tables.contradictions_with(index.modes, 3)) == []
    changed = {k: v(index.tables) if callable(v) else v for k, v in changes.items()}
    forged = replace(index.tables, **changed)
    assert message in next(iter(forged.contradictions_with(index.modes, 3)))


def test_all_memory_is_used_where_it_is_enough():
    assert_array_equal(sampled("leaves")[0].tables.share_kept, 1.0)


@pytest.mark.parametrize("kind", KINDS)
def test_neighbours_have_exact_k_and_are_nearly_the_nearest(kind):
    index, queries, counts = sampled(kind, 300, np.array([1, 2, 4, 8, 16]))
    rng = np.random.default_rng(0)
    density, X = random_gaussians(rng, len(index.modes), 2), rng.normal(size=(len(queries), 2))
    search = Search(density, 5, counts=counts, exponents=np.array([2.0]))
    found = index.nearest(queries, X, search, EXECUTION)
    K = build_index(index.modes).similarity(queries, EXECUTION)
    assert_array_equal(found.similarity, np.take_along_axis(K, found.index, axis=1))
    similarity, order = reference.nearest(K, all_log_densities(density, X), 5)
    assert (found.similarity <= similarity).all()
    recall = np.mean([np.isin(a, b).mean() for a, b in zip(order, found.index, strict=True)])
    assert recall > 0.95
    assert_array_equal(
        found.class_sums, index.class_sums(queries, counts, np.array([2.0]), EXECUTION)
    )
    assert_array_equal(index.similarity(queries, EXECUTION), K)


def test_ties_go_to_the_denser_mode_and_then_to_the_first():
    leaves = np.array([[0, 1, 1], [1, 0, 1], [1, 1, 0], [2, 2, 2]])
    stored = ActivationModes.from_leaves(leaves)
    index = SampledIndex(stored, np.eye(4), 4, Sampling(SCALES, 100, 1e9, 0))
    density = gaussians_at(np.array([[3.0], [1.0], [1.0], [0.0]]), np.ones((4, 1)))
    query, X = ActivationModes.from_leaves(np.array([[1, 1, 1]])), np.array([[1.0]])
    found = index.nearest(query, X, Search(density, 4, fill=False), EXECUTION)
    assert_array_equal(found.index, [[1, 2, 0, -1]])
    assert_allclose(found.similarity, [[2 / 3, 2 / 3, 2 / 3, 0]])


@pytest.mark.parametrize("kind", KINDS)
def test_only_candidates_are_neighbours(kind):
    index, queries, counts = sampled(kind, n_candidates=20)
    rng = np.random.default_rng(0)
    density, X = random_gaussians(rng, 20, 2), rng.normal(size=(len(queries), 2))
    found = index.nearest(queries, X, Search(density, 3, counts=counts), EXECUTION)
    assert found.index.max() < 20
    assert found.index.min() >= 0
    others = index.nearest(queries, X, Search(density, 3, fill=False), EXECUTION)
    assert (others.similarity[others.index >= 0] > 0).all()


def test_a_query_that_meets_nothing():
    index, _, counts = sampled("leaves", n_candidates=20)
    far = ActivationModes.from_leaves(np.full((2, 30), 99))
    rng = np.random.default_rng(0)
    density, X = random_gaussians(rng, 20, 2), np.zeros((2, 2))
    found = index.nearest(
        far, X, Search(density, 3, False, counts, SCALES.astype(float)), EXECUTION
    )
    assert_array_equal(found.index, -1)
    assert_array_equal(found.class_sums, 0.0)
    filled = index.nearest(far, X, Search(density, 3), EXECUTION)
    exact = build_index(index.modes).nearest(far, X, Search(density, 3), EXECUTION)
    assert_array_equal(filled.index, exact.index)
    assert_array_equal(filled.similarity, 0.0)


def test_blocks_have_room_for_the_modes_that_stand_for_all():
    """A far query is compared with thousands of modes, so that fewer of them are asked at once."""
    index, _, _ = sampled("leaves")
    density = random_gaussians(np.random.default_rng(0), len(index.modes), 2)
    least = 32 * len(index.modes)
    filled, plain = (index._nearest_bytes(Search(density, 3, fill)) for fill in (True, False))
    assert filled - plain >= least


@pytest.mark.parametrize("kind", KINDS)
def test_neither_blocks_nor_threads_nor_the_order_of_the_modes_matter(kind):
    index, queries, counts = sampled(kind, n_candidates=60)
    rng = np.random.default_rng(0)
    density, X = random_gaussians(rng, 60, 2), rng.normal(size=(len(queries), 2))
    search = Search(density, 4, counts=counts, exponents=SCALES.astype(float))
    found = index.nearest(queries, X, search, EXECUTION)
    again = sampled(kind, n_candidates=60)[0]
    with config_context(working_memory=0.02):
        blocks = again.nearest(queries, X, search, Execution(n_jobs=2))
    order = np.r_[rng.permutation(60), 60 + rng.permutation(len(index.modes) - 60)]
    moved = SampledIndex(index.modes[order], counts[order], 60, index.sampling, index.hidden_labels)
    moved_density = gaussians_at(density.mean[order[:60]], 1 / density.precision[order[:60]])
    sought = replace(search, density=moved_density, counts=counts[order])
    other = moved.nearest(queries, X, sought, EXECUTION)
    for name in ("similarity", "index", "class_sums"):
        assert_array_equal(getattr(blocks, name), getattr(found, name))
    assert_allclose(other.class_sums, found.class_sums, rtol=1e-12)
    assert_allclose(other.similarity, found.similarity)
    assert_array_equal(order[other.index], found.index)


@pytest.mark.parametrize("kind", KINDS)
def test_labels_that_are_left_out_are_subtracted(kind):
    index, queries, counts = sampled(kind)
    rng = np.random.default_rng(3)
    without = counts.copy()
    gone = rng.permutation(len(counts))[:30]
    without[gone[:15]] = 0.0
    without[gone[15:]] *= 0.25
    exponents = SCALES.astype(float)
    found = index.class_sums(queries, without, exponents, EXECUTION)
    other = SampledIndex(index.modes, without, len(counts), index.sampling, index.hidden_labels)
    assert_allclose(found, other.class_sums(queries, without, exponents, EXECUTION), atol=1e-9)
    nothing = index.class_sums(queries, np.zeros_like(counts), exponents, EXECUTION)
    assert_array_equal(nothing, 0.0)


def test_products_with_k_are_exact_for_few_trees_and_estimated_otherwise():
    rng = np.random.default_rng(0)
    index, queries, _ = sampled("leaves")
    values = rng.random((len(index.modes), 3))
    exact = build_index(index.modes).matmul(queries, values, EXECUTION)
    assert_allclose(index.matmul(queries, values, EXECUTION), exact, rtol=1e-12)
    for kind in ("one layer", "three layers"):
        index, queries, _ = sampled(kind)
        exact = build_index(index.modes).matmul(queries, values, EXECUTION)
        assert_allclose(index.matmul(queries, values, EXECUTION), exact, rtol=0.3)


def test_products_with_k_through_a_deep_network():
    """Its bits are hashed, because there are more of them than a number has."""
    rng = np.random.default_rng(0)
    deep = ActivationModes.from_bits([rng.random((40, 3)) < 0.02 for _ in range(30)])
    index = SampledIndex(deep, np.ones((40, 1)), 40, Sampling(SCALES, 5, 1e9, 0))
    ones = np.ones((40, 1))
    exact = build_index(deep).matmul(deep, ones, EXECUTION)
    assert_allclose(index.matmul(deep, ones, EXECUTION), exact, rtol=0.35)


@pytest.mark.parametrize("kind", KINDS)
def test_other_exponents_than_the_scales_are_by_near_modes(kind):
    index, queries, counts = sampled(kind, 200, np.array([1, 2, 6]))
    some = counts.copy()
    some[::2] = 0.0
    exponents = np.array([2.0, 8.0, 32.5])
    exact = build_index(index.modes, None, index.hidden_labels)
    for labels in (counts, some):
        found = index.class_sums(queries, labels, exponents, EXECUTION)
        assert_array_equal(found[:1], index.class_sums(queries, labels, exponents[:1], EXECUTION))
        ids = index.tables.look_up(queries, 3, CANDIDATES)[1]
        for i, near in enumerate(ids):
            near = near[near >= 0]
            assert len(near) > 20
            only = np.zeros_like(labels)
            only[near] = labels[near]
            expected = exact.class_sums(queries[i : i + 1], only, exponents[1:], EXECUTION)
            assert_allclose(found[1:, i] / 200, expected[:, 0], rtol=1e-9)
        fine = exact.class_sums(queries, labels, exponents[2:], EXECUTION)
        assert_allclose(found[2:] / 200, fine, rtol=0.05, atol=0.01)  # the others hardly count


def test_the_search_is_sampled_where_that_is_cheaper():
    rng = np.random.default_rng(0)
    how = Sampling(np.array([2, 8, 32]), 50, 1e9, 0)
    few = ActivationModes.from_leaves(rng.integers(0, 20, (300, 50)))
    many = ActivationModes.from_leaves(rng.integers(0, 20, (20_000, 50)))
    deep = ActivationModes.from_leaves(rng.integers(0, 19_000, (20_000, 50)))
    assert not how.is_cheaper(few)
    assert how.is_cheaper(many)
    assert not how.is_cheaper(deep)  # the inverted index visits few modes
    bits = [random_modes(rng, n, (256,)) for n in (300, 10_000)]
    assert [how.is_cheaper(modes) for modes in bits] == [False, True]
    assert not how.is_cheaper(bits[1], by_sides=True)  # votes alone cost less


def test_paths_are_uniform_over_trees_and_over_the_units_of_each_layer():
    stored, _, counts = rows("three layers")
    how = Sampling(np.array([64]), 200, 1e9, 0)
    tables = PathTables.build(stored, counts, len(stored), 2, how, EXECUTION)
    draws = tables.draws.reshape(-1, 2)
    for layer, (first, _) in enumerate(stored.column_ranges[:2]):
        unit = draws[:, layer] - 64 * first
        drawn = np.bincount(unit, minlength=stored.sizes[layer])
        assert len(drawn) == stored.sizes[layer]
        expected = len(unit) / len(drawn)
        assert np.abs(drawn - expected).max() < 5 * np.sqrt(expected)


def test_work_is_estimated_from_some_of_many_modes(monkeypatch):
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 400, (4000, 10)) ** 2 // 400
    modes = ActivationModes.from_leaves(codes)
    complete = exact_work(modes)
    share = sum(np.sum(np.bincount(column) ** 2) for column in codes.T) / 4000
    assert_allclose(complete, min(share * VISIT_COST, codes.size), rtol=1e-9)
    monkeypatch.setattr(path_tables, "COUNTED", 500)
    assert_allclose(exact_work(modes), complete, rtol=0.1)
