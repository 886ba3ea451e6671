"""Sets of classes with a promised coverage: coverage and size, beside MAPIE on the same rows.

python benchmarks/sets.py FOLDER OUT.csv [--sets LIST] [--rows 3000] [--jobs 2] [--only TEXT]
    [--quick]

A cell is a data set of FOLDER (or of those that the file LIST names), a parent and a seed. The
parent is fitted on 70 % of at most --rows training rows, and polycal and MAPIE get it with the
other 30 %; up to 5000 other rows are for the test. MAPIE has the scores LAC and, for more than two
classes, APS. "polycal, scored" has no full sets for rows that are out (all_if_out=False). Wanted:
coverage at least the level, within sampling error (two standard errors over the sets), and a mean
size of at most MAPIE's.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from functools import partial
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
from _parents import make_parent
from _protocol import find_sets, fit_beside, load, three_parts
from _record import ONLY, Row, chosen, mean_and_error, run_cells, table
from sklearn.frozen import FrozenEstimator

PARENTS = ("forest", "lightgbm", "mlp")
SEEDS = (0, 1)
LEVELS = (0.8, 0.85, 0.9, 0.95, 0.99)
MAX_ROWS = 10_000
COLUMNS = (
    *("data", "parent", "seed", "method", "level"),
    *("coverage", "class_coverage", "size", "empty", "n_classes", "n_test", "out"),
)


class Cell(NamedTuple):
    data: str
    parent: str
    seed: int


def mapie_sets(parent, score: str, X_cal, y_cal, X_test) -> dict[float, np.ndarray]:
    from mapie.classification import SplitConformalClassifier

    peer = SplitConformalClassifier(
        FrozenEstimator(parent),
        confidence_level=list(LEVELS),
        conformity_score=score,
        prefit=True,
        random_state=0,
    )
    _, sets = peer.conformalize(X_cal, y_cal).predict_set(X_test)
    return {level: sets[:, :, i] for i, level in enumerate(LEVELS)}


def run(cell: Cell, folder: Path, rows: int, with_mapie: bool) -> list[Row]:
    warnings.simplefilter("ignore")  # networks that stop early, classes with few rows
    X, y = load(folder / f"{cell.data}.npz", np.random.default_rng(cell.seed), MAX_ROWS)
    fit, calibrate, (X_test, y_test) = three_parts(X, y, cell.seed, rows)
    made = make_parent(cell.parent, cell.seed)
    parent, model = fit_beside(made, (*fit, *calibrate), "holdout", cell.seed)
    found = {}
    for name, options in {
        "polycal": {},
        "polycal, scored": {"all_if_out": False},
        "polycal, by class": {"by_class": True},
    }.items():
        found[name] = {c: model.predict_set(X_test, c, **options) for c in LEVELS}
    n_classes = len(model.classes_)
    for score in ("lac", "aps") if n_classes > 2 else ("lac",):
        if with_mapie:
            found[f"MAPIE {score}"] = mapie_sets(parent, score, *calibrate, X_test)
    out = model.predict_set(X_test, return_out=True)[1].mean()
    written = []
    for name, by_level in found.items():
        for level, sets in by_level.items():
            hit, size = sets[np.arange(len(y_test)), y_test], sets.sum(axis=1)
            by_class = np.mean([hit[y_test == c].mean() for c in np.unique(y_test)])
            figures = (hit.mean(), by_class, size.mean(), (size == 0).mean())
            ends = (*figures, n_classes, len(y_test), out)
            written.append(dict(zip(COLUMNS, (*cell, name, level, *ends), strict=True)))
    return written


def report(rows: list[dict[str, str]], parent: str) -> None:
    """Coverage with its standard error over the sets, and mean sizes beside the peers'."""
    own = [row for row in rows if row["parent"] == parent]
    if not own:
        return
    print(f"\n## {parent}, {len({row['data'] for row in own})} sets\n")
    lines = []
    for method, level in product(dict.fromkeys(row["method"] for row in own), LEVELS):
        some = [r for r in own if (r["method"], float(r["level"])) == (method, level)]
        if not some:
            continue
        cells = {(r["data"], r["seed"]) for r in some}
        same = [
            r
            for r in own
            if (r["data"], r["seed"]) in cells
            and (r["method"], float(r["level"])) == ("polycal", level)
        ]
        coverage, error = mean_and_error(r["coverage"] for r in some)
        lines.append(
            {
                "method": method,
                "wanted": level,
                "coverage": coverage,
                "±": error,
                "mean over classes": mean_and_error(r["class_coverage"] for r in some)[0],
                "size": mean_and_error(r["size"] for r in some)[0],
                "polycal's size there": mean_and_error(r["size"] for r in same)[0],
                "empty": mean_and_error(r["empty"] for r in some)[0],
            }
        )
    print(table(lines))
    key = "mean over classes"
    low = [x for x in lines if x["method"].startswith("polycal")]
    low = [x for x in low if x["coverage"] < x["wanted"] - 2 * x["±"]]
    low += [x for x in lines if "by class" in x["method"] and x[key] < x["wanted"] - 2 * x["±"]]
    large = [x for x in lines if x["method"].startswith("MAPIE")]
    large = [x for x in large if x["size"] < x["polycal's size there"]]
    print(f"\ncoverage: {'Reached' if not low else f'Missed: {low}'}")
    print(f"size: {'Reached' if not large else f'Missed: {large}'}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--sets", type=Path, help="file that lists the sets to run")
    parser.add_argument("--rows", type=int, default=3000, help="training rows, at most")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--only", default="", help=ONLY)
    parser.add_argument("--quick", action="store_true", help="the forest, seed 0, 500 rows")
    args = parser.parse_args()
    with_mapie = find_spec("mapie") is not None
    if not with_mapie:
        print("MAPIE is left out: mapie is not installed", file=sys.stderr)
    sets = sorted(find_sets(args.folder, args.sets), key=lambda path: path.stat().st_size)
    parents, seeds = (PARENTS[:1], SEEDS[:1]) if args.quick else (PARENTS, SEEDS)
    rows = 500 if args.quick else args.rows
    cells = [Cell(path.stem, parent, seed) for seed, parent, path in product(seeds, parents, sets)]
    written = run_cells(
        partial(run, folder=args.folder, rows=rows, with_mapie=with_mapie),
        chosen(cells, args.only),
        args.out,
        COLUMNS,
        args.jobs,
        {"rows": rows, "seeds": seeds, "levels": LEVELS, "mapie": with_mapie},
        ["lightgbm", "mapie"],
    )
    for parent in PARENTS:
        report(written, parent)


if __name__ == "__main__":
    main()
