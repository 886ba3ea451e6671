"""Tables of numbers and categories, encoded for the density."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.sparse import issparse

from .._utils.arrays import Array, Bools, Floats, Ints
from .._utils.saved import saved_array, saved_part, saved_value
from .advice import as_numbers, encode, make_category
from .codes import find_codes
from .columns import Fences

# Names of the data types of categories in pandas and polars.
CATEGORY_TYPES = ("category", "Categorical", "Enum")
# Beyond this many levels of a category, those of a single row are no levels of their own.
MANY_LEVELS = 255


@dataclass(frozen=True)
class Table:
    """Which columns are numbers and which are categories, and the known levels of each category.

    An encoded row holds its numbers (NaN where missing) and then its symbols: the number of the
    level of each category, and for each number that was missing in some row of the fit, whether
    it is missing (1) or not (0). The last level of a category is for values that were not in the
    fit, and in a category of many levels also for those of a single row, which is what a new value
    will be. A missing category is a level of its own.

    A code is a far value that several rows share, such as 99999 for "unknown". It is a missing
    number with a level of its own: 2 for the first code of the number, 3 for the next.

    Numbers beyond their ``fences`` are compressed.
    """

    numbers: Ints = saved_array("int64 numbers")  # columns
    categories: Ints = saved_array("int64 categories")  # columns
    levels: tuple[Array, ...] = saved_value()  # known values of each category, None for missing
    # which of ``numbers`` were missing, or a code, in some row of the fit
    with_missing: Ints = saved_array("int64 with_missing")
    # first level of each symbol, and the number of all levels
    level_offsets: Ints = saved_array("int64 offsets")
    codes: Floats = saved_array("float64 codes")
    code_number: Ints = saved_array("int64 codes")  # place of its number in ``with_missing``
    fences: Fences | None = saved_part(default=None)

    @classmethod
    def learn(
        cls, X: Any, categories: Ints, robust: bool = False, coded: Bools | None = None
    ) -> tuple[Table, Floats]:
        """Learn the columns and levels from the rows of the fit; also return the encoded rows.

        A ``robust`` table has codes and fences. ``coded`` says which numbers are known to be codes,
        as ``is_code`` gives it.
        """
        categories = np.asarray(categories, dtype=int)
        numbers = np.setdiff1d(np.arange(n_columns(X)), categories)
        levels = tuple(_repeated(column_values(X, j)) for j in categories)
        values, complete = _numbers(X, numbers)
        codes = find_codes(values, coded) if robust else {}
        some = np.zeros(0, dtype=bool) if complete else np.isnan(values).any(axis=0)
        with_missing = np.union1d(np.flatnonzero(some), list(codes)).astype(np.int64)
        code_number = np.repeat(
            np.searchsorted(with_missing, list(codes)), [len(found) for found in codes.values()]
        )
        offsets = _level_offsets(levels, len(with_missing), code_number)
        code = np.concatenate([np.empty(0), *codes.values()])
        table = cls(numbers, categories, levels, with_missing, offsets, code, code_number)
        encoded = table._with_symbols(values, X)
        if not robust:
            return table, encoded
        fences = Fences.of(encoded[:, : len(numbers)])
        return replace(table, fences=fences), fences.compress(encoded)

    @property
    def has_symbols(self) -> bool:
        """Whether there are categories, or numbers that are missing in some rows."""
        return len(self.level_offsets) > 1

    def is_code(self, encoded: Floats) -> Bools:
        """Which numbers of encoded rows are codes, shape (n_samples, n_numbers)."""
        found = np.zeros((len(encoded), len(self.numbers)), dtype=bool)
        found[:, self.with_missing] = encoded[:, len(self.numbers) + len(self.categories) :] >= 2
        return found

    def encode(self, X: Any) -> Floats:
        """Rows as numbers and symbols, shape (n_samples, n_numbers + n_symbols), float64."""
        encoded = self._with_symbols(number_values(X, self.numbers), X)
        return encoded if self.fences is None else self.fences.compress(encoded)

    def _with_symbols(self, numbers: Floats, X: Any) -> Floats:
        if not self.has_symbols:
            return numbers
        symbols = [
            _codes(column_values(X, j), known)
            for j, known in zip(self.categories, self.levels, strict=True)
        ]
        for c, j in enumerate(self.with_missing):
            level = np.isnan(numbers[:, j]).astype(float)
            for k, code in enumerate(self.codes[self.code_number == c]):
                level[numbers[:, j] == code] = 2 + k
            symbols.append(level)
        encoded = np.column_stack([numbers, *symbols])
        for c in np.unique(self.code_number):
            is_code = symbols[len(self.categories) + c] >= 2
            encoded[is_code, self.with_missing[c]] = np.nan
        return encoded

    def contradictions(self) -> Iterator[str]:
        """Inconsistencies in a table that was read from a file, as messages."""
        columns = np.sort(np.concatenate([self.numbers, self.categories]))
        if not np.array_equal(columns, np.arange(len(columns))):
            yield "numbers and categories do not make up all columns"
        known = isinstance(self.levels, tuple) and all(
            isinstance(levels, np.ndarray) and levels.ndim == 1 and levels.dtype == object
            for levels in self.levels
        )
        if not known or len(self.levels) != len(self.categories):
            yield "the levels of a category are missing"
            return
        if not all(_may_be_level(value) for levels in self.levels for value in levels):
            yield "the level of a category is no value of a column"
        if ((self.with_missing < 0) | (self.with_missing >= len(self.numbers))).any():
            yield "missing-column index out of range"
        n_symbols = len(self.with_missing)
        if ((self.code_number < 0) | (self.code_number >= n_symbols)).any():
            yield "a code belongs to no number"
            return
        order = np.lexsort((self.codes, self.code_number))
        if not np.isfinite(self.codes).all() or (order != np.arange(len(order))).any():
            yield "the codes are no numbers, or out of order"
        offsets = _level_offsets(self.levels, n_symbols, self.code_number)
        if not np.array_equal(self.level_offsets, offsets):
            yield "level offsets do not fit the levels"


def _level_offsets(levels: Sequence[Array], n_with_missing: int, code_number: Ints) -> Ints:
    """First level of each symbol, and the number of all levels."""
    n_codes = np.bincount(code_number, minlength=n_with_missing)
    width = [len(known) + 1 for known in levels] + (2 + n_codes).tolist()
    return np.concatenate([[0], np.cumsum(width)]).astype(np.int64)


def _may_be_level(value: Any) -> bool:
    return value is None or isinstance(value, (bool, int, float, str, np.generic))


def check_numbers(X: Any, error: Exception) -> None:
    """Raise an error that shows the value of a list or an array that is no number."""
    try:
        values = np.asarray(X, dtype=object)
    except ValueError:
        values = np.empty(0, dtype=object)
    if values.ndim != 2 or values.dtype.names:
        rows = [len(row) for row in X if hasattr(row, "__len__")] if hasattr(X, "__iter__") else []
        if len(set(rows)) > 1:
            raise ValueError(
                f"the rows of X differ in length: the first has {rows[0]} values, another one "
                f"{next(n for n in rows if n != rows[0])}. Give as many values in each row."
            ) from error
        if getattr(getattr(X, "dtype", None), "names", None):
            raise TypeError(
                "X is a structured array. Give a frame, pandas.DataFrame(X), or plain numbers."
            ) from error
        return
    for (i, j), value in np.ndenumerate(values):
        try:
            float(value)
        except (TypeError, ValueError):
            raise type(error)(
                f"X holds {value!r} in row {i}, column {j}, which is not a number ({error}). "
                "Leave the column out, or give a pandas frame in which it is a category."
            ) from error


def find_categories(X: Any, categorical_features: Any) -> Ints:
    """Columns that hold categories: by data type, or by names, numbers or a mask."""
    n = n_columns(X)
    names = [str(name) for name in X.columns] if hasattr(X, "columns") else None
    if isinstance(categorical_features, str) and categorical_features == "from_dtype":
        if names is None:
            return np.empty(0, dtype=int)
        return np.flatnonzero([_is_category(X, j) for j in range(n)])
    if categorical_features is None:
        return np.empty(0, dtype=int)
    is_list = isinstance(categorical_features, (Sequence, np.ndarray))
    if isinstance(categorical_features, str) or not is_list:
        raise ValueError(
            'categorical_features must be "from_dtype", None, or a list of column names, column '
            f"numbers or a mask; got {categorical_features!r}."
        )
    items = list(categorical_features)
    if len(items) == n and all(isinstance(item, (bool, np.bool_)) for item in items):
        return np.flatnonzero(items)
    columns = [_column_number(item, n, names) for item in items]
    return np.unique(np.array(columns, dtype=int))


def numbers_of(X: Any) -> Floats:
    """All columns as float64, with NaN for missing in any container."""
    X = X if hasattr(X, "columns") or hasattr(X, "dtype") else np.asarray(X)
    return number_values(X, np.arange(n_columns(X)))


def only_numbers(X: Any) -> bool:
    """Whether no column of a table holds categories or text."""
    return len(number_columns(X, np.empty(0, dtype=int))) == n_columns(X)


def n_columns(X: Any) -> int:
    return len(X.columns) if hasattr(X, "columns") else X.shape[1]


def number_columns(X: Any, categories: Ints) -> Ints:
    """Columns of a table that hold numbers and are not categories."""
    others = np.setdiff1d(np.arange(n_columns(X)), categories)
    return np.array([j for j in others if _is_number(X, j)], dtype=int)


def _column_number(item: Any, n: int, names: list[str] | None) -> int:
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
        return bool(X.dtype.kind in "fiu")
    if hasattr(X, "iloc"):
        return bool(getattr(X.dtypes.iloc[j], "kind", "O") in "fiu")
    return bool(X.dtypes[j].is_numeric())


def _is_category(X: Any, j: int) -> bool:
    return str(X.dtypes[j] if isinstance(X.dtypes, list) else X.dtypes.iloc[j]).startswith(
        CATEGORY_TYPES
    )


def column_values(X: Any, j: int) -> Array:
    """The values of one column as an array."""
    if not hasattr(X, "columns"):
        return np.asarray(X[:, j])
    column = X.iloc[:, j] if hasattr(X, "iloc") else X[X.columns[j]]
    return np.asarray(column.astype(object) if hasattr(X, "iloc") else column.to_numpy())


def number_values(X: Any, columns: Ints, takes_categories: bool = True) -> Floats:
    """Columns as float64 with NaN for missing; an error names a column without numbers.

    ``takes_categories`` says what its advice is: whether the parent takes categories.
    """
    return _numbers(X, columns, takes_categories)[0]


def _numbers(X: Any, columns: Ints, takes_categories: bool = True) -> tuple[Floats, bool]:
    """Columns as float64, and whether it is certain that no value is missing.

    The second value saves the caller another pass over a large array.
    """
    if issparse(X):
        X = X.toarray()
    if not hasattr(X, "columns") and X.dtype.kind in "fiub":
        chosen = X if len(columns) == X.shape[1] else X[:, columns]
        values = np.ascontiguousarray(chosen, dtype=np.float64)
    else:
        values = np.empty((len(X), len(columns)))
        for k, j in enumerate(columns):
            values[:, k] = _number_column(X, j, takes_categories)
    complete = all_finite(values)
    if not complete and np.isinf(values).any():
        raise ValueError(
            "Input X contains infinity or a value too large for dtype('float64'). Remove or clip "
            "it."
        )
    return values, complete


def all_finite(values: Floats) -> bool:
    """Whether it is certain that no value is NaN or infinite: their sum is finite.

    It is one pass without an array of flags, since embeddings may be half a gigabyte. False does
    not prove the contrary: the sum of very large numbers may overflow.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(values.sum()))


def _number_column(X: Any, j: int, takes_categories: bool = True) -> Floats:
    column = column_values(X, j)
    if column.dtype.kind in "fiub" and column.ndim == 1:
        return column.astype(np.float64)
    try:
        if column.ndim > 1:  # structs of polars
            raise TypeError("a value is no number")
        missing = _is_missing(column)
        return np.where(missing, np.nan, np.where(missing, 0, column)).astype(np.float64)
    except (TypeError, ValueError) as error:
        name = f"{X.columns[j]!r}" if hasattr(X, "columns") else f"{j}"
        others = (v for v in column if not isinstance(v, (int, float)))
        example = next(v for v in others if np.ndim(v) or not is_missing(v))
        advice = as_numbers(X, name, example)
        advice = advice or (make_category(X, name) if takes_categories else encode(name))
        raise ValueError(
            f"column {name} holds {example!r}, which is not a number. {advice}"
        ) from error


def _is_missing(column: Array) -> Bools:
    """Which values are None, NaN or the like."""
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
        return not bool(value == value)  # NaN differs from itself
    except TypeError:  # pandas.NA has no truth value
        return True
    except ValueError:  # an array
        return False


def _keys(column: Array) -> Array:
    """Values as objects that compare and hash alike for any type of table; None for missing."""
    missing = _is_missing(column)
    keys = np.empty(len(column), dtype=object)
    for i, value in enumerate(column.tolist()):
        keys[i] = None if missing[i] else value
    return keys


def _known(column: Array) -> Array:
    """Distinct values, sorted by type and name."""
    distinct = sorted(set(_keys(column)), key=lambda value: (str(type(value)), str(value)))
    known = np.empty(len(distinct), dtype=object)
    known[:] = distinct
    return known


def _repeated(column: Array) -> Array:
    """Distinct values; of very many, those of two or more rows."""
    known = _known(column)
    if len(known) <= MANY_LEVELS:
        return known
    count = Counter(_keys(column))
    return known[[count[value] > 1 for value in known]]


def _codes(column: Array, known: Array) -> Floats:
    """Number of the level of each value; one more than the last for an unknown value."""
    number = {value: i for i, value in enumerate(known)}
    return np.array([number.get(value, len(known)) for value in _keys(column)], dtype=float)


def check_table(X: Any, categories: Ints, allow_missing: bool, allow_words: bool) -> None:
    """Raise an error if there are no rows, or text or missing values that the parent refuses."""
    if len(X) == 0:
        raise ValueError("Found array with 0 sample(s) while a minimum of 1 is required.")
    columns = np.setdiff1d(np.arange(n_columns(X)), categories)
    if not allow_words:
        for j in categories:
            try:
                _number_column(X, j)
            except ValueError as error:
                name = f"{X.columns[j]!r}" if hasattr(X, "columns") else f"{j}"
                raise ValueError(
                    f"column {name} is a category, and the parent takes only numbers. "
                    f"{encode(name)}"
                ) from error
    missing = np.isnan(number_values(X, columns, allow_words)).any(axis=0)
    if missing.any() and not allow_missing:
        names = [str(X.columns[j]) if hasattr(X, "columns") else j for j in columns[missing][:5]]
        raise ValueError(
            f"Input X contains NaN in column {names}, and the parent does not take missing "
            "values. Use one that does (HistGradientBoostingClassifier, LightGBM, a forest), or "
            "a Pipeline with an imputer."
        )
