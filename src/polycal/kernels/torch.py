"""Packed bits on a GPU: with entries +-1 each layer is one matrix product.

The product of two rows of +-1 is (equal - different) bits, a small integer, so it is exact in
float32 (and TF32, where the user chose that) in whatever order it is added. Layers are multiplied
in float64, as on the CPU: similarities, and therefore ties and neighbours, are equal to the last
bit.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from .._utils.blocks import map_blocks
from .._utils.optional import optional
from ..core.neighbours import Neighbours
from ..core.reading import ActivationModes
from .base import Execution, Search
from .network import ALL, HIDDEN, OUTPUT, NetworkIndex
from .select import select_row


class TorchIndex(NetworkIndex):
    """The same index with its pairs on a torch device.

    A copy that is loaded on a machine without that device computes on the CPU.
    """

    _block_bytes = math.inf

    def __init__(self, modes: ActivationModes, device: str, hidden_labels: bool = False):
        super().__init__(modes, hidden_labels)
        self.device = device
        self._layers: list[Any] | None = None

    def __getstate__(self) -> dict:
        return {**super().__getstate__(), "_layers": None}

    @property
    def _there(self) -> bool:
        torch = optional("torch", "torch")
        return not self.device.startswith("cuda") or torch.cuda.is_available()

    def _jobs(self, execution: Execution) -> int | None:
        # One block fills the device; threads would only wait for each other.
        return 1 if self._there else super()._jobs(execution)

    def _put(self, values: NDArray) -> Any:
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

    def _similarity_block(self, queries: ActivationModes) -> NDArray:
        if not self._there:
            return super()._similarity_block(queries)
        return self._pairs(queries).cpu().numpy()

    def matmul(self, queries: ActivationModes, values: NDArray, execution: Execution) -> NDArray:
        if not self._there:
            return super().matmul(queries, values, execution)
        right = self._put(np.asarray(values, dtype=float))
        sums = np.empty((len(queries), values.shape[1]))  # once: it may be a gigabyte

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
    def _put_back(result: Any, out: NDArray) -> None:
        optional("torch", "torch").from_numpy(out).copy_(result)

    def _look_block(
        self, queries: ActivationModes, X: NDArray, search: Search, execution: Execution
    ) -> Neighbours:
        if not self._there:
            return super()._look_block(queries, X, search, execution)
        signs = self._signs(queries)
        if self.hidden_labels and search.counts is not None:
            labels_by = self._equal_bits(signs, HIDDEN)
            K = self._equal_bits(signs, OUTPUT).mul_(labels_by).div_(self._last_divisor)
        else:
            labels_by = K = self._equal_bits(signs, ALL).div_(self._last_divisor)
        # Only those that reach the k-th highest similarity leave the device; the tie rule is
        # the CPU's own, and has the threads that the device did not need.
        near = K[:, : search.among]
        kth = near.topk(search.k, dim=1).values[:, -1:]
        row, place = (near >= kth).nonzero(as_tuple=True)
        similar, place = near[row, place].cpu().numpy(), place.cpu().numpy()
        start = np.searchsorted(row.cpu().numpy(), np.arange(len(queries) + 1))
        sim = np.empty((len(queries), search.k))
        ids = np.empty((len(queries), search.k), dtype=np.int64)

        def select(rows: slice) -> None:
            first, out = start[rows.start : rows.stop + 1], (sim[rows], ids[rows])
            parts = search.density.parts
            _select_candidates(first, similar, place, search.fill, X[rows], parts, *out)

        map_blocks(select, len(queries), 16 * search.k, n_jobs=execution.n_jobs)
        if search.counts is None:
            return Neighbours(sim, ids)
        return Neighbours(sim, ids, self._power_sums(labels_by, search.counts, search.exponents))

    def _prepare(self, counts: NDArray) -> Any:
        return self._put(counts) if self._there else super()._prepare(counts)

    def _class_sums_bytes(self, counts: NDArray, exponents: NDArray) -> float:
        return super()._class_sums_bytes(counts, exponents) + 16.0 * len(self.modes)

    def _class_sums_block(
        self, queries: ActivationModes, counts: NDArray, exponents: NDArray
    ) -> NDArray:
        if not self._there:
            return super()._class_sums_block(queries, counts, exponents)
        if self.hidden_labels:
            hidden = self._equal_bits(self._signs(queries), HIDDEN)
            return self._power_sums(hidden, counts, exponents)
        return self._power_sums(self._pairs(queries), counts, exponents)

    def _power_sums(self, K: Any, counts: NDArray, exponents: NDArray) -> NDArray:
        """sum_s (K / max K)^exponent counts[s] for each exponent; K itself is used up."""
        torch = optional("torch", "torch")
        right = self._labels_of(counts)
        log_K = K.log_()
        log_K[:, right.sum(dim=1) == 0] = -torch.inf
        log_top = log_K.amax(dim=1, keepdim=True)
        log_K -= torch.where(log_top.isfinite(), log_top, 0.0)
        sums, power, last = [], log_K, 0.0
        for e in exponents:
            power = power.mul_(power) if e == 2 * last else (log_K * float(e)).exp_()
            sums.append(power @ right)
            last = e
        return torch.stack(sums).cpu().numpy()


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
