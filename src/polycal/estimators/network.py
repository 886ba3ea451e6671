"""KernelDensityNetwork: the paper's KDN, a ReLU network with geodesic calibration."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike
from sklearn.neural_network import MLPClassifier

from .base import BaseCalibrator


class KernelDensityNetwork(BaseCalibrator):
    """ReLU network whose probabilities are calibrated near the data and far from it.

    Parameters
    ----------
    hidden_layer_sizes, learning_rate_init, alpha, batch_size, max_iter, early_stopping :
        As in ``MLPClassifier`` (ReLU, Adam); layers and learning rate are the paper's.
    posterior, gate, bandwidth, distance, gamma, floor, false_alarm, n_neighbors, \
    regularization, scoring, calibration, calibration_size, prior, categorical_features, n_jobs, \
    random_state, verbose :
        As in :class:`GeodesicCalibrator`. ``random_state`` also goes to the network.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from polycal import KernelDensityNetwork
    >>> X, y = load_iris(return_X_y=True)
    >>> model = KernelDensityNetwork((20, 20), max_iter=2000, random_state=0).fit(X, y)
    >>> model.predict_proba([[-900.0, 700.0, 800.0, 900.0]]).round(3)
    array([[0.333, 0.333, 0.333]])
    """

    def __init__(
        self,
        hidden_layer_sizes: Any = (1000,) * 4,
        *,
        learning_rate_init: float = 3e-4,
        alpha: float = 1e-4,
        batch_size: int | str = "auto",
        max_iter: int = 200,
        early_stopping: bool = False,
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
        self.hidden_layer_sizes = hidden_layer_sizes
        self.learning_rate_init = learning_rate_init
        self.alpha = alpha
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.early_stopping = early_stopping

    @property
    def n_iter_(self) -> int:
        """Epochs that the network was trained for."""
        return self.estimator_.n_iter_

    def _make_parent(self) -> MLPClassifier:
        return MLPClassifier(
            hidden_layer_sizes=self.hidden_layer_sizes,
            learning_rate_init=self.learning_rate_init,
            alpha=self.alpha,
            batch_size=self.batch_size,
            max_iter=self.max_iter,
            early_stopping=self.early_stopping,
            random_state=self.random_state,
        )
