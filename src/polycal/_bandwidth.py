"""The variance of each polytope's Gaussian."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ._polytopes import Polytopes
from .kernels import Effort, KernelIndex


def polytope_variance(polytopes: Polytopes, regularization: float) -> NDArray:
    """The paper: variance of the rows inside the polytope, plus lambda."""
    return polytopes.variance + regularization


def geodesic_variance(
    polytopes: Polytopes, index: KernelIndex, regularization: float, effort: Effort
) -> NDArray:
    """Variance around the polytope's mean over all rows, weighted by K(r, s), shrunk halfway.

    local_r = sum_s K(r, s) n_s (var_s + (mu_s - mu_r)^2) / sum_s K(r, s) n_s + lambda
    sigma_r^2 = sqrt(local_r * mean of local over all rows), feature by feature.

    Most polytopes of a default forest hold one row, so the local variance rests on few
    neighbours; halfway (on the log scale) to the common one it judges new classes better.
    """
    n_features = polytopes.mean.shape[1]
    size = polytopes.size
    # Centred, so that the difference of squares below does not cancel.
    mean = polytopes.mean - np.average(polytopes.mean, axis=0, weights=size)
    # Modes that the index stores beside the polytopes (calibration rows) count nothing here.
    moments = np.zeros((len(index.modes), 1 + 2 * n_features))
    rows = moments[: len(polytopes)]
    rows[:, 0] = size
    rows[:, 1 : 1 + n_features] = size[:, None] * mean
    rows[:, 1 + n_features :] = size[:, None] * (polytopes.variance + mean**2)
    sums = index.matmul(polytopes.modes, moments, effort)
    sums[:, 1:] /= sums[:, :1]
    first, second = sums[:, 1 : 1 + n_features], sums[:, 1 + n_features :]
    local = np.maximum(second - 2 * mean * first + mean**2, 0.0) + regularization
    return np.sqrt(local * np.average(local, axis=0, weights=size))
