"""Diagonal Gaussians, one for each polytope, and the one loop that evaluates them.

The tie rule of the nearest polytope depends on this density, so every back-end calls
the same function: equal inputs give equal floats, whatever the block or the thread.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray


@dataclass(frozen=True)
class Gaussians:
    """Means, precisions (1 / variance) and log normalisers of p diagonal Gaussians."""

    mean: NDArray  # (n_polytopes, n_features)
    precision: NDArray  # (n_polytopes, n_features)
    log_norm: NDArray  # (n_polytopes,)

    @classmethod
    def from_variance(cls, mean: NDArray, variance: NDArray) -> Gaussians:
        log_norm = -0.5 * (np.log(variance).sum(axis=1) + mean.shape[1] * math.log(2 * math.pi))
        return cls(np.ascontiguousarray(mean), np.ascontiguousarray(1.0 / variance), log_norm)

    def log_density(self, X: NDArray, index: NDArray) -> NDArray:
        """log G(x_i; polytope index[i, j]), shape (n_samples, k); -inf where the index is -1."""
        out = np.empty(index.shape)
        _log_densities(X, index, self.mean, self.precision, self.log_norm, out)
        return out


@njit(nogil=True, cache=True)
def row_log_density(x, mean, precision, log_norm):
    """log G of one row; overflow far away gives -inf, never NaN, since precision > 0."""
    total = 0.0
    for j in range(len(x)):
        z = x[j] - mean[j]
        total += z * z * precision[j]
    return log_norm - 0.5 * total


@njit(nogil=True, cache=True)
def _log_densities(X, index, mean, precision, log_norm, out):
    for i in range(index.shape[0]):
        for j in range(index.shape[1]):
            r = index[i, j]
            if r < 0:
                out[i, j] = -np.inf
            else:
                out[i, j] = row_log_density(X[i], mean[r], precision[r], log_norm[r])
