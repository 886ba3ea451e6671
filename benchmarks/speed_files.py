"""Time and size of model files against pickle (protocol 5) in the same run; prints JSON.

python benchmarks/speed_files.py [--polytopes 200000] [--trees 100] [--repeats 5]

The model is a fully grown random forest, in which every row is a polytope. "save" is written
through to the disk (fsync) as ``model.save`` always does; pickle is shown without that, as it is
commonly used, and with it. "load and predict" is a load and the first ``predict_proba`` of 100
rows: a loaded model arranges its index only then, a pickled one brings it along.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import tempfile
from pathlib import Path

import numpy as np
from _clock import best_time
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier

import polycal
from polycal import GeodesicCalibrator

N_CALIBRATION, N_QUERIES = 2000, 100


def fit(n: int, trees: int):
    X, y = make_classification(
        n + N_CALIBRATION + N_QUERIES,
        n_features=20,
        n_informative=10,
        class_sep=0.8,
        flip_y=0.2,
        random_state=0,
    )
    rest = slice(n, n + N_CALIBRATION)
    model = GeodesicCalibrator(RandomForestClassifier(trees, n_jobs=-1, random_state=0))
    model.fit(X[:n], y[:n], X_cal=X[rest], y_cal=y[rest])
    return model, X[-N_QUERIES:]


def dump(model, path: Path, sync: bool) -> None:
    with open(path, "wb") as file:
        pickle.dump(model, file, protocol=5)
        if sync:
            file.flush()
            os.fsync(file.fileno())


def undump(path: Path):
    with open(path, "rb") as file:
        return pickle.load(file)


def run(n: int, trees: int, repeats: int) -> dict:
    model, queries = fit(n, trees)
    expected = model.predict_proba(queries)  # from here on the model has its index, to pickle too
    with tempfile.TemporaryDirectory() as folder:
        ours, theirs = Path(folder) / "model.polycal", Path(folder) / "model.pickle"
        model.save(ours)
        assert np.array_equal(polycal.load(ours).predict_proba(queries), expected)
        times = {
            "pickle dump": best_time(lambda: dump(model, theirs, False), repeats),
            "pickle dump, fsync": best_time(lambda: dump(model, theirs, True), repeats),
            "save": best_time(lambda: model.save(ours), repeats),
            "pickle load": best_time(lambda: undump(theirs), repeats),
            "load": best_time(lambda: polycal.load(ours), repeats),
            "pickle load and predict": best_time(
                lambda: undump(theirs).predict_proba(queries), repeats
            ),
            "load and predict": best_time(
                lambda: polycal.load(ours).predict_proba(queries), repeats
            ),
        }
        sizes = {"pickle": theirs.stat().st_size, "polycal": ours.stat().st_size}
    return {
        "polytopes": len(model.polytopes_),
        "trees": trees,
        "seconds": {name: round(seconds, 3) for name, seconds in times.items()},
        "megabytes": {name: round(size / 1e6, 1) for name, size in sizes.items()},
        "ratios": {
            "save": round(times["pickle dump"] / times["save"], 2),
            "save, both fsync": round(times["pickle dump, fsync"] / times["save"], 2),
            "load": round(times["pickle load"] / times["load"], 2),
            "load and predict": round(
                times["pickle load and predict"] / times["load and predict"], 2
            ),
            "size": round(sizes["pickle"] / sizes["polycal"], 2),
        },
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--polytopes", type=int, default=200_000)
    parser.add_argument("--trees", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    print(json.dumps(run(args.polytopes, args.trees, args.repeats), indent=2))
