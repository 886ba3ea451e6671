"""Calibration folds: rows with a reference set that was built without them, and the splits."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedGroupKFold
from sklearn.utils import check_random_state
from tqdm.auto import tqdm

from .._utils.arrays import Array, Floats, Ints
from .._utils.significance import WEIGHT_ROUNDING
from ..core.execution import Execution
from ..core.neighbours import Neighbours
from ..core.reading import LabelledRows, Reading
from ..gate.gate import GateInput
from ..kernels import Search
from ..parents import Adapter
from ..posterior.votes import QueryVotes
from .reference_set import ReferenceSet, ReferenceSettings

# Number of parts that rows are split into, so that no row is scored with its own label.
N_PARTS = 5


@dataclass(frozen=True)
class CalibrationFold:
    """Calibration rows, and their neighbours in a reference set without their labels."""

    reference: ReferenceSet
    reading: Reading
    X: Floats  # encoded
    rows: LabelledRows
    neighbours: Neighbours

    @classmethod
    def score(
        cls,
        reference: ReferenceSet,
        reading: Reading,
        rows: LabelledRows,
        execution: Execution,
        own: Ints | None = None,
    ) -> CalibrationFold:
        """Find the neighbours of these rows; ``own`` is the polytope of each, or -1."""
        X = reference.table.encode(reading.features)
        if own is not None:
            neighbours = reference.nearest_without_own(reading.modes, X, own, execution)
        else:
            search = Search(reference.density, reference.n_neighbors, reference.fill)
            neighbours = reference.index.nearest(reading.modes, X, search, execution)
        return cls(reference, reading, X, rows, neighbours)

    def votes(self, gammas: Floats, execution: Execution) -> Floats:
        """Probabilities by the votes, shape (n_gammas, n_rows, n_classes)."""
        votes = self.reference.votes
        return votes.on_grid(self.reading.modes, self.neighbours, gammas, execution)

    def with_gamma(
        self, gamma: float | None, prior: Floats, execution: Execution
    ) -> CalibrationFold:
        """The fold with the chosen gamma in its reference set."""
        return replace(self, reference=self.reference.with_gamma(gamma, prior, execution))

    def gate_input(self, n_jobs: int | None) -> GateInput:
        """The input of the gate for these rows."""
        density, energy = self.reference.density, self.reading.energy
        return GateInput(self.X, self.neighbours, density, energy, n_jobs)


def holdout_folds(
    parent: Adapter,
    rows: LabelledRows,
    held: LabelledRows,
    settings: ReferenceSettings,
    execution: Execution,
) -> tuple[ReferenceSet, list[CalibrationFold]]:
    """Held-out rows, scored by the parent that was fitted without them.

    With ``QueryVotes``, the held-out labels are added to the votes; the rows are split into parts,
    and each part is scored without its own labels.
    """
    reading, held_reading = (read_rows(parent, part, execution) for part in (rows, held))
    reference = ReferenceSet.build(reading, rows, settings, execution)
    if settings.votes is not QueryVotes:
        return reference, [CalibrationFold.score(reference, held_reading, held, execution)]
    reference, stored = reference.with_labels(held_reading.modes, held, execution.device)
    folds = []
    for _, part in parts_of(stratified_parts(held.y, held.groups)):
        some = held.take(part)
        others = reference.without_labels(stored[part], some)
        folds.append(CalibrationFold.score(others, held_reading.take(part), some, execution))
    return reference, folds


def out_of_bag_folds(
    parent: Adapter, rows: LabelledRows, settings: ReferenceSettings, execution: Execution
) -> tuple[ReferenceSet, list[CalibrationFold]]:
    """The training rows, each scored by its out-of-bag trees only.

    K is the share of those trees. The rows are split into parts; labels and bandwidths for a part
    are from the other parts, and a row that is alone in its polytope is not its own neighbour.
    Rows without an out-of-bag tree are left out.
    """
    reading = read_rows(parent, rows, execution)
    reference = ReferenceSet.build(reading, rows, settings, execution)
    owner = reference.row_polytope
    alone = reference.polytopes.size[owner] <= rows.weight * (1.0 + WEIGHT_ROUNDING)
    out, share = parent.out_of_bag(reading)
    if len(np.unique(rows.y[share > 0])) < settings.n_classes:
        raise ValueError(
            'calibration="oob" finds a class whose rows every tree has seen, so none is left to '
            "calibrate on. The weights are too uneven, or there are too few trees. Use "
            'calibration="cv".'
        )
    folds = []
    for others, part in parts_of(stratified_parts(rows.y)):
        known = rows.take(others), owner[others], settings.bandwidth, execution
        partial = reference.without_labels(owner[part], rows.take(part))
        partial = partial.with_widths_from(reading.take(others), *known)
        part = part[share[part] > 0]
        if len(part) == 0:
            continue
        own = np.where(alone, owner, -1)[part]
        fold = CalibrationFold.score(partial, out.take(part), rows.take(part), execution, own)
        similarity = fold.neighbours.similarity / share[part, None]
        folds.append(replace(fold, neighbours=replace(fold.neighbours, similarity=similarity)))
    return reference, folds


def cross_fitted_folds(
    fit: Callable[[LabelledRows], Adapter],
    parent: Adapter,
    rows: LabelledRows,
    splits: list[tuple[Ints, Ints]],
    settings: ReferenceSettings,
    execution: Execution,
) -> tuple[ReferenceSet, list[CalibrationFold]]:
    """The test part of each split, scored by a parent that is fitted on the training part."""
    reading = read_rows(parent, rows, execution)
    reference = ReferenceSet.build(reading, rows, settings, execution)
    folds = []
    for train, test in tqdm(splits, desc="parents", unit="fit", disable=not execution.verbose):
        known, new = rows.take(train), rows.take(test)
        other = fit(known)
        reading = read_rows(other, known, execution)
        partial = ReferenceSet.build(reading, known, settings, execution, len(rows))
        new_reading = read_rows(other, new, execution)
        folds.append(CalibrationFold.score(partial, new_reading, new, execution))
    return reference, folds


def read_rows(parent: Adapter, rows: LabelledRows, execution: Execution) -> Reading:
    """What the parent computes for the rows, unless the rows have it already."""
    return parent.read(rows.X, execution.verbose) if rows.reading is None else rows.reading


def check_class_sizes(rows: LabelledRows, classes: Array) -> None:
    """Raise an error unless each class has a row to fit and a row to calibrate."""
    sizes = np.bincount(rows.y, minlength=len(classes))
    small = int(np.argmin(sizes))
    if sizes[small] < 2:
        raise ValueError(
            f"class {classes[small]} has {sizes[small]} row(s) with positive weight; at least 2 "
            "are needed, one to fit and one to calibrate. Add rows, merge or drop the class, or "
            "give X_cal and y_cal."
        )


def holdout_split(
    rows: LabelledRows, size: float, random_state: Any
) -> tuple[LabelledRows, LabelledRows]:
    """Fit and calibration rows, drawn class by class, so that each class is in both.

    With groups, all rows of a group are on one side, and the share is approximate.
    """
    rng = check_random_state(random_state)
    if rows.groups is not None:
        folds = max(2, round(1 / size))
        held = grouped_parts(rows.y, rows.groups, folds, rng.randint(2**31)) == 0
        if len(np.unique(rows.y[held])) < len(np.unique(rows.y)):
            raise ValueError(
                "the groups that are held out lack a class: too few groups have it. Give X_cal and "
                'y_cal, or use calibration="cv".'
            )
        return rows.take(np.flatnonzero(~held)), rows.take(np.flatnonzero(held))
    fit, calibrate = [], []
    for code in np.unique(rows.y):
        members = rng.permutation(np.flatnonzero(rows.y == code))
        n = min(max(1, round(size * len(members))), len(members) - 1)
        calibrate.append(members[:n])
        fit.append(members[n:])
    return rows.take(np.sort(np.concatenate(fit))), rows.take(np.sort(np.concatenate(calibrate)))


def cross_fit_splits(
    rows: LabelledRows, classes: Array, splitter: Any, random_state: Any
) -> list[tuple[Ints, Ints]]:
    """Training and test rows of each fold.

    ``splitter`` is a number of stratified parts (which keep groups together), or an object with
    scikit-learn's ``split(X, y, groups)``.
    """
    if not isinstance(splitter, (int, np.integer)):
        splits = list(splitter.split(rows.X, classes[rows.y], rows.groups))
    elif rows.groups is not None:
        seed = check_random_state(random_state).randint(2**31)
        splits = parts_of(grouped_parts(rows.y, rows.groups, int(splitter), seed))
    else:
        order = check_random_state(random_state).permutation(len(rows))
        part = np.empty(len(rows), dtype=int)
        part[order] = stratified_parts(rows.y[order], n_parts=int(splitter))
        splits = parts_of(part)
    for train, _ in splits:
        absent = np.setdiff1d(np.arange(len(classes)), rows.y[train])
        if len(absent):
            raise ValueError(
                f"a training part of the calibration folds has no row of class "
                f"{classes[absent[0]]}. Use a splitter that stratifies by class, fewer folds, or "
                "more groups that have it."
            )
    return splits


def stratified_parts(y: Ints, groups: Array | None = None, n_parts: int = N_PARTS) -> Ints:
    """Part of each row, so that every part has equal class shares (to a row).

    A row must not be scored with its own label. If only its label were left out, the class shares
    of the remaining labels would depend on it; without a stratified part they do not.
    """
    if groups is not None:
        return grouped_parts(y, groups, n_parts, seed=0)
    part = np.empty(len(y), dtype=int)
    for code in np.unique(y):
        members = np.flatnonzero(y == code)
        part[members] = np.arange(len(members)) % n_parts
    return part


def grouped_parts(y: Ints, groups: Array, n_parts: int, seed: int) -> Ints:
    """Part of each row: groups are not split, and class shares are as equal as they allow."""
    n_parts = min(n_parts, len(np.unique(groups)))
    if n_parts < 2:
        return np.zeros(len(y), dtype=int)
    splitter = StratifiedGroupKFold(n_parts, shuffle=True, random_state=seed)
    part = np.empty(len(y), dtype=int)
    with warnings.catch_warnings():  # classes with fewer rows than parts are allowed
        warnings.filterwarnings("ignore", "The least populated class")
        for number, (_, test) in enumerate(splitter.split(np.empty((len(y), 0)), y, groups)):
            part[test] = number
    return part


def parts_of(part: Ints) -> list[tuple[Ints, Ints]]:
    """Numbers of the rows outside and inside each part."""
    return [(np.flatnonzero(part != n), np.flatnonzero(part == n)) for n in np.unique(part)]


def concatenated(folds: list[CalibrationFold], field: Callable[[CalibrationFold], Array]) -> Array:
    """A field of the rows of all folds, in one array."""
    return np.concatenate([field(fold) for fold in folds])
