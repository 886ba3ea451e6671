"""Small parents and modes that several tests share."""

from __future__ import annotations

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.neural_network import MLPClassifier

from polycal.core.reading import ActivationModes


def small_forest(**kwargs) -> RandomForestClassifier:
    return RandomForestClassifier(**({"n_estimators": 20, "random_state": 0} | kwargs))


def small_network(**kwargs) -> MLPClassifier:
    defaults = {"hidden_layer_sizes": (16, 12), "solver": "lbfgs", "max_iter": 60, "alpha": 1e-2}
    return MLPClassifier(**(defaults | {"random_state": 0} | kwargs))


def random_modes(rng: np.random.Generator, n: int, sizes: tuple[int, ...], density: float = 0.5):
    return ActivationModes.from_bits([rng.random((n, size)) < density for size in sizes])
