"""Test martingales on online conformal p-values: evidence against a stream that stays as it was.

Each number that is followed (log f, a column) is a track. The rank of each new value among the
known ones and all new ones before it gives a p-value; these are independent and uniform where the
stream is exchangeable with the known rows (Vovk), which p-values against a fixed set of known rows
are not. Bets on them multiply the capital of the track. Where nothing has changed, the probability
that a capital ever reaches c is at most 1/c (Ville).

Values are kept as counts by bins, whose edges are some of the known values. That a new value falls
between two known ones has the same probability for each gap, and each value that falls into a gap
makes one gap more: a Polya urn. So a bin of w gaps and c new values has probability (w + c) over
the sum, and nothing but the counts has to be kept.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._utils.arrays import Array, Floats
from .._utils.compiled import njit

# Shares of the capital that change to another bet at each row.
JUMPS = np.array([0.001, 0.01])
# Exponents of bets on small p-values, f(p) = k p^(k - 1), and on large ones, f(1 - p); beside them
# a bet on each half, 1 +- (p - 1/2), and none.
POWERS = np.array([0.3, 0.6])
N_BETS = 2 * len(POWERS) + 3
SMALLEST = 1e-12


@dataclass(frozen=True)
class Bins:
    """Bins of one track, by known values; the last one has no upper edge."""

    edges: Floats
    weight: Floats  # gaps in each bin; 0 in all, if new values are compared with each other alone
    ties: Floats  # known values that are equal to the edge

    @classmethod
    def of(cls, known: Array, most: int, among_new: bool = False) -> Bins:
        """Bins of about as many known values; NaN is larger than any number.

        With ``among_new`` they only say where to count.
        """
        ordered = np.sort(_placed(known))
        n = len(ordered)
        places = np.unique(np.linspace(0, n - 1, min(most, n)).astype(int))
        edges = np.unique(ordered[places])
        rank = np.searchsorted(ordered, edges, "right").astype(float)
        ties = rank - np.searchsorted(ordered, edges, "left")
        weight = np.diff(np.concatenate([[0.0], rank, [n + 1.0]]))
        if among_new:
            weight = np.zeros_like(weight)
        return cls(edges, weight, ties)


@dataclass
class Track:
    """State of one track: what has been counted, and the capital of each bet."""

    count: Floats  # new values in each bin
    tied: Floats  # new values that were equal to an edge, and those of them put above it
    above: Floats
    capital: Floats  # of each jump rate and bet, as shares of e^log_scale
    log_scale: float

    @classmethod
    def start(cls, bins: Bins) -> Track:
        """Nothing counted, and a capital of 1."""
        n = len(bins.edges)
        capital = np.full((len(JUMPS), N_BETS), 1 / (len(JUMPS) * N_BETS))
        return cls(np.zeros(n + 1), np.zeros(n), np.zeros(n), capital, 0.0)

    @property
    def log_capital(self) -> float:
        """Logarithm of the capital."""
        return float(self.log_scale + np.log(self.capital.sum()))

    def follow(self, bins: Bins, values: Array, random: Floats) -> Floats:
        """Count the values in order, bet on their p-values, and return the log capital after each.

        ``random`` has two uniform numbers for each value.
        """
        found = np.empty(len(values))
        state = (self.count, self.tied, self.above, self.capital)
        self.log_scale = _follow(
            _placed(values), random, bins.edges, bins.weight, bins.ties, *state, self.log_scale,
            JUMPS, POWERS, found,
        )  # fmt: skip
        return found


def _placed(values: Array) -> Floats:
    """Values with infinity for NaN."""
    placed: Floats = np.where(np.isnan(values), np.inf, values).astype(np.float64)
    return placed


def online_p_values(bins: Bins, values: Array, random: Floats) -> Floats:
    """The p-values that a new track bets on, in plain Python: the reference of the loop."""
    count = np.zeros(len(bins.weight))
    tied, above = np.zeros(len(bins.edges)), np.zeros(len(bins.edges))
    found = np.empty(len(values))
    among_new = not bins.weight.any()
    for i, value in enumerate(_placed(values)):
        b = int(np.searchsorted(bins.edges, value, "left"))
        if not among_new and b < len(bins.edges) and value == bins.edges[b]:
            goes_up = random[i, 0] * (bins.ties[b] + 1 + tied[b]) < 1 + above[b]
            tied[b] += 1
            if goes_up:
                above[b] += 1
                b += 1
        urn = bins.weight + count
        own = urn[b] + among_new
        found[i] = (urn[:b].sum() + random[i, 1] * own) / (urn.sum() + among_new)
        count[b] += 1
    return found


@njit(nogil=True, cache=True)
def _follow(
    values, random, edges, weight, ties, count, tied, above, capital, log_scale, jumps, powers, found
):
    n_bets = capital.shape[1]
    n_powers = len(powers)
    total = 0.0
    known = 0.0
    for b in range(len(weight)):
        known += weight[b]
        total += weight[b] + count[b]
    self = 1.0 if known == 0.0 else 0.0
    bets = np.empty(n_bets)
    for i in range(len(values)):
        value = values[i]
        b = np.searchsorted(edges, value)
        if self == 0.0 and b < len(edges) and value == edges[b]:
            goes_up = random[i, 0] * (ties[b] + 1.0 + tied[b]) < 1.0 + above[b]
            tied[b] += 1.0
            if goes_up:
                above[b] += 1.0
                b += 1
        below = 0.0
        for k in range(b):
            below += weight[k] + count[k]
        own = weight[b] + count[b] + self
        p = (below + random[i, 1] * own) / (total + self)
        count[b] += 1.0
        total += 1.0
        p = min(max(p, SMALLEST), 1.0 - SMALLEST)
        for k in range(n_powers):
            bets[k] = powers[k] * p ** (powers[k] - 1.0)
            bets[n_powers + k] = powers[k] * (1.0 - p) ** (powers[k] - 1.0)
        bets[2 * n_powers] = 1.5 - p
        bets[2 * n_powers + 1] = 0.5 + p
        bets[2 * n_powers + 2] = 1.0
        whole = 0.0
        for j in range(len(jumps)):
            mean = 0.0
            for e in range(n_bets):
                mean += capital[j, e]
            mean /= n_bets
            for e in range(n_bets):
                capital[j, e] = ((1.0 - jumps[j]) * capital[j, e] + jumps[j] * mean) * bets[e]
                whole += capital[j, e]
        for j in range(len(jumps)):
            for e in range(n_bets):
                capital[j, e] /= whole
        log_scale += np.log(whole)
        found[i] = log_scale
    return log_scale
