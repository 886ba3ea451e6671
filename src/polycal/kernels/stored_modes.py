"""A bounded random choice of distinct modes, with what their rows add up to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from .._utils.arrays import Array, Bools, Floats, Ints
from .._utils.saved import saved_array, saved_number, saved_part
from ..core.execution import Execution
from ..core.reading import ActivationModes
from .path_tables import hash_of_all

# Part of the largest weight of a mode below which a mode is forgotten where old rows fade.
FADED = 2.0**-200


@dataclass
class StoredModes:
    """The distinct modes of lowest random priority, and sums over all of their rows.

    The priority of a mode is a number that its hash draws, less the time of its latest row where
    old rows fade. Without times, a mode that is stored now always was, so that its sums are those
    of all its rows.

    Guarantees: without times, modes and sums are those of all rows that were added, in any order
    and any batches, here or in other sets that were merged (to rounding). Edge cases: two
    different modes are taken for one once in 2^64.
    """

    own_axes: ClassVar[tuple[str, ...]] = (
        "modes",
        "symbols",
        "stored_values",
        "places of ('modes', 'stored_values')",
    )

    most: int = saved_number(int, above=0, below=2**31)
    modes: ActivationModes | None = saved_part(default=None)  # None before the first row
    key: Array = saved_array("uint64 modes", optional=True)  # hash of all symbols, ascending
    priority: Floats = saved_array("float64 modes", optional=True)
    values: Floats = saved_array("float64 modes stored_values", sparse=True, optional=True)

    def __len__(self) -> int:
        return 0 if self.modes is None else len(self.modes)

    def admits(self, key: Array, time: Floats | float = 0.0) -> Bools:
        """Which rows, of modes with these hashes, may change what is stored."""
        if len(self) < self.most:
            return np.ones(len(key), dtype=bool)
        admitted: Bools = (drawn(key) - time < self.priority.max()) | self._place(key)[1]
        return admitted

    def add(
        self, modes: ActivationModes, key: Array, values: Floats, time: Floats | float = 0.0
    ) -> None:
        """Add rows with these modes, the hashes of the modes, and values that add up."""
        if len(modes) == 0:
            return
        distinct, first, owner = np.unique(key, return_index=True, return_inverse=True)
        sums = np.zeros((len(distinct), values.shape[1]))
        np.add.at(sums, owner, values)
        latest = np.full(len(distinct), -np.inf)
        np.maximum.at(latest, owner, np.broadcast_to(time, len(key)))
        self._add(modes[first], distinct, drawn(distinct) - latest, sums)

    def merge(self, other: StoredModes) -> None:
        """Add all that another set has."""
        if other.modes is not None:
            self._add(other.modes, other.key, other.priority.copy(), other.values.copy())

    def _add(self, modes: ActivationModes, key: Array, priority: Floats, sums: Floats) -> None:
        """Add distinct modes, ascending by their hash."""
        if self.modes is None:
            self.modes, self.key, self.priority, self.values = modes, key, priority, sums
        else:
            place, known = self._place(key)
            stored, new = place[known], ~known
            self.values[stored] += sums[known]
            self.priority[stored] = np.minimum(self.priority[stored], priority[known])
            if new.any():
                order = np.argsort(np.concatenate([self.key, key[new]]), kind="stable")
                self.modes = self.modes.append(modes[np.flatnonzero(new)])
                self.key = np.concatenate([self.key, key[new]])
                self.priority = np.concatenate([self.priority, priority[new]])
                self.values = np.concatenate([self.values, sums[new]])
                self._keep(order)
        if len(self) > self.most:
            self._keep(np.sort(np.argpartition(self.priority, self.most)[: self.most]))

    def _keep(self, rows: Ints) -> None:
        assert self.modes is not None
        self.modes, self.key = self.modes[rows], self.key[rows]
        self.priority, self.values = self.priority[rows], self.values[rows]

    def _place(self, key: Array) -> tuple[Ints, Bools]:
        """Number of the stored mode with each hash, and whether there is one."""
        place = np.searchsorted(self.key, key)
        known = place < len(self.key)
        known[known] = self.key[place[known]] == key[known]
        return place, known

    def rescale(self, factor: float, n_weights: int) -> None:
        """Multiply all sums by a power of two, and forget modes whose rows have faded.

        The first ``n_weights`` sums are the weights of rows.
        """
        if self.modes is None:
            return
        self.values = self.values * factor
        weight = self.values[:, :n_weights].sum(axis=1)
        self._keep(np.flatnonzero(weight > FADED * weight.max(initial=0.0)))

    def copy(self) -> Self:
        """The same modes; rows that are added to one do not change the other."""
        if self.modes is None:
            return replace(self)
        return replace(self, priority=self.priority.copy(), values=self.values.copy())

    def to_save(self) -> Self:
        """The form that is saved, with leaf ids in their smallest type."""
        return self if self.modes is None else replace(self, modes=self.modes.narrowed())

    def contradictions(self) -> Iterator[str]:
        """Inconsistencies in stored modes that were read from a file, as messages."""
        parts = (self.modes, self.key, self.priority, self.values)
        if len({part is None for part in parts}) > 1:
            yield "stored modes are incomplete"
        elif self.modes is None:
            return
        elif len(self) > self.most:
            yield "there are more stored modes than there may be"
        elif (self.key[1:] <= self.key[:-1]).any():
            yield "stored modes are out of order"
        elif not np.array_equal(self.key, keys_of(self.modes, Execution())):
            yield "stored modes have the hashes of others"
        elif not (np.isfinite(self.priority).all() and np.isfinite(self.values).all()):
            yield "a stored mode has values that are none"


def keys_of(modes: ActivationModes, execution: Execution) -> Array:
    """Hash of all symbols of each mode, by which modes are told apart."""
    return hash_of_all(modes, execution)


def drawn(key: Array) -> Floats:
    """Logarithm of a number that each hash draws from the exponential distribution.

    With a time that is taken off, rows are drawn with weights that grow by e in a unit of time.
    """
    with np.errstate(over="ignore"):
        mixed = (key ^ (key >> np.uint64(31))) * np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    uniform = ((mixed ^ (mixed >> np.uint64(32))) >> np.uint64(11)).astype(np.float64)
    logarithm: Floats = np.log(-np.log((uniform + 0.5) * 2.0**-53))
    return logarithm
