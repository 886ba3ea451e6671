"""A bounded choice of modes: the same in any order and any merges, with exact sums."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from polycal.core.reading import ActivationModes
from polycal.kernels import StoredModes, keys_of
from polycal.kernels.stored_modes import drawn
from tests.toys.kernels import EXECUTION

RNG = np.random.default_rng(0)
MODES = ActivationModes.from_leaves(RNG.integers(0, 3, (900, 5)))
KEY = keys_of(MODES, EXECUTION)
VALUES = RNG.random((900, 4))


def stored(most, parts, time=0.0):
    found = StoredModes(most)
    for rows in parts:
        some = rows[found.admits(KEY[rows], time)]
        found.add(MODES[some], KEY[some], VALUES[some], time)
    return found


def assert_same(one, other):
    one, other = one.to_save(), other.to_save()
    assert_array_equal(one.modes.codes, other.modes.codes)
    assert_array_equal(one.key, other.key)
    assert_allclose(one.values, other.values, rtol=1e-12)


@pytest.mark.parametrize("most", [40, 1000])
def test_order_batches_and_merges_do_not_matter_and_sums_are_of_all_rows(most):
    whole = stored(most, [np.arange(900)])
    parts = np.array_split(RNG.permutation(900), 9)
    assert_same(whole, stored(most, parts))
    merged = StoredModes(most)
    for part in parts:
        merged.merge(stored(most, [part]))
    merged.merge(StoredModes(most))
    assert_same(whole, merged)
    assert len(whole) == min(most, len(np.unique(KEY)))
    for key, values in zip(whole.key[:5], whole.values[:5], strict=True):
        assert_allclose(values, VALUES[key == KEY].sum(axis=0))
    assert list(whole.to_save().contradictions()) == []


def test_the_modes_of_lowest_priority_are_stored():
    found, known = stored(40, [np.arange(900)]), np.unique(KEY)
    assert set(found.key) == set(known[np.argsort(drawn(known))[:40]])
    assert_array_equal(found.modes.codes, MODES.codes[[np.argmax(k == KEY) for k in found.key]])


def test_the_numbers_that_are_drawn_are_exponential():
    sample = np.exp(drawn(np.arange(20_000, dtype=np.uint64)))
    assert abs(sample.mean() - 1) < 0.03
    assert abs((sample < np.log(2)).mean() - 0.5) < 0.02


def test_recent_modes_come_first():
    old, new = np.flatnonzero(KEY % 2 == 0), np.flatnonzero(KEY % 2 == 1)
    found = stored(40, [old])
    found.add(MODES[new], KEY[new], VALUES[new], 20.0)
    assert (found.key % 2 == 1).all()
    again = old[:1]
    found.add(MODES[again], KEY[again], VALUES[again], 40.0)
    assert KEY[again[0]] in found.key


def test_merging_leaves_the_other_as_it_was():
    other, mine = stored(40, [np.arange(900)]), StoredModes(40)
    before = other.values.copy()
    mine.merge(other)
    mine.merge(other)
    assert_array_equal(other.values, before)
    assert_allclose(mine.values, 2 * before)


def test_a_copy_and_what_was_saved_stay_as_they_were():
    first, rest = np.arange(300), np.arange(300, 900)
    mine = stored(40, [first])
    before = [mine.copy(), mine.to_save(), stored(40, [first])]
    mine.add(MODES[rest], KEY[rest], VALUES[rest])
    for found in before[:2]:
        assert_same(found, before[2])
    before[0].add(MODES[rest], KEY[rest], VALUES[rest])
    assert_same(mine, before[0])


def test_leaf_ids_that_need_more_bytes_may_come_later():
    wide = ActivationModes.from_leaves(1000 + MODES.codes.astype(int))
    found = stored(2000, [np.arange(0, 500), np.arange(500, 900)])
    n_modes, key = len(found), keys_of(wide, EXECUTION)
    found.add(wide, key, VALUES)
    found.add(MODES[:10], KEY[:10], VALUES[:10])
    assert len(found) == 2 * n_modes
    saved = found.to_save()
    assert_array_equal(saved.key, keys_of(saved.modes, EXECUTION))
    place = int(np.argmax(saved.key == key[7]))
    assert_array_equal(saved.modes.codes[place], wide.codes[7])
    assert_allclose(saved.values[place], VALUES[key == key[7]].sum(axis=0))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"most": 3}, "more stored modes"),
        ({"priority": None}, "incomplete"),
        ({"key": KEY[:40]}, "out of order"),
        ({"modes": MODES[:40]}, "hashes of others"),
        ({"values": np.full((40, 4), np.nan)}, "values that are none"),
    ],
)
def test_forged_modes_are_refused(change, message):
    forged = replace(stored(40, [np.arange(900)]).to_save(), **change)
    assert any(message in text for text in forged.contradictions())
