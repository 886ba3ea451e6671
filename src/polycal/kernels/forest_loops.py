"""The loops of the forest kernel: leaves of one query against those of all stored modes."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from .._utils.arrays import Array, Ints
from .select import rank_row

# Four-byte members in a cache line of 64 bytes.
MEMBERS_PER_LINE = 16
# Up to this many classes, four copies of a query's counts fit into the cache.
FEW_CLASSES = 16
# Trees whose codes are read together while the index is built.
TREES_AT_ONCE = 8


class LeafTables(NamedTuple):
    """The stored modes, arranged for the index or for the scan."""

    use_index: bool  # otherwise all stored modes are compared, tree by tree
    n_leaves: Ints  # (n_trees,)
    offset: Ints  # (n_trees + 1,), first leaf of each tree among all leaves
    start: Ints  # (n_all_leaves + 1,), first member of each leaf
    member: Array  # stored modes, leaf by leaf
    column: Array  # (n_trees, n_stored), without an index: the leaf of each stored mode


class Scratch(NamedTuple):
    """Memory that the loops use for one query at a time."""

    tally: Array  # (n_stored,), number of leaves shared with the query
    touched: Array  # stored modes that share a leaf with it
    shared: Array  # number of leaves that each of them shares
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
def _candidates(code, tables, scratch):
    """Stored modes that share a leaf with the query, and in how many trees they do.

    Returns their number n; ``scratch`` then holds them in ``touched[:n]``, and in ``tally``
    their numbers of shared leaves, which the caller must set back to 0.
    """
    if tables.use_index:
        return _visit_leaves(code, tables, scratch)
    return _scan(code, tables, scratch)


@njit(nogil=True, cache=True)
def _visit_leaves(code, tables, scratch):
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
        members = member[begin[t] : end[t]]
        for m in range(len(members)):
            s = members[m]
            count = tally[s]
            touched[n] = s  # overwritten by the next one unless s is new
            n += count == 0
            tally[s] = count + 1
    begin[0] = warm  # kept, so that the compiler keeps the reads
    return n


@njit(nogil=True, cache=True)
def _scan(code, tables, scratch):
    """Compare the query's leaves with those of all stored modes, tree by tree."""
    n_leaves, column = tables.n_leaves, tables.column
    tally, touched = scratch.tally, scratch.touched
    for t in range(len(code)):
        if code[t] < n_leaves[t]:
            row, leaf = column[t], column.dtype.type(code[t])
            for s in range(len(tally)):
                tally[s] += row[s] == leaf
    n = 0
    for s in range(len(tally)):
        touched[n] = s
        n += tally[s] > 0
    return n


@njit(nogil=True, cache=True)
def fill_similarity(codes, tables, scratch, K):
    n_trees = codes.shape[1]
    tally, touched = scratch.tally, scratch.touched
    for i in range(codes.shape[0]):
        n = _candidates(codes[i], tables, scratch)
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
    """Nearest modes and class sums in one pass over the candidates of each query."""
    n_trees, n_classes, k = codes.shape[1], counts.shape[1], out_sim.shape[1]
    n_candidates = len(density.log_norm)
    tally, touched, shared = scratch.tally, scratch.touched, scratch.shared
    # Candidates by number of shared leaves, whether they may be neighbours, and class; the last
    # class is for those that are not one row, whose counts go into the table themselves.
    # Most share few leaves: with four copies, an addition need not wait for the one before it.
    lane, width = 3 if n_classes <= FEW_CLASSES else 0, n_classes + 1
    rows = np.zeros((lane + 1, 2 * (n_trees + 1) * width), np.int32)
    table = np.zeros((n_trees + 1, n_classes))
    near = np.zeros(n_trees + 1, np.int64)
    keep, tied = np.empty(len(touched), np.int64), np.empty(len(touched), np.bool_)
    for i in range(codes.shape[0]):
        n = _candidates(codes[i], tables, scratch)
        top = 0
        for j in range(n):
            s = touched[j]
            m = int(tally[s])
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
            if fill:
                others = _append_others(n, k, n_candidates, scratch)
                near[0], n = others - n, others
            kth, found = top, near[top]
            while found < k and kth > 0:
                kth -= 1
                found += near[kth]
            kept = 0
            for j in range(n):
                if shared[j] >= kth and touched[j] < n_candidates:
                    keep[kept], tied[kept] = j, near[shared[j]] > 1
                    kept += 1
            chosen = out_sim[i], out_ids[i]
            rank_row(shared, touched, keep[:kept], tied[:kept], X[i], density, *chosen)
            for j in range(k):
                out_sim[i, j] /= n_trees
        near[: top + 1], table[: top + 1] = 0, 0.0


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
def _append_others(n, k, n_candidates, scratch):
    """Add the candidates that share no leaf, if fewer than k share one."""
    tally, touched, shared = scratch.tally, scratch.touched, scratch.shared
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
