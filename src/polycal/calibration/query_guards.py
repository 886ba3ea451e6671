"""Guards of queries: test rows that the model knows, and new rows that it knows nothing of."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import binom

from .._utils.arrays import Bools, Ints
from .._utils.warnings import LeakWarning, ShiftWarning, warn
from ..core.copies import CHANCE
from ..core.execution import Execution
from ..core.roles import ColumnRoles, as_frame
from .blame import blamed
from .fitted_model import Answer, FittedModel

# Fewer rows are no table, and say nothing about a shift.
LEAST_ROWS = 10
# Share of rows that stand among the training rows above which it is no accident.
OFTEN = 0.2
MOST = 0.5
# Chance of a warning about rows that are like the training rows.
SURE = 1e-6
# Rows that are looked at to find the column that is to blame.
LOOKED_AT = 200
# Relative difference that is no more than the rounding of a network.
ROUNDING = 1e-6


def warn_of_seen_rows(model: FittedModel, answer: Answer) -> None:
    """Warn if many rows that a model is judged by are among those that it was fitted on."""
    seen, known = _seen(model, answer)
    if seen.sum() < LEAST_ROWS or seen.sum() <= OFTEN * known.sum():
        return
    warn(
        f"{seen.sum()} of the {len(seen)} rows stand among the training rows of the model, so that "
        "these figures are better than those of new rows will be. Give rows that it was not "
        "fitted on.",
        LeakWarning,
    )


def _seen(model: FittedModel, answer: Answer) -> tuple[Bools, Bools]:
    """Which rows are equal to a training row, and of which that is known.

    Of a polytope of several rows only the mean is known. Rows of discrete data that are equal by
    chance do not count as seen.
    """
    reference = model.reference
    polytopes, table = reference.polytopes, reference.table
    nearest = np.maximum(answer.neighbours.index[:, 0], 0)
    alone = np.bincount(reference.row_polytope, minlength=len(polytopes)) == 1
    known = alone[nearest] | (answer.neighbours.similarity[:, 0] < 1)
    n_numbers = polytopes.mean.shape[1]
    numbers = np.nan_to_num(answer.X[:, :n_numbers])  # the mean of no number is 0
    close = np.isclose(numbers, polytopes.mean[nearest], rtol=ROUNDING, atol=0.0)
    seen = alone[nearest] & (answer.neighbours.index[:, 0] >= 0) & close.all(axis=1)
    log_expected = np.full(len(seen), np.log(len(reference.row_id)))
    for j in range(n_numbers):
        column = np.sort(polytopes.mean[alone, j])
        sides = (np.searchsorted(column, numbers[:, j], side=side) for side in ("left", "right"))
        first, last = sides
        log_expected += np.log(np.maximum(last - first, 1) / max(len(column), 1))
    share = np.maximum((polytopes.levels > 0).mean(axis=0), 1 / len(polytopes))
    for c, offset in enumerate(table.level_offsets[:-1]):
        level = offset + answer.X[:, n_numbers + c].astype(np.int64)
        seen &= polytopes.levels[nearest, level] > 0
        log_expected += np.log(share[level])
    return seen & (log_expected < np.log(CHANCE)), known


def warn_of_shift(
    model: FittedModel, answer: Answer, X: Any, columns: ColumnRoles | None, execution: Execution
) -> bool:
    """Warn if most of some new rows are out of distribution, and say which column is to blame.

    ``X`` has the rows, and ``columns`` the roles of its columns. Returns whether there was reason.
    """
    n, log_f = len(answer), answer.log_f
    if n < LEAST_ROWS or np.median(log_f) >= np.median(model.scores.log_f):
        return False
    level = model.false_alarm
    out = model.scores.is_below(log_f, model.scores.verdict_floor(level))
    if out.mean() <= MOST or binom.sf(out.sum() - 1, n, level) >= SURE:
        return False
    rows = np.flatnonzero(out)[:LOOKED_AT]
    why = blamed(model, answer.take(rows), _rows(X, rows), columns, execution)
    warn(
        f"{out.mean():.0%} of the {n} rows are out of distribution, {level:.0%} were expected"
        f"{why}. The farther out, the more the answers are the class priors; explain says why for "
        "each row.",
        ShiftWarning,
    )
    return True


def _rows(X: Any, rows: Ints) -> Any:
    """Some rows of a frame; None for what has no names of columns."""
    frame = as_frame(X)
    return None if frame is None else frame[rows.tolist()]
