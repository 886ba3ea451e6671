"""The paper's tabular protocol, shared by the quality benchmarks."""

from __future__ import annotations

import platform
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import train_test_split

from polycal import GeodesicCalibrator
from polycal.metrics import expected_calibration_error, ood_calibration_error
from polycal.simulations import sample_sphere

PEERS = ("isotonic", "sigmoid", "temperature")
RADII = (1, 2, 3, 4, 5)
PER_RADIUS = 200
SMALLEST = 1e-15  # probability below which log-loss is cut, for every method alike
MAX_ROWS = 10_000
MAX_TEST = 1_000


def find_sets(folder: Path, only: Path | None) -> list[Path]:
    """The .npz files of a folder, or those that a list file names."""
    names = only.read_text().split() if only else sorted(p.name for p in folder.glob("*.npz"))
    missing = [name for name in names if not (folder / name).exists()]
    if missing or not names:
        raise SystemExit(f"{folder} has no .npz data set called {missing or 'anything'}")
    return [folder / name for name in names]


def load(
    path: Path, rng: np.random.Generator, max_rows: int | None = MAX_ROWS
) -> tuple[np.ndarray, np.ndarray]:
    """Rows without NaN, at most 10,000, scaled to [0, 1] and then by the largest l2 norm."""
    with np.load(path, allow_pickle=False) as data:
        X, y = data["X"].astype(float), data["y"]
    whole = ~np.isnan(X).any(axis=1)
    X, y = X[whole], np.unique(y[whole], return_inverse=True)[1]
    if max_rows is not None and len(X) > max_rows:
        chosen = rng.choice(len(X), max_rows, replace=False)
        X, y = X[chosen], y[chosen]
    low, high = X.min(axis=0), X.max(axis=0)
    X = (X - low) / np.where(high > low, high - low, 1.0)
    return X / np.linalg.norm(X, axis=1).max(), y


def split(X: np.ndarray, y: np.ndarray, seed: int, n: int | None = None) -> tuple:
    """X_fit, y_fit, X_cal, y_cal, X_test, y_test: test min(1000, rows/3), then 70/30.

    ``n`` is the number of training rows, all of those left where it is None.
    """
    test = min(MAX_TEST, len(X) // 3)
    X, X_test, y, y_test = train_test_split(X, y, test_size=test, stratify=y, random_state=seed)
    if n is not None and n < len(X):
        X, _, y, _ = train_test_split(X, y, train_size=n, stratify=y, random_state=seed)
    X_fit, X_cal, y_fit, y_cal = train_test_split(
        X, y, test_size=0.3, stratify=y, random_state=seed
    )
    return X_fit, y_fit, X_cal, y_cal, X_test, y_test


def three_parts(X: np.ndarray, y: np.ndarray, seed: int, n: int) -> list:
    """Rows and labels to fit (70 % of at most n rows), to calibrate, and to test (up to 5000)."""
    n = min(n, 2 * len(X) // 3)
    X, X_test, y, y_test = train_test_split(X, y, train_size=n, stratify=y, random_state=seed)
    X_fit, X_cal, y_fit, y_cal = train_test_split(
        X, y, test_size=0.3, stratify=y, random_state=seed
    )
    return [(X_fit, y_fit), (X_cal, y_cal), (X_test[:5000], y_test[:5000])]


def spheres(n_features: int, seed: int) -> np.ndarray:
    """Rows at distance 1 to 5, the near ones first: out of distribution."""
    rows = [sample_sphere(PER_RADIUS, n_features, r, random_state=seed + r) for r in RADII]
    return np.concatenate(rows)


def shuffled(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The rows with each column permuted on its own: near, but out of distribution."""
    return np.stack([rng.permutation(column) for column in X.T], axis=1)


def row_losses(P: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Log-loss of each row."""
    return -np.log(np.maximum(P[np.arange(len(y)), y], SMALLEST))


def scores(P: np.ndarray, y: np.ndarray) -> dict:
    """The figures of one method on test rows."""
    one_hot = np.eye(P.shape[1])[y]
    return {
        "error": float((P.argmax(axis=1) != y).mean()),
        "ece": expected_calibration_error(y, P),
        "log_loss": float(row_losses(P, y).mean()),
        "brier": float(((P - one_hot) ** 2).sum(axis=1).mean()),
    }


def measure(P: np.ndarray, y: np.ndarray, P_ood: np.ndarray, priors: np.ndarray) -> dict:
    """The figures of one method on test rows and on out-of-distribution rows."""
    return scores(P, y) | {"oce": ood_calibration_error(P_ood, priors)}


def fit_beside(parent: Any, rows: tuple, plan: str, seed: int) -> tuple[Any, GeodesicCalibrator]:
    """The plain parent, and polycal with its defaults, for X_fit, y_fit, X_cal and y_cal.

    With the plan "holdout" both are one parent that was fitted on X_fit, and polycal calibrates it
    on X_cal. With "auto" the plain parent and polycal both get all rows.
    """
    X_fit, y_fit, X_cal, y_cal = rows
    if plan == "holdout":
        plain = clone(parent).fit(X_fit, y_fit)
        model = GeodesicCalibrator(FrozenEstimator(plain), random_state=seed)
        return plain, model.fit(X_fit, y_fit, X_cal=X_cal, y_cal=y_cal)
    X, y = np.concatenate([X_fit, X_cal]), np.concatenate([y_fit, y_cal])
    model = GeodesicCalibrator(parent, calibration=plan, random_state=seed)
    return clone(parent).fit(X, y), model.fit(X, y)


def versions(*packages: str) -> dict[str, str]:
    """Of polycal, its core, and the named packages that are installed."""
    wanted = ["polycal", "scikit-learn", "numpy", "scipy", *packages]
    found = {"python": platform.python_version()}
    for package in wanted:
        with suppress(PackageNotFoundError):
            found[package] = version(package)
    return found
