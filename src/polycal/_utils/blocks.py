"""Work in blocks of rows: bounded memory, threads, and a progress bar."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from typing import TypeVar

import numpy as np
from joblib import effective_n_jobs
from sklearn import get_config
from tqdm.auto import tqdm

from .arrays import Array

T = TypeVar("T")
# More threads than this bring no speed.
MOST_JOBS = 256
# Least rows of a block, because each block reads all stored modes.
FEW_ROWS = 8


def map_blocks(
    function: Callable[[slice], T],
    n_rows: int,
    bytes_per_row: float,
    *,
    n_jobs: int | None = None,
    verbose: int = 0,
    desc: str = "",
    block_bytes: float = math.inf,
) -> list[T]:
    """Call ``function`` on slices that cover ``range(n_rows)``; results in row order.

    Blocks that run at the same time stay within scikit-learn's ``working_memory`` together, and
    each within ``block_bytes`` or a few rows.
    Blocks run in threads, because compiled loops release the interpreter lock. The threads are
    not joblib's, which polls for results every 10 ms only.
    """
    jobs = min(effective_n_jobs(n_jobs), MOST_JOBS)
    small = max(block_bytes, FEW_ROWS * bytes_per_row)
    budget = min(get_config()["working_memory"] * 2**20 / jobs, small)
    pieces = 8 * jobs if verbose else jobs  # a progress bar needs steps; large blocks are faster
    size = min(max(1, int(budget / max(bytes_per_row, 1))), max(64, -(-n_rows // pieces)))
    blocks = [slice(start, min(start + size, n_rows)) for start in range(0, n_rows, size)]
    if len(blocks) == 1:  # as in a prediction of one row, which a bar and threads would slow down
        return [function(blocks[0])]
    bar = tqdm(total=n_rows, desc=desc, unit="row", disable=not verbose, leave=False)
    results = []
    with bar, ExitStack() as stack:
        stream: Iterator[T] = map(function, blocks)
        if jobs > 1:
            pool = stack.enter_context(ThreadPoolExecutor(jobs))
            with suppress(RuntimeError):  # the interpreter is shutting down and starts no threads
                stream = pool.map(function, blocks)
        for block, result in zip(blocks, stream, strict=True):
            results.append(result)
            bar.update(block.stop - block.start)
    return results


def concatenate(parts: list[Array], n_jobs: int | None) -> Array:
    """``np.concatenate`` in threads; the list is emptied, so that no part is kept twice."""
    stop = np.cumsum([len(part) for part in parts])
    out = np.empty(int(stop[-1]), dtype=parts[0].dtype)

    def copy(block: slice) -> None:
        for i in range(block.start, block.stop):
            out[stop[i] - len(parts[i]) : stop[i]] = parts[i]
            parts[i] = parts[i][:0].copy()

    map_blocks(copy, len(parts), 1.0, n_jobs=n_jobs, block_bytes=0)
    parts.clear()
    return out
