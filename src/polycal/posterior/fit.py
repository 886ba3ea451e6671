"""Fit of the posterior: the pool, or gamma, of lowest log-loss on the calibration rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import gen_batches

from .._utils.arrays import Floats, Ints
from .._utils.blas import one_blas_thread
from .._utils.optional import optional
from ..metrics import expected_calibration_error
from .class_matrix import fit_class_matrix
from .levels import fit_levels
from .newton import minimize_convex
from .posterior import VIEWS, Pool, Posterior, views_of
from .votes import choose_gamma

# Precision of the Gaussian prior on the weights and offsets of the pool, and where there are two
# classes: log p and -log(1 - p) say the same there, and so do the two offsets.
PRECISION, PRECISION_OF_TWO = 1.0, 3.0
# That of the weights where the prior is centred on the parent alone.
PARENT_PRECISION = 100.0
# Steps of the EM algorithm that fits the pool through the gate; more change nothing to speak of.
EM_STEPS = 2
# Weight that every row keeps there, as a share of its own.
LEAST_WEIGHT = 1e-6
# Numbers of one view in a block, so that it stays in the cache.
BLOCK = 2**14
DEVICE_BLOCK = 2**22
# With more rows, a pool agrees with its own rows as with others.
MOST_REFITTED = 10_000


class CalibrationLabels(NamedTuple):
    """Class codes and weights of the calibration rows, and what the parent says of them."""

    y: Ints
    weight: Floats
    parent_proba: Floats  # (n_rows, n_classes)
    train_prior: Floats  # class shares of the labels that vote
    n_rows: int  # number of rows that the probabilities are estimated from
    n_independent: float  # number of calibration rows; those of one group count as one
    device: str | None = None  # torch device that the pool is fitted on; None is the CPU

    def take(self, index: Ints) -> CalibrationLabels:
        """The rows of these numbers, which stand for all: their weights add up to the same."""
        weight = self.weight[index] * (self.weight.sum() / self.weight[index].sum())
        return self._replace(y=self.y[index], weight=weight, parent_proba=self.parent_proba[index])

    @property
    def shares(self) -> Floats:
        """Class shares of the calibration rows."""
        found: Floats = np.bincount(self.y, self.weight, len(self.train_prior)) / self.weight.sum()
        return found

    def views(self, votes: Floats | None) -> Floats:
        """Views of the parent and of the votes, shape (n_sources, n_views, n_rows, n_classes)."""
        sources = [self.parent_proba] if votes is None else [self.parent_proba, *votes]
        return np.stack([views_of(proba, self.train_prior, self.n_rows) for proba in sources])


def usual_precision(n_classes: int) -> float:
    """That of the prior on weights and offsets."""
    return PRECISION_OF_TWO if n_classes == 2 else PRECISION


class PoolPrior(NamedTuple):
    """Gaussian prior on the weights of a pool; that of the offsets has the centre 0."""

    centre: Floats  # (n_sources, n_views)
    precision: float

    @classmethod
    def all_alike(cls, witnesses: Sequence[int], n_classes: int) -> PoolPrior:
        """Around the log-linear pool in which all witnesses weigh alike, and so do their sources.

        ``witnesses`` has their numbers of sources.
        """
        sizes = np.array(witnesses)
        centre = np.zeros((sizes.sum(), len(VIEWS)))
        centre[:, 0] = np.repeat(1 / sizes, sizes) / len(sizes)
        return cls(centre, usual_precision(n_classes))

    @classmethod
    def parent_alone(cls, n_sources: int) -> PoolPrior:
        """Close around the parent's own probabilities."""
        centre = np.zeros((n_sources, len(VIEWS)))
        centre[0, 0] = 1.0
        return cls(centre, PARENT_PRECISION)


class FittedPool(NamedTuple):
    """A pool, its loss with that of the prior, and the logarithm of the prior's evidence."""

    pool: Pool
    loss: float
    log_evidence: float


def fit_pooled(
    votes: Floats | None,
    witnesses: Sequence[int],
    rows: CalibrationLabels,
    prior: Floats,
    gamma: float | None = None,
) -> Posterior:
    """The pool of the parent and of votes whose exponents are given.

    Parameters
    ----------
    votes : ndarray of shape (n_votes, n_rows, n_classes) or None
        Probabilities by the votes, from evidence that does not hold a row's own label. None where
        only the parent is recalibrated.
    witnesses : sequence of int
        Number of sources of each witness, the parent first; see ``fit_pool``.
    rows : CalibrationLabels
    prior : ndarray of shape (n_classes,)
        Class priors where the model will be used.
    gamma : float or None
        That of the votes, where there is one.
    """
    labels = (rows.views(votes), rows.y, rows.weight, rows.train_prior)
    how = (None, rows.device, PoolPrior.all_alike(witnesses, len(prior)), rows.n_independent)
    pool = fit_pool(*labels, *how).pool
    return Posterior(gamma, pool, rows.train_prior, rows.shares, prior, rows.n_rows)


def fit_with_gamma(
    votes: Callable[[Floats], Floats],
    rows: CalibrationLabels,
    prior: Floats,
    *,
    pooled: bool,
    gamma: float | None,
    by_ece: bool,
) -> Posterior:
    """Votes with one gamma, which has the lowest loss on the calibration rows unless it is given.

    Parameters
    ----------
    votes : callable
        Probabilities by the votes for several gammas, shape (n_gammas, n_rows, n_classes).
    rows : CalibrationLabels
    prior : ndarray of shape (n_classes,)
        Class priors where the model will be used.
    pooled : bool
        Whether the parent is pooled with the votes.
    gamma : float or None
        None: chosen on a grid.
    by_ece : bool
        Whether gamma is chosen by the ECE in place of the log-loss.
    """
    y, weight = rows.y, rows.weight

    def pooled_with(proba: Floats) -> FittedPool:
        labels = (rows.views(proba[None]), y, weight, rows.train_prior)
        return fit_pool(*labels, None, rows.device, None, rows.n_independent)

    def loss(proba: Floats) -> float:
        """The loss to choose gamma by."""
        log_pi = views_of(proba, rows.train_prior, rows.n_rows)[0]
        if pooled and not by_ece:
            return pooled_with(proba).loss
        if pooled:
            log_pi = pooled_with(proba).pool(rows.views(proba[None]))
        if by_ece:
            return expected_calibration_error(y, np.exp(log_pi), sample_weight=weight)
        return float(-np.average(log_pi[np.arange(len(y)), y], weights=weight))

    if gamma is None:
        gamma = choose_gamma(lambda some: np.array([loss(proba) for proba in votes(some)]))
    if pooled:
        return fit_pooled(votes(np.array([gamma])), (1, 1), rows, prior, gamma)
    return Posterior(gamma, None, rows.train_prior, rows.train_prior, prior, rows.n_rows)


def refit_through_gate(
    posterior: Posterior,
    votes: Floats | None,
    witnesses: Sequence[int],
    rows: CalibrationLabels,
    alpha: Floats,
    believe_parent: bool = False,
) -> Posterior:
    """Fit the pool again for the mixture alpha pi + (1 - alpha) prior, its matrix and its levels.

    These are steps of the EM algorithm: each row weighs as much as pi, and not the prior, explains
    its label. So rows that the gate hands to the prior do not bend the pool.

    With ``believe_parent``, the prior of the pool is centred on the parent alone where that has the
    higher evidence. Such a pool says what a parent says that is right already: it has no matrix and
    no levels.
    """
    if posterior.pool is None:
        return posterior
    views, y = rows.views(votes), rows.y
    pool, own = replace(posterior.pool, levels=None), np.arange(len(y))
    prior = PoolPrior.all_alike(witnesses, views.shape[-1])
    parent_alone = PoolPrior.parent_alone(len(views))
    if believe_parent:
        known = (views, y, rows.weight, rows.train_prior, pool, rows.device)
        alike, alone = (fit_pool(*known, p, rows.n_independent) for p in (prior, parent_alone))
        if alone.log_evidence > alike.log_evidence:
            prior, pool = parent_alone, alone.pool
    for _ in range(EM_STEPS):
        by_pi = alpha * np.exp(pool(views)[own, y])
        share = by_pi / (by_pi + (1.0 - alpha) * posterior.fitted_prior[y])
        explained = rows.weight * np.maximum(share, LEAST_WEIGHT)
        known = (views, y, explained, rows.train_prior, pool, rows.device)
        pool = fit_pool(*known, prior, rows.n_independent).pool
    if prior is parent_alone:
        return replace(posterior, pool=pool)
    beside = (y, explained, rows.train_prior, rows.n_independent)
    proba, shares = views[:, VIEWS.index("p")], prior.centre[:, VIEWS.index("log p")]
    found = fit_class_matrix(pool(views), proba, shares, *beside)
    if found is not None:
        pool = replace(pool, matrix=found[0], offset=pool.offset + found[1])
    return replace(posterior, pool=replace(pool, levels=fit_levels(pool(views), y, explained)))


def log_proba_without_own(
    posterior: Posterior,
    votes: Floats | None,
    witnesses: Sequence[int],
    rows: CalibrationLabels,
    alpha: Floats,
    believe_parent: bool,
    part: Ints,
) -> Floats:
    """log pi of each calibration row, by a pool that is fitted on the rows of all other parts.

    The rows that a pool is fitted on agree with it a little better than new rows will. The result
    is as close to what ``posterior`` says of new rows as rows with labels allow.
    """
    log_pi = posterior.log_proba(rows.parent_proba, votes)
    parts = np.unique(part)
    if posterior.pool is None or len(log_pi) > MOST_REFITTED or len(parts) == 1:  # of one group
        return log_pi
    for n in parts:
        others, own = np.flatnonzero(part != n), np.flatnonzero(part == n)
        some, known = (None if votes is None else votes[:, index] for index in (others, own))
        labels = rows.take(others)
        first = fit_pooled(some, witnesses, labels, posterior.prior, posterior.gamma)
        weighed = (some, witnesses, labels, alpha[others], believe_parent)
        # Class shares of the others, which lack some of a class in this part, say nothing new.
        found = replace(refit_through_gate(first, *weighed), fitted_prior=posterior.fitted_prior)
        log_pi[own] = found.log_proba(rows.parent_proba[own], known)
    return log_pi


def fit_pool(
    views: Floats,
    y: Ints,
    weight: Floats,
    prior: Floats,
    start_from: Pool | None = None,
    device: str | None = None,
    pool_prior: PoolPrior | None = None,
    n_independent: float | None = None,
) -> FittedPool:
    """Weights and offsets of lowest log-loss on the calibration rows.

    The problem is convex; ``start_from`` is a pool near the minimum. With a torch ``device`` the
    same code runs on that device.

    Weights and offsets have a Gaussian prior, so that a few rows do not decide between many
    sources; by default it is that of sources which are all alike. Its evidence is by Laplace's
    method, in the weights that are not at their bound.

    Each label counts as n / (n + 1) of a row plus 1 / (n + 1) spread by the prior (Platt's
    correction), so that separable calibration rows do not drive the weights to infinity. Here and
    in the prior, n is ``n_independent``, by default the number of rows.
    """
    n_sources, n_views, n_samples, n_classes = views.shape
    n = n_samples if n_independent is None else n_independent
    n_weights = n_sources * n_views
    xp, put = _arrays(device)
    target = np.tile(prior / (n + 1.0), (n_samples, 1))
    target[np.arange(n_samples), y] += n / (n + 1.0)
    row_weight = (weight / weight.sum())[:, None]
    target *= row_weight
    free = np.tile([view == "p" for view in VIEWS], n_sources)
    weights_prior = pool_prior or PoolPrior.all_alike([1] * n_sources, n_classes)
    precision = np.full(n_weights + n_classes, usual_precision(n_classes) / n)
    precision[:n_weights] = weights_prior.precision / n
    centre = np.append(weights_prior.centre, np.zeros(n_classes))
    first, last = slice(n_weights), slice(n_weights, None)  # weights, offsets

    block = BLOCK if device is None else DEVICE_BLOCK
    # Each block adds n_classes squared numbers to the curvature, so it must not be too small.
    n_together = max(1, block // n_classes, n_classes // 8)
    flat = put(views.reshape(n_weights, n_samples, n_classes))
    target, row_weight = put(target), put(row_weight)
    stiffness, middle = put(precision), put(centre)

    def loss(theta: Floats) -> tuple[float, Floats, Floats]:
        """Log-loss with its slope and curvature, block by block."""
        theta = put(theta)
        value = 0.5 * (stiffness * (theta - middle) ** 2).sum()
        slope, curvature = stiffness * (theta - middle), xp.diag(stiffness)
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

    start = centre
    if start_from is not None:
        start = np.append(start_from.weights, start_from.offset)
    bounded = np.append(~free, np.zeros(n_classes, dtype=bool))
    with one_blas_thread():
        theta, lowest = minimize_convex(loss, start, bounded)
        inside = ~bounded | (theta > 0)
        curvature = loss(theta)[2][np.ix_(inside, inside)]
    volume = np.log(precision[inside]).sum() - np.linalg.slogdet(curvature)[1]
    pool = Pool(theta[first].reshape(n_sources, n_views), theta[last])
    return FittedPool(pool, lowest, float(0.5 * volume - n * lowest))


def _arrays(device: str | None) -> tuple[Any, Callable[[Floats], Any]]:
    """The array module (NumPy or torch), and a function that moves an array to the device."""
    if device is None:
        return np, np.asarray
    torch = optional("torch", "torch")
    return torch, partial(torch.as_tensor, device=device)
