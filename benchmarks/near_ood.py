"""How well log f tells near out-of-distribution rows apart; prints JSON.

python benchmarks/near_ood.py FOLDER [--only LIST] [--seed 0] [--jobs 2]

Two kinds of near OOD rows: the rows of a fifth of the classes, held out of training (sets
with 3 or more classes), and test rows with each column shuffled on its own. AUROC of each
score against in-distribution test rows, mean over the sets.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from _parents import make_parent
from _protocol import MAX_TEST, find_sets, load, shuffled, split, versions
from sklearn.ensemble import IsolationForest
from sklearn.frozen import FrozenEstimator
from sklearn.neighbors import NearestNeighbors
from tqdm import tqdm

from polycal import PAPER, GeodesicCalibrator
from polycal.metrics import auroc

PEERS = ("parent confidence", "10-NN distance", "isolation forest")


def scorers(X_fit, y_fit, X_cal, y_cal, seed: int, jobs: int) -> dict:
    """Functions that score rows: higher is more in distribution."""
    parent = make_parent("forest", seed, jobs).fit(X_fit, y_fit)
    frozen = FrozenEstimator(parent)
    tree = NearestNeighbors(n_neighbors=10, n_jobs=jobs).fit(X_fit)
    isolation = IsolationForest(random_state=seed, n_jobs=jobs).fit(X_fit)

    def calibrated(**setting):
        model = GeodesicCalibrator(frozen, n_jobs=jobs, **setting)
        return model.fit(X_fit, y_fit, X_cal=X_cal, y_cal=y_cal).score_samples

    return {
        "parent confidence": lambda X: parent.predict_proba(X).max(axis=1),
        "10-NN distance": lambda X: -tree.kneighbors(X)[0][:, -1],
        "mean 10-NN distance": lambda X: -tree.kneighbors(X)[0].mean(axis=1),
        "isolation forest": isolation.score_samples,
        "polycal PAPER": calibrated(**PAPER),
        "polycal": calibrated(),
    }


def run(X: np.ndarray, y: np.ndarray, X_ood: np.ndarray | None, seed: int, jobs: int) -> dict:
    """AUROC of each score; without OOD rows, shuffled test rows are used."""
    X_fit, y_fit, X_cal, y_cal, X_test, _ = split(X, y, seed)
    rng = np.random.default_rng(seed)
    if X_ood is None:
        X_ood = shuffled(X_test, rng)
    X_ood = X_ood[rng.permutation(len(X_ood))[:MAX_TEST]]
    scores = scorers(X_fit, y_fit, X_cal, y_cal, seed, jobs)
    return {name: auroc(score(X_test), score(X_ood)) for name, score in scores.items()}


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
    for kind, rows in results.items():
        mean = {name: round(float(np.mean([row[name] for row in rows])), 4) for name in rows[0]}
        margin = mean["polycal"] - max(mean[peer] for peer in PEERS)
        report[kind] = {"sets": len(rows), "mean AUROC": mean, "above best peer": round(margin, 4)}
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
