"""The reference set: the training rows of a parent, which new rows are compared with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .._utils.arrays import Bools, Floats, Ints
from .._utils.saved import saved_array, saved_number, saved_part, unsaved
from ..core.columns import Columns
from ..core.density import Density
from ..core.execution import Execution
from ..core.neighbours import Neighbours
from ..core.polytopes import Polytopes
from ..core.reading import ActivationModes, LabelledRows, Reading
from ..core.table import Table, find_categories
from ..gate.bandwidth import Bandwidth, EstimatedFrom
from ..gate.directions import Directions
from ..kernels import (
    EuclideanIndex,
    Hyperplanes,
    KernelIndex,
    PathTables,
    SampledIndex,
    Sampling,
    Search,
    StreamedTables,
)
from ..posterior.votes import (
    HYPERPLANE_SCALES,
    N_SEQUENCES,
    PARENT_SCALES,
    SAMPLED_HYPERPLANE_POWERS,
    SAMPLED_HYPERPLANE_SCALES,
    SAMPLED_PARENT_POWERS,
    SAMPLED_PARENT_SCALES,
    HyperplaneVotes,
    LabelEvidence,
    PolytopeVotes,
    QueryVotes,
    exponents,
)


@dataclass(frozen=True)
class ReferenceSettings:
    """How a reference set is built and searched."""

    votes: type[QueryVotes] | type[PolytopeVotes]
    bandwidth: Bandwidth
    euclidean: bool  # whether neighbours are nearest by Euclidean distance, not by K
    n_neighbors: int
    # whether calibration rows and queries are made comparable where different trees or parents
    # score them
    match_scores: bool
    fill: bool  # whether polytopes with K = 0 count as neighbours where there are too few others
    categorical_features: Any
    n_classes: int
    gamma: float | None  # of the votes with one exponent, where it is given
    n_hyperplanes: int
    seed: int  # that hyperplanes and paths are drawn with
    # whether the search by the parent's modes, and that by hyperplanes, are by sampled paths; None:
    # where that is cheaper
    sample_modes: bool | None
    sample_planes: bool | None
    memory: float  # of the sampled tables, in bytes
    directions: bool = True  # whether the gate judges embeddings by their directions

    def sampling(
        self, modes: ActivationModes, by_planes: bool, second: bool = False
    ) -> Sampling | None:
        """How paths through these modes are sampled; None where the search is exact.

        ``second`` says that they are those of the second witness, which knows no neighbours.
        """
        scales = SAMPLED_HYPERPLANE_SCALES if by_planes else SAMPLED_PARENT_SCALES
        found = Sampling(scales, N_SEQUENCES, self.memory / 2, self.seed)
        sampled = self.sample_planes if by_planes else self.sample_modes
        if sampled is None:
            sampled = found.is_cheaper(modes, by_sides=second)
        return found if sampled else None


@dataclass(frozen=True)
class ReferenceSet:
    """Polytopes of the rows that a parent was fitted on, with their density and their labels."""

    table: Table = saved_part()
    polytopes: Polytopes = saved_part()
    density: Density = saved_part()
    votes: QueryVotes | PolytopeVotes = saved_part()
    row_polytope: Ints = saved_array("int64 rows")  # polytope of each row
    row_id: Ints = saved_array("int64 rows", least=0)  # number of each row in the user's X
    n_neighbors: int = saved_number(int, above=0)
    fill: bool = saved_number(bool)
    euclidean: bool = saved_number(bool)
    # parts of the trees that the gate judges a row by (tree t is in t % n_views); 1 is all at once
    n_views: int = saved_number(int, above=0, below=2**31)
    # hyperplanes among the rows, and the votes by them; the planes alone where they make the modes
    planes: Hyperplanes | None = saved_part()
    hyperplanes: HyperplaneVotes | QueryVotes | None = saved_part()
    index: KernelIndex | EuclideanIndex = unsaved("that of the evidence, or built from the modes")
    # where the values of each number lie, and the polytopes of clipped rows where these differ
    columns: Columns | None = unsaved("needed for a fit alone", default=None)
    clipped: Polytopes | None = unsaved("needed for a fit alone", default=None)
    # of the rows, where they are directions of an embedding; None in files of older versions
    directions: Directions | None = saved_part(default=None)

    @classmethod
    def build(
        cls,
        reading: Reading,
        rows: LabelledRows,
        settings: ReferenceSettings,
        execution: Execution,
        n_samples: int | None = None,
        coded: Bools | None = None,
    ) -> ReferenceSet:
        """Find the polytopes of the rows, their densities, and an index (Algorithm 2).

        ``n_samples`` is the n of the exponent gamma log n, if it is not the number of rows.
        ``coded`` says which numbers are known to be codes, see ``Table``.
        """
        categories = find_categories(reading.features, settings.categorical_features)
        directions = reading.energy is not None
        robust = settings.bandwidth.robust and not directions
        by_similarity = not settings.euclidean
        table, X = Table.learn(reading.features, categories, robust and by_similarity, coded)
        if settings.euclidean and (table.has_symbols or np.isnan(X).any()):
            raise ValueError(
                'distance="euclidean" needs numbers without missing values; X has categories or '
                'NaN. Use distance="geodesic", or a Pipeline that encodes and imputes them.'
            )
        by_query = settings.votes is QueryVotes
        without_modes = reading.modes.are_absent
        check_planes(reading, settings)
        planes = sides = None
        if without_modes or (by_query and settings.n_hyperplanes):
            drawn = (settings.n_hyperplanes, settings.seed, directions)
            planes = Hyperplanes.draw(X, table.level_offsets, *drawn)
            sides = planes.modes(X, execution)
            if without_modes:
                reading = replace(reading, modes=sides)
        modes, owner = reading.modes.distinct()
        labels = (rows.y, rows.weight, settings.n_classes, table.level_offsets)
        polytopes = Polytopes.from_groups(modes, owner, X, *labels)
        prior = np.bincount(rows.y, rows.weight, settings.n_classes) / rows.weight.sum()
        sampling = settings.sampling(modes, by_planes=without_modes)
        # These votes are pooled with the parent, so they leave out a network's output layer.
        labelled = (modes, polytopes.counts, by_query, execution.device)
        evidence = LabelEvidence.build(*labelled, sampling, row_mode=owner)
        n_samples = n_samples or len(rows)
        votes: QueryVotes | PolytopeVotes = PolytopeVotes(evidence, prior, n_samples)
        if by_query:
            powers = HYPERPLANE_SCALES if without_modes else PARENT_SCALES
            if sampling is not None:
                powers = SAMPLED_HYPERPLANE_POWERS if without_modes else SAMPLED_PARENT_POWERS
            elif settings.gamma is not None:
                powers = exponents(np.array([settings.gamma]), n_samples)
            votes = QueryVotes(evidence, prior, n_samples, powers)
        hyperplanes: HyperplaneVotes | QueryVotes | None = None
        if sides is not None and not without_modes:
            labels_of_rows = (sides, rows.y, rows.weight)
            by_planes = settings.sampling(sides, by_planes=True, second=True)
            if by_planes is None:
                hyperplanes = HyperplaneVotes.build(*labels_of_rows, prior)
            else:
                how = (settings.n_classes, by_planes, execution.device)
                some_rows = LabelEvidence.of_rows(*labels_of_rows, *how)
                hyperplanes = QueryVotes(some_rows, prior, n_samples, SAMPLED_HYPERPLANE_POWERS)
        columns = some = None
        if robust:
            columns = Columns.of(X[:, : len(table.numbers)])
            columns.check(table.numbers)
            clipped = columns.clip(X)
            if clipped is not X:
                rows_clipped = Polytopes.from_groups(modes, owner, clipped, *labels)
                some = EstimatedFrom(rows_clipped, np.arange(len(polytopes)))
        density = settings.bandwidth.density(
            polytopes,
            evidence.index,
            table.level_offsets,
            execution,
            directions=directions,
            columns=columns,
            estimated_from=some,
        )
        return cls(
            table,
            polytopes,
            density,
            votes,
            owner,
            rows.ids,
            min(settings.n_neighbors, len(polytopes)),
            settings.fill,
            settings.euclidean,
            1,
            planes,
            hyperplanes,
            EuclideanIndex(modes) if settings.euclidean else evidence.index,
            columns,
            None if some is None else some.rows,
            directions_of_rows(X, rows, settings, execution) if directions else None,
        )

    @classmethod
    def restore(cls, polytopes: Polytopes, **saved: Any) -> ReferenceSet:
        """Build from the parts in a file, with the modes of the polytopes and the index."""
        evidence = saved["votes"].evidence
        modes = evidence.modes
        if len(polytopes) < len(modes):
            modes = modes[: len(polytopes)]
        index = EuclideanIndex(modes) if saved["euclidean"] else evidence.index
        saved["n_neighbors"] = min(saved["n_neighbors"], len(polytopes))
        return cls(polytopes=replace(polytopes, modes=modes), index=index, **saved)

    def with_labels(
        self, reading: Reading, rows: LabelledRows, execution: Execution
    ) -> ReferenceSet:
        """Add the labels of more rows, which vote but are not neighbours."""
        labels = reading.modes, rows.y, rows.weight
        evidence = self.votes.evidence.with_labels(*labels, execution.device)
        hyperplanes = self.hyperplanes
        if hyperplanes is not None:
            assert self.planes is not None
            sides = self.planes.modes(self.table.encode(reading.features), execution)
            hyperplanes = hyperplanes.with_labels(sides, rows.y, rows.weight)
        votes = replace(self.votes, evidence=evidence)
        return replace(self, votes=votes, index=evidence.index, hyperplanes=hyperplanes)

    def without_labels(self, numbers: Ints, rows: LabelledRows) -> ReferenceSet:
        """Leave out the labels of some rows, which have these numbers among all that vote."""
        left_out = numbers, rows.y, rows.weight
        hyperplanes = self.hyperplanes
        if hyperplanes is not None:
            hyperplanes = hyperplanes.without(*left_out)
        votes = replace(self.votes, evidence=self.votes.evidence.without(*left_out))
        return replace(self, votes=votes, hyperplanes=hyperplanes)

    def with_tables(self) -> ReferenceSet:
        """Keep the sampled tables, so that they are saved, and not what a fit alone needs."""
        evidence, hyperplanes = self.votes.evidence.with_tables(), self.hyperplanes
        if isinstance(hyperplanes, QueryVotes):
            hyperplanes = replace(hyperplanes, evidence=hyperplanes.evidence.with_tables())
        votes = replace(self.votes, evidence=evidence)
        kept = replace(self, votes=votes, hyperplanes=hyperplanes)
        return replace(kept, columns=None, clipped=None)

    def read_modes(self, reading: Reading, X: Floats, execution: Execution) -> Reading:
        """The reading of encoded rows X with their modes, which may be those by hyperplanes."""
        if not reading.modes.are_absent:
            return reading
        assert self.planes is not None
        return replace(reading, modes=self.planes.modes(X, execution))

    def vote_sources(self, neighbours: Neighbours, X: Floats, execution: Execution) -> Floats:
        """Probabilities by the votes, shape (n_sources, n_queries, n_classes).

        Those by the parent's modes are first, then those by hyperplanes.
        """
        by_parent = self.votes.proba(neighbours)
        if self.hyperplanes is None:
            return by_parent
        assert self.planes is not None
        modes = self.planes.modes(X, execution)
        return np.concatenate([by_parent, self.hyperplanes.proba_of(modes, execution)])

    def direction_terms(
        self, X: Floats, execution: Execution, own_row: Ints | None = None
    ) -> Floats | None:
        """``Directions.terms`` of encoded rows; None where they are no directions."""
        if self.directions is None:
            return None
        return self.directions.terms(X, execution, own_row)

    @property
    def witnesses(self) -> dict[str, int]:
        """Number of sources of each witness in the pool."""
        stand_in = self.planes is not None and self.hyperplanes is None
        sizes = {"parent": 1, "hyperplanes" if stand_in else "kernel": self.votes.n_scales}
        if self.hyperplanes is not None:
            sizes["hyperplanes"] = self.hyperplanes.n_scales
        return sizes

    @property
    def _sampled_indices(self) -> dict[str, SampledIndex]:
        found = {}
        for name, votes in (("kernel", self.votes), ("hyperplanes", self.hyperplanes)):
            evidence = getattr(votes, "evidence", None)
            if evidence is not None and isinstance(evidence.index, SampledIndex):
                found[name] = evidence.index
        return found

    @property
    def sampled(self) -> dict[str, PathTables | StreamedTables]:
        """The sampled tables of each witness that has them."""
        return {name: index.tables for name, index in self._sampled_indices.items()}

    @property
    def streamed(self) -> list[StreamedTables]:
        """The tables of each witness that rows are still added to."""
        return [found for found in self.sampled.values() if isinstance(found, StreamedTables)]

    def with_this_search(self, settings: ReferenceSettings) -> ReferenceSettings:
        """The settings for other reference sets, which are searched as this one is.

        Votes by sampled paths have other exponents than exact ones, so the sources of a pool must
        not be of both kinds.
        """
        sampled = self._sampled_indices
        stand_in = self.planes is not None and self.hyperplanes is None
        by_planes = "kernel" if stand_in else "hyperplanes"
        return replace(
            settings, sample_modes="kernel" in sampled, sample_planes=by_planes in sampled
        )

    def forget_tables(self) -> None:
        """Give the memory of sampled tables back."""
        for index in self._sampled_indices.values():
            index.forget_tables()

    @property
    def search(self) -> str:
        """How rows are searched: "exact", "sampled", or which witness is sampled."""
        sampled = list(self.sampled)
        n_kernels = 1 + (self.hyperplanes is not None)
        if len(sampled) in (0, n_kernels):
            return "sampled" if sampled else "exact"
        return f"exact, {sampled[0]} sampled"

    def with_widths_from(
        self,
        reading: Reading,
        rows: LabelledRows,
        polytope: Ints,
        bandwidth: Bandwidth,
        execution: Execution,
    ) -> ReferenceSet:
        """Estimate the bandwidths from some of the rows, which are in ``polytope``."""
        X = self.table.encode(reading.features)
        n_classes, offsets = self.polytopes.counts.shape[1], self.table.level_offsets
        columns = None
        if bandwidth.robust:
            columns = Columns.of(X[:, : len(self.table.numbers)])
            X = columns.clip(X)
        some = Polytopes.from_rows(reading.modes, X, rows.y, rows.weight, n_classes, offsets)
        density = bandwidth.density(
            self.polytopes,
            self.votes.evidence.index,
            offsets,
            execution,
            columns=columns,
            estimated_from=EstimatedFrom(some, np.unique(polytope)),
        )
        return replace(self, density=density)

    def with_views(self, n_views: int) -> ReferenceSet:
        """Let the gate judge rows by each of n parts of the trees."""
        return replace(self, n_views=min(n_views, self.polytopes.modes.sizes[0]))

    def with_gamma(self, gamma: float | None, prior: Floats, execution: Execution) -> ReferenceSet:
        """Set the gamma of ``PolytopeVotes``, and the mass of each polytope by its ratios."""
        if gamma is None or isinstance(self.votes, QueryVotes):
            return self
        votes = self.votes.with_gamma(gamma, execution)
        assert votes.ratios is not None
        density = replace(self.density, log_mass=np.log(votes.ratios @ prior))
        return replace(self, votes=votes, density=density)

    def nearest_without_own(
        self, modes: ActivationModes, X: Floats, own: Ints, execution: Execution
    ) -> Neighbours:
        """The nearest polytopes, without the polytope own[i] of row i (-1: all count)."""
        k = min(self.n_neighbors + 1, len(self.polytopes))
        search = Search(self.density, k, self.fill, *self.votes.searched_labels)
        found = self.index.nearest(modes, X, search, execution)
        return replace(_without_own(found, own, self.n_neighbors), class_sums=found.class_sums)

    def members(self, polytopes: Ints) -> dict[int, Ints]:
        """Training rows of each of some polytopes, as numbers of rows in the user's X."""
        order = np.argsort(self.row_polytope, kind="stable")
        first = np.searchsorted(self.row_polytope[order], np.arange(len(self.polytopes) + 1))
        return {int(r): self.row_id[order[first[r] : first[r + 1]]] for r in np.unique(polytopes)}

    def contradictions(self) -> Iterator[str]:
        """Inconsistencies in a reference set that was read from a file, as messages."""
        if len(self.polytopes) > len(self.votes.evidence.modes):
            yield "there are more polytopes than modes"
        modes = self.votes.evidence.modes
        if self.n_views > 1 and (modes.packed or self.n_views > modes.sizes[0]):
            yield "there are more parts of trees than trees"
        if ((self.row_polytope < 0) | (self.row_polytope >= len(self.polytopes))).any():
            yield "a row lies in a polytope that does not exist"
        if self.table.level_offsets[-1] != self.density.log_share.shape[1]:
            yield "the density has shares for other levels"
        if not np.array_equal(self.density.level_offsets, self.table.level_offsets):
            yield "the density has other level offsets than the table"
        if self.euclidean and self.table.has_symbols:
            yield "a Euclidean distance is over numbers without missing values alone"
        votes, planes = self.hyperplanes, self.planes
        if votes is not None and (planes is None or len(planes.offsets) != votes.n_planes):
            yield "rows vote by other hyperplanes"


def directions_of_rows(
    X: Floats, rows: LabelledRows, settings: ReferenceSettings, execution: Execution
) -> Directions | None:
    """The directions of rows of the fit; None where the gate does not ask for them."""
    if not settings.directions:
        return None
    counts = np.zeros((len(rows), settings.n_classes))
    counts[np.arange(len(rows)), rows.y] = rows.weight
    return Directions.of(X, counts, execution)


def check_planes(reading: Reading, settings: ReferenceSettings) -> None:
    """Raise an error where there would be neither modes nor hyperplanes."""
    if reading.modes.are_absent and not settings.n_hyperplanes:
        raise ValueError(
            "n_hyperplanes is 0, but the parent has no leaves or units of its own, so that "
            "hyperplanes must stand in for them. Use n_hyperplanes=1024."
        )


def _without_own(neighbours: Neighbours, own: Ints, k: int) -> Neighbours:
    """The first k without each row's own polytope; similarity 0 and index -1 for missing ones."""
    is_own = neighbours.index == own[:, None]
    order = np.argsort(is_own, axis=1, kind="stable")[:, :k]
    similarity = np.where(is_own, 0.0, neighbours.similarity)
    index = np.where(is_own, -1, neighbours.index)
    return Neighbours(
        np.take_along_axis(similarity, order, axis=1), np.take_along_axis(index, order, axis=1)
    )
