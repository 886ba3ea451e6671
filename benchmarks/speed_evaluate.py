"""Time of ``polycal.evaluate``, as a ratio to the models' own ``predict_proba``; prints JSON.

python benchmarks/speed_evaluate.py [--rows 10000] [--repeats 7]

Five models of 100 trees, 10 classes, 200 bootstrap rounds; without OOD rows, and with as many as
test rows. Model calls are clocked inside ``evaluate``, so that both sides of a ratio come from
the same run; kinds of models take turns, and each figure is the median over the repeats.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from collections import Counter
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


def clock(model, spent: Counter):
    """Let the methods that ``evaluate`` calls add their seconds to ``spent``."""

    def timed(name):
        method = getattr(model, name)

        def call(X):
            start = time.perf_counter()
            answer = method(X)
            spent[name] += time.perf_counter() - start
            return answer

        return call

    for name in ("predict_proba", "score_samples"):
        if hasattr(model, name):
            setattr(model, name, timed(name))
    return model


def run(models: list, spent: Counter, X, y, ood) -> dict[str, float]:
    spent.clear()
    start = time.perf_counter()
    evaluate(models, X, y, ood=ood, n_rounds=N_ROUNDS, random_state=0)
    rest = time.perf_counter() - start - spent.total()
    predict, score = spent["predict_proba"], spent["score_samples"]
    return {
        "predict_proba_s": predict,
        "score_samples_s": score,
        "evaluate_own_s": rest,
        "own_ratio": rest / predict,
        "ratio": (rest + score) / predict,
    }


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
    spent: Counter = Counter()
    fits = tqdm([(k, seed) for k in KINDS for seed in range(N_MODELS)], desc="fits", unit="model")
    models: dict[str, list] = {kind: [] for kind in KINDS}
    for kind, seed in fits:
        model = KINDS[kind](N_TREES, random_state=seed).fit(X[:N_FIT], y[:N_FIT])
        models[kind].append(clock(model, spent))
    cases = [(kind, ood) for kind in KINDS for ood in (None, shuffled)]
    runs: dict = {i: [] for i in range(len(cases))}
    for repeat in tqdm(range(args.repeats + 1), desc="repeats"):
        for i, (kind, ood) in enumerate(cases):
            found = run(models[kind], spent, X_test, y_test, ood)
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
