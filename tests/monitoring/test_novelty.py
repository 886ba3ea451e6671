"""The learned score of novelty."""

from __future__ import annotations

import numpy as np

from polycal.monitoring.conformal import p_values, select
from polycal.monitoring.novelty import novelty_scores


def described(rng, n):
    rows = rng.normal(size=(n, 4)).astype(np.float32)
    rows[:, 2] = rng.integers(0, 3, n)
    return rows


SYMBOL = np.array([False, False, True, False])


def test_new_rows_get_low_scores_and_selection_keeps_its_rate():
    rng = np.random.default_rng(0)
    false, found = [], []
    for _ in range(10):
        mixed = described(rng, 500)
        new = np.arange(470, 500)
        mixed[new, 0] += 3
        score = novelty_scores(described(rng, 600), mixed, SYMBOL, 1, rng)
        chosen = select(p_values(score[:300], score[300:]), 0.1)
        false.append(chosen[:170].sum() / max(chosen.sum(), 1))
        found.append(chosen[170:].mean())
    assert np.mean(false) <= 0.1 + 3 * np.std(false) / np.sqrt(10)
    assert np.mean(found) > 0.4


def test_a_higher_log_f_is_never_newer():
    """Rows of the batch with a higher log f than the reference rows are not new."""
    rng = np.random.default_rng(1)
    mixed = described(rng, 400)
    mixed[:, -1] += 2
    score = novelty_scores(described(rng, 400), mixed, SYMBOL, 1, rng)
    usual = novelty_scores(described(rng, 400), described(rng, 400), SYMBOL, 1, rng)
    assert score.std() < 3 * usual.std()


def test_a_level_that_no_reference_row_has():
    rng = np.random.default_rng(2)
    mixed = described(rng, 400)
    mixed[:60, 2] = 7
    score = novelty_scores(described(rng, 600), mixed, SYMBOL, 1, rng)
    assert score[:60].max() < np.median(score[60:])


def test_many_levels_missing_values_and_infinite_scores():
    rng = np.random.default_rng(3)
    mixed = described(rng, 300)
    mixed[:, 2] = np.arange(300)
    mixed[::3, 1] = np.nan
    mixed[0, -1] = np.finfo(np.float32).min
    assert np.isfinite(novelty_scores(described(rng, 300), mixed, SYMBOL, 1, rng)).all()


def test_a_column_without_any_number():
    rng = np.random.default_rng(4)
    reference, mixed = described(rng, 300), described(rng, 300)
    reference[:, 0], mixed[:, 0] = np.nan, np.nan
    assert np.isfinite(novelty_scores(reference, mixed, SYMBOL, 1, rng)).all()
