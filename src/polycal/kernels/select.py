"""The k nearest of one query: highest similarity, then log density, then lowest index."""

from __future__ import annotations

import numpy as np

from .._utils.compiled import njit
from ..core.density import row_terms

# Eight-byte numbers in a cache line of 64 bytes.
NUMBERS_PER_LINE = 8
# Candidates whose densities are read ahead, at most.
WARM = 64


@njit(nogil=True, cache=True)
def select_row(sim, ids, n, x, density, keep, out_sim, out_ids):
    """Best ``len(out_sim)`` of n candidates: highest sim, then log density, then lowest id.

    Only ids that have a density can be chosen. ``keep`` is working memory for n candidates. Where
    there are too few candidates, the remaining entries have similarity 0 and id -1.
    """
    k, n_candidates = len(out_sim), len(density.log_norm)
    top = np.full(k, -np.inf)
    kth = -np.inf
    kept = 0
    for j in range(n):
        s = sim[j]
        if s >= kth and ids[j] < n_candidates:
            keep[kept] = j
            kept += 1
            rank = k - 1
            while rank > 0 and top[rank - 1] < s:
                top[rank] = top[rank - 1]
                rank -= 1
            if s > top[rank]:
                top[rank] = s
                kth = top[k - 1]
    best = 0
    for j in keep[:kept]:
        keep[best] = j
        best += sim[j] >= kth
    tied = np.empty(best, np.bool_)
    for q in range(best):
        s, same = sim[keep[q]], 0
        for b in range(k):
            same += top[b] == s
        tied[q] = same > 1 or (s == kth and best > k)
    rank_row(sim, ids, keep[:best], tied, x, density, out_sim, out_ids)


@njit(nogil=True, cache=True)
def rank_row(sim, ids, keep, tied, x, density, out_sim, out_ids):
    """Sort the candidates ``keep``, all of which have at least the k-th highest similarity.

    ``tied`` marks those that share their similarity: only they need their density.
    """
    k = len(out_sim)
    level, density_at = np.empty(k), np.zeros(len(keep))
    # Reading a number of each cache line first lets the misses overlap; the densities then come
    # from cache.
    mean, precision, warm = density.mean, density.precision, 0.0
    for q in range(min(len(keep), WARM)):
        r = np.int64(ids[keep[q]])
        own = r if precision.shape[0] > 1 else 0
        for j in range(0, mean.shape[1] if tied[q] else 0, NUMBERS_PER_LINE):
            warm += mean[r, j] + precision[own, j]
    level[0] = warm  # kept, so that the compiler keeps the reads; overwritten below
    for q in range(len(keep)):  # apart from the loop below, whose branches cannot be predicted
        if tied[q]:
            kernel, norm = row_terms(x, np.int64(ids[keep[q]]), density)
            density_at[q] = norm + kernel
    out_sim[:] = 0.0
    out_ids[:] = -1
    filled = 0
    for q in range(len(keep)):
        s, r, g = sim[keep[q]], np.int64(ids[keep[q]]), density_at[q]
        rank = filled
        while rank > 0:
            b = rank - 1
            if out_sim[b] > s:
                break
            if out_sim[b] == s and (level[b] > g or (level[b] == g and out_ids[b] < r)):
                break
            rank -= 1
        if rank >= k:
            continue
        for b in range(min(filled, k - 1), rank, -1):
            out_sim[b] = out_sim[b - 1]
            out_ids[b] = out_ids[b - 1]
            level[b] = level[b - 1]
        out_sim[rank] = s
        out_ids[rank] = r
        level[rank] = g
        filled = min(filled + 1, k)
