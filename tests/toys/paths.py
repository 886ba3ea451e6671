"""Stored modes, queries and class counts for sampled paths."""

from __future__ import annotations

import numpy as np

from polycal.core.reading import ActivationModes

KINDS = ("leaves", "one layer", "three layers", "hidden layers")
SCALES = np.array([1, 2, 4])


def near_modes(kind, seed, n_groups=8, per_group=12):
    """Modes in groups that have most symbols in common, as rows of data have them."""
    rng = np.random.default_rng(seed)
    n = n_groups * per_group
    group = np.arange(n) % n_groups
    if kind == "leaves":
        centres = np.random.default_rng(0).integers(0, 5, (n_groups, 30))
        noise = rng.integers(0, 5, (n, 30))
        return ActivationModes.from_leaves(
            np.where(rng.random((n, 30)) < 0.3, noise, centres[group])
        )
    sizes = (70,) if kind == "one layer" else (70, 300, 3)
    flipped = []
    for size in sizes:
        centres = np.random.default_rng(size).random((n_groups, size)) < 0.5
        flipped.append(centres[group] ^ (rng.random((n, size)) < 0.1))
    return ActivationModes.from_bits(flipped)


def rows(kind, seed=1, n_classes=3):
    """Distinct stored modes, queries, and class counts; some modes have two classes or none."""
    stored, queries = near_modes(kind, seed).distinct()[0], near_modes(kind, seed + 1, per_group=3)
    rng = np.random.default_rng(seed)
    counts = np.eye(n_classes)[rng.integers(0, n_classes, len(stored))]
    counts[::7] += rng.random((len(counts[::7]), n_classes))
    counts[3] = 0.0
    return stored, queries, counts


def exact_sums(index, queries, counts, exponent):
    """Sum of K^e counts, where K may leave out the output layer."""
    groups = zip(queries.groups(), index.modes.groups(), index.modes.sizes, strict=True)
    shares = [(a[:, None] == b[None]).sum(axis=2) / size for a, b, size in groups]
    return np.prod(shares[: index.tables.n_groups], axis=0) ** exponent @ counts
