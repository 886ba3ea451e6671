"""Tables that rows are added to: equal to their definition, in any order, batches and merges."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from polycal.core.execution import Execution
from polycal.core.reading import ActivationModes
from polycal.kernels import Sampling, StreamTables, reference, stream_tables
from tests.toys.kernels import EXECUTION
from tests.toys.paths import KINDS, near_modes

N_CLASSES, SCALES = 3, np.array([1, 2, 4])


def labelled_rows(kind, seed=1):
    modes = near_modes(kind, seed)
    rng = np.random.default_rng(seed)
    return modes, rng.integers(0, N_CLASSES, len(modes)), rng.random(len(modes)) + 0.5


def empty(modes, kind="leaves", memory=1e9, n_sequences=20, n_classes=N_CLASSES):
    n_groups = len(modes.sizes) - (kind == "hidden layers")
    how = Sampling(SCALES, n_sequences, memory, 0)
    return StreamTables.empty(modes, n_classes, n_groups, how)


def of_rows(kind, parts=1, order=None, memory=1e9, n_jobs=1):
    """Tables of the rows in some order, added in some batches."""
    modes, y, weight = labelled_rows(kind)
    order = np.arange(len(y)) if order is None else order
    tables = empty(modes, kind, memory)
    for some in np.array_split(order, parts):
        tables.add(modes[some], y[some], weight[some], Execution(n_jobs, 0))
    return tables


def many_rows(n=3000):
    """Rows of leaves of which hardly any two agree on four paths."""
    rng = np.random.default_rng(0)
    modes = ActivationModes.from_leaves(rng.integers(0, 40, (n, 20)))
    return modes, rng.integers(0, N_CLASSES, n), np.ones(n)


def assert_same(one, other):
    one, other = one.to_save(), other.to_save()
    assert_array_equal(one.left_out_bits, other.left_out_bits)
    assert_array_equal(one.n_buckets, other.n_buckets)
    assert_array_equal(one.key, other.key)
    assert_allclose(one.total, other.total, rtol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_sums_equal_the_reference(kind):
    modes, y, weight = labelled_rows(kind)
    queries, tables = near_modes(kind, 2, per_group=3), of_rows(kind, parts=4)
    counts = np.zeros((len(y), N_CLASSES))
    counts[np.arange(len(y)), y] = weight
    sums = tables.look_up(queries)
    for e, scale in enumerate(SCALES):
        n_draws = scale * tables.n_groups
        expected = reference.sampled_class_sums(queries, modes, counts, tables.draws, n_draws)
        assert_allclose(sums[e] / len(tables.draws), expected, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_neither_order_nor_batches_nor_threads_matter(kind):
    whole = of_rows(kind)
    order = np.random.default_rng(5).permutation(96)
    for parts, n_jobs in ((1, 2), (7, 1), (96, 2)):
        assert_same(whole, of_rows(kind, parts, order, n_jobs=n_jobs))
    assert_array_equal(whole.to_save().total, of_rows(kind, n_jobs=2).to_save().total)


@pytest.mark.parametrize("memory", [1e9, 300_000])
def test_a_tree_of_merges_is_one_batch(memory):
    modes, y, weight = many_rows()
    whole = empty(modes, memory=memory)
    whole.add(modes, y, weight, EXECUTION)
    parts = []
    for some in np.array_split(np.random.default_rng(0).permutation(len(y)), 5):
        parts.append(whole.without_rows())
        parts[-1].add(modes[some], y[some], weight[some], EXECUTION)
    parts.append(whole.without_rows())  # one without rows
    left, right = parts[0], parts[3]
    for part in parts[1:3]:
        left.merge(part, EXECUTION)
    for part in parts[4:]:
        right.merge(part, EXECUTION)
    right.merge(left, EXECUTION)
    assert_same(whole, right)
    assert (whole.left_out_bits > 0).any() == (memory < 1e9)


def test_memory_bounds_the_tables_and_the_sums_stay_unbiased():
    modes, y, weight = many_rows()
    queries = modes[:400]
    full, totals = empty(modes), []
    full.add(modes, y, weight, EXECUTION)
    for seed in range(60):
        how = Sampling(SCALES, 20, 200_000, seed)
        tables = StreamTables.empty(modes, N_CLASSES, 1, how)
        tables.add(modes, y, weight, EXECUTION)
        assert tables.nbytes <= 200_000
        assert tables.share_kept[-1] < 1
        totals.append(tables.look_up(queries).sum(axis=(1, 2)))
    K = reference.similarity(queries, modes)
    exact = np.array([(K**e).sum() for e in SCALES]) * 20
    error = np.std(totals, axis=0) / np.sqrt(60) + 1e-9
    assert (np.abs(np.mean(totals, axis=0) - exact) < 4 * error).all()


def test_bits_are_the_fewest_with_which_the_buckets_fit():
    modes, y, weight = many_rows()
    tables, full = empty(modes, memory=200_000), empty(modes)
    for some in np.array_split(np.arange(len(y)), 30):
        tables.add(modes[some], y[some], weight[some], EXECUTION)
    full.add(modes, y, weight, EXECUTION)
    known = full.to_save()
    table = np.repeat(np.arange(len(known.n_buckets)), known.n_buckets)
    for e, bits in enumerate(tables.left_out_bits):
        of_scale = table // len(full.draws) == e

        def fullest(bits, of_scale=of_scale):
            kept = of_scale & (known.key & bits == 0)
            return np.bincount(table[kept]).max()

        assert fullest(bits) <= tables.most
        assert bits == 0 or fullest(bits >> np.uint64(1)) > tables.most


def test_tables_grow_in_place_from_a_small_start(monkeypatch):
    monkeypatch.setattr(stream_tables, "FIRST_SLOTS", 64)
    modes, y, weight = many_rows()
    tables = empty(modes)
    n_slots = [tables.slots[-1].shape[1]]
    for some in np.array_split(np.arange(len(y)), 30):
        tables.add(modes[some], y[some], weight[some], EXECUTION)
        n_slots.append(tables.slots[-1].shape[1])
    assert n_slots[0] < n_slots[5] < n_slots[-1]
    assert_array_equal(np.diff(n_slots) >= 0, True)
    monkeypatch.undo()
    at_once = empty(modes)
    at_once.add(modes, y, weight, EXECUTION)
    assert_same(tables, at_once)


def test_another_unit_changes_no_sum_and_a_copy_has_memory_of_its_own():
    tables = of_rows("leaves")
    queries = near_modes("leaves", 2, per_group=3)
    before, copied = tables.look_up(queries), tables.copy()
    tables.rescale(2.0**-10)
    tables.unit = 2.0**10
    assert_array_equal(tables.look_up(queries), before)
    tables.rescale(2.0**10)
    tables.unit = 1.0
    modes, y, weight = labelled_rows("leaves")
    tables.add(modes, y, weight, EXECUTION)
    assert_allclose(tables.look_up(queries), 2 * before, rtol=1e-12)
    assert_array_equal(copied.look_up(queries), before)
    copied.merge(tables, EXECUTION)
    assert_allclose(copied.look_up(queries), 3 * before, rtol=1e-12)


def test_buckets_of_hardly_any_weight_are_forgotten_where_there_is_no_room():
    modes, y, weight = many_rows()
    tables, roomy, plain = empty(modes, memory=6e6), empty(modes), empty(modes, memory=6e6)
    for some in (tables, roomy, plain):
        some.add(modes[:1500], y[:1500], 1e-6 * weight[:1500], EXECUTION)
        some.least = 0.0 if some is plain else 1e-3
        some.add(modes[1500:], y[1500:], weight[1500:], EXECUTION)
    assert tables.used[-1].max() < 0.6 * roomy.used[-1].max()
    assert tables.share_kept[-1] == 1
    assert plain.share_kept[-1] < 1
    recent = empty(modes)
    recent.add(modes[1500:], y[1500:], weight[1500:], EXECUTION)
    expected = recent.look_up(modes)
    assert_allclose(tables.look_up(modes)[-1], expected[-1], atol=0.1)


def test_a_pickled_copy_goes_on_alike():
    modes, y, weight = many_rows()
    tables = empty(modes, memory=300_000)
    tables.add(modes[:2000], y[:2000], weight[:2000], EXECUTION)
    again = pickle.loads(pickle.dumps(tables))
    for some in (tables, again):
        some.add(modes[2000:], y[2000:], weight[2000:], EXECUTION)
    one, other = tables.to_save(), again.to_save()
    assert_array_equal(one.key, other.key)
    assert_array_equal(one.total, other.total)


def test_errors():
    modes, _, _ = many_rows(10)
    with pytest.raises(ValueError, match="memory_limit is too small .* 500 classes"):
        empty(modes, memory=1e5, n_classes=500)
    with pytest.raises(ValueError, match="of other paths"):
        empty(modes).merge(empty(modes, n_sequences=21), EXECUTION)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: {"scales": t.scales[::-1]}, "other lengths"),
        (lambda t: {"n_buckets": t.n_buckets[1:]}, "other tables"),
        (lambda t: {"key": t.key[1:]}, "not those of its tables"),
        (lambda t: {"most": 3}, "more buckets than it may"),
        (lambda t: {"n_classes": 7}, "other classes"),
        (lambda t: {"left_out_bits": t.left_out_bits + np.uint64(2)}, "than they may"),
        (lambda t: {"left_out_bits": t.left_out_bits + np.uint64(1)}, "or left out"),
        (lambda t: {"total": -t.total}, "a weight that is none"),
        (lambda t: {"key": t.key[::-1]}, "out of order"),
    ],
)
def test_forged_tables_are_refused(change, message):
    tables = of_rows("leaves").to_save()
    names = [name for name in vars(tables) if name not in ("slots", "used")]
    saved = {name: getattr(tables, name) for name in names}
    assert list(StreamTables.restore(**saved).contradictions()) == []
    forged = StreamTables.restore(**{**saved, **change(tables)})
    assert any(message in text for text in forged.contradictions())
    assert list(tables.contradictions_with(near_modes("leaves", 1))) == []
    few = ActivationModes.from_leaves(np.zeros((2, 5), dtype=int))
    assert any("do not have" in text for text in tables.contradictions_with(few))
