"""Faults while polycal works: killed, interrupted, no room on the disk, no memory, no permission.

A clock that jumps counts as one, too. A full disk is a small tmpfs, which only root may mount;
``disk`` is a limit of the size of a file, which stands for it elsewhere.

    python -m stress.faults --times 100
    python -m stress.faults --times 100 --work stream --happening kill --kept kept.jsonl

Each time a forked child does a piece of work, and something happens to it at a random moment. After
that nothing half-written may be taken for whole, and a second start must complete.
"""

from __future__ import annotations

import argparse
import errno
import json
import os
import resource
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from stress import works
from stress.watch import Tally, quiet
from stress.works import Bench, Work

# How a child ends: all is done; interrupted; refused with an error that names the cause; otherwise.
DONE, INTERRUPTED, REFUSED, WRONG = 0, 130, 3, 4
NOBODY = 65534
# Seconds that the clock may jump, either way.
JUMP = 10 * 365 * 86_400
# Bytes of the small disk, and the most of them that are left free while it is full.
DISK, LEFT_FREE = 8 << 20, 60_000


def in_fork(work: Callable[[], None], before: Callable[[], None]) -> int:
    """The process id of a child that does the work and ends with one of the numbers above."""
    child = os.fork()
    if child:
        return child
    status = WRONG
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        before()
        with quiet():
            work()
        status = DONE
    except KeyboardInterrupt:
        status = INTERRUPTED
    except SystemError as error:  # an interrupt at the edge of a compiled function
        if isinstance(error.__cause__, KeyboardInterrupt):
            status = INTERRUPTED
    except (MemoryError, PermissionError):
        status = REFUSED
    except OSError as error:
        if error.errno in (errno.EFBIG, errno.ENOSPC):
            status = REFUSED
        else:
            os.write(2, f"{error!r}\n".encode())
    except BaseException as error:
        os.write(2, f"{error!r}\n".encode())
    os._exit(status)


def ended(child: int, seconds: float = 120) -> int:
    """The status of a child, negative for a signal; one that does not end is killed."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return -99


def _signalled(number: int) -> Callable[..., int]:
    def happen(work: Work, lasts: float, rng: Any) -> int:
        child = in_fork(work.do, lambda: None)
        time.sleep(rng.random() * lasts)
        os.kill(child, number)
        return ended(child)

    return happen


def _limited(kind: int, smallest: int, largest: int) -> Callable[..., int]:
    def happen(work: Work, lasts: float, rng: Any) -> int:
        room = int(rng.integers(smallest, largest))

        def limit() -> None:
            used = 0
            if kind == resource.RLIMIT_AS:
                pages = int(Path("/proc/self/statm").read_text().split()[0])
                used = pages * resource.getpagesize()
            else:
                signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(kind, (used + room, used + room))

        return ended(in_fork(work.do, limit))

    return happen


def _forbidden(work: Work, lasts: float, rng: Any) -> int:
    folder = work.bench.folder
    folder.chmod(0o555)

    def give_up_rights() -> None:
        if os.getuid() == 0:
            os.setuid(NOBODY)

    try:
        return ended(in_fork(work.do, give_up_rights))
    finally:
        folder.chmod(0o755)


def _clock_jumps(work: Work, lasts: float, rng: Any) -> int:
    """Each question for the time gets another answer, and files are of other times."""

    def set_clock() -> None:
        now = time.time()
        time.time = lambda: now + rng.uniform(-JUMP, JUMP)
        time.time_ns = lambda: int(1e9 * time.time())
        for path in work.bench.folder.rglob("*"):
            os.utime(path, (time.time(), time.time()))

    return ended(in_fork(work.do, set_clock))


def _full(work: Work, lasts: float, rng: Any) -> int:
    """Other files leave so little room on the disk."""
    free, filler = int(rng.integers(LEFT_FREE)), work.bench.folder / "filler"
    disk = os.statvfs(work.bench.folder)
    filler.write_bytes(bytes(max(0, disk.f_bavail * disk.f_frsize - free)))
    try:
        return ended(in_fork(work.do, lambda: None))
    finally:
        filler.unlink()


@contextmanager
def small_disk() -> Iterator[str]:
    """A folder that is a disk of its own."""
    with tempfile.TemporaryDirectory() as folder:
        mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", folder]
        subprocess.run(mount, check=True)
        try:
            yield folder
        finally:
            subprocess.run(["umount", "--lazy", folder], check=True)


# What happens: how, how a child may end, and whether temporary files may be left.
HAPPENINGS: dict[str, tuple[Callable[..., int], tuple[int, ...], bool]] = {
    "kill": (_signalled(signal.SIGKILL), (DONE, -signal.SIGKILL), True),
    "interrupt": (_signalled(signal.SIGINT), (DONE, INTERRUPTED), False),
    "disk": (_limited(resource.RLIMIT_FSIZE, 0, LEFT_FREE), (DONE, REFUSED), False),
    "full": (_full, (DONE, REFUSED), False),
    "memory": (_limited(resource.RLIMIT_AS, 0, 40 << 20), (DONE, REFUSED), False),
    "forbidden": (_forbidden, (REFUSED,), False),
    "clock": (_clock_jumps, (DONE,), False),
}
WORKS: dict[str, type[Work]] = {
    "save": works.Save,
    "predict": works.Predict,
    "parquet": works.Parquet,
    "report": works.Report,
    "refit": works.Refit,
    "load": works.Load,
    "monitor": works.Monitor,
    "stream": works.Stream,
    "study": works.Study,
}
WORDS = {DONE: "good", INTERRUPTED: "good", REFUSED: "refused"}


def run(happening: str, name: str, times: int, seed: int, kept: Path | None = None) -> Tally:
    """Let something happen to a piece of work so many times, but for the cases that are kept."""
    tally = Tally()
    known = _known(kept, f"{happening} {name} {seed}")
    for outcome, description in known.values():
        tally.add(outcome, description)
    with small_disk() if happening == "full" else tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        bench = Bench.make(Path(folder))
        work = WORKS[name](bench)
        lasts = 1.1 * _seconds(work)
        for case in sorted(set(range(times)) - set(known)):
            rng = np.random.default_rng([seed, case])
            word, wrong = _case(happening, work, lasts, rng, again=case % 10 == 0)
            description = f"{happening} {name} {case}: {wrong}"
            tally.add(word, description)
            if kept:
                with kept.open("a") as file:
                    key = f"{happening} {name} {seed}"
                    file.write(json.dumps([key, case, word, description]) + "\n")
    return tally


def _known(kept: Path | None, key: str) -> dict[int, tuple[str, str]]:
    """Cases of an earlier start."""
    lines = kept.read_text().splitlines() if kept and kept.exists() else []
    found = [json.loads(line) for line in lines]
    return {case: (word, what) for of, case, word, what in found if of == key}


def _case(happening: str, work: Work, lasts: float, rng: Any, again: bool) -> tuple[str, list[str]]:
    """The outcome of one case, and what was wrong."""
    happen, good_ends, may_leave = HAPPENINGS[happening]
    work.reset()
    status = happen(work, lasts, rng)
    wrong = [*work.bench.model_faults(), *work.faults()]
    if status not in good_ends:
        wrong.append(f"status {status}")
    left = work.bench.leftovers()
    if left and not may_leave:
        wrong.append(f"temporary files {[path.name for path in left]}")
    for path in left:
        path.unlink()
    if not wrong and again:
        wrong = _second_start(work)
    return "broken" if wrong else WORDS.get(status, "good"), wrong


def _seconds(work: Work) -> float:
    """How long the work takes once loops are compiled and modules imported."""
    work.reset()
    with quiet():
        work.do()
        assert not [*work.faults(), *work.lacks()]
        work.reset()
        start = time.monotonic()
        work.do()
    return time.monotonic() - start


def _second_start(work: Work) -> list[str]:
    """What is wrong after another start, which completes the work."""
    with quiet():
        work.do()
    return [*chain(work.bench.model_faults(), work.faults(), work.lacks())]


def main() -> int:
    """Run the cases of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--times", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--happening", choices=HAPPENINGS, action="append")
    parser.add_argument("--work", choices=WORKS, action="append")
    parser.add_argument("--kept", type=Path, help="file of cases that are done; a start goes on")
    asked = parser.parse_args()
    total = Tally()
    for happening in asked.happening or HAPPENINGS:
        for work in asked.work or WORKS:
            if happening == "forbidden" and not WORKS[work].writes:
                continue
            if happening == "full" and os.getuid():
                print("full: only root may mount a small disk")
                continue
            tally = run(happening, work, asked.times, asked.seed, asked.kept)
            tally.report(f"{happening} during {work}")
            total.join(tally)
    return total.report("faults")


if __name__ == "__main__":
    raise SystemExit(main())
