"""Answers of many models, kept in a folder, to compare with after a change of the code.

python benchmarks/answers.py record FOLDER     before the change
python benchmarks/answers.py compare FOLDER    after it: largest difference of each model

Each case is a parent, a data set and the settings of one calibrator. Everything that a user can
ask is recorded: probabilities, labels, scores, weights, neighbours, similarities, explanations,
fitted attributes, and the model file, which ``compare`` also loads and asks.
"""

from __future__ import annotations

import argparse
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, make_classification
from sklearn.ensemble import (
    BaggingClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.frozen import FrozenEstimator
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import polycal
from polycal import PAPER, GeodesicCalibrator, KernelDensityForest, KernelDensityNetwork

TOLERANCE = 1e-12
ATTRIBUTES = ("gamma_", "log_floor_", "pool_weights_", "false_alarm_", "priors_")
FIELDS = ("verdict", "score", "p_value", "weight", "similarity", "polytope", "counts", "surprise")


class Data(NamedTuple):
    X: Any
    y: np.ndarray
    queries: Any


def _arrays(X: np.ndarray, y: np.ndarray, n: int) -> Data:
    """n rows to fit; queries are new rows, rows with shuffled columns, and far rows."""
    rng = np.random.default_rng(0)
    order = rng.permutation(len(X))
    X, y = X[order], y[order]
    new = X[n : n + 60] if len(X) > n + 60 else X[:60]
    shuffled = rng.permuted(new, axis=0)
    return Data(X[:n], y[:n], np.concatenate([new, shuffled, 3 * new - 50, new + 1e6]))


def blobs() -> Data:
    X, y = make_classification(900, 8, n_informative=5, n_classes=3, flip_y=0.1, random_state=1)
    return _arrays(X, y, 700)


def iris() -> Data:
    X, y = load_iris(return_X_y=True)
    return _arrays(X, load_iris().target_names[y], 110)


def digits() -> Data:
    X, y = load_digits(return_X_y=True)
    return _arrays(X / 16, y, 600)


def cancer() -> Data:
    return _arrays(*load_breast_cancer(return_X_y=True), 450)


def ties() -> Data:
    """Six binary columns: few cells, many equal rows."""
    rng = np.random.default_rng(4)
    X = rng.integers(0, 2, (500, 6)).astype(float)
    y = (X.sum(axis=1) + rng.normal(size=500) > 3).astype(int)
    return _arrays(X, y, 400)


def mixed() -> Data:
    """A frame with numbers, missing numbers and two categories."""
    import pandas

    rng = np.random.default_rng(2)
    n = 500
    X = pandas.DataFrame(
        {
            "a": rng.normal(size=n),
            "b": np.where(rng.random(n) < 0.2, np.nan, rng.normal(size=n)),
            "c": pandas.Categorical(rng.choice(["u", "v", "w"], n)),
            "d": pandas.Categorical(rng.choice(["k", "l"], n)),
        }
    )
    signal = X["a"] + (X["c"] == "u") - X["b"].fillna(1.0)
    y = (signal + 0.7 * rng.normal(size=n) > 0).to_numpy().astype(int)
    queries = X.iloc[380:].copy()
    queries.loc[queries.index[:20], "a"] = 100.0
    queries.loc[queries.index[20:40], "a"] = np.nan
    return Data(X.iloc[:380], y[:380], queries.reset_index(drop=True))


def forest(**more: Any) -> RandomForestClassifier:
    return RandomForestClassifier(**{"n_estimators": 60, "random_state": 0, **more})


def mlp(**more: Any) -> MLPClassifier:
    settings = {"hidden_layer_sizes": (32, 24), "max_iter": 60, "random_state": 0}
    return MLPClassifier(**settings | more)


def lightgbm() -> Any:
    from lightgbm import LGBMClassifier

    return LGBMClassifier(n_estimators=30, random_state=0, n_jobs=1, verbose=-1)


def xgboost() -> Any:
    from xgboost import XGBClassifier

    return XGBClassifier(n_estimators=30, random_state=0, n_jobs=1, enable_categorical=True)


def catboost() -> Any:
    from catboost import CatBoostClassifier

    settings = {"thread_count": 1, "allow_writing_files": False, "verbose": False}
    return CatBoostClassifier(iterations=30, random_seed=0, **settings)


def torch_net(data: Data) -> Any:
    import torch
    from torch import nn

    torch.manual_seed(0)
    n_classes = len(np.unique(data.y))
    net = nn.Sequential(nn.Linear(data.X.shape[1], 32), nn.ReLU(), nn.Linear(32, n_classes))
    codes = torch.as_tensor(np.unique(data.y, return_inverse=True)[1])
    rows = torch.as_tensor(data.X, dtype=torch.float32)
    step = torch.optim.Adam(net.parameters(), lr=1e-2)
    for _ in range(60):
        step.zero_grad()
        nn.functional.cross_entropy(net(rows), codes).backward()
        step.step()
    return net


def torch_encoder(data: Data) -> Any:
    import torch
    from torch import nn

    torch.manual_seed(0)
    encoder = nn.Sequential(nn.Linear(data.X.shape[1], 24), nn.ReLU())
    head = nn.Sequential(nn.Linear(24, 16), nn.ReLU(), nn.Linear(16, len(np.unique(data.y))))
    return polycal.TorchParent(encoder=encoder, head=head)


def skorch_net(data: Data) -> Any:
    import torch
    from skorch import NeuralNetClassifier
    from torch import nn

    torch.manual_seed(0)
    net = NeuralNetClassifier(torch_net(data), max_epochs=5, criterion=nn.CrossEntropyLoss)
    net.set_params(verbose=0)
    return net


def _splits(data: Data) -> tuple[Data, dict[str, Any]]:
    """Rows for a parent that is fitted already, and calibration rows."""
    n = int(0.7 * len(data.y))
    first = data._replace(X=data.X[:n], y=data.y[:n])
    return first, {"X_cal": data.X[n:], "y_cal": data.y[n:]}


def plain(parent: Callable[[], Any], **settings: Any) -> Callable[[Data], tuple]:
    def make(data: Data) -> tuple:
        return GeodesicCalibrator(parent(), random_state=0, **settings), data.X, data.y, {}

    return make


def frozen(parent: Callable[[], Any], **settings: Any) -> Callable[[Data], tuple]:
    def make(data: Data) -> tuple:
        first, held = _splits(data)
        fitted = FrozenEstimator(parent().fit(first.X, first.y))
        return GeodesicCalibrator(fitted, random_state=0, **settings), first.X, first.y, held

    return make


def network(build: Callable[[Data], Any], **settings: Any) -> Callable[[Data], tuple]:
    def make(data: Data) -> tuple:
        rows = Data(data.X.astype(np.float32), data.y, None)
        first, held = _splits(rows)
        return GeodesicCalibrator(build(first), random_state=0, **settings), first.X, first.y, held

    return make


def weighted(parent: Callable[[], Any], **settings: Any) -> Callable[[Data], tuple]:
    def make(data: Data) -> tuple:
        weight = np.random.default_rng(1).integers(0, 4, len(data.y)).astype(float)
        model = GeodesicCalibrator(parent(), random_state=0, **settings)
        return model, data.X, data.y, {"sample_weight": weight}

    return make


def own(cls: Any, **settings: Any) -> Callable[[Data], tuple]:
    return lambda data: (cls(random_state=0, **settings), data.X, data.y, {})


EUCLID = {"distance": "euclidean"}
SETTINGS: dict[str, dict[str, Any]] = {
    "default": {},
    "paper": dict(PAPER),
    "kernel": {"posterior": "kernel"},
    "parent": {"posterior": "parent"},
    "gaussian": {"gate": "gaussian"},
    "polytope": {"bandwidth": "polytope"},
    "euclidean": EUCLID,
    "euclidean paper": EUCLID | dict(PAPER),
    "euclidean gaussian": EUCLID | {"gate": "gaussian"},
    "euclidean parent": EUCLID | {"posterior": "parent"},
    "parent gaussian": {"posterior": "parent", "gate": "gaussian"},
    "kernel gaussian": {"posterior": "kernel", "gate": "gaussian"},
    "ece": {"scoring": "ece"},
    "gamma": {"gamma": 0.7},
    "floor": {"floor": -3.0},
    "auto alarms": {"false_alarm": "auto"},
    "alarms": {"false_alarm": 0.05},
    "holdout": {"calibration": "holdout", "calibration_size": 0.4},
    "cv": {"calibration": "cv"},
    "neighbours": {"n_neighbors": 3, "regularization": 1e-3},
    "jobs": {"n_jobs": 2},
}


def _cases() -> dict[str, tuple[Callable[[], Data], Callable[[Data], tuple]]]:
    cases: dict[str, tuple] = {}
    for name, settings in SETTINGS.items():
        cases[f"forest blobs {name}"] = blobs, plain(forest, **settings)
        if settings.get("calibration") != "oob":
            cases[f"mlp blobs {name}"] = blobs, plain(mlp, **settings | {"calibration": "holdout"})
    for name, data in {"iris": iris, "digits": digits, "cancer": cancer, "ties": ties}.items():
        cases[f"forest {name}"] = data, plain(forest)
        cases[f"mlp {name}"] = data, plain(mlp)
        cases[f"lightgbm {name}"] = data, plain(lightgbm)
        cases[f"forest {name} paper"] = data, plain(forest, **PAPER)
        cases[f"mlp {name} paper"] = data, frozen(mlp, **PAPER)
    cases |= {
        "tree iris": (iris, plain(lambda: DecisionTreeClassifier(random_state=0))),
        "extra trees cancer": (cancer, plain(lambda: ExtraTreesClassifier(40, random_state=0))),
        "extra trees oob cancer": (
            cancer,
            plain(lambda: ExtraTreesClassifier(40, bootstrap=True, random_state=0)),
        ),
        "bagging blobs": (blobs, plain(lambda: BaggingClassifier(n_estimators=30, random_state=0))),
        "gb blobs": (
            blobs,
            plain(lambda: GradientBoostingClassifier(n_estimators=20, random_state=0)),
        ),
        "hgb cancer": (
            cancer,
            plain(lambda: HistGradientBoostingClassifier(max_iter=30, random_state=0)),
        ),
        "hgb mixed": (
            mixed,
            plain(
                lambda: HistGradientBoostingClassifier(
                    max_iter=30, categorical_features="from_dtype", random_state=0
                )
            ),
        ),
        "hgb mixed paper": (
            mixed,
            plain(
                lambda: HistGradientBoostingClassifier(
                    max_iter=30, categorical_features="from_dtype", random_state=0
                ),
                **PAPER,
            ),
        ),
        "lightgbm mixed": (mixed, plain(lightgbm)),
        "xgboost mixed": (mixed, plain(xgboost)),
        "xgboost blobs": (blobs, plain(xgboost)),
        "catboost blobs": (blobs, plain(catboost)),
        "pipeline mlp cancer": (cancer, plain(lambda: make_pipeline(StandardScaler(), mlp()))),
        "pipeline forest blobs": (
            blobs,
            plain(lambda: make_pipeline(StandardScaler(), forest()), calibration="oob"),
        ),
        "frozen forest blobs": (blobs, frozen(forest)),
        "frozen lightgbm cancer": (cancer, frozen(lightgbm, **EUCLID)),
        "prior forest cancer": (cancer, plain(forest, prior=[0.2, 0.8])),
        "prior mlp blobs": (blobs, plain(mlp, prior=[0.2, 0.5, 0.3])),
        "weighted forest blobs": (blobs, weighted(forest)),
        "weighted forest oob": (blobs, weighted(forest, calibration="oob")),
        "weighted lightgbm blobs": (blobs, weighted(lightgbm, calibration="holdout")),
        "torch blobs": (blobs, network(torch_net)),
        "torch blobs paper": (blobs, network(torch_net, **PAPER)),
        "torch encoder digits": (digits, network(torch_encoder)),
        "torch encoder euclidean": (digits, network(torch_encoder, **EUCLID)),
        "kdf blobs": (blobs, own(KernelDensityForest, n_estimators=40)),
        "kdn blobs": (blobs, own(KernelDensityNetwork, hidden_layer_sizes=(24,), max_iter=30)),
    }
    return cases


def ask(model: Any, queries: Any) -> dict[str, np.ndarray]:
    """Everything that a fitted model says about some rows."""
    found: dict[str, Any] = {
        "proba": model.predict_proba(queries),
        "log_proba": model.predict_log_proba(queries),
        "labels": model.predict(queries).astype(str),
        "scores": model.score_samples(queries),
        "weights": model.in_distribution(queries),
    }
    found["near_similarity"], found["near_index"] = model.nearest(
        queries, k=min(3, len(model.polytopes_))
    )
    found["similarity"] = model.similarity(queries[:10], queries[5:25])
    why = model.explain(queries)
    found |= {f"explain_{name}": np.asarray(getattr(why, name)) for name in FIELDS}
    found["explain_rows"] = np.array([",".join(map(str, rows)) for rows in why.rows])
    found["explain_thresholds"] = np.array(why.thresholds)
    for name in ATTRIBUTES:
        value = getattr(model, name)
        found[name] = np.array(np.nan if value is None else value, dtype=float)
    found["calibration_"] = np.array(model.calibration_)
    return found


def difference(old: np.ndarray, new: np.ndarray) -> float:
    if old.shape != new.shape:
        return np.inf
    if old.dtype.kind != "f":
        return 0.0 if np.array_equal(old, new) else np.inf
    same = (old == new) | (np.isnan(old) & np.isnan(new))
    with np.errstate(invalid="ignore"):
        away = np.abs(old - new) / np.maximum(1.0, np.abs(old))
    return float(np.max(np.where(same, 0.0, np.nan_to_num(away, nan=np.inf)), initial=0.0))


def worst(old: Any, new: dict[str, np.ndarray]) -> tuple[float, str]:
    return max((difference(old[name], new[name]), name) for name in new)


def module_of(parent: Any) -> Any:
    """What ``polycal.load`` needs to be given again: the network of a torch parent."""
    is_network = type(parent).__module__.startswith(("torch", "polycal"))
    return parent if is_network else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("action", choices=["record", "compare"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="part of the names of the cases to run")
    parser.add_argument("--no-files", action="store_true", help="leave out the model files")
    args = parser.parse_args()
    args.folder.mkdir(exist_ok=True, parents=True)
    failed = 0
    cases = {name: case for name, case in _cases().items() if args.only in name}
    for name, (load_data, make) in cases.items():
        start, kept = time.perf_counter(), args.folder / f"{name.replace(' ', '_')}.npz"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                data = load_data()
                model, X, y, more = make(data)
                queries = data.queries
                if getattr(X, "dtype", None) == np.float32:
                    queries = queries.astype(np.float32)
                model.fit(X, y, **more)
                found, module = ask(model, queries), module_of(model.estimator_)
                file = kept.with_suffix(".polycal")
                if args.action == "record":
                    model.save(file)
                    np.savez_compressed(kept, **found)
                    outcome = "recorded"
                else:
                    old = np.load(kept)
                    away = {"fitted": worst(old, found)}
                    if not args.no_files:
                        again = args.folder / "again.polycal"
                        model.save(again)
                        for label, path in {"old file": file, "new file": again}.items():
                            away[label] = worst(old, ask(polycal.load(path, module), queries))
                    bad = max(value for value, _ in away.values()) > TOLERANCE
                    failed += bad
                    outcome = "DIFFERS" if bad else "equal"
                    outcome += "".join(f"  {k} {v:.1e} ({w})" for k, (v, w) in away.items())
            except Exception:
                failed += 1
                outcome = "FAILED\n" + traceback.format_exc()
        print(f"{name}: {outcome}  [{time.perf_counter() - start:.1f} s]", flush=True)
    print(f"{len(cases)} cases, {failed} failed or different")
    raise SystemExit(bool(failed))


if __name__ == "__main__":
    main()
