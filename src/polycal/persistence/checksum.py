"""XXH64 over long buffers, in threads: several times as fast as a cryptographic hash.

It detects damage, not forgery: a forger can change the checksum too.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from hashlib import sha256

import numpy as np

from .._utils.arrays import Bytes
from .._utils.compiled import njit

# The payload is hashed in pieces of this size (a multiple of 32), which threads share.
PIECE = 1 << 22
P1 = np.uint64(0x9E3779B185EBCA87)
P2 = np.uint64(0xC2B2AE3D27D4EB4F)
P3 = np.uint64(0x165667B19E3779F9)
P4 = np.uint64(0x85EBCA77C2B2AE63)


class Checksum:
    """SHA-256 of the XXH64 sums of a payload's pieces; ``head`` goes before them."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(min(4, os.cpu_count() or 1))
        self._sums: list[Future[int]] = []

    def __enter__(self) -> Checksum:
        return self

    def __exit__(self, *error: object) -> None:
        self._pool.shutdown()

    def add(self, piece: Bytes) -> None:
        """The next piece, as bytes; all but the last have the length PIECE."""
        self._sums.append(self._pool.submit(xxh64, piece))

    def add_after(self, fill: Callable[[], None], piece: Bytes) -> None:
        """The next piece, which ``fill`` fills first, in the same thread."""
        self._sums.append(self._pool.submit(_filled_xxh64, fill, piece))

    def hex(self, head: bytes) -> str:
        """The checksum of ``head`` and all pieces, as hexadecimal digits."""
        sums = np.array([future.result() for future in self._sums], dtype="<u8")
        return sha256(head + sums.tobytes()).hexdigest()


def _filled_xxh64(fill: Callable[[], None], piece: Bytes) -> int:
    fill()
    return xxh64(piece)


def pieces(buffers: Iterable[Bytes]) -> Iterable[Bytes]:
    """Buffers of bytes, one after another, cut into equal pieces; copies only at the seams."""
    seam: list[Bytes] = []
    room = PIECE
    for buffer in buffers:
        while len(buffer):
            part, buffer = buffer[:room], buffer[room:]
            seam.append(part)
            room -= len(part)
            if room == 0:
                yield seam[0] if len(seam) == 1 else np.concatenate(seam)
                seam, room = [], PIECE
    if seam:
        yield np.concatenate(seam)


def xxh64(content: Bytes) -> int:
    """XXH64 (seed 0) of bytes, padded with zeros to a multiple of 32, and their true number.

    For a positive multiple of 32 bytes it is XXH64 itself.
    """
    n = len(content)
    end = n - n % 32
    words = content[:end]
    if words.ctypes.data % 8:
        words = words.copy()
    last = np.zeros(32 if n % 32 else 0, dtype=np.uint8)
    last[: n - end] = content[end:]
    return int(_xxh64(words.view(np.uint64), last.view(np.uint64), np.uint64(n)))


@njit(nogil=True, cache=True)
def _rotated(word, bits):
    return (word << np.uint64(bits)) | (word >> np.uint64(64 - bits))


@njit(nogil=True, cache=True)
def _round(lane, word):
    return _rotated(lane + word * P2, 31) * P1


@njit(nogil=True, cache=True)
def _lanes(words, a, b, c, d):
    for i in range(0, len(words), 4):
        a = _round(a, words[i])
        b = _round(b, words[i + 1])
        c = _round(c, words[i + 2])
        d = _round(d, words[i + 3])
    return a, b, c, d


@njit(nogil=True, cache=True)
def _xxh64(words, last, n):
    zero = np.uint64(0)
    a, b, c, d = _lanes(words, P1 + P2, P2, zero, zero - P1)
    a, b, c, d = _lanes(last, a, b, c, d)
    total = _rotated(a, 1) + _rotated(b, 7) + _rotated(c, 12) + _rotated(d, 18)
    for lane in (a, b, c, d):
        total = (total ^ _round(zero, lane)) * P1 + P4
    total += n
    total = (total ^ (total >> np.uint64(33))) * P2
    total = (total ^ (total >> np.uint64(29))) * P3
    return total ^ (total >> np.uint64(32))
