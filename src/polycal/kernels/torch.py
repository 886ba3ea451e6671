"""The index for packed bits on a GPU: with entries +-1, each layer is one matrix product.

The product of two rows of +-1 is (equal - different) bits, a small integer, so it is exact in
float32 (and in TF32, if the user has enabled it) in any order of addition. Layers are multiplied
in float64, as on the CPU, so similarities, ties and neighbours are equal to the last bit.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .._utils.arrays import Array, Floats
from .._utils.blocks import map_blocks
from .._utils.compiled import njit
from .._utils.optional import optional
from ..core.execution import Execution
from ..core.neighbours import Neighbours
from ..core.reading import ActivationModes
from .base import Search, build_index
from .network import ALL, HIDDEN, OUTPUT, NetworkIndex
from .select import select_row


class TorchIndex(NetworkIndex):
    """A ``NetworkIndex`` that compares the modes on a torch device.

    Unpickling calls ``build_index``, which uses the CPU if the device is missing.
    """

    _block_bytes = math.inf

    def __init__(self, modes: ActivationModes, device: str, hidden_labels: bool = False):
        super().__init__(modes, hidden_labels)
        self.device = device
        self._layers: list[Any] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return build_index, (self.modes, self.device, self.hidden_labels)

    def _n_jobs(self, execution: Execution) -> int | None:
        return 1  # one block is enough work for the device

    def _put(self, values: Array) -> Any:
        return optional("torch", "torch").as_tensor(values, device=self.device)

    def _signs(self, modes: ActivationModes) -> list[Any]:
        """Bits of each layer as -1 and 1, float32."""
        return [self._put(bits).float().mul_(2).sub_(1) for bits in modes.groups()]

    def _equal_bits(self, signs: list[Any], layers: slice) -> Any:
        """Product of the numbers of equal bits in these layers, a tensor of shape (q, p)."""
        torch = optional("torch", "torch")
        if self._layers is None:
            self._layers = self._signs(self.modes)
        parts = self.modes.sizes, self._divisors, signs, self._layers
        product = None
        with torch.no_grad():
            for size, divisor, left, right in zip(*(part[layers] for part in parts), strict=True):
                equal = (left @ right.T).add_(size).mul_(0.5)
                product = equal.double() if product is None else product.mul_(equal)
                if divisor != 1.0:
                    product.div_(divisor)
        assert product is not None
        return product

    def _pairs(self, queries: ActivationModes) -> Any:
        """K of one block as a tensor, shape (q, p)."""
        return self._equal_bits(self._signs(queries), ALL).div_(self._last_divisor)

    def _similarity_block(self, queries: ActivationModes) -> Floats:
        K: Floats = self._pairs(queries).cpu().numpy()
        return K

    def matmul(self, queries: ActivationModes, values: Floats, execution: Execution) -> Floats:
        right = self._put(np.asarray(values, dtype=float))
        sums = np.empty((len(queries), values.shape[1]))  # allocated once: it may be a gigabyte

        def fill(rows: slice) -> None:
            self._put_back(self._pairs(queries[rows]) @ right, sums[rows])

        map_blocks(
            fill,
            len(queries),
            8 * (2 * len(self.modes) + values.shape[1]),
            verbose=execution.verbose,
            desc="bandwidth",
        )
        return sums

    @staticmethod
    def _put_back(result: Any, out: Floats) -> None:
        optional("torch", "torch").from_numpy(out).copy_(result)

    def _nearest_block(
        self, queries: ActivationModes, X: Floats, search: Search, execution: Execution
    ) -> Neighbours:
        signs = self._signs(queries)
        if self.hidden_labels and search.counts is not None:
            label_similarity = self._equal_bits(signs, HIDDEN)
            K = self._equal_bits(signs, OUTPUT).mul_(label_similarity).div_(self._last_divisor)
        else:
            label_similarity = K = self._equal_bits(signs, ALL).div_(self._last_divisor)
        # Only modes with at least the k-th highest similarity are copied from the device. Ties are
        # broken on the CPU, with threads.
        candidates = K[:, : search.n_candidates]
        kth = candidates.topk(search.k, dim=1).values[:, -1:]
        row, mode = (candidates >= kth).nonzero(as_tuple=True)
        similarity, mode = candidates[row, mode].cpu().numpy(), mode.cpu().numpy()
        start = np.searchsorted(row.cpu().numpy(), np.arange(len(queries) + 1))
        sim = np.empty((len(queries), search.k))
        ids = np.empty((len(queries), search.k), dtype=np.int64)

        def select(rows: slice) -> None:
            first, out = start[rows.start : rows.stop + 1], (sim[rows], ids[rows])
            density = search.density.arrays
            _select_candidates(first, similarity, mode, search.fill, X[rows], density, *out)

        map_blocks(select, len(queries), 16 * search.k, n_jobs=execution.n_jobs)
        if search.counts is None:
            return Neighbours(sim, ids)
        class_sums = self._power_sums(label_similarity, search.counts, search.exponents)
        return Neighbours(sim, ids, class_sums)

    def _prepare_counts(self, counts: Floats) -> Any:
        return self._put(counts)

    def _class_sums_bytes(self, counts: Floats, exponents: Floats) -> float:
        return super()._class_sums_bytes(counts, exponents) + 16.0 * len(self.modes)

    def _class_sums_block(
        self, queries: ActivationModes, counts: Floats, exponents: Floats
    ) -> Floats:
        if self.hidden_labels:
            hidden = self._equal_bits(self._signs(queries), HIDDEN)
            return self._power_sums(hidden, counts, exponents)
        return self._power_sums(self._pairs(queries), counts, exponents)

    def _power_sums(self, K: Any, counts: Floats, exponents: Floats) -> Floats:
        """sum_s (K / max K)^exponent counts[s] for each exponent; K is overwritten."""
        torch = optional("torch", "torch")
        right = self._prepared_counts(counts)
        log_K = K.log_()
        log_K[:, right.sum(dim=1) == 0] = -torch.inf
        log_top = log_K.amax(dim=1, keepdim=True)
        log_K -= torch.where(log_top.isfinite(), log_top, 0.0)
        sums, power, last = [], log_K, 0.0
        for e in exponents:
            power = power.mul_(power) if e == 2 * last else (log_K * float(e)).exp_()
            sums.append(power @ right)
            last = e
        stacked: Floats = torch.stack(sums).cpu().numpy()
        return stacked


def is_available(device: str) -> bool:
    """Whether this machine has the torch device."""
    if not device.startswith("cuda"):
        return True
    cuda = optional("torch", "torch").cuda
    return bool(cuda.is_available()) and int(device.partition(":")[2] or 0) < cuda.device_count()


@njit(nogil=True, cache=True)
def _select_candidates(start, sim, ids, fill, X, density, out_sim, out_ids):
    """``select_row`` for lists of candidates of different length."""
    longest = 0
    for i in range(len(start) - 1):
        longest = max(longest, start[i + 1] - start[i])
    keep = np.empty(longest, np.int64)
    for i in range(len(start) - 1):
        a, b = start[i], start[i + 1]
        select_row(sim[a:b], ids[a:b], b - a, X[i], density, keep, out_sim[i], out_ids[i])
        if not fill:
            for j in range(out_sim.shape[1]):
                if out_sim[i, j] == 0.0:
                    out_ids[i, j] = -1
