"""Models at the edges of what fits: many classes, wide tables, extreme weights, sampled search.

    python -m stress.extremes --times 3

Each is fitted with ``--times`` seeds. What must hold is what ``stress.properties`` checks for any
model; of a sampled search also that its votes are those of the exact one within their error.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.datasets import make_classification
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression

from polycal import GeodesicCalibrator
from stress import properties
from stress.watch import Tally, quiet

Data = tuple[np.ndarray, np.ndarray, np.ndarray | None]
# As far as scikit-learn's trees can see.
FAR = 1e36
# Standard errors by which the mean of so many sampled votes may differ from the exact vote, and the
# share that may differ by more: few tables and rare events have heavier tails than the normal law.
N_TABLES, ERRORS, SHARE_BEYOND = 20, 4.0, 0.02


def many_classes(seed: int) -> Data:
    """1000 classes of three rows."""
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(1000), 3)
    return rng.normal(size=(1000, 8))[y] * 3 + rng.normal(size=(3000, 8)), y, None


def one_row_a_class(seed: int) -> Data:
    """Two classes of many rows, and 60 of one row."""
    rng = np.random.default_rng(seed)
    y = np.concatenate([np.arange(60), 60 + np.arange(600) % 2])
    return rng.normal(size=(660, 5)) + (y[:, None] % 2), y, None


def wide(seed: int) -> Data:
    """10,000 features of 120 rows."""
    rng = np.random.default_rng(seed)
    y = np.arange(120) % 2
    return rng.normal(size=(120, 10_000)) + 0.3 * y[:, None], y, None


def weights(seed: int) -> Data:
    """Weights of 0, 1 and 1e12."""
    X, y = make_classification(600, 6, n_informative=4, random_state=seed)
    return X, y, np.random.default_rng(seed).choice([0.0, 1.0, 1e12], 600)


def huge(seed: int) -> Data:
    """Numbers near the largest that a tree takes, beside the smallest that there are."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(400, 4)) * [1e37, 1e-310, 1.0, 1e20]
    return X, (X[:, 0] > 0).astype(int), None


def _forest() -> Any:
    return RandomForestClassifier(10, random_state=0)


EXTREMES: dict[str, tuple[Callable[[int], Data], Callable[[], Any], dict[str, Any]]] = {
    "1000 classes, forest": (many_classes, _forest, {"calibration": "holdout"}),
    "one row a class, forest": (one_row_a_class, _forest, {}),
    "one row a class, logistic": (one_row_a_class, lambda: LogisticRegression(max_iter=200), {}),
    "10,000 features, forest": (wide, _forest, {}),
    "10,000 features, logistic": (wide, lambda: LogisticRegression(max_iter=200), {}),
    "weights, forest": (weights, _forest, {}),
    "weights, extra trees": (weights, lambda: ExtraTreesClassifier(8, random_state=0), {}),
    "huge and denormal, forest": (huge, _forest, {}),
}


def check(name: str, seed: int) -> tuple[str, str]:
    """The outcome of one extreme, and a detail."""
    make, parent, options = EXTREMES[name]
    X, y, weight = make(seed)
    model = GeodesicCalibrator(parent(), random_state=seed, **options)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            model.fit(X, y, sample_weight=weight)
        except ValueError as error:
            clear = len(str(error)) > 20
            return ("refused" if clear else "wrong error"), str(error)
        P = model.predict_proba(X[:200])
        properties.require_probabilities(P, "rows of the fit")
        rows = np.random.default_rng(seed).permutation(200)[:50] % len(X)
        properties.require(np.array_equal(model.predict_proba(X[rows]), P[rows]), "other rows")
        for k in rows[:3]:
            one = model.predict_proba(X[k : k + 1])
            close = np.allclose(one[0], P[k], rtol=0, atol=1e-12)
            properties.require(close, f"one row: {abs(one[0] - P[k]).max()} away")
        far = np.stack([np.full(X.shape[1], FAR), np.full(X.shape[1], -FAR)])
        if make is not huge:  # whose own rows are as far
            away = abs(model.predict_proba(far) - model.priors_).max()
            properties.require(away < 1e-6, f"far rows are {away} from the prior")
    own = [w for w in caught if properties._counts(w)]
    properties.require(not own, f"warning {own and own[0].message}")
    return "good", ""


def sampled_beside_exact(seed: int) -> tuple[str, str]:
    """Votes of a sampled search beside those of the exact one, in standard errors."""
    from polycal.core.execution import Execution
    from polycal.core.reading import ActivationModes
    from polycal.kernels import PathTables, Sampling

    rng = np.random.default_rng(seed)
    n_trees, n_leaves = 12, int(rng.integers(2, 9))
    stored = ActivationModes.from_leaves(rng.integers(0, n_leaves, (500, n_trees))).distinct()[0]
    queries = ActivationModes.from_leaves(rng.integers(0, n_leaves, (60, n_trees)))
    counts = rng.integers(0, 5, (len(stored), 3)).astype(float)
    scales = np.array([1, 2, 4, 8])
    found = []
    for k in range(N_TABLES):
        how = Sampling(scales, 50, 1e9, N_TABLES * seed + k)
        tables = PathTables.build(stored, counts, n_trees, 1, how, Execution(1))
        found.append(tables.look_up(queries, 3, 0)[0] / 50)
    K = (queries.codes[:, None] == stored.codes[None]).mean(axis=2)
    exact = np.stack([K**scale @ counts for scale in scales])
    error = np.std(found, axis=0, ddof=1) / np.sqrt(N_TABLES)
    # Of the rarest buckets so few tables hold any that their error cannot be told.
    told = np.count_nonzero(found, axis=0) > N_TABLES / 2
    away = abs(np.mean(found, axis=0) - exact)[told] / (error[told] + 1e-9)
    beyond = float((away > ERRORS).mean())
    good = told.mean() > 0.4 and beyond <= SHARE_BEYOND
    return ("good" if good else "broken"), f"{beyond:.4f} of {told.sum()} beyond {ERRORS} errors"


def run(times: int, seed: int) -> Tally:
    """Each extreme so many times."""
    total = Tally()
    for name in [*EXTREMES, "sampled beside exact"]:
        tally = Tally()
        for case in range(times):
            try:
                if name in EXTREMES:
                    outcome, detail = check(name, seed + case)
                else:
                    with quiet():
                        outcome, detail = sampled_beside_exact(seed + case)
            except properties.BrokenError as error:
                outcome, detail = "broken", str(error)
            except Exception as error:
                outcome, detail = "wrong error", repr(error)
            tally.add(outcome, f"{name} {seed + case}: {detail}")
        tally.report(name)
        total.join(tally)
    return total


def main() -> int:
    """Run the cases of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    return run(asked.times, asked.seed).report("extremes")


if __name__ == "__main__":
    raise SystemExit(main())
