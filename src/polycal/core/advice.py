"""What to do with a column that is not of numbers, in code that can be copied."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np


def as_numbers(X: Any, name: str, example: Any) -> str:
    """For a value that says what number it should be; "" if it does not."""
    if isinstance(example, (datetime.timedelta, np.timedelta64)):
        frame = hasattr(X, "iloc")
        cast = (
            f"X[{name}].dt.total_seconds()" if frame else f"polars.col({name}).dt.total_seconds()"
        )
        return f"Make it a number, such as {cast}, or leave the column out."
    if isinstance(example, datetime.time):
        return "Make it a number, such as hours since midnight, or leave the column out."
    if isinstance(example, (list, tuple, dict, set, np.ndarray)):
        return "Make a column of numbers of each of its parts, or leave the column out."
    return ""


def make_category(X: Any, name: str) -> str:
    """For a parent that takes categories; ``name`` is as code has it, in quotes."""
    if not hasattr(X, "columns"):
        return (
            "Give a pandas frame in which the column is a category, or encode it in a Pipeline "
            "before the parent (OrdinalEncoder)."
        )
    cast, instead = f"X[{name}].astype('category')", "list it in categorical_features"
    if not hasattr(X, "iloc"):
        cast = f"X.with_columns(polars.col({name}).cast(polars.Categorical))"
        instead = "leave it out"
    return (
        f"Make the column a category ({cast}), {instead}, or encode it in a Pipeline before the "
        "parent (OrdinalEncoder)."
    )


def encode(name: str) -> str:
    """For a parent that takes numbers alone."""
    return (
        "Use a parent that takes categories (HistGradientBoostingClassifier, LightGBM, CatBoost) "
        "and make the column one, or encode it before this parent: make_pipeline("
        "make_column_transformer((OrdinalEncoder(handle_unknown='use_encoded_value', "
        f"unknown_value=-1), [{name}]), remainder='passthrough'), parent)."
    )
