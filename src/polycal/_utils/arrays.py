"""Names for the types of NumPy arrays, so that signatures say what an array holds."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]  # any data type: labels, rows of a file, activation modes
Floats: TypeAlias = NDArray[np.float64]
Singles: TypeAlias = NDArray[np.float32]
Ints: TypeAlias = NDArray[np.intp]  # counts, codes and positions
Bools: TypeAlias = NDArray[np.bool_]
Bytes: TypeAlias = NDArray[np.uint8]


def are_shares(values: Floats, tolerance: float = 1e-9) -> bool:
    """Whether all numbers are at least 0, and those along the last axis sum to 1."""
    sums_to_one = np.abs(values.sum(axis=-1) - 1.0) <= tolerance  # False for NaN
    return bool(sums_to_one.all() and (values >= 0).all())


def is_ascending(values: Array, strictly: bool = False) -> bool:
    """Whether no number is below the one before it, or equal to it.

    Differences of forged whole numbers would overflow, and be of the other sign.
    """
    before, after = values[:-1], values[1:]
    return bool((before < after).all() if strictly else (before <= after).all())
