"""What a kernel index can do, and the parts that need nothing but similarities."""

from __future__ import annotations

import math
import weakref
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._utils.blocks import map_blocks
from ..core.density import Density
from ..core.neighbours import Neighbours
from ..core.reading import ActivationModes


@dataclass(frozen=True)
class Execution:
    """How a pass may use the machine, and what it shows."""

    n_jobs: int | None = None
    verbose: int = 0
    device: str | None = None  # of the pairs of a network's modes, where not the CPU


@dataclass(frozen=True)
class Search:
    """What ``nearest`` looks for among the stored modes."""

    density: Density  # of the modes that may be neighbours: the first ones stored
    k: int
    fill: bool = True  # whether modes with K = 0 may fill up places
    counts: NDArray | None = None  # class counts, to bring their sums in the same look
    exponents: NDArray = field(default_factory=lambda: np.empty(0))

    @property
    def among(self) -> int:
        return len(self.density)


class KernelIndex(ABC):
    """Stored modes, arranged for fast comparison with query modes."""

    hidden_labels = False  # whether class sums leave out a network's output layer
    _block_bytes = math.inf  # of a block, where a small one is faster

    def __init__(self, modes: ActivationModes):
        self.modes = modes
        self._labels: tuple[weakref.ref[NDArray] | None, Any] = None, None

    def __getstate__(self) -> dict:
        return {**self.__dict__, "_labels": (None, None)}

    def _arrange(self) -> None:
        """Whatever has to be there before threads ask; called in each pass."""
        return

    def _labels_of(self, counts: NDArray) -> Any:
        """Class counts as a look wants them; kept, since all blocks of a pass have the same."""
        known, labels = self._labels
        if known is None or known() is not counts:
            labels = self._prepare(counts)
            # No hold on the counts: after a fit they are a copy that nobody else needs.
            self._labels = weakref.ref(counts), labels
        return labels

    @abstractmethod
    def _prepare(self, counts: NDArray) -> Any:
        """What ``_labels_of`` gives."""

    def _jobs(self, execution: Execution) -> int | None:
        """Threads for the blocks of one pass."""
        return execution.n_jobs

    @abstractmethod
    def _similarity_block(self, queries: ActivationModes) -> NDArray:
        """K for one block, shape (q, p)."""

    @abstractmethod
    def _look_block(
        self, queries: ActivationModes, X: NDArray, search: Search, execution: Execution
    ) -> Neighbours:
        """Nearest modes, and class sums if counts are given, of one block in one look."""

    def similarity(self, queries: ActivationModes, execution: Execution) -> NDArray:
        """K(x, s), shape (n_queries, n_stored)."""
        self._arrange()
        blocks = map_blocks(
            lambda rows: self._similarity_block(queries[rows]),
            len(queries),
            8 * len(self.modes),
            n_jobs=self._jobs(execution),
            block_bytes=self._block_bytes,
            verbose=execution.verbose,
            desc="similarity",
        )
        return np.concatenate(blocks)

    def nearest(
        self, queries: ActivationModes, X: NDArray, search: Search, execution: Execution
    ) -> Neighbours:
        """The k nearest stored modes, by the tie rule of the design.

        Without ``search.fill`` only stored modes with K > 0 count; places left over hold
        similarity 0 and index -1. With counts, the same look also brings ``class_sums``.
        """
        self._arrange()
        extra = 0.0
        if search.counts is not None:
            self._labels_of(search.counts)
            extra = self._class_sums_bytes(search.counts, search.exponents)
        blocks = map_blocks(
            lambda rows: self._look_block(queries[rows], X[rows], search, execution),
            len(queries),
            8 * len(self.modes) + 16 * search.k + extra,
            n_jobs=self._jobs(execution),
            block_bytes=self._block_bytes,
            verbose=execution.verbose,
            desc="nearest polytopes",
        )
        similarity = np.concatenate([near.similarity for near in blocks])
        index = np.concatenate([near.index for near in blocks])
        if search.counts is None:
            return Neighbours(similarity, index)
        return Neighbours(similarity, index, np.concatenate([near.sums for near in blocks], axis=1))

    def matmul(self, queries: ActivationModes, values: NDArray, execution: Execution) -> NDArray:
        """Sum over s of K(x, s) values[s], shape (n_queries, n_columns)."""
        blocks = map_blocks(
            lambda rows: self._similarity_block(queries[rows]) @ values,
            len(queries),
            8 * (len(self.modes) + values.shape[1]),
            n_jobs=self._jobs(execution),
            block_bytes=max(self._block_bytes, values.nbytes),  # each block reads all values
            verbose=execution.verbose,
            desc="bandwidth",
        )
        return np.concatenate(blocks)

    def class_sums(
        self,
        queries: ActivationModes,
        counts: NDArray,
        exponents: NDArray,
        execution: Execution,
    ) -> NDArray:
        """All exponents in one pass over the pairs.

        Returns sum over s of (K(x, s) / max K)^exponent counts[s], shape
        (n_exponents, n_queries, n_classes). Dividing by the maximum keeps large exponents
        from underflow; the maximum is over stored modes that have counts. A query with K = 0
        to all of those has zeros. With ``hidden_labels`` K is that of the hidden layers.
        """
        self._arrange()
        self._labels_of(counts)
        blocks = map_blocks(
            lambda rows: self._class_sums_block(queries[rows], counts, exponents),
            len(queries),
            self._class_sums_bytes(counts, exponents),
            n_jobs=self._jobs(execution),
            block_bytes=self._block_bytes,
            verbose=execution.verbose,
            desc="class ratios",
        )
        return np.concatenate(blocks, axis=1)

    @abstractmethod
    def _class_sums_bytes(self, counts: NDArray, exponents: NDArray) -> float:
        """Memory of one query in ``_class_sums_block``."""

    @abstractmethod
    def _class_sums_block(
        self, queries: ActivationModes, counts: NDArray, exponents: NDArray
    ) -> NDArray:
        """Class sums of one block."""
