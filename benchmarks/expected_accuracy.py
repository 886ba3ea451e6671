"""Expected accuracy of batches without labels, beside CBPE and the parent's mean confidence.

python benchmarks/expected_accuracy.py FOLDER OUT.csv [--sets LIST] [--rows 3000] [--jobs 2]
    [--only TEXT] [--quick]

A cell is a data set of FOLDER (or of those that the file LIST names), a parent and a seed. The
parent is fitted on 70 % of at most --rows training rows, polycal and CBPE get it with the other
30 %, and up to 5000 other rows are for batches. A batch has as many rows as there are, drawn with
replacement: "none" evenly, "shift" with weights exp(4 u), where u in [0, 1] is the rank of a row
along a random direction of the standardised features (covariate shift: the heaviest row weighs 55
times the lightest). Each method says how accurate its own predictions are: polycal's model with
``expected_scores`` (rows that are out are not counted) and by its mean confidence on all rows, the
parent by its mean confidence, and CBPE, written here after NannyML 0.13.1: an isotonic regression
for each class on the calibration rows, normalised, and then the mean probability of the
prediction. Wanted: a mean absolute error below both of these.
"""

from __future__ import annotations

import argparse
import warnings
from functools import partial
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
from _parents import make_parent
from _protocol import find_sets, fit_beside, load, three_parts
from _record import ONLY, Row, chosen, mean_and_error, run_cells, table
from sklearn.isotonic import IsotonicRegression

PARENTS = ("forest", "lightgbm", "mlp")
SEEDS = (0, 1)
SHIFTS = ("none", "shift")
N_BATCHES = 10
STRENGTH = 4.0
MAX_ROWS = 10_000
COLUMNS = (
    *("data", "parent", "seed", "shift", "method", "error", "bias", "inside", "width"),
    *("inside_log_loss", "inside_brier", "realised", "out", "n"),
)


class Cell(NamedTuple):
    data: str
    parent: str
    seed: int


def cbpe(P_cal: np.ndarray, y_cal: np.ndarray, P: np.ndarray) -> np.ndarray:
    """Calibrated probability of each prediction."""
    columns = [
        IsotonicRegression(out_of_bounds="clip").fit(P_cal[:, c], y_cal == c).predict(P[:, c])
        for c in range(P.shape[1])
    ]
    found = np.stack(columns, axis=1)
    total = found.sum(axis=1, keepdims=True)
    found = np.where(total > 0, found / np.where(total > 0, total, 1.0), 1 / P.shape[1])
    return found[np.arange(len(P)), P.argmax(axis=1)]


def batches(X: np.ndarray, shift: str, seed: int) -> list[np.ndarray]:
    """Row numbers of each batch."""
    rng, n = np.random.default_rng(seed), len(X)
    if shift == "none":
        return [rng.choice(n, n) for _ in range(N_BATCHES)]
    Z = (X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-9)
    found = []
    for _ in range(N_BATCHES):
        rank = (Z @ rng.normal(size=X.shape[1])).argsort().argsort() / n
        weight = np.exp(STRENGTH * rank)
        found.append(rng.choice(n, n, p=weight / weight.sum()))
    return found


def run(cell: Cell, folder: Path, rows: int) -> list[Row]:
    warnings.simplefilter("ignore")  # networks that stop early; labels that differ by chance
    X, y = load(folder / f"{cell.data}.npz", np.random.default_rng(cell.seed), MAX_ROWS)
    fit, calibrate, (X_test, y_test) = three_parts(X, y, cell.seed, rows)
    made = make_parent(cell.parent, cell.seed)
    parent, model = fit_beside(made, (*fit, *calibrate), "holdout", cell.seed)
    P, P_cal = parent.predict_proba(X_test), parent.predict_proba(calibrate[0])
    answer = model.answer(X_test)
    ours, right = answer.most_probable == y_test, P.argmax(axis=1) == y_test
    confidence = {  # method: (confidence, whether right)
        "parent": (P.max(axis=1), right),
        "CBPE": (cbpe(P_cal, calibrate[1], P), right),
        "polycal, mean confidence": (answer.probabilities.max(axis=1), ours),
    }
    written = []
    for shift in SHIFTS:
        found: dict[str, list[dict]] = {}
        for batch in batches(X_test, shift, cell.seed):
            for name, (said, truth) in confidence.items():
                row = {"bias": said[batch].mean() - truth[batch].mean()}
                found.setdefault(name, []).append(row | {"realised": truth[batch].mean()})
            scores = model.expected_scores(X_test[batch], y_test[batch])
            realised = scores.realised
            row = {"bias": scores.accuracy.value - realised["accuracy"], "out": scores.share_out}
            row["realised"] = realised["accuracy"]
            for name, key in (("accuracy", ""), ("log_loss", "_log_loss"), ("brier", "_brier")):
                figure = getattr(scores, name)
                row[f"inside{key}"] = float(figure.low <= realised[name] <= figure.high)
            row["width"] = scores.accuracy.high - scores.accuracy.low
            found.setdefault("polycal", []).append(row)
        for name, some in found.items():
            line = {key: np.mean([row[key] for row in some]) for key in some[0]}
            line["error"] = np.mean([abs(row["bias"]) for row in some])
            where = {"shift": shift, "method": name, "n": len(y_test)}
            written.append(cell._asdict() | where | line)
    return written


def report(rows: list[dict[str, str]], parent: str) -> None:
    """Mean absolute errors over the sets, and whether polycal's is the lowest."""
    own = [row for row in rows if row["parent"] == parent]
    for shift in SHIFTS if own else ():
        print(f"\n## {parent}, {shift}, {len({row['data'] for row in own})} sets\n")
        lines = []
        for method in dict.fromkeys(row["method"] for row in own):
            some = [r for r in own if (r["method"], r["shift"]) == (method, shift)]
            error, deviation = mean_and_error(r["error"] for r in some)
            line: Row = {"method": method, "mean absolute error": error, "±": deviation}
            line["bias"] = mean_and_error(r["bias"] for r in some)[0]
            for key in ("inside", "width", "inside_log_loss", "inside_brier"):
                known = [r[key] for r in some if r[key]]
                line[key.replace("_", " ")] = mean_and_error(known)[0] if known else ""
            lines.append(line)
        print(table(lines))
        errors = {line["method"]: line["mean absolute error"] for line in lines}
        reached = errors["polycal"] < min(errors["CBPE"], errors["parent"])
        print(f"\n{'Reached' if reached else 'Missed'}.")


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
    sets = sorted(find_sets(args.folder, args.sets), key=lambda path: path.stat().st_size)
    parents, seeds = (PARENTS[:1], SEEDS[:1]) if args.quick else (PARENTS, SEEDS)
    rows = 500 if args.quick else args.rows
    cells = [Cell(path.stem, parent, seed) for seed, parent, path in product(seeds, parents, sets)]
    written = run_cells(
        partial(run, folder=args.folder, rows=rows),
        chosen(cells, args.only),
        args.out,
        COLUMNS,
        args.jobs,
        {"rows": rows, "seeds": seeds, "batches": N_BATCHES, "strength": STRENGTH},
        ["lightgbm"],
    )
    for parent in PARENTS:
        report(written, parent)


if __name__ == "__main__":
    main()
