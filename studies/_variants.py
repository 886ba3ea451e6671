"""One parent, and every variant of polycal around it: what the figures of the paper compare.

Every variant shares the parent, the rows it was fitted on and the calibration rows. "paper" is
``PAPER``, "default" is polycal as it comes; each finds the nearest polytopes by geodesic or by
Euclidean distance. The floor comes from the calibration rows in all of them: one model answers
in and out of distribution.
"""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import train_test_split

from polycal import PAPER, GeodesicCalibrator, TorchParent
from polycal.plotting.style import BLUE, GREY, ORANGE

from ._networks import EPOCHS, HIDDEN, NetworkClassifier, train_network
from ._runner import Options

PARENTS = ("forest", "network")
VARIANTS: dict[str, dict[str, Any]] = {
    "paper, euclidean": {**PAPER, "distance": "euclidean"},
    "paper, geodesic": {**PAPER, "distance": "geodesic"},
    "default, euclidean": {"distance": "euclidean"},
    "default, geodesic": {"distance": "geodesic"},
}
METHODS = ("parent", *VARIANTS)
SETTINGS = ("paper", "default")
CALIBRATION_SHARE = 0.3  # the paper's
N_TREES = 500  # the paper's
EQUAL = 1e-9  # far above the rounding of a sum, far below what a row of training data moves
# Colour is the setting, line and mark the distance.
STYLES = {
    "parent": {"color": GREY, "ls": "-", "marker": "s"},
    "paper, euclidean": {"color": ORANGE, "ls": "--", "marker": "^"},
    "paper, geodesic": {"color": ORANGE, "ls": "-", "marker": "o"},
    "default, euclidean": {"color": BLUE, "ls": "--", "marker": "^"},
    "default, geodesic": {"color": BLUE, "ls": "-", "marker": "o"},
}
MODELS = {"forest": "KDF", "network": "KDN"}


def add_parents_flag(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--parents", nargs="+", choices=PARENTS, default=list(PARENTS), help="only these parents"
    )


def chosen_parents(options: Options) -> list[str]:
    return list(options.extra.get("parents", PARENTS))


def parent_settings(options: Options) -> dict[str, Any]:
    """Sizes of the parents: the paper's, or small ones with ``--quick``."""
    if options.quick:
        return {"n_trees": 100, "hidden": [100, 100], "epochs": 60}
    return {"n_trees": N_TREES, "hidden": list(HIDDEN), "epochs": EPOCHS}


def fit_parent(
    parent: str, X: NDArray, y: NDArray, *, sizes: dict[str, Any], seed: int, device: str
) -> tuple[Any, Any]:
    """A fitted classifier, and what polycal takes for it."""
    if parent == "forest":
        forest = RandomForestClassifier(sizes["n_trees"], random_state=seed).fit(X, y)
        return forest, FrozenEstimator(forest)
    shape = {key: sizes[key] for key in ("hidden", "epochs")}
    module = train_network(X, y, **shape, seed=seed, device=device)
    return NetworkClassifier(module, np.unique(y)), TorchParent(module, batch_size=4096)


def fit_variants(
    parent: str, X: NDArray, y: NDArray, *, sizes: dict[str, Any], seed: int, device: str
) -> dict[str, Any]:
    """The fitted parent and its four variants, by name; 30 % of the rows calibrate."""
    X_fit, X_cal, y_fit, y_cal = train_test_split(
        X, y, test_size=CALIBRATION_SHARE, stratify=y, random_state=seed
    )
    model, source = fit_parent(parent, X_fit, y_fit, sizes=sizes, seed=seed, device=device)
    variants = {
        name: GeodesicCalibrator(source, **setting).fit(X_fit, y_fit, X_cal=X_cal, y_cal=y_cal)
        for name, setting in VARIANTS.items()
    }
    return {"parent": model, **variants}


def ask(model: Any, X: NDArray) -> tuple[NDArray, NDArray]:
    """Probabilities of classes 0 and 1, and the class that ``predict`` gives, in one pass.

    Only where the two are equal does the class not follow from them, and is asked for.
    """
    P = model.predict_proba(X)
    label = P.argmax(axis=1)
    equal = np.abs(P[:, 0] - P[:, 1]) < EQUAL
    if equal.any():
        label[equal] = model.predict(X[equal])
    return P, label


def median_of(frame: pd.DataFrame, by: Sequence[str]) -> pd.Series:
    """Median over repetitions of ``value`` for each key."""
    return frame.groupby(list(by), sort=False)["value"].median()
