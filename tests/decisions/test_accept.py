"""The threshold of accepted answers: by hand, and its confidence by simulation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from polycal.decisions.accept import highest_doubt


def plain(doubt, wrong, error_rate, confidence=0.95):
    n = len(doubt)
    return highest_doubt(doubt, wrong, np.ones(n), np.arange(n), error_rate, confidence)


def test_all_answers_where_none_is_wrong():
    doubt = np.linspace(0, 0.04, 100)
    assert plain(doubt, np.zeros(100, bool), 0.05) == np.inf
    # 58 rows without an error do not show that less than 5 % are wrong; 59 do: 0.95^59 < 0.05.
    for n, found in ((58, None), (59, np.inf)):
        assert plain(np.zeros(n), np.zeros(n, bool), 0.05) == found


def test_none_without_rows_and_where_all_are_wrong():
    assert plain(np.empty(0), np.empty(0, bool), 0.1) is None
    assert plain(np.full(200, 0.9), np.ones(200, bool), 0.1) is None


def test_sure_answers_alone():
    """400 rows that are right and 400 that are wrong in half of the cases."""
    doubt = np.r_[np.linspace(0.001, 0.01, 400), np.linspace(0.4, 0.6, 400)]
    wrong = np.r_[np.zeros(400, bool), np.arange(400) % 2 == 0]
    threshold = plain(doubt, wrong, 0.05)
    below = doubt < threshold
    assert 400 <= below.sum() < 460
    assert binom.cdf(wrong[below].sum(), below.sum(), 0.05) <= 0.05
    higher = np.unique(np.sort(doubt)[np.linspace(0, 800, 51).astype(int)[1:-1]])
    following = higher[higher > threshold][0]
    more = doubt < following
    assert binom.cdf(wrong[more].sum(), more.sum(), 0.05) > 0.05


def test_copies_count_as_one():
    doubt, wrong = np.zeros(100), np.zeros(100, bool)
    group, weight = np.arange(100) // 2, np.ones(100)
    assert highest_doubt(doubt, wrong, weight, group, 0.05, 0.95) is None  # 50 groups
    assert highest_doubt(doubt, wrong, weight, np.arange(100), 0.05, 0.95) == np.inf
    weight[:50] = 1e-9
    assert highest_doubt(doubt, wrong, weight, np.arange(100), 0.05, 0.95) is None


@pytest.mark.parametrize("error_rate", [0.02, 0.05, 0.15])
@pytest.mark.parametrize("kind", ["right", "too sure", "rounded", "upside down"])
def test_the_error_rate_is_kept_with_the_confidence(kind, error_rate):
    """Whatever the doubts are worth, too high a rate is accepted in at most 10 % of the cases."""
    rng = np.random.default_rng(3)
    grid = np.linspace(0, 1, 20001)[1:]
    true = 0.6 * grid**3  # chance of an error of the row at each rank
    said = {
        "right": true,
        "too sure": 0.3 * true,
        "rounded": true.round(1),
        "upside down": true[::-1],
    }[kind]
    kept, bad, repetitions = 0, 0, 300
    for _ in range(repetitions):
        some = rng.integers(0, len(grid), 600)
        wrong = rng.random(600) < true[some]
        threshold = plain(said[some], wrong, error_rate, 0.9)
        if threshold is None:
            continue
        below = said < threshold
        kept += below.mean()
        bad += true[below].mean() > error_rate if below.any() else 0
    assert bad <= binom.ppf(0.999, repetitions, 0.1)
    if kind in ("right", "too sure"):
        # The best threshold accepts the share at which the mean chance of an error is the rate.
        best = (true.cumsum() / np.arange(1, 20001) <= error_rate).mean()
        print(kept / repetitions, best)
        assert kept / repetitions > (0.3 if error_rate < 0.05 else 0.75) * best
