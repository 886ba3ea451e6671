"""Values of rows and of polytopes, as text that people read."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._utils.arrays import Array, Ints
from ..core.roles import DATE
from ..core.table import column_values, is_missing
from ..estimators import BaseCalibrator
from ..parents.pipeline import decoded_levels

MISSING = "missing"
MOST_DAYS = 2_932_896  # to the end of the year 9999


class ShownValues:
    """Values of some rows and of the polytopes, as text.

    ``features`` are the rows as the classifier gets them, ``X`` as the model was given them. Codes
    of categories, which a Pipeline has made, are shown as the categories themselves.
    """

    def __init__(self, model: BaseCalibrator, features: Any, X: Any, names: list[str]):
        self.features, self.table = features, model.model_.reference.table
        self.density = model.model_.reference.density
        self.number = {int(j): k for k, j in enumerate(self.table.numbers)}
        self.category = {int(j): k for k, j in enumerate(self.table.categories)}
        self.decoded = decoded_levels(model.estimator_)
        self.columns: dict[int, Ints] = {}
        self.X, self.names = X, names
        dates = date_columns(model)
        self.dates = {j for j in self.number if names[j] in dates}

    def value(self, i: int, j: int) -> str:
        """Value of feature j in row i; a category that no training row had is named as such."""
        if j not in self.columns:
            self.columns[j] = self._column(j)
        value = self.columns[j][i]
        if is_missing(value):
            return MISSING
        if j in self.number:
            return self._shown(j, float(value))
        known = self.decoded.get(j, self.table.levels[self.category[j]])
        return str(value) if value in known else f"never seen: {value!r}"

    def _column(self, j: int) -> Array:
        """The column as the user gave it, where it has become codes."""
        if j not in self.decoded or not hasattr(self.X, "columns"):
            return column_values(self.features, j)
        return column_values(self.X, list(self.X.columns).index(self.names[j]))

    def center(self, r: int, j: int) -> str:
        """Mean of a number, most usual level of a category."""
        if j in self.number:
            mean = float(self.density.mean[r, self.number[j]])
            return self._shown(j, float(np.round(mean)) if j in self.dates else mean)
        c = self.category[j]
        first, last = self.density.level_offsets[c : c + 2]
        shares = self.density.log_share[r, first:last]
        level = self.table.levels[c][int(np.argmax(shares[:-1]))]
        if j in self.decoded and level is not None:
            place = int(level)
            level = self.decoded[j][place] if 0 <= place < len(self.decoded[j]) else None
        return MISSING if is_missing(level) else str(level)

    def usual(self, r: int, j: int) -> str:
        """As ``center``, with the bandwidth of a number."""
        if j not in self.number:
            return self.center(r, j)
        width = 1 / np.sqrt(self.density.precision_of(r)[self.number[j]])
        days = " days" if j in self.dates else ""
        return f"{self.center(r, j)} ± {number_text(width)}{days}"

    def _shown(self, j: int, value: float) -> str:
        return date_text(value) if j in self.dates else number_text(value)


def date_columns(model: BaseCalibrator) -> set[str]:
    """Names of features that are days since 1970."""
    columns = model.columns_
    return set() if columns is None or columns.unchanged else set(columns.with_role(DATE))


def date_text(days: float) -> str:
    """Days since 1970 as a date, with the clock where it is not midnight."""
    if np.isnan(days):
        return MISSING
    if abs(days) > MOST_DAYS:
        return number_text(days)
    date, clock = str(np.datetime64(round(days * 86_400), "s")).split("T")
    return date if clock == "00:00:00" else f"{date} {clock[:5]}"


def number_text(value: float) -> str:
    """Four digits, with commas between thousands; very large and small numbers by powers of 10."""
    if np.isnan(value):
        return MISSING
    plain = 1e4 <= abs(value) < 1e12
    return f"{float(f'{value:.4g}'):,.0f}" if plain else f"{value:.4g}"
