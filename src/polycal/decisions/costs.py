"""Costs of answers: the cheapest class of each row, and what it is expected to cost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .._utils.arrays import Array, Floats, Ints

# Costs at most, so that sums of them are finite.
LARGEST = 1e100


def cost_matrix(costs: Any, classes: Array) -> Floats:
    """Cost of each predicted class (columns) where another one is right (rows).

    A mapping has pairs (right label, predicted label); a wrong answer that it lacks costs 1, and a
    right one 0. None is the empty mapping.
    """
    n = len(classes)
    if costs is None or isinstance(costs, Mapping):
        matrix = 1.0 - np.eye(n)
        place = {label: i for i, label in enumerate(classes.tolist())}
        for pair, cost in (costs or {}).items():
            known = isinstance(pair, tuple) and len(pair) == 2 and all(p in place for p in pair)
            if not known:
                raise ValueError(
                    "the keys of costs must be pairs (right label, predicted label) of labels in "
                    f"classes_, {classes.tolist()[:10]}; got {pair!r}. The cost of a review is the "
                    "argument review."
                )
            matrix[place[pair[0]], place[pair[1]]] = _number(cost, pair)
        return matrix
    try:
        matrix = np.empty(0) if np.iscomplexobj(costs) else np.asarray(costs, dtype=float)
    except (TypeError, ValueError):
        matrix = np.empty(0)
    if matrix.shape != (n, n) or not (np.abs(matrix) <= LARGEST).all():
        raise ValueError(
            f"costs must be a table of {n} x {n} numbers up to {LARGEST:g} (rows: the right class, "
            "columns: the predicted one, in the order of classes_), or a dict with pairs (right "
            f"label, predicted label); got {costs!r}."
        )
    return matrix


def _number(cost: Any, pair: Any) -> float:
    try:
        value = float(cost)
    except (TypeError, ValueError):
        value = np.nan
    if not abs(value) <= LARGEST:
        raise ValueError(f"the cost of {pair!r} must be a number up to {LARGEST:g}; got {cost!r}.")
    return value


def cheapest(probabilities: Floats, costs: Floats, most_probable: Ints) -> tuple[Ints, Floats]:
    """Class of lowest expected cost in each row, and that cost.

    Among classes of equal cost, that is ``most_probable`` where it is one of them.
    """
    expected = probabilities @ costs
    rows = np.arange(len(expected))
    lowest = expected.min(axis=1)
    tied = expected[rows, most_probable] <= lowest + 1e-12 * np.abs(lowest)
    chosen: Ints = np.where(tied, most_probable, expected.argmin(axis=1))
    return chosen, expected[rows, chosen]
