"""GeodesicCalibrator: calibration around any supported parent."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike
from sklearn.ensemble import RandomForestClassifier

from .base import BaseCalibrator


class GeodesicCalibrator(BaseCalibrator):
    """Calibrated probabilities where there was data, the class priors where there was none.

    The posterior is the mixture g(x) = alpha(x) pi(x) + (1 - alpha(x)) prior: pi is what the
    labels near x say, alpha is how much training data there is near x.

    Parameters
    ----------
    estimator : classifier, default=None
        A tree, forest or bagging of trees; GradientBoosting, HistGradientBoosting, LightGBM,
        XGBoost or CatBoost; a ReLU MLPClassifier or skorch net; or a Pipeline that ends in one
        of these. It is cloned and fitted, unless it comes fitted inside
        ``sklearn.frozen.FrozenEstimator``. A torch module (plain or as :class:`TorchParent`)
        and a Keras model are always taken as fitted. None is a ``RandomForestClassifier``.
    posterior : {"pooled", "kernel", "parent"}, default="pooled"
        Source of pi: parent and kernel together (log-linear, fitted by log-loss), the ratios
        of the nearest polytope (the paper), or the recalibrated parent alone.
    gate : {"geodesic", "gaussian"}, default="geodesic"
        Source of alpha: the nearest polytopes' Gaussian kernels and the geodesic similarity,
        or the nearest polytope's Gaussian density alone (the paper).
    bandwidth : {"geodesic", "polytope"}, default="geodesic"
        Variance of the Gaussians: over all rows weighted by similarity, or over the rows of
        the polytope (the paper). On the normalised embedding of an encoder "geodesic" is one
        variance for all.
    distance : {"geodesic", "euclidean"}, default="geodesic"
        How nearest polytopes are found. With "euclidean" (the paper's variant) class ratios
        are those of the nearest polytope and the gate does not use the similarity.
    gamma : "auto" or float, default="auto"
        Sharpness of the kernel weights K^(gamma log n); "auto" searches a log grid.
    floor : "auto" or float, default="auto"
        log b. "auto" is the ``false_alarm`` quantile of log f on the calibration rows, with
        its finite-sample rank.
    false_alarm : float or "auto", default=0.01
        Share of new in-distribution rows that may fall below the floor. "auto" takes the
        highest level, from 0.01 to 0.1, whose cost in log-loss on the calibration rows is
        within one standard error: as much protection as they afford.
    n_neighbors : int, default=10
        Polytopes that the geodesic gate looks at.
    regularization : float, default=1e-6
        Added to each variance.
    scoring : {"neg_log_loss", "ece"}, default="neg_log_loss"
        What gamma is chosen by.
    calibration : {"auto", "holdout", "oob", "cv"}, default="auto"
        Where calibration rows come from when ``X_cal`` is not given.

        - "holdout" keeps ``calibration_size`` of the rows from the parent, class by class.
        - "oob" (forest or bagging with bootstrap): the parent sees all rows, and each row is
          calibrated by the trees that did not see it. One fit.
        - "cv": each fifth of the rows is calibrated by a parent fitted on the others, and one
          final parent is fitted on all rows. Six fits.
        - "auto": "holdout" for a fitted parent, "oob" for a bootstrap forest of at least 20
          trees without weights (rows of large weight are in nearly every tree's sample, so few
          trees are left to judge them), "cv" for all others.
    calibration_size : float, default=0.3
        Share of the rows that "holdout" keeps.
    prior : array-like of shape (n_classes,), default=None
        Class priors where the model will be used, in the order of ``classes_``; posterior
        and far limit follow them. None: the weighted class shares of X in ``fit``.
    categorical_features : "from_dtype", None or array-like, default="from_dtype"
        Columns that are categories to the density: by pandas or polars data type, or names,
        numbers or a mask of columns. With a Pipeline, columns as its last step sees them. How
        the parent takes its categories is the parent's own setting.
    n_jobs : int, default=None
        Threads for the passes of polycal; a given parent keeps its own setting.
    random_state : int, RandomState instance or None, default=None
        Draws the calibration rows, and seeds the forest when ``estimator`` is None.
    verbose : int, default=0
        1 shows progress bars for long passes.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    estimator_ : the fitted parent
    polytopes_ : Polytopes
        Distinct activation modes of the rows the parent was fitted on.
    priors_ : ndarray of shape (n_classes,)
    gamma_ : float or None
        None with ``posterior="parent"``, which has no kernel.
    log_floor_ : float
    calibration_ : str
        Where the calibration rows came from: "given", "holdout", "oob" or "cv".
    false_alarm_ : float
        The level behind the floor and the verdicts.
    pool_weights_ : ndarray of shape (2, 3)
        Weights of the parent's (first row) and the kernel's probability p in the pool, which
        sees it as log p, -log(1 - p) and p.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Only when X had string column names.

    Notes
    -----
    A frozen parent must not have seen the calibration rows. With ``X_cal``, X should be the
    parent's training rows; without it, X is split, and must be new to the parent. A parent
    that knows only codes 0, 1, ... (XGBoost, torch, Keras) is taken to number the classes in
    their sorted order.

    What each plan estimates: "holdout" and ``X_cal`` calibrate the very model that predicts, so
    their false-alarm bound is exact, but that model has seen fewer rows. "oob" and "cv" fit the
    final model on all rows and calibrate stand-ins for it: the trees that did not see a row
    (about 37 % of them), or parents that saw 80 % of the rows. Stand-ins are slightly weaker,
    so probabilities lean to caution, and the false-alarm bound holds about, not exactly.
    In a Pipeline, "oob" is optimistic as far as its first steps learn from the labels.

    Guarantees: rows of ``predict_proba`` sum to 1; far from all data they equal ``priors_``;
    with equal priors the gate never changes ``predict``.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from polycal import GeodesicCalibrator
    >>> X, y = load_iris(return_X_y=True)
    >>> model = GeodesicCalibrator(RandomForestClassifier(random_state=0), random_state=0)
    >>> model.fit(X, y).predict_proba([[100.0, 100.0, 100.0, 100.0]]).round(3)
    array([[0.333, 0.333, 0.333]])
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
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
        self.estimator = estimator

    def _make_parent(self) -> Any:
        if self.estimator is not None:
            return self.estimator
        return RandomForestClassifier(n_jobs=self.n_jobs, random_state=self.random_state)
