"""Benchmarks as their commands run them, and the tables that they write."""

from __future__ import annotations

import csv
from pathlib import Path

from tests.toys.scripts import Done, run_script

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def start(script: str, *arguments: object) -> Done:
    return run_script(BENCHMARKS / f"{script}.py", *arguments)


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))
