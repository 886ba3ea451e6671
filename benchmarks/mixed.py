"""Data sets with categories and missing values, taken natively; prints JSON.

python benchmarks/mixed.py FOLDER [--parent hgb] [--seed 0] [--jobs 2]

FOLDER holds the .npz files named below, with arrays X, y and columns. Categories reach the
parent as pandas categories. Out-of-distribution rows are test rows with every column shuffled
on its own, and test rows with one category (another one in each row) that no row had; AUROC
of each score against the test rows, for both kinds together and apart.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import pandas as pd
from _parents import make_parent
from _protocol import MAX_ROWS, PEERS, PER_RADIUS, RADII, measure, spheres, split, versions
from joblib import Parallel, delayed
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator
from tqdm import tqdm

from polycal import GeodesicCalibrator
from polycal.metrics import auroc

# Columns that hold categories, by data set.
CATEGORIES = {
    "1590_adult": "workclass education marital-status occupation relationship race sex "
    "native-country",
    "1461_bank-marketing": "V2 V3 V4 V5 V7 V8 V9 V11 V16",
    "31_credit-g": "checking_status credit_history purpose savings_status employment "
    "personal_status other_parties property_magnitude other_payment_plans housing job "
    "own_telephone foreign_worker",
    "40701_churn": "state|area code|international plan|voice mail plan",
    "23_cmc": "Wifes_education Husbands_education Wifes_religion Wifes_now_working? "
    "Husbands_occupation Standard-of-living_index Media_exposure",
    "151_electricity": "day",
    "1053_jm1": "",
}
NEW = "never seen"


def load(path: Path, rng: np.random.Generator) -> tuple[pd.DataFrame, np.ndarray, list[str]]:
    """At most 10,000 rows as a frame: categories as words, numbers scaled as in _protocol."""
    with np.load(path, allow_pickle=False) as data:
        X, y = data["X"].astype(float), np.unique(data["y"], return_inverse=True)[1]
        names = [str(name) for name in data["columns"]]
    if len(X) > MAX_ROWS:
        chosen = rng.choice(len(X), MAX_ROWS, replace=False)
        X, y = X[chosen], y[chosen]
    text = CATEGORIES[path.stem]
    categories = text.split("|") if "|" in text else text.split()
    frame = pd.DataFrame(X, columns=names)
    for name in names:
        if name in categories:
            words = frame[name].map(lambda value: f"level {value:g}")
            frame[name] = words.astype(pd.CategoricalDtype([*sorted(words.unique()), NEW]))
        else:
            low, high = frame[name].min(), frame[name].max()
            frame[name] = (frame[name] - low) / (high - low if high > low else 1.0)
    numbers = [name for name in names if name not in categories]
    frame[numbers] /= np.sqrt((frame[numbers].fillna(0.0) ** 2).sum(axis=1).max())
    return frame, y, categories


def outside(X: pd.DataFrame, categories: list[str], seed: int) -> dict[str, pd.DataFrame]:
    """Rows with shuffled columns, rows with a new category, rows with far numbers."""
    rng = np.random.default_rng(seed)
    shuffled = X.copy()
    for name in X:
        shuffled[name] = X[name].to_numpy()[rng.permutation(len(X))]
        if name in categories:
            shuffled[name] = shuffled[name].astype(X[name].dtype)
    kinds = {"shuffled": shuffled}
    if categories:
        new = X.copy()
        which = rng.integers(0, len(categories), len(X))
        for place, name in enumerate(categories):
            new.loc[which == place, name] = NEW
        kinds["new category"] = new
    numbers = [name for name in X if name not in categories]
    far = X.iloc[np.arange(PER_RADIUS * len(RADII)) % len(X)].copy()
    far[numbers] = spheres(len(numbers), seed)
    kinds["far"] = far
    return kinds


def run_set(path: Path, parent_name: str, seed: int) -> dict:
    X, y, categories = load(path, np.random.default_rng(seed))
    priors = np.bincount(y) / len(y)
    X_fit, y_fit, X_cal, y_cal, X_test, y_test = split(X, y, seed)
    kinds = outside(X_test, categories, seed)
    parent = make_parent(parent_name, seed).fit(X_fit, y_fit)
    models = {"parent": parent}
    for method in PEERS:
        peer = CalibratedClassifierCV(FrozenEstimator(parent), method=method)
        models[method] = peer.fit(X_cal, y_cal)
    ours = GeodesicCalibrator(FrozenEstimator(parent))
    models["polycal"] = ours.fit(X_fit, y_fit, X_cal=X_cal, y_cal=y_cal)
    far = kinds.pop("far")
    table = {
        name: measure(model.predict_proba(X_test), y_test, model.predict_proba(far), priors)
        for name, model in models.items()
    }
    scores = {
        "parent confidence": lambda rows: parent.predict_proba(rows).max(axis=1),
        "polycal": ours.score_samples,
    }
    found = {}
    for name, score in scores.items():
        inside = score(X_test)
        apart = {kind: score(rows) for kind, rows in kinds.items()}
        together = np.concatenate(list(apart.values()))
        found[name] = {kind: round(auroc(inside, rows), 4) for kind, rows in apart.items()}
        found[name]["together"] = round(auroc(inside, together), 4)
    alarms = ours.score_samples(X_test) < ours.out_floor_
    return {"table": table, "auroc": found, "false alarms": float(alarms.mean())}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--parent", default="hgb", choices=["hgb", "lightgbm"])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2, help="data sets at a time")
    args = parser.parse_args()
    paths = [args.folder / f"{name}.npz" for name in CATEGORIES]
    missing = [path.name for path in paths if not path.exists()]
    if missing:
        raise SystemExit(f"{args.folder} has no {missing}")
    work = Parallel(n_jobs=args.jobs, return_as="generator")(
        delayed(run_set)(path, args.parent, args.seed) for path in paths
    )
    bar = tqdm(zip(paths, work, strict=True), total=len(paths), desc="data sets", unit="set")
    per_set = {path.stem: result for path, result in bar}
    tables = [result["table"] for result in per_set.values()]
    mean = {
        method: {
            key: round(float(np.mean([table[method][key] for table in tables])), 5)
            for key in tables[0][method]
        }
        for method in tables[0]
    }
    pairs = [(r["auroc"]["polycal"], r["auroc"]["parent confidence"]) for r in per_set.values()]
    report = {
        "benchmark": f"mixed --parent {args.parent}",
        "seed": args.seed,
        "versions": versions(args.parent),
        "mean": mean,
        "false alarms": round(float(np.mean([r["false alarms"] for r in per_set.values()])), 5),
        "at least the parent's AUROC on": sum(a["together"] >= b["together"] for a, b in pairs),
        "auroc": {name: result["auroc"] for name, result in per_set.items()},
    }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
