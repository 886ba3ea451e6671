"""Which columns put new rows out of distribution, in words."""

from __future__ import annotations

import reprlib
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from .._utils.arrays import Array, Bools, Floats, Ints
from ..core.execution import Execution
from ..core.roles import DATE, ColumnRoles, days_as_text
from ..core.table import column_values
from ..gate.explanation import surprises
from ..parents.pipeline import decoded_levels
from .fitted_model import Answer, FittedModel

MOST = 0.5
# Columns and values that are named at most.
MOST_NAMED = 3
# Relative error of numbers that are equal.
EQUAL = 1e-6
OTHER_TIME = (
    ". Rows of another time are out, since no training row says anything about it: fit again with "
    "newer rows, or without this column, or with its month or weekday in its place"
)


def blamed(
    model: FittedModel, some: Answer, X: Any, columns: ColumnRoles | None, execution: Execution
) -> str:
    """What most of some rows have that no training row has, as ": column ..."; may be empty.

    ``X`` is a frame of narwhals with the same rows as the user gave them, or None. Where no value
    is new, it is the column that is the most surprising one in most rows, if there is one.
    """
    new = _new_values(model, some)
    share = new.mean(axis=0)
    found = [int(j) for j in np.argsort(-share, kind="stable") if share[j] > MOST]
    given = getattr(X, "columns", None)
    if columns is not None and not columns.unchanged:
        given = columns.features
    names = model.parent.feature_names(some.reading.features, given)
    if len(found) > MOST_NAMED:
        shown = ", ".join(repr(names[j]) for j in found[:MOST_NAMED])
        return (
            f": {len(found)} of the {len(names)} columns hold values that no training row has, "
            f"such as {shown}"
        )
    if not found:
        found, new = _surprising(model, some, execution)
    words = []
    for j in found:
        rows = np.flatnonzero(new[:, j])
        words.append(_words(model, some, X, columns, names[j], j, rows))
    return f": {'; '.join(words)}" if words else ""


def _new_values(model: FittedModel, some: Answer) -> Bools:
    """Which values no training row has: unknown levels, and numbers out of the range."""
    table, ranges = model.reference.table, model.reference.density.ranges
    n_numbers = len(table.numbers)
    new = np.zeros((len(some), n_numbers + len(table.categories)), dtype=bool)
    if ranges is not None:
        numbers = some.X[:, :n_numbers]
        new[:, table.numbers] = (numbers < ranges.low) | (numbers > ranges.high)
    for c, column in enumerate(table.categories):
        new[:, column] = some.X[:, n_numbers + c] == len(table.levels[c])
    return new


def _surprising(model: FittedModel, some: Answer, execution: Execution) -> tuple[list[int], Bools]:
    """The column that is the most surprising one in most rows, and in which rows it is."""
    reference = model.reference
    nearest = model.polytopes_shown(some, 1, execution)[0][:, 0]
    surprise = surprises(some.X, nearest, reference.density, reference.table)
    most = surprise.argmax(axis=1)[:, None] == np.arange(surprise.shape[1])
    column = int(most.sum(axis=0).argmax())
    rows = most[:, column]
    # A shift of all columns has no single one to blame.
    others = np.median(surprise[rows].sum(axis=1) - surprise[rows, column])
    if rows.mean() <= MOST or np.median(surprise[rows, column]) <= others:
        return [], most
    return [column], most


def _words(
    model: FittedModel,
    some: Answer,
    X: Any,
    columns: ColumnRoles | None,
    name: str,
    j: int,
    rows: Ints,
) -> str:
    """What is wrong with the values of one column in some rows."""
    table = model.reference.table
    values = column_values(some.reading.features, j)[rows]
    if j in table.categories:
        c = int(np.flatnonzero(table.categories == j)[0])
        unseen = some.X[rows, len(table.numbers) + c] == len(table.levels[c])
        levels = decoded_levels(model.parent.estimator).get(j)
        if name in getattr(X, "columns", ()):
            values = X[name].to_numpy()[rows]
        elif levels is not None:  # -1 is a category that the encoder has not seen
            values = np.array([levels[int(v)] for v in values if 0 <= v < len(levels)], object)
        what = "never seen" if unseen.mean() > MOST else "that are unusual"
        return f"column {name!r} holds values {what}{_such_as(values)}"
    known = _training_range(model, j)
    given = _given(X, name)
    if given is not None:
        name, original = given
        values, known = _as_given(values, original[rows], known)
    role = None if columns is None or columns.unchanged else dict(columns.items()).get(name)
    if role is not None and role.role == DATE:
        return (
            f"column {name!r} holds dates from {days_as_text(values.min(), values.max())}"
            f"{'' if known is None else f', the training rows {days_as_text(*known)}'}{OTHER_TIME}"
        )
    if known is None or ((values >= known[0]) & (values <= known[1])).any():
        return f"column {name!r} is far from its values in the training rows{_such_as(values)}"
    return (
        f"column {name!r} is outside of its range in the training rows, {known[0]:.6g} to "
        f"{known[1]:.6g}{_such_as(values)}"
    )


def _training_range(model: FittedModel, j: int) -> Floats | None:
    """Lowest and highest training value of a number, but for a few far ones."""
    ranges = model.reference.density.ranges
    if ranges is None:
        return None
    k = int(np.flatnonzero(model.reference.table.numbers == j)[0])
    return np.array([ranges.low[k], ranges.high[k]])


def _given(X: Any, name: str) -> tuple[str, Floats] | None:
    """Name and numbers of a column that the user gave; steps of a Pipeline may have renamed it."""
    for known in (name, name.partition("__")[2]):
        if known in getattr(X, "columns", ()) and X[known].dtype.is_numeric():
            return known, X[known].cast(nw.Float64).fill_null(np.nan).to_numpy()
    return None


def _as_given(values: Floats, given: Floats, known: Floats | None) -> tuple[Floats, Floats | None]:
    """Values and range of a column as the user gave it; a step of a Pipeline may have scaled it."""
    values = values.astype(float)
    if np.allclose(values, given, rtol=EQUAL) or np.isnan(given).any():
        return values, known
    if known is None or np.ptp(values) == 0:
        return given, None
    scale, shift = np.polyfit(values, given, 1)
    is_linear = np.allclose(scale * values + shift, given, atol=EQUAL * np.ptp(given))
    return given, scale * known + shift if is_linear else None


def _such_as(values: Array) -> str:
    shown = [f"{v:.6g}" if isinstance(v, float) else reprlib.repr(v) for v in values.tolist()]
    named = list(dict.fromkeys(shown))[:MOST_NAMED]
    return f", such as {', '.join(named)}" if named else ""
