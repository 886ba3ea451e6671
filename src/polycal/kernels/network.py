"""The index for packed bits: XOR and popcount for each layer, then the product over layers.

The output layer is the last one. Labels may be weighted without it: the product over the hidden
layers is an intermediate result of K, so both are computed in one pass.

Stored modes are arranged in tiles, word by word, so that the inner loop runs over the stored
modes of a tile and can be vectorised.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import types
from numba.extending import intrinsic
from sklearn.utils import gen_batches

from .._utils.arrays import Array, Floats, Ints
from .._utils.compiled import njit
from ..core.execution import Execution
from ..core.neighbours import Neighbours
from ..core.reading import WORD_STEP, ActivationModes
from .base import KernelIndex, Search
from .select import select_row

TILE = 128
# Similarities that are raised to powers together.
AT_ONCE = 2**17
# Summing class by class computes the power of a similarity once for each class of its mode. A
# matrix product is faster where modes have more classes than this on average, or than this share
# of all classes.
CLASSES_OF_A_MODE, SHARE_OF_CLASSES = 3.0, 0.7
ALL, HIDDEN, OUTPUT = slice(None), slice(-1), slice(-1, None)


class ClassCounts(NamedTuple):
    """Class counts of the stored modes, without zeros.

    Sorted by class, with the start of each class; or, where modes have several classes, each mode
    once with the counts of all classes, and ``starts`` is None.
    """

    mode: Ints
    weight: Floats  # of one class, or of all
    starts: Ints | None


class NetworkIndex(KernelIndex):
    """Exact layer product over packed bits; with ``hidden_labels``, class sums by hidden layers."""

    _block_bytes = 2.0**23  # similarities stay in the cache from one step to the next

    def __init__(self, modes: ActivationModes, hidden_labels: bool = False):
        super().__init__(modes)
        self.hidden_labels = hidden_labels and len(modes.sizes) > 1
        self._tiles = in_tiles(modes)
        self._ranges = np.array(modes.column_ranges)
        self._sizes = np.array(modes.sizes, dtype=float)
        # The last division gives K; the others are by 1 except in very deep networks.
        self._divisors = np.array([*modes.divisors[:-1], 1.0])
        self._last_divisor = modes.divisors[-1]

    def _matches(self, queries: ActivationModes, layers: slice) -> Floats:
        """Product of the numbers of equal bits in these layers, shape (q, p)."""
        matches = np.empty((len(queries), len(self._tiles), TILE))
        parts = self._ranges[layers], self._sizes[layers], self._divisors[layers]
        _layer_product(queries.codes, self._tiles, *parts, matches)
        return matches.reshape(len(queries), -1)[:, : len(self.modes)]

    def _similarity_block(self, queries: ActivationModes) -> Floats:
        K = self._matches(queries, ALL)
        K /= self._last_divisor
        return K

    def _nearest_block(
        self, queries: ActivationModes, X: Floats, search: Search, execution: Execution
    ) -> Neighbours:
        if self.hidden_labels and search.counts is not None:
            label_similarity = self._matches(queries, HIDDEN)
            K = self._matches(queries, OUTPUT)
            K *= label_similarity
            K /= self._last_divisor
        else:
            label_similarity = K = self._similarity_block(queries)
        sim = np.empty((len(K), search.k))
        ids = np.empty((len(K), search.k), dtype=np.int64)
        candidates = K[:, : search.n_candidates]
        _select_rows(candidates, search.fill, X, search.density.arrays, sim, ids)
        if search.counts is None:
            return Neighbours(sim, ids)
        counts = self._prepared_counts(search.counts)
        return Neighbours(sim, ids, _power_sums(label_similarity, counts, search.exponents))

    def _prepare_counts(self, counts: Floats) -> ClassCounts:
        labelled = np.flatnonzero(counts.any(axis=1))
        few = min(CLASSES_OF_A_MODE, SHARE_OF_CLASSES * counts.shape[1])
        if np.count_nonzero(counts) > few * len(labelled):
            return ClassCounts(labelled, counts[labelled], None)
        mode, y = np.nonzero(counts)
        by_class = np.argsort(y, kind="stable")
        mode, y = mode[by_class], y[by_class]
        starts = np.searchsorted(y, np.arange(counts.shape[1] + 1))
        return ClassCounts(mode, counts[mode, y], starts)

    def _class_sums_bytes(self, counts: Floats, exponents: Floats) -> float:
        return float(8 * (len(self.modes) + len(exponents) * counts.shape[1]))

    def _class_sums_block(
        self, queries: ActivationModes, counts: Floats, exponents: Floats
    ) -> Floats:
        prepared = self._prepared_counts(counts)
        if self.hidden_labels:
            return _power_sums(self._matches(queries, HIDDEN), prepared, exponents)
        return _power_sums(self._similarity_block(queries), prepared, exponents)


def in_tiles(modes: ActivationModes) -> Array:
    """Packed bits as tiles of modes, word by word, shape (n_tiles, n_words, TILE)."""
    n_stored, n_words = modes.codes.shape
    n_tiles = -(-n_stored // TILE)
    padded = np.zeros((n_tiles * TILE, n_words), dtype=np.uint64)
    padded[:n_stored] = modes.codes
    return np.ascontiguousarray(padded.reshape(n_tiles, TILE, n_words).transpose(0, 2, 1))


def _power_sums(K: Floats, counts: ClassCounts, exponents: Floats) -> Floats:
    """sum_s (K / max K)^exponent counts[s] for each exponent; the scale of K cancels.

    A few rows at a time, so that they stay in the cache. A square is far cheaper than an
    exponential, and each gamma of the grid is twice the one before: a run of doubled exponents
    needs one exponential.
    """
    weight, starts = counts.weight, counts.starts
    n_classes = weight.shape[1] if starts is None else len(starts) - 1
    sums = np.zeros((len(exponents), len(K), n_classes))
    doubled = np.append(False, exponents[1:] == 2 * exponents[:-1])
    runs = np.split(np.arange(len(exponents)), np.flatnonzero(~doubled)[1:])
    for rows in gen_batches(len(K), max(1, AT_ONCE // max(1, len(counts.mode)))):
        log_K = np.take(K[rows], counts.mode, axis=1)
        with np.errstate(divide="ignore"):
            np.log(log_K, out=log_K)
        log_top = log_K.max(axis=1, keepdims=True, initial=-np.inf)
        log_K -= np.where(np.isfinite(log_top), log_top, 0.0)
        for run in runs:
            power = np.exp(exponents[run[0]] * log_K)
            if starts is not None:
                _sum_squares(power, weight, starts, sums[run[0] : run[-1] + 1, rows])
                continue
            for e in run:
                _product(power, weight, sums[e, rows])
                power *= power
    return sums


@njit(nogil=True, cache=True)
def _sum_squares(power, weight, starts, sums):
    """sums[e, i, y] += weighted powers of class y, which are squared from one e to the next."""
    for i in range(power.shape[0]):
        for y in range(len(starts) - 1):
            for first in range(starts[y], starts[y + 1], TILE):
                part = slice(first, min(first + TILE, starts[y + 1]))
                some, weights = power[i, part], weight[part]
                sums[0, i, y] += weighted_sum(some, weights)
                for e in range(1, len(sums)):
                    sums[e, i, y] += _weighted_sum_of_squares(some, weights)


@njit(nogil=True, cache=True)
def _product(power, weight, out):
    """power @ weight, row by row: in a matrix product, rounding would depend on the other rows."""
    for i in range(power.shape[0]):
        for j in range(power.shape[1]):
            for y in range(weight.shape[1]):
                out[i, y] += power[i, j] * weight[j, y]


# The compiler may reorder these sums, so that it can vectorise them.


@njit(nogil=True, cache=True, fastmath={"reassoc"})
def weighted_sum(values, weight):
    """Sum of the values times their weights."""
    total = 0.0
    for j in range(len(values)):
        total += values[j] * weight[j]
    return total


@njit(nogil=True, cache=True, fastmath={"reassoc"})
def _weighted_sum_of_squares(values, weight):
    """Square the values in place, and sum them with weights."""
    total = 0.0
    for j in range(len(values)):
        values[j] *= values[j]
        total += values[j] * weight[j]
    return total


@intrinsic
def _ctpop(typing_context, word):
    def codegen(context, builder, signature, args):
        return builder.ctpop(args[0])

    return types.uint64(types.uint64), codegen


# An intrinsic is called without its typing context, which a type checker cannot know.
popcount: Any = _ctpop


@njit(nogil=True, cache=True)
def count_differing(query, words, first, last, differ):
    """Number of bits of these words in which the query differs from each mode of a tile."""
    for j in range(TILE):
        differ[j] = 0
    for w in range(first, last, WORD_STEP):
        a, b, c, d = query[w], query[w + 1], query[w + 2], query[w + 3]
        ta, tb, tc, td = words[w], words[w + 1], words[w + 2], words[w + 3]
        for j in range(TILE):
            differ[j] += (
                popcount(a ^ ta[j])
                + popcount(b ^ tb[j])
                + popcount(c ^ tc[j])
                + popcount(d ^ td[j])
            )


@njit(nogil=True, cache=True)
def _layer_product(queries, tiles, ranges, sizes, divisors, out):
    """out[i, tile, j] = product over layers of the number of equal bits, over the divisors."""
    differ = np.empty(TILE, np.uint64)
    for tile in range(tiles.shape[0]):
        words = tiles[tile]
        for i in range(queries.shape[0]):
            query = queries[i]
            product = out[i, tile]
            for layer in range(len(sizes)):
                count_differing(query, words, ranges[layer, 0], ranges[layer, 1], differ)
                size = sizes[layer]
                if layer == 0:
                    for j in range(TILE):
                        product[j] = size - np.float64(np.int64(differ[j]))
                else:
                    for j in range(TILE):
                        product[j] *= size - np.float64(np.int64(differ[j]))
                if divisors[layer] != 1.0:
                    for j in range(TILE):
                        product[j] /= divisors[layer]


@njit(nogil=True, cache=True)
def _select_rows(K, fill, X, density, out_sim, out_ids):
    n = K.shape[1]
    ids, keep = np.arange(n), np.empty(n, np.int64)
    for i in range(K.shape[0]):
        select_row(K[i], ids, n, X[i], density, keep, out_sim[i], out_ids[i])
        if not fill:
            for j in range(out_sim.shape[1]):
                if out_sim[i, j] == 0.0:
                    out_ids[i, j] = -1
