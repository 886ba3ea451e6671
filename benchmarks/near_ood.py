"""How well log f tells near out-of-distribution rows apart; prints JSON.

python benchmarks/near_ood.py FOLDER [--only LIST] [--seed 0] [--jobs 2]

Two kinds of near OOD rows: the rows of a fifth of the classes, held out of training (sets
with 3 or more classes), and test rows with each column shuffled on its own. AUROC of each
score against in-distribution test rows, and the share of OOD rows that are rejected at 1 % and 5 %
false alarms, mean over the sets. The floor of a detector is at this rank of its scores for the
calibration rows, which it was not fitted on; polycal's is its own. Beside the shares rejected are
those of the in-distribution test rows, the false alarms.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
from _parents import make_parent
from _protocol import MAX_TEST, find_sets, load, shuffled, split, versions
from scipy.stats import skew
from sklearn.ensemble import IsolationForest
from sklearn.frozen import FrozenEstimator
from sklearn.neighbors import LocalOutlierFactor, NearestNeighbors
from tqdm import tqdm

from polycal import PAPER, GeodesicCalibrator
from polycal.metrics import auroc

OURS = ("polycal", "polycal PAPER")
LEVELS = (0.01, 0.05)
# What is wanted beside the best other: AUROC above it, and the share rejected at 5 %, times its.
MARGIN, RATIO = 0.04, 1.15

Score = Callable[[np.ndarray], np.ndarray]  # higher is more in distribution


def tails(X_fit: np.ndarray, X: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """-log of the share of rows at most, and at least, as large, by column; signs of the skewness.

    The row itself counts as one of the rows.
    """
    columns, n = np.sort(X_fit, axis=0), len(X_fit) + 1
    below = [np.searchsorted(c, x, "right") for c, x in zip(columns.T, X.T, strict=True)]
    above = [n - 1 - np.searchsorted(c, x, "left") for c, x in zip(columns.T, X.T, strict=True)]
    left, right = (-np.log((np.stack(counts, axis=1) + 1) / n) for counts in (below, above))
    return left, right, np.nan_to_num(np.sign(skew(X_fit, axis=0)))


def ecod(X_fit: np.ndarray) -> Score:
    """Outliers by empirical distributions (ECOD), column by column."""

    def score(X: np.ndarray) -> np.ndarray:
        left, right, sign = tails(X_fit, X)
        skewed = left * (sign < 1) + right * (sign > -1)
        return -np.maximum(np.maximum(left, right), skewed).sum(axis=1)

    return score


def copod(X_fit: np.ndarray) -> Score:
    """Outliers by the empirical copula (COPOD), column by column."""

    def score(X: np.ndarray) -> np.ndarray:
        left, right, sign = tails(X_fit, X)
        skewed = left * (sign < 1) + right * (sign > -1)
        return -np.maximum((left + right) / 2, skewed).sum(axis=1)

    return score


def detectors(X_fit: np.ndarray, seed: int, jobs: int) -> dict[str, Score]:
    """Those that see no labels."""
    tree = NearestNeighbors(n_neighbors=10, n_jobs=jobs).fit(X_fit)
    isolation = IsolationForest(random_state=seed, n_jobs=jobs).fit(X_fit)
    return {
        "10-NN distance": lambda X: -tree.kneighbors(X)[0][:, -1],
        "mean 10-NN distance": lambda X: -tree.kneighbors(X)[0].mean(axis=1),
        "LOF": LocalOutlierFactor(novelty=True, n_jobs=jobs).fit(X_fit).score_samples,
        "isolation forest": isolation.score_samples,
        "ECOD": ecod(X_fit),
        "COPOD": copod(X_fit),
    }


def floor_of(known: np.ndarray, level: float) -> float:
    """The score below which a new row is with at most this probability (to one row)."""
    return float(np.sort(known)[max(int(level * (len(known) + 1)), 1) - 1])


def scorers(X_fit, y_fit, X_cal, y_cal, seed: int, jobs: int) -> dict:
    """Name -> function that scores rows, and its floors at the levels."""
    parent = make_parent("forest", seed, jobs).fit(X_fit, y_fit)
    found: dict[str, Score] = {"parent confidence": lambda X: parent.predict_proba(X).max(axis=1)}
    found |= detectors(X_fit, seed, jobs)
    judges = {
        name: (score, [floor_of(score(X_cal), level) for level in LEVELS])
        for name, score in found.items()
    }
    for name, setting in (("polycal PAPER", PAPER), ("polycal", {})):
        model = GeodesicCalibrator(FrozenEstimator(parent), n_jobs=jobs, **setting)
        model.fit(X_fit, y_fit, X_cal=X_cal, y_cal=y_cal)
        floors = [model.model_.scores.verdict_floor(level) for level in LEVELS]
        judges[name] = (model.score_samples, floors)
    return judges


def run(X: np.ndarray, y: np.ndarray, X_ood: np.ndarray | None, seed: int, jobs: int) -> dict:
    """Figures of each score; without OOD rows, shuffled test rows are used."""
    X_fit, y_fit, X_cal, y_cal, X_test, _ = split(X, y, seed)
    rng = np.random.default_rng(seed)
    if X_ood is None:
        X_ood = shuffled(X_test, rng)
    X_ood = X_ood[rng.permutation(len(X_ood))[:MAX_TEST]]
    results = {}
    for name, (score, floors) in scorers(X_fit, y_fit, X_cal, y_cal, seed, jobs).items():
        known, new = score(X_test), score(X_ood)
        results[name] = {"AUROC": auroc(known, new)}
        for level, floor in zip(LEVELS, floors, strict=True):
            results[name][f"rejected at {level:.0%}"] = float((new < floor).mean())
            results[name][f"false alarms at {level:.0%}"] = float((known < floor).mean())
    return results


def summary(rows: list[dict]) -> dict:
    """Means over the sets, and polycal beside the best other detector."""
    mean = {
        name: {key: round(float(np.mean([row[name][key] for row in rows])), 4) for key in figures}
        for name, figures in rows[0].items()
    }
    found: dict = {"sets": len(rows), "mean": mean}
    for key in ("AUROC", "rejected at 1%", "rejected at 5%"):
        best = max((name for name in mean if name not in OURS), key=lambda name: mean[name][key])
        ours, other = mean["polycal"][key], mean[best][key]
        found[key] = {"best other": best, "above it": round(ours - other, 4)}
        found[key]["times it"] = round(ours / other, 3) if other else None
    wanted = found["AUROC"]["above it"] >= MARGIN, found["rejected at 5%"]["times it"] >= RATIO
    found["reached"] = dict(zip((f"AUROC + {MARGIN}", f"times {RATIO} at 5%"), wanted, strict=True))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", type=Path, help="file that lists the sets to run")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    results: dict[str, list[dict]] = {"classes held out": [], "columns shuffled": []}
    for path in tqdm(find_sets(args.folder, args.only), desc="data sets", unit="set"):
        rng = np.random.default_rng(args.seed)
        X, y = load(path, rng)
        results["columns shuffled"].append(run(X, y, None, args.seed, args.jobs))
        n_classes = y.max() + 1
        if n_classes >= 3:
            away = np.isin(y, rng.choice(n_classes, max(1, n_classes // 5), replace=False))
            labels = np.unique(y[~away], return_inverse=True)[1]
            held = run(X[~away], labels, X[away], args.seed, args.jobs)
            results["classes held out"].append(held)
    report = {"benchmark": "near_ood", "seed": args.seed, "versions": versions()}
    report |= {kind: summary(rows) for kind, rows in results.items() if rows}
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
