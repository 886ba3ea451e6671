"""The k nearest of one query, by the tie rule of the design."""

from __future__ import annotations

import numpy as np
from numba import njit

from .._density import row_log_density


@njit(nogil=True, cache=True)
def select_row(sim, ids, n, x, density, keep, out_sim, out_ids):
    """Best ``len(out_sim)`` of n candidates: highest sim, then log density, then lowest id.

    Only ids that have a density can be chosen. Densities are evaluated only for candidates
    that share a similarity, up to the k-th highest; ``keep`` is scratch for n of them. Places
    that no candidate fills keep similarity 0 and id -1.
    """
    k, among = len(out_sim), len(density[2])
    top = np.full(k, -np.inf)
    kth = -np.inf
    kept = 0
    for j in range(n):
        s = sim[j]
        if s >= kth and ids[j] < among:
            keep[kept] = j
            kept += 1
            place = k - 1
            while place > 0 and top[place - 1] < s:
                top[place] = top[place - 1]
                place -= 1
            if s > top[place]:
                top[place] = s
                kth = top[k - 1]
    at_kth = 0
    for j in keep[:kept]:
        at_kth += sim[j] == kth
    level = np.empty(k)
    out_sim[:] = 0.0
    out_ids[:] = -1
    filled = 0
    for j in keep[:kept]:
        s = sim[j]
        if s < kth:
            continue
        r = np.int64(ids[j])
        same = at_kth
        if s > kth:
            same = 0
            for b in range(k):
                same += top[b] == s
        g = row_log_density(x, r, density) if same > 1 else 0.0
        place = filled
        while place > 0:
            b = place - 1
            if out_sim[b] > s:
                break
            if out_sim[b] == s and (level[b] > g or (level[b] == g and out_ids[b] < r)):
                break
            place -= 1
        if place >= k:
            continue
        for b in range(min(filled, k - 1), place, -1):
            out_sim[b] = out_sim[b - 1]
            out_ids[b] = out_ids[b - 1]
            level[b] = level[b - 1]
        out_sim[place] = s
        out_ids[place] = r
        level[place] = g
        filled = min(filled + 1, k)
