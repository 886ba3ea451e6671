"""The polytopes nearest to each query."""

from __future__ import annotations

from dataclasses import dataclass

from numpy.typing import NDArray


@dataclass(frozen=True)
class Neighbours:
    """The polytopes nearest to each query, best first; index -1 where there are no more."""

    similarity: NDArray  # (n_queries, k)
    index: NDArray  # (n_queries, k)
    sums: NDArray | None = None  # class sums, when the same look brought them
