"""What a parent computes for rows (activation modes, probabilities); rows with labels."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._utils.arrays import Array, Floats, Ints
from .._utils.saved import saved_array, saved_number, saved_value
from .._utils.sklearn_compat import take_rows

# Bits of a group are padded to a multiple of this many 64-bit words, so that the
# XOR loop can be unrolled. Padding is zero in every row and never counts as a mismatch.
WORD_STEP = 4
# A leaf id of one byte that no stored mode has.
NO_SMALL_LEAF = 255
# Products of group sizes beyond this are split, so that they do not overflow.
LARGE = 1e250


@dataclass(frozen=True)
class ActivationModes:
    """Activation modes: the leaf of each tree, or the active units of each layer, for each row.

    A mode is a row of symbols (leaf ids or bits), split into groups (all trees, or the layers).
    Rows with equal modes are in the same polytope.

    Attributes
    ----------
    codes : ndarray of shape (n_samples, n_columns)
        Either one symbol per column (leaf ids, one group), uint8 where all are below
        ``NO_SMALL_LEAF`` and int32 otherwise, or uint64 words of packed bits, each group padded to
        a multiple of ``WORD_STEP`` words.
    sizes : tuple of int
        Number of symbols in each group.
    packed : bool
        Whether ``codes`` holds packed bits.
    """

    codes: Array = saved_array("codes modes symbols")
    sizes: tuple[int, ...] = saved_value()
    packed: bool = saved_number(bool)

    @classmethod
    def from_leaves(cls, leaves: Array) -> ActivationModes:
        """One group of leaf ids, shape (n_samples, n_trees)."""
        codes = np.ascontiguousarray(leaves, dtype=leaf_type(leaves))
        return cls(codes, (codes.shape[1],), packed=False)

    @classmethod
    def from_bits(cls, layers: Sequence[Array]) -> ActivationModes:
        """One group of 0/1 activations for each layer, shape (n_samples, n_units) each."""
        words = []
        for bits in layers:
            n_samples, n_units = bits.shape
            padded = np.zeros((n_samples, 64 * WORD_STEP * _steps(n_units)), dtype=bool)
            padded[:, :n_units] = bits
            words.append(np.packbits(padded, axis=1, bitorder="little").view(np.uint64))
        codes = np.ascontiguousarray(np.concatenate(words, axis=1))
        return cls(codes, tuple(bits.shape[1] for bits in layers), packed=True)

    @classmethod
    def absent(cls, n_samples: int) -> ActivationModes:
        """Modes of a parent that has none; random hyperplanes stand in for them."""
        return cls(np.empty((n_samples, 0), dtype=np.uint64), (), packed=True)

    @property
    def are_absent(self) -> bool:
        """Whether the parent has no modes."""
        return not self.sizes

    def contradictions(self) -> Iterator[str]:
        """Inconsistencies in modes that were read from a file, as messages."""
        sizes = self.sizes
        if not isinstance(sizes, tuple) or not sizes:
            yield "modes have no groups"
        elif not all(type(size) is int and 0 < size < 2**31 for size in sizes):
            yield "a group of modes has no symbols"
        elif len(self) == 0 or self.codes.dtype != self._right_type:
            yield "modes are missing, or of another type"
        elif len(sizes) > 1 and not self.packed:
            yield "leaf ids are in more than one group"
        elif self.column_ranges[-1][1] != self.codes.shape[1]:
            yield "modes have another width than their groups"

    @property
    def _right_type(self) -> np.dtype[Any]:
        return np.dtype(np.uint64) if self.packed else leaf_type(self.codes)

    def coded_like(self, stored: ActivationModes) -> ActivationModes:
        """The same modes in the type of stored ones; an id beyond it is one that none of them has.

        So compiled loops see one type.
        """
        codes = self.codes
        if codes.dtype == stored.codes.dtype:
            return self
        if stored.codes.dtype == np.uint8:
            codes = np.minimum(codes, NO_SMALL_LEAF)
        return ActivationModes(codes.astype(stored.codes.dtype), self.sizes, self.packed)

    def narrowed(self) -> ActivationModes:
        """The same modes; leaf ids that were joined with larger ones get their own type again."""
        if self.packed or self.codes.dtype == self._right_type:
            return self
        return ActivationModes(self.codes.astype(self._right_type), self.sizes, self.packed)

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, rows: slice | Ints) -> ActivationModes:
        return ActivationModes(self.codes[rows], self.sizes, self.packed)

    @property
    def n_paths(self) -> float:
        """Number of activation paths: the product of the group sizes."""
        return math.prod(float(size) for size in self.sizes)

    @property
    def divisors(self) -> list[float]:
        """Divisor of the product of equal symbols after each group; their product is n_paths.

        There is normally one division, after the last group, so that equal numbers of equal
        symbols give equal K in any order of the groups. For a very deep network there are more,
        so that the product does not overflow.
        """
        parts, product = [], 1.0
        for size in self.sizes:
            product *= size
            parts.append(product if product > LARGE else 1.0)
            product = 1.0 if product > LARGE else product
        parts[-1] *= product
        return parts

    @property
    def column_ranges(self) -> list[tuple[int, int]]:
        """First and last-plus-one column of each group in ``codes``."""
        widths = [WORD_STEP * _steps(size) if self.packed else size for size in self.sizes]
        stops = np.cumsum(widths)
        return [(int(stop - width), int(stop)) for stop, width in zip(stops, widths, strict=True)]

    def groups(self) -> Iterator[Array]:
        """The symbols of each group, unpacked, shape (n_samples, size)."""
        for (start, stop), size in zip(self.column_ranges, self.sizes, strict=True):
            block = np.ascontiguousarray(self.codes[:, start:stop])
            if self.packed:
                block = np.unpackbits(block.view(np.uint8), axis=1, bitorder="little")
            yield block[:, :size]

    def distinct(self) -> tuple[ActivationModes, Ints]:
        """Distinct modes in a canonical order, and the number of the mode of each row.

        Rows are compared byte by byte, so the order depends on the distinct modes alone and not on
        the number or the order of the rows.
        """
        row = np.dtype((np.void, self.codes.dtype.itemsize * self.codes.shape[1]))
        keys = np.ascontiguousarray(self.codes).view(row).ravel()
        _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
        return self[first], inverse

    def append(self, other: ActivationModes) -> ActivationModes:
        """The rows of both, in order."""
        return ActivationModes(np.concatenate([self.codes, other.codes]), self.sizes, self.packed)


@dataclass(frozen=True)
class Reading:
    """What a fitted parent computes for some rows."""

    modes: ActivationModes
    proba: Floats  # (n_samples, n_classes), the parent's own
    features: Any  # input of the classifier (of a Pipeline's last step), which the density is over
    labels: Array | None = None  # when the input yields them
    energy: Floats | None = None  # of the logits, where features are directions of an embedding

    def __len__(self) -> int:
        return len(self.modes)

    def take(self, index: Ints) -> Reading:
        """The rows of these numbers."""
        labels = None if self.labels is None else self.labels[index]
        energy = None if self.energy is None else self.energy[index]
        features = take_rows(self.features, index)
        return Reading(self.modes[index], self.proba[index], features, labels, energy)


@dataclass(frozen=True)
class LabelledRows:
    """Rows for a fit, with labels and weights.

    ``reading`` is what the parent computes for them, if it was fitted before.
    """

    X: Any  # in the form that the parent takes
    y: Ints  # class codes
    weight: Floats
    ids: Ints  # numbers of the rows in the user's X
    groups: Array | None = None  # rows of one group stay on one side of each split
    reading: Reading | None = None

    def take(self, index: Ints) -> LabelledRows:
        """The rows of these numbers."""
        parts = self.y[index], self.weight[index], self.ids[index]
        groups = None if self.groups is None else self.groups[index]
        if self.reading is not None:
            return LabelledRows(None, *parts, groups, self.reading.take(index))
        return LabelledRows(take_rows(self.X, index), *parts, groups)

    def __len__(self) -> int:
        return len(self.y)


def leaf_type(leaves: Array) -> np.dtype[Any]:
    """Type of leaf ids: one byte where all of them are small, which boosted trees have."""
    small = leaves.size == 0 or (leaves.min() >= 0 and leaves.max() < NO_SMALL_LEAF)
    return np.dtype(np.uint8 if small else np.int32)


def _steps(n_bits: int) -> int:
    return -(-n_bits // (64 * WORD_STEP))
