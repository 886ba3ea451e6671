"""The score log f of a row, and its trust weight alpha = f / (f + b / log n)."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from scipy.special import expit

from .._utils.arrays import Floats
from .._utils.saved import LARGEST_LOG, saved_number, saved_part
from ..core.density import Density
from ..core.neighbours import Neighbours
from .floor import interquartile_range, logistic_scale, ranks
from .ranked import RankedTerms

# Share of new in-distribution rows that may be out of a feature's range by more than ``reach``.
BEYOND_REACH = 0.005
# Largest reach, in half ranges, however heavy the tail of some feature is.
MOST_REACH = 1.0
# Units of log f that a row loses for each half range beyond ``reach``.
SLOPE = 50.0

# Weight of the posterior's lift beside log f, whose interquartile range is 2.2.
LIFT_WEIGHT = 2.0

NO_LOGITS = (
    "this model needs the logits of an encoder's head, which its parent does not give. Load it "
    "with the network that it was fitted with."
)


@dataclass(frozen=True)
class GateInput:
    """Rows, and the polytopes nearest to them."""

    X: Floats  # encoded
    neighbours: Neighbours
    density: Density
    energy: Floats | None = None  # of each row's logits, where the parent gives it
    n_jobs: int | None = None
    # how far a row is out of the range of some number, in half ranges, where it counts
    beyond: Floats | None = None
    # subtracted from mean log K, where that of other rows is lower for a reason of its own
    log_similarity_excess: float = 0.0
    # ``Directions.terms``, where rows are directions of an embedding
    directions: Floats | None = None


@dataclass(frozen=True)
class Gate(ABC):
    """Turns the nearest polytopes into log f, and log f into alpha.

    Guarantees: alpha is in [0, 1], is 0 where a row has no symbol in common with any polytope
    (unless neighbours are Euclidean), and goes to 0 with distance, since every Gaussian does.
    """

    n_samples: int = saved_number(int, above=1, below=2**63)
    log_floor: float = saved_number(float, infinite=True)
    # whether neighbours were found by K; a Euclidean neighbour counts whatever its K is
    by_similarity: bool = saved_number(bool)

    @classmethod
    @abstractmethod
    def fit(
        cls,
        n_samples: int,
        by_similarity: bool,
        folds: Sequence[GateInput],
        weight: Floats | None = None,
        new_weight: float | None = None,
    ) -> tuple[Self, Floats]:
        """A gate whose floor is still 0, and log f of the calibration rows of all folds.

        The weights are those of ``CalibrationScores``.
        """

    @abstractmethod
    def log_f(self, rows: GateInput) -> Floats:
        """log f of each row, in the units of ``log_floor``."""

    def lifted(self, log_f: Floats, lift: Floats) -> Floats:
        """The score of each row, from its log f and the lift of its posterior."""
        return log_f

    def alpha(self, log_f: Floats) -> Floats:
        """f / (f + b / log n)."""
        with np.errstate(invalid="ignore"):
            alpha = expit(log_f - self.log_floor + math.log(math.log(self.n_samples)))
        return np.where(np.isneginf(log_f), 0.0, alpha)


@dataclass(frozen=True)
class GaussianGate(Gate):
    """As in the paper: f = G(x; r*) times the mass of r*, which is sum_y prior_y R_r*y.

    Without the ratios R (``posterior="pooled"`` or "parent") the mass is n_r* / n.
    """

    @classmethod
    def fit(
        cls,
        n_samples: int,
        by_similarity: bool,
        folds: Sequence[GateInput],
        weight: Floats | None = None,
        new_weight: float | None = None,
    ) -> tuple[Self, Floats]:
        gate = cls(n_samples, 0.0, by_similarity)
        return gate, np.concatenate([gate.log_f(fold) for fold in folds])

    def log_f(self, rows: GateInput) -> Floats:
        density, nearest = rows.density, rows.neighbours.index[:, :1]
        log_density = density.log_density(rows.X, nearest, rows.n_jobs)
        log_f = (log_density + density.log_mass[nearest])[:, 0]
        if not self.by_similarity:
            return log_f
        return np.where(rows.neighbours.similarity[:, 0] > 0, log_f, -np.inf)


@dataclass(frozen=True)
class GeodesicGate(Gate):
    """log f = (log sum of the nearest polytopes' kernels + kappa times a second term) / scale.

    The second term is mean log K. In older files it is, for directions of an embedding, the energy
    of the logits, cut at the highest energy of the calibration rows.

    Among hundreds of features, one that is far out of its range hardly changes these terms. So log
    f falls by ``SLOPE`` for each half range that the farthest number lies beyond ``reach``.
    """

    kappa: float = saved_number(float, above=-LARGEST_LOG, below=LARGEST_LOG)
    scale: float = saved_number(float, above=1 / LARGEST_LOG)
    # highest energy of the calibration rows; None where the second term is mean log K
    ceiling: float | None = saved_number(
        float, optional=True, above=-LARGEST_LOG, below=LARGEST_LOG, default=None
    )
    # whether the lift of the posterior is part of the score
    lifts: bool = saved_number(bool, default=True)
    # how far numbers of all but ``BEYOND_REACH`` of the calibration rows are out of their ranges,
    # in half ranges; None where ranges do not count
    reach: float | None = saved_number(float, optional=True, above=-1.0, default=None)

    @classmethod
    def fit(
        cls,
        n_samples: int,
        by_similarity: bool,
        folds: Sequence[GateInput],
        weight: Floats | None = None,
        new_weight: float | None = None,
    ) -> tuple[Self, Floats]:
        terms = [neighbourhood(fold, by_similarity) for fold in folds]
        kernel, log_similarity = map(np.concatenate, zip(*terms, strict=True))
        energies = [fold.energy for fold in folds if fold.energy is not None]
        energy = np.concatenate(energies) if energies else None
        gate = cls.from_terms(n_samples, by_similarity, kernel, log_similarity, energy)
        log_f = gate.combine(kernel, log_similarity, energy)
        found = [fold.beyond for fold in folds if fold.beyond is not None]
        if not found:
            return gate, log_f
        beyond = np.concatenate(found)
        reach, own_reach = reaches(
            beyond, np.ones(len(beyond)) if weight is None else weight, new_weight
        )
        return replace(gate, reach=reach), log_f - excess(beyond, own_reach)

    @classmethod
    def from_terms(
        cls,
        n_samples: int,
        by_similarity: bool,
        kernel: Floats,
        log_similarity: Floats,
        energy: Floats | None,
    ) -> Self:
        """kappa, scale and ceiling from the terms of the calibration rows."""
        ceiling = None if energy is None else float(energy.max())
        second = log_similarity if energy is None else energy
        if energy is None and not by_similarity:
            return cls(n_samples, 0.0, by_similarity, 0.0, logistic_scale(kernel))
        kappa = balance(kernel, second)
        scale = logistic_scale(kernel + kappa * second)
        return cls(n_samples, 0.0, by_similarity, kappa, scale, ceiling, energy is None)

    def lifted(self, log_f: Floats, lift: Floats) -> Floats:
        """log f plus the weighted lift max_c log(pi_c / prior_c).

        By Bayes' rule f pi_c / prior_c is the density of class c, so that a row is judged by the
        class that fits it best. A rare class lies where there is little data of any class; without
        the lift most false alarms are its rows. Energy says the same of an embedding already.
        """
        return log_f + LIFT_WEIGHT * lift if self.lifts else log_f

    def log_f(self, rows: GateInput) -> Floats:
        log_f = self.combine(*neighbourhood(rows, self.by_similarity), rows.energy)
        if self.reach is None or rows.beyond is None:
            return log_f
        return log_f - excess(rows.beyond, self.reach)

    def combine(self, kernel: Floats, second: Floats, energy: Floats | None) -> Floats:
        """log f from the two terms of ``neighbourhood``, and the energy."""
        if self.ceiling is not None:
            if energy is None:
                raise ValueError(NO_LOGITS)
            second = np.minimum(energy, self.ceiling)
        return (kernel + self.kappa * second) / self.scale


@dataclass(frozen=True)
class DirectionGate(Gate):
    """For directions of an embedding: log f = sum of three log p-values / scale.

    The terms are the mean cosine to the nearest rows of the fit, minus the distance to the nearest
    class mean in units of the spread within classes, and the energy of the logits. Each sees what
    others miss: noise has energy, and lies where no row is.
    """

    scale: float = saved_number(float, above=1 / LARGEST_LOG)
    terms: RankedTerms = saved_part()

    @classmethod
    def fit(
        cls,
        n_samples: int,
        by_similarity: bool,
        folds: Sequence[GateInput],
        weight: Floats | None = None,
        new_weight: float | None = None,
    ) -> tuple[Self, Floats]:
        terms = np.concatenate([direction_terms(fold) for fold in folds], axis=1)
        weight = np.ones(terms.shape[1]) if weight is None else weight
        ranked, sums = RankedTerms.fit(terms, weight, new_weight)
        scale = logistic_scale(sums)
        return cls(n_samples, 0.0, by_similarity, scale, ranked), sums / scale

    def log_f(self, rows: GateInput) -> Floats:
        return self.terms.sums(direction_terms(rows)) / self.scale


def direction_terms(rows: GateInput) -> Floats:
    """The terms of ``DirectionGate``, shape (3, n_samples)."""
    if rows.energy is None or rows.directions is None:
        raise ValueError(NO_LOGITS)
    return np.concatenate([rows.directions, rows.energy[None]])


def neighbourhood(rows: GateInput, by_similarity: bool = True) -> tuple[Floats, Floats]:
    """log of the sum of the kernels of height 1, and mean log K, over neighbours with K > 0.

    For numbers, the log kernel is -1/2 of the squared distance in units of the polytope's
    bandwidth, so a narrow polytope has no advantage. Without any neighbour the first term is -inf
    and the second 0. Euclidean neighbours (``by_similarity`` False) all count, and the second term
    is 0.
    """
    near = rows.neighbours
    log_kernel = rows.density.log_kernel(rows.X, near.index, rows.n_jobs)
    if not by_similarity:
        return np.logaddexp.reduce(log_kernel, axis=1), np.zeros(len(log_kernel))
    counts = near.similarity > 0
    log_kernel = np.where(counts, log_kernel, -np.inf)
    log_similarity = np.log(np.where(counts, near.similarity, 1.0)).sum(axis=1)
    log_similarity /= np.maximum(counts.sum(axis=1), 1)
    log_similarity -= rows.log_similarity_excess
    return np.logaddexp.reduce(log_kernel, axis=1), log_similarity


def reaches(beyond: Floats, weight: Floats, new_weight: float | None = None) -> tuple[float, float]:
    """What all but ``BEYOND_REACH`` of new in-distribution rows stay below, and one rank less.

    The first is for new rows. The second is for the calibration rows themselves: it is what the
    first would be without one of those above. Where the rows are too few to tell, the first is the
    highest of all. Both are at most ``MOST_REACH``: a wrong value in one row must not hide all
    others.
    """
    order = np.argsort(-beyond)
    rank = ranks(weight[order], new_weight)
    last = max(int(np.searchsorted(rank, BEYOND_REACH * (1 + 1e-12), side="right")) - 1, 0)
    found = beyond[order[[last, min(last + 1, len(order) - 1)]]]
    reach, own_reach = np.minimum(found, MOST_REACH).tolist()
    return reach, own_reach


def excess(beyond: Floats, reach: float) -> Floats:
    """What rows lose in log f for lying beyond the reach."""
    lost: Floats = SLOPE * np.maximum(beyond - reach, 0.0)
    return lost


def balance(kernel: Floats, second: Floats) -> float:
    """kappa = IQR(log G) / IQR(second), so that both terms vary equally on the calibration rows."""
    finite = np.isfinite(kernel)
    spread = interquartile_range(second[finite])
    return interquartile_range(kernel[finite]) / spread if spread > 0 else 1.0
