"""Random modes and densities, and every index, for the tests of the kernels."""

from __future__ import annotations

import numpy as np
import pytest

from polycal.core.density import Density
from polycal.core.execution import Execution
from polycal.core.reading import ActivationModes
from polycal.kernels import ForestIndex, NetworkIndex, TorchIndex
from tests.toys.models import random_modes

EXECUTION = Execution()


def random_leaves(rng, n, n_trees=20, n_leaves=6) -> ActivationModes:
    return ActivationModes.from_leaves(rng.integers(0, n_leaves, (n, n_trees)))


def gaussians_at(mean, variance) -> Density:
    return Density.from_parts(mean, variance, np.full(len(mean), 1 / len(mean)))


def random_gaussians(rng, p, d) -> Density:
    return gaussians_at(rng.normal(size=(p, d)), rng.uniform(0.5, 2, (p, d)))


def all_log_densities(gaussians, X):
    p = len(gaussians.mean)
    return gaussians.log_density(X, np.tile(np.arange(p), (len(X), 1)))


def torch_index(modes: ActivationModes) -> TorchIndex:
    """The code of the GPU, on the CPU; skips without torch."""
    pytest.importorskip("torch")
    return TorchIndex(modes, "cpu")


INDEXES = {
    "index": lambda modes: ForestIndex(modes, method="index"),
    "scan": lambda modes: ForestIndex(modes, method="scan"),
    "network": NetworkIndex,
    "torch": torch_index,
}
BITS = ("network", "torch")
PARTS = (slice(80), slice(80, None))  # stored modes and queries


def modes_for(kind, rng, n):
    # Few symbols, so that similarities tie often; 300 units span two word steps.
    return random_modes(rng, n, (7, 300, 3)) if kind in BITS else random_leaves(rng, n)
