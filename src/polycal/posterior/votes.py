"""Class probabilities from neighbours, with weights w = K^(gamma log n)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from sklearn import get_config

from ..core.neighbours import Neighbours
from ..core.reading import ROUNDING, ActivationModes
from ..kernels import Execution, KernelIndex

# gamma log n is the exponent: 0.01 leaves the weights nearly flat, 20 leaves little but
# the most similar polytope. The grid grows by whole steps while its best point is an edge.
FIRST_GRID = 0.01 * 2.0 ** np.arange(12)
STEPS_AT_EDGE = 3
GAMMA_LIMITS = (1e-4, 1e4)
# Parts that rows are cut into, so that none sees its own label.
N_PARTS = 5


@dataclass(frozen=True)
class Evidence:
    """Stored modes and the labels that were seen there."""

    index: KernelIndex
    counts: NDArray  # (n_stored, n_classes), weighted

    def without(self, stored: NDArray, y: NDArray, weight: NDArray) -> Evidence:
        """Less some rows, of which ``stored`` says where they are.

        What is left by rounding alone is no row.
        """
        left = self.counts.copy()
        np.subtract.at(left, (stored, y), weight)
        some = left[stored, y]
        left[stored, y] = np.where(some > ROUNDING * self.counts[stored, y], some, 0.0)
        return Evidence(self.index, left)


@dataclass(frozen=True)
class QueryVotes:
    """pi_y = sum_s K(x, s)^(gamma log n) n_sy / sum over classes: the query's own weights.

    Where the index has ``hidden_labels``, K is that of a network's hidden layers.
    """

    evidence: Evidence
    prior: NDArray
    n_samples: int

    def proba(
        self, modes: ActivationModes, near: Neighbours, gammas: NDArray, execution: Execution
    ) -> NDArray:
        """Shape (n_gammas, n_queries, n_classes); ``near.sums`` is used when it is there."""
        sums = near.sums
        if sums is None:
            index, counts = self.evidence.index, self.evidence.counts
            sums = index.class_sums(modes, counts, exponents(gammas, self.n_samples), execution)
        return normalize(sums, self.prior)

    def at(self, gamma: float, execution: Execution) -> QueryVotes:
        return self

    def wanted(self, gamma: float | None) -> dict[str, NDArray]:
        """What a ``Search`` should bring along for ``proba``."""
        if gamma is None:
            return {}
        exponent = exponents(np.array([gamma]), self.n_samples)
        return {"counts": self.evidence.counts, "exponents": exponent}


@dataclass(frozen=True)
class PolytopeVotes:
    """The paper: pi_y = prior_y R_r*y / sum over classes, with the nearest polytope's ratios.

    R_ry = sum_s w_rs n_sy / sum_r sum_s w_rs n_sy, from the rows of the fit alone.
    """

    evidence: Evidence
    prior: NDArray
    n_samples: int
    ratios: NDArray | None = None  # (n_polytopes, n_classes) at the chosen gamma

    def proba(
        self, modes: ActivationModes, near: Neighbours, gammas: NDArray, execution: Execution
    ) -> NDArray:
        """Shape (n_gammas, n_queries, n_classes)."""
        nearest = near.index[:, 0]
        if self.ratios is not None:
            return normalize(self.prior * self.ratios[None, nearest], self.prior)
        # As many gammas in one pass as their ratios fit into memory.
        budget = get_config()["working_memory"] * 2**20
        together = max(1, int(budget / self.evidence.counts.nbytes))
        parts = [
            self._all_ratios(gammas[start : start + together], execution)[:, nearest]
            for start in range(0, len(gammas), together)
        ]
        return normalize(self.prior * np.concatenate(parts), self.prior)

    def at(self, gamma: float, execution: Execution) -> PolytopeVotes:
        """The same with the ratios at one gamma kept."""
        return replace(self, ratios=self._all_ratios(np.array([gamma]), execution)[0])

    def wanted(self, gamma: float | None) -> dict[str, NDArray]:
        return {}

    def _all_ratios(self, gammas: NDArray, execution: Execution) -> NDArray:
        index, counts = self.evidence.index, self.evidence.counts
        exponent = exponents(gammas, self.n_samples)
        sums = index.class_sums(index.modes, counts, exponent, execution)
        return sums / sums.sum(axis=1, keepdims=True)


def exponents(gammas: NDArray, n_samples: int) -> NDArray:
    """gamma log n, the exponent of K."""
    return np.asarray(gammas, dtype=float) * np.log(n_samples)


def normalize(sums: NDArray, prior: NDArray) -> NDArray:
    """Rows of probabilities; the prior where there is no mass at all."""
    total = sums.sum(axis=-1, keepdims=True)
    return np.where(total > 0, sums / np.where(total > 0, total, 1.0), prior)


def choose_gamma(loss: Callable[[NDArray], NDArray]) -> float:
    """The gamma of lowest loss on a log grid that widens while the best is an edge."""
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


def stratified_parts(y: NDArray) -> NDArray:
    """Part of each row, so that every part has equal class shares (to a row).

    A row must not see its own label. Leaving out that row alone would leave a trace of it:
    the remaining labels lean to the other classes. Leaving out a stratified part does not.
    """
    part = np.empty(len(y), dtype=int)
    for code in np.unique(y):
        members = np.flatnonzero(y == code)
        part[members] = np.arange(len(members)) % N_PARTS
    return part
