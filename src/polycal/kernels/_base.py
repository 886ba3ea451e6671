"""What a kernel index can do, and the parts that need nothing but similarities."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .._blocks import map_blocks
from .._gaussian import Gaussians
from .._types import ActivationModes, Near


@dataclass(frozen=True)
class Effort:
    """How a pass may use the machine, and what it shows."""

    n_jobs: int | None = None
    verbose: int = 0


@dataclass(frozen=True)
class HeldOut:
    """Label and weight that each query itself put into the stored counts, to be left out."""

    label: NDArray  # (n_queries,)
    weight: NDArray  # (n_queries,)

    def __getitem__(self, rows: slice) -> HeldOut:
        return HeldOut(self.label[rows], self.weight[rows])


class KernelIndex(ABC):
    """Stored modes, arranged for fast comparison with query modes."""

    def __init__(self, modes: ActivationModes):
        self.modes = modes

    @abstractmethod
    def _similarity_block(self, queries: ActivationModes) -> NDArray:
        """K for one block, shape (q, p)."""

    @abstractmethod
    def _nearest_block(
        self, queries: ActivationModes, X: NDArray, g: Gaussians, k: int, fill: bool
    ) -> tuple[NDArray, NDArray]:
        """Similarity and index of the k nearest for one block."""

    def similarity(self, queries: ActivationModes, effort: Effort) -> NDArray:
        """K(x, s), shape (n_queries, n_stored)."""
        blocks = map_blocks(
            lambda rows: self._similarity_block(queries[rows]),
            len(queries),
            8 * len(self.modes),
            n_jobs=effort.n_jobs,
            verbose=effort.verbose,
            desc="similarity",
        )
        return np.concatenate(blocks)

    def nearest(
        self,
        queries: ActivationModes,
        X: NDArray,
        gaussians: Gaussians,
        k: int,
        effort: Effort,
        *,
        fill: bool = True,
    ) -> Near:
        """Similarity and index of the k nearest stored modes, by the tie rule.

        With ``fill=False`` only stored modes with K > 0 count; places left over hold
        similarity 0 and index -1.
        """
        blocks = map_blocks(
            lambda rows: self._nearest_block(queries[rows], X[rows], gaussians, k, fill),
            len(queries),
            8 * len(self.modes) + 16 * k,
            n_jobs=effort.n_jobs,
            verbose=effort.verbose,
            desc="nearest polytopes",
        )
        similarity, index = zip(*blocks, strict=True)
        return Near(np.concatenate(similarity), np.concatenate(index))

    def matmul(self, queries: ActivationModes, values: NDArray, effort: Effort) -> NDArray:
        """Sum over s of K(x, s) values[s], shape (n_queries, n_columns)."""
        blocks = map_blocks(
            lambda rows: self._similarity_block(queries[rows]) @ values,
            len(queries),
            8 * (len(self.modes) + values.shape[1]),
            n_jobs=effort.n_jobs,
            verbose=effort.verbose,
            desc="bandwidth",
        )
        return np.concatenate(blocks)

    def class_sums(
        self,
        queries: ActivationModes,
        counts: NDArray,
        exponents: NDArray,
        effort: Effort,
        *,
        held_out: HeldOut | None = None,
    ) -> tuple[NDArray, NDArray]:
        """All exponents in one pass over the pairs.

        Returns the highest log K of each query, shape (n_queries,), and
        sum over s of (K(x, s) / max K)^exponent counts[s], shape
        (n_exponents, n_queries, n_classes). Dividing by the maximum keeps large
        exponents from underflow; for queries that are stored, max K is 1.
        A query that shares no symbol with any stored mode has -inf and zeros.
        """

        def block(rows: slice) -> tuple[NDArray, NDArray]:
            own = None if held_out is None else held_out[rows]
            return self._class_sums_block(queries[rows], counts, exponents, own)

        blocks = map_blocks(
            block,
            len(queries),
            self._class_sums_bytes(counts, exponents),
            n_jobs=effort.n_jobs,
            verbose=effort.verbose,
            desc="class ratios",
        )
        log_top, sums = zip(*blocks, strict=True)
        return np.concatenate(log_top), np.concatenate(sums, axis=1)

    def _class_sums_bytes(self, counts: NDArray, exponents: NDArray) -> float:
        return 8.0 * (3 * len(self.modes) + len(exponents) * counts.shape[1])

    def _class_sums_block(
        self,
        queries: ActivationModes,
        counts: NDArray,
        exponents: NDArray,
        held_out: HeldOut | None,
    ) -> tuple[NDArray, NDArray]:
        K = self._similarity_block(queries)
        with np.errstate(divide="ignore"):
            log_K = np.log(K)
        rows = np.arange(len(K))
        own_weight = np.zeros(len(K))
        if held_out is not None:
            # K = 1 only for the stored mode that equals the query: its own polytope.
            own = K.argmax(axis=1)
            rest = counts[own].sum(axis=1) - held_out.weight
            alone = rest <= ROUNDING * held_out.weight
            log_K[rows[alone], own[alone]] = -np.inf
            own_weight = np.where(alone, 0.0, held_out.weight)
        log_top = log_K.max(axis=1)
        log_K -= np.where(np.isfinite(log_top), log_top, 0.0)[:, None]
        sums = np.stack([np.exp(e * log_K) @ counts for e in exponents])
        if held_out is not None:
            sums[:, rows, held_out.label] -= own_weight
        return log_top, sums


# A polytope's count minus its only row leaves rounding of this relative size, not a row.
ROUNDING = 1e-9
