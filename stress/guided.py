"""Damaged files that reach ever more of the program: fuzzing that is guided by coverage.

    python -m stress.guided --cases 20000
    python -m stress.guided --cases 2000 --target history

Each case changes an input of the corpus, which begins with one good file, and reads it while the
steps from line to line inside polycal are recorded. An input that makes a step which no earlier
one made joins the corpus, so that later cases begin where it got. Half of the model files get a
checksum that fits.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_iris
from sklearn.tree import DecisionTreeClassifier

import polycal
from polycal import GeodesicCalibrator
from polycal.cli.columns import typed
from polycal.cli.files import Source
from polycal.cli.roles import decide
from polycal.monitoring.history import History
from polycal.persistence.checksum import Checksum, pieces
from polycal.persistence.container import NO_SUM, _unsummed
from stress import forge, readers
from stress.watch import GOOD, Log, Tally, in_children, limit_memory, quiet, timed

PACKAGE = str(Path(polycal.__file__).parent) + os.sep
# Bytes of an input: repeated parts should not grow without end.
LONGEST_INPUT = 200_000
MARK = b'"checksum":"'
# Numbers and words of JSON, put in place of others.
TOKENS = (b"null", b"true", b"[]", b"{}", b'""', b"-1", b"0", b"1e999", b"NaN", b"9" * 30, b"0.5")
Outcome = tuple[str, str]
Steps = set[tuple[int, int, int]]


@contextmanager
def recorded(steps: Steps) -> Iterator[None]:
    """Note each step from a line of polycal to the next in the same call."""

    def enter(frame: Any, event: str, argument: Any) -> Any:
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        code, last = id(frame.f_code), frame.f_lineno

        def step(frame: Any, event: str, argument: Any) -> Any:
            nonlocal last
            if event == "line":
                steps.add((code, last, frame.f_lineno))
                last = frame.f_lineno
            elif event == "exception":
                steps.add((code, last, -1))
            return step

        return step

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        yield
    finally:
        sys.settrace(before)


def mended(content: bytes) -> bytes:
    """A model file with the checksum of its content, where there is a place for one."""
    length = int.from_bytes(content[:8], "little")
    raw, payload = content[8 : 8 + length], content[8 + length :]
    start = raw.find(MARK) + len(MARK)
    if raw.find(MARK) < 0 or len(raw) < start + len(NO_SUM):
        return content
    with Checksum() as checksum:
        for piece in pieces([np.frombuffer(payload, np.uint8)] if payload else []):
            checksum.add(piece)
        total = checksum.hex(content[:8] + _unsummed(raw)).encode()
    return content[:8] + raw[:start] + total + raw[start + len(total) :] + payload


def mended_length(content: bytes, before: int) -> bytes:
    """A model file that says how long its header is after so many bytes more or fewer."""
    length = int.from_bytes(content[:8], "little") + len(content) - before
    return max(length, 0).to_bytes(8, "little") + content[8:]


def token(content: bytes, rng: np.random.Generator) -> tuple[bytes, str]:
    """Another value in place of one of JSON, in the first bytes, where the description is."""
    found = [i for i, byte in enumerate(content[:20_000]) if byte in b":,[{"]
    if not found:
        return content, "nothing"
    at = found[int(rng.integers(len(found)))] + 1
    end = at
    while end < len(content) and content[end] not in b",:]}[{":
        end += 1
    word = TOKENS[int(rng.integers(len(TOKENS)))]
    return content[:at] + word + content[end:], f"{word!r} at {at}"


class Target:
    """A kind of file: a good one, how it is damaged, and what reading it must bring."""

    name = ""

    def __init__(self, folder: Path) -> None:
        self.path = folder / self.name
        self.good = self.make()

    def make(self) -> bytes:
        """The content of a good file."""
        raise NotImplementedError

    def damage(self, content: bytes, rng: np.random.Generator) -> tuple[bytes, str]:
        """A changed copy."""
        return readers.mutant(content, rng) if content else (b"x", "one byte")

    def read(self) -> Outcome:
        """The outcome of reading the file."""
        raise NotImplementedError


class Model(Target):
    """A model file, and the answers of the model."""

    name = "m.polycal"

    def make(self) -> bytes:
        X, y = load_iris(return_X_y=True)
        tree = DecisionTreeClassifier(max_depth=3, random_state=0)
        options = {"calibration": "holdout", "n_hyperplanes": 8, "random_state": 0}
        with quiet():
            GeodesicCalibrator(tree, **options).fit(X, y).save(self.path)
        self.rows = np.vstack([X[::15], X[:2] + 30.0])
        self.expected = polycal.load(self.path).predict_proba(self.rows)
        return self.path.read_bytes()

    def damage(self, content: bytes, rng: np.random.Generator) -> tuple[bytes, str]:
        how = rng.random()
        if how < 0.5:
            found, what = token(content, rng)
            found = mended_length(found, len(content))
        else:
            found, what = super().damage(content, rng)
        if rng.random() < 0.5:
            return mended(found), f"{what}, checksum mended"
        return found, what

    def read(self) -> Outcome:
        return forge.judge(self.path, self.rows, self.expected)


class Table(Target):
    """A table, as ``polycal predict`` reads it."""

    def make(self) -> bytes:
        return readers.write(self.name[1:], self.path)

    def read(self) -> Outcome:
        try:
            with quiet():
                frame = Source(self.path).read()
                typed(frame, decide(frame, {}, [None]))
        except (ValueError, OSError) as error:
            clear = len(str(error)) >= 20
            return "refused" if clear else "wrong error", str(error)
        except Exception as error:
            return "wrong error", repr(error)
        return "good", ""


class Csv(Table):
    """A CSV file."""

    name = "t.csv"


class Tsv(Table):
    """A table whose columns tabs separate."""

    name = "t.tsv"


class Parquet(Table):
    """A Parquet file."""

    name = "t.parquet"


class Monitored(Target):
    """The history of a monitor; what was read must go on."""

    name = "history.json"

    def make(self) -> bytes:
        X, y = load_iris(return_X_y=True)
        tree = DecisionTreeClassifier(max_depth=3, random_state=0)
        options = {"calibration": "holdout", "n_hyperplanes": 8, "random_state": 0}
        with quiet():
            self.model = GeodesicCalibrator(tree, **options).fit(X, y)
            history = History(self.model, 0.01, 0.01, 0.01)
            history.add("one", X[:40])
            history.add("two", X[40:90])
            history.save(self.path)
        return self.path.read_bytes()

    def damage(self, content: bytes, rng: np.random.Generator) -> tuple[bytes, str]:
        return token(content, rng) if rng.random() < 0.7 else super().damage(content, rng)

    def read(self) -> Outcome:
        try:
            with quiet():
                history = History.load(self.path, self.model)
        except (ValueError, OSError) as error:
            clear = len(str(error)) >= 20
            return "refused" if clear else "wrong error", str(error)
        except Exception as error:
            return "wrong error", repr(error)
        try:
            history.save(self.path)
        except Exception as error:
            return "invalid", f"cannot be saved again: {error!r}"
        numbers = [day.p_value for day in history.days] + [day.share_out for day in history.days]
        if not all(0 <= number <= 1 for number in numbers):
            return "invalid", f"shares {numbers}"
        return "good", ""


TARGETS: dict[str, Callable[[Path], Target]] = {
    "model": Model,
    "csv": Csv,
    "tsv": Tsv,
    "parquet": Parquet,
    "history": Monitored,
}


def run(name: str, n_cases: int, seed: int, first: int = 0, log: Log | None = None) -> Tally:
    """Read damaged files of a kind, and damage those further that reached something new."""
    tally = Tally()
    fast = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with tempfile.TemporaryDirectory(dir=fast) as folder:
        target = TARGETS[name](Path(folder))
        known: Steps = set()
        with recorded(known):
            assert target.read()[0] in ("good", "same answers")
        corpus, n_first = [target.good], len(known)
        for case in range(first, n_cases):
            rng = np.random.default_rng([seed, list(TARGETS).index(name), case])
            if log:
                log.begin(case)
            content, told = corpus[_place(len(corpus), rng)], []
            for _ in range(int(rng.choice([1, 1, 2, 4]))):
                content, what = target.damage(content, rng)
                told.append(what)
            content = content[:LONGEST_INPUT]
            target.path.write_bytes(content)
            steps: Steps = set()
            with recorded(steps):
                outcome, detail = timed(target.read)
            if steps - known:
                known |= steps
                corpus.append(content)
            digest = hashlib.sha256(content).hexdigest()[:12]
            case_told = f"case {case} ({digest}): {'; '.join(told)} -> {detail}"
            tally.add(outcome, case_told)
            if outcome not in GOOD:
                _keep(name, case, content)
            if log:
                log.end(outcome, case_told)
            if sorted(os.listdir(folder)) != [target.path.name]:
                tally.add("wrote a file", case_told)
        print(f"{name}: {n_first} steps by the good file, {len(known)} by {len(corpus)} inputs")
    return tally


def _place(n: int, rng: np.random.Generator) -> int:
    """The first input or a later one; the newest are more likely."""
    return max(int(rng.integers(n)), int(rng.integers(n))) if rng.random() < 0.7 else 0


def _keep(name: str, case: int, content: bytes) -> None:
    """Keep an input that failed, since later ones of the corpus depend on the run."""
    folder = os.environ.get("STRESS_KEEP")
    if folder:
        Path(folder, f"{name}-{case}").write_bytes(content)


def main() -> int:
    """Run the cases of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--target", choices=TARGETS, action="append")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--first", type=int, default=0, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    names = asked.target or list(TARGETS)
    if asked.worker:
        limit_memory()
        run(names[0], asked.cases, asked.seed, asked.first, Log(asked.worker))
        return 0
    each = -(-asked.cases // len(names))
    jobs = [["--target", n, "--cases", str(each), "--seed", str(asked.seed)] for n in names]
    return in_children("stress.guided", jobs, minutes=60).report("files that reach new lines")


if __name__ == "__main__":
    raise SystemExit(main())
