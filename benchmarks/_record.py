"""A benchmark of many cells: each is appended to a CSV, and a second start does what is left.

A cell is a NamedTuple whose fields are columns of the CSV. Beside OUT.csv, OUT.json keeps every
start with its command, commit and versions, and the settings that all of the cells share.
"""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from _protocol import versions
from joblib import Parallel, delayed
from tqdm import tqdm

Row = dict[str, Any]
ONLY = "what a cell must hold, as 'forest,0/1': the forest, and 0 or 1"


def read(path: Path) -> list[dict[str, str]]:
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def chosen(cells: Iterable[Any], only: str) -> list[Any]:
    """Cells with one of the words between slashes for each of those between commas."""
    wanted = [set(words.split("/")) for words in only.split(",") if words]
    return [cell for cell in cells if all(words & set(map(str, cell)) for words in wanted)]


def commit() -> str:
    """That of the benchmarks, with "-dirty" where tracked files were changed."""
    command = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    here = Path(__file__).parent
    return subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=here
    ).stdout.strip()


def run_cells(
    run: Callable[[Any], list[Row]],
    cells: Iterable[Any],
    out: Path,
    columns: Sequence[str],
    jobs: int,
    settings: Row,
    packages: Sequence[str] = (),
) -> list[dict[str, str]]:
    """Run the cells that OUT.csv lacks, and return all of its rows.

    A cell that fails is named and left out, so that the next start tries it again.
    """
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # for the workers
    _write_start(out.with_suffix(".json"), settings, packages)
    before = read(out)
    cells = [cell for cell in cells if not any(_is_of(row, cell) for row in before)]
    failed = 0
    with out.open("a", newline="") as file, tqdm(total=len(cells), unit="cell") as bar:
        writer = csv.DictWriter(file, columns)
        if file.tell() == 0:
            writer.writeheader()
        work = (delayed(_tried)(run, cell) for cell in cells)
        for rows, trouble in Parallel(jobs, return_as="generator_unordered")(work):
            if trouble:
                failed += 1
                bar.write(trouble, file=sys.stderr)
            writer.writerows(rows)
            file.flush()
            bar.update()
    if failed:
        print(f"{failed} cells failed; the same command tries them again", file=sys.stderr)
    return read(out)


def _is_of(row: dict[str, str], cell: Any) -> bool:
    return all(row[name] == str(value) for name, value in cell._asdict().items())


def _tried(run: Callable[[Any], list[Row]], cell: Any) -> tuple[list[Row], str]:
    try:
        return run(cell), ""
    except Exception:
        return [], f"{cell} failed: {traceback.format_exc()}"


def _write_start(path: Path, settings: Row, packages: Sequence[str]) -> None:
    """Add this start to the record; one with other settings would mix what cannot be compared."""
    settings = json.loads(json.dumps(settings))
    record = json.loads(path.read_text()) if path.exists() else {"settings": settings, "starts": []}
    if record["settings"] != settings:
        raise SystemExit(
            f"{path} was made with the settings {record['settings']}, now they are {settings}. "
            "Name another OUT.csv."
        )
    command = " ".join(["python", *sys.argv])
    start = {"command": command, "commit": commit(), "versions": versions(*packages)}
    if start not in record["starts"]:
        record["starts"].append(start)
    path.write_text(json.dumps(record, indent=2) + "\n")


def mean_and_error(values: Iterable[Any]) -> tuple[float, float]:
    """Mean and its standard error, which is NaN for a single value."""
    array = np.array([float(value) for value in values])
    error = array.std(ddof=1) / np.sqrt(len(array)) if len(array) > 1 else np.nan
    return float(array.mean()), float(error)


def table(rows: Sequence[Row]) -> str:
    """Markdown; numbers with four digits behind the point."""
    if not rows:
        return "(nothing)"
    lines = [list(rows[0]), ["---"] * len(rows[0])]
    for row in rows:
        cells = row.values()
        lines.append([f"{v:.4f}" if isinstance(v, float) else str(v) for v in cells])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
