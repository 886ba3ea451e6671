"""What the labels say there: the pool of parent and kernel, and the mixture with the prior."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax
from sklearn.utils import gen_batches

from ._confidence import ConfidenceMap, fit_confidence
from ._newton import minimize_convex
from ._smoothing import choose_gamma
from .metrics import expected_calibration_error

# Each source enters the pool in these views; the first two may not have negative weights.
VIEWS = ("log p", "-log(1 - p)", "p")
# Precision of the Gaussian prior on the pool's free terms: one unit of log odds.
FREE_PRECISION = 1.0
BLOCK = 2**14  # numbers of one view that are worked on together


@dataclass(frozen=True)
class Pool:
    """log pi = sum over sources and views of weight times view, plus offset, up to a constant.

    With log p alone this is the log-linear pool; -log(1 - p) and p let each source's own
    calibration curve bend at both ends (as beta calibration does) and in the middle.
    """

    weights: NDArray  # (n_sources, n_views)
    offset: NDArray  # (n_classes,)
    confidence: ConfidenceMap

    def __call__(self, views: NDArray) -> NDArray:
        """Log probabilities from views of shape (n_sources, n_views, n_samples, n_classes)."""
        return self.confidence(_combine(self.weights, self.offset, views))


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

    def log_proba(self, parent: NDArray, kernel: NDArray | None) -> NDArray:
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
) -> Posterior:
    """Choose gamma (unless given) and the pool by their loss on the calibration rows.

    ``kernel`` gives the kernel's probabilities of those rows for several gammas, shape
    (n_gammas, n_rows, n_classes), from evidence that does not hold a row's own label.
    """
    held_prior = np.bincount(y, weight, len(train_prior)) / weight.sum()
    parent = views_of(parent_proba, train_prior, n_rows)
    if kernel is None:
        pool, _ = fit_pool(parent[None], y, weight, train_prior)
        return Posterior(None, pool, train_prior, held_prior, prior, n_rows)

    def judge(proba: NDArray, near: Pool | None = None) -> tuple[Pool | None, float]:
        """The pool for one gamma's kernel posterior, and the loss to choose gamma by."""
        views = views_of(proba, train_prior, n_rows)
        pool = None
        loss = -np.average(views[0, np.arange(len(y)), y], weights=weight)
        if pooled:
            sources = np.stack([parent, views])
            pool, loss = fit_pool(sources, y, weight, train_prior, near)
        if scoring == "ece":
            log_pi = views[0] if pool is None else pool(sources)
            loss = expected_calibration_error(y, np.exp(log_pi), sample_weight=weight)
        return pool, float(loss)

    pools: dict[float, Pool | None] = {}

    def losses(gammas: NDArray) -> NDArray:
        """Neighbours on the grid have similar pools: each starts where the one before ended."""
        found, pool = [], None
        for one, proba in zip(gammas, kernel(gammas), strict=True):
            pool, loss = judge(proba, pool)
            pools[float(one)] = pool
            found.append(loss)
        return np.array(found)

    if gamma is None:
        gamma = choose_gamma(losses)
    else:
        losses(np.array([gamma]))
    fitted_prior = held_prior if pooled else train_prior
    return Posterior(gamma, pools[gamma], train_prior, fitted_prior, prior, n_rows)


def views_of(proba: NDArray, prior: NDArray, n_rows: int) -> NDArray:
    """log p, -log(1 - p) and p, shape (n_views, n_samples, n_classes).

    p has one more row, spread by the prior, among the n that it was estimated from: n rows
    can neither exclude a class nor prove it, and every log stays finite.
    """
    share = 1.0 / (n_rows + 1.0)
    p = (1.0 - share) * proba + share * prior
    return np.stack([np.log(p), -np.log1p(-p), p])


def fit_pool(
    views: NDArray, y: NDArray, weight: NDArray, prior: NDArray, near: Pool | None = None
) -> tuple[Pool, float]:
    """Weights and offsets of lowest log-loss on the calibration rows, and that loss.

    The problem is convex; ``near`` is a pool to start from.

    Each label counts as n / (n + 1) of a row plus 1 / (n + 1) spread by the prior (Platt's
    correction), so that separable calibration rows do not drive the weights to infinity.
    """
    n_sources, n_views, n_samples, n_classes = views.shape
    n_weights = n_sources * n_views
    flat = views.reshape(n_weights, n_samples, n_classes)
    target = np.tile(prior / (n_samples + 1.0), (n_samples, 1))
    target[np.arange(n_samples), y] += n_samples / (n_samples + 1.0)
    row_weight = (weight / weight.sum())[:, None]
    target *= row_weight
    free = np.tile([view == "p" for view in VIEWS], n_sources)
    precision = FREE_PRECISION / n_samples * np.append(free, np.ones(n_classes))
    first, last = slice(n_weights), slice(n_weights, None)  # weights, offsets

    # Each block adds n_classes squared numbers to the curvature: not for a handful of rows.
    n_together = max(1, BLOCK // n_classes, n_classes // 8)

    def loss(theta: NDArray) -> tuple[float, NDArray, NDArray]:
        """Log-loss with its slope and curvature, block by block: one stays in the cache."""
        value = 0.5 * float((precision * theta**2).sum())
        slope, curvature = precision * theta, np.diag(precision)
        for rows in gen_batches(n_samples, n_together):
            v, share = flat[:, rows].reshape(n_weights, -1), row_weight[rows]
            z = (theta[first] @ v).reshape(-1, n_classes) + theta[last]
            z -= z.max(axis=1, keepdims=True)
            p = np.exp(z)
            total = p.sum(axis=1, keepdims=True)
            p /= total
            value += np.vdot(share, np.log(total)) - np.vdot(target[rows], z)
            mass = share * p
            residual = mass - target[rows]
            slope[first] += v @ residual.ravel()
            slope[last] += residual.sum(axis=0)
            expected = (v * p.ravel()).reshape(n_weights, -1, n_classes).sum(axis=2)
            weighted = v * mass.ravel()
            curvature[first, first] += weighted @ v.T - (expected * share.T) @ expected.T
            across = weighted.reshape(n_weights, -1, n_classes).sum(axis=1) - expected @ mass
            curvature[first, last] += across
            curvature[last, first] += across.T
            curvature[last, last] += np.diag(mass.sum(axis=0)) - p.T @ mass
        return value, slope, curvature

    start = np.zeros(n_weights + n_classes)
    start[:n_weights:n_views] = 1.0 / n_sources
    if near is not None:
        start = np.append(near.weights, near.offset)
    bounded = np.append(~free, np.zeros(n_classes, dtype=bool))
    theta, lowest = minimize_convex(loss, start, bounded)
    weights, offset = theta[first].reshape(n_sources, n_views), theta[last]
    confidence = fit_confidence(_combine(weights, offset, views), y, weight)
    return Pool(weights, offset, confidence), lowest


def _combine(weights: NDArray, offset: NDArray, views: NDArray) -> NDArray:
    return log_softmax(np.tensordot(weights, views, axes=weights.ndim) + offset, axis=1)


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
