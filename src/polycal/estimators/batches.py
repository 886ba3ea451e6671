"""Batches of labelled rows: of an iterable, a function, or a Parquet file, and a sample of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import narwhals as nw
import numpy as np

from .._utils.arrays import Array, Bools, Floats
from .._utils.optional import optional
from .._utils.sklearn_compat import n_rows_of, take_rows
from ..core.copies import LowestHashes, row_hashes
from ..core.table import (
    column_values,
    find_categories,
    is_missing,
    n_columns,
    number_columns,
)
from ..kernels.stored_modes import drawn

# Rows of a Parquet file that are read at once.
ROWS_AT_ONCE = 65_536
# Levels of a category that are looked for in all rows, at most.
MOST_LEVELS = 1000

Batch = tuple[Any, Any, Any]


def batches_of(batches: Any, target: str | None) -> Callable[[], Iterator[Batch]]:
    """A function that begins with the first batch again: X, y and weights or None."""
    if isinstance(batches, (str, os.PathLike)):
        path = os.fspath(batches)
        if target is None:
            raise ValueError(
                f"target is missing: name the column of {path} that holds the labels, as in "
                'fit_batches("big.parquet", target="label").'
            )
        return lambda: _labelled(parquet_frames(path), target)
    if iter_once(batches):
        raise TypeError(
            f"batches is {type(batches).__name__!r}, which can be gone through only once, and two "
            "passes are needed: one finds a sample and the classes. Give a list, an object whose "
            "__iter__ begins anew, or a function that returns the batches."
        )
    if not callable(batches) and not hasattr(batches, "__iter__"):
        raise TypeError(
            "batches must be the path of a Parquet file, or a list or function of batches (X, y) "
            f"or (X, y, sample_weight); got {type(batches).__name__}."
        )
    return lambda: _checked(batches() if callable(batches) else batches)


def iter_once(batches: Any) -> bool:
    """Whether these are used up by one pass."""
    return hasattr(batches, "__next__")


def is_weightless(weight: Any) -> bool:
    """Whether no row counts."""
    return weight is not None and not np.any(np.asarray(weight, dtype=float) != 0)


def parquet_frames(path: str, n_rows: int = ROWS_AT_ONCE) -> Iterator[Any]:
    """Frames of some rows of a Parquet file, one after the other."""
    parquet = optional("pyarrow.parquet", "cli")
    with parquet.ParquetFile(path) as file:
        for batch in file.iter_batches(n_rows):
            yield batch.to_pandas()


def _labelled(frames: Iterator[Any], target: str) -> Iterator[Batch]:
    for frame in frames:
        if target not in frame.columns:
            raise ValueError(
                f"the file has no column {target!r}; its columns are {list(frame.columns)[:20]}."
            )
        yield frame.drop(columns=target), frame[target], None


def _checked(batches: Any) -> Iterator[Batch]:
    for number, batch in enumerate(batches):
        if not isinstance(batch, tuple) or len(batch) not in (2, 3):
            raise TypeError(
                f"batch {number} is no tuple (X, y) or (X, y, sample_weight); got "
                f"{type(batch).__name__}."
            )
        yield batch if len(batch) == 3 else (*batch, None)


def columns_of_levels(X: Any, categorical_features: Any, raw_input: bool) -> list[int]:
    """Numbers of the columns of a table that hold categories, or text.

    ``raw_input`` says that a Pipeline makes the features, so that ``categorical_features`` are
    columns of what it makes.
    """
    framed = hasattr(X, "columns")
    if not framed and getattr(X, "ndim", 0) != 2:
        return []
    named = "from_dtype" if raw_input else categorical_features
    found = find_categories(X, named)
    if framed:
        texts = np.setdiff1d(np.arange(n_columns(X)), number_columns(X, found))
        found = np.union1d(found, texts)
    return [int(j) for j in found]


class Sample:
    """The rows of lowest random priority of all batches, which neither order nor batches change.

    Each level of the columns that are watched has a row, however rare it is: that of lowest
    priority. Up to ``n_hashes`` hashes of rows are kept beside them, to compare with another table.
    """

    def __init__(self, most: int, seed: int, n_hashes: int = 0):
        self.most, self.seed, self.n_rows = most, seed, 0
        self.hashes = LowestHashes(n_hashes)
        self._parts: list[tuple[Any, Array, Floats]] = []
        self._priority = np.empty(0)
        # by column with levels: lowest priority of a row with each level
        self.levels: dict[int, dict[Any, float]] = {}

    def watch(self, columns: Sequence[int]) -> None:
        """See to it that each level of these columns has a row."""
        for j in columns:
            self.levels.setdefault(j, {})

    def priority(self, X: Any, first: int) -> Floats:
        """Of each row, by what it holds; by its place where X is no table."""
        return self._priority_of(row_hashes(X), first, n_rows_of(X))

    def _priority_of(self, hashes: Array | None, first: int, n_rows: int) -> Floats:
        if hashes is None:
            hashes = np.arange(first, first + n_rows, dtype=np.uint64)
        return drawn(hashes ^ np.uint64(self.seed + 1))

    def add(self, X: Any, y: Array, weight: Floats) -> None:
        """Keep rows of a batch that count, and may be among those of lowest priority."""
        hashes = row_hashes(X)
        if hashes is not None:
            self.hashes.add(hashes)
        found = self._priority_of(hashes, self.n_rows, n_rows_of(X))
        self.n_rows += len(found)
        counted = weight > 0
        among = counted & (found <= self._limit(self.most))
        for j in self.levels:
            among[self._first_of_levels(X, j, np.where(counted, found, np.inf))] = True
        kept = np.flatnonzero(among)
        if len(kept) == 0:
            return
        self._parts.append((take_rows(X, kept), y[kept], weight[kept]))
        self._priority = np.concatenate([self._priority, found[kept]])
        if len(self._priority) > 2 * self.most:
            self._join(self.most)

    def _first_of_levels(self, X: Any, j: int, priority: Floats) -> list[int]:
        """Rows with a level that has no row yet, or none of so low a priority."""
        known = self.levels[j]
        rows: list[int] = []
        if len(known) > MOST_LEVELS:
            return rows
        values = column_values(X, j).tolist()
        for row in np.argsort(priority, kind="stable")[: int(np.isfinite(priority).sum())].tolist():
            value = values[row]
            if not is_missing(value) and priority[row] < known.get(value, np.inf):
                known[value] = priority[row]
                rows.append(row)
        return rows

    @property
    def crowded(self) -> list[int]:
        """Columns with so many levels that some may have no row here."""
        return [j for j, known in self.levels.items() if len(known) > MOST_LEVELS]

    def _of_levels(self) -> Floats:
        """Priorities of the rows that a level has."""
        found = [known.values() for known in self.levels.values() if len(known) <= MOST_LEVELS]
        return np.array([priority for values in found for priority in values])

    def merge(self, other: Sample) -> None:
        """Keep rows of another sample that may be among those of lowest priority."""
        for j, levels in other.levels.items():
            known = self.levels.setdefault(j, {})
            for value, priority in levels.items():
                known[value] = min(priority, known.get(value, np.inf))
        self.hashes.merge(other.hashes)
        self.n_rows += other.n_rows
        self._parts = [*self._parts, *other._parts]
        self._priority = np.concatenate([self._priority, other._priority])
        if len(self._priority) > 2 * self.most:
            self._join(self.most)

    def _limit(self, n: int) -> float:
        """Priority that n rows do not exceed."""
        if len(self._priority) <= n:
            return np.inf
        return float(np.partition(self._priority, n - 1)[n - 1])

    def _join(self, n: int) -> None:
        X, y, weight = zip(*self._parts, strict=True)
        rows = np.flatnonzero(self._among(self._priority, self._limit(n)))
        joined = take_rows(join_rows(list(X)), rows)
        self._parts = [(joined, np.concatenate(y)[rows], np.concatenate(weight)[rows])]
        self._priority = self._priority[rows]

    def rows(self, most: int | None = None) -> tuple[Any, Array, Floats, float]:
        """The rows in the order of their priority, at most so many, and the highest of these.

        Rows of levels come on top.
        """
        n = self.most if most is None else min(most, self.most)
        limit = self._limit(n)
        self._join(n)
        X, y, weight = self._parts[0]
        order = np.lexsort((weight, np.unique(y, return_inverse=True)[1], self._priority))
        return take_rows(X, order), y[order], weight[order], limit

    def holds(self, X: Any, first: int, limit: float) -> Bools:
        """Which rows of a batch are in the sample up to a priority."""
        return self._among(self.priority(X, first), limit)

    def _among(self, priority: Floats, limit: float) -> Bools:
        kept: Bools = (priority <= limit) | np.isin(priority, self._of_levels())
        return kept


def join_rows(parts: list[Any]) -> Any:
    """All rows of some arrays or frames of one kind."""
    if len(parts) == 1:
        return parts[0]
    if hasattr(parts[0], "columns"):
        return nw.concat([nw.from_native(part) for part in parts]).to_native()
    if hasattr(parts[0], "numpy") and not isinstance(parts[0], np.ndarray):
        return optional("torch", "torch").cat(parts)
    return np.concatenate([np.asarray(part) for part in parts])
