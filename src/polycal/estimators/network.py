"""KernelDensityNetwork: the paper's KDN, a ReLU network with geodesic calibration."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.neural_network import MLPClassifier

from .._utils.sklearn_compat import n_rows_of
from .._utils.validation import one_of
from .base import BaseCalibrator

# Layers of the paper, and the narrowest and widest of them; the widest is the paper's.
N_LAYERS = 4
WIDTHS = (32, 1000)


class KernelDensityNetwork(BaseCalibrator):
    """ReLU network with calibrated probabilities, near the training data and far from it.

    It is a :class:`GeodesicCalibrator` around an ``MLPClassifier`` with ReLU units, trained by
    Adam.

    Parameters
    ----------
    hidden_layer_sizes : {"auto", "paper"} or array-like of int, default="auto"
        Number of units in each hidden layer. "auto" is four layers whose width grows with the
        rows, 2 sqrt(n), from 32 to 1000; "paper" is the paper's, four layers of 1000.
    learning_rate_init : float, default=3e-4
        Learning rate of Adam; the default is that of the paper.
    alpha : float, default=1e-4
        Strength of the L2 penalty, as in ``MLPClassifier``.
    batch_size : int or "auto", default="auto"
        As in ``MLPClassifier``.
    max_iter : int, default=200
        Largest number of epochs.
    early_stopping : bool, default=False
        As in ``MLPClassifier``.
    posterior : {"pooled", "kernel", "parent"}, default="pooled"
        As in :class:`GeodesicCalibrator`.
    gate : {"geodesic", "gaussian"}, default="geodesic"
        As in :class:`GeodesicCalibrator`.
    bandwidth : {"geodesic", "polytope"}, default="geodesic"
        As in :class:`GeodesicCalibrator`.
    distance : {"geodesic", "euclidean"}, default="geodesic"
        As in :class:`GeodesicCalibrator`.
    gamma : "auto" or float, default="auto"
        As in :class:`GeodesicCalibrator`.
    floor : "auto" or float, default="auto"
        As in :class:`GeodesicCalibrator`.
    false_alarm : float or "auto", default=0.01
        As in :class:`GeodesicCalibrator`.
    caution : float or "auto", default="auto"
        As in :class:`GeodesicCalibrator`.
    confidence : float, default=None
        As in :class:`GeodesicCalibrator`.
    n_neighbors : int, default=10
        As in :class:`GeodesicCalibrator`.
    n_hyperplanes : int, default=1024
        As in :class:`GeodesicCalibrator`.
    search : {"auto", "exact", "sampled"}, default="auto"
        How a row is compared with the training rows. "exact" compares it with all of them.
        "sampled" looks it up in tables of rows that agree along random paths through the parent
        (and random hyperplanes), at a cost that does not grow with the rows; votes are then
        estimates. "auto" is exact while that is about as cheap, see ``search_``. Sampling needs
        ``posterior="pooled"`` or "parent", the geodesic gate and distance, and ``gamma="auto"``.
    memory_limit : str or float, default="2GiB"
        Memory for the tables of a sampled search, as text or in bytes. Where it is short, part of
        the rows that agree along long paths is left out at random. A fit needs it up to twice.
    regularization : float, default=1e-6
        As in :class:`GeodesicCalibrator`.
    scoring : {"neg_log_loss", "ece"}, default="neg_log_loss"
        As in :class:`GeodesicCalibrator`.
    calibration : {"auto", "holdout", "oob", "cv"}, int or splitter, default="auto"
        As in :class:`GeodesicCalibrator`.
    calibration_size : float, default=0.3
        As in :class:`GeodesicCalibrator`.
    prior : array-like of shape (n_classes,) or dict, default=None
        As in :class:`GeodesicCalibrator`.
    categorical_features : "from_dtype", None or array-like, default="from_dtype"
        As in :class:`GeodesicCalibrator`.
    n_jobs : int, default=None
        As in :class:`GeodesicCalibrator`.
    random_state : int, RandomState instance or None, default=None
        As in :class:`GeodesicCalibrator`. It also seeds the network.
    verbose : int, default=0
        As in :class:`GeodesicCalibrator`.

    Attributes
    ----------
    model_ : FittedModel
        Everything that answers a query, as in :class:`GeodesicCalibrator`.
    classes_ : ndarray of shape (n_classes,)
        Class labels, sorted.
    estimator_ : MLPClassifier
        The fitted network.
    polytopes_ : Polytopes
        As in :class:`GeodesicCalibrator`, like the attributes that follow.
    priors_ : ndarray of shape (n_classes,)
        Class priors: the probabilities far from all training data.
    gamma_ : float or None
        Sharpness of votes that have one exponent; None where they have several.
    log_floor_ : float
        The floor log b of alpha, which the score log f is compared with.
    calibration_ : str
        Source of the calibration rows.
    false_alarm_ : float
        False-alarm level of the verdict "out".
    out_floor_ : float
        The score below which ``explain`` calls a row "out".
    caution_ : float
        Level of alpha's floor ``log_floor_``.
    pool_weights_ : ndarray of shape (n_sources, 3)
        Weights of the parent and of the votes in the pool.
    search_ : str
        How rows are compared with the training rows: "exact", "sampled", or, where only the
        hyperplanes are, "exact, hyperplanes sampled".
    n_iter_ : int
        Number of epochs that the network was trained for.
    n_features_in_ : int
        Number of features.
    columns_ : ColumnRoles or None
        How each column of a frame was read (number, category, date, text, id or dropped), and
        why; ``print(model.columns_)`` shows it. None if X had no named columns.
    feature_names_in_ : ndarray of shape (n_features,)
        Column names, when X has column names that are all strings.

    Notes
    -----
    ``sample_weight``, ``groups``, ``X_cal`` and ``y_cal`` of ``fit`` take part in scikit-learn's
    metadata routing (``set_fit_request``).

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
        hidden_layer_sizes: Any = "auto",
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
        caution: str | float = "auto",
        confidence: float | None = None,
        n_neighbors: int = 10,
        n_hyperplanes: int = 1024,
        search: str = "auto",
        memory_limit: str | float = "2GiB",
        regularization: float = 1e-6,
        scoring: str = "neg_log_loss",
        calibration: Any = "auto",
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
            caution=caution,
            confidence=confidence,
            n_neighbors=n_neighbors,
            n_hyperplanes=n_hyperplanes,
            search=search,
            memory_limit=memory_limit,
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
        """Number of epochs that the network was trained for."""
        return int(self.estimator_.n_iter_)

    def _make_parent(self, X: Any = None) -> MLPClassifier:
        sizes = self.hidden_layer_sizes
        if isinstance(sizes, str):
            one_of(["auto", "paper"], hidden_layer_sizes=sizes)
            n_rows = n_rows_of(X) if sizes == "auto" and X is not None else np.inf
            sizes = (int(np.clip(2 * np.sqrt(n_rows), *WIDTHS)),) * N_LAYERS
        return MLPClassifier(
            hidden_layer_sizes=sizes,
            learning_rate_init=self.learning_rate_init,
            alpha=self.alpha,
            batch_size=self.batch_size,
            max_iter=self.max_iter,
            early_stopping=self.early_stopping,
            random_state=self.random_state,
        )
