"""A score of novelty that is learned from the batch itself (AdaDetect).

A small classifier tells rows that the parent was fitted on from calibration rows and rows of the
batch together. Where it succeeds, rows of the batch are new. It does not know which of the second
are of the batch, so calibration rows stay exchangeable with those that are not new, and conformal
p-values of its score are valid (Marandon, Lei, Mary and Roquain 2024).
"""

from __future__ import annotations

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from threadpoolctl import threadpool_limits

from .._utils.arrays import Array, Bools, Floats

# Rows are scored by a classifier that was fitted without them.
N_FOLDS = 3
# Rows of each side that one classifier is fitted on, at most.
MOST_ROWS = 4000
# Levels of a symbol beyond which it is read as a number.
MOST_LEVELS = 200
SETTINGS = {
    "max_iter": 40,
    "learning_rate": 0.1,
    "max_leaf_nodes": 8,
    "min_samples_leaf": 10,
    "l2_regularization": 1.0,
    "early_stopping": False,
}


def novelty_scores(
    reference: Array, mixed: Array, is_symbol: Bools, n_jobs: int, rng: np.random.Generator
) -> Floats:
    """Score of each mixed row: the lower, the less it is like the reference rows.

    The last column of both is log f; a row of higher log f is never newer for that.
    """
    fold, ours = rng.permutation(len(mixed)) % N_FOLDS, rng.permutation(len(reference)) % N_FOLDS
    falling = np.zeros(mixed.shape[1], dtype=int)
    falling[-1] = -1
    few = np.fmax(np.fmax.reduce(reference), np.fmax.reduce(mixed)) < MOST_LEVELS
    symbols = is_symbol & few
    found = np.zeros(len(mixed))
    with threadpool_limits(n_jobs, "openmp"):
        for k in range(N_FOLDS):
            known = reference[ours != k][:MOST_ROWS]
            other = np.flatnonzero(fold != k)
            other = mixed[rng.permutation(other)[:MOST_ROWS]]
            rows = np.concatenate([known, other])
            # A column without a single number cannot be cut into bins.
            rows[:, np.isnan(rows).all(axis=0)] = 0.0
            label = np.repeat([0, 1], [len(known), len(other)])
            model = HistGradientBoostingClassifier(
                **SETTINGS,
                monotonic_cst=falling,
                categorical_features=symbols if symbols.any() else None,
                random_state=0,
            ).fit(rows, label)
            found[fold == k] = -model.decision_function(mixed[fold == k])
    return found
