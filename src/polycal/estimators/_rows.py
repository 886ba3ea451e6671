"""Rows on their way into a fit: checked, weighted, and split for calibration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing, check_random_state


@dataclass(frozen=True)
class Rows:
    """The same rows as the parent sees them (``raw``) and as the density does (``X``)."""

    raw: Any
    X: NDArray
    y: NDArray  # class codes
    weight: NDArray

    def take(self, index: NDArray) -> Rows:
        raw = self.X[index] if self.raw is self.X else _safe_indexing(self.raw, index)
        X = raw if self.raw is self.X else self.X[index]
        return Rows(raw, X, self.y[index], self.weight[index])

    def __len__(self) -> int:
        return len(self.y)


def split_rows(rows: Rows, classes: NDArray, size: float, random_state: Any) -> tuple[Rows, Rows]:
    """Fit and calibration rows, class by class, so that each class is in both."""
    rng = check_random_state(random_state)
    fit, calibrate = [], []
    for code, label in enumerate(classes):
        members = rng.permutation(np.flatnonzero(rows.y == code))
        if len(members) < 2:
            raise ValueError(
                f"class {label} has {len(members)} row(s) with positive weight; at least 2 are "
                "needed, one to fit and one to calibrate. Add rows, merge or drop the class, or "
                "give X_cal and y_cal."
            )
        n = min(max(1, round(size * len(members))), len(members) - 1)
        calibrate.append(members[:n])
        fit.append(members[n:])
    return rows.take(np.sort(np.concatenate(fit))), rows.take(np.sort(np.concatenate(calibrate)))
