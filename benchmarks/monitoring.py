"""How often a check of a batch raises an alarm: with a shift (power) and without one.

python benchmarks/monitoring.py FOLDER --out OUT.csv [--list LIST] [--seeds 1] [--rows 500]
    [--batches 5] [--reference calibration] [--jobs 1] [--only WHAT]

A forest is fitted and calibrated on 60 % of the rows of a set (70/30, at most 6000 rows); batches
are drawn from the others. A fifth of the classes is held out for the shift "classes". Shares are
those of the rows of a batch that are changed; for "sampling" it is the slope of the log odds with
which rows are drawn, along a random direction. Each method is asked at the level 0.05.

Peers, on the features alone, are written here as alibi-detect has them by default (its packages
need NumPy below 2, polycal one above): MMD with a Gaussian kernel of median width and 100
permutations, Kolmogorov-Smirnov for each feature with Bonferroni's correction, and a forest that
tells three quarters of the rows apart and is tested on the last quarter. "log f" is Benjamini and
Hochberg's rule on conformal p-values of log f. The reference of the peers is the calibration rows,
as for polycal, or with ``--reference all`` those and the rows of the fit.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from _protocol import find_sets, load, shuffled
from _record import ONLY, Row, chosen, run_cells, table
from scipy.stats import ks_2samp
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import train_test_split

from polycal import GeodesicCalibrator

LEVEL = 0.05
MAX_ROWS = 6000
N_TREES = 100
N_PERMUTATIONS = 100
# Rows of one side that a peer compares, at most.
MOST = 2000
SHIFTS = {
    "none": (0.0,),
    "classes": (0.02, 0.05, 0.1, 0.2),
    "columns shuffled": (0.05, 0.1, 0.3),
    "one feature, 1 sd": (0.1, 0.2, 0.5),
    "sampling": (0.25, 0.5, 1.0),
}


class Cell(NamedTuple):
    set: str
    seed: int
    rows: int


COLUMNS = (*Cell._fields, "shift", "share", "method", "batches", "alarms", "selected", "false")


class Trained(NamedTuple):
    """A calibrated forest, rows that it knows, and new rows of the same kind."""

    model: Any
    fit: np.ndarray
    known: np.ndarray
    new: np.ndarray


def trained(X: np.ndarray, y: np.ndarray, seed: int) -> Trained:
    X, new, y, _ = train_test_split(X, y, test_size=0.4, stratify=y, random_state=seed)
    split = train_test_split(X, y, test_size=0.3, stratify=y, random_state=seed)
    X_fit, X_cal, y_fit, y_cal = split
    forest = RandomForestClassifier(N_TREES, random_state=seed).fit(X_fit, y_fit)
    model = GeodesicCalibrator(FrozenEstimator(forest), random_state=seed)
    return Trained(model.fit(X_fit, y_fit, X_cal=X_cal, y_cal=y_cal), X_fit, X_cal, new)


def batch(
    kind: str, share: float, known: Trained, strange: np.ndarray, n: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """A batch of n rows, and which of them are changed."""
    order = rng.permutation(len(known.new))
    changed = np.zeros(n, dtype=bool)
    if kind == "none":
        return known.new[order[:n]], changed
    if kind == "sampling":
        spread = known.fit.std(axis=0)
        z = (known.new / np.where(spread > 0, spread, 1)) @ rng.normal(size=len(spread))
        odds = share * (z - z.mean()) / max(z.std(), 1e-12) + rng.gumbel(size=len(z))
        return known.new[np.argsort(-odds)[:n]], changed
    k = max(1, round(share * n))
    rows = known.new[order[:n]].copy()
    changed[:k] = True
    if kind == "classes":
        rows[:k] = strange[rng.choice(len(strange), k, replace=k > len(strange))]
    elif kind == "columns shuffled":
        rows[:k] = shuffled(known.new, rng)[:k]
    else:
        varying = np.flatnonzero(known.fit.std(axis=0) > 0)
        j = rng.choice(varying)
        rows[:k, j] += known.fit[:, j].std()
    return rows, changed


def ks(known: np.ndarray, rows: np.ndarray, rng: np.random.Generator) -> float:
    columns = zip(known.T, rows.T, strict=True)
    p = [ks_2samp(a, b, method="asymp").pvalue for a, b in columns]
    return min(1.0, min(p) * len(p))


def mmd(known: np.ndarray, rows: np.ndarray, rng: np.random.Generator) -> float:
    """Unbiased MMD^2, with a permutation null."""
    spread = known.std(axis=0)
    Z = np.concatenate([known, rows]) / np.where(spread > 0, spread, 1)
    n, m = len(known), len(rows)
    square = (Z * Z).sum(axis=1)
    distance = np.maximum(square[:, None] + square - 2 * Z @ Z.T, 0)
    width = np.median(distance[np.triu_indices(n + m, 1)])
    K = np.exp(-distance / max(width, 1e-12)).astype(np.float32)
    np.fill_diagonal(K, 0)
    W = np.zeros((n + m, N_PERMUTATIONS + 1), dtype=np.float32)
    W[n:, 0] = 1
    for k in range(1, N_PERMUTATIONS + 1):
        W[rng.permutation(n + m)[:m], k] = 1
    KW = K @ W
    both = (W * KW).sum(axis=0)
    across = KW.sum(axis=0) - both
    none = float(K.sum()) - both - 2 * across
    found = none / (n * (n - 1)) + both / (m * (m - 1)) - 2 * across / (n * m)
    return float((found >= found[0] - 1e-9).mean())


def classifier(known: np.ndarray, rows: np.ndarray, rng: np.random.Generator) -> float:
    X = np.concatenate([known, rows])
    is_new = np.repeat([0, 1], [len(known), len(rows)])
    order = rng.permutation(len(X))
    train, test = np.split(order, [int(0.75 * len(X))])
    forest = RandomForestClassifier(N_TREES, min_samples_leaf=3, random_state=0)
    proba = forest.fit(X[train], is_new[train]).predict_proba(X[test])[:, 1]
    sides = (proba[is_new[test] == side] for side in (0, 1))
    return float(ks_2samp(*sides, method="asymp").pvalue)


def bh(model: Any, rows: np.ndarray) -> np.ndarray:
    """Rows that Benjamini and Hochberg's rule rejects by conformal p-values of log f."""
    p = model.explain(rows).p_value
    ordered = np.sort(p)
    kept = np.flatnonzero(ordered <= LEVEL * np.arange(1, len(p) + 1) / len(p))
    return p <= (ordered[kept[-1]] if len(kept) else -1)


PEERS = {"MMD": mmd, "KS": ks, "classifier": classifier}


def run(
    folder: Path,
    n_batches: int,
    reference: str,
    peers: tuple[str, ...],
    kinds: tuple[str, ...],
    cell: Cell,
) -> list[Row]:
    """All shifts and methods on one set."""
    warnings.simplefilter("ignore")
    X, y = load(folder / cell.set, np.random.default_rng(cell.seed), MAX_ROWS)
    rng = np.random.default_rng(cell.seed)
    n_classes = int(y.max()) + 1
    away = np.zeros(len(y), dtype=bool)
    if n_classes >= 3:
        away = np.isin(y, rng.choice(n_classes, max(1, n_classes // 5), replace=False))
    usual = trained(X, y, cell.seed)
    fewer = usual
    if away.any() and "classes" in kinds:
        fewer = trained(X[~away], np.unique(y[~away], return_inverse=True)[1], cell.seed)
    found: dict[tuple[str, float, str], Row] = {}
    for kind in kinds:
        if kind == "classes" and not away.any():
            continue
        shares = SHIFTS[kind]
        known = fewer if kind == "classes" else usual
        peers_rows = known.known
        if reference == "all":
            peers_rows = np.concatenate([known.known, known.fit])
        for share in shares:
            for _ in range(n_batches):
                n = min(cell.rows, len(known.new) // 2)
                rows, changed = batch(kind, share, known, X[away], n, rng)
                check = known.model.check(rows, level=LEVEL)
                rejected = bh(known.model, rows)
                alarms = {"polycal": check.alarm, "log f": rejected.any()}
                for name, p in check.parts.items():
                    alarms[f"part: {name}"] = p <= LEVEL
                some = peers_rows[rng.permutation(len(peers_rows))[:MOST]]
                for name in peers:
                    alarms[name] = PEERS[name](some, rows, rng) <= LEVEL
                for name, alarm in alarms.items():
                    row = found.setdefault(
                        (kind, share, name),
                        {
                            **cell._asdict(),
                            "shift": kind,
                            "share": share,
                            "method": name,
                            "batches": 0,
                            "alarms": 0,
                            "selected": 0.0,
                            "false": 0.0,
                        },
                    )
                    row["batches"] += 1
                    row["alarms"] += int(alarm)
                    by = {"polycal": check.selected, "log f": rejected}.get(name)
                    if by is not None and changed.any():  # share found, and false among selected
                        row["selected"] += by[changed].mean() / n_batches
                        row["false"] += (by & ~changed).sum() / max(by.sum(), 1) / n_batches
    return list(found.values())


def summary(rows: list[dict[str, str]]) -> list[Row]:
    """Share of alarms by shift, share and method, over all sets."""
    lines: list[Row] = []
    for kind, shares in SHIFTS.items():
        for share in shares:
            some = [r for r in rows if r["shift"] == kind and float(r["share"]) == share]
            if not some:
                continue
            line: Row = {"shift": kind, "share": str(share)}
            line["sets"] = str(len({r["set"] for r in some}))
            for name in dict.fromkeys(r["method"] for r in some):
                own = [r for r in some if r["method"] == name]
                alarms = sum(int(r["alarms"]) for r in own)
                line[name] = alarms / sum(int(r["batches"]) for r in own)
            lines.append(line)
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, required=True, help="CSV, which a second start goes on")
    parser.add_argument("--list", type=Path, help="file that lists the sets to run")
    parser.add_argument("--seeds", default="1")
    parser.add_argument("--rows", default="500", help="rows of a batch, as 200,1000")
    parser.add_argument("--batches", type=int, default=5, help="of each shift and share")
    parser.add_argument("--reference", choices=("calibration", "all"), default="calibration")
    parser.add_argument("--peers", default=",".join(PEERS), help="some of these")
    parser.add_argument("--shifts", default="/".join(SHIFTS), help="some of these")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--only", default="", help=ONLY)
    args = parser.parse_args()
    sets = [path.name for path in find_sets(args.folder, args.list)]
    cells = [
        Cell(name, int(seed), int(rows))
        for rows in args.rows.split(",")
        for seed in args.seeds.split(",")
        for name in sets
    ]
    peers = tuple(args.peers.split(","))
    settings = {"batches": args.batches, "reference": args.reference, "level": LEVEL}
    kinds = tuple(args.shifts.split("/"))
    settings |= {"peers": peers, "shifts": kinds}
    rows = run_cells(
        lambda cell: run(args.folder, args.batches, args.reference, peers, kinds, cell),
        chosen(cells, args.only),
        args.out,
        COLUMNS,
        args.jobs,
        settings,
    )
    print(table(summary(rows)))


if __name__ == "__main__":
    main()
