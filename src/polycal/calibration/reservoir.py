"""Calibration rows of a stream: a random choice of bounded size among those set apart."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from .._utils.arrays import Bools, Floats, Ints, is_ascending
from .._utils.saved import saved_array, saved_number, saved_part
from ..core.reading import ActivationModes, LabelledRows, Reading

# Rows of each class that are kept even where it is so rare that a random choice would hold fewer.
OF_EACH_CLASS = 50
# Rows that count for less, beside the one that counts most, are left out of the calibration.
FADED = 1e-6


@dataclass(frozen=True)
class Reservoir:
    """Rows of lowest random priority, and of each class at least some.

    Guarantees: the rows depend on the priorities alone, in any order and any batches, here or in
    reservoirs that were merged. A row counts for as many as its class had the chance to keep.
    """

    own_axes: ClassVar[tuple[str, ...]] = ("modes", "symbols", "reservoir_rows", "encoded")

    most: int = saved_number(int, above=0, below=2**31)
    modes: ActivationModes | None = saved_part(default=None)  # None before the first row
    X: Floats = saved_array("float64 reservoir_rows encoded", optional=True, missing=True)
    proba: Floats = saved_array("float64 reservoir_rows classes", optional=True)
    energy: Floats | None = saved_array("float64 reservoir_rows", optional=True)
    y: Ints = saved_array("int64 reservoir_rows", optional=True)
    weight: Floats = saved_array("float64 reservoir_rows", optional=True)
    priority: Floats = saved_array("float64 reservoir_rows", optional=True)
    # in half-lives; rows are drawn, and count, by their time
    time: Floats = saved_array("float64 reservoir_rows", optional=True)

    @classmethod
    def of(
        cls,
        most: int,
        reading: Reading,
        X: Floats,
        y: Ints,
        weight: Floats,
        priority: Floats,
        time: Floats | None = None,
    ) -> Reservoir:
        """The rows to keep of these."""
        rows = cls(most, reading.modes, X, reading.proba, y=y, weight=weight, priority=priority)
        time = np.zeros(len(y)) if time is None else time
        return replace(rows, energy=reading.energy, time=time).thinned()

    def __len__(self) -> int:
        return 0 if self.modes is None else len(self.y)

    def merge(self, other: Reservoir) -> Reservoir:
        """The rows to keep of both."""
        if other.modes is None or self.modes is None:
            return self if other.modes is None else other
        energy = None
        if self.energy is not None and other.energy is not None:
            energy = np.concatenate([self.energy, other.energy])
        joined: dict[str, Any] = {
            name: np.concatenate([getattr(self, name), getattr(other, name)])
            for name in ("X", "proba", "y", "weight", "priority", "time")
        }
        modes = self.modes.append(other.modes)
        return replace(self, modes=modes, energy=energy, **joined).thinned()

    def thinned(self) -> Reservoir:
        """The rows to keep of these, ascending by priority."""
        # Equal priorities are those of copies; a fixed order of these makes the choice one.
        order = np.lexsort((self.weight, self.y, self.priority))
        kept = np.sort(order[: self.most])
        if len(order) > self.most:
            rank = np.empty(len(order), dtype=np.int64)
            for code in np.unique(self.y):
                members = order[self.y[order] == code]
                rank[members] = np.arange(len(members))
            kept = np.union1d(kept, np.flatnonzero(rank < OF_EACH_CLASS))
            order = order[np.isin(order, kept)]
        return self._take(order)

    def at(self, time: float) -> Reservoir:
        """The same rows, all of one time in half-lives."""
        priority = self.priority - np.log(2) * time
        return replace(self, time=np.full(len(self.y), time), priority=priority)

    def _take(self, rows: Ints) -> Reservoir:
        assert self.modes is not None
        return replace(
            self,
            modes=self.modes[rows],
            energy=None if self.energy is None else self.energy[rows],
            **{name: getattr(self, name)[rows] for name in ("X", "proba", "y", "weight")},
            priority=self.priority[rows],
            time=self.time[rows],
        )

    def rows(self) -> tuple[Reading, Floats, LabelledRows]:
        """The rows as they are scored: reading, encoded features, labels and weights of mean 1."""
        assert self.modes is not None
        weight = self.weight * np.exp2(self.time - self.time.max()) / self._chance()
        least = FADED * weight.max()
        newest = [np.flatnonzero(self.y == code) for code in np.unique(self.y)]
        last_of_class = np.array([rows[np.argmax(weight[rows])] for rows in newest])
        # A class that has not come for long keeps a row, so that its share is not 0.
        weight[last_of_class] = np.maximum(weight[last_of_class], 2.0 * least)
        counted = np.flatnonzero(weight > least)
        some = self._take(counted)
        weight = weight[counted] / weight[counted].mean()
        assert some.modes is not None
        reading = Reading(some.modes.narrowed(), some.proba, some.X, energy=some.energy)
        numbers = np.arange(len(weight))
        return reading, some.X, LabelledRows(None, some.y, weight, numbers, None, reading)

    def _chance(self) -> Floats:
        """Chance of each row to be kept: higher for recent rows, and in classes that are rare."""
        chance, beyond = np.ones(len(self.y)), self._kept_for_class
        if len(self.y) < self.most:
            return chance
        limit = np.full(len(self.y), self.priority[: self.most].max())
        for code in np.unique(self.y[beyond]):
            limit[self.y == code] = self.priority[self.y == code].max()
        drawn: Floats = -np.expm1(-np.exp(np.minimum(limit + np.log(2) * self.time, 50.0)))
        return drawn

    @property
    def _kept_for_class(self) -> Bools:
        """Rows, which ascend by priority, that only a rare class keeps."""
        return np.arange(len(self.y)) >= self.most

    def to_save(self) -> Self:
        """The form that is saved, with leaf ids in their smallest type."""
        return self if self.modes is None else replace(self, modes=self.modes.narrowed())

    def contradictions(self) -> Iterator[str]:
        """Inconsistencies in a reservoir that was read from a file, as messages."""
        parts = (self.modes, self.X, self.proba, self.y, self.weight, self.priority, self.time)
        if len({part is None for part in parts}) > 1:
            yield "the calibration rows of a stream are incomplete"
        elif self.modes is None:
            return
        elif not self.modes.are_absent and len(self.modes) != len(self.y):
            yield "the calibration rows of a stream have other modes"
        elif len(self.y) and not 0 <= self.y.min() <= self.y.max() < self.proba.shape[1]:
            yield "a calibration row of a stream has no class of the model"
        elif not np.isfinite(self.time).all():
            yield "a calibration row of a stream has no time"
        elif not (self.weight > 0).all() or not is_ascending(self.priority):
            yield "calibration rows of a stream have no weight, or are out of order"
