"""Fit of the posterior: gamma and pool of lowest log-loss on the calibration rows."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, cholesky, solve_triangular
from scipy.optimize import nnls
from sklearn.utils import gen_batches

from .._utils.arrays import Bools, Floats, Ints
from .._utils.optional import optional
from ..metrics import expected_calibration_error
from .levels import fit_levels
from .posterior import VIEWS, Pool, Posterior, views_of
from .votes import choose_gamma

# Precision of the Gaussian prior on the unbounded terms of the pool: one unit of log odds.
FREE_PRECISION = 1.0
# Steps of the EM algorithm that fits the pool through the gate; more change nothing to speak of.
EM_STEPS = 2
# Weight that every row keeps there, as a share of its own.
LEAST_WEIGHT = 1e-6
# Numbers of one view in a block, so that it stays in the cache.
BLOCK = 2**14
DEVICE_BLOCK = 2**22
# Largest number of steps of Newton's method.
MOST_STEPS = 100
# A step is taken if its predicted decrease is more than this share of the value (or of
# SMALL_VALUE, if that is more: the rounding of sums of logarithms does not shrink with them).
TOLERANCE = 1e-10
SMALL_VALUE = 1e-3
# Added to the curvature, in units of its mean, so that there is no step in directions in which
# the loss is constant. The larger ones are for curvature that rounding has made negative; they
# make the step shorter.
RIDGES = (1e-9, 1e-6, 1e-3)
ARMIJO_SHARE = 1e-4  # of the decrease that the slope predicts
SHORTEST_STEP = 1e-15  # share of a step; shorter ones change nothing but rounding


def fit_posterior(
    votes: Callable[[Floats], Floats] | None,
    parent_proba: Floats,
    y: Ints,
    weight: Floats,
    *,
    pooled: bool,
    gamma: float | None,
    by_ece: bool,
    train_prior: Floats,
    prior: Floats,
    n_rows: int,
    device: str | None = None,
) -> Posterior:
    """Choose gamma (unless given) and the pool by their loss on the calibration rows.

    Parameters
    ----------
    votes : callable or None
        Probabilities by the votes for several gammas, shape (n_gammas, n_rows, n_classes), from
        evidence that does not hold a row's own label. None where only the parent is recalibrated.
    parent_proba : ndarray of shape (n_rows, n_classes)
    y, weight : ndarray of shape (n_rows,)
        Class codes and weights of the calibration rows.
    pooled : bool
        Whether the parent is pooled with the votes.
    gamma : float or None
        None: chosen on a grid.
    by_ece : bool
        Whether gamma is chosen by the ECE in place of the log-loss.
    train_prior, prior : ndarray of shape (n_classes,)
        Class shares of the labels that vote, and class priors where the model will be used.
    n_rows : int
        Number of rows that the probabilities are estimated from.
    device : str or None
        Torch device that the pool is fitted on. None is the CPU.
    """
    held_prior = np.bincount(y, weight, len(train_prior)) / weight.sum()
    parent = views_of(parent_proba, train_prior, n_rows)
    if votes is None:
        alone, _ = fit_pool(parent[None], y, weight, train_prior, device=device)
        alone = with_levels(alone, parent[None], y, weight)
        return Posterior(None, alone, train_prior, held_prior, prior, n_rows)

    both = np.stack([parent, parent])  # allocated once: with many classes it is large

    def beside_parent(proba: Floats) -> Floats:
        both[1] = views_of(proba, train_prior, n_rows)
        return both

    def judge(proba: Floats, start_from: Pool | None) -> tuple[Pool | None, float]:
        """The pool with the votes of one gamma, and the loss to choose gamma by."""
        views = beside_parent(proba)
        pool, log_pi = None, views[1, 0]
        loss = -np.average(log_pi[np.arange(len(y)), y], weights=weight)
        if pooled:
            pool, loss = fit_pool(views, y, weight, train_prior, start_from, device)
        if by_ece:
            if pool is not None:
                log_pi = with_levels(pool, views, y, weight)(views)
            loss = expected_calibration_error(y, np.exp(log_pi), sample_weight=weight)
        return pool, float(loss)

    pools: dict[float, tuple[Pool, Floats]] = {}

    def losses(gammas: Floats) -> Floats:
        """Losses of some gammas; each fit starts from the pool of the gamma before it."""
        values, pool = [], None
        for g, proba in zip(gammas, votes(gammas), strict=True):
            pool, loss = judge(proba, pool)
            if pool is not None:
                pools[float(g)] = pool, proba
            values.append(loss)
        return np.array(values)

    if gamma is None:
        gamma = choose_gamma(losses)
    else:
        losses(np.array([gamma]))
    if not pooled:
        return Posterior(gamma, None, train_prior, train_prior, prior, n_rows)
    best, proba = pools[gamma]
    best = with_levels(best, beside_parent(proba), y, weight)
    return Posterior(gamma, best, train_prior, held_prior, prior, n_rows)


def refit_through_gate(
    posterior: Posterior,
    parent_proba: Floats,
    votes: Floats | None,
    y: Ints,
    weight: Floats,
    alpha: Floats,
    device: str | None = None,
) -> Posterior:
    """Fit the pool again for the mixture alpha pi + (1 - alpha) prior, in which it is used.

    These are steps of the EM algorithm: each row weighs as much as pi, and not the prior, explains
    its label. So rows that the gate hands to the prior do not bend the pool.
    """
    if posterior.pool is None:
        return posterior
    sources = [parent_proba] if votes is None else [parent_proba, votes]
    prior, n_rows = posterior.train_prior, posterior.n_rows
    views = np.stack([views_of(proba, prior, n_rows) for proba in sources])
    pool, rows = replace(posterior.pool, levels=None), np.arange(len(y))
    for _ in range(EM_STEPS):
        by_pi = alpha * np.exp(pool(views)[rows, y])
        share = by_pi / (by_pi + (1.0 - alpha) * posterior.fitted_prior[y])
        explained = weight * np.maximum(share, LEAST_WEIGHT)
        pool, _ = fit_pool(views, y, explained, prior, pool, device)
    return replace(posterior, pool=with_levels(pool, views, y, explained))


def with_levels(pool: Pool, views: Floats, y: Ints, weight: Floats) -> Pool:
    """The pool with confidence levels from the rows that it was fitted on."""
    return replace(pool, levels=fit_levels(pool(views), y, weight))


def fit_pool(
    views: Floats,
    y: Ints,
    weight: Floats,
    prior: Floats,
    start_from: Pool | None = None,
    device: str | None = None,
) -> tuple[Pool, float]:
    """Weights and offsets of lowest log-loss on the calibration rows, and that loss.

    The problem is convex; ``start_from`` is a pool near the minimum. With a torch ``device`` the
    same code runs on that device.

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
    # Each block adds n_classes squared numbers to the curvature, so it must not be too small.
    n_together = max(1, block // n_classes, n_classes // 8)
    flat = put(views.reshape(n_weights, n_samples, n_classes))
    target, row_weight, precision = put(target), put(row_weight), put(precision)

    def loss(theta: Floats) -> tuple[float, Floats, Floats]:
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
    if start_from is not None:
        start = np.append(start_from.weights, start_from.offset)
    bounded = np.append(~free, np.zeros(n_classes, dtype=bool))
    theta, lowest = minimize_convex(loss, start, bounded)
    return Pool(theta[first].reshape(n_sources, n_views), theta[last]), lowest


def _arrays(device: str | None) -> tuple[Any, Callable[[Floats], Any]]:
    """The array module (NumPy or torch), and a function that moves an array to the device."""
    if device is None:
        return np, np.asarray
    torch = optional("torch", "torch")
    return torch, partial(torch.as_tensor, device=device)


def minimize_convex(
    function: Callable[[Floats], tuple[float, Floats, Floats]],
    start: Floats,
    bounded: Bools,
) -> tuple[Floats, float]:
    """Minimise a convex function by Newton's method; return the minimum and its value.

    ``function`` gives value, slope and curvature; ``bounded`` marks variables that must be at
    least 0. Each step goes straight towards the minimum, within the bounds, of the quadratic
    approximation; it is halved until the value decreases enough.
    """
    here, (value, slope, curvature) = start, function(start)
    for _ in range(MOST_STEPS):
        aim = _lowest_with_ridge(curvature, slope, here, bounded)
        promised = slope @ (here - aim)
        if promised <= TOLERANCE * max(abs(value), SMALL_VALUE):
            break
        share = 1.0
        while share > SHORTEST_STEP:
            there = here + share * (aim - here)
            found = function(there)
            if found[0] <= value - ARMIJO_SHARE * share * promised:
                break
            share /= 2
        else:
            break
        here, (value, slope, curvature) = there, found
    return here, value


def _lowest_with_ridge(curvature: Floats, slope: Floats, here: Floats, bounded: Bools) -> Floats:
    unit = np.trace(curvature) / len(here) * np.eye(len(here))
    for ridge in RIDGES[:-1]:
        with suppress(LinAlgError):
            return _lowest(curvature + ridge * unit, slope, here, bounded)
    return _lowest(curvature + RIDGES[-1] * unit, slope, here, bounded)


def _lowest(curvature: Floats, slope: Floats, here: Floats, bounded: Bools) -> Floats:
    """Minimum, within the bounds, of the quadratic approximation at ``here``.

    The bounded variables are solved first, as non-negative least squares.
    """
    free = ~bounded
    across = curvature[np.ix_(free, bounded)]
    inner = cho_factor(curvature[np.ix_(free, free)])
    left = curvature[np.ix_(bounded, bounded)] - across.T @ cho_solve(inner, across)
    root = cholesky(left)  # upper
    aim = left @ here[bounded] - slope[bounded] + across.T @ cho_solve(inner, slope[free])
    there = here.copy()
    there[bounded] = nnls(root, solve_triangular(root, aim, trans="T"), maxiter=MOST_STEPS)[0]
    moved = there[bounded] - here[bounded]
    there[free] -= cho_solve(inner, slope[free] + across @ moved)
    return there
