"""Copies of rows: within a table, and from one table to another."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
from scipy.stats import binom

from .._utils.arrays import Array, Bools, Floats, Ints
from .table import column_values, is_missing, n_columns

# Equal rows are copies where fewer rows than this would be equal by chance.
CHANCE = 0.05


def find_copies(X: Any) -> Ints | None:
    """Group of each row, so that the copies of a row have one group; None without copies.

    Rows of discrete data are often equal by chance. Equal rows are copies only where chance would
    make fewer than ``CHANCE`` other rows equal to them, if the columns were independent.
    """
    codes = _codes(X)
    return None if codes is None else _groups(codes)


def copies_between(X: Any, Y: Any) -> tuple[Bools, float]:
    """Which rows of Y have a copy in X, and the chance of so many if X and Y were split at random.

    By chance, the copies of a row are as likely on one side as on both. The chance is of as many
    groups of copies with rows on both sides.
    """
    first, second = _codes(X), _codes(Y)
    groups = None
    if first is not None and second is not None and len(first) == len(second):
        groups = _groups([np.concatenate(pair) for pair in zip(first, second, strict=True)])
    if first is None or groups is None:
        return np.zeros(0, dtype=bool), 1.0
    sides = np.split(groups, [len(first[0])])
    in_first, in_second = (np.bincount(side, minlength=groups.max() + 1) for side in sides)
    size = in_first + in_second
    copied, share = size > 1, len(sides[1]) / len(groups)
    across = 1 - share ** size[copied] - (1 - share) ** size[copied]
    n_across = int((copied & (in_first > 0) & (in_second > 0)).sum())
    chance = float(binom.sf(n_across - 1, copied.sum(), across.mean()))
    return in_first[sides[1]] > 0, chance


def row_hashes(X: Any) -> Array | None:
    """64 bits for each row of a table by its content, equal for equal rows; None for no table."""
    codes = _codes(X)
    return None if codes is None else _hash(codes)


def _codes(X: Any) -> list[Array] | None:
    """A number for each value of each column; None for what is no table."""
    if isinstance(X, np.ndarray) and X.ndim > 2:
        X = X.reshape(len(X), -1)
    is_table = hasattr(X, "columns") or (isinstance(X, np.ndarray) and X.ndim == 2)
    if not is_table or len(X) == 0 or n_columns(X) == 0:
        return None
    return [_value_codes(_values(X, j)) for j in range(n_columns(X))]


def _values(X: Any, j: int) -> Array:
    """One column; numbers of pandas as such, where ``column_values`` makes an object of each."""
    if hasattr(X, "iloc"):
        dtype = X.dtypes.iloc[j]
        if isinstance(dtype, np.dtype) and dtype.kind in "fiub":
            return np.asarray(X.iloc[:, j])
    return column_values(X, j)


def _groups(codes: Sequence[Array]) -> Ints | None:
    _, owner, size = np.unique(_hash(codes), return_inverse=True, return_counts=True)
    if size.max() == 1:
        return None
    log_expected: Floats = np.full(len(owner), np.log(len(owner)))
    for column in codes:
        _, value, count = np.unique(column, return_inverse=True, return_counts=True)
        log_expected += np.log(count[value] / len(owner))
    copied = (size[owner] > 1) & (log_expected < np.log(CHANCE))
    if not copied.any():
        return None
    groups: Ints = np.where(copied, owner, len(size) + np.arange(len(owner)))
    return np.unique(groups, return_inverse=True)[1]


def _value_codes(column: Array) -> Array:
    """A number for each value of a column, equal for equal values of any type of table."""
    if column.dtype.kind in "fiub":
        numbers = column.astype(np.float64) + 0.0  # -0.0 becomes 0.0
        numbers[np.isnan(numbers)] = np.nan  # whose bits may differ
        return numbers.view(np.uint64)
    known: dict[Any, Any] = {}
    codes = np.empty(len(column), dtype=np.uint64)
    for i, value in enumerate(column.tolist()):
        key = (type(value), str(value))
        if key not in known:
            known[key] = _code(value)
        codes[i] = known[key]
    return codes


def _code(value: Any) -> Any:
    if is_missing(value):
        return np.float64(np.nan).view(np.uint64)
    if isinstance(value, (int, float)):
        return (np.float64(value) + 0.0).view(np.uint64)
    name = f"{type(value)} {value}"
    return np.frombuffer(blake2b(name.encode(), digest_size=8).digest(), dtype=np.uint64)[0]


def _hash(codes: Sequence[Array]) -> Array:
    """64 bits for each row; two different rows in 2^64 have the same."""
    mixed = np.zeros(len(codes[0]), dtype=np.uint64)
    with np.errstate(over="ignore"):
        for column in codes:
            mixed = (mixed ^ column) * np.uint64(0x9E3779B97F4A7C15)
            mixed ^= mixed >> np.uint64(29)
    return mixed
