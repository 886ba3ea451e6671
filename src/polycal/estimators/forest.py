"""KernelDensityForest: the paper's KDF, a random forest with geodesic calibration."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike
from sklearn.ensemble import RandomForestClassifier

from .base import BaseCalibrator


class KernelDensityForest(BaseCalibrator):
    """Random forest whose probabilities are calibrated near the data and far from it.

    Parameters
    ----------
    n_estimators, max_depth, min_samples_leaf, max_features :
        As in ``RandomForestClassifier``; the defaults are the paper's.
    posterior, gate, bandwidth, distance, gamma, floor, false_alarm, n_neighbors, \
    regularization, scoring, calibration, calibration_size, prior, categorical_features, n_jobs, \
    random_state, verbose :
        As in :class:`GeodesicCalibrator`. ``n_jobs`` and ``random_state`` also go to the forest.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from polycal import KernelDensityForest
    >>> X, y = load_iris(return_X_y=True)
    >>> model = KernelDensityForest(n_estimators=50, random_state=0).fit(X, y)
    >>> model.predict_proba([[-90.0, 70.0, 80.0, 90.0]]).round(3)
    array([[0.333, 0.333, 0.333]])
    """

    def __init__(
        self,
        n_estimators: int = 500,
        *,
        max_depth: int | None = None,
        min_samples_leaf: int | float = 1,
        max_features: str | int | float | None = "sqrt",
        posterior: str = "pooled",
        gate: str = "geodesic",
        bandwidth: str = "geodesic",
        distance: str = "geodesic",
        gamma: str | float = "auto",
        floor: str | float = "auto",
        false_alarm: str | float = 0.01,
        n_neighbors: int = 10,
        regularization: float = 1e-6,
        scoring: str = "neg_log_loss",
        calibration: str = "auto",
        calibration_size: float = 0.3,
        prior: ArrayLike | None = None,
        categorical_features: Any = "from_dtype",
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ):
        super().__init__(
            posterior=posterior,
            gate=gate,
            bandwidth=bandwidth,
            distance=distance,
            gamma=gamma,
            floor=floor,
            false_alarm=false_alarm,
            n_neighbors=n_neighbors,
            regularization=regularization,
            scoring=scoring,
            calibration=calibration,
            calibration_size=calibration_size,
            prior=prior,
            categorical_features=categorical_features,
            n_jobs=n_jobs,
            random_state=random_state,
            verbose=verbose,
        )
        self.n_estimators = n_estimators
        self.max_depth = max_depth
        self.min_samples_leaf = min_samples_leaf
        self.max_features = max_features

    def _make_parent(self) -> RandomForestClassifier:
        return RandomForestClassifier(
            n_estimators=self.n_estimators,
            max_depth=self.max_depth,
            min_samples_leaf=self.min_samples_leaf,
            max_features=self.max_features,
            n_jobs=self.n_jobs,
            random_state=self.random_state,
        )
