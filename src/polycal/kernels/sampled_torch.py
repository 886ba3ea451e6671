"""The index by sampled paths on a torch device: the same tables, and the same answers."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._utils.arrays import Floats, Ints
from ..core.execution import Execution
from ..core.reading import ActivationModes
from . import torch_buckets as buckets
from .base import Search
from .path_tables import PathTables, Sampling, without
from .sampled import SampledIndex
from .torch import is_available

# Bytes of the device that the exact K of a block of queries takes, in copies of the near rows.
BLOCK_BYTES, ROW_COPIES = 2.0**30, 4.0
# Numbers for each table and query in a look-up.
LOOK_UP_COPIES = 12.0


class TorchSampledIndex(SampledIndex):
    """A ``SampledIndex`` that builds its tables and looks them up on a torch device.

    The tables are kept in main memory too, as those of a ``SampledIndex``: they are what a file
    holds. Unpickling uses the CPU if the device is missing.
    """

    def __init__(
        self,
        modes: ActivationModes,
        counts: Floats,
        n_candidates: int,
        sampling: Sampling,
        hidden_labels: bool = False,
        tables: PathTables | None = None,
        device: str = "cuda",
    ):
        super().__init__(modes, counts, n_candidates, sampling, hidden_labels, tables)
        self.device = device
        self._stored: Any = None
        self._copies: list[tuple[PathTables, tuple[Any, Any, Any]]] = []

    def __reduce__(self) -> tuple[Any, ...]:
        stored = (self.modes, self._counts, self.n_candidates, self.sampling, self.hidden_labels)
        return build_sampled_index, (*stored, self._tables, self.device)

    def forget_tables(self) -> None:
        """Give the memory of the tables back, here and on the device."""
        super().forget_tables()
        self._stored, self._copies = None, []

    def _n_jobs(self, execution: Execution) -> int | None:
        return 1  # one block is enough work for the device

    def _copy(self, tables: PathTables) -> tuple[Any, Any, Any]:
        """Tables on the device, with the label and the weight of their modes."""
        for known, copy in self._copies:
            if known is tables:
                return copy
        label, weight = (buckets.on_device(a, self.device) for a in (tables.label, tables.weight))
        copy = (buckets.DeviceTables.of(tables.arrays, self.device), label, weight)
        self._copies = [*self._copies[-1:], (tables, copy)]  # and those to be subtracted
        return copy

    def _look_up(
        self,
        queries: ActivationModes,
        n_classes: int,
        n_found: int,
        less: PathTables | None,
        exponents: Floats,
    ) -> tuple[Floats, Ints]:
        tables = self.tables
        assert isinstance(tables, PathTables)  # those of a stream are on the CPU
        symbols = buckets.on_device(queries.codes.T, self.device)
        draws, salt = (buckets.on_device(a, self.device) for a in (tables.draws, tables.salt))
        steps = tables.scales * tables.n_groups
        hashes = buckets.path_hashes(symbols, queries.packed, draws, salt, steps)
        sums, met = buckets.look_up(hashes, *self._copy(tables), n_classes)
        found = np.empty((len(queries), 0), dtype=np.int64)
        if n_found:
            near = buckets.most_met(met, tables.scales, tables.n_candidates, n_found)
            found = near.cpu().numpy()
        left: Floats = sums.cpu().numpy()
        if less is not None:
            gone, _ = buckets.look_up(hashes, *self._copy(less), n_classes)
            left = without(left, gone.cpu().numpy())
        return tables.complete(left), found

    def _similarity(
        self, queries: ActivationModes, ids: Ints, n_groups: int | None = None
    ) -> Floats:
        stored, K = self.modes, np.empty(ids.shape)
        if K.size == 0:
            return K
        if self._stored is None:
            self._stored = buckets.on_device(stored.codes, self.device)
        codes, near = (buckets.on_device(a, self.device) for a in (queries.codes, ids))
        step = max(1, int(BLOCK_BYTES / (ROW_COPIES * ids.shape[1] * stored.codes[0].nbytes)))
        for first in range(0, len(ids), step):
            rows = slice(first, first + step)
            K[rows] = self._shares(codes[rows], near[rows], n_groups).cpu().numpy()
        return K

    def _shares(self, codes: Any, ids: Any, n_groups: int | None) -> Any:
        stored = self.modes
        if not stored.packed:
            return buckets.shared_leaves(codes, self._stored, ids)
        words = zip(stored.column_ranges, stored.sizes, stored.divisors, strict=True)
        layers = [(*between, size, divisor) for between, size, divisor in words][:n_groups]
        return buckets.shared_units(codes, self._stored, ids, layers)

    def _nearest_bytes(self, search: Search) -> float:
        return super()._nearest_bytes(search) + self._look_up_bytes(self._counts.shape[1])

    def _class_sums_bytes(self, counts: Floats, exponents: Floats) -> float:
        return super()._class_sums_bytes(counts, exponents) + self._look_up_bytes(counts.shape[1])

    def _look_up_bytes(self, n_classes: int) -> float:
        """Memory of the device for one query."""
        return 8.0 * len(self.tables.start) * (LOOK_UP_COPIES + n_classes)


def build_sampled_index(
    modes: ActivationModes,
    counts: Floats,
    n_candidates: int,
    sampling: Sampling,
    hidden_labels: bool = False,
    tables: PathTables | None = None,
    device: str | None = None,
) -> SampledIndex:
    """The index by sampled paths on a torch device, or on the CPU if this machine lacks it."""
    stored = (modes, counts, n_candidates, sampling, hidden_labels, tables)
    if device is None or not is_available(device):
        return SampledIndex(*stored)
    return TorchSampledIndex(*stored, device)
