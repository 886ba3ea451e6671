"""Tables of numbers and categories, as the density sees them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

# How the data types of a category are called in pandas and polars.
CATEGORY_TYPES = ("category", "Categorical", "Enum")


@dataclass(frozen=True)
class Table:
    """Which columns are numbers and which are categories, and what was seen in them.

    An encoded row holds its numbers (NaN where missing) and then its symbols: the place of
    the level of each category, and for each number that was missing in some row of the fit,
    whether it is missing (1) or not (0). The last level of a category is for what the fit
    never saw. A missing category is a level of its own.
    """

    numbers: NDArray  # columns
    categories: NDArray  # columns
    levels: tuple[NDArray, ...]  # known values of each category, None for missing
    sometimes: NDArray  # places in ``numbers`` of those that were missing somewhere
    start: NDArray  # first level of each symbol, and the number of levels

    @classmethod
    def learn(cls, X: Any, categories: NDArray) -> tuple[Table, NDArray]:
        """From the rows of the fit; also those rows, encoded."""
        categories = np.asarray(categories, dtype=int)
        numbers = np.setdiff1d(np.arange(n_columns(X)), categories)
        levels = tuple(_known(column_values(X, j)) for j in categories)
        values, complete = _numbers(X, numbers)
        some = np.zeros(0, dtype=bool) if complete else np.isnan(values).any(axis=0)
        sometimes = np.flatnonzero(some)
        width = [len(known) + 1 for known in levels] + [2] * len(sometimes)
        start = np.concatenate([[0], np.cumsum(width)]).astype(np.int64)
        table = cls(numbers, categories, levels, sometimes, start)
        return table, table._with_symbols(values, X)

    def encode(self, X: Any) -> NDArray:
        """Rows as numbers and symbols, shape (n_samples, n_numbers + n_symbols), float64."""
        return self._with_symbols(number_values(X, self.numbers), X)

    def _with_symbols(self, numbers: NDArray, X: Any) -> NDArray:
        if len(self.start) == 1:
            return numbers
        codes = [
            _codes(column_values(X, j), known)
            for j, known in zip(self.categories, self.levels, strict=True)
        ]
        codes += list(np.isnan(numbers[:, self.sometimes]).T)
        return np.column_stack([numbers, *codes])


def find_categories(X: Any, wanted: Any) -> NDArray:
    """Columns that hold categories: by data type, or as named, numbered or masked."""
    n = n_columns(X)
    names = [str(name) for name in X.columns] if hasattr(X, "columns") else None
    if isinstance(wanted, str) and wanted == "from_dtype":
        if names is None:
            return np.empty(0, dtype=int)
        return np.flatnonzero([_is_category(X, j) for j in range(n)])
    if wanted is None:
        return np.empty(0, dtype=int)
    if isinstance(wanted, str) or not isinstance(wanted, (Sequence, np.ndarray)):
        raise ValueError(
            'categorical_features must be "from_dtype", None, or a list of column names, column '
            f"numbers or a mask; got {wanted!r}."
        )
    wanted = list(wanted)
    if len(wanted) == n and all(isinstance(item, (bool, np.bool_)) for item in wanted):
        return np.flatnonzero(wanted)
    columns = [_place(item, n, names) for item in wanted]
    return np.unique(np.array(columns, dtype=int))


def numbers_of(X: Any) -> NDArray:
    """All columns as float64, with NaN for missing in any container."""
    X = X if hasattr(X, "columns") or hasattr(X, "dtype") else np.asarray(X)
    return number_values(X, np.arange(n_columns(X)))


def n_columns(X: Any) -> int:
    return len(X.columns) if hasattr(X, "columns") else X.shape[1]


def number_columns(X: Any, categories: NDArray) -> NDArray:
    """Columns of a table that hold numbers and are no categories."""
    others = np.setdiff1d(np.arange(n_columns(X)), categories)
    return np.array([j for j in others if _is_number(X, j)], dtype=int)


def _place(item: Any, n: int, names: list[str] | None) -> int:
    if isinstance(item, str):
        if names is not None and item in names:
            return names.index(item)
        known = "which has no column names" if names is None else f"whose columns are {names[:20]}"
        raise ValueError(
            f"categorical_features names {item!r}, which is not in the table that the parent (or "
            f"the last step of a Pipeline) sees, {known}."
        )
    if isinstance(item, (int, np.integer)) and not isinstance(item, bool) and -n <= item < n:
        return int(item) % n
    raise ValueError(
        f"categorical_features holds {item!r}, which is no column of X with {n} columns."
    )


def _is_number(X: Any, j: int) -> bool:
    if not hasattr(X, "columns"):
        return X.dtype.kind in "fiu"
    if hasattr(X, "iloc"):
        return getattr(X.dtypes.iloc[j], "kind", "O") in "fiu"
    return X.dtypes[j].is_numeric()


def _is_category(X: Any, j: int) -> bool:
    return str(X.dtypes[j] if isinstance(X.dtypes, list) else X.dtypes.iloc[j]).startswith(
        CATEGORY_TYPES
    )


def column_values(X: Any, j: int) -> NDArray:
    """One column as an array of its own values."""
    if not hasattr(X, "columns"):
        return np.asarray(X[:, j])
    column = X.iloc[:, j] if hasattr(X, "iloc") else X[X.columns[j]]
    return np.asarray(column.astype(object) if hasattr(X, "iloc") else column.to_numpy())


def number_values(X: Any, columns: NDArray) -> NDArray:
    """Columns as float64 with NaN for missing; an error names the column that is no number."""
    return _numbers(X, columns)[0]


def _numbers(X: Any, columns: NDArray) -> tuple[NDArray, bool]:
    """Also whether surely none is missing: half a gigabyte is not looked at twice."""
    if issparse(X):
        X = X.toarray()
    if not hasattr(X, "columns") and X.dtype.kind in "fiub":
        wanted = X if len(columns) == X.shape[1] else X[:, columns]
        values = np.ascontiguousarray(wanted, dtype=np.float64)
    else:
        values = np.empty((len(X), len(columns)))
        for place, j in enumerate(columns):
            values[:, place] = _number_column(X, j)
    complete = all_finite(values)
    if not complete and np.isinf(values).any():
        raise ValueError(
            "Input X contains infinity or a value too large for dtype('float64'). Remove or clip "
            "it."
        )
    return values, complete


def all_finite(values: NDArray) -> bool:
    """Whether there is surely neither NaN nor infinity: a finite sum has none in it.

    One pass, no array of flags: embeddings may be half a gigabyte. Numbers so large that their
    sum overflows give False and have to be looked at one by one.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(values.sum()))


def _number_column(X: Any, j: int) -> NDArray:
    column = column_values(X, j)
    if column.dtype.kind in "fiub":
        return column.astype(np.float64)
    try:
        missing = _is_missing(column)
        return np.where(missing, np.nan, np.where(missing, 0, column)).astype(np.float64)
    except (TypeError, ValueError) as error:
        name = f"{X.columns[j]!r}" if hasattr(X, "columns") else f"{j}"
        example = next(value for value in column if not isinstance(value, (int, float)))
        raise ValueError(
            f"column {name} holds {example!r}, which is not a number. Make the column a category "
            f"(X[{name}].astype('category')), list it in categorical_features, or encode it in a "
            "Pipeline with the parent."
        ) from error


def _is_missing(column: NDArray) -> NDArray:
    """None, NaN and the like: nothing else differs from itself or has no truth value."""
    if column.dtype.kind == "f":
        return np.isnan(column)
    if column.dtype.kind != "O":
        return np.zeros(len(column), dtype=bool)
    return np.array([is_missing(value) for value in column], dtype=bool)


def is_missing(value: Any) -> bool:
    """Whether one value is None, NaN or the like."""
    if value is None:
        return True
    try:
        return not bool(value == value)
    except TypeError:  # pandas.NA has no truth value
        return True


def _keys(column: NDArray) -> NDArray:
    """Values as objects that compare and hash alike in any container; None for missing."""
    missing = _is_missing(column)
    keys = np.empty(len(column), dtype=object)
    for i, value in enumerate(column.tolist()):
        keys[i] = None if missing[i] else value
    return keys


def _known(column: NDArray) -> NDArray:
    """Distinct values in the order of their names, so that rows may come in any order."""
    distinct = sorted(set(_keys(column)), key=lambda value: (str(type(value)), str(value)))
    known = np.empty(len(distinct), dtype=object)
    known[:] = distinct
    return known


def _codes(column: NDArray, known: NDArray) -> NDArray:
    place = {value: i for i, value in enumerate(known)}
    return np.array([place.get(value, len(known)) for value in _keys(column)], dtype=float)


def check_table(X: Any, categories: NDArray, allow_missing: bool, allow_words: bool) -> None:
    """Rows there, numbers where numbers belong, and missing ones only where they may be."""
    if len(X) == 0:
        raise ValueError("Found array with 0 sample(s) while a minimum of 1 is required.")
    columns = np.setdiff1d(np.arange(n_columns(X)), categories)
    if not allow_words:
        for j in categories:
            try:
                _number_column(X, j)
            except ValueError as error:
                name = X.columns[j] if hasattr(X, "columns") else j
                raise ValueError(
                    f"column {name!r} is a category, and the parent takes only numbers. Use one "
                    "that takes categories (HistGradientBoostingClassifier, LightGBM, XGBoost, "
                    "CatBoost), or a Pipeline with an encoder."
                ) from error
    missing = np.isnan(number_values(X, columns)).any(axis=0)
    if missing.any() and not allow_missing:
        names = [str(X.columns[j]) if hasattr(X, "columns") else j for j in columns[missing][:5]]
        raise ValueError(
            f"Input X contains NaN in column {names}, and the parent does not take missing "
            "values. Use one that does (HistGradientBoostingClassifier, LightGBM, a forest), or "
            "a Pipeline with an imputer."
        )
