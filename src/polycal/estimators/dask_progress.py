"""The Dask cluster in use, if there is one, and how far its tasks are."""

from __future__ import annotations

import sys
from contextlib import suppress
from types import TracebackType
from typing import Any, NamedTuple, Self
from uuid import uuid4

from tqdm.auto import tqdm

# Bars of fits that run in this process, by topic.
_BARS: dict[str, Progress] = {}


class Worker(NamedTuple):
    """A worker process of a cluster."""

    address: str
    n_threads: int
    memory: int  # bytes, or 0 where there is no limit


def current_client() -> Any:
    """The client that Dask would compute with; None without a cluster."""
    distributed = sys.modules.get("distributed")
    if distributed is None:
        return None
    with suppress(ValueError):
        return distributed.get_client()
    return None


def workers_of(client: Any) -> list[Worker]:
    """The workers that a client knows of, in a fixed order."""
    known = client.scheduler_info(n_workers=-1)["workers"]
    return [
        Worker(address, int(facts["nthreads"]), int(facts.get("memory_limit") or 0))
        for address, facts in sorted(known.items())
    ]


class Progress:
    """A bar that counts partitions, each once, though a task may run again on another worker.

    Tasks tell of a partition by the events of the cluster, or straight away where they run in
    this process.
    """

    def __init__(self, verbose: int):
        # Without a bar there is nothing to tell.
        self.topic = f"polycal-{uuid4().hex}" if verbose else ""
        self._client = current_client() if verbose else None
        self._bar: Any = None
        self._seen: set[tuple[str, int]] = set()

    def __enter__(self) -> Self:
        if self._client is not None:
            self._client.subscribe_topic(self.topic, self._handle)
        elif self.topic:
            _BARS[self.topic] = self
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._client is not None:
            self._client.unsubscribe_topic(self.topic)
        _BARS.pop(self.topic, None)
        self._close()

    def begin(self, name: str, n_partitions: int) -> None:
        """Begin a pass over so many partitions."""
        self._close()
        self._seen = set()
        self._bar = tqdm(desc=name, unit="partition", total=n_partitions, disable=not self.topic)
        self._pass = name

    def done(self, name: str, number: int) -> None:
        """Count a partition, unless it was counted before."""
        if self._bar is not None and (name, number) not in self._seen:
            self._seen.add((name, number))
            self._bar.update()

    def complete(self) -> None:
        """All partitions of this pass are done, though the last events may be on their way."""
        if self._bar is not None:
            self._bar.update(self._bar.total - self._bar.n)

    def _handle(self, event: tuple[Any, Any]) -> None:
        which, name, number = event[1]
        if which == self._pass:
            self.done(name, number)

    def _close(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None


def told(topic: str, which: str, name: str, number: int) -> None:
    """Tell of a partition that is done in a pass, from within its task."""
    if not topic:
        return
    if topic in _BARS:
        _BARS[topic].done(name, number)
        return
    with suppress(ValueError):  # no worker, and no bar
        worker = sys.modules["distributed"].get_worker()
        worker.log_event(topic, (which, name, number))
