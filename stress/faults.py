"""Faults while polycal works: killed, interrupted, no room on the disk, no memory, no permission.

    python -m stress.faults --times 100

Each time a forked child does a piece of work, and something happens to it at a random moment. After
that nothing half-written may be taken for whole, and a second start must complete.
"""

from __future__ import annotations

import argparse
import errno
import os
import resource
import signal
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier

import polycal
from polycal import GeodesicCalibrator
from polycal.cli.files import Source
from polycal.cli.predict import predict_file
from stress.watch import Tally, quiet

# How a child ends: all is done; interrupted; refused with an error that names the cause; otherwise.
DONE, INTERRUPTED, REFUSED, WRONG = 0, 130, 3, 4
NOBODY = 65534
N_ROWS = 1500


@dataclass
class Bench:
    """A folder, data, and two models of different answers."""

    folder: Path
    X: np.ndarray
    y: np.ndarray
    models: tuple[GeodesicCalibrator, GeodesicCalibrator]
    answers: tuple[np.ndarray, np.ndarray]

    @classmethod
    def make(cls, folder: Path) -> Bench:
        """Fit the models and write the table."""
        X, y = make_classification(N_ROWS, n_features=6, n_informative=4, random_state=0)
        with quiet():
            models = (cls.fit(X, y, 0), cls.fit(X, y, 1))
            answers = tuple(model.predict_proba(X[:20]) for model in models)
        pd.DataFrame(X, columns=list("abcdef")).to_csv(folder / "rows.csv", index=False)
        return cls(folder, X, y, models, answers)  # type: ignore[arg-type]

    @staticmethod
    def fit(X: np.ndarray, y: np.ndarray, seed: int) -> GeodesicCalibrator:
        """A fitted model."""
        forest = RandomForestClassifier(20, random_state=seed)
        model = GeodesicCalibrator(forest, calibration="holdout", random_state=seed)
        return model.fit(pd.DataFrame(X, columns=list("abcdef")), y)

    @property
    def path(self) -> Path:
        """The model file."""
        return self.folder / "m.polycal"

    def save(self) -> None:
        """Write the second model over the first."""
        self.models[1].save(self.path)

    def predict(self) -> None:
        """Write predictions of the first model into a CSV file."""
        predict_file(
            self.models[0],
            Source(self.folder / "rows.csv"),
            self.folder / "out.csv",
            [],
            "",
            300,
            False,
        )

    def report(self) -> None:
        """Write a report."""
        polycal.report(self.models[0], self._frame(200), self.y[:200], path=self.folder / "r.html")

    def refit(self) -> None:
        """Fit, and write the model."""
        self.fit(self.X, self.y, 1).save(self.path)

    def load(self) -> None:
        """Read the model and ask it."""
        polycal.load(self.path).predict_proba(self._frame(20))

    def _frame(self, n: int) -> pd.DataFrame:
        return pd.DataFrame(self.X[:n], columns=list("abcdef"))

    def faults(self) -> list[str]:
        """What is wrong in the folder: a file that is half, or that should not be there."""
        found = []
        try:
            P = polycal.load(self.path).predict_proba(self._frame(20))
            if not any(np.array_equal(P, known) for known in self.answers):
                found.append("the model file holds another model")
        except Exception as error:
            found.append(f"the model file cannot be read: {error!r}")
        rows = self.folder / "out.csv"
        if rows.exists() and len(rows.read_text("utf-8").splitlines()) != N_ROWS + 1:
            found.append("out.csv is not whole")
        page = self.folder / "r.html"
        if page.exists() and not page.read_text("utf-8").rstrip().endswith("</html>"):
            found.append("r.html is not whole")
        return found

    def leftovers(self) -> list[Path]:
        """Temporary files."""
        return [path for path in self.folder.iterdir() if path.name.endswith(".part")]


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
        status = REFUSED if error.errno in (errno.EFBIG, errno.ENOSPC) else WRONG
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
    def happen(bench: Bench, work: Callable[[], None], lasts: float, rng: Any) -> int:
        child = in_fork(work, lambda: None)
        time.sleep(rng.random() * lasts)
        os.kill(child, number)
        return ended(child)

    return happen


def _limited(kind: int, smallest: int, largest: int) -> Callable[..., int]:
    def happen(bench: Bench, work: Callable[[], None], lasts: float, rng: Any) -> int:
        room = int(rng.integers(smallest, largest))

        def limit() -> None:
            used = 0
            if kind == resource.RLIMIT_AS:
                pages = int(Path("/proc/self/statm").read_text().split()[0])
                used = pages * resource.getpagesize()
            else:
                signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(kind, (used + room, used + room))

        return ended(in_fork(work, limit))

    return happen


def _forbidden(bench: Bench, work: Callable[[], None], lasts: float, rng: Any) -> int:
    bench.folder.chmod(0o555)

    def give_up_rights() -> None:
        if os.getuid() == 0:
            os.setuid(NOBODY)

    try:
        return ended(in_fork(work, give_up_rights))
    finally:
        bench.folder.chmod(0o755)


# What happens: how, how a child may end, and whether temporary files may be left.
HAPPENINGS: dict[str, tuple[Callable[..., int], tuple[int, ...], bool]] = {
    "kill": (_signalled(signal.SIGKILL), (DONE, -signal.SIGKILL), True),
    "interrupt": (_signalled(signal.SIGINT), (DONE, INTERRUPTED), False),
    "disk": (_limited(resource.RLIMIT_FSIZE, 0, 60_000), (DONE, REFUSED), False),
    "memory": (_limited(resource.RLIMIT_AS, 0, 40 << 20), (DONE, REFUSED), False),
    "forbidden": (_forbidden, (REFUSED,), False),
}
WORKS = ("save", "predict", "report", "refit", "load")
WRITES = WORKS[:3]


def run(happening: str, work: str, times: int, seed: int) -> Tally:
    """Let something happen to a piece of work so many times."""
    tally = Tally()
    happen, good_ends, may_leave = HAPPENINGS[happening]
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        bench = Bench.make(Path(folder))
        todo = getattr(bench, work)
        bench.models[0].save(bench.path)
        with quiet():
            todo()  # compiled, imported
            start = time.monotonic()
            todo()
        lasts = 1.1 * (time.monotonic() - start)
        for case in range(times):
            bench.models[0].save(bench.path)
            for name in ("out.csv", "r.html"):
                (bench.folder / name).unlink(missing_ok=True)
            status = happen(bench, todo, lasts, np.random.default_rng([seed, case]))
            wrong = bench.faults()
            if status not in good_ends:
                wrong.append(f"status {status}")
            left = bench.leftovers()
            if left and not may_leave:
                wrong.append(f"temporary files {[path.name for path in left]}")
            for path in left:
                path.unlink()
            if not wrong and case % 10 == 0:
                with quiet():
                    todo()  # a second start completes
                wrong = bench.faults()
            word = {DONE: "good", INTERRUPTED: "good", REFUSED: "refused"}.get(status, "good")
            tally.add("broken" if wrong else word, f"{happening} {work} {case}: {wrong}")
    return tally


def main() -> int:
    """Run the cases of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--times", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--happening", choices=HAPPENINGS, action="append")
    parser.add_argument("--work", choices=WORKS, action="append")
    asked = parser.parse_args()
    total = Tally()
    for happening in asked.happening or HAPPENINGS:
        for work in asked.work or WORKS:
            if happening == "forbidden" and work not in WRITES:
                continue
            tally = run(happening, work, asked.times, asked.seed)
            tally.report(f"{happening} during {work}")
            total.join(tally)
    return total.report("faults")


if __name__ == "__main__":
    raise SystemExit(main())
