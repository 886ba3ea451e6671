"""Checks of input. A message gives the name, what was expected, the value, and what to do."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from .arrays import Array, Floats

# Packages of Dask's collections; the second is that of dataframes in 2024.
DASK = ("dask", "dask_expr")


def one_of(allowed: Sequence[str], **named: object) -> None:
    """Each value is one of the allowed strings."""
    for name, value in named.items():
        if not isinstance(value, str) or value not in allowed:
            choices = ", ".join(repr(choice) for choice in allowed)
            raise ValueError(f"{name} must be one of {choices}; got {value!r}.")


def positive(**named: object) -> None:
    """Each value is a finite number above zero."""
    for name, value in named.items():
        if not _is_number(value) or not 0 < float(value) < math.inf:  # type: ignore[arg-type]
            raise ValueError(f"{name} must be a finite number above 0; got {value!r}.")


def not_negative(**named: object) -> None:
    """Each value is a finite number of at least zero."""
    for name, value in named.items():
        if not _is_number(value) or not 0 <= float(value) < math.inf:  # type: ignore[arg-type]
            raise ValueError(f"{name} must be a finite number of at least 0; got {value!r}.")


def count(least: int = 1, **named: object) -> None:
    """Each value is an integer of at least 1, or another ``least``."""
    for name, value in named.items():
        if not isinstance(value, Integral) or isinstance(value, bool) or int(value) < least:
            raise ValueError(f"{name} must be an integer of at least {least}; got {value!r}.")


def share(**named: object) -> None:
    """Each value lies strictly between 0 and 1."""
    for name, value in named.items():
        if not _is_number(value) or not 0 < float(value) < 1:  # type: ignore[arg-type]
            raise ValueError(f"{name} must lie strictly between 0 and 1; got {value!r}.")


def fraction(**named: object) -> None:
    """Each value lies between 0 and 1, both included."""
    for name, value in named.items():
        if not _is_number(value) or not 0 <= float(value) <= 1:  # type: ignore[arg-type]
            raise ValueError(f"{name} must lie between 0 and 1; got {value!r}.")


def auto_or_number(**named: object) -> None:
    """Each value is "auto" or a number."""
    for name, value in named.items():
        if not _is_number(value) and value != "auto":
            raise ValueError(f'{name} must be "auto" or a number; got {value!r}.')


def below_infinity(**named: object) -> None:
    """Each value is "auto", or a number below infinity."""
    auto_or_number(**named)
    for name, value in named.items():
        if value == math.inf:
            raise ValueError(
                f"{name} must be below infinity, where every answer would be the prior; got "
                f'{value!r}. Use "auto", or a finite number ({name}=-inf trusts every row).'
            )


def jobs(n_jobs: object) -> None:
    """A number of threads as scikit-learn takes it."""
    whole = isinstance(n_jobs, Integral) and not isinstance(n_jobs, bool)
    if n_jobs is not None and (not whole or n_jobs == 0):
        raise ValueError(
            f"n_jobs must be None or an integer other than 0; got {n_jobs!r}. Use 1 for one "
            "thread, -1 for all processors."
        )


def unique_names(columns: Iterable[object]) -> None:
    """No two columns of a frame have the same name, and names are of one type."""
    kinds = sorted({type(name).__name__ for name in columns})
    if "str" in kinds and len(kinds) > 1:
        raise TypeError(
            "Feature names are only supported if all input features have string names; X has "
            f"column names of the types {kinds}. Use X.columns = X.columns.astype(str)."
        )
    names = [str(name) for name in columns]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(
            f"X has several columns of the name {twice!r}. Give every column a name of its own."
        )


def is_table(X: object) -> None:
    """X may be a table: neither nothing, nor a text, a number or a dict; with a column at least."""
    if isinstance(X, (str, bytes, Path)):
        raise TypeError(
            f"X must be a table (an array, a list of rows or a frame); got the text {str(X)!r}. If "
            "that is a file, read it first: pandas.read_csv."
        )
    # A sparse matrix may be a dict too.
    if X is None or (isinstance(X, (dict, Real)) and not hasattr(X, "shape")):
        raise ValueError(
            "Expected 2D array, a table of rows and columns (an array, a list of rows or a frame); "
            f"got {type(X).__name__}. Make one of it: pandas.DataFrame."
        )
    if len(getattr(X, "columns", "some")) == 0:
        raise ValueError(
            "Found array with 0 feature(s) while a minimum of 1 is required. Give a frame with "
            "columns."
        )


def check_frame(X: object) -> None:
    """X is no frame without rows in memory, nor one of sparse columns."""
    if type(X).__name__ == "LazyFrame":
        raise TypeError("X is a LazyFrame, whose rows are not in memory. Collect it: X.collect().")
    kinds = getattr(X, "dtypes", None)
    if hasattr(X, "sparse") and any(str(kind).startswith("Sparse") for kind in kinds):  # type: ignore[union-attr]
        raise TypeError(
            "X is a frame with sparse columns, which polycal does not read. Give a dense one: "
            "X.sparse.to_dense() if all columns are sparse."
        )


def is_dask(X: object) -> bool:
    """Whether X is a collection of Dask, which is not imported to find out."""
    return any(base.__module__.partition(".")[0] in DASK for base in type(X).__mro__)


def check_local(**named: object) -> None:
    """No value is a collection of Dask."""
    for name, value in named.items():
        if is_dask(value):
            raise TypeError(
                f"{name} must be rows in memory here; got a Dask {type(value).__name__}. Compute a "
                f"part of it: {name}.partitions[0].compute(). predict_proba, predict_log_proba, "
                "predict, score_samples and in_distribution take Dask collections as they are, and "
                "so does fit of GeodesicCalibrator with a frozen parent."
            )


def folds(**named: object) -> None:
    """Each value names a plan of calibration, or is a number of folds or a splitter."""
    plans = ("auto", "holdout", "oob", "cv")
    for name, value in named.items():
        if isinstance(value, Integral) and not isinstance(value, bool):
            if value < 2:
                raise ValueError(f"{name} must be at least 2 folds; got {value}.")
            continue
        named_plan = isinstance(value, str) and value in plans
        splitter = not isinstance(value, (str, type)) and hasattr(value, "split")
        if not named_plan and not splitter:
            raise ValueError(
                f"{name} must be one of {', '.join(map(repr, plans))}, a number of folds, or "
                f"a splitter with split(X, y, groups); got {value!r}."
            )


def n_bytes(memory_limit: object) -> float:
    """A size of memory in bytes, from a number of bytes or a text such as "2GiB" or "500 MB"."""
    units = {"": 1.0, "B": 1.0}
    for power, prefix in enumerate("KMGT", 1):
        units[f"{prefix}B"], units[f"{prefix}IB"] = 1000.0**power, 1024.0**power
    text = str(memory_limit).strip().upper()
    number = text.rstrip("KMGTIB ")
    try:
        size = float(number) * units[text[len(number) :].strip()]
    except (KeyError, ValueError):
        size = math.nan
    if isinstance(memory_limit, bool) or not 0 < size < math.inf:
        raise ValueError(
            f'memory_limit must be a number of bytes above 0, or a text such as "2GiB" or "500MB"; '
            f"got {memory_limit!r}."
        )
    return size


def as_floats(values: object, name: str, expected: str) -> Floats:
    """The values as an array of floats; ``expected`` completes the error message."""
    try:
        return np.asarray(values, dtype=float)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must hold {expected}; got {reprlib.repr(values)}.") from error


def _is_number(value: object) -> bool:
    try:
        return isinstance(value, Real) and not isinstance(value, bool) and not math.isnan(value)
    except OverflowError:  # a whole number beyond every float
        return False


def check_weights(weights: object, n_rows: int, name: str = "sample_weight") -> Floats:
    """Weights of shape (n_samples,), finite and not negative, scaled to mean 1 over rows in use."""
    if weights is None:
        return np.ones(n_rows)
    weight = as_floats(weights, name, "one number for each row")
    if weight.ndim == 0:
        weight = np.full(n_rows, float(weight))
    if weight.ndim != 1:
        raise ValueError(
            f"Sample weights must be 1D array or scalar; {name} has shape {weight.shape}."
        )
    if len(weight) != n_rows:
        raise ValueError(
            f"{name} must hold one number for each of the {n_rows} rows; it holds {len(weight)}."
        )
    if not np.isfinite(weight).all():
        raise ValueError(f"{name} contains NaN or infinity; give each row a finite weight.")
    if (weight < 0).any():
        raise ValueError(
            f"{name} must not be negative; its smallest value is {weight.min()}. "
            "Remove such rows, or give them weight 0."
        )
    if not (weight > 0).any():
        raise ValueError(
            f"Sample weights must contain at least one non-zero number; {name} is 0 for every row."
        )
    with np.errstate(over="ignore"):
        total = weight.sum()
    if not np.isfinite(total):
        raise ValueError(
            f"{name} is so large that its sum overflows; its largest value is {weight.max():g}. "
            "Divide all weights by a large number."
        )
    scaled: Floats = weight / weight[weight > 0].mean()
    return scaled


def check_groups(groups: object, n_rows: int) -> Array | None:
    """Codes of the groups, one for each row; None without groups."""
    if groups is None:
        return None
    values = np.asarray(groups)
    if values.shape != (n_rows,):
        raise ValueError(
            f"groups must hold one group for each of the {n_rows} rows; got shape {values.shape}."
        )
    try:
        codes: Array = np.unique(values, return_inverse=True)[1]
    except (TypeError, ValueError) as error:
        raise ValueError(
            "groups must hold values of one type, such as all text or all numbers; got "
            f"{reprlib.repr(values.tolist())}. Give rows without a group a group of their own."
        ) from error
    return codes


def mean_weight(sample_weight: object) -> float | None:
    """Mean of the positive weights, by which ``check_weights`` divides; None without weights."""
    if sample_weight is None:
        return None
    weight = np.asarray(sample_weight, dtype=float)
    return float(weight[weight > 0].mean())


def check_prior(prior: object, classes: Array) -> Floats:
    """A positive probability for each class, in the order of ``classes_``, or by label.

    A Series goes by its index.
    """
    index = getattr(prior, "index", None)
    if index is not None and not callable(index):  # a pandas Series
        prior = dict(zip(index, prior, strict=True))  # type: ignore[call-overload]
    if isinstance(prior, Mapping):
        labels = classes.tolist()
        if set(prior) != set(labels):
            raise ValueError(
                f"prior must name each of the classes {labels} and no other; it names "
                f"{list(prior)}."
            )
        prior = [prior[label] for label in labels]
    values = as_floats(prior, "prior", "one probability for each class, in order")
    if values.shape != classes.shape:
        raise ValueError(
            f"prior must hold one probability for each of the {len(classes)} classes "
            f"{classes.tolist()}, in that order; got shape {values.shape}."
        )
    if not np.isfinite(values).all() or (values <= 0).any():
        raise ValueError(f"prior must be positive for every class; got {values.tolist()}.")
    if abs(values.sum() - 1) > 1e-8:  # more than rounding of the caller's own division
        raise ValueError(
            f"prior must sum to 1; it sums to {values.sum():.6g}. Divide it by its sum."
        )
    scaled: Floats = values / values.sum()
    return scaled


def check_columns(model: BaseEstimator, X: Any) -> None:
    """Raise scikit-learn's error for columns other than those of the fit, and say what to do."""
    known = getattr(model, "feature_names_in_", None)
    try:
        validate_data(model, X, skip_check_array=True, reset=False)
    except ValueError as error:
        if known is None:
            raise
        absent = not set(known) <= set(X.columns)
        cure = "Add or rename the missing columns" if absent else "Use the columns of the fit"
        raise ValueError(
            f"{str(error).rstrip()}\n{cure}: X[list(model.feature_names_in_)] has them in order."
        ) from error
