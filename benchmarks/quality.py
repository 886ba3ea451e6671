"""Calibration in and out of distribution on a folder of data sets; prints JSON.

python benchmarks/quality.py FOLDER --parent forest [--all-rows] [--rows N] [--only LIST] [--seed 0]
    [--search auto] [--strong OUT.csv]

FOLDER holds .npz files with arrays X and y. Every method gets the same fitted parent and
the same calibration rows (30 % of the training rows); polycal and its paper setting run with
their defaults. With --all-rows every method gets all training rows instead: the peers by
CalibratedClassifierCV(cv=5, ensemble=False), polycal by calibration="auto" (out-of-bag for a
forest, 5-fold for the others). With --rows, N training rows are drawn class by class; sets that
have too few rows of a class for it are left out, and so are the peers where one of the sets has
fewer than 5 calibration rows of a class, which they need.

With --strong the strongest calibrators of other libraries (_peers.py) run beside the others. Each
set is appended to OUT.csv, and a second start does what is left; starts with other parents, seeds
and --all-rows may share the file. Printed are the means of every method, the strongest single peer
(chosen by its mean log-loss here, with hindsight), and on how many sets polycal is better.
OUT.png shows these by set. With --all-rows these peers get the probabilities of five folds.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")  # one core for each data set

import numpy as np
from _parents import OTHERS, PARENTS, Remembered, make_parent
from _peers import STRONG_PEERS, answers, installed
from _protocol import PEERS, find_sets, load, measure, spheres, split, versions
from _record import Row, run_cells
from _wins import FIGURES, draw, report
from joblib import Parallel, delayed
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import cross_val_predict
from tqdm import tqdm

from polycal import PAPER, GeodesicCalibrator, TorchParent

# Rows of each class that CalibratedClassifierCV needs.
FEWEST = 5
COLUMNS = (
    *("data", "parent", "seed", "plan", "method"),
    *(*FIGURES, "false_alarms", "n_test", "seconds"),
)


class Cell(NamedTuple):
    data: str
    parent: str
    seed: int
    plan: str  # "holdout" or "all rows"


def held_out_models(name: str, rows: tuple, seed: int, search: str) -> dict:
    """One parent, fitted on 70 % of the rows; every method calibrates it on the others."""
    X_fit, y_fit, X_cal, y_cal = rows
    parent = make_parent(name, seed).fit(X_fit, y_fit)
    models = {"parent": parent}
    for method in PEERS if np.bincount(y_cal).min() >= FEWEST else ():
        peer = CalibratedClassifierCV(FrozenEstimator(parent), method=method)
        models[method] = peer.fit(X_cal, y_cal)
    ours = TorchParent(parent.module_) if name == "torch" else FrozenEstimator(parent)
    for method, setting in (("polycal PAPER", PAPER), ("polycal", {"search": search})):
        model = GeodesicCalibrator(ours, **setting)
        models[method] = model.fit(X_fit, y_fit, X_cal=X_cal, y_cal=y_cal)
    return models


def all_row_models(name: str, rows: tuple, seed: int, search: str) -> dict:
    """Every method has all rows; peers that fit the same parent share the fit."""
    X, y = np.concatenate(rows[::2]), np.concatenate(rows[1::2])
    Remembered.memory.clear()
    parent = make_parent(name, seed)
    shared = Remembered(parent)
    models = {"parent": shared.fit(X, y)}
    for method in PEERS:
        peer = CalibratedClassifierCV(shared, method=method, cv=5, ensemble=False)
        models[method] = peer.fit(X, y)
    ours = GeodesicCalibrator(parent, search=search, random_state=seed)
    models["polycal"] = ours.fit(X, y)
    return models


def calibration_rows(
    models: dict, rows: tuple, name: str, seed: int, all_rows: bool
) -> tuple[np.ndarray, np.ndarray]:
    """What the parent says of rows that are new to it, and their labels."""
    X_fit, y_fit, X_cal, y_cal = rows
    if not all_rows:
        return models["parent"].predict_proba(X_cal), y_cal
    X, y = np.concatenate([X_fit, X_cal]), np.concatenate([y_fit, y_cal])
    shared = Remembered(make_parent(name, seed))
    return cross_val_predict(shared, X, y, cv=5, method="predict_proba"), y


def run_set(
    path: Path,
    name: str,
    seed: int,
    all_rows: bool,
    n: int | None,
    search: str,
    strong: tuple[str, ...] = (),
) -> dict[str, dict]:
    warnings.simplefilter("ignore")  # networks that stop before they converge
    X, y = load(path, np.random.default_rng(seed))
    priors = np.bincount(y) / len(y)
    *rows, X_test, y_test = split(X, y, seed, n)
    if min(len(np.unique(rows[1])), len(np.unique(rows[3]))) < len(priors):
        return {}
    X_ood = spheres(X.shape[1], seed)
    models = (all_row_models if all_rows else held_out_models)(name, tuple(rows), seed, search)
    results = {
        method: measure(model.predict_proba(X_test), y_test, model.predict_proba(X_ood), priors)
        for method, model in models.items()
    }
    if strong:
        known = calibration_rows(models, tuple(rows), name, seed, all_rows)
        both = np.concatenate([X_test, X_ood])
        for method, P in answers(
            STRONG_PEERS, strong, known, models["parent"].predict_proba(both)
        ).items():
            results[method] = measure(P[: len(X_test)], y_test, P[len(X_test) :], priors)
    ours = models["polycal"]
    alarms = ours.score_samples(X_test) < ours.out_floor_
    results["polycal"]["false_alarms"] = float(alarms.mean())
    results["polycal"]["n_test"] = len(X_test)
    return results


def run_cell(cell: Cell, folder: Path, n: int | None, search: str, strong: tuple) -> list[Row]:
    start = time.perf_counter()
    where = folder / f"{cell.data}.npz"
    how = (cell.plan == "all rows", n, search, strong)
    results = run_set(where, cell.parent, cell.seed, *how)
    ends = {"seconds": round(time.perf_counter() - start, 1)}
    none: Row = {"false_alarms": "", "n_test": ""}
    return [
        {**cell._asdict(), "method": method, **none, **figures, **ends}
        for method, figures in results.items()
    ]


def run_strong(paths: list[Path], args: Any) -> None:
    """Every method beside the strongest peers, set by set, with a record."""
    strong = tuple(installed(STRONG_PEERS))
    plan = "all rows" if args.all_rows else "holdout"
    cells = [Cell(path.stem, args.parent, args.seed, plan) for path in paths]
    run = partial(run_cell, folder=args.folder, n=args.rows, search=args.search, strong=strong)
    settings = {"rows": args.rows, "search": args.search, "peers": strong}
    packages = [*PARENTS, "probmetrics", "venn-abers", "betacal", "netcal"]
    rows = run_cells(run, cells, args.strong, COLUMNS, args.jobs, settings, packages)
    report(rows)
    if find_spec("matplotlib"):
        draw(rows, args.strong.with_suffix(".png"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--parent", default="forest", choices=PARENTS + OTHERS)
    parser.add_argument("--all-rows", action="store_true", help="hold no row out of the parent")
    parser.add_argument("--rows", type=int, help="number of training rows")
    parser.add_argument("--search", default="auto", choices=("auto", "exact", "sampled"))
    parser.add_argument("--only", type=Path, help="file that lists the sets to run")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2, help="data sets at a time")
    parser.add_argument("--strong", type=Path, help="CSV of a run beside the strongest peers")
    parser.add_argument("--per-set", action="store_true", help="print every set's figures too")
    args = parser.parse_args()
    if args.all_rows and args.parent == "torch":
        raise SystemExit("--all-rows fits parents anew; a torch module comes trained")
    paths = sorted(find_sets(args.folder, args.only), key=lambda path: -path.stat().st_size)
    if args.strong:
        return run_strong(paths, args)
    work = Parallel(n_jobs=args.jobs, return_as="generator")(
        delayed(run_set)(path, args.parent, args.seed, args.all_rows, args.rows, args.search)
        for path in paths
    )
    bar = tqdm(zip(paths, work, strict=True), total=len(paths), desc="data sets", unit="set")
    per_set = {path.stem: results for path, results in bar if results}
    first, *others = per_set.values()
    methods = {name: first[name] for name in first if all(name in other for other in others)}
    mean = {
        method: {
            key: round(float(np.mean([row[method][key] for row in per_set.values()])), 5)
            for key in figures
            if key not in ("false_alarms", "n_test")
        }
        for method, figures in methods.items()
    }
    rows = np.array([result["polycal"]["n_test"] for result in per_set.values()])
    alarms = np.array([result["polycal"]["false_alarms"] for result in per_set.values()])
    printed = {
        "benchmark": f"quality --parent {args.parent}"
        + " --all-rows" * args.all_rows
        + (f" --rows {args.rows}" if args.rows else "")
        + (f" --search {args.search}" if args.search != "auto" else ""),
        "sets": len(per_set),
        "seed": args.seed,
        "versions": versions(args.parent),
        "mean": mean,
        "false alarms": {
            "share of all test rows": round(float((rows * alarms).sum() / rows.sum()), 5),
            "test rows": int(rows.sum()),
            "mean over the sets": round(float(alarms.mean()), 5),
        },
    }
    if args.per_set:
        printed["per_set"] = per_set
    print(json.dumps(printed, indent=2))


if __name__ == "__main__":
    main()
