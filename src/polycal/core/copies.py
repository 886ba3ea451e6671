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
# Columns in which rows are compared before all others: in most wide tables no two are equal there.
FIRST_COLUMNS = 64


def find_copies(X: Any) -> Ints | None:
    """Group of each row, so that the copies of a row have one group; None without copies.

    Rows of discrete data are often equal by chance. Equal rows are copies only where chance would
    make fewer than ``CHANCE`` other rows equal to them, if the columns were independent.
    """
    first = _codes(X, FIRST_COLUMNS)
    if first is None or _differ(first):
        return None
    codes = first if len(first) < FIRST_COLUMNS else _codes(X)
    return None if codes is None else _groups(codes)


def copies_between(X: Any, Y: Any) -> tuple[Bools, float]:
    """Which rows of Y have a copy in X, and the chance of so many if X and Y were split at random.

    By chance, the copies of a row are as likely on one side as on both. The chance is of as many
    groups of copies with rows on both sides; it is 0 for two tables that are equal. Where a column
    of one table is in single precision, so is that of the other.
    """
    X, Y = _flat(X), _flat(Y)
    if not _is_table(X) or not _is_table(Y) or n_columns(X) != n_columns(Y):
        return np.zeros(0, dtype=bool), 1.0
    pairs = _paired_codes(X, Y, FIRST_COLUMNS)
    if _differ([np.concatenate(pair) for pair in pairs]):
        return np.zeros(0, dtype=bool), 1.0
    pairs = pairs if len(pairs) < FIRST_COLUMNS else _paired_codes(X, Y)
    if len(X) == len(Y) > 1 and all(np.array_equal(*pair) for pair in pairs):
        return np.ones(len(Y), dtype=bool), 0.0
    groups = _groups([np.concatenate(pair) for pair in pairs])
    if groups is None:
        return np.zeros(0, dtype=bool), 1.0
    sides = np.split(groups, [len(X)])
    in_first, in_second = (np.bincount(side, minlength=groups.max() + 1) for side in sides)
    return in_first[sides[1]] > 0, _chance_across(in_first, in_second)


def _chance_across(in_first: Ints, in_second: Ints) -> float:
    """Chance of as many groups of copies with rows on both sides, from the sizes on each side."""
    size = in_first + in_second
    copied, share = size > 1, in_second.sum() / size.sum()
    if not copied.any():
        return 1.0
    across = 1 - share ** size[copied] - (1 - share) ** size[copied]
    n_across = int((copied & (in_first > 0) & (in_second > 0)).sum())
    return float(binom.sf(n_across - 1, copied.sum(), across.mean()))


class LowestHashes:
    """The lowest hashes of the rows of a table that no one holds at once.

    Which rows these are depends on what the rows hold, so that of two tables the copies of a row
    are either all among the lowest, or none. Equal rows of discrete data, too, are as likely on one
    side as on both.
    """

    def __init__(self, most: int):
        self.most, self.n_rows = most, 0
        self._hashes: Array = np.empty(0, dtype=np.uint64)

    def add(self, hashes: Array) -> None:
        """Keep those of these rows that may be among the lowest."""
        self.n_rows += len(hashes)
        self._keep(hashes)

    def merge(self, other: LowestHashes) -> None:
        """Keep those of another table's rows that may be among the lowest."""
        self.n_rows += other.n_rows
        self._keep(other._hashes)

    def _keep(self, hashes: Array) -> None:
        if self.most:
            self._hashes = np.concatenate([self._hashes, hashes[hashes <= self._limit]])
            self._hashes = self._hashes[self._hashes <= self._limit]

    @property
    def _limit(self) -> np.uint64:
        """The highest hash that is kept, with all of its copies."""
        if len(self._hashes) < max(self.most, 1) or self.n_rows <= self.most:
            return np.uint64(2**64 - 1)
        highest: np.uint64 = np.partition(self._hashes, self.most - 1)[self.most - 1]
        return highest

    def shared_with(self, other: LowestHashes) -> tuple[int, int, float]:
        """How many rows of this table have a copy in the other, of how many; and the chance of it.

        Of the rows that are among the lowest of both; the chance is that of ``copies_between``.
        """
        limit = min(self._limit, other._limit)
        here, there = (some._hashes[some._hashes <= limit] for some in (self, other))
        if not len(here) or not len(there):
            return 0, len(here), 1.0
        owner = np.unique(np.concatenate([there, here]), return_inverse=True)[1]
        sides = np.split(owner, [len(there)])
        in_other, in_this = (np.bincount(side, minlength=owner.max() + 1) for side in sides)
        shared = int((in_other[sides[1]] > 0).sum())
        return shared, len(here), _chance_across(in_other, in_this)


def row_hashes(X: Any) -> Array | None:
    """64 bits for each row of a table by its content, equal for equal rows; None for no table."""
    codes = _codes(X)
    return None if codes is None else _hash(codes)


def _codes(X: Any, most: int | None = None) -> list[Array] | None:
    """A number for each value of each column, or of the first ones; None for what is no table."""
    X = _flat(X)
    if not _is_table(X):
        return None
    return [_value_codes(_values(X, j)) for j in range(n_columns(X))[:most]]


def _paired_codes(X: Any, Y: Any, most: int | None = None) -> list[tuple[Array, Array]]:
    """A number for each value of each column of two tables, or of the first columns."""
    columns = range(n_columns(X))[:most]
    values = (_of_one_precision(_values(X, j), _values(Y, j)) for j in columns)
    return [(_value_codes(first), _value_codes(second)) for first, second in values]


def _differ(codes: Sequence[Array]) -> bool:
    """Whether no two rows are equal in these columns."""
    hashes = _hash(codes)
    return len(np.unique(hashes)) == len(hashes)


def _flat(X: Any) -> Any:
    """Rows of images or series as rows of a table."""
    return X.reshape(len(X), -1) if isinstance(X, np.ndarray) and X.ndim > 2 and len(X) else X


def _is_table(X: Any) -> bool:
    """Whether X is a table with a row and a column at least."""
    is_table = hasattr(X, "columns") or (isinstance(X, np.ndarray) and X.ndim == 2)
    return is_table and len(X) > 0 and n_columns(X) > 0


def _of_one_precision(first: Array, second: Array) -> tuple[Array, Array]:
    """Both columns in the lower precision of the two, if they are floats."""
    if first.dtype.kind != "f" or second.dtype.kind != "f" or first.dtype == second.dtype:
        return first, second
    lower = min(first.dtype, second.dtype, key=lambda dtype: dtype.itemsize)
    with np.errstate(over="ignore"):
        return first.astype(lower), second.astype(lower)


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
