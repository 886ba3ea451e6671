"""What the labels say there: the pool of parent and kernel, and the mixture with the prior."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import log_softmax

from ._smoothing import PolytopeRatios, QueryRatios, choose_gamma
from ._types import ActivationModes, Near
from .kernels import Effort, HeldOut
from .metrics import expected_calibration_error

# Precision of the Gaussian prior on the class offsets of the pool: one unit of log odds.
OFFSET_PRECISION = 1.0


@dataclass(frozen=True)
class Pool:
    """log pi = sum_m weights[m] log pi_m + offset, up to a constant."""

    weights: NDArray  # (n_sources,), not negative
    offset: NDArray  # (n_classes,)

    def __call__(self, log_sources: NDArray) -> NDArray:
        """Log probabilities from sources of shape (n_sources, n_samples, n_classes)."""
        return log_softmax(np.tensordot(self.weights, log_sources, axes=1) + self.offset, axis=1)


@dataclass(frozen=True)
class Posterior:
    """pi, from the kernel (or None) and the pool (or None: the kernel alone, the paper)."""

    kernel: QueryRatios | PolytopeRatios | None
    gamma: float | None
    pool: Pool | None
    train_prior: NDArray
    prior: NDArray
    n_rows: int

    def log_proba(
        self, modes: ActivationModes, parent_proba: NDArray, near: Near, effort: Effort
    ) -> NDArray:
        """log pi under ``prior``, shape (n_queries, n_classes)."""
        sources = []
        if self.pool is not None:
            sources.append(with_prior_row(parent_proba, self.train_prior, self.n_rows))
        if self.kernel is not None:
            proba = self.kernel.proba(modes, near, np.array([self.gamma]), effort)[0]
            if self.pool is None:
                with np.errstate(divide="ignore"):
                    return shift_prior(np.log(proba), self.train_prior, self.prior)
            sources.append(with_prior_row(proba, self.train_prior, self.n_rows))
        assert self.pool is not None
        return shift_prior(self.pool(np.stack(sources)), self.train_prior, self.prior)


@dataclass(frozen=True)
class CalibrationRows:
    """What a posterior is calibrated on."""

    modes: ActivationModes
    near: Near
    parent_proba: NDArray
    y: NDArray
    weight: NDArray


def fit_posterior(
    kernel: QueryRatios | PolytopeRatios | None,
    rows: CalibrationRows,
    *,
    pooled: bool,
    gamma: float | None,
    scoring: str,
    train_prior: NDArray,
    prior: NDArray,
    n_rows: int,
    effort: Effort,
) -> Posterior:
    """Choose gamma (unless given) and the pool by their loss on the calibration rows."""
    y, weight = rows.y, rows.weight
    parent = with_prior_row(rows.parent_proba, train_prior, n_rows)
    if kernel is None:
        pool, _ = fit_pool(parent[None], y, weight, train_prior)
        return Posterior(None, None, pool, train_prior, prior, n_rows)
    held_out = HeldOut(y, weight)

    def judge(proba: NDArray) -> tuple[Pool | None, float]:
        """The pool for one gamma's kernel posterior, and the loss to choose gamma by."""
        pool, log_pi = None, with_prior_row(proba, train_prior, n_rows)
        loss = -np.average(log_pi[np.arange(len(y)), y], weights=weight)
        if pooled:
            sources = np.stack([parent, log_pi])
            pool, loss = fit_pool(sources, y, weight, train_prior)
            log_pi = pool(sources)
        if scoring == "ece":
            loss = expected_calibration_error(y, np.exp(log_pi), sample_weight=weight)
        return pool, float(loss)

    def losses(gammas: NDArray) -> NDArray:
        probas = kernel.proba(rows.modes, rows.near, gammas, effort, held_out)
        return np.array([judge(proba)[1] for proba in probas])

    if gamma is None:
        gamma = choose_gamma(losses)
    fitted = kernel.at(gamma, effort)
    proba = fitted.proba(rows.modes, rows.near, np.array([gamma]), effort, held_out)[0]
    return Posterior(fitted, gamma, judge(proba)[0], train_prior, prior, n_rows)


def fit_pool(
    log_sources: NDArray, y: NDArray, weight: NDArray, prior: NDArray
) -> tuple[Pool, float]:
    """Weights and offsets of lowest log-loss on the calibration rows, and that loss.

    Each label counts as n / (n + 1) of a row plus 1 / (n + 1) spread by the prior (Platt's
    correction), so that separable calibration rows do not drive the weights to infinity.
    """
    n_sources, n_samples, n_classes = log_sources.shape
    target = np.tile(prior / (n_samples + 1.0), (n_samples, 1))
    target[np.arange(n_samples), y] += n_samples / (n_samples + 1.0)
    row_weight = (weight / weight.sum())[:, None]

    def loss(theta: NDArray) -> tuple[float, NDArray]:
        a, offset = theta[:n_sources], theta[n_sources:]
        log_p = log_softmax(np.tensordot(a, log_sources, axes=1) + offset, axis=1)
        residual = row_weight * (np.exp(log_p) - target)
        value = -(row_weight * target * log_p).sum()
        value += 0.5 * OFFSET_PRECISION / n_samples * (offset**2).sum()
        slope = residual.sum(axis=0) + OFFSET_PRECISION / n_samples * offset
        return value, np.concatenate([np.tensordot(log_sources, residual, axes=2), slope])

    start = np.concatenate([np.full(n_sources, 1.0 / n_sources), np.zeros(n_classes)])
    bounds = [(0.0, None)] * n_sources + [(None, None)] * n_classes
    result = minimize(loss, start, jac=True, bounds=bounds, method="L-BFGS-B")
    return Pool(result.x[:n_sources], result.x[n_sources:]), float(result.fun)


def with_prior_row(proba: NDArray, prior: NDArray, n_rows: int) -> NDArray:
    """log of the probabilities after one more row, spread by the prior, among n.

    An estimate from n rows cannot exclude a class; this keeps every log finite.
    """
    share = 1.0 / (n_rows + 1.0)
    return np.log((1.0 - share) * proba + share * prior)


def shift_prior(log_posterior: NDArray, from_prior: NDArray, to_prior: NDArray) -> NDArray:
    """The posterior under another prior, by Bayes' rule."""
    if np.array_equal(from_prior, to_prior):
        return log_posterior
    return log_softmax(log_posterior + np.log(to_prior) - np.log(from_prior), axis=1)


def mixture(alpha: NDArray, log_posterior: NDArray, prior: NDArray) -> NDArray:
    """g(x) = alpha pi + (1 - alpha) prior; exactly the prior where alpha is 0."""
    a = alpha[:, None]
    with np.errstate(invalid="ignore"):
        return np.where(a > 0, a * np.exp(log_posterior) + (1.0 - a) * prior, prior)


def decide(proba: NDArray, log_posterior: NDArray) -> NDArray:
    """Class of highest probability; equal ones are told apart by the posterior itself.

    Far away alpha falls below rounding and all classes of equal prior tie; rounding is
    monotone, so the posterior decides as the exact mixture would.
    """
    highest = proba == proba.max(axis=1, keepdims=True)
    return np.where(highest, log_posterior, -np.inf).argmax(axis=1)
