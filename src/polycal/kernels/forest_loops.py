"""The loops of the forest kernel: leaves of one query against those of all stored modes."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from .._utils.arrays import Array, Bools, Ints
from .select import rank_row

# Four-byte members in a cache line of 64 bytes.
MEMBERS_PER_LINE = 16
# Up to this many classes, four copies of a query's counts fit into the cache.
FEW_CLASSES = 16
# Trees whose codes are read together while the index is built.
TREES_AT_ONCE = 8
# Candidates that ``_rank_fields`` looks at first, as a multiple of k.
STRONG = 16


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


class Scratch(NamedTuple):
    """Memory that the loops use for one query at a time."""

    tally: Array  # (n_stored,), word of the leaves shared with the query
    column_tally: Array  # (n_stored,), without an index: those in some trees
    touched: Array  # stored modes that share a leaf with it
    shared: Array  # number of leaves that each of them shares
    keep: Ints  # those of them that are nearest, or tied with one that is
    tied: Bools  # whether each of these shares its number of shared leaves
    word: Array  # with parts of the trees: the word of each of them
    some: Ints  # with parts: those that may be nearest
    field_touched: Array  # with parts: modes that may be nearest by one field of the word, and
    field_shared: Array  # number of leaves that each of them shares in it
    begin: Ints  # (n_trees,), first and
    end: Ints  # (n_trees,), last-plus-one member of the query's leaf


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
def _candidates(code, tables, packing, scratch):
    """Stored modes that share a leaf with the query, and in how many trees they do.

    Returns their number n; ``scratch`` then holds them in ``touched[:n]``, and in ``tally``
    their numbers of shared leaves, which the caller must set back to 0.
    """
    if tables.use_index:
        return _visit_leaves(code, tables, packing.step, scratch)
    return _scan(code, tables, packing, scratch)


@njit(nogil=True, cache=True)
def _visit_leaves(code, tables, step, scratch):
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
    warm = 0
    for t in range(len(code)):
        for m in range(begin[t], end[t], MEMBERS_PER_LINE):
            warm |= member[m]
    n = 0
    for t in range(len(code)):
        members, one = member[begin[t] : end[t]], step[t]
        for m in range(len(members)):
            s = members[m]
            count = tally[s]
            touched[n] = s  # overwritten by the next one unless s is new
            n += count == 0
            tally[s] = count + one
    begin[0] = warm  # kept, so that the compiler keeps the reads
    return n


@njit(nogil=True, cache=True)
def _scan(code, tables, packing, scratch):
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
        n += tally[s] > 0
    return n


@njit(nogil=True, cache=True)
def fill_similarity(codes, tables, packing, scratch, K):
    n_trees = codes.shape[1]
    tally, touched = scratch.tally, scratch.touched
    for i in range(codes.shape[0]):
        n = _candidates(codes[i], tables, packing, scratch)
        for j in range(n):
            s = touched[j]
            K[i, s] = tally[s] / n_trees
            tally[s] = 0


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
    counts,
    one_row,
    exponents,
    log_shared,
    sums,
):
    """Nearest modes and class sums in one pass over the candidates of each query.

    ``out_sim`` and ``out_ids`` have shape (n_fields, n_queries, k): the nearest by all trees, and
    by each part of the trees that ``packing`` has a field for.
    """
    n_trees, n_classes = codes.shape[1], counts.shape[1]
    n_fields, _, k = out_sim.shape
    n_candidates = len(density.log_norm)
    tally, touched, shared, word = scratch.tally, scratch.touched, scratch.shared, scratch.word
    all_trees = packing.mask[0]
    # Candidates by number of shared leaves, whether they may be neighbours, and class; the last
    # class is for those that are not one row, whose counts go into the table themselves.
    # Most share few leaves: with four copies, an addition need not wait for the one before it.
    lane, width = 3 if n_classes <= FEW_CLASSES else 0, n_classes + 1
    rows = np.zeros((lane + 1, 2 * (n_trees + 1) * width), np.int32)
    table = np.zeros((n_trees + 1, n_classes))
    near = np.zeros(n_trees + 1, np.int64)
    for i in range(codes.shape[0]):
        n = _candidates(codes[i], tables, packing, scratch)
        top = np.int64(0)
        for j in range(n):
            s = touched[j]
            m = np.int64(tally[s] & all_trees)
            if n_fields > 1:
                word[j] = tally[s]
            shared[j], tally[s] = m, 0
            top = max(top, m)
            y = one_row[s] if n_classes > 0 else 0
            if y < 0:
                y = n_classes
                for c in range(n_classes):
                    table[m, c] += counts[s, c]
            rows[j & lane, (2 * m + (s < n_candidates)) * width + y] += 1
        _add_lanes(rows, near[: top + 1], table)
        _weigh_table(table[: top + 1], exponents, log_shared, sums[:, i])
        if k > 0:
            row = scratch, fill, X[i], density
            if n_fields > 1:
                _rank_fields(n, near[: top + 1], packing, *row, out_sim[:, i], out_ids[:, i])
            else:
                _rank(n, near[: top + 1], touched, shared, *row, out_sim[0, i], out_ids[0, i])
            for field in range(n_fields):
                for j in range(k):
                    out_sim[field, i, j] /= packing.size[field]
        near[: top + 1], table[: top + 1] = 0, 0.0


@njit(nogil=True, cache=True)
def _kth_highest(near, k):
    """Highest number of shared leaves that at least k candidates reach, or 0."""
    kth, found = len(near) - 1, near[-1]
    while found < k and kth > 0:
        kth -= 1
        found += near[kth]
    return kth


@njit(nogil=True, cache=True)
def _rank(n, near, touched, shared, scratch, fill, x, density, out_sim, out_ids):
    """The k nearest of n modes, of which ``near[m]`` that may be neighbours share m leaves."""
    keep, tied, n_candidates = scratch.keep, scratch.tied, len(density.log_norm)
    k = len(out_sim)
    if fill:
        others = _append_others(n, k, n_candidates, scratch.tally, touched, shared)
        near[0], n = others - n, others
    kth, kept = _kth_highest(near, k), 0
    for j in range(n):
        if shared[j] >= kth and touched[j] < n_candidates:
            keep[kept], tied[kept] = j, near[shared[j]] > 1
            kept += 1
    rank_row(shared, touched, keep[:kept], tied[:kept], x, density, out_sim, out_ids)


@njit(nogil=True, cache=True)
def _rank_fields(n, near, packing, scratch, fill, x, density, out_sim, out_ids):
    """``_rank`` of one query by each field of the words: by all trees, and by parts of them.

    The k-th highest number of leaves shared in a part, among some candidates, is at most that
    among all of them. So who shares fewer leaves in all trees is not among the k nearest by that
    part. Nearly always, those who share most leaves in all trees turn out to be enough.
    """
    (n_fields, k), n_candidates = out_sim.shape, len(density.log_norm)
    touched, shared, word = scratch.touched, scratch.shared, scratch.word
    some, ids, sim = scratch.some, scratch.field_touched, scratch.field_shared
    least, n_some = _kth_highest(near, STRONG * k), 0
    for j in range(n):
        some[n_some] = j
        n_some += (shared[j] >= least) & (touched[j] < n_candidates)
    bounds = np.empty(n_fields, np.int64)
    for f in range(n_fields):
        shift, mask = packing.shift[f], packing.mask[f]
        counts = np.zeros(packing.size[f] + 1, np.int64)
        for j in some[:n_some]:
            counts[np.int64((word[j] >> shift) & mask)] += 1
        bounds[f] = max(_kth_highest(counts, k), 1)
    lowest = bounds.min()
    if lowest < least:
        for j in range(n):
            some[n_some] = j
            n_some += (shared[j] >= lowest) & (shared[j] < least) & (touched[j] < n_candidates)
    for f in range(n_fields):
        shift, mask = packing.shift[f], packing.mask[f]
        found = 0
        for j in some[:n_some]:
            m = np.int64((word[j] >> shift) & mask)
            ids[found], sim[found] = touched[j], m  # overwritten unless it may be nearest
            found += m >= bounds[f]
        counts = np.zeros(packing.size[f] + 1, np.int64)
        for j in range(found):
            counts[sim[j]] += 1
        chosen = out_sim[f], out_ids[f]
        _rank(found, counts, ids, sim, scratch, fill, x, density, *chosen)


@njit(nogil=True, cache=True)
def _add_lanes(rows, near, table):
    """Add the copies: neighbours by shared leaves, and rows by class; set the copies to 0."""
    n_classes, entry = table.shape[1], 0
    for m in range(len(near)):
        for may_be_near in range(2):
            for y in range(n_classes + 1):
                total = 0
                for lane in range(len(rows)):
                    total += rows[lane, entry]
                    rows[lane, entry] = 0
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
def _append_others(n, k, n_candidates, tally, touched, shared):
    """Add the candidates that share no leaf, if fewer than k share one."""
    near = 0
    for j in range(n):
        near += touched[j] < n_candidates
    if near >= k:
        return n
    for j in range(n):
        tally[touched[j]] = 1
    last = n
    for s in range(n_candidates):
        if tally[s] == 0:
            touched[last] = s
            shared[last] = 0
            last += 1
    for j in range(n):
        tally[touched[j]] = 0
    return last


@njit(nogil=True, cache=True)
def leaf_product(queries, stored, n_leaves, values, out):
    n_trees = stored.shape[1]
    sums = np.empty((n_leaves.max(), values.shape[1]))
    for t in range(n_trees):
        sums[: n_leaves[t]] = 0.0
        for s in range(stored.shape[0]):
            sums[stored[s, t]] += values[s]
        for i in range(queries.shape[0]):
            if queries[i, t] < n_leaves[t]:
                out[i] += sums[queries[i, t]]
    out /= n_trees
