"""How a computation over the rows runs: threads, progress bars, device."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Execution:
    """Threads, progress bars and device of one call; not part of a fitted model."""

    n_jobs: int | None = None
    verbose: int = 0
    device: str | None = None  # a torch device for a network's modes; None is the CPU
