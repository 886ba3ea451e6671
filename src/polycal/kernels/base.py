"""The base class of the kernel indices, and the choice of the index for some modes.

The base class splits the queries into blocks; a subclass computes one block.
"""

from __future__ import annotations

import math
import weakref
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

import numpy as np

from .._utils.arrays import Floats
from .._utils.blocks import map_blocks
from ..core.density import Density
from ..core.execution import Execution
from ..core.neighbours import Neighbours
from ..core.reading import ActivationModes


@dataclass(frozen=True)
class Search:
    """Parameters of a search for the nearest stored modes."""

    density: Density  # of the modes that may be neighbours: the first ones stored
    k: int
    fill: bool = True  # whether modes with K = 0 count where fewer than k have K > 0
    counts: Floats | None = None  # class counts of the modes, if class sums are needed too
    exponents: Floats = field(default_factory=lambda: np.empty(0))
    # with more than 1, also the nearest by each part of the trees; tree t is in part t % n_parts
    n_parts: int = 1

    @property
    def n_candidates(self) -> int:
        """Number of stored modes that may be neighbours."""
        return len(self.density)


class KernelIndex(ABC):
    """Stored modes, arranged for fast comparison with query modes."""

    hidden_labels = False  # whether class sums leave out a network's output layer
    _block_bytes = math.inf  # largest size of a block; small blocks stay in the cache

    def __init__(self, modes: ActivationModes):
        self.modes = modes
        self._kept_counts: tuple[weakref.ref[Floats] | None, Any] = None, None
        self._building = Lock()

    def __getstate__(self) -> dict[str, Any]:
        state = {**self.__dict__, "_kept_counts": (None, None)}
        del state["_building"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._building = Lock()

    def _prepare(self, execution: Execution) -> None:
        """Build what the threads share, before they start.

        The lock is for threads of the user: the first of them builds, and the others wait.
        """
        with self._building:
            self._build(execution)

    def _build(self, execution: Execution) -> None:
        """Build what is made at the first query; nothing if it is there already."""
        return

    def _prepared_counts(self, counts: Floats) -> Any:
        """``_prepare_counts``, cached, since all blocks of a pass have the same counts."""
        known, prepared = self._kept_counts
        if known is None or known() is not counts:
            prepared = self._prepare_counts(counts)
            # A weak reference, so that the cache does not keep the counts of a fit alive.
            self._kept_counts = weakref.ref(counts), prepared
        return prepared

    @abstractmethod
    def _prepare_counts(self, counts: Floats) -> Any:
        """Class counts in the form in which this index sums them."""

    def _n_jobs(self, execution: Execution) -> int | None:
        """Threads for the blocks of one pass."""
        return execution.n_jobs

    @abstractmethod
    def _similarity_block(self, queries: ActivationModes) -> Floats:
        """K for one block, shape (q, p)."""

    @abstractmethod
    def _nearest_block(
        self, queries: ActivationModes, X: Floats, search: Search, execution: Execution
    ) -> Neighbours:
        """Nearest modes of one block, and class sums if counts are given, in one pass."""

    def similarity(self, queries: ActivationModes, execution: Execution) -> Floats:
        """K(x, s), shape (n_queries, n_stored)."""
        self._prepare(execution)
        queries = queries.coded_like(self.modes)
        blocks = map_blocks(
            lambda rows: self._similarity_block(queries[rows]),
            len(queries),
            8 * len(self.modes),
            n_jobs=self._n_jobs(execution),
            block_bytes=self._block_bytes,
            verbose=execution.verbose,
            desc="similarity",
        )
        return np.concatenate(blocks)

    def nearest(
        self, queries: ActivationModes, X: Floats, search: Search, execution: Execution
    ) -> Neighbours:
        """The k nearest stored modes: highest K, then highest log density, then lowest index.

        Without ``search.fill`` only stored modes with K > 0 count; where there are fewer than k,
        the rest has similarity 0 and index -1. With counts, ``class_sums`` are filled in too; with
        parts of the trees, ``parts``: the k nearest by the trees of each part alone.
        """
        self._prepare(execution)
        queries = queries.coded_like(self.modes)
        extra = 0.0
        if search.counts is not None:
            self._prepared_counts(search.counts)
            extra = self._class_sums_bytes(search.counts, search.exponents)
        blocks = map_blocks(
            lambda rows: self._nearest_block(queries[rows], X[rows], search, execution),
            len(queries),
            self._nearest_bytes(search) + 16 * search.k * (1 + search.n_parts) + extra,
            n_jobs=self._n_jobs(execution),
            block_bytes=self._block_bytes,
            verbose=execution.verbose,
            desc="nearest polytopes",
        )
        return _concatenate(blocks)

    def matmul(self, queries: ActivationModes, values: Floats, execution: Execution) -> Floats:
        """Sum over s of K(x, s) values[s], shape (n_queries, n_columns)."""
        queries = queries.coded_like(self.modes)
        blocks = map_blocks(
            lambda rows: self._similarity_block(queries[rows]) @ values,
            len(queries),
            8 * (len(self.modes) + values.shape[1]),
            n_jobs=self._n_jobs(execution),
            block_bytes=max(self._block_bytes, values.nbytes),  # each block reads all values
            verbose=execution.verbose,
            desc="bandwidth",
        )
        return np.concatenate(blocks)

    def class_sums(
        self,
        queries: ActivationModes,
        counts: Floats,
        exponents: Floats,
        execution: Execution,
    ) -> Floats:
        """Class sums for all exponents, in one pass over the pairs.

        They are the sum over s of (K(x, s) / max K)^exponent counts[s], shape
        (n_exponents, n_queries, n_classes). Dividing by the maximum keeps large exponents
        from underflow; the maximum is over stored modes that have counts. The sums of a query with
        K = 0 to all of those are 0. With ``hidden_labels`` K is that of the hidden layers.
        """
        self._prepare(execution)
        queries = queries.coded_like(self.modes)
        self._prepared_counts(counts)
        blocks = map_blocks(
            lambda rows: self._class_sums_block(queries[rows], counts, exponents),
            len(queries),
            self._class_sums_bytes(counts, exponents),
            n_jobs=self._n_jobs(execution),
            block_bytes=self._block_bytes,
            verbose=execution.verbose,
            desc="class ratios",
        )
        return np.concatenate(blocks, axis=1)

    def _nearest_bytes(self, search: Search) -> float:
        """Memory of one query in ``_nearest_block``, without its result and its class sums."""
        return 8.0 * len(self.modes)

    @abstractmethod
    def _class_sums_bytes(self, counts: Floats, exponents: Floats) -> float:
        """Memory of one query in ``_class_sums_block``."""

    @abstractmethod
    def _class_sums_block(
        self, queries: ActivationModes, counts: Floats, exponents: Floats
    ) -> Floats:
        """Class sums of one block."""


def _concatenate(blocks: Sequence[Neighbours]) -> Neighbours:
    """The neighbours of all blocks, in order."""
    sums = [block.class_sums for block in blocks if block.class_sums is not None]
    return Neighbours(
        np.concatenate([block.similarity for block in blocks]),
        np.concatenate([block.index for block in blocks]),
        np.concatenate(sums, axis=1) if sums else None,
        tuple(map(_concatenate, zip(*(block.parts for block in blocks), strict=True))),
    )


def build_index(
    modes: ActivationModes, device: str | None = None, hidden_labels: bool = False
) -> KernelIndex:
    """The index for these modes: for packed bits (on the CPU or a torch device) or for leaves.

    If this machine lacks the CUDA device, the CPU is used. With ``hidden_labels`` a network's
    class sums leave out its output layer.
    """
    # The classes import this module.
    from .forest import ForestIndex
    from .network import NetworkIndex
    from .torch import TorchIndex, is_available

    if not modes.packed:
        return ForestIndex(modes)
    if device is None or not is_available(device):
        return NetworkIndex(modes, hidden_labels)
    return TorchIndex(modes, device, hidden_labels)
