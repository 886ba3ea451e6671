"""Time and memory of polycal on fully grown forests, as ratios to the forest; prints JSON.

python benchmarks/speed_forest.py [--jobs 1] [--sizes 10000 50000 200000] [--oob]

Calibration fit: the time of ``fit`` with a frozen forest and given calibration rows (30 %),
beside the time of fitting that forest. With ``--oob``, the forest is fitted on all rows and
calibrated out of bag; its own fit is then subtracted. Predict: ``predict_proba`` of 2000 rows
beside the forest's own. Every size runs in its own process, which reports its peak memory.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from functools import partial

import numpy as np
from _clock import best_time
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator

from polycal import GeodesicCalibrator
from polycal.core.execution import Execution
from polycal.core.reading import ActivationModes
from polycal.kernels import ForestIndex

N_QUERIES = 2000


def make_data(n: int):
    X, y = make_classification(
        n + N_QUERIES, n_features=20, n_informative=10, class_sep=0.8, flip_y=0.2, random_state=0
    )
    return X[:n], y[:n], X[n:]


def calibrate(parent, X, y, n_fit, jobs):
    model = GeodesicCalibrator(FrozenEstimator(parent), n_jobs=jobs)
    return model.fit(X[:n_fit], y[:n_fit], X_cal=X[n_fit:], y_cal=y[n_fit:])


def calibrate_out_of_bag(forest, X, y, jobs):
    return GeodesicCalibrator(forest, calibration="oob", n_jobs=jobs).fit(X, y)


def run(n: int, trees: int, jobs: int, oob: bool) -> dict:
    warm_X, warm_y, warm_q = make_data(600)  # compile before the clock runs
    small = RandomForestClassifier(20, random_state=0)
    if oob:
        calibrate_out_of_bag(small, warm_X, warm_y, jobs).predict_proba(warm_q)
    else:
        small.fit(warm_X[:400], warm_y[:400])
        calibrate(small, warm_X, warm_y, 400, jobs).predict_proba(warm_q)
    X, y, queries = make_data(n)
    n_fit = n if oob else int(0.7 * n)
    start = time.perf_counter()
    parent = RandomForestClassifier(trees, random_state=0, n_jobs=jobs).fit(X[:n_fit], y[:n_fit])
    parent_fit = time.perf_counter() - start
    start = time.perf_counter()
    if oob:
        model = calibrate_out_of_bag(parent, X, y, jobs)  # fits a copy of the forest
    else:
        model = calibrate(parent, X, y, n_fit, jobs)
    fit = time.perf_counter() - start - (parent_fit if oob else 0.0)
    parent_predict = best_time(lambda: parent.predict_proba(queries))
    predict = best_time(lambda: model.predict_proba(queries))
    return {
        "n": n,
        "trees": trees,
        "polytopes": len(model.polytopes_),
        "method": model.model_.reference.index.method,
        "parent_fit_s": round(parent_fit, 3),
        "calibration_fit_s": round(fit, 3),
        "fit_ratio": round(fit / parent_fit, 3),
        "parent_predict_s": round(parent_predict, 4),
        "predict_s": round(predict, 4),
        "predict_ratio": round(predict / parent_predict, 3),
        "peak_GiB": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
    }


def crossover(n: int = 20_000, trees: int = 100) -> dict:
    """What one visit through the index costs, in comparisons of the scan, by leaf size."""
    rng = np.random.default_rng(0)
    rows = []
    for n_leaves in (20, 100, 500, 2500):
        codes = rng.integers(0, n_leaves, (n + 500, trees))
        stored, queries = (ActivationModes.from_leaves(c) for c in (codes[:n], codes[n:]))
        counts = np.ones((n, 2))
        times = {}
        for method in ("index", "scan"):
            index = ForestIndex(stored, method=method)
            run_once = partial(index.class_sums, queries, counts, np.array([1.0]), Execution())
            run_once()
            times[method] = best_time(run_once)
        visits, comparisons = len(queries) * n * trees / n_leaves, len(queries) * n * trees
        ratio = (times["index"] / visits) / (times["scan"] / comparisons)
        chosen = ForestIndex(stored).method
        rows.append({"rows per leaf": n // n_leaves, "comparisons per visit": round(ratio, 1)})
        rows[-1] |= {f"{name}_s": round(t, 3) for name, t in times.items()} | {"chosen": chosen}
    return {"benchmark": "speed_forest --crossover", "rows": rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 50_000, 200_000])
    parser.add_argument("--oob", action="store_true", help="calibrate out of bag")
    parser.add_argument("--one", type=int, nargs=2, metavar=("N", "TREES"), help="one size only")
    parser.add_argument("--crossover", action="store_true", help="index against scan")
    args = parser.parse_args()
    if args.crossover:
        print(json.dumps(crossover(), indent=2))
        return
    if args.one:
        print(json.dumps(run(*args.one, args.jobs, args.oob)))
        return
    rows = []
    for n, trees in [(n, 100) for n in args.sizes] + [(4000, 500)]:
        print(f"n = {n}, {trees} trees ...", file=sys.stderr, flush=True)
        command = [sys.executable, __file__, "--jobs", str(args.jobs), "--one", str(n), str(trees)]
        command += ["--oob"] if args.oob else []
        rows.append(json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout))
    grown = rows[:-1]
    growth = {}
    if len(grown) > 1:
        for key in ("calibration_fit_s", "predict_s", "parent_fit_s", "parent_predict_s"):
            x, t = np.log([r["n"] for r in grown]), np.log([r[key] for r in grown])
            growth[key] = round(float(np.polyfit(x, t, 1)[0]), 3)
    report = {"benchmark": "speed_forest", "jobs": args.jobs, "oob": args.oob, "rows": rows}
    print(json.dumps(report | {"growth exponent in n": growth}, indent=2))


if __name__ == "__main__":
    main()
