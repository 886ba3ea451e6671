"""Checks of the rows and labels that an estimator is given."""

from __future__ import annotations

import reprlib
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse
from sklearn.utils.validation import check_is_fitted, validate_data

from .._utils import validation
from .._utils.arrays import Array, Floats, Ints
from .._utils.labels import check_calibration_labels, check_label_values, check_labels
from .._utils.sklearn_compat import n_rows_of
from ..calibration import guards
from ..calibration.fitted_model import FittedModel
from ..core.copies import find_copies
from ..core.reading import LabelledRows, Reading
from ..core.records import frame_of_records, is_records
from ..core.roles import ColumnRoles, declared_names, learn_roles, report_roles
from ..core.table import check_numbers, check_table, find_categories
from ..parents import Adapter

# Groups of copies that every class must have.
LEAST_GROUPS = 10
# Arguments of a parent's fit that are rows to stop by, beside ``eval_set``.
STOPPING_ROWS = {"eval_X", "X_val"}


class InputChecks:
    """Rows and labels as the parent takes them."""

    columns_: ColumnRoles | None = None  # how the columns of a frame were read
    model_: FittedModel
    calibration: Any
    prior: ArrayLike | None
    categorical_features: Any
    verbose: int

    def _check_rows(
        self, parent: Adapter, X: Any, y: Any, sample_weight: Any, groups: Any
    ) -> tuple[LabelledRows, Floats, Floats]:
        """Rows with class codes, the classes and the prior; rows of weight 0 are dropped."""
        if y is not None:
            check_label_values(y)
        elif hasattr(X, "columns") or not parent.raw_input:  # y may be one of the columns
            check_labels(y, 0)
        parent.check_table(X)
        X, y = self._check_table(parent, X, y, reset=True)
        reading = None
        if parent.is_fitted:
            names = getattr(self, "feature_names_in_", None)
            parent.check_features(getattr(self, "n_features_in_", None), names)
            reading = parent.read(X, self.verbose)
        y = _check_labels(y, X, reading, parent.in_order(X))
        weight = validation.check_weights(sample_weight, len(y))
        classes = np.unique(y[weight > 0])
        if len(classes) < 2:
            raise ValueError(
                "y must hold at least 2 classes in rows of positive weight; it holds one class, "
                f"{classes.tolist()}. Give rows of every class."
            )
        groups = validation.check_groups(groups, len(y))
        if groups is None and isinstance(self.calibration, (str, Integral)):
            groups = _groups_of_copies(X, y)  # a splitter of the user's own has the last word
        if (weight == 0).any() and not isinstance(self.calibration, (str, Integral)):
            raise ValueError(
                "sample_weight is 0 for some rows, which are left out, so the splitter given as "
                "calibration would count other rows than yours. Leave these rows out yourself."
            )
        codes = np.searchsorted(classes, y)  # those of weight 0 are dropped below
        guards.warn_of_label_column(X, codes)
        rows = LabelledRows(X, codes, weight, np.arange(len(y)), groups, reading)
        if (weight == 0).any():
            rows = rows.take(np.flatnonzero(weight))
        if rows.groups is not None and len(np.unique(rows.groups)) < 2:
            raise ValueError(
                "groups must hold at least 2 groups in rows of positive weight, one to fit and one "
                "to calibrate; it holds one."
            )
        if reading is not None:
            parent.check_classes(classes, reading.proba)
        if self.prior is not None:
            return rows, classes, validation.check_prior(self.prior, classes)
        return rows, classes, np.bincount(rows.y, rows.weight) / rows.weight.sum()

    def _check_calibration_rows(
        self, parent: Adapter, X_cal: Any, y_cal: Any, classes: Array
    ) -> LabelledRows:
        """Validated calibration rows."""
        together = "X_cal and y_cal go together: give both or neither."
        if X_cal is None:
            raise ValueError(together)
        guards.warn_of_other_order(X_cal, y_cal, ("X_cal", "y_cal"))
        X, y = self._check_table(parent, X_cal, y_cal, reset=False)
        reading = parent.read(X, self.verbose) if parent.is_fitted else None
        if y is None and (reading is None or reading.labels is None):
            raise ValueError(together)
        y = _check_labels(y, X, reading, parent.in_order(X), "y_cal")
        codes = check_calibration_labels(y, classes, parent.is_fitted)
        groups = _groups_of_copies(X, y)
        return LabelledRows(X, codes, np.ones(len(y)), np.arange(len(y)), groups, reading)

    def _check_eval_set(
        self, parent: Adapter, X: Any, X_cal: Any, parameters: dict[str, Any]
    ) -> dict[str, Any]:
        """Arguments of the parent's fit, with rows to stop by in the form of X."""

        def check(name: str, rows: Any) -> Any:
            guards.warn_of_stopping_rows(name, X, X_cal, rows)
            try:
                return self._check_table(parent, rows, None, reset=False)[0]
            except (TypeError, ValueError) as error:
                raise type(error)(f"{name}: {error}") from error

        checked = dict(parameters)
        for name in STOPPING_ROWS & parameters.keys():
            given = parameters[name]
            if isinstance(given, (list, tuple)) and hasattr(given[0], "shape"):
                checked[name] = type(given)(check(name, rows) for rows in given)
            elif given is not None:
                checked[name] = check(name, given)
        pairs = parameters.get("eval_set")
        if pairs is not None:
            pairs = [pairs] if isinstance(pairs, tuple) else pairs
            if not all(isinstance(pair, (tuple, list)) and len(pair) == 2 for pair in pairs):
                raise ValueError(
                    "eval_set must be a list of pairs, such as eval_set=[(X_stop, y_stop)]; got "
                    f"{reprlib.repr(parameters['eval_set'])}."
                )
            checked["eval_set"] = [(check("eval_set", rows), labels) for rows, labels in pairs]
        return checked

    def _check_query(self, X: Any) -> Any:
        """New rows as the parent takes them."""
        check_is_fitted(self, "model_")
        validation.check_local(X=X)
        parent = self.model_.parent
        if parent.raw_input and not parent.in_order(X):
            raise ValueError(
                "X is a DataLoader that does not keep the order of its rows, so no answer could be "
                "matched to its row. Use shuffle=False and no sampler."
            )
        if is_records(X) and not (parent.raw_input and self.columns_ is None):  # not a batch
            X = frame_of_records(X, self.columns_)
        return self._check_table(parent, X, None, reset=False)[0]

    def _check_table(self, parent: Adapter, X: Any, y: Any, reset: bool) -> tuple[Any, Any]:
        """X in the form that the parent takes, and y.

        ``n_features_in_`` and the feature names are set (``reset``) or compared. A parent that
        takes more than tables (a Pipeline, a torch module) gets X unchanged, and so does any
        parent where X is a frame or has categories. An array of numbers becomes float64.
        """
        validation.check_frame(X)
        framed = hasattr(X, "columns")
        if framed or not parent.raw_input:
            validation.is_table(X)
        if framed:
            validation.unique_names(X.columns)
            X = self._by_roles(parent, X, reset)
            if not reset:
                validation.check_columns(self, X)
        is_table = framed or getattr(X, "ndim", 0) == 2
        if parent.raw_input:
            if is_table:
                validate_data(self, X, skip_check_array=True, reset=reset)
            return X, y
        missing = parent.allows_missing
        categories = np.empty(0, dtype=int)
        if is_table:
            categories = find_categories(X, self.categorical_features)
        if len(categories):
            validate_data(self, X, skip_check_array=True, reset=reset)
            check_table(X, categories, missing, parent.takes_categories)
            return X, y
        checks = {"dtype": np.float64, "ensure_all_finite": "allow-nan" if missing else True}
        try:
            if reset:
                values, y = validate_data(self, X, y, ensure_min_samples=2, **checks)
            else:
                values = validate_data(self, X, reset=False, **checks)
        except (TypeError, ValueError) as error:
            # A message that names the column and says what to do.
            if framed:
                check_table(X, categories, missing, parent.takes_categories)
            elif not issparse(X):
                check_numbers(X, error)
            raise
        return X if framed else values, y

    def _by_roles(self, parent: Adapter, X: Any, reset: bool) -> Any:
        """A frame with its columns in their roles, which are learnt (``reset``) or known."""
        if reset:
            declared = declared_names(X, self.categorical_features)
            self.columns_ = learn_roles(X, declared, parent.raw_input or parent.is_fitted)
            if self.columns_ is not None:
                report_roles(X, self.columns_, self.verbose)
        return X if self.columns_ is None else self.columns_.prepare(X)


def _groups_of_copies(X: Any, y: Array) -> Ints | None:
    """Copies as groups, unless a class would have too few groups to be on both sides of a split.

    Equal rows in so few groups are no copies but the cells of a table with few different rows.
    """
    groups = find_copies(X)
    if groups is None:
        return None
    enough = all(len(np.unique(groups[y == label])) >= LEAST_GROUPS for label in np.unique(y))
    return groups if enough else None


def _check_labels(
    y: Any, X: Any, reading: Reading | None, in_order: bool, name: str = "y"
) -> Array:
    """One label for each row, from y or from the input itself."""
    if y is None and reading is not None:
        y = reading.labels
    elif y is not None and not in_order:
        raise ValueError(
            f"{name} was given with a DataLoader that does not keep the order of its rows. Use "
            "shuffle=False and no sampler, or leave it out and let the loader yield (input, label)."
        )
    return check_labels(y, n_rows_of(X) if reading is None else len(reading), name)
