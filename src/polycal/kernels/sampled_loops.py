"""The loops of the sampled kernel: hashes along paths, tables of buckets, and look-ups in them."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from .._utils.arrays import Array, Floats, Ints
from .._utils.compiled import njit
from .._utils.saved import LARGEST_WEIGHT
from . import mixing
from .mixing import HASHED_BITS, SLOTS_PER_BUCKET, WORD_BITS
from .network import popcount
from .select import select_row

MIX_A, MIX_B, FNV_PRIME = map(np.uint64, (mixing.MIX_A, mixing.MIX_B, mixing.FNV_PRIME))
# Rows whose bits are hashed together.
HASHED_ROWS = 64
# Key of no bucket while a table is built, and tag of a slot without a bucket.
EMPTY, NO_BUCKET = np.uint64(0), np.uint16(0)
# Bits of a path that are numbered one by one; those of a deeper network are hashed.
MOST_GROUPS = 12
CACHE_LINE = 64  # bytes


class BucketArrays(NamedTuple):
    """Tables of buckets, one after the other: one for each sequence and scale."""

    start: Ints  # (n_tables + 1,), first slot of each table
    tag: Array  # (n_slots,), 16 bits of the hash of the bucket in a slot, or NO_BUCKET
    # (n_slots,), the mode in a bucket of one; -1 - b for one whose content is at b in the table's
    value: Array
    content_start: Ints  # (n_tables + 1,), first content of each table
    # (n_content,), of a bucket: the mode that stands for it, its number of classes, and each class
    # with its weight; side by side, because they are read together
    content: Floats
    left_out_bits: Array  # (n_scales,), buckets whose hash has any of these bits were left out


class LabelledModes(NamedTuple):
    """What tables are built from, beside the hashes along their paths."""

    hash: Array  # (n_modes,), of all symbols
    n_candidates: int  # the first modes, which may be neighbours
    first: Ints  # (n_modes + 1,), first label of each mode
    label_class: Array  # (n_labels,), class and
    label_weight: Floats  # (n_labels,), its weight in the mode
    label: Array  # (n_modes,), as in ``ModeLabels``


class ModeLabels(NamedTuple):
    """Class and weight of each mode that holds one class; class -1 for the others."""

    label: Array  # (n_modes,)
    weight: Floats  # (n_modes,)


@njit(nogil=True, cache=True)
def _mixed(h):
    """Spread the bits of a hash over all others."""
    h = (h ^ (h >> np.uint64(30))) * MIX_A
    h = (h ^ (h >> np.uint64(27))) * MIX_B
    h ^= h >> np.uint64(31)
    return h if h != EMPTY else np.uint64(1)


@njit(nogil=True, cache=True)
def leaf_hashes(codes, draws, salt, steps, out):
    """out[r, e, i]: hash of the leaves of row i in the first steps[e] columns of sequence r.

    A draw is one step for a block of rows, whose leaves in a column lie side by side.
    """
    n_rows, n_columns = codes.shape
    columns = np.zeros((n_columns, HASHED_ROWS), codes.dtype)
    h = np.empty(HASHED_ROWS, np.uint64)
    for first in range(0, n_rows, HASHED_ROWS):
        n = min(HASHED_ROWS, n_rows - first)
        for j in range(n):
            for t in range(n_columns):
                columns[t, j] = codes[first + j, t]
        for r in range(draws.shape[0]):
            k, path = 0, draws[r]
            h[:] = salt[r]
            for e in range(len(steps)):
                while k < steps[e]:
                    column = columns[path[k]]
                    for j in range(HASHED_ROWS):
                        mixed = (h[j] ^ np.uint64(column[j])) * FNV_PRIME
                        h[j] = mixed ^ (mixed >> np.uint64(32))
                    k += 1
                for j in range(n):
                    out[r, e, first + j] = _mixed(h[j])


@njit(nogil=True, cache=True)
def unit_hashes(codes, draws, salt, steps, out):
    """out[r, e, i]: hash of the first steps[e] bits of row i that sequence r draws.

    A draw is one step for a block of rows, whose bits lie side by side.
    """
    n_rows, n_words = codes.shape
    planes = np.empty((WORD_BITS * n_words, HASHED_ROWS), np.uint8)
    h, bits = np.empty(HASHED_ROWS, np.uint64), np.empty(HASHED_ROWS, np.uint32)
    for first in range(0, n_rows, HASHED_ROWS):
        n = min(HASHED_ROWS, n_rows - first)
        _lay_out_bits(codes[first : first + n], planes)
        for r in range(draws.shape[0]):
            k, path = 0, draws[r]
            h[:], bits[:] = salt[r], np.uint32(0)
            for e in range(len(steps)):
                while k < steps[e]:
                    plane = planes[path[k]]
                    for j in range(HASHED_ROWS):
                        bits[j] = (bits[j] << np.uint32(1)) | np.uint32(plane[j])
                    k += 1
                    if k % HASHED_BITS == 0:
                        for j in range(n):
                            h[j] = _mixed(h[j] ^ (np.uint64(1) << np.uint64(HASHED_BITS)) ^ bits[j])
                        bits[:] = np.uint32(0)
                length = np.uint64(1) << np.uint64(k % HASHED_BITS)
                for j in range(n):
                    out[r, e, first + j] = _mixed(h[j] ^ length ^ bits[j])


@njit(nogil=True, cache=True)
def _lay_out_bits(codes, planes):
    """planes[b, j]: bit b of row j."""
    n, n_words = codes.shape
    word = np.zeros(HASHED_ROWS, np.uint64)
    for w in range(n_words):
        for j in range(n):
            word[j] = codes[j, w]
        for b in range(WORD_BITS):
            plane = planes[WORD_BITS * w + b]
            for j in range(HASHED_ROWS):
                plane[j] = np.uint8((word[j] >> np.uint64(b)) & np.uint64(1))


@njit(nogil=True, cache=True)
def place_of(key, size):
    """First slot for a key in a table of some size, by the upper half of the key."""
    return np.int64(((key >> np.uint64(32)) * np.uint64(size)) >> np.uint64(32))


@njit(nogil=True, cache=True)
def _tag(key):
    """16 bits of a key, which say whether a slot holds its bucket; never ``NO_BUCKET``.

    One slot in 65,536 is taken for that of another bucket.
    """
    return np.uint16(max((key >> np.uint64(16)) & np.uint64(0xFFFF), np.uint64(1)))


@njit(nogil=True, cache=True)
def assign_buckets(hashes, keep, bucket):
    """Number the buckets of all rows in the order of their first rows; return how many there are.

    bucket[i] is -1 for a row whose bucket is left out.
    """
    kept = 0
    for i in range(len(hashes)):
        kept += (hashes[i] & keep) == 0
    size = 2 * kept + 1
    keys, ids = np.zeros(size, np.uint64), np.empty(size, np.int32)
    n = 0
    for i in range(len(hashes)):
        h = hashes[i]
        if h & keep:
            bucket[i] = -1
            continue
        place = place_of(h, size)
        while keys[place] != h and keys[place] != EMPTY:
            place = place + 1 if place + 1 < size else 0
        if keys[place] == EMPTY:
            keys[place], ids[place] = h, n
            n += 1
        bucket[i] = ids[place]
    return n


@njit(nogil=True, cache=True)
def build_table(hashes, left_out, salt, modes, n_classes):
    """One table: tags and values of its slots, and the content of its larger buckets.

    The mode of lowest random priority stands for a bucket, among those that may be neighbours
    where there are any. Priorities differ from one sequence to another, so that all modes get
    their turn. Without classes, a bucket has that mode alone.
    """
    n_rows = len(hashes)
    bucket = np.empty(n_rows, np.int32)
    n_buckets = assign_buckets(hashes, left_out, bucket)
    row, size = np.full(n_buckets, -1, np.int32), np.zeros(n_buckets, np.int64)
    lowest, n_labels = np.zeros(n_buckets, np.uint64), np.zeros(n_buckets, np.int64)
    for i in range(n_rows):
        b = bucket[i]
        if b >= 0:
            size[b] += 1
            n_labels[b] += modes.first[i + 1] - modes.first[i]
            priority = _mixed(modes.hash[i] ^ salt)
            if row[b] < 0 or (
                priority < lowest[b] and (i < modes.n_candidates or row[b] >= modes.n_candidates)
            ):
                row[b], lowest[b] = i, priority
    begin, n_members, most = np.zeros(n_buckets + 1, np.int64), 0, 0
    for b in range(n_buckets):
        if n_classes == 0 or (size[b] == 1 and modes.label[row[b]] >= 0):
            size[b] = 0  # the mode itself has its class and weight
        n_members += size[b]
        begin[b + 1] = n_members
        most += 2 + 2 * min(n_labels[b], n_classes) if size[b] > 0 else 0
    members, filled = np.empty(n_members, np.int32), begin[:-1].copy()
    for i in range(n_rows):
        b = bucket[i]
        if b >= 0 and size[b] > 0:
            members[filled[b]] = i
            filled[b] += 1
    content, value = np.empty(most), np.empty(n_buckets, np.int32)
    total, seen = np.zeros(n_classes), np.empty(n_classes, np.int32)
    n = 0
    for b in range(n_buckets):
        if size[b] == 0:
            value[b] = row[b]
            continue
        n_seen = 0
        for i in members[begin[b] : begin[b + 1]]:
            for m in range(modes.first[i], modes.first[i + 1]):
                y = modes.label_class[m]
                if total[y] == 0.0:
                    seen[n_seen] = y
                    n_seen += 1
                total[y] += modes.label_weight[m]
        value[b], content[n], content[n + 1] = -1 - n, row[b], n_seen
        n += 2
        for y in seen[:n_seen]:
            content[n], content[n + 1], total[y] = y, total[y], 0.0
            n += 2
    n_slots = n_buckets * SLOTS_PER_BUCKET + 1
    holder = np.full(n_slots, -1, np.int32)
    for i in range(n_rows):
        if bucket[i] >= 0 and row[bucket[i]] == i:
            put_in_slot(i, hashes, holder)
    tags, values = np.full(n_slots, NO_BUCKET), np.zeros(n_slots, np.int32)
    for place in range(n_slots):
        i = holder[place]
        if i >= 0:
            tags[place], values[place] = _tag(hashes[i]), value[bucket[i]]
    return tags, values, content[:n].copy()


@njit(nogil=True, cache=True)
def put_in_slot(row, keys, holder):
    """Put a row into the first slot from its place on that no smaller key holds.

    The row there goes on in its turn. So slots are those of rows that come in the order of their
    keys, whatever their order is. A row that has passed the end of the table is after all others.
    """
    place, past = place_of(keys[row], len(holder)), False
    while holder[place] >= 0:
        other = holder[place]
        other_past = place_of(keys[other], len(holder)) > place
        if past < other_past or (past == other_past and keys[row] < keys[other]):
            holder[place], row, past = row, other, other_past
        place += 1
        if place == len(holder):
            place, past = 0, True
    holder[place] = row


@njit(nogil=True, cache=True)
def look_up(hashes, tables, labels, is_summed, sums, met):
    """Add the class sums of each query's buckets, and note the modes that stand for them.

    ``hashes`` has shape (n_sequences, n_scales, n_queries), ``sums`` (n_scales, n_queries,
    n_classes); sums are of the scales that ``is_summed`` marks. met[t, i] is the mode that stands
    for the bucket of query i in table t, or -1; it may have no rows. A table stays in the cache for
    all queries, and what a step reads is read ahead by the one before it, so that misses overlap.
    """
    n_sequences, n_scales, n_queries = hashes.shape
    places, values_found = np.empty(n_queries, np.int64), np.empty(n_queries, np.int64)
    which = np.empty(n_queries, np.int64)
    for r in range(n_sequences):
        for e in range(n_scales):
            t = r * n_scales + e
            begin, end = tables.start[t], tables.start[t + 1]
            tags, values, n_slots = tables.tag[begin:end], tables.value[begin:end], end - begin
            left_out, total = tables.left_out_bits[e], sums[e]
            content = tables.content[tables.content_start[t] : tables.content_start[t + 1]]
            warm = 0
            for i in range(n_queries):
                places[i] = place_of(hashes[r, e, i], n_slots)
                warm |= tags[places[i]] | values[places[i]]
            n_found = 0
            for i in range(n_queries):
                h, place = hashes[r, e, i], places[i]
                tag = _tag(h)
                for _ in range(n_slots if warm != 0 else 0):
                    if tags[place] == tag or tags[place] == NO_BUCKET:
                        break
                    place = place + 1 if place + 1 < n_slots else 0
                which[n_found], values_found[n_found] = i, values[place]  # kept if it is found
                n_found += (tags[place] == tag) & ((h & left_out) == 0)
            if len(met) > 0:
                met[t] = -1
                for j in range(n_found):
                    value = values_found[j]
                    met[t, which[j]] = value if value >= 0 else np.int32(content[-1 - value])
            if not is_summed[e]:
                continue
            for j in range(n_found):
                i, value = which[j], values_found[j]
                if value >= 0:
                    total[i, labels.label[value]] += labels.weight[value]
                else:
                    b = -1 - value
                    for m in range(b + 2, b + 2 + 2 * np.int64(content[b + 1]), 2):
                        total[i, np.int64(content[m])] += content[m + 1]


@njit(nogil=True, cache=True)
def most_met(met, scales, n_candidates, ids):
    """ids[i]: modes below ``n_candidates`` that query i meets most, by the sum of the scales.

    Table t is of scale t modulo the number of scales. -1 where a query meets fewer modes.
    """
    n_tables, n_queries = met.shape
    n_ids, n_slots = ids.shape[1], 2 * n_tables + 1
    mode, weight = np.full(n_slots, -1, np.int32), np.zeros(n_slots, np.int64)
    places, weights = np.empty(n_tables, np.int64), np.empty(n_tables, np.int64)
    for i in range(n_queries):
        n_met = 0
        for t in range(n_tables):
            row = met[t, i]
            if row < 0 or row >= n_candidates:
                continue
            place = place_of(np.uint64(row) * MIX_A, n_slots)
            while mode[place] != row and mode[place] >= 0:
                place = place + 1 if place + 1 < n_slots else 0
            if mode[place] < 0:
                mode[place], places[n_met] = row, place
                n_met += 1
            weight[place] += scales[t % len(scales)]
        least = np.int64(0)
        if n_met > n_ids:
            for j in range(n_met):
                weights[j] = weight[places[j]]
            least = np.partition(weights[:n_met], n_met - n_ids)[n_met - n_ids]
        n = 0
        for strictly in range(2):  # those above the least first, so that no tie displaces them
            for j in range(n_met):
                w = weight[places[j]]
                if n < n_ids and (w > least if strictly == 0 else w == least):
                    ids[i, n] = mode[places[j]]
                    n += 1
        ids[i, n:] = -1
        for j in range(n_met):
            mode[places[j]], weight[places[j]] = -1, 0


@njit(nogil=True, cache=True)
def _read_ahead(stored, ids):
    """Read a number of each cache line of some rows, so that their misses overlap."""
    warm, step = stored[0, 0], CACHE_LINE // stored.itemsize
    for j in range(len(ids)):
        row = stored[max(ids[j], 0)]
        for w in range(0, len(row), step):
            warm |= row[w]
    return warm


@njit(nogil=True, cache=True)
def shared_leaves(codes, stored, ids, K):
    """K[i, j]: share of the columns in which query i has the leaf of stored mode ids[i, j]."""
    n_trees, warm = codes.shape[1], stored[0, 0]
    for i in range(len(ids)):
        code = codes[i]
        warm |= _read_ahead(stored, ids[i])
        for j in range(ids.shape[1]):
            shared = 0
            if ids[i, j] >= 0:
                other = stored[ids[i, j]]
                for t in range(n_trees):
                    shared += code[t] == other[t]
            K[i, j] = shared / n_trees
    return warm  # so that the compiler keeps the reads


@njit(nogil=True, cache=True)
def shared_units(codes, stored, ids, ranges, sizes, divisors, K):
    """K[i, j]: product over layers of the share of equal bits of query i and mode ids[i, j]."""
    warm = stored[0, 0]
    for i in range(len(ids)):
        code = codes[i]
        warm |= _read_ahead(stored, ids[i])
        for j in range(ids.shape[1]):
            K[i, j] = 0.0
            if ids[i, j] < 0:
                continue
            other, product = stored[ids[i, j]], 1.0
            for layer in range(len(sizes)):
                differ = np.uint64(0)
                for w in range(ranges[layer, 0], ranges[layer, 1]):
                    differ += popcount(code[w] ^ other[w])
                product *= sizes[layer] - np.float64(np.int64(differ))
                if divisors[layer] != 1.0:
                    product /= divisors[layer]
            K[i, j] = product
    return warm  # so that the compiler keeps the reads


@njit(nogil=True, cache=True)
def near_sums(K, ids, counts, exponents, sums):
    """Add (K / max K)^exponent counts of the modes ids[i] to sums[e, i], for each exponent.

    The maximum is over the modes that have counts.
    """
    n_classes = counts.shape[1]
    for i in range(len(ids)):
        top = 0.0
        for j in range(ids.shape[1]):
            if K[i, j] > top and counts[ids[i, j]].any():
                top = K[i, j]
        for j in range(ids.shape[1]):
            if K[i, j] <= 0.0 or K[i, j] > top:
                continue
            log_share = math.log(K[i, j] / top)
            for e in range(len(exponents)):
                weight = math.exp(exponents[e] * log_share)
                for y in range(n_classes):
                    sums[e, i, y] += weight * counts[ids[i, j], y]


@njit(nogil=True, cache=True)
def select_rows(K, ids, fill, X, density, out_sim, out_ids):
    """The nearest of the modes ids[i] to each query i, of which -1 are none."""
    n = K.shape[1]
    sim, some, keep = np.empty(n), np.empty(n, np.int64), np.empty(n, np.int64)
    for i in range(K.shape[0]):
        n_some = 0
        for j in range(n):
            if ids[i, j] >= 0 and (fill or K[i, j] > 0.0):
                sim[n_some], some[n_some] = K[i, j], ids[i, j]
                n_some += 1
        select_row(sim, some, n_some, X[i], density, keep, out_sim[i], out_ids[i])


@njit(nogil=True, cache=True)
def path_symbols(codes, paths):
    """Number of the bits of each row along each path, shape (n_rows, n_paths)."""
    n_rows, (n_paths, n_groups) = len(codes), paths.shape
    out = np.empty((n_rows, n_paths), np.int32)
    for i in range(n_rows):
        for p in range(n_paths):
            symbol = np.uint64(1)
            for g in range(n_groups):
                bit = paths[p, g]
                word = codes[i, bit // WORD_BITS] >> np.uint64(bit % WORD_BITS)
                symbol = (symbol << np.uint64(1)) | (word & np.uint64(1))
                if g % MOST_GROUPS == MOST_GROUPS - 1:
                    symbol = _mixed(symbol) >> np.uint64(WORD_BITS - MOST_GROUPS)
            out[i, p] = symbol & np.uint64(2**MOST_GROUPS - 1)
    return out


@njit(nogil=True, cache=True)
def is_sound(tables, first, last, label, n_classes):
    """Whether every slot of some tables leads to a mode with a label, or to content of its table.

    Weights are checked too: none is negative, or so large that a sum is no number.
    """
    for t in range(first, last):
        content = tables.content[tables.content_start[t] : tables.content_start[t + 1]]
        for slot in range(tables.start[t], tables.start[t + 1]):
            if tables.tag[slot] == NO_BUCKET:
                continue
            row = np.int64(tables.value[slot])
            if row >= 0:
                if row >= len(label) or (label[row] < 0 and n_classes > 0):
                    return False
                continue
            b = -1 - row
            if b + 2 > len(content) or not 0 <= content[b] < len(label):
                return False
            stop = b + 2.0 + 2.0 * content[b + 1]
            if content[b + 1] < 0 or stop > len(content):
                return False
            for m in range(b + 2, np.int64(stop), 2):
                if not (0 <= content[m] < n_classes and 0 <= content[m + 1] < LARGEST_WEIGHT):
                    return False
    return True
