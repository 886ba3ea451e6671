"""Evaluation of fitted classifiers: figures with intervals, in and out of distribution."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from .. import metrics
from .._utils import validation
from .._utils.arrays import Array, Floats, Ints
from .._utils.labels import class_columns
from ..calibration.fitted_model import Answer
from ..calibration.guards import warn_of_other_order
from ..estimators import BaseCalibrator
from .model_scores import ModelScores, ask, from_answer, of_parent, predictions
from .result import INSIDE, TITLES, Evaluation, Figure

N_BINS, LEVEL, N_ROUNDS = 20, 0.95, 200


def evaluate(
    models: Any,
    X: Any,
    y: ArrayLike,
    *,
    ood: Any = None,
    priors: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    n_bins: int = N_BINS,
    level: float = LEVEL,
    n_rounds: int = N_ROUNDS,
    random_state: int | np.random.RandomState | None = None,
) -> Evaluation:
    """Evaluate one or several fitted classifiers, in and out of distribution.

    Parameters
    ----------
    models : classifier, list of classifiers, or dict of name to classifier
        Fitted classifiers, each with ``predict_proba`` and the same ``classes_``.
    X : array-like of shape (n_samples, n_features)
        Test rows in distribution.
    y : array-like of shape (n_samples,)
        Their labels.
    ood : array-like of shape (n_ood_samples, n_features), or dict of name to array-like, \
            default=None
        Out-of-distribution rows, in one set or several. They have no weights: each counts once.
    priors : array-like of shape (n_classes,), default=None
        True class priors, which OCE is measured against. None: the weighted class shares of y.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the rows of X: a row of weight 2 counts as two, a row of weight 0 as none. They
        apply to all figures in distribution, and to the rows of X in AUROC and FPR.
    n_bins : int, default=20
        Number of bins of the calibration error.
    level : float, default=0.95
        Level of the confidence intervals.
    n_rounds : int, default=200
        Number of bootstrap rounds.
    random_state : int, RandomState instance or None, default=None
        Draws the bootstrap samples. Pass an int for the same intervals at each call.

    Returns
    -------
    Evaluation
        The figures, with ``to_frame()``, ``to_markdown()`` and ``plot()``. In distribution:
        error, ECE (plain and debiased), log-loss, Brier score, mean confidence on errors. For
        each set of OOD rows: OCE, mean confidence, and AUROC and FPR at 95 % TPR of
        ``score_samples`` (of the highest probability where a model has no such method). For all
        rows, where a model has ``in_distribution``: the share that is trusted, with a weight
        above 1/2.

    Notes
    -----
    Intervals are quantiles over bootstrap samples of the rows, with the same samples for every
    model. The interval of the ECE is that of ``metrics.calibration_error_interval``. A row that is
    drawn keeps its weight, so a row of weight 2 gives wider intervals than two rows of weight 1.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from polycal import KernelDensityForest, evaluate
    >>> X, y = load_iris(return_X_y=True)
    >>> model = KernelDensityForest(50, false_alarm=0.05, random_state=0).fit(X[::2], y[::2])
    >>> found = evaluate({"KDF": model}, X[1::2], y[1::2], ood={"far": X[1::2] + 50})
    >>> [f.value for f in found.figures if f.metric == "auroc"]
    [1.0]
    """
    validation.check_local(X=X, y=y)
    warn_of_other_order(X, y)
    validation.share(level=level)
    validation.count(n_rounds=n_rounds, n_bins=n_bins)
    named, outside = _name_models(models), name_rows(ood)
    classes = _shared_classes(named)
    codes = class_columns(y, classes)
    weight = validation.check_weights(sample_weight, len(codes))
    prior = np.bincount(codes, weight, minlength=len(classes)) / weight.sum()
    if priors is not None:
        prior = validation.check_prior(priors, classes)
    rng = np.random.default_rng(check_random_state(random_state).randint(2**31))
    scores = []
    for name, model in named.items():
        inside = predictions(name, model, X, len(classes), as_test=True)
        out = {rows: predictions(name, model, Z, len(classes)) for rows, Z in outside.items()}
        scores.append(ModelScores.from_predictions(name, inside, codes, out, prior))
    return summarize(scores, codes, weight, n_bins, level, n_rounds, rng)


def evaluate_with_parent(
    model: BaseCalibrator, X: Any, y: ArrayLike, *, ood: Any = None, random_state: int = 0
) -> Evaluation:
    """``evaluate`` of a polycal model and its parent, with one pass over the rows for both."""
    codes = class_columns(y, model.classes_)
    prior = np.bincount(codes, minlength=len(model.classes_)) / len(codes)
    outside = {name: ask(model, rows) for name, rows in name_rows(ood).items()}
    return compare_with_parent(ask(model, X, as_test=True), codes, outside, prior, random_state)


def compare_with_parent(
    answer: Answer,
    codes: Ints,
    outside: Mapping[str, Answer],
    prior: Floats,
    random_state: int,
) -> Evaluation:
    """Figures of a polycal model and of its parent, from answers of the model."""
    rng = np.random.default_rng(check_random_state(random_state).randint(2**31))
    scores = []
    for name, of_model in (("polycal", from_answer), ("parent", of_parent)):
        out = {rows: of_model(name, other) for rows, other in outside.items()}
        inside = of_model(name, answer)
        scores.append(ModelScores.from_predictions(name, inside, codes, out, prior))
    return summarize(scores, codes, np.ones(len(codes)), N_BINS, LEVEL, N_ROUNDS, rng)


def summarize(
    scores: Sequence[ModelScores],
    codes: Ints,
    weight: Floats,
    n_bins: int,
    level: float,
    n_rounds: int,
    rng: np.random.Generator,
) -> Evaluation:
    """Figures with intervals, from the predictions of each model for the same rows."""
    outside = scores[0].n_outside
    plain = [model_scores.values(weight, dict.fromkeys(outside)) for model_scores in scores]
    drawn: list[list[list[float]]] = [[] for _ in scores]
    for counts, out_counts in _samples(weight, outside, n_rounds, rng):
        for model_scores, rounds in zip(scores, drawn, strict=True):
            rounds.append(model_scores.values(counts, out_counts))
    tails = [(1 - level) / 2, (1 + level) / 2]
    figures = []
    for model_scores, value, rounds in zip(scores, plain, drawn, strict=True):
        with warnings.catch_warnings():  # a model without errors has no confidence on them
            warnings.filterwarnings("ignore", "All-NaN slice")
            low, high = np.nanquantile(np.array(rounds), tails, axis=0)
        found = {
            key: (v, min(a, v), max(b, v))
            for key, v, a, b in zip(model_scores.keys, value, low, high, strict=True)
        }
        seed = int(rng.integers(2**31))
        ece = metrics.calibration_error_interval(
            codes,
            model_scores.proba,
            n_bins,
            sample_weight=weight,
            level=level,
            n_rounds=n_rounds,
            random_state=seed,
        )
        found[INSIDE, "ece"] = (ece.value, ece.low, ece.high)
        found[INSIDE, "ece_debiased"] = (ece.debiased, ece.low, ece.high)
        order = list(TITLES)
        for rows in (INSIDE, *outside):
            own = sorted((m for r, m in found if r == rows), key=order.index)
            figures += [
                Figure(model_scores.name, rows, m, *map(float, found[rows, m])) for m in own
            ]
    return Evaluation(figures, level)


def _samples(
    weight: Floats, n_outside: dict[str, int], n_rounds: int, rng: np.random.Generator
) -> Iterator[tuple[Floats, dict[str, Floats]]]:
    """Weight of each row in each bootstrap sample: its own times the number of its draws."""
    used = np.flatnonzero(weight)  # in a sample of rows of weight 0 no figure is defined

    def draw(size: int) -> Floats:
        return np.bincount(rng.integers(size, size=size), minlength=size).astype(float)

    for _ in range(n_rounds):
        inside = np.zeros(len(weight))
        inside[used] = weight[used] * draw(len(used))
        yield inside, {rows: draw(size) for rows, size in n_outside.items()}


def _name_models(models: Any) -> dict[str, Any]:
    if isinstance(models, Mapping):
        named = {str(name): model for name, model in models.items()}
    else:
        listed = list(models) if isinstance(models, (list, tuple)) else [models]
        names = [type(model).__name__ for model in listed]
        named = {
            name if names.count(name) == 1 else f"{name} {i + 1}": model
            for i, (name, model) in enumerate(zip(names, listed, strict=True))
        }
    for name, model in named.items():
        if not hasattr(model, "predict_proba") or not hasattr(model, "classes_"):
            raise TypeError(
                f"models must be fitted classifiers with predict_proba; {name!r} is a "
                f"{type(model).__name__} without it or not fitted. Fit it first."
            )
    if not named:
        raise ValueError("models is empty; give a classifier, a list or a dict of them.")
    return named


def name_rows(ood: Any) -> dict[str, Any]:
    """Sets of out-of-distribution rows by name, each with at least one row."""
    if ood is None:
        return {}
    named = dict(ood) if isinstance(ood, Mapping) else {"out of distribution": ood}
    for name, rows in named.items():
        # A sparse matrix has no length, but a shape.
        shape = getattr(rows, "shape", None) or (len(rows) if hasattr(rows, "__len__") else 1,)
        if shape[0] == 0:
            raise ValueError(f"the OOD rows {name!r} are empty; give rows, or leave them out.")
        if name == INSIDE:
            raise ValueError(f"{INSIDE!r} names the rows X; give the OOD rows another name.")
    return named


def _shared_classes(named: dict[str, Any]) -> Array:
    first, *others = named
    classes = np.asarray(named[first].classes_)
    for name in others:
        if not np.array_equal(classes, named[name].classes_):
            raise ValueError(
                f"models must know the same classes; {first!r} has {classes.tolist()[:20]}, "
                f"{name!r} has {list(named[name].classes_)[:20]}."
            )
    return classes
