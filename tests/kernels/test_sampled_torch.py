"""Sampled tables on a torch device: the code of the GPU, on the CPU, beside the compiled loops."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import config_context

import polycal
from polycal import GeodesicCalibrator
from polycal.core.execution import Execution
from polycal.core.reading import ActivationModes
from polycal.kernels import (
    PathTables,
    SampledIndex,
    Sampling,
    Search,
    TorchSampledIndex,
    build_sampled_index,
    reference,
    torch_buckets,
)
from tests.toys.kernels import EXECUTION, random_gaussians
from tests.toys.models import small_network
from tests.toys.paths import KINDS, SCALES, exact_sums, rows

torch = pytest.importorskip("torch")
ON_DEVICE = Execution(device="cpu")
EXPONENTS = SCALES.astype(float)


@pytest.fixture(autouse=True)
def no_tables_are_too_small(monkeypatch):
    """The device builds tables of any number of modes."""
    monkeypatch.setattr("polycal.kernels.path_tables.DEVICE_MODES", 0)


def both(kind, n_sequences=30, scales=SCALES, memory=1e9, n_candidates=None, seed=1):
    """The index by compiled loops and that of a torch device, queries, and class counts."""
    stored, queries, counts = rows(kind)
    n_candidates = len(stored) if n_candidates is None else n_candidates
    how = (stored, counts, n_candidates, Sampling(scales, n_sequences, memory, seed))
    hidden = kind == "hidden layers"
    return SampledIndex(*how, hidden), TorchSampledIndex(*how, hidden, None, "cpu"), queries, counts


def contents(tables):
    """Of each bucket of more than one mode: its slot, the mode that stands for it, its classes."""
    scale = np.searchsorted(tables.start, np.arange(len(tables.tag)), side="right") - 1
    found = []
    for slot in np.flatnonzero((tables.tag != 0) & (tables.value < 0)):
        at = tables.content_start[scale[slot]] - 1 - tables.value[slot]
        n = int(tables.content[at + 1])
        pairs = tables.content[at + 2 : at + 2 + 2 * n].reshape(n, 2)
        found.append((slot, tables.content[at], sorted(map(tuple, pairs))))
    return found


@pytest.mark.parametrize("memory", [1e9, 40_000])
@pytest.mark.parametrize("n_candidates", [None, 40])
@pytest.mark.parametrize("kind", KINDS)
def test_tables_are_those_of_the_compiled_loops(kind, n_candidates, memory):
    here, there, _, _ = both(kind, memory=memory, n_candidates=n_candidates)
    tables, others = here.tables, there.tables
    for name in ("draws", "salt", "start", "tag", "content_start", "label", "left_out_bits"):
        assert_array_equal(getattr(others, name), getattr(tables, name))
        assert getattr(others, name).dtype == getattr(tables, name).dtype
    alone = tables.value >= 0
    assert_array_equal(others.value[alone], tables.value[alone])
    assert (others.value[~alone] < 0).all()
    assert (tables.left_out_bits.max() > 0) == (memory < 1e9)
    expected, found = contents(tables), contents(others)
    assert len(found) == len(expected) > 50
    for (slot, mode, pairs), (other_slot, other_mode, other_pairs) in zip(
        expected, found, strict=True
    ):
        assert (slot, mode) == (other_slot, other_mode)
        assert_allclose(other_pairs, pairs, rtol=1e-12)
    assert list(others.contradictions()) == []
    assert list(others.contradictions_with(there.modes, 3)) == []


def test_small_tables_are_built_by_the_compiled_loops(monkeypatch):
    """A device would take longer for the labels that each part leaves out; answers are the same."""
    _, index, queries, counts = both("leaves")
    left_out = counts.copy()
    left_out[::3] = 0.0
    expected = index.class_sums(queries, left_out, EXPONENTS, EXECUTION)
    built = []
    build = torch_buckets.build_tables
    monkeypatch.setattr(torch_buckets, "build_tables", lambda *a: built.append(a) or build(*a))
    monkeypatch.setattr("polycal.kernels.path_tables.DEVICE_MODES", len(counts))
    _, index, queries, counts = both("leaves")
    found = index.class_sums(queries, left_out, EXPONENTS, EXECUTION)
    assert_allclose(found, expected, rtol=1e-12)
    n_stored = [len(modes.hash) for modes, *_ in built]
    assert n_stored == [len(counts)] * len(n_stored)
    assert n_stored


@pytest.mark.parametrize("kind", KINDS)
def test_sums_equal_the_reference(kind):
    _, index, queries, counts = both(kind)
    tables = index.tables
    found = index.class_sums(queries, counts, EXPONENTS, EXECUTION)
    for e, scale in enumerate(SCALES):
        n_draws = scale * tables.n_groups
        expected = reference.sampled_class_sums(queries, index.modes, counts, tables.draws, n_draws)
        assert_allclose(found[e] / len(tables.draws), expected, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_answers_are_those_of_the_compiled_loops(kind):
    """Class sums at scales and by near modes, labels that are left out, neighbours and their K."""
    here, there, queries, counts = both(kind, memory=50_000, n_candidates=60)
    rng = np.random.default_rng(0)
    density, X = random_gaussians(rng, 60, 2), rng.normal(size=(len(queries), 2))
    some = counts.copy()
    some[::3] = 0.0
    some[1::3] *= 0.25
    for labels in (counts, some):
        for fill in (False, True):
            search = Search(density, 5, fill, labels, np.array([1.0, 2.0, 4.0, 9.0]))
            expected, found = (i.nearest(queries, X, search, EXECUTION) for i in (here, there))
            assert_array_equal(found.index, expected.index)
            assert_array_equal(found.similarity, expected.similarity)
            assert_allclose(found.class_sums, expected.class_sums, rtol=1e-9, atol=1e-12)
    everything = range(len(here.modes))
    assert_array_equal(
        there.similarity(queries, EXECUTION)[:, everything], here.similarity(queries, EXECUTION)
    )


@pytest.mark.parametrize(("n_candidates", "n_found"), [(96, 8), (40, 8), (96, 500), (96, 0)])
def test_the_modes_that_are_met_most_are_the_same(n_candidates, n_found):
    here, there, queries, _ = both("leaves", scales=np.array([1, 2, 5]), n_candidates=n_candidates)
    far = ActivationModes.from_leaves(np.full((2, 30), 200))
    for asked in (queries, far.coded_like(here.modes)):
        sums, ids = here.tables.look_up(asked, 3, n_found)
        other_sums, other_ids = there._look_up(asked, 3, n_found, None, EXPONENTS)
        assert_array_equal(other_ids, ids)
        assert_allclose(other_sums, sums, rtol=1e-12)


def test_sums_of_the_device_are_unbiased():
    _, index, queries, counts = both("three layers", 800)
    found = index.class_sums(queries, counts, EXPONENTS, EXECUTION) / 800
    exact = np.stack([exact_sums(index, queries, counts, e) for e in SCALES])
    error = np.sqrt(exact * counts.sum(axis=0) / 800) + 1e-9
    assert (np.abs(found - exact) < 5 * error).all()


def test_modes_of_many_classes_or_none_and_modes_that_are_alike():
    """Candidates come first, also where a later mode has the same symbols; classes are many."""
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 4, (300, 12))
    modes = ActivationModes.from_leaves(np.concatenate([codes, codes[:150]]))
    counts = rng.random((450, 40)) * (rng.random((450, 40)) < 0.1)
    counts[5] = counts[7] = 0.0
    how = Sampling(np.array([1, 4, 40]), 12, 1e9, 0)
    stored = (modes, counts, 300, 1, how)
    tables, others = (PathTables.build(*stored, e) for e in (EXECUTION, ON_DEVICE))
    assert_array_equal(others.tag, tables.tag)
    for (_, mode, pairs), (_, other, found) in zip(contents(tables), contents(others), strict=True):
        assert other == mode < 300
        assert_allclose(np.reshape(found, (-1, 2)), np.reshape(pairs, (-1, 2)), rtol=1e-12)


def test_crowded_slots_are_filled_as_by_the_compiled_loops():
    """Thousands of buckets, so that many want the same slot, also past the end of a table."""
    rng = np.random.default_rng(0)
    modes = ActivationModes.from_leaves(rng.integers(0, 60, (6000, 20)))
    how = Sampling(np.array([1, 2, 8]), 10, 1e9, 0)
    stored = (modes, np.ones((6000, 1)), 6000, 1, how)
    tables, others = (PathTables.build(*stored, e) for e in (EXECUTION, ON_DEVICE))
    assert_array_equal(others.tag, tables.tag)
    alone = tables.value >= 0
    assert_array_equal(others.value[alone], tables.value[alone])


def test_no_rows_in_the_tables_of_what_is_left_out():
    _, index, queries, counts = both("leaves")
    found = index.class_sums(queries, counts.copy(), EXPONENTS, EXECUTION)
    assert_array_equal(found, index.class_sums(queries, counts, EXPONENTS, EXECUTION))
    nothing = index.class_sums(queries, np.zeros_like(counts), EXPONENTS, EXECUTION)
    assert_array_equal(nothing, 0.0)


def test_a_device_that_is_missing_leaves_the_cpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    here, there, queries, counts = both("leaves")
    stored = (here.modes, counts, len(counts), here.sampling, False)
    assert type(build_sampled_index(*stored, device="cuda")) is SampledIndex
    assert type(build_sampled_index(*stored, device=None)) is SampledIndex
    assert type(build_sampled_index(*stored, device="cpu")) is TorchSampledIndex
    expected = there.class_sums(queries, counts, EXPONENTS, EXECUTION)
    again = pickle.loads(pickle.dumps(there))
    assert (type(again), again.device) == (TorchSampledIndex, "cpu")
    assert_array_equal(again.class_sums(queries, counts, EXPONENTS, EXECUTION), expected)
    there.device = "cuda:0"
    away = pickle.loads(pickle.dumps(there))
    assert type(away) is SampledIndex
    assert_allclose(away.class_sums(queries, counts, EXPONENTS, EXECUTION), expected, rtol=1e-12)


def test_tables_that_are_forgotten_are_built_again():
    _, index, queries, counts = both("one layer")
    expected = index.class_sums(queries, counts, EXPONENTS, EXECUTION)
    index.forget_tables()
    assert index._tables is None
    assert_array_equal(index.class_sums(queries, counts, EXPONENTS, EXECUTION), expected)


def test_blocks_do_not_matter(monkeypatch):
    _, index, queries, counts = both("three layers")
    expected = index.class_sums(queries, counts, np.array([2.0, 9.0]), EXECUTION)
    monkeypatch.setattr("polycal.kernels.sampled_torch.BLOCK_BYTES", 1.0)
    with config_context(working_memory=0.2):
        found = index.class_sums(queries, counts, np.array([2.0, 9.0]), EXECUTION)
    assert_allclose(found, expected, rtol=1e-12)


def test_keys_that_agree_in_their_upper_half_alone_are_told_apart():
    rng = np.random.default_rng(0)
    upper, lower = rng.integers(-(2**31), 2**31, 40), rng.integers(0, 3, 4000)
    keys = (upper[rng.integers(0, 40, 4000)] << 32) + lower
    rows = rng.permutation(4000)[:3000]
    found, found_keys = torch_buckets.sorted_by(torch.as_tensor(keys), torch.as_tensor(rows))
    order = np.argsort(keys[rows], kind="stable")
    assert_array_equal(found, rows[order])
    assert_array_equal(found_keys, keys[rows][order])


def test_a_model_whose_parent_is_on_a_device_is_sampled_there(blobs, monkeypatch, tmp_path):
    """Tables and answers are those of a model on the CPU; the file is read without the device."""
    X, y = blobs
    expected = GeodesicCalibrator(small_network(), search="sampled", random_state=0)
    expected.fit(X[:200], y[:200])
    monkeypatch.setattr(type(expected.model_.parent), "gpu", "cpu")
    model = GeodesicCalibrator(small_network(), search="sampled", random_state=0)
    model.fit(X[:200], y[:200])
    here, there = expected.model_.reference, model.model_.reference
    for votes, on_device in ((here.votes, there.votes), (here.hyperplanes, there.hyperplanes)):
        assert type(votes.evidence.index) is SampledIndex
        assert type(on_device.evidence.index) is TorchSampledIndex
        assert_array_equal(on_device.evidence.tables.tag, votes.evidence.tables.tag)
    proba = model.predict_proba(X[200:260])
    assert_allclose(proba, expected.predict_proba(X[200:260]), atol=1e-6)
    model.save(tmp_path / "model.polycal")
    loaded = polycal.load(tmp_path / "model.polycal")
    assert type(loaded.model_.reference.index) is SampledIndex
    assert_allclose(loaded.predict_proba(X[200:260]), proba, rtol=1e-9)
