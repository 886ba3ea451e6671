"""What a user hands in, checked once and first."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_array, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _num_samples, validate_data

from ..core.reading import Reading
from ..core.table import check_table, find_categories
from .source import Source


def check_rows(
    model: BaseEstimator, source: Source, categorical: Any, X: Any, y: Any, reset: bool
) -> tuple[Any, Any]:
    """X as the parent takes it; sets or compares ``n_features_in_`` and the feature names.

    A parent that takes more than tables (a Pipeline, a torch module) gets its input as it
    came; a table with categories stays a table; numbers become float64 unless in a frame.
    """
    framed = hasattr(X, "columns")
    is_table = framed or getattr(X, "ndim", 0) == 2
    if source.family.raw_input:
        if is_table:
            validate_data(model, X, skip_check_array=True, reset=reset)
        return X, y
    source.family.check_table(X)
    missing = source.family.allows_missing(source.estimator)
    categories = find_categories(X, categorical) if is_table else np.empty(0, dtype=int)
    if len(categories):
        validate_data(model, X, skip_check_array=True, reset=reset)
        check_table(X, categories, missing, source.family.takes_categories)
        return X, y
    checks = {"dtype": np.float64, "ensure_all_finite": "allow-nan" if missing else True}
    try:
        if reset:
            values, y = validate_data(model, X, y, ensure_min_samples=2, **checks)
        else:
            values = validate_data(model, X, reset=False, **checks)
    except (TypeError, ValueError):
        if framed:  # say which column is no number, and what to do
            check_table(X, categories, missing, source.family.takes_categories)
        raise
    return X if framed else values, y


def check_labels(y: Any, X: Any, reading: Reading | None, in_order: bool) -> NDArray:
    """One label for each row, from y or from the input itself."""
    if y is None and reading is not None:
        y = reading.labels
    elif y is not None and not in_order:
        raise ValueError(
            "y was given beside a DataLoader that does not keep the order of its rows. Use "
            "shuffle=False and no sampler, or leave y out and let the loader yield (input, label)."
        )
    if y is None:
        raise ValueError(
            "y is missing: give the labels of the rows as y (or, for a torch module, a Dataset or "
            "DataLoader that yields them)."
        )
    y = column_or_1d(check_array(y, ensure_2d=False, dtype=None, input_name="y"), warn=True)
    check_classification_targets(y)
    n_rows = _num_samples(X) if reading is None else len(reading)
    if len(y) != n_rows:
        raise ValueError(f"y must hold one label for each of the {n_rows} rows; it holds {len(y)}.")
    return y
