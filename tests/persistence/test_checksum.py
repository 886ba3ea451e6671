"""The checksum of a file."""

from __future__ import annotations

import numpy as np

from polycal.persistence.checksum import xxh64


def test_the_checksum_is_xxh64():
    """Two values of the reference implementation, and the effect of each single bit."""
    content = np.arange(64, dtype=np.uint8)
    assert xxh64(content[:32]) == 0xCBF59C5116FF32B4
    assert xxh64(content) == 0xF7C67301DB6713F0
    sums = {xxh64(content[:45]), xxh64(content[:46]), xxh64(np.append(content[:45], np.uint8(0)))}
    for bit in range(45 * 8):
        other = content[:45].copy()
        other[bit // 8] ^= np.uint8(1 << bit % 8)
        sums.add(xxh64(other))
    assert len(sums) == 3 + 45 * 8
