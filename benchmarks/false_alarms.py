"""Share of new in-distribution rows that are called "out", beside the level that was promised.

python benchmarks/false_alarms.py OUT.csv [--jobs 2] [--repetitions 20] [--quick] [--only TEXT]

A cell is a parent, a plan of calibration, a number of rows, a kind of data and a level. Each of its
repetitions draws training rows, fits, and draws 1000 new rows of the same distribution. The share
of them below the floor is compared with the level, for all rows and for each class that has at
least 1 / level calibration rows; the standard error is that over the repetitions. A cell breaks its
promise where the share is above the level by more than three standard errors. Results are appended
to OUT.csv one by one, and a second start goes on where the first one stopped.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from _protocol import versions
from _record import ONLY, chosen, commit, run_cells
from sklearn.ensemble import (
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from polycal import GeodesicCalibrator

N_NEW = 1000
LEVELS = (0.01, 0.05)
SIZES = (100, 300, 1000, 5000)
PLANS = {
    "forest20": ("holdout", "oob", "cv"),
    "forest100": ("holdout", "oob", "cv"),
    "forest300": ("holdout", "oob", "cv"),
    "extra": ("holdout", "oob", "cv"),
    "hgb": ("holdout", "cv"),
    "lightgbm": ("holdout", "cv"),
    "mlp": ("holdout", "cv"),
}
DATA = ("normal2", "normal20", "normal100", "normal400", "binary6", "levels5", "mixed", "twice")
COLUMNS = (
    "parent",
    "plan",
    "n",
    "data",
    "level",
    "rows",
    "repetitions",
    "share",
    "standard_error",
    "worst",
    "seconds",
)


class Cell(NamedTuple):
    parent: str
    plan: str
    n: int
    data: str


def make_parent(name: str, data: str, seed: int) -> Any:
    if name.startswith("forest"):
        return RandomForestClassifier(int(name[6:]), random_state=seed)
    if name == "extra":
        return ExtraTreesClassifier(100, bootstrap=True, random_state=seed)
    if name == "hgb":
        kinds = "from_dtype" if data == "mixed" else None
        return HistGradientBoostingClassifier(categorical_features=kinds, random_state=seed)
    if name == "lightgbm":
        from lightgbm import LGBMClassifier

        return LGBMClassifier(n_estimators=50, n_jobs=1, random_state=seed, verbose=-1)
    return make_pipeline(StandardScaler(), MLPClassifier((64,), max_iter=100, random_state=seed))


def draw(data: str, n: int, rng: np.random.Generator) -> tuple[Any, np.ndarray]:
    """Rows and labels, which depend on the first two columns; about one in four is positive."""
    if data == "twice":
        X, y = draw("normal20", -(-n // 2), rng)
        return np.repeat(X, 2, axis=0)[:n], np.repeat(y, 2)[:n]
    if data.startswith("normal"):
        X = rng.normal(size=(n, int(data[6:])))
    elif data == "binary6":
        X = rng.integers(0, 2, (n, 6)).astype(float)
    elif data == "levels5":
        X = rng.integers(0, 4, (n, 5)).astype(float)
    else:
        return _mixed(n, rng)
    signal = X[:, 0] + X[:, 1] - X[:, :2].mean() * 2
    return X, (signal + rng.normal(size=n) > 1.0).astype(int)


def _mixed(n: int, rng: np.random.Generator) -> tuple[Any, np.ndarray]:
    import pandas

    a, b = rng.normal(size=n), rng.normal(size=n)
    c = rng.choice(list("uvw"), n, p=[0.6, 0.3, 0.1])
    y = (a + (c == "u") + rng.normal(size=n) > 1.0).astype(int)
    b[rng.random(n) < 0.2] = np.nan
    columns = {"a": a, "b": b, "c": pandas.Categorical(c, categories=list("uvw"))}
    return pandas.DataFrame(columns), y


def fitting(cell: Cell) -> bool:
    """Whether the parent takes such data, and there are rows enough for the plan."""
    if cell.data == "mixed":
        return cell.parent in ("hgb", "lightgbm")
    return True


def repeat(cell: Cell, seed: int) -> list[tuple[float, str, float]]:
    """Level, set of rows, and share out, of one repetition."""
    rng = np.random.default_rng([seed, *(ord(c) for c in "".join(map(str, cell)))])
    X, y = draw(cell.data, cell.n, rng)
    if len(np.unique(y)) < 2 or np.bincount(y).min() < 10:
        return []
    new, labels = draw(cell.data, N_NEW, rng)
    parent = make_parent(cell.parent, cell.data, seed)
    model = GeodesicCalibrator(parent, calibration=cell.plan, random_state=seed).fit(X, y)
    scores, log_f = model.model_.scores, model.answer(new).log_f
    found = []
    n_calibration = len(scores.log_f)
    held = 0.3 if cell.plan == "holdout" else 1.0
    for level in LEVELS:
        out = scores.is_below(log_f, scores.verdict_floor(level))
        if n_calibration + 1 >= 1 / level:  # below that no floor can keep the bound
            found.append((level, "all", float(out.mean())))
        for code in np.unique(y):
            if held * (y == code).sum() >= 1 / level:
                found.append((level, f"class {code}", float(out[labels == code].mean())))
    return found


def run(cell: Cell, repetitions: int) -> list[dict[str, Any]]:
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [row for seed in range(repetitions) for row in repeat(cell, seed)]
    seconds = round(time.perf_counter() - start, 1)
    rows = []
    for level, name in sorted({row[:2] for row in found}):
        shares = np.array([share for *key, share in found if tuple(key) == (level, name)])
        if len(shares) < repetitions:  # rows of too few repetitions are no figure
            continue
        error = shares.std(ddof=1) / np.sqrt(len(shares)) if len(shares) > 1 else np.nan
        figures = (len(shares), shares.mean(), error, shares.max(), seconds)
        rows.append(dict(zip(COLUMNS, (*cell, level, name, *figures), strict=True)))
    return rows or [dict.fromkeys(COLUMNS, "") | cell._asdict() | {"seconds": seconds}]


def broken(row: dict[str, Any]) -> bool:
    """Above the level by more than three standard errors."""
    if row["share"] == "":
        return False
    return float(row["share"]) > float(row["level"]) + 3 * float(row["standard_error"])


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    kept = [row for row in rows if row["share"] != ""]
    bad = [row for row in kept if broken(row)]
    keys = ("parent", "plan", "n", "data", "level", "rows", "share", "standard_error")
    return {
        "benchmark": "false_alarms",
        "figures": len(kept),
        "above the level by more than 3 standard errors": len(bad),
        "the worst of them": [
            {key: row[key] for key in keys}
            for row in sorted(bad, key=lambda r: float(r["level"]) - float(r["share"]))[:30]
        ],
        "mean share": {
            f"{plan}, level {level}": round(float(np.mean(shares)), 4)
            for plan, level in product(("holdout", "oob", "cv"), map(str, LEVELS))
            if (
                shares := [
                    float(row["share"])
                    for row in kept
                    if (row["plan"], str(row["level"]), row["rows"]) == (plan, level, "all")
                ]
            )
        },
        "versions": versions("lightgbm"),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--repetitions", type=int, default=20)
    parser.add_argument("--quick", action="store_true", help="up to 1000 rows and 100 features")
    parser.add_argument("--only", default="", help=ONLY)
    args = parser.parse_args()
    cells = []
    for parent, plans in PLANS.items():
        for plan, n, data in product(plans, SIZES, DATA):
            cell = Cell(parent, plan, n, data)
            small = n <= 1000 and data != "normal400"
            if (small or not args.quick) and fitting(cell):
                cells.append(cell)
    cells.sort(key=lambda cell: cell.n)
    rows = run_cells(
        partial(run, repetitions=args.repetitions),
        chosen(cells, args.only),
        args.out,
        COLUMNS,
        args.jobs,
        {"repetitions": args.repetitions, "seeds": list(range(args.repetitions))},
        ["lightgbm"],
    )
    print(json.dumps(summary(rows) | {"commit": commit()}, indent=2))
    sys.exit(any(broken(row) for row in rows))


if __name__ == "__main__":
    main()
