"""Several terms as one score: hand-computed ranks, the tail below them, and the promise."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from polycal.gate.ranked import TAIL, RankedTerms


def fit(terms, weight=None, new_weight=None):
    terms = np.atleast_2d(np.asarray(terms, dtype=float))
    weight = np.ones(terms.shape[1]) if weight is None else np.asarray(weight, dtype=float)
    return RankedTerms.fit(terms, weight, new_weight)


def test_ranks_by_hand():
    """Nine rows: a new row that equals the r-th lowest has the p-value (r + 1) / 10."""
    values = np.arange(1.0, 10.0)
    ranked, own = fit(values[::-1])
    assert_allclose(ranked.sums(values[None]), np.log(np.arange(2, 11) / 10))
    halfway = np.log([0.2 * 0.3, 0.9 * 1.0]) / 2
    assert_allclose(ranked.sums(np.array([[1.5, 8.5]])), halfway)
    assert_allclose(ranked.sums(np.array([[9.0, 1e9]])), 0.0, atol=1e-15)
    # A calibration row has its own rank; the lowest goes on by the slope above it, from 2 to 3.
    slope = (np.log(0.3) - np.log(0.2)) / 1.0
    assert_allclose(own[::-1], [np.log(0.2) - slope, *np.log(np.arange(2, 10) / 10)])
    below = ranked.sums(np.array([[0.0, -1.0, -99.0]]))
    assert_allclose(below, np.log(0.2) - slope * np.array([1, 2, 100]))


def test_a_row_stands_above_its_equals():
    ranked, own = fit([1.0, 1.0, 2.0, 2.0, 2.0, 3.0])
    assert_allclose(own, np.log(np.array([2, 2, 5, 5, 5, 6]) / 7))
    assert_allclose(ranked.sums(np.array([[2.0, 3.0]])), np.log(np.array([6, 7]) / 7))


def test_weights_count_as_so_many_rows():
    """Up to what a new row weighs: here as much as a row of the others."""
    values = np.array([3.0, 1.0, 2.0, 5.0, 4.0])
    twice, own_twice = fit(np.repeat(values, 2), new_weight=1.0)
    weighed, own = fit(values, weight=[2, 2, 2, 2, 2], new_weight=1.0)
    new = np.linspace(2, 6, 17)[None]
    assert_allclose(weighed.sums(new), twice.sums(new))
    assert own.shape == (5,)
    assert own_twice[0] == own_twice[1]


def test_the_score_rises_with_each_term_is_continuous_and_falls_without_end():
    rng = np.random.default_rng(0)
    terms = rng.standard_t(2, size=(3, 400))
    terms[1] = terms[1].round(1)  # ties
    ranked, _ = fit(terms)
    grid = np.sort(np.concatenate([terms[1], terms[1] - 1e-12, np.linspace(-1e6, 50, 999)]))
    for j in range(3):
        moved = np.zeros((3, len(grid)))
        moved[j] = grid
        score = ranked.sums(moved)
        assert (np.diff(score) >= 0).all()
        far = grid < terms[j].min()
        assert (np.diff(score[far]) < 0).sum() == 0
        assert score[0] < score[far][-1] - 1000
        # Not even a rounding of the term moves the score by more than a rounding.
        lower = moved.copy()
        lower[j] -= 1e-12
        assert_allclose(ranked.sums(lower), score, atol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("n", [19, 99, 100, 400])
@pytest.mark.parametrize("kind", ["heavy tails", "ties", "one term", "a mixture"])
def test_a_new_row_is_among_the_lowest_no_more_often_than_their_share(n, kind):
    """The promise of ``conformal_floor``, where the score was fitted on the very same rows."""
    from polycal.gate.floor import conformal_floor

    n_sets, new, level = 1000, 20, 0.05
    out = np.empty(n_sets)
    for i in range(n_sets):
        rng = np.random.default_rng([n, i])
        terms = rng.standard_t(2, size=(3, n + new)) * rng.exponential(size=n + new)
        if kind == "ties":
            terms = terms.round()
        elif kind == "one term":
            terms = terms[:1]
        elif kind == "a mixture":
            terms[:, rng.random(n + new) < 0.03] -= 1e3
        ranked, own = fit(terms[:, :n])
        floor = conformal_floor(own, np.ones(n), level)
        out[i] = (ranked.sums(terms[:, n:]) < floor).mean()
    error = out.std() / np.sqrt(n_sets)
    assert out.mean() <= level + 3 * error
    assert out.mean() >= (0.0 if kind == "ties" else 0.4 * level)


def test_forged_ranks_are_refused():
    ranked, _ = fit(np.arange(50.0))
    assert list(ranked.contradictions()) == []
    broken = RankedTerms(ranked.values[:, ::-1], ranked.log_p, ranked.scale)
    assert list(broken.contradictions()) == ["the ranks of a term do not rise with its values"]
    assert_array_equal(ranked.values[0], np.arange(int(TAIL * 50) - 1, 50))
