"""The tables of a stream in the place of ``PathTables``: sums of all rows, near modes of some."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from .._utils.arrays import Array, Floats, Ints
from .._utils.blocks import map_blocks
from .._utils.saved import saved_number, saved_part
from ..core.execution import Execution
from ..core.reading import ActivationModes
from .path_tables import PathTables, path_hashes
from .stream_tables import StreamTables

# Stored modes are found at the coarsest scale, a power of two, with at least this many buckets for
# each, so that few modes stand back behind the one of their bucket and most queries meet some; and
# at scales that are coarser by this factor, where rows far from all others meet some too.
FOUND_AT, COARSER = 0.2, 4
# Sequences that buckets are counted in.
COUNTED_SEQUENCES = 2


@dataclass(frozen=True)
class StreamedTables:
    """Class sums of all rows of a stream; modes that are stored are found as neighbours.

    Rows that are added to the stream count in the sums at once. Stored modes have tables of their
    own, along the same paths but at other scales, and without class sums.
    """

    own_axes: ClassVar[tuple[str, ...]] = ()

    sums: StreamTables = saved_part()
    near: PathTables = saved_part()
    # weight of a stored row in sums over near rows, in rows of the stream
    row_weight: float = saved_number(float, above=0.0, below=1e18)

    @classmethod
    def of(
        cls,
        sums: StreamTables,
        modes: ActivationModes,
        memory: float,
        row_weight: float,
        execution: Execution,
    ) -> StreamedTables:
        """Tables that find these modes, in so many bytes, beside the class sums of all rows."""
        scales = scales_to_find(modes, sums, execution)
        draws = sums.draws[:, : scales[-1] * sums.n_groups]
        no_classes = np.zeros((len(modes), 0))
        near = PathTables.along(draws, sums.salt, scales, sums.n_groups)
        execution = replace(execution, device=None)  # whose buckets all have classes
        near = near.within(memory, modes, no_classes, execution)
        return cls(sums, near.of(modes, no_classes, len(modes), execution), row_weight)

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
        near, sums = self.near, self.sums
        scales = np.union1d(sums.scales, near.scales)
        hashes = np.empty((len(sums.draws), len(scales), len(modes)), np.uint64)
        path_hashes(modes, sums.draws, sums.salt, scales * sums.n_groups, hashes)
        found = np.empty((len(modes), 0), dtype=np.int64)
        if n_found:
            some = hashes[:, np.isin(scales, near.scales)]
            found = near.look_up(modes, 0, n_found, exponents=np.empty(0), hashes=some)[1]
        return sums.look_up(modes, hashes[:, np.isin(scales, sums.scales)]), found

    def contradictions(self) -> Iterator[str]:
        """Inconsistencies in tables that were read from a file, as messages."""
        sums, near = self.sums, self.near
        same = sums.n_groups == near.n_groups and np.array_equal(sums.salt, near.salt)
        if not same or not np.array_equal(sums.draws[:, : near.draws.shape[1]], near.draws):
            yield "the tables of a stream go along other paths than those of its stored modes"

    def contradictions_with(self, modes: ActivationModes, n_classes: int) -> Iterator[str]:
        """Inconsistencies between consistent tables and the modes that they are of."""
        yield from self.near.contradictions_with(modes, 0)
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


def scales_to_find(modes: ActivationModes, sums: StreamTables, execution: Execution) -> Ints:
    """The scales at which stored modes are found, ascending."""
    most = int(sums.scales[-1])
    scales = 2 ** np.arange(most.bit_length())
    hashes = np.empty((COUNTED_SEQUENCES, len(scales), len(modes)), np.uint64)

    def fill(some: slice) -> None:
        paths = sums.draws[:COUNTED_SEQUENCES], sums.salt[:COUNTED_SEQUENCES]
        path_hashes(modes[some], *paths, scales * sums.n_groups, hashes[:, :, some])

    map_blocks(fill, len(modes), 8.0 * hashes[:, :, 0].size, n_jobs=execution.n_jobs)
    finest = scales[-1]
    for e, scale in enumerate(scales):
        if np.mean([len(np.unique(h)) for h in hashes[:, e]]) >= FOUND_AT * len(modes):
            finest = scale
            break
    found: Ints = finest // COARSER ** np.arange(len(scales))
    return np.unique(found[found > 0])
