"""KernelDensityForest: the paper's KDF, a random forest with geodesic calibration."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike
from sklearn.ensemble import RandomForestClassifier

from .base import BaseCalibrator


class KernelDensityForest(BaseCalibrator):
    """Random forest with calibrated probabilities, near the training data and far from it.

    It is a :class:`GeodesicCalibrator` around a ``RandomForestClassifier``.

    Parameters
    ----------
    n_estimators : int, default=500
        Number of trees, as in the paper.
    max_depth : int, default=None
        As in ``RandomForestClassifier``.
    min_samples_leaf : int or float, default=1
        As in ``RandomForestClassifier``.
    max_features : {"sqrt", "log2", None}, int or float, default="sqrt"
        As in ``RandomForestClassifier``.
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
        As in :class:`GeodesicCalibrator`. It is also the setting of the forest.
    random_state : int, RandomState instance or None, default=None
        As in :class:`GeodesicCalibrator`. It also seeds the forest.
    verbose : int, default=0
        As in :class:`GeodesicCalibrator`.

    Attributes
    ----------
    model_ : FittedModel
        Everything that answers a query, as in :class:`GeodesicCalibrator`.
    classes_ : ndarray of shape (n_classes,)
        Class labels, sorted.
    estimator_ : RandomForestClassifier
        The fitted forest.
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
        self.n_estimators = n_estimators
        self.max_depth = max_depth
        self.min_samples_leaf = min_samples_leaf
        self.max_features = max_features

    def _make_parent(self, X: Any = None) -> RandomForestClassifier:
        return RandomForestClassifier(
            n_estimators=self.n_estimators,
            max_depth=self.max_depth,
            min_samples_leaf=self.min_samples_leaf,
            max_features=self.max_features,
            n_jobs=self.n_jobs,
            random_state=self.random_state,
        )
