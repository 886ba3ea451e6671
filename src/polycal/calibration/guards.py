"""Guards against fooling oneself: rows that are not new, and rows that are too few.

Each guard stays silent where chance alone would explain what it sees.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from inspect import signature
from typing import Any

import numpy as np
from scipy.stats import binom
from sklearn.ensemble import RandomForestClassifier

from .._utils.arrays import Array, Floats, Ints
from .._utils.sklearn_compat import take_rows
from .._utils.warnings import DataWarning, FewRowsWarning, LeakWarning, warn
from ..core.copies import LowestHashes, copies_between
from ..core.reading import LabelledRows
from ..core.table import column_values, n_columns
from ..gate.floor import CalibrationScores
from ..parents import Adapter
from ..parents.base import is_a
from .folds import CalibrationFold, concatenated
from .reference_set import ReferenceSet

# Chance of an error about copies where there are copies by nature.
SURE = 0.001
# A parent that makes fewer errors than this part of an honest copy's is suspected ...
FAR_BETTER = 0.25
# ... if chance would make it so good less often than this.
CHANCE = 0.01
# What is wrong with calibration rows that are among those of the fit.
NOT_NEW = (
    "The parent knows the labels of these rows, so that a calibration on them would be far too "
    "sure. Give rows as X_cal that the parent was not fitted on"
)
# Fewest rows of which a column tells the label by more than chance, and rows that are looked at
# before all are.
LEAST_ROWS = 20
LOOKED_AT = 1000
# Rows that the honest copy is fitted on, and judged by, at most.
MOST_ROWS = 2000


def check_new_rows(X: Any, X_cal: Any) -> None:
    """Raise an error if rows of X_cal stand in X too, more of them than a random split would put.

    A table may have copies by nature, and then they are on both sides of an honest split too.
    """
    shared, chance = copies_between(X, X_cal)
    if chance < SURE:
        raise ValueError(
            f"{int(shared.sum())} of the {len(shared)} rows of X_cal also stand in X, the first is "
            f"row {int(np.argmax(shared))} of X_cal. {NOT_NEW}; without any, leave X_cal out and "
            "give the parent unfitted, and polycal calibrates it by rows that it holds out."
        )


def check_new_hashes(X: LowestHashes, X_cal: LowestHashes) -> None:
    """``check_new_rows`` for tables of which only the lowest hashes of their rows are known."""
    n_shared, n_compared, chance = X_cal.shared_with(X)
    if chance < SURE:
        compared = "" if n_compared == X_cal.n_rows else f" of {X_cal.n_rows} that were compared"
        raise ValueError(
            f"{n_shared} of the {n_compared} rows of X_cal{compared} also stand in X. {NOT_NEW}; "
            'without any, leave X_cal out, and calibration="holdout" sets rows of X apart, if the '
            "parent was not fitted on X."
        )


def check_fit_parameters(parent: Adapter, parameters: dict[str, Any]) -> None:
    """Raise for arguments of ``fit`` that would not reach a fit, or that it lacks."""
    estimator, name = parent.estimator, type(parent.estimator).__name__
    if not parent.is_fitted and type(estimator).__module__.startswith(("lightgbm", "xgboost")):
        stops = estimator.get_params().get("early_stopping_rounds")
        if stops and not any(given.startswith("eval_") for given in parameters):
            raise ValueError(
                f"early_stopping_rounds={stops} of {name} needs rows to stop by: fit(X, y, "
                "eval_set=[(X_stop, y_stop)]), with rows that are not in X. Or leave it out."
            )
    if parameters and parent.is_fitted:
        raise TypeError(
            f"fit got {', '.join(parameters)}, which go to the parent's fit, but the parent is "
            "fitted already. Leave them out, or give the parent unfitted."
        )
    if not parameters:
        return
    if is_a(estimator, "sklearn", "Pipeline"):
        plain = next((given for given in parameters if "__" not in given), None)
        if plain is not None:
            step = estimator.steps[-1][0]
            raise TypeError(
                f"fit got {plain!r}, and the parent is a Pipeline, whose steps take arguments by "
                f"their names. Give {step}__{plain}, with rows as that step gets them."
            )
    taken = signature(estimator.fit).parameters
    if any(argument.kind is argument.VAR_KEYWORD for argument in taken.values()):
        return
    unknown = [name for name in parameters if name not in taken]
    if unknown:
        raise TypeError(
            f"fit got the unexpected keyword argument {unknown[0]!r}: neither polycal nor "
            f"{name}.fit takes it, which takes {list(taken)}."
        )


def warn_of_stopping_rows(name: str, X: Any, X_cal: Any, rows: Any) -> None:
    """Warn if the fit may stop by rows that it is calibrated on."""
    known, where = (X, "X") if X_cal is None else (X_cal, "X_cal")
    shared, chance = copies_between(known, rows)
    if chance < SURE:
        warn(
            f"{int(shared.sum())} of the {len(shared)} rows of {name} also stand in {where}, by "
            "which the model is calibrated: a fit that stops where these rows are answered best "
            f"is judged too well by them. Give rows as {name} that are not in {where}.",
            LeakWarning,
        )


def warn_of_other_order(X: Any, y: Any, names: tuple[str, str] = ("X", "y")) -> None:
    """Warn if X and y of pandas have the same index in another order: rows go by position."""
    first: Any = getattr(X, "index", None)
    second: Any = getattr(y, "index", None)
    if not (hasattr(first, "equals") and hasattr(second, "equals")) or first.equals(second):
        return
    if len(first) == len(second) and first.is_unique and first.isin(second).all():
        table, labels = names
        warn(
            f"{table} and {labels} have the same index, but in another order, and rows go by their "
            f"position. If a label belongs to the row of its index, give {labels}.loc["
            f"{table}.index]; if not, {labels}.reset_index(drop=True).",
            DataWarning,
        )


def warn_of_label_column(X: Any, codes: Ints) -> None:
    """Warn if a column has one value for each class, and no other, in all rows."""
    is_table = hasattr(X, "columns") or (isinstance(X, np.ndarray) and X.ndim == 2)
    if not is_table or len(codes) < LEAST_ROWS:
        return
    names = [str(name) for name in X.columns] if hasattr(X, "columns") else range(n_columns(X))
    few = take_rows(X, np.arange(min(LOOKED_AT, len(codes))))
    found = [
        name
        for j, name in enumerate(names)
        if _tells_label(column_values(few, j), codes[:LOOKED_AT])
        and _tells_label(column_values(X, j), codes)
    ]
    if found:
        warn(
            f"column {found[0]!r} tells the label of every row: each class has one value there. "
            "If it was made from the label, or is known no sooner than the label is, new rows will "
            "not have it: leave it out.",
            LeakWarning,
        )


def _tells_label(column: Array, codes: Ints) -> bool:
    """Whether values and classes go together one by one."""
    if column.ndim > 1:
        return False
    of_value: dict[Any, int] = {}
    try:
        for value, code in zip(column.tolist(), codes.tolist(), strict=True):
            if of_value.setdefault(value, code) != code:
                return False
    except TypeError:  # a value that cannot be looked up, such as a list
        return False
    return 1 < len(of_value) == len(set(of_value.values()))


def say_what_is_assumed(calibration: Any) -> None:
    """Warn that a fitted parent is taken to be new to all rows."""
    if not isinstance(calibration, str) or calibration != "auto":  # the user has said so
        return
    warn(
        "the parent is fitted already and there is no X_cal, so all rows of X are taken to be new "
        "to it. If it was fitted on rows of X, the probabilities will be far too sure: give its "
        "training rows as X and new rows as X_cal and y_cal, or give the parent unfitted. If X is "
        'new to it, calibration="holdout" says so, without this warning.',
        LeakWarning,
    )


def warn_of_few_rows(scores: CalibrationScores, level: float) -> None:
    """Warn if there are too few calibration rows for the false-alarm bound."""
    n, needed = scores.n_independent, scores.least_rows(level)
    if n >= needed:
        return
    enough = math.ceil(1000 * _level_for(scores)) / 1000
    remedy = f", or use false_alarm={enough:g}" if enough < 0.5 else ""
    warn(
        f"{n:.0f} independent calibration rows are too few for false_alarm={level:g}, which needs "
        f"{math.ceil(needed)}: the floor is extrapolated, and no share of false alarms is "
        f"promised. Give more rows{remedy}.",
        FewRowsWarning,
    )


def _level_for(scores: CalibrationScores) -> float:
    """The lowest level that the calibration rows are enough for."""
    if scores.confidence is None:
        return 1 / (scores.n_independent + 1)
    return 1 - float((1 - scores.confidence) ** (1 / scores.n_independent))


def warn_of_memory(
    parent: Adapter,
    rows: LabelledRows,
    held: LabelledRows | None,
    classes: Array,
    reference: ReferenceSet,
    folds: list[CalibrationFold],
    votes: Floats | None,
) -> None:
    """Warn if a frozen parent knows the labels of the calibration rows by heart.

    One that keeps its training rows, as k-NN does, may hold them. Any other one makes hardly any
    error on them, where rows on the same side of hyperplanes, which know nothing of the parent, say
    little; and where a copy of it, which is fitted on some of the other rows, makes many.
    """
    if _warn_of_kept_rows(parent, folds):
        return
    y = concatenated(folds, lambda fold: fold.rows.y)
    proba = concatenated(folds, lambda fold: fold.reading.proba)
    wrong = proba.argmax(axis=1) != y
    others = [(np.bincount(y).argmax() != y).sum()]
    n_planes = reference.witnesses.get("hyperplanes", 0)
    if votes is not None and n_planes:
        others += [(part.argmax(axis=1) != y).sum() for part in votes[-n_planes:]]
    if not _far_better(int(wrong.sum()), int(min(others))):
        return
    rng = np.random.default_rng(0)
    some = rng.permutation(len(y))[:MOST_ROWS]
    ids = concatenated(folds, lambda fold: fold.rows.ids)[some]
    known = rng.permutation(np.flatnonzero(np.isin(rows.ids, reference.row_id)))[:MOST_ROWS]
    if len(np.unique(rows.y[known])) < len(classes):
        return
    # In the user's own form, where the rows are at hand: given ones are of X_cal.
    X, new = rows.X, (rows if held is None else held).X
    guess = None
    if X is not None and new is not None and not parent.pretrained:
        new_at = ids if held is not None else np.searchsorted(rows.ids, ids)
        data = (take_rows(X, known), rows.y[known], classes), take_rows(new, new_at)
        guess = _guess_by_copy(parent, *data)
    if guess is None and rows.reading is not None:
        encoded = reference.table.encode(rows.reading.take(known).features)
        forest = RandomForestClassifier(random_state=0).fit(encoded, rows.y[known])
        guess = forest.predict(concatenated(folds, lambda fold: fold.X)[some])
    if guess is None:
        return
    n_wrong, n_copy = int(wrong[some].sum()), int((guess != y[some]).sum())
    if not _far_better(n_wrong, n_copy):
        return
    warn(
        f"the frozen parent is wrong on {n_wrong} of {len(some)} calibration rows; a copy that is "
        f"fitted on {len(known)} other rows, on {n_copy}. It seems to know these rows by heart, so "
        "that the probabilities will be far too sure. Give rows as X_cal that it was not fitted "
        "on. (If it was fitted on very many more rows, none of them these, all is well.)",
        LeakWarning,
    )


def _warn_of_kept_rows(parent: Adapter, folds: list[CalibrationFold]) -> bool:
    """Warn if calibration rows stand among the rows that a frozen parent keeps; whether they do."""
    X = [fold.reading.features for fold in folds]
    name = type(parent.estimator).__name__
    for kept in _tables_inside(parent.estimator, np.shape(X[0])[-1]):
        shared, chances = zip(*(copies_between(kept, part) for part in X), strict=True)
        if max(chances) < SURE:
            warn(
                f"{sum(map(sum, shared))} of {sum(map(len, shared))} calibration rows stand among "
                f"the rows that the frozen {name} was fitted on, which it keeps: the probabilities "
                "will be far too sure. Give rows as X_cal that it was not fitted on, or give the "
                "parent unfitted.",
                LeakWarning,
            )
            return True
    return False


def _tables_inside(part: Any, width: int, depth: int = 8) -> Iterator[Array]:
    """Arrays of numbers of this width that an estimator, or one inside it, has as attributes."""
    if isinstance(part, np.ndarray):
        if part.ndim == 2 and part.shape[1] == width and part.dtype.kind in "fiu":
            yield part
    elif depth and isinstance(part, (list, tuple)):
        for member in part:
            yield from _tables_inside(member, width, depth - 1)
    elif depth and hasattr(part, "get_params") and hasattr(part, "__dict__"):
        yield from _tables_inside(list(vars(part).values()), width, depth - 1)


def _far_better(n_wrong: int, n_other: int) -> bool:
    """Whether errors are fewer than a part of others' by more than chance."""
    share = FAR_BETTER / (1 + FAR_BETTER)
    return bool(binom.cdf(n_wrong, n_wrong + n_other, share) < CHANCE)


def _guess_by_copy(parent: Adapter, fitted_on: tuple[Any, Ints, Array], X: Any) -> Ints | None:
    """Class codes that a new copy of the parent gives; None if it cannot be fitted like this."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            guess: Ints = parent.fit(*fitted_on).read(X).proba.argmax(axis=1)
        except Exception:  # whatever its library raises: a guard must not stop a fit
            return None
    return guess
