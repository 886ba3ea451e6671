"""The geodesic kernel in a few plain lines, which the tests compare the fast indices with."""

from __future__ import annotations

import numpy as np

from .._utils.arrays import Floats, Ints
from ..core.reading import ActivationModes


def similarity(queries: ActivationModes, stored: ActivationModes) -> Floats:
    """K(x, s): product over groups of the share of equal symbols, shape (q, p)."""
    matches = np.ones((len(queries), len(stored)))
    for a, b in zip(queries.groups(), stored.groups(), strict=True):
        matches *= (a[:, None, :] == b[None, :, :]).sum(axis=2)
    return matches / stored.n_paths


def nearest(K: Floats, log_density: Floats, k: int) -> tuple[Floats, Ints]:
    """The k best of each row: highest K, then highest log density, then lowest index."""
    index = np.broadcast_to(np.arange(K.shape[1]), K.shape)
    order = np.lexsort((index, -log_density, -K), axis=1)[:, :k]
    return np.take_along_axis(K, order, axis=1), order


def class_sums(K: Floats, counts: Floats, exponent: float) -> Floats:
    """Sum over s of (K(x, s) / max K)^exponent n_sy, shape (q, n_classes)."""
    top = K.max(axis=1, keepdims=True)
    return np.where(K > 0, K / np.where(top > 0, top, 1), 0) ** exponent @ counts
