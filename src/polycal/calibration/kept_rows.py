"""Rows that a fitted model keeps, as they were scored: what new rows are compared with later."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .._utils.arrays import Floats, Ints, Singles
from .._utils.saved import saved_array
from ..core.execution import Execution
from ..core.reading import LabelledRows, Reading
from ..gate.gate import Gate
from ..posterior.posterior import Posterior
from ..posterior.votes import QueryVotes
from .folds import (
    CalibrationFold,
    alone_in_polytope,
    concatenated,
    groups_of,
    parts_of,
    stratified_parts,
)
from .reference_set import ReferenceSet

# Calibration rows that are kept, at most: the share of 10,000 rows that meet something is known to
# half a percent.
MOST_KEPT = 10_000
# Fit rows that are kept, at most; each is scored once more for this.
MOST_FIT_ROWS = 5000
# Of each class at least this many calibration rows are kept, as far as there are.
LEAST_OF_CLASS = 200
# Numbers of one array of kept rows, at most: 8 MiB of features, 16 MiB of probabilities.
MOST_NUMBERS = 2**21
# Of a sum of probabilities.
ROUNDING = 1e-6


@dataclass(frozen=True)
class KeptRows:
    """Calibration rows as the model answers for them, and rows that the parent was fitted on.

    Calibration rows are in random order, and each is scored without its own label. Where they are
    training rows ("oob", "cv"), stand-ins for the model scored them, and no fit rows are kept:
    the same rows would stand on both sides. Rows with very many features are kept without them
    but for the first ones; features are encoded, and NaN where a value is missing.
    """

    log_f: Floats = saved_array("float64 kept", least=-np.inf, most=np.inf)
    y: Ints = saved_array("int64 kept")  # class codes
    # each class has its share of the weight of all calibration rows, also where more of it is kept
    weight: Floats = saved_array("float64 kept")
    group: Ints = saved_array("int64 kept")  # rows of one group, or copies, have one number
    probabilities: Floats = saved_array("float64 kept classes")
    X: Singles = saved_array("float32 kept_features encoded", missing=True)  # of the first rows
    X_fit: Singles = saved_array("float32 kept_fit encoded", missing=True)
    # of fit rows, each without itself
    log_f_fit: Floats = saved_array("float64 kept_fit", least=-np.inf, most=np.inf)

    def __len__(self) -> int:
        return len(self.log_f)

    @property
    def new_weight(self) -> float:
        """Weight of a new row with its group: the mean over the groups."""
        return float(self.weight.sum() / len(np.unique(self.group)))

    def two_sides(self, seed: int = 0) -> tuple[Singles, Singles]:
        """Rows to compare calibration rows and new rows with, and the calibration rows, described.

        The first are fit rows; where none are kept, they are those of a random half of the groups
        of calibration rows. So no row is on both sides.
        """
        rows = described(self.X, self.log_f[: len(self.X)])
        if len(self.X_fit):
            return described(self.X_fit, self.log_f_fit), rows
        groups = np.unique(self.group[: len(rows)])
        half = np.random.default_rng(seed).permutation(groups)[: len(groups) // 2]
        first = np.isin(self.group[: len(rows)], half)
        return rows[first], rows[~first]

    def contradictions(self) -> Iterator[str]:
        """Inconsistencies in kept rows that were read from a file, as messages."""
        if len(self.log_f) == 0 or not 0 < len(self.X) <= len(self.log_f):
            yield "there are no kept rows, or features of more rows"
            return
        if np.isnan(self.log_f).any() or np.isnan(self.log_f_fit).any():
            yield "a kept row has no score"
        if not (np.isfinite(self.weight) & (self.weight > 0)).all():
            yield "a kept row has no weight"
        if self.y.min() < 0 or self.y.max() >= self.probabilities.shape[1]:
            yield "a kept row has no class of the model"
        within = (self.probabilities >= 0) & (self.probabilities <= 1 + ROUNDING)
        sums = self.probabilities.sum(axis=1)
        if not (within.all() and np.allclose(sums, 1.0, rtol=0.0, atol=ROUNDING)):
            yield "the probabilities of a kept row do not sum to 1"
        if np.isinf(self.X).any() or np.isinf(self.X_fit).any():
            yield "a feature of a kept row is infinite"


def described(X: Floats | Singles, log_f: Floats) -> Singles:
    """Encoded features and log f in one array, as kept rows have them: finite, or NaN if missing.

    New rows must be described in this way too, or they would differ by their rounding.
    """
    return np.column_stack([single(X), single(log_f)])


def single(values: Any) -> Singles:
    """Numbers in single precision; those that it cannot hold become its largest."""
    largest = float(np.finfo(np.float32).max)
    found: Singles = np.clip(values, -largest, largest).astype(np.float32)
    return found


def keep_rows(
    folds: list[CalibrationFold],
    X: Floats,
    log_f: Floats,
    probabilities: Floats,
) -> KeptRows:
    """Keep random calibration rows; the arrays are those of the rows of all folds."""
    y = concatenated(folds, lambda fold: fold.rows.y)
    weight = concatenated(folds, lambda fold: fold.rows.weight)
    group = concatenated(folds, groups_of)
    n_classes = probabilities.shape[1]
    kept = sample_of_classes(y, n_classes, min(MOST_KEPT, max(1, MOST_NUMBERS // n_classes)))
    some = kept[: max(1, MOST_NUMBERS // max(1, X.shape[1]))]
    all_of, kept_of = (
        np.bincount(y[rows], weight[rows], n_classes) for rows in (slice(None), kept)
    )
    share = all_of / weight.sum() / np.maximum(kept_of / weight[kept].sum(), 1e-300)
    none = np.empty((0, X.shape[1]), dtype=np.float32), np.empty(0)
    _, group = np.unique(group[kept], return_inverse=True)
    return KeptRows(
        log_f[kept],
        y[kept],
        weight[kept] * share[y[kept]],
        group,
        probabilities[kept],
        single(X[some]),
        *none,
    )


def with_fit_rows(
    kept: KeptRows,
    reference: ReferenceSet,
    reading: Reading,
    rows: LabelledRows,
    gate: Gate,
    posterior: Posterior,
    execution: Execution,
) -> KeptRows:
    """Keep random rows that the parent was fitted on too, each scored without itself."""
    most = min(MOST_FIT_ROWS, max(1, MOST_NUMBERS // max(1, kept.X.shape[1])))
    place = np.random.default_rng(0).permutation(len(rows))[:most]
    owner = reference.row_polytope
    own = np.where(alone_in_polytope(reference.polytopes.size, owner, rows), owner, -1)
    parts = [place]
    if isinstance(reference.votes, QueryVotes):
        groups = None if rows.groups is None else rows.groups[place]
        parts = [place[part] for _, part in parts_of(stratified_parts(rows.y[place], groups))]
    X, log_f = [], []
    for part in parts:
        some = rows.take(part)
        others = reference
        if isinstance(reference.votes, QueryVotes):
            others = reference.without_labels(part, some)
        read = reading.take(part)
        fold = CalibrationFold.score(others, read, some, execution, own[part], own_row=part)
        votes = fold.votes(execution) if posterior.n_votes else None
        log_pi = posterior.log_proba(fold.reading.proba, votes, execution.n_jobs)
        found = gate.log_f(fold.gate_input(execution.n_jobs))
        log_f.append(gate.lifted(found, posterior.lift(log_pi)))
        X.append(single(fold.X))
    return replace(kept, X_fit=np.concatenate(X), log_f_fit=np.concatenate(log_f))


def sample_of_classes(y: Ints, n_classes: int, most: int) -> Ints:
    """Numbers of random rows in random order: classes in their shares, but more of rare ones."""
    rng = np.random.default_rng(0)
    if len(y) <= most:
        return rng.permutation(len(y))
    least, share, found = min(LEAST_OF_CLASS, most // (2 * n_classes)), most / len(y), []
    for code in np.unique(y):
        members = rng.permutation(np.flatnonzero(y == code))
        found.append(members[: max(least, round(share * len(members)), 1)])
    return rng.permutation(np.concatenate(found))
