"""What polycal does to rare positives: their ranking, and how many of them are called "out".

python benchmarks/rare_classes.py OUT.csv [--folder FOLDER] [--before OLD.csv] [--jobs 2]
    [--only TEXT] [--quick]

A cell is a kind of data, a share of positives, a parent, a plan of calibration and a seed. Data are
a simulation of 10 features and, with --folder, electricity and adult with the positives thinned out
to the share: 20,000 training rows and 10,000 test rows, fewer where a set has fewer. With the plan
"auto" the plain parent and polycal get all training rows; with "holdout" one parent is fitted on
70 %, and polycal calibrates it on the others. Wanted, for the mean over the seeds: an average
precision that is not below the parent's by more than two standard errors of the paired difference;
at most a tenth of the rare test rows "out"; and of rows with shuffled columns at least 0.9 of the
share "out" in OLD.csv, over the seeds that both have.
"""

from __future__ import annotations

import argparse
import time
import warnings
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from _protocol import fit_beside, load, row_losses, shuffled
from _record import ONLY, Row, chosen, mean_and_error, read, run_cells, table
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import average_precision_score
from sklearn.model_selection import train_test_split

DATA = ("simulation", "151_electricity", "1590_adult")
SHARES = (0.005, 0.01, 0.05)
PARENTS = ("forest", "lightgbm")
PLANS = ("auto", "holdout")
SEEDS = range(10)
N_TRAIN, N_TEST = 20_000, 10_000
RARE_OUT, SHUFFLED_KEPT = 0.1, 0.9  # targets
FIGURES = (
    *("parent_ap", "ap", "parent_log_loss", "log_loss"),
    *("rare_out", "all_out", "shuffled_out"),
)
GROUP = ("data", "share", "parent", "plan")
COLUMNS = (*GROUP, "seed", "n_train", "n_test", "n_rare_test", *FIGURES, "seconds")


class Cell(NamedTuple):
    data: str
    share: float
    parent: str
    plan: str
    seed: int


def make_parent(name: str, seed: int, quick: bool) -> Any:
    if name == "forest":
        return RandomForestClassifier(30 if quick else 300, random_state=seed)
    from lightgbm import LGBMClassifier

    return LGBMClassifier(n_estimators=50, n_jobs=1, random_state=seed, verbose=-1)


def simulate(n: int, share: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Bent correlated negatives; positives in a cluster among them and one at their edge."""
    n_rare = round(n * share)
    X = _bent(rng.normal(size=(n, 10)))
    y = (np.arange(n) < n_rare).astype(int)
    inside = np.flatnonzero(rng.random(n_rare) < 0.5)
    edge = np.setdiff1d(np.arange(n_rare), inside)
    middle = np.array([1.0, -1.0, 1.0, 0.5, -0.5, 1.0, 0.0, 0.0, 0.0, 0.0])
    X[inside] = _bent(middle + 0.75 * rng.normal(size=(len(inside), 10)))
    X[edge, :3] += np.array([1.7, 1.7, -1.7])  # and not along the bend
    return X, y


def _bent(Z: np.ndarray) -> np.ndarray:
    """Each feature is half the one before it; two of them bend."""
    X = Z.copy()
    for j in range(1, X.shape[1]):
        X[:, j] = 0.5 * X[:, j - 1] + np.sqrt(0.75) * Z[:, j]
    X[:, 4] += 0.7 * (X[:, 0] ** 2 - 1)
    X[:, 7] += np.sin(2 * X[:, 2])
    return X


def thin_out(X: np.ndarray, y: np.ndarray, n: int, share: float, rng: np.random.Generator) -> tuple:
    """At most n rows with this share of the rarer class, which becomes 1."""
    rare = y == np.bincount(y).argmin()
    n = min(n, int((~rare).sum() / (1 - share)))
    n_rare = round(n * share)
    kept = np.concatenate(
        [
            rng.choice(np.flatnonzero(rare), n_rare, replace=False),
            rng.choice(np.flatnonzero(~rare), n - n_rare, replace=False),
        ]
    )
    return X[kept], rare[kept].astype(int)


def run(cell: Cell, folder: Path | None, quick: bool) -> list[Row]:
    warnings.simplefilter("ignore")
    start = time.perf_counter()
    rng = np.random.default_rng(cell.seed)
    n = (N_TRAIN + N_TEST) // (10 if quick else 1)
    if folder is None or cell.data == "simulation":
        X, y = simulate(n, cell.share, rng)
    else:
        X, y = load(folder / f"{cell.data}.npz", rng, None)
        X, y = thin_out(X, y, n, cell.share, rng)
    halves = {"random_state": cell.seed}
    X, X_test, y, y_test = train_test_split(X, y, test_size=1 / 3, stratify=y, **halves)
    X_fit, X_cal, y_fit, y_cal = train_test_split(X, y, test_size=0.3, stratify=y, **halves)
    parent = make_parent(cell.parent, cell.seed, quick)
    plain, model = fit_beside(parent, (X_fit, y_fit, X_cal, y_cal), cell.plan, cell.seed)
    answer = model.answer(X_test)
    out = model.explain_answer(answer).verdict == "out"
    both = (plain.predict_proba(X_test), answer.probabilities)
    figures = (
        *(len(y), len(y_test), int(y_test.sum())),
        *(average_precision_score(y_test, P[:, 1]) for P in both),
        *(float(row_losses(P, y_test).mean()) for P in both),
        *(float(out[y_test == 1].mean()), float(out.mean())),
        float((model.explain(shuffled(X_test, rng)).verdict == "out").mean()),
        round(time.perf_counter() - start, 1),
    )
    return [dict(zip(COLUMNS, (*cell, *figures), strict=True))]


def summary(rows: list[dict[str, str]], before: list[dict[str, str]]) -> list[Row]:
    """Each group of cells with the mean and the standard error over its seeds."""
    lines = []
    for group in dict.fromkeys(_group(row) for row in rows):
        kept = [row for row in rows if _group(row) == group]
        line: Row = dict(zip(GROUP, group, strict=True)) | {"seeds": len(kept)}
        for name in ("parent_ap", "ap", "parent_log_loss", "log_loss"):
            line[name] = mean_and_error(row[name] for row in kept)
        line["ap difference"] = mean_and_error(float(r["ap"]) - float(r["parent_ap"]) for r in kept)
        for name in ("rare_out", "all_out", "shuffled_out"):
            line[name] = mean_and_error(row[name] for row in kept)
        line["shuffled_out to before"] = _ratio(kept, [r for r in before if _group(r) == group])
        lines.append(line)
    return lines


def _group(row: dict[str, str]) -> tuple[str, ...]:
    return tuple(row[name] for name in GROUP)


def _ratio(rows: list[dict[str, str]], before: list[dict[str, str]]) -> float:
    """Of the shuffled rows called out, over the seeds that both have; NaN without any."""
    old = {row["seed"]: float(row["shuffled_out"]) for row in before}
    new = {row["seed"]: float(row["shuffled_out"]) for row in rows if row["seed"] in old}
    total = sum(old[seed] for seed in new)
    return sum(new.values()) / total if total else np.nan


def missed(line: Row) -> list[str]:
    """The targets that a group misses; one seed alone says nothing about average precision."""
    mean, error = line["ap difference"]
    found = []
    if mean < -2 * error:
        found.append("average precision below the parent's")
    if line["rare_out"][0] > RARE_OUT:
        found.append("rare rows out")
    if line["shuffled_out to before"] < SHUFFLED_KEPT:
        found.append("shuffled rows out")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--folder", type=Path, help="with 151_electricity.npz and 1590_adult.npz")
    parser.add_argument("--before", type=Path, help="record to compare shuffled rows with")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--only", default="", help=ONLY)
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows, 5 %%, 2 seeds")
    args = parser.parse_args()
    data = DATA if args.folder else DATA[:1]
    seeds, shares = (SEEDS[:2], SHARES[-1:]) if args.quick else (SEEDS, SHARES)
    cells = [
        Cell(kind, share, parent, plan, seed)
        for seed, kind, share, parent, plan in product(seeds, data, shares, PARENTS, PLANS)
    ]
    rows = run_cells(
        partial(run, folder=args.folder, quick=args.quick),
        chosen(cells, args.only),
        args.out,
        COLUMNS,
        args.jobs,
        {"quick": args.quick, "seeds": list(seeds)},
        ["lightgbm"],
    )
    lines = summary(rows, read(args.before) if args.before else [])
    shown = [
        {k: "{:.4f} ± {:.4f}".format(*v) if isinstance(v, tuple) else v for k, v in line.items()}
        for line in lines
    ]
    print(table(shown))
    bad = [line for line in lines if missed(line)]
    print(f"\nGroups that miss a target: {len(bad)} of {len(lines)}")
    for line in bad:
        print(f"- {', '.join(line[name] for name in GROUP)}: {'; '.join(missed(line))}")


if __name__ == "__main__":
    main()
