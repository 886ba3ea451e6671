"""Votes of the labelled rows: class probabilities with weights K^e, for some exponents e."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from sklearn import get_config

from .._utils.arrays import Array, Floats, Ints, are_shares, is_ascending
from .._utils.saved import saved_array, saved_number, saved_part, saved_weight, unsaved
from .._utils.significance import WEIGHT_ROUNDING
from ..core.execution import Execution
from ..core.neighbours import Neighbours
from ..core.reading import ActivationModes
from ..kernels import (
    KernelIndex,
    LabelledSides,
    PathTables,
    SampledIndex,
    Sampling,
    StreamedTables,
    build_index,
    build_sampled_index,
)

# Exponents of the similarity by which labels vote, one source of the pool each: of the parent's
# modes, and of random hyperplanes, of which two rows always have many in common.
PARENT_SCALES: Floats = np.array([2.0, 8.0, 32.0])
HYPERPLANE_SQUARES: Ints = np.array([3, 5, 7])
HYPERPLANE_SCALES: Floats = np.exp2(HYPERPLANE_SQUARES)
# The same where paths are sampled: numbers of paths on which rows of one bucket agree, and of
# sequences of paths; and the exponents, of which those that are no such scale are by near rows.
SAMPLED_PARENT_SCALES: Ints = np.array([2, 8, 32])
SAMPLED_HYPERPLANE_SCALES: Ints = np.array([8, 16, 48])
N_SEQUENCES = 128
SAMPLED_PARENT_POWERS: Floats = np.array([2.0, 8.0, 16.0, 32.0, 64.0])
SAMPLED_HYPERPLANE_POWERS: Floats = np.array([8.0, 16.0, 32.0, 64.0, 128.0])
# The same for a stream.
STREAM_PARENT_SCALES: Ints = np.array([2, 8, 32])
STREAM_HYPERPLANE_SCALES: Ints = np.array([8, 16, 48])
STREAM_PARENT_POWERS: Floats = np.array([2.0, 8.0, 16.0, 32.0, 64.0])
STREAM_HYPERPLANE_POWERS: Floats = np.array([8.0, 16.0, 32.0, 64.0, 128.0])
# In the votes at one exponent by hyperplanes, those at the coarser one before it have the weight of
# this many rows like the nearest.
COARSER_ROWS = 0.1
# The same where paths are sampled, in rows that one sequence brings together with the query.
COARSER_MEETINGS = 10.0

NO_PRIOR = "the prior of the votes is none"

# With one exponent, it is gamma log n: with 0.01 the weights are nearly equal, with 20 nearly all
# weight is on the most similar polytope. The grid is extended by three steps while its best point
# is at an end.
FIRST_GRID: Floats = 0.01 * 2.0 ** np.arange(12.0)
STEPS_AT_EDGE = 3
GAMMA_LIMITS = (1e-4, 1e4)


@dataclass(frozen=True)
class LabelEvidence:
    """Labelled modes: the weight of each class among the rows that have a mode."""

    modes: ActivationModes = saved_part()
    counts: Floats = saved_weight("float64 modes classes")
    # whether K is that of a network's hidden layers, without its output layer
    hidden_labels: bool = saved_number(bool)
    index: KernelIndex = unsaved("built from the modes, or from them and the tables")
    # where class sums and neighbours are sampled, and the fit is complete
    tables: PathTables | StreamedTables | None = saved_part(default=None)
    # mode of each row that has given its label
    row_mode: Ints | None = unsaved("needed for a fit alone", default=None)

    @classmethod
    def build(
        cls,
        modes: ActivationModes,
        counts: Floats,
        hidden_labels: bool = False,
        device: str | None = None,
        sampling: Sampling | None = None,
        n_candidates: int | None = None,
        row_mode: Ints | None = None,
    ) -> LabelEvidence:
        """Build with the index for these modes, which is exact unless paths are sampled.

        The first ``n_candidates`` modes, by default all, may be neighbours.
        """
        index: KernelIndex
        if sampling is None:
            index = build_index(modes, device, hidden_labels)
        else:
            n_candidates = len(modes) if n_candidates is None else n_candidates
            stored = (modes, counts, n_candidates, sampling, hidden_labels)
            index = build_sampled_index(*stored, device=device)
        return cls(modes, counts, index.hidden_labels, index, row_mode=row_mode)

    @classmethod
    def of_rows(
        cls,
        modes: ActivationModes,
        y: Ints,
        weight: Floats,
        n_classes: int,
        sampling: Sampling | None = None,
        device: str | None = None,
    ) -> LabelEvidence:
        """Build from one mode, class and weight for each row."""
        distinct, row_mode = modes.distinct()
        counts = _class_counts(row_mode, y, weight, (len(distinct), n_classes))
        how = (False, device, sampling)
        return cls.build(distinct, counts, *how, row_mode=row_mode)

    @classmethod
    def restore(cls, **saved: Any) -> LabelEvidence:
        """From a file; what it says of the layers is kept as it is, to be checked."""
        modes, hidden_labels, tables = saved["modes"], saved["hidden_labels"], saved["tables"]
        index: KernelIndex
        if tables is None:
            index = build_index(modes, None, hidden_labels)
        else:
            index = SampledIndex.restore(modes, saved["counts"], tables, hidden_labels)
        return cls(index=index, **saved)

    def with_labels(
        self, modes: ActivationModes, y: Ints, weight: Floats, device: str | None = None
    ) -> LabelEvidence:
        """Add the labels of more rows, whose modes are no candidates for neighbours."""
        assert self.row_mode is not None
        distinct, row_mode = modes.distinct()
        counts = _class_counts(row_mode, y, weight, (len(distinct), self.counts.shape[1]))
        sampling, n_candidates = None, None
        if isinstance(self.index, SampledIndex):
            sampling, n_candidates = self.index.sampling, self.index.n_candidates
            device = self.index.device
        return LabelEvidence.build(
            self.modes.append(distinct),
            np.concatenate([self.counts, counts]),
            self.hidden_labels,
            device,
            sampling,
            n_candidates,
            np.concatenate([self.row_mode, len(self.modes) + row_mode]),
        )

    def with_tables(self) -> LabelEvidence:
        """Keep the sampled tables, so that they are saved."""
        if not isinstance(self.index, SampledIndex):
            return self
        return replace(self, tables=self.index.tables)

    def without(self, rows: Ints, y: Ints, weight: Floats) -> LabelEvidence:
        """Leave out the labels y of the rows of these numbers.

        A remaining count that is no larger than rounding becomes 0.
        """
        assert self.row_mode is not None
        stored = self.row_mode[rows]
        counts = self.counts.copy()
        np.subtract.at(counts, (stored, y), weight)
        left = counts[stored, y]
        counts[stored, y] = np.where(left > WEIGHT_ROUNDING * self.counts[stored, y], left, 0.0)
        return replace(self, counts=counts)

    def contradictions(self) -> Iterator[str]:
        """Inconsistencies in evidence that was read from a file, as messages."""
        if self.hidden_labels and len(self.modes.sizes) < 2:
            yield "labels by hidden layers need more than one layer"
        if self.tables is not None:
            n_groups = len(self.modes.sizes) - self.hidden_labels
            if self.tables.n_groups != n_groups:
                yield "sampled paths go through other layers"
            else:
                yield from self.tables.contradictions_with(self.modes, self.counts.shape[1])


@dataclass(frozen=True)
class QueryVotes:
    """pi_y = sum_s K(x, s)^e n_sy / sum over classes, for each of several exponents e.

    With ``evidence.hidden_labels``, K is that of a network's hidden layers.
    """

    own_axes: ClassVar[tuple[str, ...]] = ("modes", "symbols", "scales")

    evidence: LabelEvidence = saved_part()
    prior: Floats = saved_array("float64 classes")
    n_samples: int = saved_number(int, above=1, below=2**63)
    exponents: Floats = saved_array("float64 scales")

    def proba_of(self, modes: ActivationModes, execution: Execution) -> Floats:
        """Probabilities at each exponent, shape (n_exponents, n_queries, n_classes)."""
        index, counts = self.evidence.index, self.evidence.counts
        return self._normalized(index.class_sums(modes, counts, self.exponents, execution))

    def with_labels(self, modes: ActivationModes, y: Ints, weight: Floats) -> QueryVotes:
        """Add the labels of more rows."""
        return replace(self, evidence=self.evidence.with_labels(modes, y, weight))

    def without(self, rows: Ints, y: Ints, weight: Floats) -> QueryVotes:
        """Leave out the labels y of the rows of these numbers."""
        return replace(self, evidence=self.evidence.without(rows, y, weight))

    @property
    def n_planes(self) -> int:
        """Number of hyperplanes, where the modes are their sides."""
        return self.evidence.modes.sizes[0]

    @property
    def n_scales(self) -> int:
        """Number of sources of the pool."""
        return len(self.exponents)

    @property
    def searched_labels(self) -> tuple[Floats | None, Floats]:
        """Class counts and exponents of the sums that a search must return for ``proba``."""
        return self.evidence.counts, self.exponents

    def proba(self, neighbours: Neighbours) -> Floats:
        """``proba_of``, from the sums that a search returned."""
        assert neighbours.class_sums is not None
        return self._normalized(neighbours.class_sums)

    def _normalized(self, sums: Floats) -> Floats:
        if isinstance(self.evidence.index, SampledIndex):
            return smoothed(sums, self.prior, COARSER_MEETINGS)
        return normalize(sums, self.prior)

    def contradictions(self) -> Iterator[str]:
        """Inconsistencies in votes that were read from a file, as messages."""
        if len(self.exponents) == 0 or not (self.exponents > 0).all():
            yield "votes have no exponents"
        if not are_shares(self.prior):
            yield NO_PRIOR


@dataclass(frozen=True)
class HyperplaneVotes:
    """Votes of rows by the share of random hyperplanes that have them on the query's side.

    They know nothing of the parent, so they are a second witness beside the labels of the rows
    that the parent treats alike.
    """

    bits: Array = saved_array("uint64 hyperplane_rows hyperplane_words")  # mode of each row
    n_planes: int = saved_number(int, above=0, below=2**31)
    y: Ints = saved_array("int64 hyperplane_rows")  # ascending
    weight: Floats = saved_weight("float64 hyperplane_rows")
    prior: Floats = saved_array("float64 classes")
    # the exponents are 2 to these powers
    n_squares: Ints = saved_array("int64 hyperplane_scales")
    index: LabelledSides = unsaved("built from the bits")
    # place of each row of the fit among the rows here
    place: Ints | None = unsaved("needed for a fit alone", default=None)

    @classmethod
    def build(
        cls,
        modes: ActivationModes,
        y: Ints,
        weight: Floats,
        prior: Floats,
    ) -> HyperplaneVotes:
        """The votes of these rows."""
        order = np.argsort(y, kind="stable")
        place = np.empty(len(y), dtype=np.int64)
        place[order] = np.arange(len(y))
        modes, y, weight = modes[order], y[order], weight[order]
        index = LabelledSides(modes, np.searchsorted(y, np.arange(len(prior) + 1)))
        saved = (modes.codes, modes.sizes[0], y, weight, prior, HYPERPLANE_SQUARES)
        return cls(*saved, index, place)

    @classmethod
    def restore(cls, **saved: Any) -> HyperplaneVotes:
        """From a file; what does not fit is left to ``contradictions``."""
        y, starts = saved["y"], np.zeros(len(saved["prior"]) + 1, dtype=np.int64)
        modes = ActivationModes(saved["bits"], (saved["n_planes"],), packed=True)
        if next(modes.contradictions(), None) is not None:
            modes = ActivationModes.from_bits([np.zeros((1, 1))])
        elif is_ascending(y) and y[0] >= 0 and y[-1] < len(starts) - 1:
            starts = np.searchsorted(y, np.arange(len(starts)))
        return cls(index=LabelledSides(modes, starts), **saved)

    def with_labels(self, modes: ActivationModes, y: Ints, weight: Floats) -> HyperplaneVotes:
        """Add the labels of more rows."""
        assert self.place is not None
        both = HyperplaneVotes.build(
            ActivationModes(np.concatenate([self.bits, modes.codes]), modes.sizes, packed=True),
            np.concatenate([self.y, y]),
            np.concatenate([self.weight, weight]),
            self.prior,
        )
        assert both.place is not None
        number = np.concatenate([self.place, len(self.y) + np.arange(len(y))])
        return replace(both, place=both.place[number])

    def without(self, rows: Ints, y: Ints, weight: Floats) -> HyperplaneVotes:
        """Leave out the labels y of the rows of these numbers."""
        assert self.place is not None
        left = self.weight.copy()
        left[self.place[rows]] = 0.0
        return replace(self, weight=left)

    @property
    def n_scales(self) -> int:
        """Number of sources of the pool."""
        return len(self.n_squares)

    def proba_of(self, modes: ActivationModes, execution: Execution) -> Floats:
        """Probabilities at each exponent, shape (n_exponents, n_queries, n_classes)."""
        sums = self.index.class_sums(modes, self.weight, self.n_squares, execution)
        return smoothed(sums, self.prior, COARSER_ROWS)

    def contradictions(self) -> Iterator[str]:
        """Inconsistencies in votes that were read from a file, as messages."""
        if self.index.modes.sizes != (self.n_planes,):
            yield "the rows that vote by hyperplanes have other modes"
        elif self.index.starts[-1] != len(self.y):
            yield "the rows that vote by hyperplanes have no classes, or are not ordered by them"
        squares = self.n_squares
        known = len(squares) > 0 and squares[0] >= 0 and squares[-1] <= 30
        if not known or not is_ascending(squares, strictly=True):
            yield "votes by hyperplanes have no exponents"
        if not are_shares(self.prior):
            yield NO_PRIOR


@dataclass(frozen=True)
class PolytopeVotes:
    """As in the paper: pi_y = prior_y R_r*y / sum over classes, where r* is the nearest polytope.

    R_ry = sum_s w_rs n_sy / sum_r sum_s w_rs n_sy, from the rows of the fit alone.
    """

    evidence: LabelEvidence = saved_part()
    prior: Floats = saved_array("float64 classes")
    n_samples: int = saved_number(int, above=1, below=2**63)
    # R_ry at the chosen gamma
    ratios: Floats | None = saved_weight("float64 polytopes classes", optional=True)

    def contradictions(self) -> Iterator[str]:
        """Inconsistencies in votes that were read from a file, as messages."""
        if not are_shares(self.prior):
            yield NO_PRIOR

    def on_grid(self, neighbours: Neighbours, gammas: Floats, execution: Execution) -> Floats:
        """Probabilities for several gammas, shape (n_gammas, n_queries, n_classes)."""
        nearest = neighbours.index[:, 0]
        # In one pass, as many gammas as have room for their ratios in memory.
        budget = get_config()["working_memory"] * 2**20
        n_at_once = max(1, int(budget / self.evidence.counts.nbytes))
        parts = [
            self._ratios(gammas[start : start + n_at_once], execution)[:, nearest]
            for start in range(0, len(gammas), n_at_once)
        ]
        return normalize(self.prior * np.concatenate(parts), self.prior)

    def with_gamma(self, gamma: float, execution: Execution) -> PolytopeVotes:
        """Compute the ratios of all polytopes at the chosen gamma."""
        return replace(self, ratios=self._ratios(np.array([gamma]), execution)[0])

    @property
    def n_scales(self) -> int:
        """Number of sources of the pool."""
        return 1

    @property
    def searched_labels(self) -> tuple[Floats | None, Floats]:
        """None and no exponents: ``proba`` needs only the nearest polytope."""
        return None, np.empty(0)

    def proba(self, neighbours: Neighbours) -> Floats:
        """Probabilities at the chosen gamma, shape (1, n_queries, n_classes)."""
        assert self.ratios is not None
        return normalize(self.prior * self.ratios[None, neighbours.index[:, 0]], self.prior)

    def _ratios(self, gammas: Floats, execution: Execution) -> Floats:
        evidence, powers = self.evidence, exponents(gammas, self.n_samples)
        sums = evidence.index.class_sums(evidence.modes, evidence.counts, powers, execution)
        ratios: Floats = sums / sums.sum(axis=1, keepdims=True)
        return ratios


def _class_counts(row_mode: Ints, y: Ints, weight: Floats, shape: tuple[int, int]) -> Floats:
    """Weight of each class in each mode."""
    counts = np.zeros(shape)
    np.add.at(counts, (row_mode, y), weight)
    return counts


def exponents(gammas: Floats, n_samples: int) -> Floats:
    """gamma log n, the exponent of K."""
    powers: Floats = np.asarray(gammas, dtype=float) * np.log(n_samples)
    return powers


def normalize(sums: Floats, prior: Floats) -> Floats:
    """Rows that sum to 1; the prior where all sums are 0."""
    total = sums.sum(axis=-1, keepdims=True)
    return np.where(total > 0, sums / np.where(total > 0, total, 1.0), prior)


def smoothed(sums: Floats, prior: Floats, coarser_weight: float) -> Floats:
    """Votes at ascending exponents, each averaged with those before; the first with the prior.

    At a high exponent few rows have most of the weight, so that their votes alone are mostly near 0
    or 1. The sums, shape (n_exponents, n_queries, n_classes), count rows like the nearest as 1, or
    sampled ones each time that they are met.
    """
    proba = np.empty_like(sums)
    coarser = prior
    for scale, votes in enumerate(sums):
        total = votes.sum(axis=-1, keepdims=True) + coarser_weight
        coarser = proba[scale] = votes / total + coarser_weight / total * coarser
    return proba


def choose_gamma(loss: Callable[[Floats], Floats]) -> float:
    """The gamma of lowest loss on a log grid, which is extended while the best is at an end."""
    grid = FIRST_GRID
    values = loss(grid)
    low, high = GAMMA_LIMITS
    steps = 2.0 ** np.arange(1, STEPS_AT_EDGE + 1)
    while True:
        best = int(np.argmin(values))
        if best == 0 and grid[0] > low:
            more = grid[0] / steps[::-1]
            grid, values = np.concatenate([more, grid]), np.concatenate([loss(more), values])
        elif best == len(grid) - 1 and grid[-1] < high:
            more = grid[-1] * steps
            grid, values = np.concatenate([grid, more]), np.concatenate([values, loss(more)])
        else:
            return float(grid[best])
