"""Alarms of batches and of streams in which nothing has changed.

python benchmarks/vain_alarms.py batches OUT.csv [--models 500] [--rows 100,1000,10000,100000]
python benchmarks/vain_alarms.py streams OUT.csv [--models 200] [--batches 1000] [--rows 20]

Rows are drawn without end from three overlapping classes with four features, one of them rounded.
What is promised holds on average over calibration sets, since all batches of one model are compared
with the same rows. So each model is fitted on rows of its own, and sees one batch of each size, or
one stream. Models take turns: a forest with 300 held-out calibration rows, one with 5000 of them, a
forest out of bag, and LightGBM, cross-fitted.

"batches" asks for the p-value of ``check``. Wanted: a share of alarms of at most the level, within
three standard errors. "streams" follows each stream by ``Monitor``; the model scores its rows at
once, and they are followed batch by batch. Wanted: at most a share delta of the streams rings.
"""

from __future__ import annotations

import argparse
import warnings
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from _record import Row, run_cells, table
from lightgbm import LGBMClassifier
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator

from polycal import GeodesicCalibrator, Monitor

LEVELS = (0.01, 0.05, 0.1)
DELTA = 0.05
SHARES = (0.6, 0.3, 0.1)
CENTRES = np.array([[0.0, 0, 0, 0], [1.5, 1, 0, 0], [-1, 1.5, 1, 0]])
KINDS = ("held out, 300", "held out, 5000", "out of bag", "cross-fitted")
# All that makes a model large, which does not matter here, is small.
OPTIONS = {"n_hyperplanes": 16, "n_jobs": 1}


class Cell(NamedTuple):
    kind: str
    model: int


BATCHES = (*Cell._fields, "rows", "p", "size")
STREAMS = (*Cell._fields, "alarm_row", "evidence")


def draw(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    y = rng.choice(len(SHARES), n, p=SHARES)
    X = CENTRES[y] + rng.normal(size=(n, CENTRES.shape[1]))
    X[:, 3] = np.round(2 * X[:, 3]) / 2
    return X, y


def fitted(cell: Cell, rng: np.random.Generator) -> GeodesicCalibrator:
    forest = RandomForestClassifier(20, max_depth=6, random_state=cell.model)
    X, y = draw(700, rng)
    if cell.kind.startswith("held out"):
        X_cal, y_cal = draw(int(cell.kind.split()[-1]), rng)
        model = GeodesicCalibrator(FrozenEstimator(forest.fit(X, y)), **OPTIONS)
        return model.fit(X, y, X_cal=X_cal, y_cal=y_cal)
    if cell.kind == "out of bag":
        return GeodesicCalibrator(forest, calibration="oob", **OPTIONS).fit(X, y)
    parent = LGBMClassifier(n_estimators=15, num_leaves=8, n_jobs=1, verbose=-1)
    return GeodesicCalibrator(parent, calibration="cv", **OPTIONS).fit(X, y)


def batches(sizes: tuple[int, ...], cell: Cell) -> list[Row]:
    """One batch of each size."""
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(cell.model)
    model, found = fitted(cell, rng), []
    for n in sizes:
        check = model.check(draw(n, rng)[0], random_state=cell.model)
        found.append({**cell._asdict(), "rows": n, "p": check.p_value, "size": check.size})
    return found


def stream(n_batches: int, n_rows: int, cell: Cell) -> list[Row]:
    """One stream."""
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(cell.model)
    model = fitted(cell, rng)
    monitor = Monitor(model, delta=DELTA, random_state=cell.model)
    answer = model.answer(draw(n_batches * n_rows, rng)[0])
    for place in np.arange(n_batches * n_rows).reshape(n_batches, n_rows):
        status = monitor.update_answer(answer.take(place))
    return [{**cell._asdict(), "alarm_row": status.alarm_row or 0, "evidence": status.evidence}]


def report_batches(rows: list[dict[str, str]]) -> None:
    """Share of alarms by size, for all models and for each kind."""
    lines: list[Row] = []
    for n in sorted({int(r["rows"]) for r in rows}):
        for kind in ("all", *KINDS):
            p = np.array(
                [float(r["p"]) for r in rows if int(r["rows"]) == n and kind in ("all", r["kind"])]
            )
            if len(p):
                shares = {str(level): float((p <= level).mean()) for level in LEVELS}
                lines.append({"rows": n, "models": kind, "batches": len(p), **shares})
    print(table(lines))
    for line in lines:
        for level in LEVELS:
            most = level + 3 * np.sqrt(level * (1 - level) / line["batches"])
            if line[str(level)] > most:
                print(f"Missed: {line}")


def report_streams(rows: list[dict[str, str]]) -> None:
    """Share of streams that rang."""
    lines: list[Row] = []
    for kind in ("all", *KINDS):
        rang = [int(r["alarm_row"]) > 0 for r in rows if kind in ("all", r["kind"])]
        if rang:
            share = float(np.mean(rang))
            lines.append({"models": kind, "streams": len(rang), "rang": sum(rang), "share": share})
    print(table(lines))
    print("Reached" if lines[0]["share"] <= DELTA else "Missed")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("batches", "streams"))
    parser.add_argument("out", type=Path, help="CSV, which a second start goes on")
    parser.add_argument("--models", type=int, help="default: 500 for batches, 200 for streams")
    parser.add_argument("--batches", type=int, default=1000, help="of a stream")
    parser.add_argument("--rows", help="of a batch; default: 100,1000,10000,100000, or 20")
    parser.add_argument("--jobs", type=int, default=1)
    args = parser.parse_args()
    of_batches = args.what == "batches"
    usual = "100,1000,10000,100000" if of_batches else "20"
    sizes = tuple(int(n) for n in (args.rows or usual).split(","))
    n_models = args.models or (500 if of_batches else 200)
    cells = [Cell(KINDS[k % len(KINDS)], k) for k in range(n_models)]
    if of_batches:
        settings: Row = {"rows": sizes}
        run = partial(batches, sizes)
    else:
        settings = {"batches": args.batches, "rows": sizes[0], "delta": DELTA}
        run = partial(stream, args.batches, sizes[0])
    columns = BATCHES if of_batches else STREAMS
    rows = run_cells(run, cells, args.out, columns, args.jobs, settings, ["lightgbm"])
    (report_batches if of_batches else report_streams)(rows)


if __name__ == "__main__":
    main()
