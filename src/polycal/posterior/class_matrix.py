"""Class by class: what the witnesses say of one class corrects what the pool says of another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax

from .._utils.arrays import Floats, Ints, are_shares
from .._utils.blas import one_blas_thread
from .._utils.saved import saved_array, saved_log

# With fewer classes there is no matrix, because it brings nothing (docs/design.md); with more there
# is none, because a prediction would take their number squared.
LEAST_CLASSES, MOST_CLASSES = 3, 100
# Rows times squared classes that a matrix is fitted on; of more rows, random ones are taken.
MOST_PRODUCTS = 10**8
# The slope at which the fit ends, in units of the mean log-loss.
LEAST_SLOPE = 1e-8
MOST_STEPS = 200


@dataclass(frozen=True)
class ClassMatrix:
    """Adds M log q to log pi, where q is the mean of the witnesses' probabilities.

    The weights of the pool are the same for every class. A row of M holds what each class's q says
    for one class, so that two classes which the witnesses mix up can be told apart by a third.
    """

    weights: Floats = saved_log("float64 classes classes")  # M
    shares: Floats = saved_array("float64 sources", least=0.0, most=1.0)  # of each source in q

    def contradictions(self) -> Iterator[str]:
        """Inconsistencies in a matrix that was read from a file, as messages."""
        if not are_shares(self.shares):
            yield "the shares of the sources do not add up to 1"

    def log_mean(self, proba: Floats) -> Floats:
        """log q from probabilities above 0, shape (n_sources, n_samples, n_classes)."""
        mean = np.zeros(proba.shape[1:])
        for share, source in zip(self.shares, proba, strict=True):
            mean += share * source
        return np.log(mean, out=mean)

    def __call__(self, proba: Floats) -> Floats:
        """M log q of each row."""
        log_q = self.log_mean(proba)
        added = np.zeros_like(log_q)
        for weights, of_class in zip(self.weights.T, log_q.T, strict=True):
            added += of_class[:, None] * weights  # in a matrix product, rounding could depend on
        return added  # other rows


def fit_class_matrix(
    log_pi: Floats,
    proba: Floats,
    shares: Floats,
    y: Ints,
    weight: Floats,
    prior: Floats,
    n_independent: float,
) -> tuple[ClassMatrix, Floats] | None:
    """The matrix and the class offsets of lowest log-loss beside a given log pi.

    Both have a Gaussian prior around 0 whose precision is the number of classes, so that
    a few rows of many classes say little. Labels are smoothed as in ``fit_pool``. The problem is
    convex. The result is None for two classes and for more than ``MOST_CLASSES``.

    Parameters
    ----------
    log_pi : ndarray of shape (n_rows, n_classes)
        By the pool.
    proba : ndarray of shape (n_sources, n_rows, n_classes)
        Probabilities by the sources, none of them 0.
    shares : ndarray of shape (n_sources,)
        Share of each source in q.
    y, weight : ndarray of shape (n_rows,)
        Class codes and weights.
    prior : ndarray of shape (n_classes,)
        That smooths the labels.
    n_independent : float
        Number of rows; those of one group count as one.
    """
    n_rows, n_classes = log_pi.shape
    if not LEAST_CLASSES <= n_classes <= MOST_CLASSES:
        return None
    none = ClassMatrix(np.zeros((n_classes, n_classes)), shares)
    most = MOST_PRODUCTS // n_classes**2
    if n_rows > most:
        some = np.random.default_rng(0).choice(n_rows, most, replace=False)
        n_independent *= weight[some].sum() / weight.sum()
        log_pi, proba, y, weight = log_pi[some], proba[:, some], y[some], weight[some]
    # A last column of ones is for the offsets.
    inputs = np.column_stack([none.log_mean(proba), np.ones(len(y))])
    target = np.tile(prior / (n_independent + 1.0), (len(y), 1))
    target[np.arange(len(y)), y] += n_independent / (n_independent + 1.0)
    share = (weight / weight.sum())[:, None]
    stiffness = n_classes / n_independent

    p_at: list[Floats] = []  # the last point of ``loss``, and the probabilities there

    def loss(flat: Floats) -> tuple[float, Floats]:
        log_p = log_softmax(log_pi + inputs @ flat.reshape(n_classes, -1).T, axis=1)
        p = np.exp(log_p)
        p_at[:] = flat.copy(), p
        value = 0.5 * stiffness * (flat @ flat) - (share * target * log_p).sum()
        residual = share * (p - target)
        return float(value), (residual.T @ inputs).ravel() + stiffness * flat

    def curvature(flat: Floats, direction: Floats) -> Floats:
        """The curvature times a direction."""
        if not np.array_equal(p_at[0], flat):
            loss(flat)
        p = p_at[1]
        moved = p * (inputs @ direction.reshape(n_classes, -1).T)
        bent = share * (moved - p * moved.sum(axis=1, keepdims=True))
        found: Floats = (bent.T @ inputs).ravel() + stiffness * direction
        return found

    with one_blas_thread():
        start = np.zeros(n_classes * inputs.shape[1])
        how = {"gtol": LEAST_SLOPE, "maxiter": MOST_STEPS}
        found = minimize(loss, start, jac=True, hessp=curvature, method="trust-ncg", options=how)
    theta = found.x.reshape(n_classes, -1)
    return ClassMatrix(theta[:, :-1].copy(), shares), theta[:, -1]
