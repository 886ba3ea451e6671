"""A reservoir: the same rows in any order, every class in it, and weights that undo the choice."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from polycal.calibration.reservoir import OF_EACH_CLASS, Reservoir
from polycal.core.reading import ActivationModes, Reading

RNG = np.random.default_rng(0)
N, MOST = 6000, 400
X = RNG.normal(size=(N, 2))
Y = np.where(np.arange(N) % 100 == 0, 2, np.arange(N) % 2)  # the last class has 60 rows
PRIORITY = np.log(RNG.exponential(size=N))
PROBA = np.eye(3)[Y]
MODES = ActivationModes.from_leaves(RNG.integers(0, 9, (N, 4)))


def of(rows, most=MOST):
    reading = Reading(MODES[rows], PROBA[rows], None)
    return Reservoir.of(most, reading, X[rows], Y[rows], np.ones(len(rows)), PRIORITY[rows])


def test_neither_order_nor_merges_matter():
    whole, merged = of(np.arange(N)), Reservoir(MOST)
    for part in np.array_split(RNG.permutation(N), 7):
        merged = merged.merge(of(part))
    merged = merged.merge(Reservoir(MOST))
    for name in ("X", "y", "priority", "proba"):
        assert_array_equal(getattr(whole, name), getattr(merged, name))
    assert_array_equal(whole.modes.codes, merged.modes.codes)
    assert set(np.argsort(PRIORITY)[:MOST]) <= {
        int(np.argmax(p == PRIORITY)) for p in whole.priority
    }
    assert list(whole.contradictions()) == []


def test_rare_classes_are_kept_and_weighed_by_their_chance():
    found = of(np.arange(N))
    assert (found.y == 2).sum() == OF_EACH_CLASS
    rows = found.rows()[2]
    share = rows.weight[rows.y == 2].sum() / rows.weight.sum()
    assert 0.5 * 0.01 < share < 2 * 0.01
    even = of(np.arange(300)).rows()[2]
    assert_array_equal(even.weight, 1.0)


@pytest.mark.parametrize("most", [300, 6000])
def test_old_rows_count_less(most):
    """The weights add up to those of all rows, whether they are thinned or not."""
    time = np.arange(N) / 500
    reading = Reading(MODES, PROBA, None)
    priority = PRIORITY - np.log(2) * time
    found = Reservoir.of(most, reading, X, Y, np.ones(N), priority, time).rows()[2]
    weight = np.exp2(time)
    expected = weight[Y == 0].sum() / weight.sum()
    assert abs(found.weight[found.y == 0].sum() / found.weight.sum() - expected) < 0.08
    assert len(found) < 6000 or found.weight.max() > 100 * found.weight.min()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": None}, "incomplete"),
        ({"modes": MODES[:5]}, "other modes"),
        ({"proba": np.ones((300, 1))}, "no class of the model"),
        ({"weight": np.zeros(300)}, "no weight"),
        ({"priority": -np.arange(300.0)}, "out of order"),
    ],
)
def test_forged_rows_are_refused(change, message):
    forged = replace(of(np.arange(300)), **change)
    assert any(message in text for text in forged.contradictions())
