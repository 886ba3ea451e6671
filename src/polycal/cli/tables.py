"""Reading and writing of CSV and Parquet files, at once or in chunks."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer

from .._utils.arrays import Array
from .._utils.optional import optional

KINDS = (".csv", ".parquet")


def kind_of(path: Path) -> str:
    """ ".csv" or ".parquet"."""
    if path.suffix.lower() not in KINDS:
        raise ValueError(f"{path} must end in .csv or .parquet; it ends in {path.suffix!r}.")
    return path.suffix.lower()


def check_output(path: Path) -> None:
    """Raise an error before the work if the file cannot be written after it."""
    if not path.resolve().parent.is_dir():
        raise ValueError(f"the folder {path.parent} of {path} does not exist. Make it first.")
    if path.is_dir():
        raise ValueError(f"{path} is a folder; name a file in it.")
    if not os.access(path.resolve().parent, os.W_OK):
        raise ValueError(f"the folder {path.parent} of {path} is not writable. Choose another.")


def read_table(path: Path, text: Sequence[str] = ()) -> Any:
    """The file as a pandas data frame of at least one row."""
    (table,) = read_pieces(path, None, text)
    if not len(table):
        raise ValueError(f"{path} holds no rows.")
    return table


def read_pieces(path: Path, n_rows: int | None, text: Sequence[str] = ()) -> Iterator[Any]:
    """Frames of at most n_rows rows, in order; all at once without n_rows.

    CSV has no types: columns named in ``text`` are read as text even where all values of a chunk
    could be numbers, so that a category "007" is not changed in any chunk.
    """
    pandas = optional("pandas", "cli")
    kind = kind_of(path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}.")
    if path.stat().st_size == 0:
        raise ValueError(f"{path} is empty.")
    if kind == ".csv":
        # low_memory would guess types separately for parts of a column.
        options = {"dtype": dict.fromkeys(text, str), "low_memory": False}
        if n_rows is None:
            yield pandas.read_csv(path, **options)
        else:
            with pandas.read_csv(path, chunksize=n_rows, **options) as pieces:
                yield from pieces
        return
    parquet = optional("pyarrow.parquet", "cli")
    if n_rows is None:
        yield parquet.read_table(path).to_pandas()
        return
    with parquet.ParquetFile(path) as file:
        for batch in file.iter_batches(n_rows):
            yield batch.to_pandas()


def features_of(model: Any, table: Any) -> Any:
    """The columns that the model was fitted on, in its order and with its types."""
    names = [str(name) for name in getattr(model, "feature_names_in_", ())]
    if not names:
        raise ValueError("the model has no column names. Fit it on a table with named columns.")
    missing = [name for name in names if name not in table.columns]
    if missing:
        raise ValueError(
            f"DATA lacks the column(s) {missing[:10]}; the model was fitted on {names[:20]}."
        )
    X = typed(table[names], category_columns(model))
    for name in _native_categories(model):  # the parent reads the data type
        X[name] = X[name].astype("category")
    return X


def is_category(column: Any) -> bool:
    """Whether a column holds neither numbers nor booleans; missing values are ignored."""
    pandas = optional("pandas", "cli")
    if column.dtype.kind in "fiub":
        return False
    return bool(pandas.api.types.infer_dtype(column, skipna=True) != "boolean")


def typed(table: Any, categories: list[str]) -> Any:
    """Categories as text and all others as numbers; an error names a column that is neither."""
    pandas = optional("pandas", "cli")
    columns = {}
    for name in table.columns:
        column = table[name]
        if name in categories:
            columns[name] = _as_text(column)
            continue
        numbers = pandas.to_numeric(column, errors="coerce").astype(float)
        bad = numbers.isna() & column.notna()
        if bad.any():
            row = int(np.flatnonzero(bad)[0])
            raise ValueError(
                f"column {name!r} must hold numbers; row {row} holds {column.iloc[row]!r}. Correct "
                "it, or leave the column out of the fit (--drop)."
            )
        columns[name] = numbers
    return pandas.DataFrame(columns, index=table.index)


def _as_text(column: Any) -> Any:
    """Text, with None for missing values; integers without a decimal point."""
    if column.dtype.kind == "f" and (column.dropna() % 1 == 0).all():
        column = column.astype("Int64")
    missing = column.isna().to_numpy()
    text = np.empty(len(column), dtype=object)
    text[:] = [None if gone else str(v) for v, gone in zip(column, missing, strict=True)]
    return type(column)(text, index=column.index, dtype=object)


def category_columns(model: Any) -> list[str]:
    """Text columns: those that a model of ``polycal fit`` encodes, or that its parent takes."""
    steps = getattr(model.estimator_, "steps", None)
    first = steps[0][1] if steps else None
    if not isinstance(first, ColumnTransformer):
        return _native_categories(model)
    return [
        str(name)
        for step, _, names in first.transformers_
        if step == "categories"
        for name in names
    ]


def _native_categories(model: Any) -> list[str]:
    """Columns that the parent takes as text categories, in a model that was fitted in Python."""
    if hasattr(model.estimator_, "steps"):
        return []
    table = model.model_.reference.table
    return [
        str(model.feature_names_in_[j])
        for j, known in zip(table.categories, table.levels, strict=True)
        if all(level is None or isinstance(level, str) for level in known)
    ]


def labels_of(model: Any, table: Any, target: str) -> Array:
    """Labels, of the type of the model's classes."""
    if target not in table.columns:
        raise ValueError(
            f"--target {target!r} is not a column of DATA: {list(table.columns)[:20]}."
        )
    return same_type(table[target], model.classes_)


def same_type(column: Any, classes: Array) -> Array:
    """Labels, as text if the classes are text."""
    if column.isna().any():
        raise ValueError(f"the label is missing in {int(column.isna().sum())} row(s). Drop them.")
    is_text = classes.dtype.kind in "UO"
    labels: Array = _as_text(column).to_numpy(dtype=str) if is_text else column.to_numpy()
    return labels


class Writer:
    """Appends data frames to one CSV or Parquet file."""

    def __init__(self, path: Path, kind: str):
        self.path, self.kind = path, kind
        self.file: Any = None

    def write(self, frame: Any) -> None:
        if self.kind == ".csv":
            first = not self.path.exists()
            frame.to_csv(self.path, mode="a", header=first, index=False)
            return
        arrow, parquet = optional("pyarrow", "cli"), optional("pyarrow.parquet", "cli")
        rows = arrow.Table.from_pandas(frame, preserve_index=False)
        if self.file is None:
            self.file = parquet.ParquetWriter(self.path, rows.schema)
        self.file.write_table(rows.cast(self.file.schema))

    def close(self) -> None:
        if self.file is not None:
            self.file.close()
