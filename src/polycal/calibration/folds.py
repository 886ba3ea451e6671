"""Calibration folds: rows with a reference set that was built without them, and the splits."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.utils import check_random_state
from tqdm.auto import tqdm

from .._utils.arrays import Array, Bools, Floats, Ints
from .._utils.significance import WEIGHT_ROUNDING
from ..core.execution import Execution
from ..core.neighbours import Neighbours
from ..core.reading import LabelledRows, Reading
from ..gate.gate import GateInput, neighbourhood
from ..kernels import Search
from ..parents import Adapter
from ..posterior.votes import PolytopeVotes, QueryVotes
from .reference_set import ReferenceSet, ReferenceSettings

# Number of parts that rows are split into, so that no row is scored with its own label.
N_PARTS = 5
# Rows of a group are calibrated on where at least this part of the usual share of the trees was
# fitted on none of the group: K over few trees is higher than over many.
LEAST_SHARE = 0.5
# Rows of a reference set that its usual scores are estimated from.
OWN_ROWS = 1000
# Calibration rows that are scored, at most; more hardly change the floor and the pool. The labels
# of the others still vote.
MOST_SCORED = 50_000
# Classes beyond this share of the rows are no classes.
MOST_CLASSES = 0.5
SHOWN_CLASSES = 10  # of those that are too small
# Random orders of the groups that a hold-out tries, to have every class on both sides.
TRIES = 50


@dataclass(frozen=True)
class CalibrationFold:
    """Calibration rows, and their neighbours in a reference set without their labels."""

    reference: ReferenceSet
    reading: Reading
    X: Floats  # encoded
    rows: LabelledRows
    neighbours: Neighbours
    # probabilities by the votes, where their exponents are given
    known_votes: Floats | None
    # by how much K is usually higher in this reference set than in that of all rows
    log_similarity_excess: float = 0.0
    # ``Directions.terms``, where rows are directions of an embedding
    directions: Floats | None = None

    @classmethod
    def score(
        cls,
        reference: ReferenceSet,
        reading: Reading,
        rows: LabelledRows,
        execution: Execution,
        own: Ints | None = None,
        X: Floats | None = None,
        own_row: Ints | None = None,
    ) -> CalibrationFold:
        """Find the neighbours of these rows; ``own`` is the polytope of each, or -1.

        X are the encoded rows, where they are at hand. ``own_row`` are the places of rows that the
        reference set holds.
        """
        X = reference.table.encode(reading.features) if X is None else X
        reading = reference.read_modes(reading, X, execution)
        if own is not None:
            neighbours = reference.nearest_without_own(reading.modes, X, own, execution)
        else:
            labels = reference.votes.searched_labels
            search = Search(reference.density, reference.n_neighbors, reference.fill, *labels)
            neighbours = reference.index.nearest(reading.modes, X, search, execution)
        votes = None
        if isinstance(reference.votes, QueryVotes):
            votes = reference.vote_sources(neighbours, X, execution)
            neighbours = replace(neighbours, class_sums=None)
        directions = reference.direction_terms(X, execution, own_row)
        return cls(reference, reading, X, rows, neighbours, votes, directions=directions)

    def votes(self, execution: Execution) -> Floats:
        """Probabilities by the votes, shape (n_sources, n_rows, n_classes)."""
        if self.known_votes is not None:
            return self.known_votes
        return self.reference.vote_sources(self.neighbours, self.X, execution)

    def votes_on_grid(self, gammas: Floats, execution: Execution) -> Floats:
        """Probabilities by ``PolytopeVotes``, shape (n_gammas, n_rows, n_classes)."""
        votes = self.reference.votes
        assert isinstance(votes, PolytopeVotes)
        return votes.on_grid(self.neighbours, gammas, execution)

    def with_gamma(
        self, gamma: float | None, prior: Floats, execution: Execution
    ) -> CalibrationFold:
        """The fold with the chosen gamma in its reference set."""
        return replace(self, reference=self.reference.with_gamma(gamma, prior, execution))

    def gate_input(self, n_jobs: int | None) -> GateInput:
        """The input of the gate for these rows."""
        density, excess = self.reference.density, self.log_similarity_excess
        beyond = density.beyond(self.X, n_jobs)
        energy = self.reading.energy
        near = (self.neighbours, density, energy, n_jobs, beyond, excess)
        return GateInput(self.X, *near, self.directions)

    def usual_log_similarity(self) -> float:
        """Median of mean log K to the neighbours."""
        return float(np.median(neighbourhood(self.gate_input(None))[1]))


@dataclass(frozen=True)
class OwnRows:
    """Rows of reference sets, each scored without itself."""

    folds: list[CalibrationFold]  # by the reference sets of the folds
    whole: CalibrationFold  # by that of all rows


def holdout_folds(
    parent: Adapter,
    reading: Reading,
    rows: LabelledRows,
    held: LabelledRows,
    settings: ReferenceSettings,
    execution: Execution,
) -> tuple[ReferenceSet, list[CalibrationFold]]:
    """Held-out rows, scored by the parent that was fitted without them.

    ``reading``, here and below, is what the final parent computes for the rows.

    With ``QueryVotes``, the held-out labels are added to the votes; the rows that are scored are
    split into parts, and each part is scored without its own labels.
    """
    held_reading = read_rows(parent, held, execution)
    reference = ReferenceSet.build(reading, rows, settings, execution)
    if settings.votes is not QueryVotes:
        return reference, [CalibrationFold.score(reference, held_reading, held, execution)]
    encoded = reference.table.encode(held_reading.features)
    held_reading = reference.read_modes(held_reading, encoded, execution)
    reference = reference.with_labels(held_reading, held, execution)
    folds, scored = [], np.flatnonzero(scored_rows(held))
    groups = None if held.groups is None else held.groups[scored]
    for _, part in parts_of(stratified_parts(held.y[scored], groups)):
        part = scored[part]
        read, some = held_reading.take(part), held.take(part)
        others = reference.without_labels(len(rows) + part, some)
        folds.append(CalibrationFold.score(others, read, some, execution))
    return reference, folds


def out_of_bag_folds(
    parent: Adapter,
    reading: Reading,
    rows: LabelledRows,
    settings: ReferenceSettings,
    execution: Execution,
) -> tuple[ReferenceSet, list[CalibrationFold]]:
    """The training rows, each scored by its out-of-bag trees only.

    K is the share of those trees. The rows are split into parts; labels and bandwidths for a part
    are from the other parts, and a row that is alone in its polytope is not its own neighbour.
    Rows without an out-of-bag tree are left out.
    """
    reference = ReferenceSet.build(reading, rows, settings, execution)
    owner = reference.row_polytope
    alone = alone_in_polytope(reference.polytopes.size, owner, rows)
    out, share = parent.out_of_bag(reading, rows.groups)
    usable = (share > 0) & scored_rows(rows)
    if rows.groups is not None:
        grouped = np.bincount(rows.groups)[rows.groups] > 1
        usable &= ~grouped | (share >= LEAST_SHARE * np.median(share))
    if len(np.unique(rows.y[usable])) < settings.n_classes:
        why = "The weights are too uneven, or there are too few trees."
        if rows.groups is not None:
            why = (
                "The groups, or copies, are so large that nearly every tree has seen a row of each."
            )
        raise ValueError(
            'calibration="oob" finds a class whose rows every tree has seen, so none is left to '
            f'calibrate on. {why} Use calibration="cv".'
        )
    if settings.match_scores:
        # A query is judged by as many trees as a calibration row, about 37 % without groups, and
        # by each such part of the trees in turn. One judgement by all trees would be a lower K.
        reference = reference.with_views(max(1, round(1 / share[usable].mean())))
    folds = []
    for others, part in parts_of(stratified_parts(rows.y, rows.groups)):
        known = rows.take(others), owner[others], settings.bandwidth, execution
        partial = reference.without_labels(part, rows.take(part))
        partial = partial.with_widths_from(reading.take(others), *known)
        part = part[usable[part]]
        if len(part) == 0:
            continue
        own = np.where(alone, owner, -1)[part]
        fold = CalibrationFold.score(partial, out.take(part), rows.take(part), execution, own)
        similarity = fold.neighbours.similarity / share[part, None]
        folds.append(replace(fold, neighbours=replace(fold.neighbours, similarity=similarity)))
    return reference, folds


def cross_fitted_folds(
    fit: Callable[[LabelledRows], Adapter],
    reading: Reading,
    rows: LabelledRows,
    splits: list[tuple[Ints, Ints]],
    settings: ReferenceSettings,
    execution: Execution,
) -> tuple[ReferenceSet, list[CalibrationFold], OwnRows | None]:
    """The test part of each split, scored by a parent that is fitted on the training part.

    K falls with the number of rows that a parent was fitted on, so K to the rows of a fold is
    usually higher than K to all rows. The excess is that of the sets' own rows, and is taken off.
    What is left of it at each rank of the scores is seen on the same rows, which are returned too.
    """
    reference = ReferenceSet.build(reading, rows, settings, execution)
    settings = reference.with_this_search(settings)
    # The same rows for every set, as far as it has them.
    place = np.random.default_rng(0).permutation(len(rows))
    own = None
    if settings.match_scores:
        own = OwnRows([], _own_rows(reference, reading, rows, place, execution))
    # A code that several rows share is one in every fold, whatever the fold's rows are.
    table, coded = reference.table, None
    if len(table.codes):
        coded = table.is_code(table.encode(reading.features))
    folds, scored = [], scored_rows(rows)
    for train, test in tqdm(splits, desc="parents", unit="fit", disable=not execution.verbose):
        known, new = rows.take(train), rows.take(test[scored[test]])
        other = fit(known)
        reading = read_rows(other, known, execution)
        codes = None if coded is None else coded[train]
        partial = ReferenceSet.build(reading, known, settings, execution, len(rows), codes)
        fold = CalibrationFold.score(partial, read_rows(other, new, execution), new, execution)
        if own is not None:
            same = _own_rows(partial, reading, known, place[train], execution)
            excess = same.usual_log_similarity() - own.whole.usual_log_similarity()
            fold, same = (replace(f, log_similarity_excess=max(excess, 0.0)) for f in (fold, same))
            own.folds.append(same)
        partial.forget_tables()
        folds.append(fold)
    return reference, folds, own


def _own_rows(
    reference: ReferenceSet, reading: Reading, rows: LabelledRows, place: Ints, execution: Execution
) -> CalibrationFold:
    """The rows of a reference set that have the first places, each scored without itself."""
    owner = reference.row_polytope
    alone = alone_in_polytope(reference.polytopes.size, owner, rows)
    first = np.argsort(place)[:OWN_ROWS]
    own = np.where(alone, owner, -1)[first]
    some = reading.take(first), rows.take(first)
    return CalibrationFold.score(reference, *some, execution, own, own_row=first)


def alone_in_polytope(size: Floats, owner: Ints, rows: LabelledRows) -> Bools:
    """Whether the polytope of each row holds no row of another group."""
    weight = rows.weight
    if rows.groups is not None:  # of the group in the polytope
        _, pair = np.unique(np.stack([owner, rows.groups]), axis=1, return_inverse=True)
        weight = np.bincount(pair.ravel(), weights=rows.weight)[pair.ravel()].astype(float)
    alone: Bools = size[owner] <= weight * (1.0 + WEIGHT_ROUNDING)
    return alone


def read_rows(parent: Adapter, rows: LabelledRows, execution: Execution) -> Reading:
    """What the parent computes for the rows, unless the rows have it already."""
    return parent.read(rows.X, execution.verbose) if rows.reading is None else rows.reading


def check_class_sizes(rows: LabelledRows, classes: Array) -> None:
    """Raise an error unless each class has a row to fit and a row to calibrate."""
    sizes = np.bincount(rows.y, minlength=len(classes))
    if sizes.min() < 2:
        if len(classes) > MOST_CLASSES * len(rows):
            raise ValueError(
                f"y holds {len(classes)} classes in {len(rows)} rows, so hardly any label occurs "
                "twice. If y is a number to be predicted, make classes of it (pandas.cut); if it "
                "is a name or an id, give the column that holds the classes."
            )
        few = classes[sizes < 2].tolist()
        others = f" (and {len(few) - SHOWN_CLASSES} others)" if len(few) > SHOWN_CLASSES else ""
        raise ValueError(
            f"class {', '.join(map(str, few[:SHOWN_CLASSES]))}{others} has 1 row with positive "
            "weight; at least 2 are needed, one to fit and one to calibrate. Add rows, merge or "
            "drop the class, or give X_cal and y_cal."
        )


def holdout_split(
    rows: LabelledRows, size: float, random_state: Any
) -> tuple[LabelledRows, LabelledRows]:
    """Fit and calibration rows, drawn class by class, so that each class is in both.

    With groups, all rows of a group are on one side, and the share is approximate.
    """
    rng = check_random_state(random_state)
    if rows.groups is not None:
        held = _held_groups(rows, size, rng)
        return rows.take(np.flatnonzero(~held)), rows.take(np.flatnonzero(held))
    fit, calibrate = [], []
    for code in np.unique(rows.y):
        members = rng.permutation(np.flatnonzero(rows.y == code))
        n = min(max(1, round(size * len(members))), len(members) - 1)
        calibrate.append(members[:n])
        fit.append(members[n:])
    return rows.take(np.sort(np.concatenate(fit))), rows.take(np.sort(np.concatenate(calibrate)))


def _held_groups(rows: LabelledRows, size: float, rng: Any) -> Bools:
    """Rows of random groups that make up about a share of all rows, with every class on both sides.

    Of several random orders of the groups, the one that comes nearest to the share.
    """
    assert rows.groups is not None
    _, groups = np.unique(rows.groups, return_inverse=True)
    n_groups, n_classes = int(groups.max()) + 1, len(np.unique(rows.y))
    best, nearest = None, np.inf
    for _ in range(TRIES):
        order = rng.permutation(n_groups)
        total = np.cumsum(np.bincount(groups)[order])[:-1]
        n = int(np.argmin(np.abs(total - size * len(rows)))) + 1
        held = np.isin(groups, order[:n])
        complete = all(len(np.unique(rows.y[side])) == n_classes for side in (held, ~held))
        away = abs(held.mean() - size)
        if complete and away < nearest:
            best, nearest = held, away
    if best is None:
        raise ValueError(
            "no choice of held-out groups has every class on both sides: too few groups have it. "
            'Give X_cal and y_cal, or use calibration="cv".'
        )
    return best


def cross_fit_splits(
    rows: LabelledRows, classes: Array, splitter: Any, random_state: Any
) -> list[tuple[Ints, Ints]]:
    """Row numbers of the training and the test part of each fold.

    ``splitter`` is a number of stratified parts (which keep groups together), or an object with
    scikit-learn's ``split(X, y, groups)``.
    """
    if isinstance(splitter, (int, np.integer)):
        if rows.groups is not None:
            seed = check_random_state(random_state).randint(2**31)
            part = grouped_parts(rows.y, rows.groups, int(splitter), seed)
        else:
            order = check_random_state(random_state).permutation(len(rows))
            part = np.empty(len(rows), dtype=int)
            part[order] = stratified_parts(rows.y[order], n_parts=int(splitter))
        splits = parts_of(part)
    else:
        groups = () if rows.groups is None else (rows.groups,)
        try:
            found = list(splitter.split(rows.X, classes[rows.y], *groups))
        except ValueError as error:
            if rows.groups is not None or "groups" not in str(error):
                raise
            raise ValueError(
                f"calibration={type(splitter).__name__} splits by groups, and there are none. Give "
                "the group of each row: fit(X, y, groups=...)."
            ) from error
        splits = [(_row_numbers(a, len(rows)), _row_numbers(b, len(rows))) for a, b in found]
    _check_splits(splits, rows, classes)
    return splits


def _row_numbers(part: Any, n_rows: int) -> Ints:
    """One side of a split, from row numbers or from a mask."""
    numbers = np.asarray(part)
    if numbers.dtype == bool and numbers.shape == (n_rows,):
        return np.flatnonzero(numbers)
    inside = numbers.dtype.kind in "iu" and numbers.ndim == 1
    if not inside or len(numbers) == 0 or numbers.min() < 0 or numbers.max() >= n_rows:
        raise ValueError(
            f"the splitter must give row numbers from 0 to {n_rows - 1}, or masks of length "
            f"{n_rows}, and no empty part; got {reprlib.repr(part)}."
        )
    return numbers.astype(np.intp)


def _check_splits(splits: list[tuple[Ints, Ints]], rows: LabelledRows, classes: Array) -> None:
    """Each parent is fitted on every class, and without the rows and groups that it scores."""
    if not splits:
        raise ValueError("the splitter gives no split; give one that has at least one.")
    owners = np.arange(len(rows)) if rows.groups is None else rows.groups
    for train, test in splits:
        absent = np.setdiff1d(np.arange(len(classes)), rows.y[train])
        if len(absent):
            raise ValueError(
                f"a training part of the calibration folds has no row of class "
                f"{classes[absent[0]]}. Use a splitter that stratifies by class, fewer folds, or "
                "more groups that have it."
            )
        if np.isin(owners[test], owners[train]).any():
            what = "row" if rows.groups is None else "group"
            raise ValueError(
                f"the splitter puts a {what} into both the training and the test part of a fold, "
                "so it would be calibrated on what its parent knows. Use one that keeps them "
                "apart, such as StratifiedKFold, or StratifiedGroupKFold for groups."
            )
    scored = np.concatenate([test for _, test in splits])
    absent = np.setdiff1d(np.arange(len(classes)), rows.y[scored])
    if len(absent):
        raise ValueError(
            f"no test part of the calibration folds has a row of class {classes[absent[0]]}, so "
            "nothing is known about it. Use a splitter whose test parts hold every class, or give "
            "X_cal and y_cal."
        )


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


def grouped_parts(y: Ints, groups: Ints, n_parts: int, seed: int) -> Ints:
    """Part of each row, with complete groups in each part, and the classes spread over the parts.

    The groups of each class (that of most of its rows) are dealt out in turn, large ones first.
    """
    _, groups = np.unique(groups, return_inverse=True)
    n_groups, n_classes = int(groups.max()) + 1, int(y.max()) + 1
    counts = np.bincount(groups * n_classes + y, minlength=n_groups * n_classes)
    counts = counts.reshape(n_groups, n_classes)
    main = counts.argmax(axis=1)
    shuffled = np.random.default_rng(seed).permutation(n_groups)
    order = np.lexsort((shuffled, -counts.sum(axis=1), main))
    part = np.empty(n_groups, dtype=int)
    part[order] = np.arange(n_groups) % min(n_parts, n_groups)
    dealt: Ints = part[groups]
    return dealt


def scored_rows(rows: LabelledRows) -> Bools:
    """Which rows are scored: of many, random ones of each class, unless they are in groups."""
    scored = np.ones(len(rows), dtype=bool)
    if len(rows) <= MOST_SCORED or rows.groups is not None:
        return scored
    rng, share = np.random.default_rng(0), MOST_SCORED / len(rows)
    for code in np.unique(rows.y):
        members = rng.permutation(np.flatnonzero(rows.y == code))
        scored[members[math.ceil(share * len(members)) :]] = False
    return scored


def parts_of(part: Ints) -> list[tuple[Ints, Ints]]:
    """Numbers of the rows outside and inside each part."""
    return [(np.flatnonzero(part != n), np.flatnonzero(part == n)) for n in np.unique(part)]


def concatenated(folds: list[CalibrationFold], field: Callable[[CalibrationFold], Array]) -> Array:
    """A field of the rows of all folds, in one array."""
    return np.concatenate([field(fold) for fold in folds])


def groups_of(fold: CalibrationFold) -> Ints:
    """Group of each row of a fold; a row without groups is its own."""
    return fold.rows.ids if fold.rows.groups is None else fold.rows.groups
