"""The numbers of a report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._utils import validation
from .._utils.arrays import Floats, Ints
from .._utils.labels import class_columns
from .._utils.significance import n_effective
from .._utils.sklearn_compat import take_rows
from ..calibration.fitted_model import Answer
from ..core.execution import Execution
from ..core.table import find_categories, number_columns, number_values
from ..estimators import BaseCalibrator, model_facts, parent_name
from ..evaluation import INSIDE, Evaluation, ask, compare_with_parent, name_rows
from ..gate.explanation import Explanation
from ..plotting import DistanceDisplay, ReliabilityDisplay, TrustDisplay
from ..simulations import sample_sphere
from .classes import ClassReport
from .values import ShownValues

OOD = "OOD"
RADII = np.linspace(0, 5, 26)
POINTS = 100  # at each distance
BINS = 10
NEIGHBOURS = 5  # polytopes shown for a row
FEATURES = 5  # most surprising ones shown for a row
IDS = 10  # training rows named for a polytope
# Share of the rows that are called least trusted, and their smallest number.
LEAST, AT_LEAST = 0.05, 10


@dataclass(frozen=True)
class RowSet:
    """One set of rows, with the predictions of the model for them."""

    name: str
    proba: Floats
    parent: Floats
    why: Explanation
    detail: list[dict[str, Any]]  # of the rows in the table of the page

    def least_trusted(self) -> Ints:
        n = min(len(self.why), max(AT_LEAST, round(LEAST * len(self.why))))
        return np.argsort(self.why.score, kind="stable")[:n]


@dataclass(frozen=True)
class Findings:
    """Everything that the page shows."""

    name: str
    facts: dict[str, str]
    classes: list[str]
    priors: Floats
    n_calibration: float  # effective number of calibration rows
    evaluation: Evaluation
    reliability: dict[str, ReliabilityDisplay]
    bias: float  # mean confidence less accuracy
    distance: DistanceDisplay | str  # or the reason why there is none
    trust: TrustDisplay | None
    sets: list[RowSet]
    by_class: ClassReport

    @classmethod
    def of(
        cls, model: BaseCalibrator, X: Any, y: ArrayLike, X_ood: Any, max_rows: int, seed: int
    ) -> Findings:
        codes = class_columns(y, model.classes_)
        named = name_rows(None if X_ood is None else {OOD: X_ood})
        outside = {name: ask(model, rows) for name, rows in named.items()}
        answer = ask(model, X, as_test=True)
        prior = validation.check_prior(model.priors_, model.classes_)
        evaluation = compare_with_parent(answer, codes, outside, prior, seed)
        rng = np.random.default_rng(seed)
        sets = [_describe_rows(model, "test", answer, X, codes, max_rows, rng)]
        if X_ood is not None:
            sets.append(_describe_rows(model, OOD, outside[OOD], X_ood, None, max_rows, rng))
        P = sets[0].proba
        right = (P.argmax(axis=1) == codes).mean()
        return cls(
            name=f"{type(model).__name__} on {parent_name(model)}",
            facts=model_facts(model),
            classes=[str(c) for c in model.classes_],
            priors=model.priors_,
            n_calibration=n_effective(model.model_.scores.weight),
            evaluation=evaluation,
            reliability={
                "polycal": ReliabilityDisplay.from_predictions(codes, P, n_bins=BINS),
                "parent": ReliabilityDisplay.from_predictions(codes, sets[0].parent, n_bins=BINS),
            },
            bias=float(P.max(axis=1).mean() - right),
            distance=_distance(X, model, seed),
            trust=None
            if X_ood is None
            else TrustDisplay.from_predictions(sets[0].why.weight, sets[1].why.weight, n_bins=BINS),
            sets=sets,
            by_class=ClassReport.of(codes, answer.most_probable, P, sets[0].parent),
        )

    def figure(self, model: str, metric: str, rows: str = INSIDE) -> tuple[float, float, float]:
        """Value and interval."""
        for f in self.evaluation.figures:
            if (f.model, f.metric, f.rows) == (model, metric, rows):
                return f.value, f.low, f.high
        raise KeyError((model, metric, rows))


def _describe_rows(
    model: BaseCalibrator,
    name: str,
    answer: Answer,
    X: Any,
    codes: Ints | None,
    max_rows: int,
    rng: np.random.Generator,
) -> RowSet:
    proba, why, guess = answer.probabilities, model.explain_answer(answer), answer.most_probable
    order = np.argsort(why.score, kind="stable")
    if len(order) > max_rows:
        rest = order[max_rows // 2 :]
        order = np.r_[
            order[: max_rows // 2], rng.choice(rest, max_rows - max_rows // 2, replace=False)
        ]
    chosen = np.sort(order)
    few, reading = answer.take(chosen), answer.reading
    index, similarity = model.model_.polytopes_shown(few, NEIGHBOURS, Execution(model.n_jobs))
    members = model.model_.reference.members(index)
    given = take_rows(X, chosen) if hasattr(X, "columns") else None
    show = ShownValues(model, few.reading.features, given, why.features)
    detail = []
    for i, row in enumerate(chosen):
        top = np.argsort(-why.surprise[row], kind="stable")[:FEATURES]
        detail.append(
            {
                "row": int(row),
                "label": None if codes is None else int(codes[row]),
                "prediction": int(guess[row]),
                "proba": _rounded(proba[row]),
                "parent": _rounded(reading.proba[row]),
                "weight": _short(why.weight[row]),
                "p": _short(why.p_value[row]),
                "verdict": str(why.verdict[row]),
                "features": [
                    {
                        "name": why.features[j],
                        "value": show.value(i, j),
                        "usual": show.usual(why.polytope[row], j),
                        "surprise": _short(why.surprise[row, j]),
                    }
                    for j in top
                ],
                "near": [
                    {
                        "similarity": _short(similarity[i, n]),
                        "counts": _rounded(model.polytopes_.counts[r]),
                        "rows": members[r][:IDS].tolist(),
                        "more": max(0, len(members[r]) - IDS),
                        "values": [show.center(r, j) for j in top],
                    }
                    for n, r in enumerate(index[i])
                ],
            }
        )
    return RowSet(name, proba, reading.proba, why, detail)


def _distance(X: Any, model: BaseCalibrator, seed: int) -> DistanceDisplay | str:
    """Confidence on spheres around the data, in units of its own spread.

    The numbers are those of the sphere; categories and other columns are those of random rows.
    """
    if isinstance(X, (list, tuple)):
        X = np.asarray(X)
    if hasattr(X, "detach"):  # a tensor
        short = X.is_floating_point() and X.element_size() < 4  # bfloat16 is no type of numpy
        X = np.asarray(X.detach().cpu().float() if short else X.detach().cpu())
    if not hasattr(X, "columns") and not (isinstance(X, np.ndarray) and X.ndim == 2):
        return "The rows are no dense table, so there are no columns to move."
    # With a Pipeline, categorical_features names columns of the input of its last step.
    raw = model.model_.parent.raw_input
    categories = find_categories(X, "from_dtype" if raw else model.categorical_features)
    columns = number_columns(X, categories)
    if not len(columns):
        return "The rows have no column of numbers to move."
    values = number_values(X, columns)
    known = ~np.isnan(values).all(axis=0)
    columns, values = columns[known], values[:, known]
    center, scale = np.nanmean(values, axis=0), np.nanstd(values, axis=0)
    if not scale.any():
        return "All rows have the same numbers, so there is no scale to move them by."
    scale = np.where(scale > 0, scale, scale.mean())
    end = np.sqrt(np.nansum(((values - center) / scale) ** 2, axis=1)).max()
    rng = np.random.RandomState(seed)
    spheres = [sample_sphere(POINTS, len(columns), r * end, random_state=rng) for r in RADII]
    points = center + scale * np.concatenate(spheres)
    moved = _moved(X, columns, points, rng.randint(len(values), size=len(points)))
    try:
        answer = ask(model, moved)
    except Exception as error:  # for example of an encoder; each library has its own type
        return f"The model refuses rows with other numbers: {error}"
    tables = {"polycal": answer.probabilities, "parent": answer.reading.proba}
    return DistanceDisplay.from_predictions(
        np.repeat(RADII, POINTS), tables, prior=model.priors_, data_end=1.0
    )


def _moved(X: Any, columns: Ints, points: Floats, picked: Ints) -> Any:
    """Rows of X with other numbers in some columns."""
    if not hasattr(X, "columns"):
        # A network may take only float32.
        rows = X[picked].astype(X.dtype if X.dtype.kind == "f" else float)
        rows[:, columns] = points
        return rows
    moved = {X.columns[j]: points[:, k] for k, j in enumerate(columns)}
    if not hasattr(X, "iloc"):  # polars
        series = type(X[X.columns[0]])
        return X[picked].with_columns([series(name, v) for name, v in moved.items()])
    rows = X.iloc[picked].reset_index(drop=True)
    for name, values in moved.items():
        rows[name] = values
    return rows


def _short(value: float) -> float | None:
    """Four digits; None for NaN and infinity, which JSON does not have."""
    return float(f"{value:.4g}") if np.isfinite(value) else None


def _rounded(values: Floats) -> list[float]:
    return [round(float(v), 4) for v in values]
