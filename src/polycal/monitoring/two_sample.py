"""Whether two samples differ: several statistics with one permutation null.

Under the null hypothesis known rows and rows of the batch are exchangeable, so that any statistic
of all rows has the same distribution when the rows trade places at random. Each statistic becomes
its rank among these, and the smallest rank is judged by the same permutations: the p-value is valid
at any sample size, whatever the features are (Westfall and Young).
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
# Hyperplanes whose sides are compared, and the ridge of their covariance, in variances of one.
N_PLANES = 256
RIDGE = 30.0
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
    found = {"columns": by_column.max(axis=0), "sides": side_statistic(rows, batch, rng)}
    largest = float(distance.max(initial=0.0))
    for name, score in scores.items():
        found[name], away = tail_statistic(score, batch)
        largest = max(largest, away)
    ranks = {name: _p_of_each(values) for name, values in found.items()}
    smallest = np.min(list(ranks.values()), axis=0)
    p_value = float((smallest <= smallest[0] * (1 + ROUNDING)).mean())
    beyond = found["columns"] >= by_column[:, :1] * (1 - ROUNDING)
    parts = {name: float(p[0]) for name, p in ranks.items()}
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


def side_statistic(rows: Array, batch: Array, rng: np.random.Generator) -> Floats:
    """Distance between the mean sides of random hyperplanes, in their own covariance.

    It is what a ridge regression of batch against known rows explains. Each plane passes through a
    random row and sees a random subset of the columns, by their ranks.
    """
    ranks = _ranks(rows)
    n, n_columns = ranks.shape
    sides = np.empty((n, N_PLANES))
    for k in range(N_PLANES):
        chosen = rng.permutation(n_columns)[: int(np.ceil(n_columns ** rng.random()))]
        values = ranks[:, chosen] @ rng.normal(size=len(chosen))
        sides[:, k] = values > values[rng.integers(n)]
    spread = sides.std(axis=0)
    sides = (sides - sides.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    power, axes = np.linalg.eigh(sides.T @ sides / n)
    mean = (batch.T @ sides) @ axes
    found: Floats = (mean**2 / (np.maximum(power, 0.0) + RIDGE)).sum(axis=1)
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


def _ranks(rows: Array) -> Floats:
    """Each column by its ranks, from -1 to 1; equal values share a rank, missing ones are 0."""
    found = np.empty(rows.shape)
    for j in range(rows.shape[1]):
        ordered = np.sort(rows[:, j])
        n = int(np.count_nonzero(~np.isnan(ordered)))
        low = np.searchsorted(ordered[:n], rows[:, j], "left")
        high = np.searchsorted(ordered[:n], rows[:, j], "right")
        found[:, j] = np.where(np.isnan(rows[:, j]), 0.0, (low + high) / max(n, 1) - 1)
    return found


def _p_of_each(values: Floats) -> Floats:
    """For each permutation: the share of all of them whose statistic is at least as large."""
    least = values - ROUNDING * abs(values)
    below = np.searchsorted(np.sort(values), least, side="left")
    found: Floats = (len(values) - below) / len(values)
    return found
