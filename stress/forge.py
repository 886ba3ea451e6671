"""Forged model files with a checksum that fits: refused, or answers that are probabilities.

    python -m stress.forge --cases 20000
    python -m stress.forge --cases 300 --kind lightgbm --kind xgboost --kind catboost [--isolate]

Each case changes numbers of some arrays, or a part of the description, writes the file with a
checksum of its own, and loads it. The cases of a kind of model run in a child process, so that a
crash is counted as one. Of LightGBM, XGBoost and CatBoost the libraries' own content is changed;
they can crash on it, which ``load(path, isolate=True)`` is to find before.
"""

from __future__ import annotations

import argparse
import copy
import os
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_iris
from sklearn.ensemble import (
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import polycal
from polycal import PAPER, GeodesicCalibrator, ModelFileError
from polycal.persistence.container import ModelFile, read, write
from stress.watch import LONGEST, Log, Tally, in_children, limit_memory, quiet, timed

VERDICTS = {"in distribution", "edge", "out"}
SUM_TOLERANCE = 1e-6
# Seconds that a load may take that tries a booster in a child process, which has one minute.
WITH_A_CHILD = 90


def _forest(**options: Any) -> RandomForestClassifier:
    return RandomForestClassifier(5, max_depth=4, random_state=0, **options)


def _network() -> MLPClassifier:
    return MLPClassifier((4, 3), solver="lbfgs", max_iter=40, random_state=0)


def _calibrator(parent: Any, **options: Any) -> GeodesicCalibrator:
    return GeodesicCalibrator(parent, calibration="holdout", random_state=0, **options)


def _weighted() -> ExtraTreesClassifier:
    return ExtraTreesClassifier(
        4, max_depth=3, class_weight={0: 1.0, 1: 2.5, 2: 1.0}, random_state=0
    )


def _boosted() -> HistGradientBoostingClassifier:
    return HistGradientBoostingClassifier(max_iter=3, random_state=0)


KINDS: dict[str, Callable[[], GeodesicCalibrator]] = {
    "forest": lambda: _calibrator(_forest()),
    "paper": lambda: _calibrator(_forest(), **PAPER),
    "weighted": lambda: _calibrator(_weighted()),
    "network": lambda: _calibrator(_network()),
    "euclidean": lambda: _calibrator(_network(), distance="euclidean"),
    "boosting": lambda: _calibrator(_boosted()),
    "linear": lambda: _calibrator(LogisticRegression()),
    "pipeline": lambda: _calibrator(make_pipeline(StandardScaler(), _forest())),
    "sampled": lambda: _calibrator(_forest(), search="sampled"),
    "missing": lambda: _calibrator(_boosted()),
}


def _lightgbm() -> Any:
    import lightgbm

    return lightgbm.LGBMClassifier(n_estimators=5, verbose=-1, n_jobs=1, random_state=0)


def _xgboost() -> Any:
    import xgboost

    return xgboost.XGBClassifier(n_estimators=5, n_jobs=1, random_state=0)


def _catboost() -> Any:
    import catboost

    quiet = {"allow_writing_files": False, "thread_count": 1, "verbose": False}
    return catboost.CatBoostClassifier(iterations=10, random_seed=0, **quiet)


BOOSTERS: dict[str, Callable[[], GeodesicCalibrator]] = {
    "lightgbm": lambda: _calibrator(_lightgbm()),
    "xgboost": lambda: _calibrator(_xgboost()),
    "catboost": lambda: _calibrator(_catboost()),
}
ALL_KINDS = {**KINDS, **BOOSTERS}


def make(kind: str, path: Path) -> np.ndarray:
    """Write the file of a small model of a kind; returns rows to ask it about."""
    X, y = load_iris(return_X_y=True)
    rng = np.random.default_rng(0)
    if kind == "missing":
        X = np.where(rng.random(X.shape) < 0.2, np.nan, X)
    with quiet():
        ALL_KINDS[kind]().fit(X, y).save(path)
    return np.vstack([X[::15], X[:2] + 30.0, np.full((1, 4), 1e6)])


SPECIAL = (np.nan, np.inf, -np.inf, 0.0, -0.0, -1.0, 1.0, 2.0, 1e-320, 1e308, -1e308, 1e160, 1e-160)


def _forge_array(arrays: dict[str, np.ndarray], rng: np.random.Generator) -> str:
    """Change some numbers, the length, the type or the content of one array."""
    names = [name for name in arrays if arrays[name].size]
    name = str(rng.choice(names))
    array = arrays[name].copy()
    flat, kind = array.reshape(-1), int(rng.integers(9))
    some = rng.integers(len(flat), size=int(rng.choice([1, 1, 2, 8])))
    if kind < 4:  # special numbers
        if array.dtype.kind == "f":
            value = rng.choice(SPECIAL)
        elif array.dtype.kind == "b":
            value = bool(rng.integers(2))
        else:
            limits = np.iinfo(array.dtype)
            value = int(rng.choice(np.array([limits.min, limits.max, 0, 1], dtype=array.dtype)))
        flat[slice(None) if rng.random() < 0.25 else some] = value
        what = f"{name}[{some.tolist()}] = {value}"
    elif kind < 6:  # bits
        raw = flat.view(np.uint8)
        for at in rng.integers(len(raw), size=len(some)):
            raw[at] ^= 1 << int(rng.integers(8))
        if array.dtype.kind == "b":
            raw &= 1
        what = f"bits of {name}"
    elif kind == 6:
        rng.shuffle(flat)
        what = f"{name} shuffled"
    elif kind == 7:
        array = array[: int(rng.integers(len(array) + 1))] if array.ndim else array
        what = f"{name} cut to {array.shape}"
    else:
        other = str(rng.choice(names))
        array = arrays[other].copy()
        what = f"{name} is {other}"
    arrays[name] = np.ascontiguousarray(array)
    return what


def _forge_booster(arrays: dict[str, np.ndarray], rng: np.random.Generator) -> str:
    """Change some bytes of a library's own content: digits, bits, a cut, or a part that is gone."""
    content = arrays["booster"].copy()
    kind, places = int(rng.integers(5)), rng.integers(len(content), size=rng.choice([1, 4, 16]))
    if kind < 2:  # a digit of a text, another number of a binary format
        digits = np.flatnonzero((content >= 48) & (content < 58))
        places = digits[rng.integers(len(digits), size=len(places))]
        content[places] = rng.integers(48, 58, size=len(places))
    elif kind == 2:
        content[places] ^= 1 << rng.integers(8, size=len(places)).astype(np.uint8)
    elif kind == 3:
        content = content[: places[0] + 1]
    else:
        content = np.delete(content, slice(places[0], places[0] + int(rng.integers(1, 40))))
    arrays["booster"] = content
    return f"booster, kind {kind} at {places.tolist()[:4]}"


JUNK = (None, [], {}, "x", -1, 0, 1, 2, 10**9, 2**62, 10**400, 0.5, -0.5, 1e308, True, False)
JUNK += ({"float": "nan"}, {"float": "inf"}, {"float": "-inf"}, {"tuple": [1]}, {"array": "absent"})


def _places(node: Any) -> Iterator[tuple[Any, Any]]:
    for key in node if isinstance(node, dict) else range(len(node)):
        yield node, key
        if isinstance(node[key], (dict, list)):
            yield from _places(node[key])


def _forge_manifest(manifest: dict[str, Any], rng: np.random.Generator) -> str:
    """Put junk, or another part, in place of one part of the description."""
    places = list(_places(manifest))
    owner, key = places[int(rng.integers(len(places)))]
    before = str(owner[key])[:60]
    other, at = places[int(rng.integers(len(places)))]
    junk = JUNK[int(rng.integers(len(JUNK)))] if rng.random() < 0.8 else other[at]
    owner[key] = copy.deepcopy(junk)
    return f"{key}: {before} -> {str(junk)[:60]}"


def forge(file: ModelFile, path: Path, rng: np.random.Generator) -> str:
    """Write a forged copy; returns what was changed."""
    manifest, arrays = copy.deepcopy(file.manifest), dict(file.arrays)
    changes = []
    if "booster" in arrays:
        changes.append(_forge_booster(arrays, rng))
    for _ in range(0 if "booster" in arrays else int(rng.choice([1, 1, 1, 2, 3]))):
        if rng.random() < 0.7:
            changes.append(_forge_array(arrays, rng))
        else:
            changes.append(_forge_manifest(manifest, rng))
    write(path, manifest, arrays)
    return "; ".join(changes)


def faults(model: Any, X: np.ndarray) -> Iterator[str]:
    """What is wrong with the answers of a model."""
    answer = model.answer(X)
    for name, P in (
        ("probabilities", answer.probabilities),
        ("the parent's", answer.reading.proba),
    ):
        if P.shape != (len(X), len(model.classes_)):
            yield f"{name}: shape {P.shape}"
        elif not np.isfinite(P).all():
            yield f"{name}: not finite"
        elif P.min() < -1e-12 or abs(P.sum(axis=1) - 1).max() > SUM_TOLERANCE:
            yield f"{name}: sums {P.sum(axis=1).min()} to {P.sum(axis=1).max()}"
    if not ((answer.alpha >= 0) & (answer.alpha <= 1)).all():
        yield f"trust {answer.alpha}"
    if np.isnan(answer.log_f).any():
        yield "a score that is NaN"
    why = model.explain_answer(answer)
    if not ((why.p_value >= 0) & (why.p_value <= 1)).all():
        yield f"p-values {why.p_value}"
    if not set(why.verdict.tolist()) <= VERDICTS:
        yield f"verdicts {set(why.verdict.tolist())}"
    if not np.isin(model.predict(X), model.classes_).all():
        yield "a class that there is not"


def judge(
    path: Path, X: np.ndarray, expected: np.ndarray, isolate: bool = False
) -> tuple[str, str]:
    """The outcome of loading a file and asking the model, and a detail."""
    with quiet():
        try:
            model = polycal.load(path, isolate=isolate)
        except ModelFileError:
            return "refused", ""
        except MemoryError as error:
            return "memory", str(error)
        except Exception as error:
            return "wrong error", repr(error)
        try:
            found = list(faults(model, X))
        except ValueError as error:
            return "refused rows", str(error)
        except Exception as error:
            return "wrong error", repr(error)
        if found:
            return "invalid", "; ".join(found)
        same = np.array_equal(model.predict_proba(X), expected)
        return ("same answers" if same else "other answers"), ""


def run(
    kind: str,
    n_cases: int,
    seed: int,
    first: int = 0,
    log: Log | None = None,
    isolate: bool = False,
) -> Tally:
    """Forge files of a kind of model and judge each."""
    tally = Tally()
    fast = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with tempfile.TemporaryDirectory(dir=fast) as folder:
        path = Path(folder) / "m.polycal"
        X = make(kind, path)
        file, expected = read(path), polycal.load(path).predict_proba(X)
        assert judge(path, X, expected) == ("same answers", "")
        for case in range(first, n_cases):
            rng = np.random.default_rng([seed, list(ALL_KINDS).index(kind), case])
            if log:
                log.begin(case)
            with quiet():
                what = forge(file, path, rng)
            outcome, detail = timed(
                partial(judge, path, X, expected, isolate), WITH_A_CHILD if isolate else LONGEST
            )
            tally.add(outcome, f"case {case}: {what} -> {detail}")
            if log:
                log.end(outcome, f"case {case}: {what} -> {detail}")
    return tally


def main() -> int:
    """Run the cases of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", choices=ALL_KINDS, action="append")
    parser.add_argument("--isolate", action="store_true", help="load with isolate=True")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--first", type=int, default=0, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    kinds = asked.kind or list(KINDS)
    if asked.worker:
        limit_memory()
        run(kinds[0], asked.cases, asked.seed, asked.first, Log(asked.worker), asked.isolate)
        return 0
    each = -(-asked.cases // len(kinds))
    more = ["--isolate"] if asked.isolate else []
    jobs = [["--kind", k, "--cases", str(each), "--seed", str(asked.seed), *more] for k in kinds]
    return in_children("stress.forge", jobs, minutes=60).report("forged model files")


if __name__ == "__main__":
    raise SystemExit(main())
