"""Runs a study: independent cells, each written when it is done, then one table and figures.

OUT/cells/KEY.json     rows of one cell, with its key, seed, settings, versions and time
OUT/errors/KEY.txt     traceback of a cell that failed; a later start tries it again
OUT/results.csv.gz     every cell of this seed and these settings, tidy, in canonical order
OUT/times.csv          what each cell took
and whatever the study draws from the table.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import os
import re
import shutil
import time
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from joblib import Parallel, delayed, parallel_config
from tqdm import tqdm

from benchmarks._protocol import versions
from polycal._utils.files import atomic_file

Cell = dict[str, Any]
RESULTS = Path(__file__).parent / "results"
DIGITS = "%.8g"
LATE = "the time is over"


@dataclass(frozen=True)
class Options:
    """What the command line says. ``extra`` holds the flags that the study itself added."""

    quick: bool = False
    seed: int = 0
    jobs: int = 1
    reps: int | None = None
    device: str = "cpu"
    out: Path | None = None
    data: Path | None = None
    minutes: float | None = None
    extra: dict = field(default_factory=dict)

    def seed_of(self, **key: Any) -> int:
        """A seed that depends on ``--seed`` and the key alone, not on order, jobs or machine.

        Give the whole cell, or fewer names where cells shall share their random numbers.
        """
        words = np.frombuffer(hashlib.sha256(_text(key).encode()).digest(), dtype="<u4")
        sequence = np.random.SeedSequence([self.seed, *map(int, words)])
        return int(sequence.generate_state(1)[0] >> 1)  # 31 bits: every library takes it

    def repeat(self, usual: int, quick: int = 1) -> range:
        """Numbers of the repetitions: ``--reps``, or the study's own number."""
        return range(self.reps if self.reps is not None else quick if self.quick else usual)


@dataclass(frozen=True)
class Study:
    """One study.

    Parameters
    ----------
    name, title : str
        ``python -m studies.NAME``, and one line for ``--help``.
    cells : callable
        ``options -> list of dicts`` of words and numbers: the keys of the cells.
    run : callable
        ``(cell, options) -> list of dicts``: tidy rows; the runner adds the cell's keys.
    draw : callable
        ``(frame, folder) -> written files``: tables and figures from the tidy frame alone.
    settings : callable, default: none
        ``options -> dict``: what else a row depends on. A cell that was made with other
        settings, or by another seed, is run again.
    flags : callable, default: none
        Takes the ``ArgumentParser`` and adds the study's own flags. They may only choose
        cells: what changes a cell's rows belongs to ``settings`` too.
    turn : callable, default: cell_name
        ``cell -> str``: cells of one word run one after another, in their order, in one process.
    """

    name: str
    title: str
    cells: Callable[[Options], list[Cell]]
    run: Callable[[Cell, Options], list[dict]]
    draw: Callable[[pd.DataFrame, Path], Iterable]
    settings: Callable[[Options], dict] = lambda options: {}
    flags: Callable[[argparse.ArgumentParser], None] = lambda parser: None
    turn: Callable[[Cell], str] = lambda cell: cell_name(cell)

    def stamp(self, options: Options) -> dict:
        """What a cell file must say to be taken as it is."""
        settings = {"quick": options.quick, **self.settings(options)}
        return {"study": self.name, "seed": options.seed, "settings": settings}

    def folder(self, options: Options) -> Path:
        """``--out``, or a folder that only ``--quick`` or only the full study writes to."""
        return options.out or RESULTS / (self.name + "-quick" * options.quick)


def main(study: Study, argv: list[str] | None = None) -> int:
    """The command line of a study; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog=f"python -m studies.{study.name}", description=study.title
    )
    parser.add_argument("--quick", action="store_true", help="a small version, in minutes")
    parser.add_argument("--jobs", type=int, default=1, help="cells at a time, a process each")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--reps", type=int, help="repetitions instead of the study's own number")
    parser.add_argument("--device", default="cpu", help="where networks are trained: cpu or cuda")
    parser.add_argument("--out", type=Path, help="folder instead of studies/results/NAME")
    parser.add_argument("--data", type=Path, help="folder of data sets instead of the cache")
    parser.add_argument("--minutes", type=float, help="start no cell after so many minutes")
    parser.add_argument("--no-draw", action="store_true", help="stop after the table")
    parser.add_argument("--draw-only", action="store_true", help="run nothing, draw what is there")
    common = {action.dest for action in parser._actions}
    study.flags(parser)
    known = vars(parser.parse_args(argv))
    extra = {name: value for name, value in known.items() if name not in common}
    no_draw, draw_only = known.pop("no_draw"), known.pop("draw_only")
    options = Options(**{k: v for k, v in known.items() if k not in extra}, extra=extra)
    out = study.folder(options)
    failed = 0 if draw_only else run_cells(study, options)
    if (out / "cells").is_dir():
        write_table(study, options)
    if not no_draw:
        for path in study.draw(read_table(out), out):
            print(path)
    if failed:
        print(f"{failed} cells failed: {out / 'errors'} says why; start again to retry them")
    return int(failed > 0)


def run_cells(study: Study, options: Options) -> int:
    """Run what is missing; return how many cells failed."""
    cells, out = study.cells(options), study.folder(options)
    names = [cell_name(cell) for cell in cells]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"cells of {study.name} need distinct keys, got {twice} twice")
    stamp, folder = study.stamp(options), out / "cells"
    folder.mkdir(parents=True, exist_ok=True)
    turns: dict[str, list[Cell]] = {}
    for name, cell in zip(names, cells, strict=True):
        if read_cell(folder / f"{name}.json", stamp, cell) is None:
            turns.setdefault(study.turn(cell), []).append(cell)
    done = len(cells) - sum(map(len, turns.values()))
    bar = tqdm(total=len(cells), initial=done, desc=study.name, unit="cell", smoothing=0.05)
    failed = late = 0
    # The clock of the machine may jump; this one counts seconds since its start, in all processes.
    end = None if options.minutes is None else time.monotonic() + 60 * options.minutes
    threads = int(os.environ.get("OMP_NUM_THREADS", "1"))
    inner = {"inner_max_num_threads": threads} if options.jobs > 1 else {}
    with bar, parallel_config("loky", n_jobs=options.jobs, **inner):
        work = Parallel(return_as="generator_unordered", pre_dispatch="all", batch_size=1)(
            delayed(run_turn)(study, turn, options, out, end) for turn in turns.values()
        )
        for name, problem in chain.from_iterable(work):
            if problem == LATE:
                late += 1
                continue
            bar.update()
            if problem:
                failed += 1
                bar.write(f"{name} failed: {problem}")
    if late:
        print(f"{late} cells are left after {options.minutes:g} minutes; start again to run them")
    return failed


def run_turn(
    study: Study, cells: list[Cell], options: Options, out: Path, end: float | None = None
) -> list[tuple[str, str]]:
    """Run cells one after another; see ``run_cell``."""
    return [run_cell(study, cell, options, out, end) for cell in cells]


def run_cell(
    study: Study, cell: Cell, options: Options, out: Path, end: float | None = None
) -> tuple[str, str]:
    """Run one cell and write its file; return its name, and in one line what went wrong.

    After the time ``end`` nothing is run, and that is said as ``LATE``.
    """
    name = cell_name(cell)
    if end is not None and time.monotonic() > end:
        return name, LATE
    error = out / "errors" / f"{name}.txt"
    start = time.perf_counter()
    try:
        rows = study.run(cell, options)
        seconds = round(time.perf_counter() - start, 3)
        content = {**study.stamp(options), "cell": cell, "device": options.device}
        content |= {"versions": versions("numba", "torch"), "seconds": seconds}
        text = json.dumps(content | {"rows": rows}, default=_plain)
    except Exception as problem:
        error.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(error, traceback.format_exc())
        return name, f"{type(problem).__name__}: {problem}".splitlines()[0]
    write_atomically(out / "cells" / f"{name}.json", text)
    error.unlink(missing_ok=True)
    return name, ""


def read_cell(path: Path, stamp: dict, cell: Cell | None = None) -> dict | None:
    """A cell file's content, or None where it is absent, broken, or made in another way."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        rows, key = content["rows"], content["cell"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    # Through text: what JSON cannot tell apart (a tuple and a list) is equal.
    same = all(_text(content.get(name)) == _text(value) for name, value in stamp.items())
    right = cell_name(key) == path.stem and (cell is None or _text(key) == _text(cell))
    return content if same and right and isinstance(rows, list) else None


def write_table(study: Study, options: Options) -> None:
    """Every cell of this seed and these settings, in canonical order, as one tidy file."""
    out, stamp = study.folder(options), study.stamp(options)
    found = [read_cell(path, stamp) for path in (out / "cells").glob("*.json")]
    contents = sorted((c for c in found if c is not None), key=lambda c: _order(c["cell"]))
    rows, times = [], []
    for content in contents:
        made = {"seed": content["seed"], "device": content["device"]}
        made |= {name: _text(content[name]) for name in ("settings", "versions")}
        rows += [{**content["cell"], **row, **made} for row in content["rows"]]
        times.append(content["cell"] | {name: content[name] for name in ("device", "seconds")})
    if not rows:
        return  # an earlier table stays
    frame = pd.DataFrame(rows)
    last = ["seed", "device", "settings", "versions"]
    frame = frame[[name for name in frame.columns if name not in last] + last]
    text = frame.to_csv(index=False, float_format=DIGITS, lineterminator="\n")
    write_atomically(out / "results.csv.gz", gzip.compress(text.encode(), mtime=0))
    write_atomically(out / "times.csv", pd.DataFrame(times).to_csv(index=False))


def read_table(out: Path) -> pd.DataFrame:
    """The tidy results of a folder."""
    path = out / "results.csv.gz"
    if not path.exists():
        raise SystemExit(f"{path} is not there: run the study first, without --draw-only")
    return pd.read_csv(path)


def cell_name(cell: Cell) -> str:
    """The file name of a cell: its key, readable, and a digest where letters were replaced."""
    plain = ",".join(f"{name}={value}" for name, value in cell.items())
    name = re.sub(r"[^A-Za-z0-9.,=+-]", "_", plain)[:150]
    digest = hashlib.sha256(_text(cell).encode()).hexdigest()[:8]
    return name if name == plain else f"{name}-{digest}"


def write_atomically(path: Path, content: str | bytes) -> None:
    """The whole file or none of it, also when the process or the machine stops."""
    data = content.encode() if isinstance(content, str) else content
    with atomic_file(path) as part:
        part.write_bytes(data)


def fresh_folder(path: Path) -> Path:
    """An empty folder, for pages and figures that an earlier drawing may have named otherwise."""
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    return path


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=_plain)


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"a cell's rows must be plain JSON values, got {type(value).__name__}")


def _order(cell: Cell) -> list[tuple]:
    """Numbers by size, then words; key by key."""
    return [
        (name, isinstance(value, str), value if isinstance(value, str) else float(value))
        for name, value in cell.items()
    ]
