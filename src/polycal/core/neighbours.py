"""The polytopes nearest to each query."""

from __future__ import annotations

from dataclasses import dataclass

from .._utils.arrays import Floats, Ints


@dataclass(frozen=True)
class Neighbours:
    """The polytopes nearest to each query, nearest first; index -1 where there are fewer than k."""

    similarity: Floats  # (n_queries, k), K
    index: Ints  # (n_queries, k)
    class_sums: Floats | None = (
        None  # (n_exponents, n_queries, n_classes), if the search has counts
    )
    parts: tuple[Neighbours, ...] = ()  # those by each part of the trees, if the search has parts

    def take(self, index: Ints) -> Neighbours:
        """Those of the queries of these numbers."""
        return Neighbours(
            self.similarity[index],
            self.index[index],
            None if self.class_sums is None else self.class_sums[:, index],
            tuple(part.take(index) for part in self.parts),
        )
