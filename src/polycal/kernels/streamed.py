"""The tables of a stream in the place of ``PathTables``: sums of all rows, near modes of some."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .._utils.arrays import Array, Floats, Ints
from .._utils.saved import saved_number, saved_part
from ..core.reading import ActivationModes
from .path_tables import PathTables
from .stream_tables import StreamTables


@dataclass(frozen=True)
class StreamedTables:
    """Class sums of all rows of a stream; modes that are stored are found as neighbours.

    Rows that are added to the stream count in the sums at once.
    """

    own_axes: ClassVar[tuple[str, ...]] = ()

    sums: StreamTables = saved_part()
    near: PathTables = saved_part()
    # weight of a stored row in sums over near rows, in rows of the stream
    row_weight: float = saved_number(float, above=0.0, below=1e18)

    def look_up(
        self,
        modes: ActivationModes,
        n_classes: int,
        n_found: int,
        less: PathTables | None = None,
        exponents: Floats | None = None,
    ) -> tuple[Floats, Ints]:
        """As that of ``PathTables``; a stream leaves no labels out, and sums at every scale."""
        assert less is None
        near, hashes = self.near, self.sums.hashes(modes)
        found = np.empty((len(modes), 0), dtype=np.int64)
        if n_found:
            found = near.look_up(modes, n_classes, n_found, hashes=hashes)[1]
        return self.sums.look_up(modes, hashes), found

    def contradictions(self) -> Iterator[str]:
        """Inconsistencies in tables that were read from a file, as messages."""
        same = self.sums.n_groups == self.near.n_groups
        for name in ("draws", "salt", "scales"):
            same = same and np.array_equal(getattr(self.sums, name), getattr(self.near, name))
        if not same:
            yield "the tables of a stream go along other paths than those of its stored modes"

    def contradictions_with(self, modes: ActivationModes, n_classes: int) -> Iterator[str]:
        """Inconsistencies between consistent tables and the modes that they are of."""
        yield from self.near.contradictions_with(modes, n_classes)
        yield from self.sums.contradictions_with(modes)

    @property
    def draws(self) -> Array:
        """The sampled paths."""
        return self.sums.draws

    @property
    def scales(self) -> Ints:
        """Numbers of paths on which rows of one bucket agree."""
        return self.sums.scales

    @property
    def start(self) -> Ints:
        """First slot of each table of the stored modes."""
        return self.near.start

    @property
    def n_groups(self) -> int:
        """Numbers of a path."""
        return self.sums.n_groups

    @property
    def n_candidates(self) -> int:
        """Number of stored modes, all of which may be neighbours."""
        return self.near.n_candidates

    @property
    def left_out_bits(self) -> Array:
        """Bits of buckets that are left out of the sums."""
        return self.sums.left_out_bits

    @property
    def share_kept(self) -> Floats:
        """Share of the buckets that are kept at each scale."""
        return self.sums.share_kept

    @property
    def nbytes(self) -> int:
        """Memory of the tables."""
        return self.sums.nbytes + self.near.nbytes
