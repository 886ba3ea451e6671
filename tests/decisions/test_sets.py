"""Sets of classes: the ranks by hand, and the promised coverage where it is hardest."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from polycal.decisions.rows import JudgedRows
from polycal.decisions.sets import (
    least_covering,
    least_probabilities,
    least_rows,
    sets_above,
    unpromised,
)


def judged(P, y, weight=None, group=None, out=None, ratio=None):
    n = len(y)
    return JudgedRows.with_prior(
        np.asarray(P, float),
        np.asarray(y),
        np.ones(n) if weight is None else weight,
        np.arange(n) if group is None else group,
        np.zeros(n, bool) if out is None else out,
        np.ones(np.shape(P)[1]) if ratio is None else np.asarray(ratio, float),
    )


@pytest.mark.parametrize(
    ("coverage", "expected"),
    [(0.1, 0.9), (0.2, 0.8), (0.5, 0.5), (0.9, 0.1), (0.91, 0.0), (0.55, 0.4)],
)
def test_the_rank_of_nine_rows(coverage, expected):
    """Rank ceil(10 coverage) from above."""
    own = np.array([0.3, 0.9, 0.1, 0.5, 0.7, 0.2, 0.4, 0.6, 0.8])
    assert least_covering(own, np.ones(9), 1.0, coverage) == pytest.approx(expected, rel=1e-8)


def test_weights_are_copies_and_groups_count_as_one():
    own = np.array([0.9, 0.5, 0.4, 0.2])
    weighted = least_covering(own, np.array([1.0, 2.0, 3.0, 1.0]), 1.0, 0.7)
    assert weighted == least_covering(np.repeat(own, [1, 2, 3, 1]), np.ones(7), 1.0, 0.7)
    assert weighted == pytest.approx(0.4)
    # Four rows of two groups: a new row brings the weight of two.
    assert least_covering(own, np.ones(4), 2.0, 0.6) == pytest.approx(0.2)
    assert least_covering(own, np.ones(4), 2.0, 0.7) == 0.0


def test_a_class_is_in_the_set_where_its_p_value_is_high():
    """The rank is that of the conformal p-value, computed one row at a time."""
    rng = np.random.default_rng(0)
    P, weight = rng.dirichlet(np.ones(3), 40).round(1), rng.integers(1, 4, 40).astype(float)
    y, new = rng.integers(0, 3, 40), rng.dirichlet(np.ones(3), 30).round(1)
    rows = judged(P, y, weight, ratio=[0.5, 1.0, 2.0])
    for by_class in (False, True):
        for coverage in (0.3, 0.5, 0.8, 0.9):
            found = sets_above(
                new, np.zeros(30, bool), least_probabilities(rows, coverage, by_class)
            )
            for i in range(30):
                for c in range(3):
                    some = (y == c) | (not by_class)
                    w, unit = rows.weight[some], rows.new_weight[c]
                    lower = w[rows.own[some] <= new[i, c] + 1e-12].sum()
                    p = (lower + unit) / (w.sum() + unit)
                    assert found[i, c] == (p > 1 - coverage + 1e-9)


def test_rows_that_are_out_have_all_classes():
    P = np.array([[0.9, 0.1], [0.6, 0.4]])
    sets = sets_above(P, np.array([False, True]), np.array([0.5, 0.5]))
    assert_array_equal(sets, [[True, False], [True, True]])
    # They count as covered: the others may miss a little more.
    rows = judged(np.full((9, 2), 0.5), np.zeros(9, int), out=np.arange(9) < 5)
    assert least_probabilities(rows, 0.5)[0] == np.inf
    assert least_probabilities(rows, 0.6)[0] == pytest.approx(0.5)


def test_few_rows():
    assert [least_rows(c) for c in (0.5, 0.8, 0.9, 0.99)] == [1, 4, 9, 99]
    y = np.repeat([0, 1], [9, 8])
    rows = judged(np.full((17, 2), 0.5), y)
    assert unpromised(rows, 0.9).tolist() == [1]
    least = least_probabilities(rows, 0.9, by_class=True)
    assert least[0] == pytest.approx(0.5)
    assert least[1] == 0.0
    for n in (8, 9):
        few = judged(np.full((n, 2), 0.5), np.zeros(n, int))
        assert (least_probabilities(few, 0.9) > 0).all() == (n == 9)


def world(rng, n, rounded):
    """Probabilities that are wrong, with ties, and labels of the true ones."""
    logits = rng.normal(size=(n, 3)) * 1.5 + np.array([0.0, 0.0, -2.5])
    true = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    y = (rng.random((n, 1)) > true.cumsum(axis=1)).sum(axis=1)
    said = true**1.7 / (true**1.7).sum(axis=1, keepdims=True)
    return (said.round(1) if rounded else said), y, rng.random(n) < 0.02


@pytest.mark.parametrize("coverage", [0.5, 0.8, 0.9, 0.95, 0.99])
@pytest.mark.parametrize("kind", ["plain", "ties", "by class", "groups", "prior"])
def test_coverage_is_kept(kind, coverage):
    """At least the coverage, on average over calibration rows, and not much more."""
    rng = np.random.default_rng(17)
    n, repetitions, by_class = 60, 300, kind == "by class"
    inside, total = np.zeros((repetitions, 3)), np.zeros((repetitions, 3))
    for r in range(repetitions):
        P, y, out = world(rng, n, kind == "ties")
        new, y_new, out_new = world(rng, 200, kind == "ties")
        group, ratio = np.arange(n), np.ones(3)
        if kind == "groups":  # each row is there four times
            group = np.arange(n) // 4
            P, y, out = P[4 * group], y[4 * group], out[4 * group]
        if kind == "prior":  # new rows have other class shares
            ratio = np.array([0.5, 1.0, 4.0])
            drawn = rng.choice(200, 200, p=ratio[y_new] / ratio[y_new].sum())
            new, y_new, out_new = new[drawn], y_new[drawn], out_new[drawn]
        rows = judged(P, y, None, group, out, ratio)
        sets = sets_above(new, out_new, least_probabilities(rows, coverage, by_class))
        hit = sets[np.arange(200), y_new]
        inside[r] = np.bincount(y_new, hit, minlength=3)
        total[r] = np.bincount(y_new, minlength=3)
    if by_class:
        reached = inside.sum(axis=0) / total.sum(axis=0)
        error = [np.std(inside[:, c] - coverage * total[:, c]) for c in range(3)]
        error = np.array(error) * np.sqrt(repetitions) / total.sum(axis=0)
        assert (reached > coverage - 3 * error).all()
    else:
        share = inside.sum(axis=1) / total.sum(axis=1)
        error = share.std() / np.sqrt(repetitions)
        n_groups = 15 if kind == "groups" else n
        assert share.mean() > coverage - 3 * error
        if kind in ("plain", "groups") and coverage < n_groups / (n_groups + 1):
            assert share.mean() < coverage + 1 / (n_groups + 1) + 3 * error + 0.02
