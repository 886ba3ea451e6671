"""What the studies on OpenML-CC18 share: sets, rows, parents, and the methods applied to them."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator

from benchmarks._protocol import MAX_ROWS, MAX_TEST, RADII, load, measure, spheres, split
from polycal.metrics import mean_max_confidence, ood_calibration_error

from ._runner import Options
from ._variants import add_parents_flag, fit_parent, parent_settings
from .data import available, cache, entries

QUICK_SETS = ("banknote-authentication", "diabetes", "vehicle", "wdbc")


def add_flags(parser: ArgumentParser) -> None:
    add_parents_flag(parser)
    parser.add_argument("--sets", nargs="+", metavar="NAME", help="only these data sets")


def chosen_sets(options: Options, numeric_only: bool = False) -> list[str]:
    """The cached sets that have no missing values; a few with ``--quick``."""
    known, there = entries(), available(cache(options.data))
    named = options.extra.get("sets") or []
    absent = [name for name in named if name not in there]
    if absent:
        raise SystemExit(f"--sets must name sets of the cache; got {absent}, it has {[*there]}")
    few = [name for name in QUICK_SETS if name in there] or list(there)[:4]
    wanted = named or (few if options.quick else there)
    names = [name for name in wanted if known[name].kind != "missing"]
    return [name for name in names if known[name].numeric] if numeric_only else names


def training_rows(name: str, options: Options) -> int:
    """How many rows of a set are left to train on: without the test rows, at most 9,000."""
    with np.load(available(cache(options.data))[name], allow_pickle=False) as arrays:
        n = min(len(arrays["y"]), MAX_ROWS)
    return n - min(MAX_TEST, n // 3)


@dataclass(frozen=True)
class Problem:
    """Rows of one set: to fit, to calibrate, to test, and out of distribution."""

    X_fit: NDArray
    y_fit: NDArray
    X_cal: NDArray
    y_cal: NDArray
    X_test: NDArray
    y_test: NDArray
    X_ood: NDArray
    priors: NDArray  # of the whole set: the paper's far limit

    @classmethod
    def make(cls, name: str, options: Options, seed: int, n: int | None = None) -> Problem:
        path = available(cache(options.data))[name]
        X, y = load(path, np.random.default_rng(seed))
        rows = split(X, y, seed, n)
        return cls(*rows, spheres(X.shape[1], seed), np.bincount(y) / len(y))

    def fit_parent(self, parent: str, options: Options, seed: int) -> tuple[Any, Any]:
        """A fitted classifier, and what polycal takes for it."""
        sizes, device = parent_settings(options), options.device
        return fit_parent(parent, self.X_fit, self.y_fit, sizes=sizes, seed=seed, device=device)

    @property
    def queries(self) -> NDArray:
        return np.concatenate([self.X_test, self.X_ood])

    def figures(self, P: NDArray) -> dict[str, float]:
        """Of the probabilities of ``queries``."""
        P_test, P_ood = P[: len(self.X_test)], P[len(self.X_test) :]
        found = measure(P_test, self.y_test, P_ood, self.priors)
        shells = zip(RADII, np.split(P_ood, len(RADII)), strict=True)
        found |= {f"oce at {r}": ood_calibration_error(shell, self.priors) for r, shell in shells}
        found["confidence"] = mean_max_confidence(P_test)
        return found | {"confidence far away": mean_max_confidence(P_ood)}


class Given(ClassifierMixin, BaseEstimator):
    """A fitted classifier whose rows are the probabilities themselves.

    A recalibrator sees nothing of the parent but its probabilities, so they are computed once.
    """

    def __init__(self, n_classes: int = 2):
        self.n_classes = n_classes

    def __sklearn_is_fitted__(self) -> bool:
        return True

    @property
    def classes_(self) -> NDArray:
        return np.arange(self.n_classes)

    def fit(self, X: NDArray, y: NDArray) -> Given:
        return self

    def predict_proba(self, X: NDArray) -> NDArray:
        return X

    def predict(self, X: NDArray) -> NDArray:
        return X.argmax(axis=1)


def recalibrator(method: str, P_cal: NDArray, y_cal: NDArray) -> Callable[[NDArray], NDArray]:
    """scikit-learn's, fitted to a parent's probabilities; it maps such probabilities."""
    frozen = FrozenEstimator(Given(P_cal.shape[1]))
    every = np.arange(len(y_cal))
    # A frozen parent needs no folds, and the usual five need five rows of every class.
    peer = CalibratedClassifierCV(frozen, method=method, cv=[(every, every)], ensemble=False)
    return peer.fit(P_cal, y_cal).predict_proba
