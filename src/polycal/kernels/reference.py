"""The geodesic kernel in a few plain lines, which the tests compare the fast indices with."""

from __future__ import annotations

import numpy as np

from .._utils.arrays import Array, Floats, Ints
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


def sampled_class_sums(
    queries: ActivationModes, stored: ActivationModes, counts: Floats, draws: Ints, scale: int
) -> Floats:
    """Class sums of the stored modes that agree with a query on the first ``scale`` draws.

    The mean over the sequences, shape (q, n_classes). A draw is a column of leaf ids or a bit. Its
    expectation is the sum over s of K(x, s)^e n_sy, where e draws of each group are made.
    """
    left, right = map(_symbols, (queries, stored))
    agree = [
        (left[:, None, path[:scale]] == right[None, :, path[:scale]]).all(axis=2) for path in draws
    ]
    sums: Floats = np.mean(agree, axis=0) @ counts
    return sums


def _symbols(modes: ActivationModes) -> Array:
    """Leaf ids, or all bits of the packed words."""
    if not modes.packed:
        return modes.codes
    return np.unpackbits(modes.codes.view(np.uint8), axis=1, bitorder="little")
