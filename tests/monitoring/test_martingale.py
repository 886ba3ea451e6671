"""Online conformal p-values are uniform and independent, and the capital keeps Ville's bound."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import kstest

from polycal.monitoring.martingale import Bins, Track, online_p_values

LIMIT = np.log(1 / 0.05)


def draw(kind, rng, n):
    if kind == "ties":
        return rng.integers(0, 5, n).astype(float)
    rows = rng.normal(size=n)
    if kind == "missing":
        rows[rng.random(n) < 0.3] = np.nan
    return rows


@pytest.mark.parametrize("kind", ["normal", "ties", "missing", "among new"])
def test_p_values_are_uniform_and_independent(kind):
    rng = np.random.default_rng(0)
    found = []
    for _ in range(1500):
        bins = Bins.of(draw(kind, rng, 30), 12, kind == "among new")
        found.append(online_p_values(bins, draw(kind, rng, 12), rng.random((12, 2))))
    p = np.array(found)
    assert kstest(p.ravel(), "uniform").pvalue > 1e-3
    for k in (0, 11):
        assert kstest(p[:, k], "uniform").pvalue > 1e-3
    correlation = np.corrcoef(p.T)[np.triu_indices(12, 1)]
    assert abs(correlation).max() < 4.5 / np.sqrt(1500)


@pytest.mark.parametrize("kind", ["normal", "ties"])
def test_the_loop_bets_on_the_p_values_of_the_reference(kind):
    """With one bet on the half and no others, the capital is a product that can be checked."""
    rng = np.random.default_rng(1)
    bins = Bins.of(draw(kind, rng, 100), 20)
    values, random = draw(kind, rng, 50), rng.random((50, 2))
    track = Track.start(bins)
    log_capital = track.follow(bins, values, random)
    p = online_p_values(bins, values, random)
    bets = [0.3 * p**-0.7, 0.6 * p**-0.4, 0.3 * (1 - p) ** -0.7, 0.6 * (1 - p) ** -0.4]
    bets = np.stack([*bets, 1.5 - p, 0.5 + p, np.ones(50)], axis=1)
    capital = np.full((2, 7), 1 / 14)
    for i in range(50):
        for j, jump in enumerate((0.001, 0.01)):
            capital[j] = ((1 - jump) * capital[j] + jump * capital[j].mean()) * bets[i]
        assert np.isclose(np.log(capital.sum()), log_capital[i], atol=1e-9)
    assert np.isclose(track.log_capital, log_capital[-1])


@pytest.mark.parametrize("kind", ["normal", "ties", "among new"])
def test_an_unchanged_stream_hardly_ever_rings(kind):
    rng = np.random.default_rng(2)
    rang = 0
    for _ in range(400):
        bins = Bins.of(draw(kind, rng, 200), 60, kind == "among new")
        log_capital = Track.start(bins).follow(bins, draw(kind, rng, 3000), rng.random((3000, 2)))
        rang += log_capital.max() >= LIMIT
    assert rang / 400 <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 400)


@pytest.mark.parametrize("change", [-1.0, 1.0])
def test_a_change_rings_soon(change):
    rng = np.random.default_rng(3)
    bins = Bins.of(rng.normal(size=400), 100)
    track = Track.start(bins)
    before = track.follow(bins, rng.normal(size=500), rng.random((500, 2)))
    after = track.follow(bins, rng.normal(change, 1, 300), rng.random((300, 2)))
    assert before.max() < LIMIT
    assert np.flatnonzero(after >= LIMIT)[0] < 100


def test_pieces_are_the_whole():
    rng = np.random.default_rng(4)
    bins = Bins.of(rng.normal(size=50), 20)
    values, random = rng.normal(size=40), rng.random((40, 2))
    whole, pieces = Track.start(bins), Track.start(bins)
    once = whole.follow(bins, values, random)
    twice = [pieces.follow(bins, values[s], random[s]) for s in (slice(0, 13), slice(13, 40))]
    np.testing.assert_array_equal(once, np.concatenate(twice))
    np.testing.assert_array_equal(whole.count, pieces.count)


def test_constant_known_values():
    bins = Bins.of(np.full(20, 3.0), 10)
    found = online_p_values(bins, np.array([3.0, 1.0, 9.0]), np.full((3, 2), 0.5))
    assert ((found > 0) & (found < 1)).all()
