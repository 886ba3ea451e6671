"""The loops of the forest kernel: leaves of one query against those of all stored modes."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from .._utils.arrays import Array, Bools, Ints
from .._utils.compiled import njit
from .select import rank_row

# Four-byte members in a cache line of 64 bytes.
MEMBERS_PER_LINE = 16
# Up to this many classes, several copies of a query's counts (a power of 2) fit into the cache.
FEW_CLASSES = 16
LANES = 4
# Trees whose codes are read together while the index is built.
TREES_AT_ONCE = 8
# Candidates that ``_rank`` looks at first where there are parts of the trees, as a multiple of k.
STRONG = 16
# Bytes of the tally that are set to 0 in the time of one visit.
BYTES_PER_VISIT = 16


class LeafTables(NamedTuple):
    """The stored modes, arranged for the index or for the scan."""

    use_index: bool  # otherwise all stored modes are compared, tree by tree
    n_leaves: Ints  # (n_trees,)
    offset: Ints  # (n_trees + 1,), first leaf of each tree among all leaves
    start: Ints  # (n_all_leaves + 1,), first member of each leaf
    member: Array  # stored modes, leaf by leaf
    column: Array  # (n_trees, n_stored), without an index: the leaf of each stored mode


class Packing(NamedTuple):
    """Numbers of shared leaves, in all trees and in some parts of the trees, in one word."""

    n_parts: int  # tree t is in part t % n_parts
    step: Array  # (n_trees,), what a shared leaf adds to the word
    shift: Array  # (n_fields,), place of each field: all trees, then the parts
    mask: Array  # (n_fields,)
    size: Ints  # (n_fields,), number of trees


class Labels(NamedTuple):
    """Class counts of the stored modes."""

    counts: Array  # (n_stored, n_classes)
    one_row: Array  # (n_stored,), see ``one_row_classes``
    leaf_rows: Array  # (n_all_leaves, n_classes), see ``count_leaf_rows``; empty without


class Scratch(NamedTuple):
    """Memory that the loops use for one query at a time; places of members are unsigned."""

    tally: Array  # (n_stored,), word of the leaves shared with the query
    column_tally: Array  # (n_stored,), without an index: those in some trees
    touched: Array  # stored modes that share enough leaves with it
    word: Array  # the word of each of them
    some: Ints  # those of them that may be nearest
    ids: Array  # stored modes that are nearest, or tied with one that is
    shared: Array  # number of leaves that each of these shares
    keep: Ints  # 0, 1, 2, ...
    tied: Bools  # whether each of these shares its number of shared leaves
    field_counts: Ints  # (n_fields, n_trees + 1), number of ``some`` by shared leaves
    leaf: Ints  # (n_trees,), the query's leaf among all leaves, -1 for one without members
    begin: Array  # (n_trees,), first and
    end: Array  # (n_trees,), last-plus-one member of the query's leaf
    warm: Array  # (1,), what is read ahead; kept, so that the compiler keeps the reads


@njit(nogil=True, cache=True)
def inverted_index(codes, offset):
    """Compressed rows: the stored modes in each leaf of each tree, in ascending order.

    A counting sort for each tree, over columns that are copied together: the codes of a row
    share a cache line, and the leaves of one tree stay in cache.
    """
    n_stored, n_trees = codes.shape
    start = np.empty(offset[n_trees] + 1, np.int64)
    start[-1] = codes.size
    member = np.empty(codes.size, np.uint32)
    columns = np.empty((TREES_AT_ONCE, n_stored), np.int32)
    for first in range(0, n_trees, TREES_AT_ONCE):
        n_columns = min(TREES_AT_ONCE, n_trees - first)
        for s in range(n_stored):
            for j in range(n_columns):
                columns[j, s] = codes[s, first + j]
        for j in range(n_columns):
            t = first + j
            column, members = columns[j], member[t * n_stored : (t + 1) * n_stored]
            starts = start[offset[t] : offset[t + 1]]
            following = np.zeros(len(starts) + 1, np.int64)  # where the next member of a leaf goes
            for s in range(n_stored):
                following[column[s] + 1] += 1
            for leaf in range(len(starts)):
                following[leaf + 1] += following[leaf]
                starts[leaf] = t * n_stored + following[leaf]
            for s in range(n_stored):
                members[following[column[s]]] = s
                following[column[s]] += 1
    return start, member


@njit(nogil=True, cache=True)
def _candidates(code, tables, packing, least, scratch):
    """Stored modes that share at least ``least`` leaves (1 or 2) with the query.

    Returns their number n; ``scratch`` then holds them in ``touched[:n]``, and in ``tally`` what
    each stored mode shares, which the caller must set back to 0 by ``_clear``.
    """
    if tables.use_index:
        return _visit_leaves(code, tables, packing, least, scratch)
    return _scan(code, tables, packing, least, scratch)


@njit(nogil=True, cache=True)
def _visit_leaves(code, tables, packing, least, scratch):
    """Count the members of the query's leaves.

    The leaves of a query lie far apart in memory. Reading all addresses first, then one
    number of each cache line, lets those misses overlap; the count then runs from cache.
    """
    n_leaves, offset, start, member = tables.n_leaves, tables.offset, tables.start, tables.member
    tally, touched, begin, end = scratch.tally, scratch.touched, scratch.begin, scratch.end
    for t in range(len(code)):
        known = code[t] < n_leaves[t]
        leaf = offset[t] + (code[t] if known else 0)
        begin[t] = start[leaf]
        end[t] = start[leaf + 1] if known else begin[t]
        scratch.leaf[t] = leaf if known else -1
    warm = np.uint32(0)
    for t in range(len(code)):
        for m in range(begin[t], end[t], np.uint64(MEMBERS_PER_LINE)):
            warm |= member[m]
    scratch.warm[0] = warm
    n = np.uint64(0)
    all_trees, before = packing.mask[0], least - 1
    for t in range(len(code)):
        one = packing.step[t]
        for m in range(begin[t], end[t]):
            s = member[m]
            count = tally[s]
            touched[n] = s  # overwritten by the next one unless s has now reached ``least``
            n += np.uint64((count & all_trees) == before)
            tally[s] = count + one
    return np.int64(n)


@njit(nogil=True, cache=True)
def _scan(code, tables, packing, least, scratch):
    """Compare the query's leaves with those of all stored modes, tree by tree.

    The shared leaves are counted in numbers of the width of a leaf id, which is fastest.
    """
    n_leaves, column = tables.n_leaves, tables.column
    tally, touched, some = scratch.tally, scratch.touched, scratch.column_tally
    for part in range(packing.n_parts):
        for t in range(part, len(code), packing.n_parts):
            if code[t] < n_leaves[t]:
                row, leaf = column[t], column.dtype.type(code[t])
                for s in range(len(some)):
                    some[s] += row[s] == leaf
        step = packing.step[part]
        for s in range(len(some)):
            tally[s] += some[s] * step
        some[:] = 0
    n = 0
    for s in range(len(tally)):
        touched[n] = s
        n += (tally[s] & packing.mask[0]) >= least
    return n


@njit(nogil=True, cache=True)
def _add_single(n, tables, packing, scratch):
    """After ``_visit_leaves`` with least = 2: add who shares one leaf; return the new number."""
    tally, touched, word = scratch.tally, scratch.touched, scratch.word
    for t in range(len(scratch.begin)):
        for m in range(scratch.begin[t], scratch.end[t]):
            s = tables.member[m]
            touched[n], word[n] = s, tally[s]
            n += (tally[s] & packing.mask[0]) == 1
    return n


@njit(nogil=True, cache=True)
def _clear(tables, scratch):
    """Set the tally to 0: all of it where that takes less time, otherwise where it was counted."""
    tally, begin, end, visits = scratch.tally, scratch.begin, scratch.end, np.uint64(0)
    for t in range(len(begin)):
        visits += end[t] - begin[t]
    if not tables.use_index or tally.nbytes < BYTES_PER_VISIT * visits:
        tally[:] = 0
        return
    for t in range(len(begin)):
        for m in range(begin[t], end[t]):
            tally[tables.member[m]] = 0


@njit(nogil=True, cache=True)
def fill_similarity(codes, tables, packing, scratch, K):
    n_trees = codes.shape[1]
    tally, touched = scratch.tally, scratch.touched
    for i in range(codes.shape[0]):
        n = _candidates(codes[i], tables, packing, 1, scratch)
        for j in range(n):
            s = touched[j]
            K[i, s] = tally[s] / n_trees
        _clear(tables, scratch)


@njit(nogil=True, cache=True)
def one_row_classes(counts):
    """Class of each stored mode that holds one row of weight 1, n_classes if it holds none, or -1.

    Nearly every mode of a fully grown forest holds one row: then one small number is read instead
    of all counts.
    """
    n_stored, n_classes = counts.shape
    found = np.empty(n_stored, np.int32)
    for s in range(n_stored):
        found[s] = n_classes
        for y in range(n_classes):
            if counts[s, y] != 0.0:
                alone = found[s] == n_classes and counts[s, y] == 1.0
                found[s] = y if alone else -1
                if not alone:
                    break
    return found


@njit(nogil=True, cache=True)
def count_leaf_rows(start, member, one_row, n_classes):
    """Rows of each class in each leaf, where every stored mode holds one row or none."""
    found = np.zeros((len(start) - 1, n_classes), np.int32)
    for leaf in range(len(found)):
        for s in member[start[leaf] : start[leaf + 1]]:
            if one_row[s] < n_classes:
                found[leaf, one_row[s]] += 1
    return found


@njit(nogil=True, cache=True)
def search_rows(
    codes,
    tables,
    packing,
    scratch,
    fill,
    X,
    density,
    out_sim,
    out_ids,
    labels,
    exponents,
    log_shared,
    sums,
):
    """Nearest modes and class sums in one pass over the candidates of each query.

    ``out_sim`` and ``out_ids`` have shape (n_fields, n_queries, k): the nearest by all trees, and
    by each part of the trees that ``packing`` has a field for.

    Most candidates share one leaf only. Where the rows of each leaf are counted by class, they are
    those in the query's leaves who do not share more, and are looked at one by one only if they
    may be neighbours.
    """
    n_trees, n_classes = codes.shape[1], labels.counts.shape[1]
    n_fields, _, k = out_sim.shape
    least = 2 if tables.use_index and len(labels.leaf_rows) > 0 else 1
    lanes = LANES if n_classes <= FEW_CLASSES else 1
    rows = np.zeros((2 * (n_trees + 1) * (n_classes + 1), lanes), np.int32)
    table = np.zeros((n_trees + 1, n_classes))
    near = np.zeros(n_trees + 1, np.int64)
    for i in range(codes.shape[0]):
        n = _candidates(codes[i], tables, packing, least, scratch)
        top = max(_count(n, len(density.log_norm), packing, labels, scratch, rows, table), 1)
        some_near, some_table = near[: top + 1], table[: top + 1]
        _add_lanes(rows, some_near, some_table)
        if least == 2:
            _count_single(scratch.leaf, labels.leaf_rows, some_table)
        _weigh_table(some_table, exponents, log_shared, sums[:, i])
        if k > 0:
            found = out_sim[:, i], out_ids[:, i]
            _rank(n, least, some_near, tables, packing, scratch, fill, X[i], density, *found)
            for field in range(n_fields):
                for j in range(k):
                    out_sim[field, i, j] /= packing.size[field]
        _clear(tables, scratch)
        some_near[:], some_table[:] = 0, 0.0


@njit(nogil=True, cache=True)
def _count(n, n_candidates, packing, labels, scratch, rows, table):
    """Count n candidates; return the highest number of shared leaves.

    ``rows`` counts them by number of shared leaves, whether they may be neighbours, and class; the
    last class is for those that are not one row, whose counts go into the table themselves. Most
    share few leaves: with several copies, an addition need not wait for the one before it.
    """
    tally, touched, word, one_row = scratch.tally, scratch.touched, scratch.word, labels.one_row
    n_classes, all_trees = table.shape[1], packing.mask[0]
    width, last_lane = np.uint64(n_classes + 1), np.uint64(rows.shape[1] - 1)
    top = np.uint64(0)
    for j in range(n):
        s = touched[j]
        word[j] = tally[s]
        m = np.uint64(word[j] & all_trees)
        top = max(top, m)
        y = one_row[s] if n_classes > 0 else 0
        if y < 0:
            y = n_classes
            for c in range(n_classes):
                table[m, c] += labels.counts[s, c]
        entry = (np.uint64(2) * m + np.uint64(s < n_candidates)) * width + np.uint64(y)
        rows[entry, np.uint64(j) & last_lane] += 1
    return np.int64(top)


@njit(nogil=True, cache=True)
def _count_single(leaf, leaf_rows, table):
    """Rows that share one leaf: those in the query's leaves, less those who share more."""
    for t in range(len(leaf)):
        if leaf[t] >= 0:
            for y in range(table.shape[1]):
                table[1, y] += leaf_rows[leaf[t], y]
    for m in range(2, len(table)):
        for y in range(table.shape[1]):
            table[1, y] -= m * table[m, y]


@njit(nogil=True, cache=True)
def _kth_highest(near, k):
    """Highest number of shared leaves that at least k candidates reach, or 0."""
    kth, found = len(near) - 1, near[-1]
    while found < k and kth > 0:
        kth -= 1
        found += near[kth]
    return kth


@njit(nogil=True, cache=True)
def _rank(n, least, near, tables, packing, scratch, fill, x, density, out_sim, out_ids):
    """The k nearest of n candidates by each field of the words: by all trees, and by parts.

    ``near[m]`` of them may be neighbours and share m leaves, for m from ``least`` on.

    The k-th highest number of leaves shared in a part, among some candidates, is at most that
    among all of them. So who shares fewer leaves in all trees is not among the k nearest by that
    part. Nearly always, those who share most leaves in all trees turn out to be enough.
    """
    (n_fields, k), n_candidates = out_sim.shape, len(density.log_norm)
    some, counts = scratch.some, scratch.field_counts
    counts[:] = 0
    strong = _kth_highest(near, k if n_fields == 1 else STRONG * k)
    n_some = _add_some(0, 0, n, strong, len(near), n_candidates, packing, scratch)
    lowest = len(near)
    for f in range(n_fields):
        lowest = min(lowest, max(_kth_highest(counts[f, : packing.size[f] + 1], k), 1))
    if lowest < strong:
        n_some = _add_some(n_some, 0, n, lowest, strong, n_candidates, packing, scratch)
    if lowest < least:
        first, n = n, _add_single(n, tables, packing, scratch)
        n_some = _add_some(n_some, first, n, 1, 2, n_candidates, packing, scratch)
    ids, shared, tied, keep = scratch.ids, scratch.shared, scratch.tied, scratch.keep
    touched, word = scratch.touched, scratch.word
    for f in range(n_fields):
        shift, mask, count = packing.shift[f], packing.mask[f], counts[f, : packing.size[f] + 1]
        low, last = max(_kth_highest(count, k), 1), np.uint64(0)
        for j in some[:n_some]:
            m = (word[j] >> shift) & mask
            ids[last], shared[last] = touched[j], m  # overwritten unless near enough
            tied[last] = count[m] > 1
            last += np.uint64(m >= low)
        found = np.int64(last)
        if fill and found < k:
            for s in range(n_candidates):
                ids[found], shared[found], tied[found] = s, 0, True
                found += (scratch.tally[s] >> shift) & mask == 0
        chosen = out_sim[f], out_ids[f]
        rank_row(shared, ids, keep[:found], tied[:found], x, density, *chosen)


@njit(nogil=True, cache=True)
def _add_some(n_some, first, stop, low, high, n_candidates, packing, scratch):
    """Add the candidates from first to stop that share low to high - 1 leaves, and count them."""
    some, word, counts = scratch.some, scratch.word, scratch.field_counts
    touched, shift, mask = scratch.touched, packing.shift, packing.mask
    last = np.uint64(n_some)
    for j in range(first, stop):
        m = np.int64(word[j] & mask[0])
        some[last] = j
        last += np.uint64((m >= low) & (m < high) & (touched[j] < n_candidates))
    for j in some[n_some:last]:
        for f in range(len(counts)):
            counts[f, (word[j] >> shift[f]) & mask[f]] += 1
    return np.int64(last)


@njit(nogil=True, cache=True)
def _add_lanes(rows, near, table):
    """Add the copies: neighbours by shared leaves, and rows by class; set the copies to 0."""
    n_classes, entry = table.shape[1], 0
    for m in range(len(near)):
        for may_be_near in range(2):
            for y in range(n_classes + 1):
                total = 0
                for lane in range(rows.shape[1]):
                    total += rows[entry, lane]
                    rows[entry, lane] = 0
                near[m] += may_be_near * total
                if y < n_classes:
                    table[m, y] += total
                entry += 1


@njit(nogil=True, cache=True)
def _weigh_table(table, exponents, log_shared, sums):
    """sum_m (m / max m)^exponent table[m] for each exponent."""
    log_top = -1.0
    for m in range(table.shape[0] - 1, 0, -1):
        if table[m].sum() <= 0.0:
            continue
        if log_top < 0.0:
            log_top = log_shared[m - 1]
        for e in range(len(exponents)):
            weight = math.exp(exponents[e] * (log_shared[m - 1] - log_top))
            for y in range(table.shape[1]):
                sums[e, y] += weight * table[m, y]


@njit(nogil=True, cache=True)
def sum_leaves(stored, values, sums):
    """Add the values of each stored row to those of its leaf in each tree: sums[tree, leaf]."""
    n_columns = values.shape[1]
    for s in range(stored.shape[0]):
        for t in range(stored.shape[1]):
            leaf = sums[t, stored[s, t]]
            for c in range(n_columns):
                leaf[c] += values[s, c]


@njit(nogil=True, cache=True)
def add_leaf_sums(queries, n_leaves, sums, out):
    """Add the sums of the leaves of each query."""
    n_columns = out.shape[1]
    for i in range(queries.shape[0]):
        for t in range(queries.shape[1]):
            if queries[i, t] < n_leaves[t]:
                leaf = sums[t, queries[i, t]]
                for c in range(n_columns):
                    out[i, c] += leaf[c]
