"""The loops of ``sampled_loops`` on a torch device, row by row equal to them.

A torch device has no unsigned numbers of 64 bits to calculate with, but products and differences
are the same bits with a sign, and a shift drops what the sign has filled in. Nothing is added up in
an order that changes: weights are summed as whole numbers, so that the tables are the same each
time.

This file imports nothing that is compiled, so that ``benchmarks/sampled_gpu.py`` runs where torch
is all there is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._utils.arrays import Array, Ints
from .._utils.optional import optional
from .mixing import FNV_PRIME, HASHED_BITS, MIX_A, MIX_B, SLOTS_PER_BUCKET, WORD_BITS

LOWEST = -(2**63)
# Bits of a whole number that sums of weights may take.
SUM_BITS = 61
# Multipliers that count the bits of a word: of two, of four, of eight bits, and their sum.
PAIRS, FOURS, BYTES, ONES = (
    0x5555555555555555,
    0x3333333333333333,
    0x0F0F0F0F0F0F0F0F,
    0x0101010101010101,
)


@dataclass(frozen=True)
class DeviceModes:
    """What tables are built from, as tensors; see ``LabelledModes`` and ``ModeLabels``."""

    symbols: Any  # (n_columns, n_modes), leaf ids or packed words, column by column
    packed: bool
    hash: Any  # (n_modes,), of all symbols
    n_candidates: int
    first: Any  # (n_modes + 1,)
    label_class: Any  # (n_labels,)
    label_weight: Any  # (n_labels,), float64
    label: Any  # (n_modes,)

    @classmethod
    def of(cls, symbols: Any, packed: bool, n_candidates: int, *labels: Array) -> DeviceModes:
        """From symbols column by column, and the labels as arrays."""
        arrays = (on_device(array, symbols.device) for array in labels)
        return cls(symbols, packed, hash_of_all(symbols), n_candidates, *arrays)


@dataclass(frozen=True)
class DeviceTables:
    """``BucketArrays`` as tensors; numbers of 16 bits have a sign here."""

    start: Any
    tag: Any
    value: Any
    content_start: Any
    content: Any
    left_out_bits: list[int]

    @classmethod
    def of(cls, tables: Any, device: Any) -> DeviceTables:
        """From ``BucketArrays``."""
        *arrays, left_out_bits = tables
        start, tag, value, content_start, content = (on_device(a, device) for a in arrays)
        bits = [int(mask) for mask in left_out_bits]
        return cls(start, tag, value, content_start, content, bits)

    def arrays(self) -> dict[str, Array]:
        """Fields of ``BucketArrays``, in main memory."""
        names = ("start", "tag", "value", "content_start", "content")
        found = {name: getattr(self, name).cpu().numpy() for name in names}
        bits = np.array(self.left_out_bits, dtype=np.uint64)
        return found | {"tag": found["tag"].view(np.uint16), "left_out_bits": bits}


def signed(number: int) -> int:
    """The number with the same 64 bits and a sign."""
    return (number + 2**63) % 2**64 - 2**63


def on_device(values: Array, device: Any) -> Any:
    """A tensor with the bits of an array, of which unsigned numbers get a sign."""
    kinds = {"uint64": np.int64, "uint16": np.int16}
    values = np.ascontiguousarray(values)
    known = values.view(kinds.get(values.dtype.name, values.dtype))
    return optional("torch", "torch").as_tensor(known, device=device)


def shifted(h: Any, bits: int) -> Any:
    """h >> bits, with zeros in the upper bits."""
    return (h >> bits).bitwise_and_((1 << (WORD_BITS - bits)) - 1)


def mixed(h: Any) -> Any:
    """Spread the bits of a hash over all others; never 0."""
    h = shifted(h, 30).bitwise_xor_(h).mul_(signed(MIX_A))
    h.bitwise_xor_(shifted(h, 27)).mul_(signed(MIX_B))
    h.bitwise_xor_(shifted(h, 31))
    return h.add_(h == 0)


def path_hashes(symbols: Any, packed: bool, draws: Any, salt: Any, steps: Ints) -> Any:
    """Hash of each row along the first steps[e] draws of sequence r, shape (r, e, n_rows).

    Symbols are column by column, shape (n_columns, n_rows).
    """
    walk = _unit_walk if packed else _leaf_walk
    torch = optional("torch", "torch")
    out = torch.empty(
        (len(draws), len(steps), symbols.shape[1]), dtype=torch.int64, device=symbols.device
    )
    walk(symbols, draws.long(), salt, steps.tolist(), out)
    return out


def _leaf_walk(symbols: Any, draws: Any, salt: Any, steps: list[int], out: Any) -> None:
    torch = optional("torch", "torch")
    h = salt[:, None].repeat(1, symbols.shape[1])
    lower, upper = h.view(torch.int32)[:, ::2], h.view(torch.int32)[:, 1::2]
    for k in range(steps[-1]):
        h.bitwise_xor_(symbols[draws[:, k]]).mul_(FNV_PRIME)
        lower.bitwise_xor_(upper)  # h ^= h >> 32
        if k + 1 in steps:
            out[:, steps.index(k + 1)] = mixed(h)


def _unit_walk(symbols: Any, draws: Any, salt: Any, steps: list[int], out: Any) -> None:
    torch = optional("torch", "torch")
    h = salt[:, None].repeat(1, symbols.shape[1])
    word, (place, bit) = torch.ones_like(h), (draws // WORD_BITS, draws % WORD_BITS)
    for k in range(steps[-1]):
        bits = (symbols[place[:, k]] >> bit[:, k, None]).bitwise_and_(1)
        word = bits.add_(word, alpha=2)
        if (k + 1) % HASHED_BITS == 0:
            h, word = mixed(h ^ word), torch.ones_like(h)
        if k + 1 in steps:
            out[:, steps.index(k + 1)] = mixed(h ^ word)


def hash_of_all(symbols: Any) -> Any:
    """Hash of all symbols of each row."""
    torch = optional("torch", "torch")
    everything = torch.arange(len(symbols), device=symbols.device)[None]
    salt = torch.ones(1, dtype=torch.int64, device=symbols.device)
    return path_hashes(symbols, False, everything, salt, np.array([len(symbols)]))[0, 0]


def places(key: Any, n_slots: Any) -> Any:
    """First slot for a key in a table of some size, by the upper half of the key."""
    return (shifted(key, 32) * n_slots) >> 32


def tags(key: Any) -> Any:
    """16 bits of a key, which say whether a slot holds its bucket; never 0."""
    return (key >> 16).bitwise_and_(0xFFFF).clamp_(min=1).short()


def build_tables(
    modes: DeviceModes, draws: Array, salt: Array, steps: Ints, left_out: Array, n_classes: int
) -> DeviceTables:
    """All tables of these modes, sequence by sequence, with the slots of ``build_table``."""
    device, bits = modes.symbols.device, [int(mask) for mask in left_out]
    paths, salts = on_device(draws, device), on_device(salt, device)
    weight = WholeWeights.of(modes)
    sizes, slot_tags, slot_values, held = [0], [], [], []
    for r in range(len(draws)):
        hashes = path_hashes(modes.symbols, modes.packed, paths[r : r + 1], salts[r : r + 1], steps)
        order = standing_order(mixed(modes.hash ^ salts[r]), modes.n_candidates)
        groups = [Buckets.of(h, order, mask) for h, mask in zip(hashes[0], bits, strict=True)]
        contents = [group.content(modes, weight, n_classes) for group in groups]
        for group, (value, content) in zip(groups, contents, strict=True):
            sizes.append(SLOTS_PER_BUCKET * len(group.key) + 1)
            tag, value = fill_slots(group.key, value, sizes[-1])
            slot_tags.append(tag)
            slot_values.append(value)
            held.append(content)
    begin = on_device(np.cumsum(sizes), device)
    content_begin = on_device(np.cumsum([0, *map(len, held)]), device)
    tag, value, content = map(joined, (slot_tags, slot_values, held))
    return DeviceTables(begin, tag, value, content_begin, content, bits)


def joined(parts: list[Any]) -> Any:
    """``torch.cat``; the list is emptied, so that no part is kept twice."""
    whole = optional("torch", "torch").cat(parts)
    parts.clear()
    return whole


def standing_order(priority: Any, n_candidates: int) -> Any:
    """Modes in the order in which they would stand for a bucket that they share."""
    torch = optional("torch", "torch")
    rows = torch.arange(len(priority), device=priority.device)
    unsigned = priority ^ LOWEST
    first, _ = sorted_by(unsigned, rows[:n_candidates])
    if n_candidates == len(rows):
        return first
    return torch.cat([first, sorted_by(unsigned, rows[n_candidates:])[0]])


def sorted_by(keys: Any, rows: Any) -> tuple[Any, Any]:
    """Rows sorted by their keys, and the keys; the order of rows with one key stays.

    Sorting by the upper half takes less than half the time, and few keys agree in it alone.
    """
    torch = optional("torch", "torch")
    half, index = torch.sort((keys >> 32).int()[rows], stable=True)
    rows = rows[index]
    sorted_keys = keys[rows]
    starts_run = differs_from_last(half)
    disagrees = differs_from_last(sorted_keys) & ~starts_run
    if bool(disagrees.any()):
        run = starts_run.cumsum(0).sub_(1)
        again = torch.zeros_like(disagrees)
        again[run[disagrees]] = True
        place = again[run].nonzero()[:, 0]
        sorted_keys[place], index = torch.sort(sorted_keys[place], stable=True)
        rows[place] = rows[place][index]
    return rows, sorted_keys


def differs_from_last(values: Any) -> Any:
    """Whether each value is another than the one before it."""
    torch = optional("torch", "torch")
    other = torch.ones(len(values), dtype=torch.bool, device=values.device)
    torch.ne(values[1:], values[:-1], out=other[1:])
    return other


@dataclass(frozen=True)
class WholeWeights:
    """Weights as whole numbers, whose sums do not depend on an order."""

    whole: Any  # (n_labels,)
    unit: float  # of one, a power of 2

    @classmethod
    def of(cls, modes: DeviceModes) -> WholeWeights:
        weight = modes.label_weight
        total = float(weight.abs().sum()) if len(weight) else 0.0
        unit = math.ldexp(1.0, math.frexp(total)[1] - SUM_BITS)
        return cls((weight / unit).round_().long(), unit)

    def real(self, sums: Any) -> Any:
        """Sums of weights from sums of whole numbers."""
        return sums.double().mul_(self.unit)


@dataclass(frozen=True)
class Buckets:
    """The buckets of one table: rows bucket by bucket, the one that stands for it first."""

    key: Any  # (n_buckets,), hash; ascending, as numbers without a sign
    row: Any  # (n_rows,)
    is_first: Any  # (n_rows,)
    begin: Any  # (n_buckets,), place of the first row

    @classmethod
    def of(cls, hashes: Any, order: Any, left_out: int) -> Buckets:
        if left_out:
            order = order[(hashes[order] & left_out) == 0]
        row, key = sorted_by(hashes ^ LOWEST, order)
        is_first = differs_from_last(key)
        begin = is_first.nonzero()[:, 0]
        return cls(key[begin] ^ LOWEST, row, is_first, begin)

    @property
    def standing(self) -> Any:
        """The mode that stands for each bucket."""
        return self.row[self.begin]

    def content(self, modes: DeviceModes, weight: WholeWeights, n_classes: int) -> tuple[Any, Any]:
        """Value of each bucket, and the content of the larger ones."""
        torch = optional("torch", "torch")
        standing, n_rows = self.standing, len(self.row)
        stop = torch.cat([self.begin[1:], self.begin.new_tensor([n_rows])[: len(self.begin)]])
        large = ((stop - self.begin) > 1) | (modes.label[standing] < 0)
        number = large.cumsum(0).sub_(1)
        n_large = int(large.sum())
        bucket, row = self.is_first.cumsum(0).sub_(1), self.row
        if n_large < len(large):
            member = large[bucket]
            bucket, row = bucket[member], row[member]
        owner, label = _labels_of(modes, number[bucket], row)
        pair = owner * n_classes + modes.label_class[label]
        if n_large * n_classes < 2**31:
            pair = pair.int()  # sorts twice as fast
        pair, index = torch.sort(pair)
        total = torch.cat([pair.new_zeros(1, dtype=torch.int64), weight.whole[label[index]]])
        total.cumsum_(0)
        first = differs_from_last(pair).nonzero()[:, 0]
        after = torch.cat([first[1:], first.new_tensor([len(pair)])[: len(first)]])
        sums = weight.real(total[after] - total[first])
        pair = pair[first].long()
        owner, y = pair // n_classes, pair % n_classes
        n_seen = torch.bincount(owner, minlength=n_large)
        before = n_seen.cumsum(0) - n_seen
        place = 2 * (before + torch.arange(n_large, device=pair.device))
        content = torch.empty(2 * (n_large + len(pair)), dtype=torch.float64, device=pair.device)
        content[place] = standing[large].double()
        content[place + 1] = n_seen.double()
        entry = 2 * (torch.arange(len(pair), device=pair.device) + owner + 1)
        content[entry] = y.double()
        content[entry + 1] = sums
        value = standing.int()
        value[large] = (-1 - place).int()
        return value, content


def _labels_of(modes: DeviceModes, owner: Any, row: Any) -> tuple[Any, Any]:
    """The labels of some rows, with the number of the bucket that owns each."""
    torch = optional("torch", "torch")
    begin = modes.first[row]
    n_labels = modes.first[row + 1] - begin
    if len(row) == 0 or bool((n_labels == 1).all()):
        return owner, begin
    stop = n_labels.cumsum(0)
    each = torch.repeat_interleave(torch.arange(len(row), device=row.device), n_labels)
    within = torch.arange(len(each), device=row.device) - (stop - n_labels)[each]
    return owner[each], begin[each] + within


def fill_slots(key: Any, value: Any, n_slots: int) -> tuple[Any, Any]:
    """Tags and values of the slots of a table, from its buckets in the order of their keys.

    A bucket lies in the first free slot from its place on; past the end, from the first slot on.
    """
    torch = optional("torch", "torch")
    number = torch.arange(len(key), device=key.device)
    free_before = running_max(places(key, n_slots) - number)
    slot = free_before + number
    n_past = int((slot >= n_slots).sum())
    if n_past:  # the last ones, which take the first slots that are free
        inside = len(key) - n_past
        nth = number[:n_past]
        slot[inside:] = nth + torch.searchsorted(free_before[:inside], nth, right=True)
    tag = torch.zeros(n_slots, dtype=torch.int16, device=key.device)
    values = torch.zeros(n_slots, dtype=torch.int32, device=key.device)
    tag[slot], values[slot] = tags(key), value
    return tag, values


def running_max(values: Any) -> Any:
    """The largest of each value and those before it.

    In rows of a square, since a device goes through one long row value by value.
    """
    torch = optional("torch", "torch")
    n, width = len(values), math.isqrt(len(values)) + 1
    rows = torch.full((width * width,), LOWEST, dtype=values.dtype, device=values.device)
    rows[:n] = values
    rows = rows.view(width, width).cummax(dim=1).values
    before = rows[:-1, -1].cummax(dim=0).values
    rows[1:] = torch.maximum(rows[1:], before[:, None])
    return rows.flatten()[:n]


def look_up(
    hashes: Any, tables: DeviceTables, label: Any, weight: Any, n_classes: int
) -> tuple[Any, Any]:
    """Class sums (n_scales, n_queries, n_classes), and the modes that stand for the buckets.

    ``hashes`` has shape (n_sequences, n_scales, n_queries). The modes have shape (n_tables,
    n_queries), -1 for none; see ``sampled_loops.look_up``.
    """
    torch = optional("torch", "torch")
    n_sequences, n_scales, n_queries = hashes.shape
    begin = tables.start[:-1, None]
    n_slots = (tables.start[1:] - tables.start[:-1])[:, None]
    keys = hashes.reshape(-1, n_queries)
    masks = hashes.new_tensor(tables.left_out_bits)[None, :, None]
    wanted = ((hashes & masks) == 0).view_as(keys)
    place, sought = places(keys, n_slots), tags(keys)
    slot = (begin + place).flatten()
    n_slots, begin = (x.expand_as(keys).flatten() for x in (n_slots, begin))
    found, sought = tables.tag[slot], sought.flatten()
    asking = ((found != sought) & (found != 0) & wanted.flatten()).nonzero()[:, 0]
    while len(asking):  # a table is half empty, so it ends
        start = begin[asking]
        slot[asking] = start + (slot[asking] - start + 1) % n_slots[asking]
        tag = tables.tag[slot[asking]]
        asking = asking[(tag != sought[asking]) & (tag != 0)]
    hit = ((tables.tag[slot] == sought) & wanted.flatten()).nonzero()[:, 0]
    value = tables.value[slot[hit]].long()
    met = torch.full((keys.numel(),), -1, dtype=torch.int32, device=keys.device)
    votes = torch.zeros(keys.numel() * n_classes, dtype=torch.float64, device=keys.device)
    alone = value >= 0
    row, one = value[alone], hit[alone]
    met[one] = row.int()
    votes[one * n_classes + label[row]] = weight[row]
    many = hit[~alone]
    place = tables.content_start[many // n_queries] - 1 - value[~alone]
    met[many] = tables.content[place].int()
    n_seen = tables.content[place + 1]
    for m in range(int(n_seen.max()) if len(n_seen) else 0):
        has = n_seen > m
        many, place, n_seen = many[has], place[has], n_seen[has]
        y = tables.content[place + 2 + 2 * m].long()
        votes[many * n_classes + y] = tables.content[place + 3 + 2 * m]
    sums = votes.view(n_sequences, n_scales, n_queries, n_classes).sum(dim=0)
    return sums, met.view(-1, n_queries)


def most_met(met: Any, scales: Ints, n_candidates: int, n_found: int) -> Any:
    """The modes that each query meets most, as ``sampled_loops.most_met`` finds them."""
    torch = optional("torch", "torch")
    n_tables, n_queries = met.shape
    none = torch.iinfo(torch.int32).max
    modes = torch.where((met < 0) | (met >= n_candidates), none, met).T
    modes, table = torch.sort(modes, dim=1, stable=True)
    is_first = modes != none
    weight = torch.as_tensor(scales, device=met.device)[table % len(scales)] * is_first
    is_first[:, 1:] &= modes[:, 1:] != modes[:, :-1]
    run = is_first.cumsum(dim=1).sub_(1).clamp_(min=0)
    total = torch.zeros_like(table).scatter_add_(1, run, weight).gather(1, run)
    # By weight; of equal ones the one that was met first.
    earlier = n_tables - 1 - table
    rank = torch.where(is_first, total * n_tables + earlier, -1)
    rank, place = rank.topk(min(n_found, n_tables), dim=1)
    found = modes.gather(1, place).long()
    # The lightest ones come last, and each kind in the order in which they were met.
    n_met = is_first.sum(dim=1, keepdim=True)
    lightest = rank[:, -1:] // n_tables
    is_last = (rank // n_tables == lightest) & (n_met > n_found)
    order = is_last * n_tables + table.gather(1, place)
    order[rank < 0] = 3 * n_tables
    found[rank < 0] = -1
    found = found.gather(1, order.argsort(dim=1))
    missing = found.new_full((n_queries, n_found - found.shape[1]), -1)
    return torch.cat([found, missing], dim=1)


def shared_leaves(codes: Any, stored: Any, ids: Any) -> Any:
    """K[i, j]: share of the columns in which query i has the leaf of stored mode ids[i, j]."""
    shared = (codes[:, None] == stored[ids.clamp(min=0)]).sum(dim=2)
    return shared.double().div_(codes.shape[1]).mul_(ids >= 0)


def shared_units(codes: Any, stored: Any, ids: Any, layers: list[tuple[Any, ...]]) -> Any:
    """K[i, j]: product over layers of the share of equal bits of query i and mode ids[i, j].

    A layer is its first and last-plus-one word, its size and its divisor.
    """
    torch = optional("torch", "torch")
    K = torch.ones(ids.shape, dtype=torch.float64, device=codes.device)
    near = ids.clamp(min=0)
    for first, stop, size, divisor in layers:
        differ = n_bits(codes[:, None, first:stop] ^ stored[near, first:stop]).sum(dim=2)
        K.mul_(size - differ.double()).div_(divisor)
    return K.mul_(ids >= 0)


def n_bits(word: Any) -> Any:
    """Number of bits that are set in each word."""
    word = word - (shifted(word, 1) & PAIRS)
    word = (word & FOURS) + (shifted(word, 2) & FOURS)
    word = (word + shifted(word, 4)) & BYTES
    return shifted(word * ONES, 56)
