"""Votes of the labelled rows: class probabilities with weights K^(gamma log n)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn import get_config

from .._utils.arrays import Floats, Ints
from .._utils.saved import saved_array, saved_number, saved_part, unsaved
from .._utils.significance import WEIGHT_ROUNDING
from ..core.execution import Execution
from ..core.neighbours import Neighbours
from ..core.reading import ActivationModes
from ..kernels import KernelIndex, build_index

# gamma log n is the exponent: with 0.01 the weights are nearly equal, with 20 nearly all weight
# is on the most similar polytope. The grid is extended by three steps while its best point is at
# an end.
FIRST_GRID: Floats = 0.01 * 2.0 ** np.arange(12.0)
STEPS_AT_EDGE = 3
GAMMA_LIMITS = (1e-4, 1e4)


@dataclass(frozen=True)
class LabelEvidence:
    """Labelled modes: the weight of each class among the rows that have a mode."""

    modes: ActivationModes = saved_part()
    counts: Floats = saved_array("float64 modes classes")
    # whether K is that of a network's hidden layers, without its output layer
    hidden_labels: bool = saved_number(bool)
    index: KernelIndex = unsaved("built from the modes")

    @classmethod
    def build(
        cls,
        modes: ActivationModes,
        counts: Floats,
        hidden_labels: bool = False,
        device: str | None = None,
    ) -> LabelEvidence:
        """Build with the index for these modes."""
        index = build_index(modes, device, hidden_labels)
        return cls(modes, counts, index.hidden_labels, index)

    @classmethod
    def restore(cls, **saved: Any) -> LabelEvidence:
        """From a file; what it says of the layers is kept as it is, to be checked."""
        return cls(index=build_index(saved["modes"], None, saved["hidden_labels"]), **saved)

    def without(self, stored: Ints, y: Ints, weight: Floats) -> LabelEvidence:
        """Leave out the labels y of some rows, whose modes have the numbers ``stored``.

        A remaining count that is no larger than rounding becomes 0.
        """
        counts = self.counts.copy()
        np.subtract.at(counts, (stored, y), weight)
        left = counts[stored, y]
        counts[stored, y] = np.where(left > WEIGHT_ROUNDING * self.counts[stored, y], left, 0.0)
        return replace(self, counts=counts)

    def contradictions(self) -> Iterator[str]:
        """Inconsistencies in evidence that was read from a file, as messages."""
        if self.hidden_labels and len(self.modes.sizes) < 2:
            yield "labels by hidden layers need more than one layer"


@dataclass(frozen=True)
class QueryVotes:
    """pi_y = sum_s K(x, s)^(gamma log n) n_sy / sum over classes: weights between query and modes.

    With ``evidence.hidden_labels``, K is that of a network's hidden layers.
    """

    evidence: LabelEvidence = saved_part()
    prior: Floats = saved_array("float64 classes")
    n_samples: int = saved_number(int, above=1, below=2**63)
    gamma: float | None = saved_number(float, optional=True, above=0.0, below=np.inf, default=None)

    def on_grid(
        self,
        modes: ActivationModes,
        neighbours: Neighbours,
        gammas: Floats,
        execution: Execution,
    ) -> Floats:
        """Probabilities for several gammas, shape (n_gammas, n_queries, n_classes)."""
        index, counts = self.evidence.index, self.evidence.counts
        sums = index.class_sums(modes, counts, exponents(gammas, self.n_samples), execution)
        return normalize(sums, self.prior)

    def with_gamma(self, gamma: float, execution: Execution) -> QueryVotes:
        """Set the chosen gamma."""
        return replace(self, gamma=gamma)

    @property
    def searched_labels(self) -> tuple[Floats | None, Floats]:
        """Class counts and exponents of the sums that a search must return for ``proba``."""
        if self.gamma is None:
            return None, np.empty(0)
        return self.evidence.counts, exponents(np.array([self.gamma]), self.n_samples)

    def proba(self, neighbours: Neighbours) -> Floats:
        """Probabilities at the chosen gamma, shape (n_queries, n_classes)."""
        assert neighbours.class_sums is not None
        return normalize(neighbours.class_sums[0], self.prior)


@dataclass(frozen=True)
class PolytopeVotes:
    """As in the paper: pi_y = prior_y R_r*y / sum over classes, where r* is the nearest polytope.

    R_ry = sum_s w_rs n_sy / sum_r sum_s w_rs n_sy, from the rows of the fit alone.
    """

    evidence: LabelEvidence = saved_part()
    prior: Floats = saved_array("float64 classes")
    n_samples: int = saved_number(int, above=1, below=2**63)
    # R_ry at the chosen gamma
    ratios: Floats | None = saved_array("float64 polytopes classes", optional=True)

    def on_grid(
        self,
        modes: ActivationModes,
        neighbours: Neighbours,
        gammas: Floats,
        execution: Execution,
    ) -> Floats:
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
    def searched_labels(self) -> tuple[Floats | None, Floats]:
        """None and no exponents: ``proba`` needs only the nearest polytope."""
        return None, np.empty(0)

    def proba(self, neighbours: Neighbours) -> Floats:
        """Probabilities at the chosen gamma, shape (n_queries, n_classes)."""
        assert self.ratios is not None
        return normalize(self.prior * self.ratios[neighbours.index[:, 0]], self.prior)

    def _ratios(self, gammas: Floats, execution: Execution) -> Floats:
        evidence, powers = self.evidence, exponents(gammas, self.n_samples)
        sums = evidence.index.class_sums(evidence.modes, evidence.counts, powers, execution)
        ratios: Floats = sums / sums.sum(axis=1, keepdims=True)
        return ratios


def exponents(gammas: Floats, n_samples: int) -> Floats:
    """gamma log n, the exponent of K."""
    powers: Floats = np.asarray(gammas, dtype=float) * np.log(n_samples)
    return powers


def normalize(sums: Floats, prior: Floats) -> Floats:
    """Rows that sum to 1; the prior where all sums are 0."""
    total = sums.sum(axis=-1, keepdims=True)
    return np.where(total > 0, sums / np.where(total > 0, total, 1.0), prior)


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
