"""Models and rows in, figures with intervals out."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

from .. import metrics
from .._utils import validation
from .model_scores import ModelScores
from .result import INSIDE, TITLES, Evaluation, Figure


def evaluate(
    models: Any,
    X: Any,
    y: ArrayLike,
    *,
    ood: Any = None,
    priors: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    n_bins: int = 20,
    level: float = 0.95,
    n_rounds: int = 200,
    random_state: int | np.random.RandomState | None = None,
) -> Evaluation:
    """All figures in and out of distribution, for one or several fitted classifiers.

    Parameters
    ----------
    models : classifier, list of classifiers, or dict of name to classifier
        Each with ``predict_proba`` and the same ``classes_``.
    X, y : test rows in distribution, and their labels
    ood : rows, or dict of name to rows, default=None
        Out-of-distribution rows. They have no weights, each counts once: they stand for no
        population whose shares could be wrong.
    priors : array-like of shape (n_classes,), default=None
        True class priors, which OCE is measured against. None: the weighted class shares of y.
    sample_weight : array-like of shape (n_samples,), default=None
        Of the rows X: a row of weight 2 counts as two, one of weight 0 as none. All figures in
        distribution follow them, and AUROC and FPR on their side of X.
    n_bins : int, default=20
        Of the calibration error.
    level : float, default=0.95
        Of the confidence intervals.
    n_rounds : int, default=200
        Bootstrap rounds.
    random_state : int, RandomState or None, default=None

    Returns
    -------
    Evaluation
        With ``figures``, ``to_frame()``, ``to_markdown()`` and ``plot()``. In distribution:
        error, ECE (plain and debiased), log-loss, Brier score, mean confidence on errors. For
        each set of OOD rows: OCE, mean confidence, and AUROC and FPR at 95 % TPR of
        ``score_samples`` (of the highest probability where a model has no such method). For all
        rows, where a model has ``in_distribution``: the share that is trusted, with a weight
        above 1/2.

    Notes
    -----
    Intervals are quantiles over bootstrap samples of the rows, the same samples for every model,
    but for the ECE, whose interval is that of ``metrics.calibration_error_interval``. A row is
    drawn as a whole and keeps its weight, so that a row of weight 2 is less certain than two rows.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from polycal import KernelDensityForest, evaluate
    >>> X, y = load_iris(return_X_y=True)
    >>> model = KernelDensityForest(50, random_state=0).fit(X[::2], y[::2])
    >>> found = evaluate({"KDF": model}, X[1::2], y[1::2], ood={"far": X[1::2] + 50})
    >>> [f.value for f in found.figures if f.metric == "auroc"]
    [1.0]
    """
    validation.share(level=level)
    validation.count(n_rounds=n_rounds, n_bins=n_bins)
    named, outside = _name_models(models), _name_rows(ood)
    classes = _shared_classes(named)
    codes = validation.class_columns(y, classes)
    weight = validation.check_weights(sample_weight, len(codes))
    prior = np.bincount(codes, weight, minlength=len(classes)) / weight.sum()
    if priors is not None:
        prior = validation.check_prior(priors, classes)
    rng = np.random.default_rng(check_random_state(random_state).randint(2**31))
    looks = [
        ModelScores.at(name, model, X, codes, outside, prior, classes)
        for name, model in named.items()
    ]
    plain = [look.values(weight, dict.fromkeys(outside)) for look in looks]
    drawn: list[list[list[float]]] = [[] for _ in looks]
    for counts, out_counts in _samples(weight, looks[0].n_outside, n_rounds, rng):
        for look, rounds in zip(looks, drawn, strict=True):
            rounds.append(look.values(counts, out_counts))
    tails = [(1 - level) / 2, (1 + level) / 2]
    figures = []
    for look, value, rounds in zip(looks, plain, drawn, strict=True):
        with warnings.catch_warnings():  # a model without errors has no confidence on them
            warnings.filterwarnings("ignore", "All-NaN slice")
            low, high = np.nanquantile(np.array(rounds), tails, axis=0)
        found = {
            key: (v, min(a, v), max(b, v))
            for key, v, a, b in zip(look.keys, value, low, high, strict=True)
        }
        seed = int(rng.integers(2**31))
        ece = metrics.calibration_error_interval(
            codes,
            look.proba,
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
            mine = sorted((m for r, m in found if r == rows), key=order.index)
            figures += [Figure(look.name, rows, m, *map(float, found[rows, m])) for m in mine]
    return Evaluation(figures, level)


def _samples(
    weight: NDArray, n_outside: dict[str, int], n_rounds: int, rng: np.random.Generator
) -> Iterator[tuple[NDArray, dict[str, NDArray]]]:
    """The weight of each row in each bootstrap sample: how often it is drawn, times its own."""
    used = np.flatnonzero(weight)  # a sample of rows without weight would have no figures

    def draw(size: int) -> NDArray:
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


def _name_rows(ood: Any) -> dict[str, Any]:
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


def _shared_classes(named: dict[str, Any]) -> NDArray:
    first, *others = named
    classes = np.asarray(named[first].classes_)
    for name in others:
        if not np.array_equal(classes, named[name].classes_):
            raise ValueError(
                f"models must know the same classes; {first!r} has {classes.tolist()[:20]}, "
                f"{name!r} has {list(named[name].classes_)[:20]}."
            )
    return classes
