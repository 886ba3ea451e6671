"""Features and labels of a file, as a fitted model takes them."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer

from .._utils.arrays import Array
from .._utils.optional import optional
from ..core.roles import CATEGORY, DATE, NUMBER, TEXT, ColumnRoles, Role
from .columns import exact_text, typed
from .files import no_column, place_of


def features_of(model: Any, table: Any) -> Any:
    """The columns that the model was fitted on, in its order and with its types."""
    names = [str(name) for name in getattr(model, "feature_names_in_", ())]
    if not names:
        raise ValueError("the model has no column names. Fit it on a table with named columns.")
    # Files are read without blanks around names; a model of Python may have them.
    blanks = {name.strip(): name for name in names if name not in table.columns}
    table = table.rename(columns=blanks)
    missing = [name for name in names if name not in table.columns]
    if missing:
        raise ValueError(
            f"{table.attrs.get('file', 'DATA')} lacks the column(s) {missing[:10]}; the model was "
            f"fitted on {names[:20]}. It has {list(table.columns)[:20]}."
        )
    roles = roles_of(model, names)
    X = typed(table, roles)[names]
    if hasattr(model.estimator_, "steps"):
        if roles.unchanged:  # a Pipeline of the user's own takes dates as such
            for name in roles.with_role(DATE):
                X[name] = optional("pandas", "cli").to_datetime(X[name], unit="D")
        return X
    for name in roles.with_role(CATEGORY):  # the parent reads the data type
        X[name] = X[name].astype("category")
    return X


def trained_mark(model: Any) -> str | None:
    """The decimal mark of the text file that the model was fitted on; None if unknown."""
    return None if model.columns_ is None else model.columns_.decimal


def roles_of(model: Any, names: list[str]) -> ColumnRoles:
    """The roles of the model's features; text that a Pipeline gets is read as a category is."""
    if model.columns_ is not None:
        known = dict(model.columns_.items())
        found = {name: known[name] for name in names}
        text = {name: Role(CATEGORY, "") for name, role in found.items() if role.role == TEXT}
        return ColumnRoles.of({**found, **text}, model.columns_.unchanged)
    categories = category_columns(model)  # of a file that is older than roles
    return ColumnRoles.of(
        {name: Role(CATEGORY if name in categories else NUMBER, "") for name in names}
    )


def category_columns(model: Any) -> list[str]:
    """Text columns: those that a model of ``polycal fit`` encodes, or that its parent takes."""
    steps = getattr(model.estimator_, "steps", None)
    if steps is None:
        table = model.model_.reference.table
        return [
            str(model.feature_names_in_[j])
            for j, known in zip(table.categories, table.levels, strict=True)
            if all(level is None or isinstance(level, str) for level in known)
        ]
    first = steps[0][1]
    if not isinstance(first, ColumnTransformer):
        return []
    return [
        str(name)
        for step, _, names in first.transformers_
        if step == "categories"
        for name in names
    ]


def labels_of(table: Any, target: str, classes: Array | None = None) -> Array:
    """Labels as text, exactly as in the file; those of known classes in their type."""
    if target not in table.columns:
        raise no_column("--target", target, list(table.columns))
    text = exact_text(table[target])
    empty = np.flatnonzero([word is None or not word.strip() for word in text])
    if len(empty):
        raise ValueError(
            f"the label is missing in {len(empty)} row(s), the first is "
            f"{place_of(table, int(empty[0]))}. Remove these rows, or write their labels."
        )
    if classes is None:
        _note_blanks(set(text), target)
    if classes is None or classes.dtype.kind in "UO":
        return text.astype(str)
    known = {str(label): label for label in classes}
    for word in set(text) - known.keys():  # "1.0" is 1
        try:
            known[word] = next(label for label in classes if label == float(word))
        except (ValueError, StopIteration):
            row = int(np.flatnonzero(text == word)[0])
            raise ValueError(
                f"{place_of(table, row)} has the label {word!r}; the classes of the model are "
                f"{classes.tolist()[:20]}. Leave out rows of other classes."
            ) from None
    return np.array([known[word] for word in text])


def _note_blanks(labels: set[str], target: str) -> None:
    """Say that labels are alike but for blanks around them, which make two classes of one."""
    alike: dict[str, list[str]] = {}
    for label in sorted(labels):
        alike.setdefault(label.strip(), []).append(label)
    twice = next((some for some in alike.values() if len(some) > 1), None)
    if twice is not None:
        warnings.warn(
            f"{' and '.join(map(repr, twice))} in column {target!r} differ by blanks alone, and "
            "are classes of their own. If they are one, write them alike.",
            stacklevel=3,
        )
