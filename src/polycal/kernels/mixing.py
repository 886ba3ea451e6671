"""The numbers with which rows are hashed along sampled paths, on the CPU and on a GPU."""

from __future__ import annotations

# Multipliers of SplitMix64 and FNV-1a, whose bits are spread well.
MIX_A, MIX_B = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
FNV_PRIME = 0x100000001B3
WORD_BITS = 64
# Bits of units that are hashed at once.
HASHED_BITS = 32
# Slots of a table for each bucket.
SLOTS_PER_BUCKET = 2
