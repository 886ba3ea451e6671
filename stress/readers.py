"""Damaged tables: a clear error, or a frame, in little time and memory.

    python -m stress.readers --cases 20000

Each case changes some bytes of a CSV, gzip or Parquet file and reads it as ``polycal predict``
does, in a child process, so that a crash is counted as one.
"""

from __future__ import annotations

import argparse
import gzip
import io
import os
import tempfile
import tracemalloc
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from polycal.cli.columns import typed
from polycal.cli.files import Source
from polycal.cli.roles import decide
from stress.watch import Log, Tally, in_children, limit_memory, quiet, timed

KINDS = (".csv", ".tsv", ".csv.gz", ".parquet")
# Memory of a read in bytes: what pandas and pyarrow need at least, and times the file (after
# unzipping, which a Parquet file does by itself).
LEAST, TIMES = 16 << 20, 30
WORDS = (
    b"\x00",
    b'"',
    b"\xff\xfe",
    b",,,,",
    b"\n\n",
    b"\r",
    b"nan",
    b"1e999",
    b"\xc3",
    b"'",
    b"=1+1",
)


def table(rng: np.random.Generator) -> pd.DataFrame:
    """Numbers, text, dates and gaps."""
    n = 60
    return pd.DataFrame(
        {
            "a": rng.normal(size=n).round(3),
            "b": rng.integers(0, 99, n),
            "city": rng.choice(["Köln", "Bern", 'a "b"', "x,y", ""], n),
            "day": pd.date_range("2024-01-01", periods=n).astype(str),
            "c": np.where(rng.random(n) < 0.2, np.nan, rng.random(n)),
        }
    )


def write(kind: str, path: Path) -> bytes:
    """The content of a good file of a kind."""
    frame = table(np.random.default_rng(0))
    if kind == ".parquet":
        frame.to_parquet(path)
    else:
        frame.to_csv(path, index=False, sep="\t" if kind == ".tsv" else ",")
    return path.read_bytes()


def mutant(content: bytes, rng: np.random.Generator) -> tuple[bytes, str]:
    """A damaged copy: bits, bytes, cuts, insertions, repeated parts."""
    found, kind = bytearray(content), int(rng.integers(7))
    at = int(rng.integers(len(found)))
    if kind == 0:
        for place in rng.integers(len(found), size=int(rng.integers(1, 9))):
            found[place] ^= 1 << int(rng.integers(8))
    elif kind == 1:
        for place in rng.integers(len(found), size=int(rng.integers(1, 9))):
            found[place] = int(rng.integers(256))
    elif kind == 2:
        del found[at:]
    elif kind == 3:
        found[at:at] = rng.bytes(int(rng.integers(1, 40)))
    elif kind == 4:
        word = WORDS[int(rng.integers(len(WORDS)))]
        found[at : at + int(rng.integers(3))] = word * int(rng.choice([1, 1, 50]))
    elif kind == 5:
        del found[at : at + int(rng.integers(1, 40))]
    else:
        part = found[at : at + int(rng.integers(1, 200))]
        found[at:at] = part * int(rng.choice([1, 2, 100]))
    return bytes(found), f"kind {kind} at {at}"


def mutants_of(content: bytes, kind: str, rng: np.random.Generator) -> tuple[bytes, str]:
    """One damaged copy; of a gzip file, in half of the cases its text is damaged before zipping."""
    if kind == ".csv.gz" and rng.random() < 0.5:
        text, what = mutant(gzip.decompress(content), rng)
        return gzip.compress(text), f"text: {what}"
    return mutant(content, rng)


def read(path: Path, size: int) -> tuple[str, str]:
    """The outcome of reading a file, and a detail."""
    tracemalloc.start()
    try:
        with quiet():
            frame = Source(path).read()
            typed(frame, decide(frame, {}, [None]))
        found, detail = "good", f"{frame.shape}"
    except (ValueError, OSError) as error:
        found, detail = "refused", str(error)
        if len(detail) < 20:
            found = "wrong error"
    except Exception as error:
        found, detail = "wrong error", repr(error)
    finally:
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    if most > LEAST + TIMES * size:
        return "memory", f"{most >> 20} MiB for {size} bytes"
    return found, detail


def run(kind: str, n_cases: int, seed: int, first: int = 0, log: Log | None = None) -> Tally:
    """Damage files of a kind and read each."""
    tally = Tally()
    with tempfile.TemporaryDirectory(
        dir="/dev/shm" if os.path.isdir("/dev/shm") else None
    ) as folder:
        path = Path(folder) / f"t{kind}"
        content = write(kind, path)
        assert read(path, len(content))[0] == "good"
        for case in range(first, n_cases):
            rng = np.random.default_rng([seed, KINDS.index(kind), case])
            if log:
                log.begin(case)
            damaged, what = mutants_of(content, kind, rng)
            path.write_bytes(damaged)
            size = len(damaged)
            if kind == ".csv.gz":
                size = _unzipped_size(damaged)
            outcome, detail = timed(partial(read, path, size))
            tally.add(outcome, f"case {case}: {what} -> {detail}")
            if log:
                log.end(outcome, f"case {case}: {what} -> {detail}")
            if sorted(os.listdir(folder)) != [path.name]:
                tally.add("wrote a file", f"case {case}: {what}")
    return tally


def _unzipped_size(content: bytes) -> int:
    try:
        return len(gzip.GzipFile(fileobj=io.BytesIO(content)).read())
    except Exception:
        return 10 * len(content)


def main() -> int:
    """Run the cases of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", choices=KINDS, action="append")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--first", type=int, default=0, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    kinds = asked.kind or list(KINDS)
    if asked.worker:
        limit_memory()
        run(kinds[0], asked.cases, asked.seed, asked.first, Log(asked.worker))
        return 0
    each = -(-asked.cases // len(kinds))
    jobs = [["--kind", k, "--cases", str(each), "--seed", str(asked.seed)] for k in kinds]
    return in_children("stress.readers", jobs, minutes=60).report("damaged tables")


if __name__ == "__main__":
    raise SystemExit(main())
