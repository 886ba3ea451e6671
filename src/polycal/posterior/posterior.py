"""What the labels say there: the posterior from pool and prior, and the mixture with the prior."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax

from ..metrics import expected_calibration_error
from .pool import VIEWS, Pool, fit_pool, views_of
from .votes import choose_gamma


@dataclass(frozen=True)
class Posterior:
    """pi, from the probabilities of parent and kernel.

    Without a pool it is the kernel's (the paper); without a gamma there is no kernel.
    """

    gamma: float | None
    pool: Pool | None
    train_prior: NDArray  # of the evidence
    fitted_prior: NDArray  # that the pool was fitted under
    prior: NDArray  # where the model is used
    n_rows: int

    def log_proba(self, parent: NDArray, kernel: NDArray | None = None) -> NDArray:
        """log pi under ``prior``, shape (n_queries, n_classes)."""
        if self.pool is None:
            assert kernel is not None
            with np.errstate(divide="ignore"):
                log_pi = np.log(kernel)
        else:
            sources = [parent] if kernel is None else [parent, kernel]
            views = [views_of(proba, self.train_prior, self.n_rows) for proba in sources]
            log_pi = self.pool(np.stack(views))
        return shift_prior(log_pi, self.fitted_prior, self.prior)

    @property
    def pool_weights(self) -> NDArray:
        """Weights of parent and kernel in each view, shape (2, n_views)."""
        weights = np.zeros((2, len(VIEWS)))
        if self.pool is None:
            weights[1, 0] = 1.0
        else:
            weights[: len(self.pool.weights)] = self.pool.weights
        return weights


def fit_posterior(
    kernel: Callable[[NDArray], NDArray] | None,
    parent_proba: NDArray,
    y: NDArray,
    weight: NDArray,
    *,
    pooled: bool,
    gamma: float | None,
    scoring: str,
    train_prior: NDArray,
    prior: NDArray,
    n_rows: int,
    device: str | None = None,
) -> Posterior:
    """Choose gamma (unless given) and the pool by their loss on the calibration rows.

    ``kernel`` gives the kernel's probabilities of those rows for several gammas, shape
    (n_gammas, n_rows, n_classes), from evidence that does not hold a row's own label. The pool
    is fitted on ``device``, where that is not the CPU.
    """
    held_prior = np.bincount(y, weight, len(train_prior)) / weight.sum()
    parent = views_of(parent_proba, train_prior, n_rows)
    if kernel is None:
        alone, _ = fit_pool(parent[None], y, weight, train_prior, device=device)
        alone = alone.with_levels(parent[None], y, weight)
        return Posterior(None, alone, train_prior, held_prior, prior, n_rows)

    both = np.stack([parent, parent])  # once: with many classes it is large

    def beside_parent(proba: NDArray) -> NDArray:
        both[1] = views_of(proba, train_prior, n_rows)
        return both

    def judge(proba: NDArray, near: Pool | None) -> tuple[Pool | None, float]:
        """The pool for one gamma's kernel posterior, and the loss to choose gamma by."""
        views = beside_parent(proba)
        pool, log_pi = None, views[1, 0]
        loss = -np.average(log_pi[np.arange(len(y)), y], weights=weight)
        if pooled:
            pool, loss = fit_pool(views, y, weight, train_prior, near, device)
        if scoring == "ece":
            if pool is not None:
                log_pi = pool.with_levels(views, y, weight)(views)
            loss = expected_calibration_error(y, np.exp(log_pi), sample_weight=weight)
        return pool, float(loss)

    pools: dict[float, tuple[Pool, NDArray]] = {}

    def losses(gammas: NDArray) -> NDArray:
        """Neighbours on the grid have similar pools: each starts where the one before ended."""
        values, pool = [], None
        for one, proba in zip(gammas, kernel(gammas), strict=True):
            pool, loss = judge(proba, pool)
            if pool is not None:
                pools[float(one)] = pool, proba
            values.append(loss)
        return np.array(values)

    if gamma is None:
        gamma = choose_gamma(losses)
    else:
        losses(np.array([gamma]))
    if not pooled:
        return Posterior(gamma, None, train_prior, train_prior, prior, n_rows)
    best, proba = pools[gamma]
    best = best.with_levels(beside_parent(proba), y, weight)
    return Posterior(gamma, best, train_prior, held_prior, prior, n_rows)


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
