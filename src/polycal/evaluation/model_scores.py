"""Predictions of one model for all rows, and the figures of any weighted sample of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from .._utils.arrays import Bools, Floats, Ints
from .._utils.significance import WEIGHT_ROUNDING
from ..calibration.fitted_model import Answer
from ..calibration.query_guards import warn_of_seen_rows
from ..estimators import BaseCalibrator
from ..metrics.input import check_probabilities, check_scores
from .result import INSIDE

# Probability below which log-loss is cut, for every model alike.
SMALLEST = 1e-15
TPR = 0.95


class Predictions(NamedTuple):
    """Predictions of one model for some rows."""

    proba: Floats
    scores: Floats  # of each row; higher is more in distribution
    trusted: Bools | None  # whether alpha > 1/2; None where the model has no such weight


@dataclass(frozen=True)
class ModelScores:
    """Predictions of one model for all rows, as losses of each row."""

    name: str
    proba: Floats
    losses: Floats  # (n_samples, 3 or 4): error, log-loss, Brier, trusted
    confidence: Floats
    scores: Floats  # sorted
    order: Ints  # of the rows by score
    outside: dict[str, tuple[Floats, Ints, Floats]]  # losses, ranks (left, right), score
    gated: bool  # whether the model has a trust weight

    @classmethod
    def from_predictions(
        cls,
        name: str,
        inside: Predictions,
        codes: Ints,
        outside: Mapping[str, Predictions],
        prior: Floats,
    ) -> ModelScores:
        """Losses of the rows in distribution, and of each set of rows outside."""
        P, scores = inside.proba, inside.scores
        if len(P) != len(codes):
            raise ValueError(f"X has {len(P)} rows and y {len(codes)} labels; give one for each.")
        own = P[np.arange(len(codes)), codes]
        trusted = [] if inside.trusted is None else [inside.trusted]
        losses = np.column_stack(
            [
                P.argmax(axis=1) != codes,
                -np.log(np.maximum(own, SMALLEST)),
                (P**2).sum(axis=1) - 2 * own + 1,
                *trusted,
            ]
        )
        order = np.argsort(scores)
        scores = scores[order]
        found = {}
        for rows, (Q, out, trusted_out) in outside.items():
            top = Q.max(axis=1)
            distance = np.abs(top - prior.max())
            ranks = [np.searchsorted(scores, out, side=side) for side in ("left", "right")]
            more = [] if trusted_out is None else [trusted_out]
            found[rows] = (np.column_stack([distance, top, *more]), np.stack(ranks), out)
        return cls(name, P, losses, P.max(axis=1), scores, order, found, bool(trusted))

    @property
    def keys(self) -> list[tuple[str, str]]:
        trusted = ["trusted"] if self.gated else []
        inside = ["error", "log_loss", "brier", *trusted, "confidence_on_errors"]
        away = ["oce", "confidence", *trusted, "auroc", "fpr95"]
        return [(INSIDE, m) for m in inside] + [(r, m) for r in self.outside for m in away]

    @property
    def n_outside(self) -> dict[str, int]:
        return {rows: len(parts[2]) for rows, parts in self.outside.items()}

    def values(self, weight: Floats, out_counts: Mapping[str, Floats | None]) -> list[float]:
        """Every figure of a sample in which row i has the weight weight[i]."""
        n = weight.sum()
        wrong = weight * self.losses[:, 0]
        total = wrong.sum()
        found = [*(weight @ self.losses / n)]
        found.append(wrong @ self.confidence / total if total else np.nan)
        below = np.concatenate([[0.0], np.cumsum(weight[self.order])])
        # The highest threshold that keeps a share TPR of the rows in distribution.
        kept = np.searchsorted(below, n * (1 - TPR * (1 - WEIGHT_ROUNDING)), side="right") - 1
        threshold = self.scores[kept]
        for rows, (losses, ranks, out) in self.outside.items():
            times = out_counts[rows]
            times = np.ones(len(out)) if times is None else times
            m = times.sum()
            ahead = 1.0 - 0.5 * below[ranks].sum(axis=0) / n  # a tie counts half
            found += [*(times @ losses / m), times @ ahead / m, times @ (out >= threshold) / m]
        return [float(v) for v in found]


def predictions(
    name: str, model: Any, X: Any, n_classes: int, as_test: bool = False
) -> Predictions:
    """Ask a classifier about some rows; a polycal model once for everything."""
    answer = ask(model, X, as_test) if isinstance(model, BaseCalibrator) else None
    proba = model.predict_proba(X) if answer is None else answer.probabilities
    P = check_probabilities(proba, f"predict_proba of {name!r}")
    if P.shape[1] != n_classes:
        raise ValueError(
            f"predict_proba of {name!r} must have {n_classes} columns, one for each class; got "
            f"{P.shape[1]}. Give a fitted classifier."
        )
    if answer is not None:
        return from_answer(name, answer)
    scores = P.max(axis=1)
    if hasattr(model, "score_samples"):
        scores = check_scores(model.score_samples(X), f"score_samples of {name!r}")
    if hasattr(model, "in_distribution"):
        return Predictions(P, scores, np.asarray(model.in_distribution(X)) > 0.5)
    return Predictions(P, scores, None)


def ask(model: BaseCalibrator, X: Any, as_test: bool = False) -> Answer:
    """The answer of a polycal model, with what its methods say where a subclass overrides them.

    ``as_test`` rows should be new to the model; a warning says if they are not.
    """
    answer = model.answer(X)
    if as_test:
        warn_of_seen_rows(model.model_, answer)
    if _is_plain(model):
        return answer
    return replace(
        answer,
        probabilities=np.asarray(model.predict_proba(X)),
        log_f=np.asarray(model.score_samples(X)),
        alpha=np.asarray(model.in_distribution(X)),
    )


def from_answer(name: str, answer: Answer) -> Predictions:
    """Predictions of a polycal model, from its answer."""
    P = check_probabilities(answer.probabilities, f"predict_proba of {name!r}")
    scores = check_scores(answer.log_f, f"score_samples of {name!r}")
    return Predictions(P, scores, answer.alpha > 0.5)


def of_parent(name: str, answer: Answer) -> Predictions:
    """Predictions of the parent of a polycal model, from an answer of the model."""
    P = check_probabilities(answer.reading.proba, f"predict_proba of {name!r}")
    return Predictions(P, P.max(axis=1), None)


def _is_plain(model: BaseCalibrator) -> bool:
    """Whether ``answer`` gives what the public methods would: none of them is overridden."""
    return all(
        getattr(type(model), name) is getattr(BaseCalibrator, name) and name not in vars(model)
        for name in ("predict_proba", "score_samples", "in_distribution")
    )
