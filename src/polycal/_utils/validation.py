"""Checks of input. A message gives the name, what was expected, the value, and what to do."""

from __future__ import annotations

import math
import reprlib
import warnings
from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_array, column_or_1d
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import validate_data

from .arrays import Array, Floats, Ints

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


def check_labels(y: object, n_rows: int) -> Array:
    """One class label for each row."""
    if y is None:
        raise ValueError(
            "y is missing: fit requires y to be passed, but the target y is None. Give the labels "
            'of the rows as y, such as fit(table.drop(columns="label"), table["label"]) '
            "(or, for a torch module, a Dataset or DataLoader that yields them)."
        )
    check_label_values(y)
    checked = check_array(y, ensure_2d=False, dtype=None, input_name="y")
    labels: Array = column_or_1d(checked, warn=True)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The number of unique classes")
        kind = type_of_target(labels)
        if kind != "continuous":
            check_classification_targets(labels)
    if kind == "continuous":
        raise ValueError(
            "Unknown label type: continuous. y holds numbers with fractions, such as "
            f"{labels[labels != np.round(labels)][0]:g}, and a classifier needs classes. Make "
            "classes of them (pandas.cut), or whole numbers."
        )
    if len(labels) != n_rows:
        raise ValueError(
            f"y must hold one label for each of the {n_rows} rows; it holds {len(labels)}."
        )
    return labels


def check_label_values(y: object) -> None:
    """Raise for what is no column of labels, before anything else looks at it."""
    if isinstance(y, (str, bytes)) or np.ndim(_values(y)) == 0:
        raise ValueError(
            f"y must hold one label for each row; got {y!r}. If that is the name of a column: "
            'fit(table.drop(columns="label"), table["label"]).'
        )
    values = _values(y)
    if values.ndim > 2 or (values.ndim == 2 and values.shape[1] != 1):
        raise ValueError(
            f"y should be a 1d array, one label for each row; got an array of shape "
            f"{values.shape}. Give one column; for rows of several labels, fit one model for each."
        )
    _check_one_kind(values)


def _values(y: object) -> Array:
    """Labels as an array."""
    try:
        return np.asarray(y)
    except TypeError:  # a tensor on another device: checked where it is read
        return np.empty(0)
    except ValueError as error:
        raise ValueError(
            "y must hold one label for each row; its rows differ in length. Give one column."
        ) from error


def _check_one_kind(values: Array) -> None:
    """Raise for missing labels, and for labels that cannot be sorted together."""
    flat = values.ravel()
    if flat.dtype.kind in "fc":
        missing = np.isnan(flat)
    elif flat.dtype.kind == "M":
        missing = np.isnat(flat)
    elif flat.dtype.kind == "O":
        missing = np.array([_is_missing(value) for value in flat], dtype=bool)
    else:
        return
    if missing.any():
        raise ValueError(
            f"Input y contains NaN or None in {missing.sum()} of {len(flat)} rows, the first is "
            f"row {int(np.argmax(missing))}. Leave these rows out (X[y.notna()], y[y.notna()]), or "
            "give them a label of their own."
        )
    if flat.dtype.kind != "O":
        return
    kinds = {
        str if isinstance(v, str) else bytes if isinstance(v, bytes) else float: v for v in flat
    }
    if len(kinds) > 1:
        shown = " and ".join(repr(value) for value in kinds.values())
        raise ValueError(
            f"Unknown label type: y holds text and other values, such as {shown}, which have no "
            "common order. Make them one type: y.astype(str)."
        )
    if float in kinds:
        kind = type(kinds[float]).__name__
        raise ValueError(
            f"Unknown label type: unknown. y is an array of Python objects ({kind}). Make them "
            "numbers, y.astype(int), or text, y.astype(str)."
        )


def _is_missing(value: object) -> bool:
    """Whether a label is None, NaN or the like."""
    try:
        return value is None or not bool(value == value)
    except TypeError:  # pandas.NA has no truth value
        return True
    except ValueError:  # a label that is an array
        return False


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
    """A positive probability for each class, in the order of ``classes_``, or by label."""
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


def check_calibration_labels(y_cal: Array, classes: Array, fitted: bool = False) -> Ints:
    """Class codes of the calibration rows; each class needs at least one row.

    ``fitted`` says that the parent has been: to hold out rows of X would then be a leak.
    """
    instead = "." if fitted else ", or leave X_cal out so that rows of X are held out."
    if len(y_cal) < 2:
        raise ValueError(
            f"X_cal has {len(y_cal)} row; at least 2 are needed to calibrate. Give more rows"
            f"{instead}"
        )
    unknown = np.setdiff1d(y_cal, classes)
    if len(unknown):
        raise ValueError(
            f"y_cal holds {unknown.tolist()}, which y does not; the classes of y are "
            f"{classes.tolist()}. Remove those rows, or add such rows to X and y."
        )
    missing = np.setdiff1d(classes, y_cal)
    if len(missing):
        raise ValueError(
            f"y_cal has no row of class {missing.tolist()}; each class of y needs at least one. "
            f"Give more calibration rows{instead}"
        )
    return np.searchsorted(classes, y_cal)


def class_columns(y: object, classes: Array) -> Ints:
    """Index in ``classes`` of each label."""
    labels = np.asarray(y)
    if labels.ndim != 1:
        raise ValueError(
            f"y must hold one label for each row; got shape {labels.shape}. Use y.ravel() if it "
            "is one column."
        )
    try:
        unknown = np.setdiff1d(labels, classes).tolist()
    except TypeError:  # None, or objects of several types, which have no order
        known = set(np.asarray(classes).tolist())
        unknown = [label for label in labels.tolist() if label not in known][:5]
    if unknown:
        raise ValueError(
            f"y must hold classes of the model, {np.asarray(classes).tolist()}; it holds "
            f"{unknown} too. Leave out the rows of classes that the model does not know."
        )
    order = np.argsort(classes)
    return order[np.searchsorted(classes, labels, sorter=order)]


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
