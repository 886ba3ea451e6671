"""The pool: parent and kernel together, as log-loss on the calibration rows would have it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax
from sklearn.utils import gen_batches

from .._utils.optional import optional
from .levels import ConfidenceLevels, fit_levels
from .newton import minimize_convex

# Each source enters the pool in these views; the first two may not have negative weights.
VIEWS = ("log p", "-log(1 - p)", "p")
# Precision of the Gaussian prior on the pool's free terms: one unit of log odds.
FREE_PRECISION = 1.0
# Numbers of one view that are worked on together: they stay in the cache.
BLOCK = 2**14
DEVICE_BLOCK = 2**22


@dataclass(frozen=True)
class Pool:
    """log pi = sum over sources and views of weight times view, plus offset, up to a constant.

    With log p alone this is the log-linear pool; -log(1 - p) and p let each source's own
    calibration curve bend at both ends (as beta calibration does) and in the middle.
    """

    weights: NDArray  # (n_sources, n_views)
    offset: NDArray  # (n_classes,)
    confidence: ConfidenceLevels | None = None

    def __call__(self, views: NDArray) -> NDArray:
        """Log probabilities from views of shape (n_sources, n_views, n_samples, n_classes)."""
        linear = np.tile(self.offset, (views.shape[2], 1))
        for source in zip(self.weights, views, strict=True):
            for weight, view in zip(*source, strict=True):
                linear += weight * view  # not a product: a row is added up as if it were alone
        log_pi = log_softmax(linear, axis=1)
        return log_pi if self.confidence is None else self.confidence(log_pi)

    def with_levels(self, views: NDArray, y: NDArray, weight: NDArray) -> Pool:
        """The same with levels of confidence from the rows that it was fitted on."""
        return replace(self, confidence=fit_levels(self(views), y, weight))


def views_of(proba: NDArray, prior: NDArray, n_rows: int) -> NDArray:
    """log p, -log(1 - p) and p, shape (n_views, n_samples, n_classes).

    p has one more row, spread by the prior, among the n that it was estimated from: n rows
    can neither exclude a class nor prove it, and every log stays finite.
    """
    share = 1.0 / (n_rows + 1.0)
    p = (1.0 - share) * proba + share * prior
    return np.stack([np.log(p), -np.log1p(-p), p])


def fit_pool(
    views: NDArray,
    y: NDArray,
    weight: NDArray,
    prior: NDArray,
    near: Pool | None = None,
    device: str | None = None,
) -> tuple[Pool, float]:
    """Weights and offsets of lowest log-loss on the calibration rows, and that loss.

    The problem is convex; ``near`` is a pool to start from. On a torch ``device`` the same lines
    run there.

    Each label counts as n / (n + 1) of a row plus 1 / (n + 1) spread by the prior (Platt's
    correction), so that separable calibration rows do not drive the weights to infinity.
    """
    n_sources, n_views, n_samples, n_classes = views.shape
    n_weights = n_sources * n_views
    xp, put = _arrays(device)
    target = np.tile(prior / (n_samples + 1.0), (n_samples, 1))
    target[np.arange(n_samples), y] += n_samples / (n_samples + 1.0)
    row_weight = (weight / weight.sum())[:, None]
    target *= row_weight
    free = np.tile([view == "p" for view in VIEWS], n_sources)
    precision = FREE_PRECISION / n_samples * np.append(free, np.ones(n_classes))
    first, last = slice(n_weights), slice(n_weights, None)  # weights, offsets

    block = BLOCK if device is None else DEVICE_BLOCK
    # Each block adds n_classes squared numbers to the curvature: not for a handful of rows.
    n_together = max(1, block // n_classes, n_classes // 8)
    flat = put(views.reshape(n_weights, n_samples, n_classes))
    target, row_weight, precision = put(target), put(row_weight), put(precision)

    def loss(theta: NDArray) -> tuple[float, NDArray, NDArray]:
        """Log-loss with its slope and curvature, block by block."""
        theta = put(theta)
        value = 0.5 * (precision * theta**2).sum()
        slope, curvature = precision * theta, xp.diag(precision)
        for rows in gen_batches(n_samples, n_together):
            v, share = flat[:, rows].reshape(n_weights, -1), row_weight[rows]
            z = (theta[first] @ v).reshape(-1, n_classes) + theta[last]
            z -= xp.amax(z, axis=1, keepdims=True)
            p = xp.exp(z)
            total = p.sum(axis=1, keepdims=True)
            p /= total
            value += share.ravel() @ xp.log(total).ravel() - target[rows].ravel() @ z.ravel()
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
            curvature[last, last] += xp.diag(mass.sum(axis=0)) - p.T @ mass
        if device is None:
            return float(value), slope, curvature
        return float(value), slope.cpu().numpy(), curvature.cpu().numpy()

    start = np.zeros(n_weights + n_classes)
    start[:n_weights:n_views] = 1.0 / n_sources
    if near is not None:
        start = np.append(near.weights, near.offset)
    bounded = np.append(~free, np.zeros(n_classes, dtype=bool))
    theta, lowest = minimize_convex(loss, start, bounded)
    return Pool(theta[first].reshape(n_sources, n_views), theta[last]), lowest


def _arrays(device: str | None) -> tuple[Any, Callable[[NDArray], Any]]:
    """The module whose functions are called, and what brings an array there."""
    if device is None:
        return np, np.asarray
    torch = optional("torch", "torch")
    return torch, partial(torch.as_tensor, device=device)
