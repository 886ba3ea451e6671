"""The geodesic kernel in ten lines: slow, plain, and the oracle of every fast path."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..core.reading import ActivationModes


def similarity(queries: ActivationModes, stored: ActivationModes) -> NDArray:
    """K(x, s): product over groups of the share of equal symbols, shape (q, p)."""
    matches = np.ones((len(queries), len(stored)))
    for a, b in zip(queries.groups(), stored.groups(), strict=True):
        matches *= (a[:, None, :] == b[None, :, :]).sum(axis=2)
    return matches / stored.n_paths


def nearest(K: NDArray, log_density: NDArray, k: int) -> tuple[NDArray, NDArray]:
    """The k best of each row: highest K, then highest log density, then lowest index."""
    index = np.broadcast_to(np.arange(K.shape[1]), K.shape)
    order = np.lexsort((index, -log_density, -K), axis=1)[:, :k]
    return np.take_along_axis(K, order, axis=1), order


def class_sums(K: NDArray, counts: NDArray, exponent: float) -> NDArray:
    """Sum over s of (K(x, s) / max K)^exponent n_sy, shape (q, n_classes)."""
    top = K.max(axis=1, keepdims=True)
    return np.where(K > 0, K / np.where(top > 0, top, 1), 0) ** exponent @ counts
