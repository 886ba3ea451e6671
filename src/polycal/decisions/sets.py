"""Sets of classes that hold the right one in a wanted share of the rows (split conformal)."""

from __future__ import annotations

import numpy as np

from .._utils.arrays import Bools, Floats, Ints
from .rows import JudgedRows

# Share of a probability or of a sum of weights that is no more than rounding.
ROUNDING = 1e-9


def least_probabilities(rows: JudgedRows, coverage: float, by_class: bool = False) -> Floats:
    """Probability from which on each class is in a set, shape (n_classes,).

    The sets of rows that are exchangeable with these hold the class of at least ``coverage`` of
    them; with ``by_class``, of each class. A row that is out has a set of all classes, and so has
    every row where there are too few rows for the promise (0).

    Of all sets with this coverage, those of the classes above one probability are the smallest,
    as far as the probabilities are right (the score of LAC).
    """
    own = np.where(rows.out, np.inf, rows.own)
    found = np.zeros(len(rows.new_weight))
    for code, new_weight in enumerate(rows.new_weight):
        some = rows.y == code if by_class else slice(None)
        found[code] = least_covering(own[some], rows.weight[some], new_weight, coverage)
    return found


def least_covering(own: Floats, weight: Floats, new_weight: float, coverage: float) -> float:
    """The highest probability that rows of a share ``coverage`` reach, the new row included.

    With n rows of equal weight it is that of rank ceil((n + 1) coverage) from above. It is 0 where
    that rank is beyond n.
    """
    order = np.argsort(-own)
    reached = np.cumsum(weight[order])
    needed = coverage * (weight.sum() + new_weight) * (1 - ROUNDING)
    place = int(np.searchsorted(reached, needed))
    return float(own[order[place]]) * (1 - ROUNDING) if place < len(own) else 0.0


def sets_above(probabilities: Floats, out: Bools, least: Floats) -> Bools:
    """Which classes are in the set of each row: those that reach their least probability.

    All classes are in that of a row that is out: nothing is known about it.
    """
    found: Bools = (probabilities >= least) | out[:, None]
    return found


def unpromised(rows: JudgedRows, coverage: float) -> Ints:
    """Classes that have too few rows for a coverage of their own."""
    few = []
    for code, new_weight in enumerate(rows.new_weight):
        total = rows.weight[rows.y == code].sum()
        if total < coverage * (total + new_weight) * (1 - ROUNDING):
            few.append(code)
    return np.array(few, dtype=int)


def least_rows(coverage: float) -> int:
    """Number of rows that a coverage needs."""
    return int(np.ceil(coverage / (1 - coverage) * (1 - ROUNDING)))
