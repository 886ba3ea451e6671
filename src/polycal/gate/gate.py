"""Is there any data there? log f, the floor, and the weight alpha = f / (f + b / log n)."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from .._utils.significance import above_chance
from ..core.density import Density
from ..core.neighbours import Neighbours

#: False-alarm levels that "auto" chooses among.
LEVELS = (0.01, 0.015, 0.02, 0.03, 0.05, 0.07, 0.1)


@dataclass(frozen=True)
class GateInput:
    """Rows and the polytopes near them."""

    X: NDArray  # encoded
    near: Neighbours
    density: Density
    energy: NDArray | None = None  # of each row, as the parent reads it
    n_jobs: int | None = None


@dataclass(frozen=True)
class Gate(ABC):
    """Turns the nearest polytopes into log f, and log f into alpha.

    Guarantees: alpha lies in [0, 1], is 0 where no symbol agrees with any polytope, and goes
    to 0 with distance, since every Gaussian does.
    """

    n_samples: int
    log_floor: float

    @abstractmethod
    def log_f(self, place: GateInput) -> NDArray:
        """log f of each row, in the units of ``log_floor``."""

    def alpha(self, log_f: NDArray) -> NDArray:
        """f / (f + b / log n)."""
        with np.errstate(invalid="ignore"):
            alpha = expit(log_f - self.log_floor + math.log(math.log(self.n_samples)))
        return np.where(np.isneginf(log_f), 0.0, alpha)


@dataclass(frozen=True)
class GaussianGate(Gate):
    """The paper: f = G(x; r*) times the mass of r*, which is sum_y prior_y R_r*y.

    Without smoothed ratios R (the pooled and the parent's posterior) it is n_r* / n.
    """

    def log_f(self, place: GateInput) -> NDArray:
        density, nearest = place.density, place.near.index[:, :1]
        log_density = density.log_density(place.X, nearest, place.n_jobs)
        log_f = (log_density + density.log_mass[nearest])[:, 0]
        return np.where(place.near.similarity[:, 0] > 0, log_f, -np.inf)


@dataclass(frozen=True)
class GeodesicGate(Gate):
    """log f = (log sum of the nearest polytopes' kernels + kappa times a second term) / scale.

    The second term is mean log K; for directions of an embedding it is the energy, up to the
    highest one of the calibration rows.
    """

    kappa: float
    scale: float
    ceiling: float | None = None  # of the energy; None without

    @classmethod
    def fit(
        cls,
        n_samples: int,
        log_floor: float,
        kernel: NDArray,
        log_similarity: NDArray | None,
        energy: NDArray | None,
    ) -> GeodesicGate:
        """kappa, scale and ceiling from the calibration rows; without a second term kappa is 0."""
        ceiling = None if energy is None else float(energy.max())
        second = log_similarity if energy is None else energy
        if second is None:
            return cls(n_samples, log_floor, 0.0, logistic_scale(kernel))
        kappa = balance(kernel, second)
        return cls(n_samples, log_floor, kappa, logistic_scale(kernel + kappa * second), ceiling)

    def log_f(self, place: GateInput) -> NDArray:
        return self.joined(*neighbourhood(place), place.energy)

    def joined(self, kernel: NDArray, second: NDArray, energy: NDArray | None) -> NDArray:
        """log f from what ``neighbourhood`` gives."""
        if self.ceiling is not None:
            if energy is None:
                raise ValueError(
                    "this model judges rows by the logits of an encoder's head, which its parent "
                    "does not give. Load it with the network that it was fitted with."
                )
            second = np.minimum(energy, self.ceiling)
        return (kernel + self.kappa * second) / self.scale


def neighbourhood(place: GateInput) -> tuple[NDArray, NDArray]:
    """log of the sum of the kernels of height 1, and mean log K, over neighbours with K > 0.

    For numbers a kernel is -1/2 of the squared distance in units of the polytope's bandwidth,
    so a narrow polytope has no advantage. Without any neighbour the first is -inf and the
    second 0.
    """
    near = place.near
    there = near.similarity > 0
    kernel = np.where(there, place.density.log_kernel(place.X, near.index, place.n_jobs), -np.inf)
    log_similarity = np.log(np.where(there, near.similarity, 1.0)).sum(axis=1)
    kernel = np.logaddexp.reduce(kernel, axis=1)
    return kernel, log_similarity / np.maximum(there.sum(axis=1), 1)


def balance(kernel: NDArray, second: NDArray) -> float:
    """kappa = IQR(log G) / IQR(second): both terms spread alike on the calibration rows."""
    there = np.isfinite(kernel)
    spread = interquartile_range(second[there])
    return interquartile_range(kernel[there]) / spread if spread > 0 else 1.0


def logistic_scale(scores: NDArray) -> float:
    """Scale of the logistic curve that has the scores' interquartile range (2 s log 3).

    In many dimensions log f varies by hundreds, so that alpha would be a step and cost every
    in-distribution row below the floor its whole posterior; in these units it is a slope.
    """
    width = interquartile_range(scores[np.isfinite(scores)])
    return width / (2 * math.log(3)) if width > 0 else 1.0


def interquartile_range(values: NDArray) -> float:
    if len(values) == 0:
        return 0.0
    low, high = np.quantile(values, [0.25, 0.75])
    return float(high - low)


@dataclass(frozen=True)
class CalibrationScores:
    """log f of the calibration rows: what in-distribution rows look like."""

    log_f: NDArray
    weight: NDArray

    def floor(self, level: float) -> float:
        """Score that at most ``level`` of new in-distribution rows fall below."""
        return conformal_floor(self.log_f, self.weight, level)

    def p_value(self, log_f: NDArray) -> NDArray:
        """Share of in-distribution rows that are no more familiar, the new row among them.

        A new in-distribution row has p <= level with probability at most level.
        """
        order = np.argsort(self.log_f)
        below = np.concatenate([[0.0], np.cumsum(self.weight[order])])
        place = np.searchsorted(self.log_f[order], log_f, side="right")
        one = self.weight.mean()
        return (below[place] + one) / (below[-1] + one)


def affordable_level(
    gate: Gate,
    familiar: CalibrationScores,
    log_posterior: NDArray,
    prior: NDArray,
    y: NDArray,
) -> float:
    """The most protection that the calibration rows afford: ``false_alarm="auto"``.

    The highest of ``LEVELS`` up to which the log-loss of alpha pi + (1 - alpha) prior on the
    calibration rows exceeds that at the lowest level by no more than one standard error of the
    paired difference. Rows that look unfamiliar are often those that pi gets wrong; as long as
    falling back to the prior there costs nothing that can be told from chance, it is free.
    """

    def losses(level: float) -> NDArray:
        alpha = replace(gate, log_floor=familiar.floor(level)).alpha(familiar.log_f)
        own = np.exp(log_posterior[np.arange(len(y)), y])
        return -np.log(alpha * own + (1.0 - alpha) * prior[y])

    lowest = losses(LEVELS[0])
    affordable = LEVELS[0]
    for level in LEVELS[1:]:
        if above_chance(losses(level) - lowest, familiar.weight):
            break
        affordable = level
    return affordable


def conformal_floor(log_f: NDArray, weight: NDArray, false_alarm: float) -> float:
    """log b: at most ``false_alarm`` of new in-distribution rows score below it.

    With n exchangeable calibration scores, the floor is the one of rank
    floor(false_alarm (n + 1)), so a new score falls below it with probability at most
    false_alarm. With weights, rank is weight, and the new row has the mean weight.
    Fewer than 1 / false_alarm - 1 rows cannot support that bound; the floor is then set
    below the lowest score by an exponential tail with the scale of the scores.
    Scores of -inf never become the floor: alpha is 0 there by itself.
    """
    finite = np.isfinite(log_f)
    if not finite.any():
        return 0.0
    order = np.argsort(log_f)
    rank = np.cumsum(weight[order]) / (weight.sum() + weight.mean())
    # The rank itself counts as reached in spite of rounding in the sum.
    place = int(np.searchsorted(rank, false_alarm * (1 + 1e-12), side="right")) - 1
    lowest = float(log_f[finite].min())
    if place < 0:
        return lowest - logistic_scale(log_f) * math.log(float(rank[0]) / false_alarm)
    return max(float(log_f[order[place]]), lowest)
