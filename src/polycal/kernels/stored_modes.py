"""A bounded random choice of distinct modes, with what their rows add up to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from .._utils.arrays import Array, Bools, Floats, Ints
from .._utils.saved import saved_array, saved_number, saved_part, unsaved
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
    # hash of all symbols, ascending in the form that is saved
    key: Array = saved_array("uint64 modes", optional=True)
    priority: Floats = saved_array("float64 modes", optional=True)
    values: Floats = saved_array("float64 modes stored_values", sparse=True, optional=True)
    # numbers of the modes, ascending by their hash; None where the arrays are not ours to change
    order: Ints | None = unsaved("in the form that is saved they ascend", default=None)
    # codes, hashes, priorities and sums with room for more; those above are views of them
    room: tuple[Array, ...] = unsaved("made when rows are added", default=())

    def __len__(self) -> int:
        return 0 if self.modes is None else len(self.modes)

    def admits(self, key: Array, time: Floats | float = 0.0) -> Bools:
        """Which rows, of modes with these hashes, may change what is stored."""
        if len(self) < self.most:
            return np.ones(len(key), dtype=bool)
        admitted: Bools = (drawn(key) - time < self.priority.max()) | self._known(key)[1]
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
        """Add distinct modes. Once there are as many as may be, new ones take the place of old."""
        if self.modes is None:
            self.modes, self.key = modes[:0], key[:0]
            self.priority, self.values = priority[:0], sums[:0]
        if self.order is None:
            self._make_room(0)
        number, known = self._known(key)
        stored = number[known]
        self.values[stored] += sums[known]
        self.priority[stored] = np.minimum(self.priority[stored], priority[known])
        n, new = len(self), np.flatnonzero(~known)
        all_priorities = np.concatenate([self.priority, priority[new]])
        places = np.arange(n, len(all_priorities))
        if len(all_priorities) > self.most:
            kept = np.zeros(len(all_priorities), dtype=bool)
            kept[np.argpartition(all_priorities, self.most)[: self.most]] = True
            new = new[kept[n:]]
            places = np.concatenate([np.flatnonzero(~kept[:n]), np.arange(n, self.most)])
        if len(new):
            codes = modes.codes[new]
            self._make_room(int(places.max()) + 1, codes.dtype)
            for room, rows in zip(
                self.room, (codes, key[new], priority[new], sums[new]), strict=True
            ):
                room[places] = rows
            self.order = np.argsort(self.key, kind="stable")

    def _make_room(self, n: int, leaves: np.dtype[Any] | None = None) -> None:
        """Let at least n modes fit in, in memory of our own; the caller fills in new ones."""
        assert self.modes is not None
        now = len(self)
        parts: tuple[Array, ...] = (self.modes.codes, self.key, self.priority, self.values)
        capacity = len(self.room[0]) if self.room else 0
        wider = bool(self.room) and leaves is not None and not np.can_cast(leaves, parts[0].dtype)
        if n > capacity or not self.room or wider:
            capacity = max(n, now, min(2 * capacity, self.most))
            types = [part.dtype for part in parts]
            if leaves is not None:
                types[0] = np.promote_types(types[0], leaves)
            self.room = tuple(
                np.empty((capacity, *part.shape[1:]), dtype)
                for part, dtype in zip(parts, types, strict=True)
            )
            for room, part in zip(self.room, parts, strict=True):
                room[:now] = part
        codes, self.key, self.priority, self.values = (room[: max(n, now)] for room in self.room)
        self.modes = replace(self.modes, codes=codes)
        if self.order is None:
            self.order = np.argsort(self.key, kind="stable")

    def _known(self, key: Array) -> tuple[Ints, Bools]:
        """Number of the stored mode with each hash, and whether there is one."""
        order = np.argsort(self.key, kind="stable") if self.order is None else self.order
        if len(order) == 0:
            return np.zeros(len(key), np.int64), np.zeros(len(key), dtype=bool)
        place = np.searchsorted(self.key, key, sorter=order)
        number = order[np.minimum(place, len(order) - 1)]
        return number, self.key[number] == key

    def rescale(self, factor: float, n_weights: int) -> None:
        """Multiply all sums by a power of two, and forget modes whose rows have faded.

        The first ``n_weights`` sums are the weights of rows.
        """
        if self.modes is None:
            return
        values = self.values * factor
        weight = values[:, :n_weights].sum(axis=1)
        kept = np.flatnonzero(weight > FADED * weight.max(initial=0.0))
        self.modes, self.key = self.modes[kept], self.key[kept]
        self.priority, self.values = self.priority[kept], values[kept]
        self.order, self.room = None, ()

    def copy(self) -> Self:
        """The same modes; rows that are added to one do not change the other."""
        return replace(self) if self.modes is None else self._taken(np.arange(len(self)))

    def ascending(self) -> Self:
        """The same modes in memory of their own, ascending by their hash."""
        return self if self.modes is None else self._taken(np.argsort(self.key, kind="stable"))

    def _taken(self, rows: Ints) -> Self:
        assert self.modes is not None
        found = type(self)(self.most, self.modes[rows], self.key[rows])
        found.priority, found.values = self.priority[rows], self.values[rows]
        return found

    def to_save(self) -> Self:
        """The form that is saved, with leaf ids in their smallest type."""
        found = self.ascending()
        return found if found.modes is None else replace(found, modes=found.modes.narrowed())

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
