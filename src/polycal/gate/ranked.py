"""Scores in several terms as one: the sum of the logarithms of their p-values (Fisher).

A p-value is a rank among the calibration rows. Their own are those without themselves, so that the
sum of a new row can be ranked among theirs: whatever ranks the new row would take from them, theirs
are counted as if it took none, and its own as if it stood above all that it equals. A new row
is then among the lowest share of them no more often than that share says.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from .._utils.arrays import Floats, is_ascending
from .._utils.saved import LARGEST_LOG, saved_array, saved_log
from .floor import ranks

# Lowest share of the calibration rows that an exponential tail stands for.
TAIL = 0.05
# Above the rounding of a weight.
SMALLEST = 1e-300


@dataclass(frozen=True)
class RankedTerms:
    """log p-value of each term as a function of its value: ranks, and a tail below.

    Guarantees: continuous; it rises with the value, and below the lowest rank it falls without end,
    in a straight line. It is 0 from the highest value on.
    """

    values: Floats = saved_array("float64 terms ranked")  # ascending
    log_p: Floats = saved_log("float64 terms ranked")  # of a new row with that value
    # by which a value falls below the first while p falls by a factor of e
    scale: Floats = saved_array("float64 terms", least=SMALLEST, most=LARGEST_LOG)

    @classmethod
    def fit(
        cls, terms: Floats, weight: Floats, new_weight: float | None = None
    ) -> tuple[RankedTerms, Floats]:
        """From the terms of the calibration rows, shape (n_terms, n_rows), and their own sums.

        ``weight`` says what each row counts for.
        """
        n = terms.shape[1]
        new = float(weight.mean() if new_weight is None else new_weight)
        # The tail holds at least a row, and at least one rank is left above it.
        n_tail = min(max(1, int(TAIL * n)), n - 1)
        values, log_p, scale = [], [], []
        own = np.empty_like(terms)
        for term, found in zip(terms, own, strict=True):
            order = np.argsort(term, kind="stable")
            value, size = term[order], weight[order]
            # A row stands above all that it equals.
            last = np.searchsorted(value, value, side="right") - 1
            above = ((np.cumsum(size) + new) / (size.sum() + new))[last]
            log_rank = np.log(ranks(size, new_weight)[last])
            scale.append(slope(value[n_tail:], log_rank[n_tail:]))
            log_rank[:n_tail] = log_rank[n_tail] - (value[n_tail] - value[:n_tail]) / scale[-1]
            found[order] = log_rank
            values.append(value[max(n_tail - 1, 0) :])
            log_p.append(np.log(above[max(n_tail - 1, 0) :]))
        return cls(np.stack(values), np.stack(log_p), np.array(scale)), own.sum(axis=0)

    def sums(self, terms: Floats) -> Floats:
        """Sum over the terms of the log p-values of new rows."""
        total = np.zeros(terms.shape[1])
        for j, term in enumerate(terms):
            values, log_p = self.values[j], self.log_p[j]
            beyond = np.minimum(term - values[0], 0.0) / self.scale[j]
            total += np.interp(term, values, log_p) + beyond
        return total

    def contradictions(self) -> Iterator[str]:
        """Inconsistencies in ranks that were read from a file, as messages."""
        if self.values.shape[1] == 0:
            yield "terms are ranked among no rows"
        elif not all(map(is_ascending, self.values)) or not all(map(is_ascending, self.log_p)):
            yield "the ranks of a term do not rise with its values"


def slope(values: Floats, log_p: Floats) -> float:
    """How fast log p rises above the tail, up to the quartile; the tail goes on so.

    The rows of the tail say nothing: each would be judged by a slope that it has a part in.
    """
    last = max(int(np.searchsorted(log_p, np.log(0.25))), 1)
    if len(values) <= last or not values[last] > values[0]:
        return 1.0
    return float((values[last] - values[0]) / (log_p[last] - log_p[0]))
