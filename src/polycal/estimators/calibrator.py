"""GeodesicCalibrator: calibrates any supported parent."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike
from sklearn.ensemble import RandomForestClassifier

from .base import BaseCalibrator
from .streaming import Streaming


class GeodesicCalibrator(Streaming, BaseCalibrator):
    """Calibrated classifier that falls back to the class priors far from the training data.

    The probabilities are the mixture g(x) = alpha(x) pi(x) + (1 - alpha(x)) prior. The posterior
    pi(x) is estimated from the labels near x; the trust weight alpha(x) says how much training
    data there is near x.

    The defaults are meant to be kept. Five parameters matter; the others are for special needs or
    to reproduce the paper:

    - ``estimator``: the classifier that you would use without polycal. A better one gives better
      answers.
    - ``calibration``: which rows the parent has not seen, so that it can be judged by them. Change
      it if the parent is slow to fit ("holdout" fits it once) or the rows are ordered in time (a
      splitter). Rows of your own go to ``fit`` as ``X_cal`` and ``y_cal``.
    - ``false_alarm``: how many ordinary rows may be called "out". Raise it if a wrong answer to a
      strange row costs more than a refusal.
    - ``prior``: the class shares where the model will be used, if they differ from those of the
      training rows. Far from the data they are the answer.
    - ``random_state``: a number makes the fit repeatable.

    Parameters
    ----------
    estimator : classifier, default=None
        The parent: a tree, forest or bagging of trees; GradientBoosting, HistGradientBoosting,
        LightGBM, XGBoost or CatBoost; an MLPClassifier or skorch net; any other classifier with
        ``predict_proba`` and ``classes_``; or a Pipeline that ends in one of these. It is cloned
        and fitted, unless it is wrapped in ``sklearn.frozen.FrozenEstimator``. A torch module
        (plain or as :class:`TorchParent`) and a Keras model are always used as they are. None is
        a ``RandomForestClassifier``.
    posterior : {"pooled", "kernel", "parent"}, default="pooled"
        Source of pi: a log-linear pool of the parent and the votes of similar training rows,
        fitted by log-loss; the class ratios of the nearest polytope (as in the paper); or the
        recalibrated parent alone.
    gate : {"geodesic", "gaussian"}, default="geodesic"
        Source of alpha: the Gaussian kernels of the nearest polytopes together with the geodesic
        similarity, or the Gaussian density of the nearest polytope alone (as in the paper).
    bandwidth : {"geodesic", "polytope"}, default="geodesic"
        Variance of the Gaussians: over all rows weighted by similarity, or over the rows of
        the polytope (as in the paper). On the normalised embedding of an encoder "geodesic" is
        one variance for all features and polytopes.
    distance : {"geodesic", "euclidean"}, default="geodesic"
        How nearest polytopes are found. With "euclidean" (a variant in the paper) the class
        ratios are those of the nearest polytope, and the gate does not use the similarity.
    gamma : "auto" or float, default="auto"
        Sharpness of the kernel weights K^(gamma log n). With "auto", the labels vote at several
        exponents at once where they are pooled with the parent; otherwise one gamma is chosen on a
        log grid.
    floor : "auto" or float, default="auto"
        The floor log b of alpha, which the score log f is compared with. "auto" is the ``caution``
        quantile of log f on the calibration rows, with its finite-sample rank.
    false_alarm : float or "auto", default=0.01
        Share of new in-distribution rows that may be called "out"; to a standard error, also of
        each class that is not rare and has at least 1 / ``false_alarm`` calibration rows.
        "auto" is the highest level from 0.01 to 0.1 whose cost in log-loss on the calibration rows
        is within one standard error.
    caution : float or "auto", default="auto"
        Level of the floor of the trust weight alpha: about this share of in-distribution rows
        falls below it, and is answered by more of the prior than of the posterior. The verdict
        "out" keeps the floor of ``false_alarm``. "auto" is ``false_alarm``, or less, down to a
        hundredth of it, where that surely saves log-loss of rare classes (with ``false_alarm``
        up to 0.01). With ``gate="gaussian"`` it is ``false_alarm`` (the paper's one floor).
    confidence : float, default=None
        Confidence that at most ``false_alarm`` of new in-distribution rows are called "out" by
        this very model, for example 0.95. None: the bound holds on average over models; the share
        of one model varies around it (with 300 calibration rows, 1 % may be 2 %).
    n_neighbors : int, default=10
        Number of nearest polytopes that the geodesic gate uses.
    n_hyperplanes : int, default=1024
        Number of random hyperplanes. With ``posterior="pooled"``, the labels of rows that lie on
        the same side of most of them are a second witness, which knows nothing of the parent; 0
        leaves it out. More are a little better, and slower.
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
        Added to each variance. With ``bandwidth="geodesic"`` it is a multiple of the squared
        interquartile range of the feature, so that the unit of a feature does not matter.
    scoring : {"neg_log_loss", "ece"}, default="neg_log_loss"
        Criterion that gamma is chosen by, where there is one gamma (see ``gamma``).
    calibration : {"auto", "holdout", "oob", "cv"}, int or splitter, default="auto"
        Source of the calibration rows when ``X_cal`` is not given.

        - "holdout": the parent is fitted without a share ``calibration_size`` of the rows,
          drawn class by class. One fit.
        - "oob" (forest or bagging with bootstrap): the parent is fitted on all rows, and each row
          is calibrated by the trees that were fitted without it. One fit. A tree that was fitted
          on a row of a group does not count as fitted without the others.
        - "cv": cross-fitting. Each of five stratified folds is calibrated by a parent that is
          fitted on the other four, and one final parent is fitted on all rows. Six fits.
        - An integer: cross-fitting with this number of stratified folds.
        - A splitter: cross-fitting with the folds of any object that has scikit-learn's
          ``split(X, y, groups)``. Each training part must hold every class; rows may be in
          several test parts or in none.
        - "auto": "holdout" for a parent that is fitted already; "oob" for a bootstrap forest of
          at least 20 trees, where ``fit`` gets no weights, the forest has no class weights and few
          rows have copies or a group (rows of large weight or of large groups are in nearly every
          bootstrap sample, so few trees are left to calibrate them); "cv" otherwise.
    calibration_size : float, default=0.3
        Share of the rows that "holdout" calibrates on.
    prior : array-like of shape (n_classes,) or dict, default=None
        Class priors where the model will be used, in the order of ``classes_``, or by label as
        ``{"label": share}``. The posterior
        is adjusted to them, and they are the probabilities far from the data. None: the weighted
        class shares of X in ``fit``.
    categorical_features : "from_dtype", None or array-like, default="from_dtype"
        Columns that the density treats as categories: by pandas or polars data type, or names,
        numbers or a mask of columns. With a Pipeline, columns of the input of its last step.
        The parent has its own setting for how it treats categories.
    n_jobs : int, default=None
        Number of threads for the computations of polycal. A given parent keeps its own setting.
    random_state : int, RandomState instance or None, default=None
        Draws the calibration rows and the hyperplanes, and seeds the forest when ``estimator`` is
        None. Without it, the hyperplanes are always the same.
    verbose : int, default=0
        With 1, long computations show progress bars.
    half_life : float, default=None
        For ``partial_fit``: the number of rows after which a row counts half as much, so that the
        model follows data that drift. None: all rows count alike.

    Attributes
    ----------
    model_ : FittedModel
        Everything that answers a query: the fitted parent, its polytopes, the posterior and the
        gate. The other attributes are read from it.
    classes_ : ndarray of shape (n_classes,)
        Class labels, sorted.
    estimator_ : classifier
        The fitted parent.
    polytopes_ : Polytopes
        Distinct activation modes of the rows that the parent was fitted on, with class counts,
        means and variances.
    priors_ : ndarray of shape (n_classes,)
        Class priors: the probabilities far from all training data.
    gamma_ : float or None
        Sharpness of votes that have one exponent, gamma log n; None where they have several
        (``posterior="pooled"`` with ``gamma="auto"``), or there are none.
    log_floor_ : float
        The floor log b of alpha, which the score log f is compared with.
    calibration_ : str
        Source of the calibration rows: "given" (``X_cal``), "holdout", "oob", "cv" (also for an
        integer or a splitter) or "stream".
    false_alarm_ : float
        False-alarm level of the verdict "out".
    out_floor_ : float
        The score below which ``explain`` calls a row "out".
    caution_ : float
        Level of alpha's floor ``log_floor_``.
    pool_weights_ : ndarray of shape (n_sources, 3)
        Weights of the sources in the pool: the parent first, then the votes by its modes and those
        by hyperplanes, at each exponent. The columns are the weights of log p, -log(1 - p) and p.
    search_ : str
        How rows are compared with the training rows: "exact", "sampled", or, where only the
        hyperplanes are, "exact, hyperplanes sampled".
    n_features_in_ : int
        Number of features, when X is a table.
    columns_ : ColumnRoles or None
        How each column of a frame was read (number, category, date, text, id or dropped), and
        why; ``print(model.columns_)`` shows it. None if X had no named columns.
    feature_names_in_ : ndarray of shape (n_features,)
        Column names, when X has column names that are all strings.

    Notes
    -----
    A parent that is fitted already must not have been fitted on the calibration rows. With
    ``X_cal``, X should be the training rows of the parent; without it, X is split, and must be new
    to the parent. For a parent that knows only codes 0, 1, ... (XGBoost, torch, Keras) the codes
    are assumed to number the classes in sorted order.

    With "holdout" and ``X_cal``, the model that is calibrated is the model that predicts, so the
    false-alarm bound is exact, but that model is fitted on fewer rows. With "oob" and
    cross-fitting, the final model is fitted on all rows, and slightly weaker models are calibrated
    in its place: for each row the trees that were fitted without it (about 37 % of them), or a
    parent that was fitted on the other folds. So probabilities are slightly too cautious, and the
    false-alarm bound is approximate. With a Pipeline, "oob" is optimistic if its first steps learn
    from the labels.

    ``sample_weight``, ``groups``, ``X_cal`` and ``y_cal`` of ``fit`` take part in scikit-learn's
    metadata routing: ``set_fit_request`` says which of them a meta-estimator passes on.

    ``fit`` takes Dask arrays, dataframes and series, if the parent is fitted already: X, y and
    ``sample_weight`` with the same partitions, and calibration rows on Dask or local. A tenth of
    the rows calibrates where none are given. The model is that of ``fit_batches`` to rounding.

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
        half_life: float | None = None,
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
        self.estimator = estimator
        self.half_life = half_life

    def _make_parent(self, X: Any = None) -> Any:
        if self.estimator is not None:
            return self.estimator
        return RandomForestClassifier(n_jobs=self.n_jobs, random_state=self.random_state)
