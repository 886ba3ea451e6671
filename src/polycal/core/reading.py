"""Rows as a parent reads them: activation modes, probabilities and features."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing

# Far above the rounding of a sum of weights, far below the share of any row.
ROUNDING = 1e-9
# Bits of a group are padded to whole steps of this many 64-bit words, so that the
# XOR loop can be unrolled. Padding is zero in every row and never counts as a mismatch.
WORD_STEP = 4
# Numbers of activation paths beyond this are not multiplied up.
LARGE = 1e250


@dataclass(frozen=True)
class ActivationModes:
    """Rows of symbols, split into groups (section 1 of the design).

    Attributes
    ----------
    codes : ndarray of shape (n_samples, n_columns)
        Either one int32 symbol per column (leaf ids, one group) or uint64 words of
        packed bits, each group padded to a multiple of ``WORD_STEP`` words.
    sizes : tuple of int
        Number of symbols in each group.
    packed : bool
        Whether ``codes`` holds packed bits.
    """

    codes: NDArray
    sizes: tuple[int, ...]
    packed: bool

    @classmethod
    def from_leaves(cls, leaves: NDArray) -> ActivationModes:
        """One group of leaf ids, shape (n_samples, n_trees)."""
        codes = np.ascontiguousarray(leaves, dtype=np.int32)
        return cls(codes, (codes.shape[1],), packed=False)

    @classmethod
    def from_bits(cls, layers: Sequence[NDArray]) -> ActivationModes:
        """One group of 0/1 activations for each layer, shape (n_samples, n_units) each."""
        words = []
        for bits in layers:
            n_samples, n_units = bits.shape
            padded = np.zeros((n_samples, 64 * WORD_STEP * _steps(n_units)), dtype=bool)
            padded[:, :n_units] = bits
            words.append(np.packbits(padded, axis=1, bitorder="little").view(np.uint64))
        codes = np.ascontiguousarray(np.concatenate(words, axis=1))
        return cls(codes, tuple(bits.shape[1] for bits in layers), packed=True)

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, rows: slice | NDArray) -> ActivationModes:
        return ActivationModes(self.codes[rows], self.sizes, self.packed)

    @property
    def n_paths(self) -> float:
        """Number of activation paths: the product of the group sizes."""
        return math.prod(float(size) for size in self.sizes)

    @property
    def divisors(self) -> list[float]:
        """What the product of equal symbols is divided by after each group; together n_paths.

        In one division at the end, so that equal numbers of equal symbols give equal K in
        whatever order they come; a very deep network is divided on the way, before its product
        overflows.
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

    def groups(self) -> Iterator[NDArray]:
        """The symbols of each group, unpacked, shape (n_samples, size)."""
        for (start, stop), size in zip(self.column_ranges, self.sizes, strict=True):
            block = np.ascontiguousarray(self.codes[:, start:stop])
            if self.packed:
                block = np.unpackbits(block.view(np.uint8), axis=1, bitorder="little")
            yield block[:, :size]

    def distinct(self) -> tuple[ActivationModes, NDArray]:
        """Distinct rows in a canonical order, and the distinct row of each row.

        Rows are compared as integers, byte by byte, so the order depends on the
        rows alone and not on how often or in what order they came.
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
    """Rows as a fitted parent reads them."""

    modes: ActivationModes
    proba: NDArray  # (n_samples, n_classes), the parent's own
    features: Any  # table of the rows as the classifier itself sees them; the density is over these
    labels: NDArray | None = None  # when the input brought them along
    energy: NDArray | None = None  # of the logits, where features are directions of an embedding

    def __len__(self) -> int:
        return len(self.modes)

    def take(self, index: NDArray) -> Reading:
        labels = None if self.labels is None else self.labels[index]
        energy = None if self.energy is None else self.energy[index]
        features = _safe_indexing(self.features, index)
        return Reading(self.modes[index], self.proba[index], features, labels, energy)


def _steps(n_bits: int) -> int:
    return -(-n_bits // (64 * WORD_STEP))
