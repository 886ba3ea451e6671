"""Checks of labels. A message gives the name, what was expected, the value, and what to do."""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.utils import check_array, column_or_1d
from sklearn.utils.multiclass import check_classification_targets, type_of_target

from .arrays import Array, Ints


def check_labels(y: object, n_rows: int, name: str = "y") -> Array:
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
            f"{name} must hold one label for each of the {n_rows} rows; it holds {len(labels)}."
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
    if isinstance(y_cal[0], str) != isinstance(classes[0], str):
        first, known = y_cal[:1].tolist()[0], classes[:1].tolist()[0]
        raise ValueError(
            f"y_cal holds {type(first).__name__}, such as {first!r}, and y {type(known).__name__}, "
            f"such as {known!r}. Make them one type: y_cal.astype(y.dtype)."
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
        some_known = bool(np.isin(labels, classes).any())
        cure = "Leave out the rows of classes that the model does not know"
        raise ValueError(
            f"y must hold classes of the model, {np.asarray(classes).tolist()}; it holds "
            f"{unknown[:20]}{' too' if some_known else ''}. "
            f"{cure if some_known else 'Give labels as the fit had them'}."
        )
    order = np.argsort(classes)
    return order[np.searchsorted(classes, labels, sorter=order)]
