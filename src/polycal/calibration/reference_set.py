"""What one fitted parent makes of its training rows, and calibration rows in front of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm.auto import tqdm

from ..core.density import Density
from ..core.neighbours import Neighbours
from ..core.polytopes import Polytopes
from ..core.reading import ROUNDING, ActivationModes, Reading
from ..core.table import Table, find_categories
from ..gate.bandwidth import class_density, geodesic_density, polytope_density
from ..kernels import Execution, Search, build_index, euclidean_nearest
from ..parents import Adapter
from ..posterior.votes import Evidence, PolytopeVotes, QueryVotes, stratified_parts
from .splits import Rows, parts_of, shuffled_parts


@dataclass(frozen=True)
class Settings:
    """The calibrator's parameters that shape a landscape."""

    posterior: str
    gate: str
    bandwidth: str
    distance: str
    n_neighbors: int
    regularization: float
    categorical_features: Any
    n_classes: int
    execution: Execution


@dataclass(frozen=True)
class ReferenceSet:
    """Polytopes of the rows that a parent was fitted on, ready for queries."""

    settings: Settings
    table: Table
    polytopes: Polytopes
    density: Density
    kernel: QueryVotes | PolytopeVotes
    owner: NDArray  # polytope of each row
    ids: NDArray  # place of each row in what the user gave

    @classmethod
    def build(
        cls, reading: Reading, rows: Rows, settings: Settings, n_samples: int | None = None
    ) -> ReferenceSet:
        """modes -> polytopes -> an index over them, and a density for each.

        ``n_samples`` is the n of the kernel's exponent, where it is not that of the rows.
        """
        s = settings
        categories = find_categories(reading.features, s.categorical_features)
        table, X = Table.learn(reading.features, categories)
        if s.distance == "euclidean" and (len(table.start) > 1 or np.isnan(X).any()):
            raise ValueError(
                'distance="euclidean" needs numbers without missing values; X has categories or '
                'NaN. Use distance="geodesic", or a Pipeline that encodes and imputes them.'
            )
        distinct, owner = reading.modes.distinct()
        parts = (rows.y, rows.weight, s.n_classes, table.start)
        polytopes = Polytopes.from_groups(distinct, owner, X, *parts)
        prior = np.bincount(rows.y, rows.weight, s.n_classes) / rows.weight.sum()
        by_query = s.posterior == "pooled" and s.distance == "geodesic"
        # The query's own labels are a second witness beside the parent: without its verdict.
        index = build_index(polytopes.modes, s.execution.device, hidden_labels=by_query)
        evidence = Evidence(index, polytopes.counts)
        kernel = (QueryVotes if by_query else PolytopeVotes)(
            evidence, prior, n_samples or len(rows)
        )
        if s.bandwidth == "polytope":
            density = polytope_density(polytopes, s.regularization, table.start)
        elif reading.energy is not None:
            density = class_density(polytopes, s.regularization)
        else:
            scale = (s.regularization, s.execution, table.start)
            density = geodesic_density(polytopes, evidence.index, *scale)
        return cls(settings, table, polytopes, density, kernel, owner, rows.ids)

    def add_labels(self, modes: ActivationModes, rows: Rows) -> tuple[ReferenceSet, NDArray]:
        """More labels as evidence, without neighbours; also the place of each row among it.

        The polytopes come first in the index, then the new rows' modes.
        """
        evidence = self.kernel.evidence
        distinct, owner = modes.distinct()
        counts = np.zeros((len(distinct), self.settings.n_classes))
        np.add.at(counts, (owner, rows.y), rows.weight)
        more_modes = evidence.index.modes.append(distinct)
        device, hidden = self.settings.execution.device, evidence.index.hidden_labels
        index = build_index(more_modes, device, hidden_labels=hidden)
        more = Evidence(index, np.concatenate([evidence.counts, counts]))
        landscape = replace(self, kernel=replace(self.kernel, evidence=more))
        return landscape, len(self.polytopes) + owner

    def nearest(
        self,
        modes: ActivationModes,
        X: NDArray,
        *,
        gamma: float | None = None,
        own: NDArray | None = None,
        fill: bool = False,
    ) -> Neighbours:
        """The polytopes that gate and posterior look at, with their labels if gamma is given.

        With ``fill`` there are always some, even where K = 0. ``own`` is the polytope of each
        row that does not count as its neighbour, or -1.
        """
        s = self.settings
        wanted = s.n_neighbors if s.gate == "geodesic" else 1
        k = min(wanted if own is None else wanted + 1, len(self.polytopes))
        if s.distance == "euclidean":
            _, index = euclidean_nearest(X, self.density, k, s.execution)
            near = Neighbours(np.ones(index.shape), index)
        else:
            fill = fill or s.posterior == "kernel" or s.gate == "gaussian"
            search = Search(self.density, k, fill, **self.kernel.wanted(gamma))
            near = self.kernel.evidence.index.nearest(modes, X, search, s.execution)
        return near if own is None else _without_own(near, own, wanted)

    def members(self, polytopes: NDArray) -> dict[int, NDArray]:
        """Training rows of each of some polytopes, as places in what the user gave."""
        order = np.argsort(self.owner, kind="stable")
        first = np.searchsorted(self.owner[order], np.arange(len(self.polytopes) + 1))
        return {int(r): self.ids[order[first[r] : first[r + 1]]] for r in np.unique(polytopes)}

    def without_labels(self, stored: NDArray, rows: Rows) -> ReferenceSet:
        """The same without the labels of some rows, whose places in the evidence are given."""
        evidence = self.kernel.evidence.without(stored, rows.y, rows.weight)
        return replace(self, kernel=replace(self.kernel, evidence=evidence))

    def shaped_by(self, reading: Reading, rows: Rows, owner: NDArray) -> ReferenceSet:
        """The same with bandwidths from some of its rows; ``owner`` is their polytope."""
        s = self.settings
        if s.bandwidth == "polytope":
            return self
        X = self.table.encode(reading.features)
        parts = (rows.y, rows.weight, s.n_classes, self.table.start)
        counted = Polytopes.from_rows(reading.modes, X, *parts), np.unique(owner)
        scale = (s.regularization, s.execution, self.table.start)
        index = self.kernel.evidence.index
        return replace(self, density=geodesic_density(self.polytopes, index, *scale, counted))

    def settle(self, gamma: float | None, prior: NDArray) -> ReferenceSet:
        """Keep what depends on the chosen gamma: the paper's ratios, and the mass they give."""
        s = self.settings
        if gamma is None or not isinstance(self.kernel, PolytopeVotes):
            return self
        kernel = self.kernel.at(gamma, s.execution)
        assert kernel.ratios is not None
        density = replace(self.density, log_mass=np.log(kernel.ratios @ prior))
        return replace(self, kernel=kernel, density=density)


@dataclass(frozen=True)
class CalibrationFold:
    """Calibration rows in front of a landscape that knows neither them nor their labels."""

    landscape: ReferenceSet
    reading: Reading
    X: NDArray  # encoded
    rows: Rows
    near: Neighbours

    @classmethod
    def sit(
        cls, landscape: ReferenceSet, reading: Reading, rows: Rows, own: NDArray | None = None
    ) -> CalibrationFold:
        X = landscape.table.encode(reading.features)
        return cls(landscape, reading, X, rows, landscape.nearest(reading.modes, X, own=own))

    def kernel_proba(self, gammas: NDArray) -> NDArray:
        """Shape (n_gammas, n_rows, n_classes)."""
        kernel, execution = self.landscape.kernel, self.landscape.settings.execution
        return kernel.proba(self.reading.modes, self.near, gammas, execution)

    def settle(self, gamma: float | None, prior: NDArray) -> CalibrationFold:
        return replace(self, landscape=self.landscape.settle(gamma, prior))


def kernel_proba(exams: list[CalibrationFold], gammas: NDArray) -> NDArray:
    """Of the rows of all exams, shape (n_gammas, n_rows, n_classes)."""
    return np.concatenate([exam.kernel_proba(gammas) for exam in exams], axis=1)


def holdout_folds(
    parent: Adapter, rows: Rows, held: Rows, settings: Settings
) -> tuple[ReferenceSet, list[CalibrationFold]]:
    """Rows that the parent has not seen.

    If pooled, their labels become evidence too, and each part sees those of the others.
    """
    verbose = settings.execution.verbose
    reading, held_reading = rows.read_by(parent, verbose), held.read_by(parent, verbose)
    landscape = ReferenceSet.build(reading, rows, settings)
    if not isinstance(landscape.kernel, QueryVotes):
        return landscape, [CalibrationFold.sit(landscape, held_reading, held)]
    landscape, stored = landscape.add_labels(held_reading.modes, held)
    exams = []
    for _, part in parts_of(stratified_parts(held.y)):
        some = held.take(part)
        ground = landscape.without_labels(stored[part], some)
        exams.append(CalibrationFold.sit(ground, held_reading.take(part), some))
    return landscape, exams


def out_of_bag_folds(
    parent: Adapter, rows: Rows, settings: Settings
) -> tuple[ReferenceSet, list[CalibrationFold]]:
    """The training rows themselves, each as the trees that did not see it read it.

    K is the share of those trees. Labels and bandwidths come from the other parts; a row that
    is alone in its polytope is not its own neighbour. Rows that every tree saw sit out.
    """
    reading = rows.read_by(parent, settings.execution.verbose)
    landscape = ReferenceSet.build(reading, rows, settings)
    owner = landscape.owner
    alone = landscape.polytopes.size[owner] <= rows.weight * (1.0 + ROUNDING)
    out, share = parent.out_of_bag(reading)
    if len(np.unique(rows.y[share > 0])) < settings.n_classes:
        raise ValueError(
            'calibration="oob" finds a class whose rows every tree has seen, so none is left to '
            'calibrate on: weights that are too uneven, or too few trees. Use calibration="cv".'
        )
    exams = []
    for others, part in parts_of(stratified_parts(rows.y)):
        ground = landscape.without_labels(owner[part], rows.take(part))
        ground = ground.shaped_by(reading.take(others), rows.take(others), owner[others])
        part = part[share[part] > 0]
        if len(part) == 0:
            continue
        own = np.where(alone, owner, -1)[part]
        exam = CalibrationFold.sit(ground, out.take(part), rows.take(part), own)
        similarity = exam.near.similarity / share[part, None]
        exams.append(replace(exam, near=replace(exam.near, similarity=similarity)))
    return landscape, exams


def cross_fitted_folds(
    fit_parent: Callable[[Rows], Adapter],
    parent: Adapter,
    rows: Rows,
    settings: Settings,
    random_state: Any,
) -> tuple[ReferenceSet, list[CalibrationFold]]:
    """Every row in front of a parent that was fitted without its part."""
    verbose = settings.execution.verbose
    landscape = ReferenceSet.build(rows.read_by(parent, verbose), rows, settings)
    exams = []
    parts = parts_of(shuffled_parts(rows, random_state))
    for others, part in tqdm(parts, desc="parents", unit="fit", disable=not verbose):
        known, new = rows.take(others), rows.take(part)
        other = fit_parent(known)
        ground = ReferenceSet.build(known.read_by(other, verbose), known, settings, len(rows))
        exams.append(CalibrationFold.sit(ground, new.read_by(other, verbose), new))
    return landscape, exams


def _without_own(near: Neighbours, own: NDArray, k: int) -> Neighbours:
    """The first k without each row's own polytope; a place left over is empty."""
    is_own = near.index == own[:, None]
    order = np.argsort(is_own, axis=1, kind="stable")[:, :k]
    similarity = np.where(is_own, 0.0, near.similarity)
    index = np.where(is_own, -1, near.index)
    return Neighbours(
        np.take_along_axis(similarity, order, axis=1), np.take_along_axis(index, order, axis=1)
    )
