"""The two sides of a comparison: rows that a fitted model knows, and rows to learn from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._utils.arrays import Array, Bools, Ints
from ..calibration.fitted_model import EXACT_PLANS, FittedModel
from ..calibration.kept_rows import described
from .conformal import one_of_each

# Known rows that a batch is compared with: so many times its own rows, but at least LEAST_KNOWN.
TIMES, LEAST_KNOWN = 2, 1000
# Where no fit rows are kept: part of the calibration rows that a classifier learns from instead.
LEARNT_FROM = 1 / 3
# Fewer known rows cannot carry a comparison.
LEAST_ROWS = 20


@dataclass(frozen=True)
class Sides:
    """Rows as ``described``: encoded features, and log f as the last column.

    ``known`` rows are exchangeable with new rows that are not shifted. With the plans "oob" and
    "cv" (``exact`` is False) that is so of their features alone: stand-ins for the model scored
    them.
    """

    reference: Array
    known: Array
    is_symbol: Bools  # of each column
    exact: bool

    @classmethod
    def of(cls, model: FittedModel, n_new: int, rng: np.random.Generator) -> Sides:
        """Sides for a batch of ``n_new`` rows."""
        kept = model.known_rows
        rows = described(kept.X, kept.log_f[: len(kept.X)])
        usable = one_of_each(kept.group[: len(rows)], kept.weight[: len(rows)], rng)
        if len(usable) < LEAST_ROWS:
            raise ValueError(
                f"the model has {len(usable)} independent calibration rows of equal weight; a "
                f"batch can be compared with {LEAST_ROWS} or more. Fit it with more calibration "
                "rows, or with weights that are more even."
            )
        exact = model.plan in EXACT_PLANS
        usable = rng.permutation(usable)
        n_known = len(usable) if len(kept.X_fit) else int((1 - LEARNT_FROM) * len(usable))
        n_known = min(n_known, max(TIMES * n_new, LEAST_KNOWN))
        reference = rows[usable[n_known:]]
        if len(kept.X_fit):
            reference = np.concatenate([described(kept.X_fit, kept.log_f_fit), reference])
        is_symbol = np.zeros(rows.shape[1], dtype=bool)
        is_symbol[len(model.reference.table.numbers) : -1] = True
        return cls(reference, rows[usable[:n_known]], is_symbol, exact)


def column_sources(model: FittedModel) -> Ints:
    """The feature that each encoded column comes from."""
    table = model.reference.table
    found: Ints = np.concatenate(
        [table.numbers, table.categories, table.numbers[table.with_missing]]
    ).astype(np.intp)
    return found
