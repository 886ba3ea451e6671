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
    """Bins of one track: between known values of given ranks. The last one has no upper edge.

    Ties are broken at random, so that a new value that is equal to known ones lies in one of the
    gaps around these, which may be in several bins.
    """

    edges: Floats  # sorted; several may be equal
    rank: Floats  # of each edge among the known values, and last the number of gaps
    below: Floats  # known values that are lower than the edge
    ties: Floats  # known values that are equal to it
    among_new: bool  # whether new values are compared with each other alone

    @classmethod
    def of(cls, known: Array, most: int, among_new: bool = False) -> Bins:
        """Bins at evenly spaced ranks; NaN is larger than any number."""
        ordered = np.sort(_placed(known))
        n = len(ordered)
        rank = np.unique(np.linspace(1, n, min(most, n)).astype(int))
        edges = ordered[rank - 1]
        below = np.searchsorted(ordered, edges, "left")
        ties = np.searchsorted(ordered, edges, "right") - below
        ends = np.append(rank, n + 1).astype(float)
        return cls(edges, ends, below.astype(float), ties.astype(float), among_new)

    @property
    def weight(self) -> Floats:
        """Gaps in each bin."""
        found: Floats = np.diff(self.rank, prepend=0.0)
        return np.zeros_like(found) if self.among_new else found


@dataclass
class Track:
    """State of one track: what has been counted, and the capital of each bet."""

    count: Floats  # new values in each bin
    low: Floats  # those of them that are equal to the lower edge, and to the upper edge alone
    high: Floats
    capital: Floats  # of each jump rate and bet, as shares of e^log_scale
    log_scale: float

    @classmethod
    def start(cls, bins: Bins) -> Track:
        """Nothing counted, and a capital of 1."""
        count, low, high = np.zeros((3, len(bins.rank)))
        capital = np.full((len(JUMPS), N_BETS), 1 / (len(JUMPS) * N_BETS))
        return cls(count, low, high, capital, 0.0)

    def copy(self) -> Track:
        """The same state, which can go another way."""
        counted = (self.count.copy(), self.low.copy(), self.high.copy())
        return Track(*counted, self.capital.copy(), self.log_scale)

    @property
    def log_capital(self) -> float:
        """Logarithm of the capital."""
        return float(self.log_scale + np.log(self.capital.sum()))

    def follow(self, bins: Bins, values: Array, random: Floats) -> Floats:
        """Count the values in order, bet on their p-values, and return the log capital after each.

        ``random`` has two uniform numbers for each value.
        """
        found = np.empty(len(values))
        known = (bins.edges, bins.rank, bins.below, bins.ties, bins.weight)
        state = (self.count, self.low, self.high, self.capital, self.log_scale)
        where = (_placed(values), random)
        self.log_scale = _follow(*where, *known, *state, JUMPS, POWERS, found)
        return found


def _placed(values: Array) -> Floats:
    """Values with infinity for NaN."""
    placed: Floats = np.where(np.isnan(values), np.inf, values).astype(np.float64)
    return placed


def online_p_values(bins: Bins, values: Array, random: Floats) -> Floats:
    """The p-values that a new track bets on, in plain Python: the reference of the loop."""
    weight, first = bins.weight, np.concatenate([[0.0], bins.rank[:-1]])
    count, placed = np.zeros(len(weight)), [[] for _ in weight]  # type: ignore[var-annotated]
    found = np.empty(len(values))
    for i, value in enumerate(_placed(values)):
        b = int(np.searchsorted(bins.edges, value, "left"))
        last = int(np.searchsorted(bins.edges, value, "right"))
        if not bins.among_new and last > b:
            # Gaps around the known values that are equal, and new values there, in each bin.
            low, high = bins.below[b], bins.below[b] + bins.ties[b]
            urn = [
                max(min(high, bins.rank[c] - 1) - max(low, first[c]) + 1, 0.0)
                + placed[c].count(value)
                for c in range(b, last + 1)
            ]
            b += int(np.searchsorted(np.cumsum(urn), random[i, 0] * sum(urn), "right"))
            placed[b].append(value)
        own = weight[b] + count[b] + bins.among_new
        total = (weight + count).sum() + bins.among_new
        found[i] = ((weight + count)[:b].sum() + random[i, 1] * own) / total
        count[b] += 1
    return found


@njit(nogil=True, cache=True)
def _follow(
    values, random, edges, rank, under, ties, weight, count, low, high, capital, log_scale, jumps,
    powers, found,
):  # fmt: skip
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
            b = _among_ties(random[i, 0], b, edges, rank, under, ties, low, high)
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


@njit(nogil=True, cache=True)
def _among_ties(random, first, edges, rank, under, ties, low, high):
    """The bin of a value that is equal to an edge, and count it there."""
    last = first
    while last < len(edges) and edges[last] == edges[first]:
        last += 1
    lowest, highest = under[first], under[first] + ties[first]
    left = random * (ties[first] + 1.0 + _tied(first, last, low, high))
    for b in range(first, last + 1):
        start = rank[b - 1] if b > 0 else 0.0
        left -= max(min(highest, rank[b] - 1.0) - max(lowest, start) + 1.0, 0.0)
        left -= low[b] if b == last else high[b]
        if left < 0.0 or b == last:
            if b == last:
                low[b] += 1.0
            else:
                high[b] += 1.0
            return b
    return last


@njit(nogil=True, cache=True)
def _tied(first, last, low, high):
    """New values that were equal to these edges."""
    total = low[last]
    for b in range(first, last):
        total += high[b]
    return total
