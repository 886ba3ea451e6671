"""Rows on their way into a fit: labelled, weighted, and split for calibration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing, check_random_state

from ..core.reading import Reading
from ..parents import Adapter
from ..posterior.votes import stratified_parts


@dataclass(frozen=True)
class Rows:
    """Labelled rows; ``reading`` is there when the parent was fitted before and read them."""

    raw: Any  # as the parent takes them
    y: NDArray  # class codes
    weight: NDArray
    ids: NDArray  # places in what the user gave
    reading: Reading | None = None

    @classmethod
    def given(cls, raw: Any, y: NDArray, weight: NDArray, reading: Reading | None = None) -> Rows:
        """All rows that the user gave."""
        return cls(raw, y, weight, np.arange(len(y)), reading)

    def take(self, index: NDArray) -> Rows:
        parts = self.y[index], self.weight[index], self.ids[index]
        if self.reading is not None:
            return Rows(None, *parts, self.reading.take(index))
        return Rows(_safe_indexing(self.raw, index), *parts)

    def read_by(self, parent: Adapter, verbose: int) -> Reading:
        return self.reading if self.reading is not None else parent.read(self.raw, verbose)

    def __len__(self) -> int:
        return len(self.y)


def check_class_sizes(rows: Rows, classes: NDArray) -> None:
    """Calibration needs a row of each class that the parent has not seen."""
    sizes = np.bincount(rows.y, minlength=len(classes))
    small = int(np.argmin(sizes))
    if sizes[small] < 2:
        raise ValueError(
            f"class {classes[small]} has {sizes[small]} row(s) with positive weight; at least 2 "
            "are needed, one to fit and one to calibrate. Add rows, merge or drop the class, or "
            "give X_cal and y_cal."
        )


def split_rows(rows: Rows, size: float, random_state: Any) -> tuple[Rows, Rows]:
    """Fit and calibration rows, class by class, so that each class is in both."""
    rng = check_random_state(random_state)
    fit, calibrate = [], []
    for code in np.unique(rows.y):
        members = rng.permutation(np.flatnonzero(rows.y == code))
        n = min(max(1, round(size * len(members))), len(members) - 1)
        calibrate.append(members[:n])
        fit.append(members[n:])
    return rows.take(np.sort(np.concatenate(fit))), rows.take(np.sort(np.concatenate(calibrate)))


def shuffled_parts(rows: Rows, random_state: Any) -> NDArray:
    """Stratified part of each row, drawn at random."""
    order = check_random_state(random_state).permutation(len(rows))
    part = np.empty(len(rows), dtype=int)
    part[order] = stratified_parts(rows.y[order])
    return part


def parts_of(part: NDArray) -> list[tuple[NDArray, NDArray]]:
    """Numbers of the rows outside and inside each part."""
    numbers = np.unique(part)
    return [(np.flatnonzero(part != n), np.flatnonzero(part == n)) for n in numbers]
