"""How often the guard against memorised calibration rows warns, on clean and on leaked rows.

python benchmarks/leak_guard.py FOLDER [--only LIST] [--rows 2000] [--seeds 2]
    [--parents forest tree hgb logistic knn mlp]

For each .npz data set, four simulations and six parents: "clean" is a parent that was fitted on X
alone; "more" one that was fitted on 16 times as many rows, none of which is in X or X_cal; "leak"
a frozen parent whose training rows are split by polycal; "both" a parent that was fitted on the
rows of X and X_cal. A line is a data set; a figure is the share of parents and seeds with a
warning. Wanted: none for "clean".
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import numpy as np
from _protocol import find_sets, load
from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.tree import DecisionTreeClassifier

from polycal import GeodesicCalibrator, LeakWarning
from polycal.simulations import make_gaussian_xor

PARENTS = {
    "forest": lambda: RandomForestClassifier(random_state=0),
    "tree": lambda: DecisionTreeClassifier(random_state=0),
    "hgb": lambda: HistGradientBoostingClassifier(random_state=0),
    "logistic": lambda: LogisticRegression(max_iter=1000),
    "knn": lambda: KNeighborsClassifier(5),
    "mlp": lambda: MLPClassifier((50,), random_state=0),
}
KINDS = ("clean", "more", "leak", "both")


def simulated(name: str, n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    if name == "gaussian xor":
        return make_gaussian_xor(n, random_state=seed)
    noise = {"easy": 0.0, "noisy": 0.3, "wide": 0.1}[name]
    width = 100 if name == "wide" else 10
    return make_classification(n, width, n_informative=5, flip_y=noise, random_state=seed)


def warned(kind: str, parent, X: np.ndarray, y: np.ndarray, seed: int) -> str:
    """Names of the parents that the guard suspects."""
    if kind == "more":
        X_fit, X, y_fit, y = train_test_split(X, y, train_size=0.94, stratify=y, random_state=seed)
        frozen = parent.fit(X_fit, y_fit)
    elif kind in ("leak", "both"):
        frozen = parent.fit(X, y)
    fit = {"stratify": y, "random_state": seed}
    rows = {}
    if kind != "leak":
        X, X_cal, y, y_cal = train_test_split(X, y, test_size=0.3, **fit)
        rows = {"X_cal": X_cal, "y_cal": y_cal}
    if kind == "clean":
        frozen = parent.fit(X, y)
    plan = "holdout" if kind == "leak" else "auto"
    model = GeodesicCalibrator(FrozenEstimator(frozen), calibration=plan, random_state=seed)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        model.fit(X, y, **rows)
    return any(w.category is LeakWarning for w in found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", type=Path)
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--parents", nargs="+", choices=PARENTS, default=list(PARENTS))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    sets = [*find_sets(options.folder, options.only), "gaussian xor", "easy", "noisy", "wide"]
    print("| data | " + " | ".join(KINDS) + " |\n|---" + "|---" * len(KINDS) + "|")
    for data in sets:
        cells = []
        for kind in KINDS:
            found = []
            for seed in range(options.seeds):
                n = 10_000 if kind == "more" else options.rows
                rng = np.random.default_rng(seed)
                simulation = isinstance(data, str)
                X, y = simulated(data, n, seed) if simulation else load(data, rng, n)
                often = np.bincount(y)[y] >= 40
                X, y = X[often], np.unique(y[often], return_inverse=True)[1]
                found += [
                    (name, warned(kind, PARENTS[name](), X, y, seed)) for name in options.parents
                ]
            who = sorted({parent for parent, is_warned in found if is_warned})
            share = np.mean([is_warned for _, is_warned in found])
            cells.append(f"{share:.2f} {' '.join(who)}".strip())
        print(f"| {getattr(data, 'stem', data)} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
