"""Whether two samples differ: several statistics with one permutation null.

Under the null hypothesis known rows and rows of the batch are exchangeable, so that any statistic
of all rows has the same distribution when the rows trade places at random. The evidence of all
statistics together is one more such statistic, and is judged by the same permutations: the p-value
is valid at any sample size, whatever the features are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from .._utils.arrays import Array, Bools, Floats, Ints

N_PERMUTATIONS = 499
# Bins of a number, each of as many rows.
N_BINS = 20
# Columns that are counted at once.
BLOCK = 64
# Shares of all rows at which the lower tail of a score is compared.
TAILS = (0.01, 0.02, 0.03, 0.05, 0.08, 0.12, 0.2, 0.3, 0.5)
# Numbers are cut at this share from below and from above before their means are compared, and the
# covariance of the columns has this ridge, in variances of one.
CUT, RIDGE = 0.01, 1.0
# Weight of statistics in the evidence: the means see small shifts of many columns.
WEIGHT = {"means": 2.0}
# Natural logarithm of the evidence of one statistic, at most.
MOST_EVIDENCE = 100.0
# Of a statistic: equal but for rounding.
ROUNDING = 1e-6


@dataclass(frozen=True)
class Difference:
    """How a batch differs from known rows, and how likely that is by chance."""

    p_value: float
    by_part: dict[str, float]  # p-value of each statistic alone
    column_p: Floats  # of each column, corrected for the number of columns
    column_distance: Floats  # largest difference of a share, by column
    largest: float  # largest difference of a share, by column or score


def memberships(n_known: int, n_new: int, rng: np.random.Generator) -> Array:
    """Which rows are the batch's, in the first column as they are and then at random."""
    batch = np.zeros((n_known + n_new, N_PERMUTATIONS + 1), dtype=np.float32)
    batch[n_known:, 0] = 1.0
    for k in range(1, N_PERMUTATIONS + 1):
        batch[rng.permutation(len(batch))[:n_new], k] = 1.0
    return batch


def compare(
    rows: Array, is_symbol: Bools, scores: dict[str, Floats], n_known: int, rng: np.random.Generator
) -> Difference:
    """Compare the first ``n_known`` rows with the others.

    ``rows`` are numbers and codes of symbols, with NaN where missing; ``scores`` say how usual each
    row is, and are compared in their lower tail.
    """
    batch = memberships(n_known, len(rows) - n_known, rng)
    by_column, distance = column_statistics(rows, is_symbol, batch)
    found = {"columns": by_column.max(axis=0), "means": mean_statistic(rows, batch)}
    largest = float(distance.max(initial=0.0))
    for name, score in scores.items():
        found[name], away = tail_statistic(score, batch)
        largest = max(largest, away)
    evidence = np.sum([WEIGHT.get(name, 1.0) * _evidence(v) for name, v in found.items()], axis=0)
    p_value = float(_p_of_each(evidence)[0])
    beyond = found["columns"] >= by_column[:, :1] * (1 - ROUNDING)
    parts = {name: float(_p_of_each(values)[0]) for name, values in found.items()}
    return Difference(p_value, parts, beyond.mean(axis=1), distance, largest)


def column_statistics(rows: Array, is_symbol: Bools, batch: Array) -> tuple[Floats, Floats]:
    """Largest standardised difference of a share in each column, shape (n_columns, n_permutations).

    The shares are those below each twentieth of a number, of missing values, and of each symbol.
    The second value is the largest difference itself, by column, as the rows are.
    """
    n_columns = rows.shape[1]
    z = np.zeros((n_columns, batch.shape[1]))
    distance = np.zeros(n_columns)
    for first in range(0, n_columns, BLOCK):
        columns = range(first, min(first + BLOCK, n_columns))
        codes, widths = zip(*(_codes(rows[:, j], is_symbol[j]) for j in columns), strict=True)
        offset = np.concatenate([[0], np.cumsum(widths)])
        flat = np.column_stack(codes) + offset[:-1]
        ones = csr_array(
            (
                np.ones(flat.size, dtype=np.float32),
                flat.ravel(),
                np.arange(0, flat.size + 1, flat.shape[1]),
            ),
            shape=(len(rows), int(offset[-1])),
        )
        counts = np.asarray(ones.T @ batch, dtype=np.float64)
        totals = np.bincount(flat.ravel(), minlength=int(offset[-1])).astype(float)
        for c, j in enumerate(columns):
            part = slice(offset[c], offset[c + 1])
            count, total = counts[part], totals[part]
            if not is_symbol[j]:  # below each edge; the last code is a missing value
                count = np.concatenate([np.cumsum(count[:-1], axis=0)[:-1], count[-1:]])
                total = np.concatenate([np.cumsum(total[:-1])[:-1], total[-1:]])
            z[j], distance[j] = _largest(count, total, batch, two_sided=True)
    return z, distance


def tail_statistic(score: Floats, batch: Array) -> tuple[Floats, float]:
    """Largest standardised excess of rows of the batch among the lowest scores, and its size."""
    order = np.argsort(score, kind="stable")
    ordered = score[order]
    # Rows of equal score are on one side of a threshold.
    lowest = [ordered[int(t * (len(score) - 1))] for t in TAILS]
    places = np.unique(np.searchsorted(ordered, lowest, "right"))
    total = places.astype(float)
    count = np.cumsum(batch[order], axis=0, dtype=np.float64)[places - 1]
    return _largest(count, total, batch, two_sided=False)


def mean_statistic(rows: Array, batch: Array) -> Floats:
    """Distance between the means of known rows and batch, in the covariance of all rows.

    It is Hotelling's statistic with a ridge: what a ridge regression of batch against known rows
    explains.
    """
    Z = _standardised(rows)
    n, n_columns = Z.shape
    if n_columns <= n:
        power, axes = np.linalg.eigh(Z.T @ Z / n)
        power = np.maximum(power, 0.0)
        mean = (batch.T @ Z) @ axes
    else:  # the same, from the products of the rows
        power, axes = np.linalg.eigh(Z @ Z.T / n)
        power = np.maximum(power, 0.0)
        mean = (batch.T @ axes) * np.sqrt(n * power)
    found: Floats = np.sqrt((mean**2 / (power + RIDGE)).sum(axis=1))
    return found


def _largest(count: Floats, total: Floats, batch: Array, two_sided: bool) -> tuple[Floats, float]:
    """Largest standardised difference of counts, and the largest difference of shares as it is.

    ``total`` rows of all meet each event, and ``count`` of the batch do; in random places, that is
    hypergeometric.
    """
    n, n_new = len(batch), float(batch[:, 0].sum())
    share = n_new / n
    variance = total * share * (1 - share) * (n - total) / max(n - 1, 1)
    some = variance > 0
    if not some.any():
        return np.zeros(batch.shape[1]), 0.0
    count, total = count[some], total[some]
    z = (count - total[:, None] * share) / np.sqrt(variance[some])[:, None]
    away = count[:, 0] / n_new - (total - count[:, 0]) / (n - n_new)
    if two_sided:
        z, away = abs(z), abs(away)
    return z.max(axis=0), float(max(away.max(), 0.0))


def _codes(values: Array, is_symbol: bool) -> tuple[Ints, int]:
    """The code of each value and the number of codes; the last code of a number is missing."""
    if is_symbol:
        known, codes = np.unique(values, return_inverse=True)
        return codes, len(known)
    missing = np.isnan(values)
    present = values[~missing]
    if len(present) == 0:
        return np.ones(len(values), dtype=np.intp), 2
    edges = np.unique(np.quantile(present, np.arange(1, N_BINS) / N_BINS, method="lower"))
    codes = np.searchsorted(edges, values, side="left")
    codes[missing] = len(edges) + 1
    return codes, len(edges) + 2


def _standardised(rows: Array) -> Floats:
    """Columns of mean 0 and variance 1, cut at both ends; a missing value lies at the mean."""
    found = np.zeros(rows.shape)
    for j in range(rows.shape[1]):
        here = ~np.isnan(rows[:, j])
        if not here.any():
            continue
        values = rows[here, j].astype(np.float64)
        values = np.clip(values, *np.quantile(values, [CUT, 1 - CUT], method="lower"))
        spread = values.std()
        found[here, j] = (values - values.mean()) / spread if spread > 0 else 0.0
    return found


def _evidence(values: Floats) -> Floats:
    """For each permutation: 1 / sqrt(p), by a smooth tail of its statistic.

    The square of each statistic has about an exponential tail, which the middle and the upper tenth
    of the permutations tell. Beyond, p goes on to fall where ranks cannot, so that one statistic
    is enough for the smallest p-value of all. Sums of 1 / sqrt(p) lie between the smallest p, which
    is best where one statistic sees the difference, and the product, where all do.
    """
    squares = values * abs(values)
    middle, upper = np.quantile(squares, [0.5, 0.9])
    if upper <= middle:
        return 1 / np.sqrt(_p_of_each(values))
    log_p = -(squares - middle) / (upper - middle) * np.log(0.5 / 0.1) + np.log(0.5)
    found: Floats = np.exp(np.clip(-log_p / 2, 0.0, MOST_EVIDENCE))
    return found


def _p_of_each(values: Floats) -> Floats:
    """For each permutation: the share of all of them whose statistic is at least as large."""
    least = values - ROUNDING * abs(values)
    below = np.searchsorted(np.sort(values), least, side="left")
    found: Floats = (len(values) - below) / len(values)
    return found
