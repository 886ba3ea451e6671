"""Tables with other values, as a library of boosted trees needs them."""

from __future__ import annotations

from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from .base import is_a

FLOAT32_MAX = float(np.finfo(np.float32).max)


def nan_for_missing(X: Any, marker: Any) -> Any:
    """The table with NaN in place of the number that means "missing" to XGBoost."""
    if marker is None or np.isnan(marker):
        return X
    if isinstance(X, np.ndarray) and X.dtype.kind in "fiu":
        return np.where(marker == X, np.nan, X)
    if hasattr(X, "select_dtypes"):  # pandas
        numbers = X.select_dtypes("number")
        return X.assign(**{name: numbers[name].where(numbers[name] != marker) for name in numbers})
    return X


def clip_to_float32(X: Any) -> Any:
    """Numbers beyond float32 moved to its ends, where they take the same side of every split.

    XGBoost's ``apply`` refuses such numbers; its ``predict_proba`` does not.
    """
    if isinstance(X, np.ndarray) and X.dtype.kind == "f":
        return np.clip(X, -FLOAT32_MAX, FLOAT32_MAX)
    if hasattr(X, "select_dtypes"):  # pandas
        floats = X.select_dtypes("floating")
        X = X.copy()
        X[floats.columns] = floats.clip(-FLOAT32_MAX, FLOAT32_MAX)
    elif is_a(X, "polars", "DataFrame"):
        floats = [column for column in X if column.dtype.is_float()]
        X = X.with_columns(column.clip(-FLOAT32_MAX, FLOAT32_MAX) for column in floats)
    return X


def fill_empty_columns(X: Any) -> Any:
    """The table with 0 in columns that are missing in every row.

    No tree splits them; scikit-learn's histograms fail on a column without a value, which a rare
    measurement may be in one part of the rows.
    """
    if isinstance(X, np.ndarray):
        empty = np.isnan(X).all(axis=0) if X.dtype.kind == "f" else np.zeros(1, dtype=bool)
        return np.where(empty, 0.0, X) if empty.any() else X
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    if not isinstance(frame, nw.DataFrame):
        return X
    names = [column.name for column in frame.iter_columns() if _is_empty(column)]
    if not names:
        return X
    return frame.with_columns(nw.lit(0.0).alias(name) for name in names).to_native()


def _is_empty(column: Any) -> bool:
    if column.dtype in (nw.Categorical, nw.Enum):
        return False
    if column.is_null().all():
        return True
    return bool(column.dtype.is_float() and column.fill_null(np.nan).is_nan().all())
