"""What a case of a stress run may take, and what came of all cases."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

# CPU seconds that a case may take, and seconds after which it is stopped. The first case of a kind
# may compile a loop, so that a slow case is tried again.
LONGEST, STOPPED = 5, 120
# Memory beyond what the process has, in bytes.
ROOM = 4 << 30
# Outcomes that are no failure.
GOOD = ("refused", "refused rows", "same answers", "other answers", "good")
MOST_SHOWN = 20


class TooSlowError(BaseException):
    """A case took longer than it may. No ``except Exception`` hides it."""


@contextmanager
def time_limit(seconds: int = STOPPED) -> Iterator[None]:
    """Raise ``TooSlowError`` in the main thread after this time."""

    def stop(*_: object) -> None:
        raise TooSlowError(f"longer than {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def timed(case: Callable[[], tuple[str, str]], longest: float = LONGEST) -> tuple[str, str]:
    """The outcome of a case and a detail; "slow" where it takes too much CPU time twice."""
    for _ in range(2):
        start = time.process_time()
        try:
            with time_limit():
                found = case()
        except TooSlowError as error:
            return "slow", str(error)
        if time.process_time() - start < longest:
            return found
    return "slow", f"{time.process_time() - start:.1f} s"


def limit_memory(room: int = ROOM) -> None:
    """Let this process take no more than this beside what it has."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + room
    resource.setrlimit(resource.RLIMIT_AS, (most, resource.getrlimit(resource.RLIMIT_AS)[1]))


@contextmanager
def quiet() -> Iterator[None]:
    """Forged numbers overflow; what counts is the answer."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@dataclass
class Tally:
    """How many cases had each outcome, and the first that failed."""

    counts: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    def add(self, outcome: str, description: str) -> None:
        """Count a case."""
        self.counts[outcome] += 1
        if outcome not in GOOD:
            self.failures.append(f"{outcome}: {description}")

    def join(self, other: Tally) -> None:
        """Add the cases of another tally."""
        self.counts += other.counts
        self.failures += other.failures

    def report(self, title: str) -> int:
        """Print the counts; returns the exit status."""
        counts = ", ".join(f"{n} {outcome}" for outcome, n in sorted(self.counts.items()))
        print(f"{title}: {sum(self.counts.values())} cases: {counts}")
        for line in self.failures[:MOST_SHOWN]:
            print("  ", line[:400])
        return 1 if self.failures else 0


def in_children(
    module: str, jobs: list[list[str]], minutes: float, show: Callable[[str], None] = print
) -> Tally:
    """Run ``python -m module --worker N ...`` for each job, one after another.

    A worker appends a line for each case that it begins and ends, so that a crash is counted, with
    the case that it happened in, and the worker is started again behind it.
    """
    total = Tally()
    for job in jobs:
        first = 0
        while True:
            with tempfile.NamedTemporaryFile("w+", suffix=".jsonl") as log:
                command = [sys.executable, "-m", module, "--worker", log.name]
                command += ["--first", str(first), *job]
                environment = os.environ | {"OMP_NUM_THREADS": "1"}
                done = subprocess.run(command, timeout=60 * minutes, env=environment, check=False)
                lines = [json.loads(line) for line in log.read().splitlines()]
            ended = [line for line in lines if "outcome" in line]
            for line in ended:
                total.add(line["outcome"], f"{' '.join(job)}: {line['case']}")
            if done.returncode == 0:
                break
            begun = [line for line in lines if "begun" in line]
            if not begun:
                raise RuntimeError(f"{command} ended with {done.returncode} before its first case")
            total.add("crash", f"{' '.join(job)}: status {done.returncode} in {begun[-1]}")
            first = begun[-1]["begun"] + 1
        show(f"{' '.join(job)}: so far {dict(total.counts)}")
    return total


class Log:
    """The file in which a worker says what it does."""

    def __init__(self, path: str) -> None:
        self.file = open(path, "a", buffering=1)  # noqa: SIM115

    def begin(self, number: int) -> None:
        """Say that a case begins."""
        self.file.write(json.dumps({"begun": number}) + "\n")

    def end(self, outcome: str, case: str) -> None:
        """Say what came of it."""
        self.file.write(json.dumps({"outcome": outcome, "case": case[:600]}) + "\n")
