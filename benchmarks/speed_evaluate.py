"""Time of ``polycal.evaluate``, as a ratio to the models' own ``predict_proba``; prints JSON.

python benchmarks/speed_evaluate.py [--rows 10000] [--repeats 7]

Five models of 100 trees, 10 classes, 200 bootstrap rounds; without OOD rows, and with as many as
test rows. ``evaluate`` asks the models itself; the ratio is what it takes beyond their
``predict_proba``, which is timed just before. Kinds of models take turns, and each figure is the
median over the repeats.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from statistics import median

import numpy as np
import sklearn
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from tqdm import tqdm

import polycal
from polycal import KernelDensityForest, evaluate

N_MODELS, N_TREES, N_FIT, N_ROUNDS = 5, 100, 5000, 200
KINDS = {"forest": RandomForestClassifier, "KernelDensityForest": KernelDensityForest}


def run(models: list, X, y, ood) -> dict[str, float]:
    start = time.perf_counter()
    for rows in [X] if ood is None else [X, ood]:
        for model in models:
            model.predict_proba(rows)
    middle = time.perf_counter()
    evaluate(models, X, y, ood=ood, n_rounds=N_ROUNDS, random_state=0)
    predict, whole = middle - start, time.perf_counter() - middle
    return {"predict_proba_s": predict, "evaluate_s": whole, "ratio": (whole - predict) / predict}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=7)
    args = parser.parse_args()
    X, y = make_classification(
        N_FIT + args.rows,
        n_features=20,
        n_informative=10,
        n_classes=10,
        n_clusters_per_class=1,
        class_sep=0.8,
        flip_y=0.2,
        random_state=0,
    )
    X_test, y_test = X[N_FIT:], y[N_FIT:]
    shuffled = np.random.default_rng(0).permuted(X_test, axis=0)  # each column by itself
    fits = tqdm([(k, seed) for k in KINDS for seed in range(N_MODELS)], desc="fits", unit="model")
    models: dict[str, list] = {kind: [] for kind in KINDS}
    for kind, seed in fits:
        model = KINDS[kind](N_TREES, random_state=seed).fit(X[:N_FIT], y[:N_FIT])
        models[kind].append(model)
    cases = [(kind, ood) for kind in KINDS for ood in (None, shuffled)]
    runs: dict = {i: [] for i in range(len(cases))}
    for repeat in tqdm(range(args.repeats + 1), desc="repeats"):
        for i, (kind, ood) in enumerate(cases):
            found = run(models[kind], X_test, y_test, ood)
            if repeat:  # the first one compiles
                runs[i].append(found)
    rows = [
        {"models": kind, "ood_rows": 0 if ood is None else len(ood)}
        | {key: round(median(r[key] for r in runs[i]), 3) for key in runs[i][0]}
        | {"largest_ratio": round(max(r["ratio"] for r in runs[i]), 3)}
        for i, (kind, ood) in enumerate(cases)
    ]
    versions = {m.__name__: m.__version__ for m in (polycal, sklearn, np)}
    versions["python"] = platform.python_version()
    report = {"benchmark": "speed_evaluate", "versions": versions, "test_rows": args.rows}
    json.dump(report | {"rows": rows}, sys.stdout, indent=2)
    print()


if __name__ == "__main__":
    main()
