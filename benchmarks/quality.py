"""Calibration in and out of distribution on a folder of data sets; prints JSON.

python benchmarks/quality.py FOLDER --parent forest [--only LIST] [--seed 0] [--jobs 2]

FOLDER holds .npz files with arrays X and y. Every method gets the same fitted parent and
the same calibration rows; polycal and its paper setting run with their defaults.
"""

from __future__ import annotations

import argparse
import json
import warnings
from pathlib import Path

import numpy as np
from _protocol import find_sets, load, make_parent, split, versions
from sklearn.calibration import CalibratedClassifierCV
from sklearn.exceptions import ConvergenceWarning
from sklearn.frozen import FrozenEstimator
from tqdm import tqdm

from polycal import PAPER, GeodesicCalibrator
from polycal.metrics import expected_calibration_error, ood_calibration_error
from polycal.simulations import sample_sphere

RADII = (1, 2, 3, 4, 5)
SMALLEST = 1e-15  # probability below which log-loss is cut, for every method alike


def measure(P: np.ndarray, y: np.ndarray, P_ood: np.ndarray, priors: np.ndarray) -> dict:
    one_hot = np.eye(P.shape[1])[y]
    return {
        "error": float((P.argmax(axis=1) != y).mean()),
        "ece": expected_calibration_error(y, P),
        "log_loss": float(-np.log(np.maximum(P[np.arange(len(y)), y], SMALLEST)).mean()),
        "brier": float(((P - one_hot) ** 2).sum(axis=1).mean()),
        "oce": ood_calibration_error(P_ood, priors),
    }


def run_set(path: Path, parent_name: str, seed: int, jobs: int) -> dict[str, dict]:
    rng = np.random.default_rng(seed)
    X, y = load(path, rng)
    priors = np.bincount(y) / len(y)
    X_fit, y_fit, X_cal, y_cal, X_test, y_test = split(X, y, seed)
    spheres = [sample_sphere(200, X.shape[1], r, random_state=seed + r) for r in RADII]
    X_ood = np.concatenate(spheres)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        parent = make_parent(parent_name, seed, jobs).fit(X_fit, y_fit)
    frozen = FrozenEstimator(parent)
    models = {"parent": parent}
    for method in ("isotonic", "sigmoid", "temperature"):
        models[method] = CalibratedClassifierCV(frozen, method=method).fit(X_cal, y_cal)
    for name, setting in (("polycal PAPER", PAPER), ("polycal", {})):
        model = GeodesicCalibrator(frozen, n_jobs=jobs, **setting)
        models[name] = model.fit(X_fit, y_fit, X_cal=X_cal, y_cal=y_cal)
    return {
        name: measure(model.predict_proba(X_test), y_test, model.predict_proba(X_ood), priors)
        for name, model in models.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--parent", default="forest", choices=["forest", "mlp"])
    parser.add_argument("--only", type=Path, help="file that lists the sets to run")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--per-set", action="store_true", help="print every set's figures too")
    args = parser.parse_args()
    per_set = {}
    for path in tqdm(find_sets(args.folder, args.only), desc="data sets", unit="set"):
        per_set[path.stem] = run_set(path, args.parent, args.seed, args.jobs)
    methods = next(iter(per_set.values()))
    mean = {
        method: {
            key: round(float(np.mean([row[method][key] for row in per_set.values()])), 5)
            for key in figures
        }
        for method, figures in methods.items()
    }
    report = {
        "benchmark": f"quality --parent {args.parent}",
        "sets": len(per_set),
        "seed": args.seed,
        "versions": versions(),
        "mean": mean,
    }
    if args.per_set:
        report["per_set"] = per_set
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
