"""Conformal p-values, the rows that they select, and the share of a batch that is new."""

from __future__ import annotations

import numpy as np
from scipy.stats import betabinom

from .._utils.arrays import Array, Bools, Floats, Ints

# Part of the known rows below each threshold at which the share of new rows is bounded.
TAILS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2)
# P-values above it are taken for those of rows that are not new (Storey's lambda).
LARGE = 0.5


def p_values(known: Floats, new: Floats) -> Floats:
    """Share of known rows, the new one included, whose score is no higher.

    Ties count against the row, so that p <= t has probability at most t for each t.
    """
    rank = np.searchsorted(np.sort(known), new, side="right")
    found: Floats = (1 + rank) / (len(known) + 1)
    return found


def select(p: Floats, level: float) -> Bools:
    """Rows of which, on average, at most a share ``level`` is not new.

    Benjamini and Hochberg's procedure with Storey's estimate of the share of rows that are not
    new, (1 + number of p > 1/2) / (n / 2). It holds for conformal p-values of one set of known rows
    (Bates et al. 2023; Marandon et al. 2024, also for scores that are learned from all rows alike).
    """
    n = len(p)
    not_new = min(1.0, (1 + np.count_nonzero(p > LARGE)) / (n * (1 - LARGE)))
    ordered = np.sort(p)
    kept = np.flatnonzero(ordered <= level * np.arange(1, n + 1) / (n * not_new))
    selected: Bools = p <= (ordered[kept[-1]] if len(kept) else -1.0)
    return selected


def share_new(scores: list[tuple[Array, Array]], confidence: float) -> tuple[float, float, float]:
    """Share of the new rows that lie among the lowest scores without being expected there.

    ``scores`` are pairs of the scores of known rows and of new rows. Returns the share and its
    lower and upper end, which hold together with this confidence. Of n rows that are not new, the
    number below the k-th of m known scores is beta-binomial; the thresholds share the error
    evenly. The share is that at the threshold of the highest lower end. It is the least share that
    must be new: rows that are new and look usual are not counted.
    """
    n = len(scores[0][1])
    error = (1 - confidence) / (2 * len(TAILS) * len(scores))
    lower, share, upper = -1, 0.0, 0.0
    for known, new in scores:
        ordered, m = np.sort(known), len(known)
        for k in np.unique([max(1, round(tail * (m + 1))) for tail in TAILS]):
            k = min(int(k), m)
            # Ties with the threshold may make the known rows below it more than k: then less is
            # claimed at the lower end, and nothing at the upper one.
            below = int(np.count_nonzero(new < ordered[k - 1]))
            up_to = int(np.count_nonzero(new <= ordered[k - 1]))
            least = _least_new(below, n, k, m, error)
            expected = k / (m + 1)
            if least > lower:
                lower = least
                share = max(0.0, (below / n - expected) / (1 - expected))
            fewest = int(betabinom.ppf(error, n, k, m + 1 - k))
            upper = max(
                upper, min(1.0, (up_to - fewest) / n / (1 - fewest / n if fewest < n else 1))
            )
    lower_share = lower / n
    return max(share, lower_share), lower_share, max(upper, share, lower_share)


def _least_new(below: int, n: int, k: int, m: int, error: float) -> int:
    """Least number of new rows that explains how many are below the k-th of m known scores.

    With c new rows, at most the quantile for n - c others lie there beside them; the smallest c
    that is enough is found by halving.
    """

    def enough(c: int) -> bool:
        others = n - c
        most = int(betabinom.isf(error, others, k, m + 1 - k)) if others else 0
        return c >= below - most

    low, high = 0, below
    if enough(0):
        return 0
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def one_of_each(group: Ints, weight: Floats, rng: np.random.Generator) -> Ints:
    """Numbers of rows that are exchangeable with new rows: independent, and of equal weight.

    Of each group one row is taken. A row stays with the probability of its weight over the largest:
    what stays is a sample of the weighted rows.
    """
    order = rng.permutation(len(group))
    _, first = np.unique(group[order], return_index=True)
    rows = order[np.sort(first)]
    stays = rng.random(len(rows)) * weight.max() < weight[rows] * (1 + 1e-9)
    found: Ints = rows[stays]
    return found
