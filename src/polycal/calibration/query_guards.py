"""Guards of queries: test rows that the model knows, and new rows that it knows nothing of."""

from __future__ import annotations

import reprlib

import numpy as np
from scipy.stats import binom

from .._utils.arrays import Array, Bools, Floats
from .._utils.warnings import LeakWarning, ShiftWarning, warn
from ..core.copies import CHANCE
from ..core.execution import Execution
from ..core.table import column_values
from ..gate.explanation import surprises
from ..parents.pipeline import decoded_levels
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
    model: FittedModel, answer: Answer, names: Array | None, execution: Execution
) -> None:
    """Warn if most of some new rows are out of distribution, and say which column is to blame."""
    n, log_f = len(answer), answer.log_f
    if n < LEAST_ROWS or np.median(log_f) >= np.median(model.scores.log_f):
        return
    level = model.false_alarm
    out = model.scores.is_below(log_f, model.scores.verdict_floor(level))
    if out.mean() <= MOST or binom.sf(out.sum() - 1, n, level) >= SURE:
        return
    some = answer.take(np.flatnonzero(out)[:LOOKED_AT])
    blamed = _blamed(model, some, names, execution)
    warn(
        f"{out.mean():.0%} of the {n} rows are out of distribution, {level:.0%} were expected"
        f"{blamed}. The farther out, the more the answers are the class priors; explain(X) says "
        "why for each row.",
        ShiftWarning,
    )


def _blamed(model: FittedModel, some: Answer, names: Array | None, execution: Execution) -> str:
    """The column that is the most surprising one in most rows, in words; empty without one."""
    reference = model.reference
    nearest = model.polytopes_shown(some, 1, execution)[0][:, 0]
    surprise = surprises(some.X, nearest, reference.density, reference.table)
    column = int(np.bincount(surprise.argmax(axis=1)).argmax())
    rows = surprise.argmax(axis=1) == column
    # A shift of all columns has no single one to blame.
    others = np.median(surprise[rows].sum(axis=1) - surprise[rows, column])
    if rows.mean() <= MOST or np.median(surprise[rows, column]) <= others:
        return ""
    features = some.reading.features
    name = model.parent.feature_names(features, names)[column]
    values = column_values(features, column)[rows].tolist()
    levels = decoded_levels(model.parent.estimator).get(column)
    if levels is not None:  # -1 is a category that the encoder has not seen
        values = [levels[int(code)] for code in values if 0 <= code < len(levels)]
    shown = ", ".join(reprlib.repr(value) for value in dict.fromkeys(values[:3]))
    found = f": column {name!r} {_words(model, some.X[rows], column)}"
    return f"{found}, such as {shown}" if shown else found


def _words(model: FittedModel, X: Floats, column: int) -> str:
    """What is wrong with most values of a column."""
    table = model.reference.table
    place = np.flatnonzero(table.categories == column)
    if len(place) == 0:
        return "is far from its values in the training rows"
    c = int(place[0])
    unseen = X[:, len(table.numbers) + c] == len(table.levels[c])
    return "holds values never seen" if unseen.mean() > MOST else "holds values that are unusual"
