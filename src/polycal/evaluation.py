"""One call that says how far each of several models can be believed, and where."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

from . import _validation, metrics
from ._optional import optional
from .metrics._input import check_probabilities

INSIDE = "in distribution"
# Probability below which log-loss is cut, for every model alike.
SMALLEST = 1e-15
TPR = 0.95
#: What each metric is called in a table, in the order of its columns.
TITLES = {
    "error": "error",
    "ece": "ECE",
    "ece_debiased": "ECE, debiased",
    "log_loss": "log-loss",
    "brier": "Brier",
    "confidence_on_errors": "confidence on errors",
    "oce": "OCE",
    "confidence": "confidence",
    "auroc": "AUROC",
    "fpr95": "FPR at 95 % TPR",
}


class Figure(NamedTuple):
    """One number, with its confidence interval."""

    model: str
    rows: str  # "in distribution", or the name of the OOD rows
    metric: str
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Evaluation:
    """Figures of several models: a tidy list, with a table and a picture.

    Attributes
    ----------
    figures : list of Figure
        One for each model, set of rows and metric.
    level : float
        Of the intervals.
    """

    figures: list[Figure]
    level: float

    def to_frame(self) -> Any:
        """The figures as a tidy pandas frame, one row each."""
        pandas = optional("pandas", "frame")
        return pandas.DataFrame(self.figures, columns=Figure._fields)

    def to_markdown(self, digits: int = 3) -> str:
        """A Markdown table for each set of rows, a line for each model, intervals in brackets."""
        parts = []
        for rows in dict.fromkeys(f.rows for f in self.figures):
            here = [f for f in self.figures if f.rows == rows]
            columns = list(dict.fromkeys(f.metric for f in here))
            cells = {(f.model, f.metric): _cell(f, digits) for f in here}
            lines = [f"| {rows} | " + " | ".join(TITLES[c] for c in columns) + " |"]
            lines.append("|---" * (len(columns) + 1) + "|")
            for model in dict.fromkeys(f.model for f in here):
                lines.append(f"| {model} | " + " | ".join(cells[model, c] for c in columns) + " |")
            parts.append("\n".join(lines))
        return "\n\n".join(parts) + "\n"

    def plot(self, metrics: list[str] | None = None) -> Any:
        """Points with intervals, a panel for each metric and set of rows; returns the figure."""
        pyplot = optional("matplotlib.pyplot", "plot")
        panels = list(dict.fromkeys((f.rows, f.metric) for f in self.figures))
        panels = [p for p in panels if metrics is None or p[1] in metrics]
        if not panels:
            raise ValueError(f"metrics must name some of {list(TITLES)}; got {metrics!r}.")
        models = list(dict.fromkeys(f.model for f in self.figures))
        n_columns = min(len(panels), 4)
        n_lines = -(-len(panels) // n_columns)
        size = (1.2 + 2.6 * n_columns, n_lines * (1.1 + 0.32 * len(models)))
        figure, axes = pyplot.subplots(
            n_lines, n_columns, figsize=size, sharey=True, squeeze=False, layout="constrained"
        )
        for ax, (rows, metric) in zip(axes.flat, panels, strict=False):
            here = [f for f in self.figures if (f.rows, f.metric) == (rows, metric)]
            place = [models.index(f.model) for f in here]
            value = np.array([f.value for f in here])
            spread = np.array([[f.value - f.low, f.high - f.value] for f in here]).T
            ax.errorbar(value, place, xerr=np.maximum(spread, 0), fmt="o", color="#0072B2")
            where = "" if rows == INSIDE else f", {rows}"
            ax.set_title(f"{TITLES[metric]}{where}", fontsize=9)
            ax.set_yticks(range(len(models)), models)
            ax.set_ylim(len(models) - 0.5, -0.5)
            ax.grid(axis="x", alpha=0.3)
            ax.locator_params(axis="x", nbins=4)
            ax.tick_params(labelsize=8)
        for ax in axes.flat[len(panels) :]:
            ax.set_visible(False)
        return figure


def evaluate(
    models: Any,
    X: Any,
    y: ArrayLike,
    *,
    ood: Any = None,
    priors: ArrayLike | None = None,
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
        Out-of-distribution rows.
    priors : array-like of shape (n_classes,), default=None
        True class priors, which OCE is measured against. None: the class shares of y.
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
        ``score_samples`` (of the highest probability where a model has no such method).

    Notes
    -----
    Intervals are quantiles over bootstrap samples of the rows, the same samples for every model,
    but for the ECE, whose interval is that of ``metrics.calibration_error_interval``.

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
    _validation.share(level=level)
    _validation.count(n_rounds=n_rounds, n_bins=n_bins)
    named, outside = _name_models(models), _name_rows(ood)
    classes = _shared_classes(named)
    codes = _validation.class_columns(y, classes)
    prior = np.bincount(codes, minlength=len(classes)) / len(codes)
    if priors is not None:
        prior = _validation.check_prior(priors, classes)
    rng = np.random.default_rng(check_random_state(random_state).randint(2**31))
    looks = [
        _Look.at(name, model, X, codes, outside, prior, classes) for name, model in named.items()
    ]
    plain = [look.values(np.ones(len(codes)), dict.fromkeys(outside)) for look in looks]
    drawn: list[list[list[float]]] = [[] for _ in looks]
    for counts, out_counts in _samples(len(codes), looks[0].n_outside, n_rounds, rng):
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
            codes, look.proba, n_bins, level=level, n_rounds=n_rounds, random_state=seed
        )
        found[INSIDE, "ece"] = (ece.value, ece.low, ece.high)
        found[INSIDE, "ece_debiased"] = (ece.debiased, ece.low, ece.high)
        order = list(TITLES)
        for rows in (INSIDE, *outside):
            mine = sorted((m for r, m in found if r == rows), key=order.index)
            figures += [Figure(look.name, rows, m, *map(float, found[rows, m])) for m in mine]
    return Evaluation(figures, level)


@dataclass(frozen=True)
class _Look:
    """What one model says of all rows, reduced to a loss for each row."""

    name: str
    proba: NDArray
    losses: NDArray  # (n_samples, 3): error, log-loss, Brier
    confidence: NDArray
    scores: NDArray  # sorted
    order: NDArray
    outside: dict[str, tuple[NDArray, NDArray, NDArray]]  # losses, left and right place, score

    @classmethod
    def at(
        cls,
        name: str,
        model: Any,
        X: Any,
        codes: NDArray,
        outside: dict[str, Any],
        prior: NDArray,
        classes: NDArray,
    ) -> _Look:
        P, scores = _predict(name, model, X, len(classes))
        if len(P) != len(codes):
            raise ValueError(f"X has {len(P)} rows and y {len(codes)} labels; give one for each.")
        own = P[np.arange(len(codes)), codes]
        losses = np.column_stack(
            [
                P.argmax(axis=1) != codes,
                -np.log(np.maximum(own, SMALLEST)),
                (P**2).sum(axis=1) - 2 * own + 1,
            ]
        )
        order = np.argsort(scores)
        scores = scores[order]
        found = {}
        for rows, X_out in outside.items():
            Q, out = _predict(name, model, X_out, len(classes))
            top = Q.max(axis=1)
            distance = np.abs(top - prior.max())
            places = [np.searchsorted(scores, out, side=side) for side in ("left", "right")]
            found[rows] = (np.column_stack([distance, top]), np.stack(places), out)
        return cls(name, P, losses, P.max(axis=1), scores, order, found)

    @property
    def keys(self) -> list[tuple[str, str]]:
        inside = ["error", "log_loss", "brier", "confidence_on_errors"]
        away = ["oce", "confidence", "auroc", "fpr95"]
        return [(INSIDE, m) for m in inside] + [(r, m) for r in self.outside for m in away]

    @property
    def n_outside(self) -> dict[str, int]:
        return {rows: len(parts[2]) for rows, parts in self.outside.items()}

    def values(self, counts: NDArray, out_counts: Mapping[str, NDArray | None]) -> list[float]:
        """Every figure of a sample in which row i comes counts[i] times."""
        n = counts.sum()
        wrong = counts * self.losses[:, 0]
        total = wrong.sum()
        found = [*(counts @ self.losses / n)]
        found.append(wrong @ self.confidence / total if total else np.nan)
        below = np.concatenate([[0.0], np.cumsum(counts[self.order])])
        # The highest threshold that keeps the wanted share of the rows in distribution.
        kept = np.searchsorted(below, (1 - TPR) * n * (1 + 1e-12), side="right") - 1
        threshold = self.scores[min(kept, len(self.scores) - 1)]
        for rows, (losses, places, out) in self.outside.items():
            times = out_counts[rows]
            times = np.ones(len(out)) if times is None else times
            m = times.sum()
            ahead = 1.0 - 0.5 * below[places].sum(axis=0) / n  # a tie counts half
            found += [*(times @ losses / m), times @ ahead / m, times @ (out >= threshold) / m]
        return [float(v) for v in found]


def _samples(
    n: int, n_outside: dict[str, int], n_rounds: int, rng: np.random.Generator
) -> Iterator[tuple[NDArray, dict[str, NDArray]]]:
    """How often each row comes in each bootstrap sample."""

    def draw(size: int) -> NDArray:
        return np.bincount(rng.integers(size, size=size), minlength=size).astype(float)

    for _ in range(n_rounds):
        yield draw(n), {rows: draw(size) for rows, size in n_outside.items()}


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
        if hasattr(rows, "__len__") and len(rows) == 0:
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


def _predict(name: str, model: Any, X: Any, n_classes: int) -> tuple[NDArray, NDArray]:
    """Probabilities, and how much in distribution each row is."""
    P = check_probabilities(model.predict_proba(X), f"predict_proba of {name!r}")
    if P.shape[1] != n_classes:
        raise ValueError(
            f"predict_proba of {name!r} must have {n_classes} columns, one for each class; got "
            f"{P.shape[1]}. Give a fitted classifier."
        )
    scores = model.score_samples(X) if hasattr(model, "score_samples") else P.max(axis=1)
    return P, np.asarray(scores, dtype=float)


def _cell(figure: Figure, digits: int) -> str:
    if np.isnan(figure.value):
        return "none"
    return f"{figure.value:.{digits}f} ({figure.low:.{digits}f} to {figure.high:.{digits}f})"
