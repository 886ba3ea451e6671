"""The loops of tables that rows are added to: insertion, look-up, thinning, and growth."""

from __future__ import annotations

import numpy as np

from .._utils.compiled import njit
from .sampled_loops import EMPTY, place_of

# A slot is a row of float64: the bits of its bucket's key, and then the sum of each class. So what
# is read together lies together. ``keys`` is the same memory as uint64.


@njit(nogil=True, cache=True)
def _slot(keys, key):
    """The slot that has a key, or the empty one where it belongs."""
    size = len(keys)
    place = place_of(key, size)
    while keys[place, 0] != key and keys[place, 0] != EMPTY:
        place = place + 1 if place + 1 < size else 0
    return place


@njit(nogil=True, cache=True)
def _first_places(hashes, left_out, keys, places):
    """Where each hash is looked for first. All are read here, so that cache misses overlap."""
    warm = np.uint64(0)
    for i in range(len(hashes)):
        places[i] = place_of(hashes[i], len(keys))
        if (hashes[i] & left_out) == 0:
            warm |= keys[places[i], 0]
    return warm


@njit(nogil=True, cache=True)
def add_rows(hashes, left_out, y, weight, slots, keys, used):
    """Add the weight of each row to its class in its bucket of each sequence.

    ``hashes`` has shape (n_sequences, n_rows), ``slots`` (n_sequences, n_slots, 1 + n_classes);
    used[r] is the number of buckets of sequence r.
    """
    n_sequences, n_rows = hashes.shape
    places = np.empty(n_rows, np.int64)
    warm = np.uint64(0)  # returned, so that the compiler reads the first places
    for r in range(n_sequences):
        table, known = slots[r], keys[r]
        size = len(table)
        warm |= _first_places(hashes[r], left_out, known, places)
        for i in range(n_rows):
            h, place = hashes[r, i], places[i]
            if h & left_out:
                continue
            while known[place, 0] != h and known[place, 0] != EMPTY:
                place = place + 1 if place + 1 < size else 0
            if known[place, 0] == EMPTY:
                known[place, 0] = h
                used[r] += 1
            table[place, 1 + y[i]] += weight[i]
    return warm


@njit(nogil=True, cache=True)
def add_found(hashes, left_out, slots, keys, sums):
    """Add the class sums of each query's buckets to ``sums``, shape (n_queries, n_classes)."""
    n_sequences, n_queries = hashes.shape
    n_classes = sums.shape[1]
    places = np.empty(n_queries, np.int64)
    for r in range(n_sequences):
        table, known = slots[r], keys[r]
        size = len(table)
        warm = _first_places(hashes[r], left_out, known, places)
        for i in range(n_queries):
            h, place = hashes[r, i], places[i]
            if (h & left_out) or warm == EMPTY:
                continue
            while known[place, 0] != h and known[place, 0] != EMPTY:
                place = place + 1 if place + 1 < size else 0
            if known[place, 0] == h:
                for y in range(n_classes):
                    sums[i, y] += table[place, 1 + y]


@njit(nogil=True, cache=True)
def add_buckets(slots, keys, left_out, least, new_slots, new_keys, used):
    """Add buckets of one table to another, except those left out and those of hardly any weight."""
    for old in range(len(slots)):
        key = keys[old, 0]
        if key == EMPTY or (key & left_out):
            continue
        if least > 0.0:
            total = 0.0
            for y in range(1, slots.shape[1]):
                total += slots[old, y]
            if total < least:
                continue
        place = _slot(new_keys, key)
        if new_keys[place, 0] == EMPTY:
            new_keys[place, 0] = key
            used[0] += 1
        for y in range(1, slots.shape[1]):
            new_slots[place, y] += slots[old, y]
