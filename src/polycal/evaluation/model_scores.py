"""What one model says of all rows, and the figures of any sample of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.reading import ROUNDING
from ..estimators.base import BaseCalibrator
from ..metrics.input import check_probabilities, check_scores
from .result import INSIDE

# Probability below which log-loss is cut, for every model alike.
SMALLEST = 1e-15
TPR = 0.95


@dataclass(frozen=True)
class ModelScores:
    """What one model says of all rows, reduced to a loss for each row."""

    name: str
    proba: NDArray
    losses: NDArray  # (n_samples, 3 or 4): error, log-loss, Brier, trusted
    confidence: NDArray
    scores: NDArray  # sorted
    order: NDArray
    outside: dict[str, tuple[NDArray, NDArray, NDArray]]  # losses, left and right place, score
    gated: bool  # whether it says which rows it trusts

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
    ) -> ModelScores:
        P, scores, trusted = _predict(name, model, X, len(classes))
        if len(P) != len(codes):
            raise ValueError(f"X has {len(P)} rows and y {len(codes)} labels; give one for each.")
        own = P[np.arange(len(codes)), codes]
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
        for rows, X_out in outside.items():
            Q, out, trusted_out = _predict(name, model, X_out, len(classes))
            top = Q.max(axis=1)
            distance = np.abs(top - prior.max())
            places = [np.searchsorted(scores, out, side=side) for side in ("left", "right")]
            losses_out = np.column_stack([distance, top, *trusted_out])
            found[rows] = (losses_out, np.stack(places), out)
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

    def values(self, weight: NDArray, out_counts: Mapping[str, NDArray | None]) -> list[float]:
        """Every figure of a sample in which row i has the weight weight[i]."""
        n = weight.sum()
        wrong = weight * self.losses[:, 0]
        total = wrong.sum()
        found = [*(weight @ self.losses / n)]
        found.append(wrong @ self.confidence / total if total else np.nan)
        below = np.concatenate([[0.0], np.cumsum(weight[self.order])])
        # The highest threshold that keeps the wanted share of the rows in distribution.
        kept = np.searchsorted(below, n * (1 - TPR * (1 - ROUNDING)), side="right") - 1
        threshold = self.scores[kept]
        for rows, (losses, places, out) in self.outside.items():
            times = out_counts[rows]
            times = np.ones(len(out)) if times is None else times
            m = times.sum()
            ahead = 1.0 - 0.5 * below[places].sum(axis=0) / n  # a tie weight half
            found += [*(times @ losses / m), times @ ahead / m, times @ (out >= threshold) / m]
        return [float(v) for v in found]


def _predict(
    name: str, model: Any, X: Any, n_classes: int
) -> tuple[NDArray, NDArray, list[NDArray]]:
    """Probabilities, how much in distribution each row is, and whether the model trusts it."""
    log_f = None
    if _is_plain(model):  # one look for all three
        log_f, log_posterior = model._answers(X)
        answer = model._mixture(log_f, log_posterior)
    else:
        answer = model.predict_proba(X)
    P = check_probabilities(answer, f"predict_proba of {name!r}")
    if P.shape[1] != n_classes:
        raise ValueError(
            f"predict_proba of {name!r} must have {n_classes} columns, one for each class; got "
            f"{P.shape[1]}. Give a fitted classifier."
        )
    if log_f is not None:
        scores = check_scores(log_f, f"score_samples of {name!r}")
        return P, scores, [model._gate.alpha(scores) > 0.5]
    scores = P.max(axis=1)
    if hasattr(model, "score_samples"):
        scores = check_scores(model.score_samples(X), f"score_samples of {name!r}")
    if hasattr(model, "in_distribution"):
        return P, scores, [np.asarray(model.in_distribution(X)) > 0.5]
    return P, scores, []


def _is_plain(model: Any) -> bool:
    """Whether one look gives what the public methods would: none was put in their place."""
    return isinstance(model, BaseCalibrator) and all(
        getattr(type(model), name) is getattr(BaseCalibrator, name) and name not in vars(model)
        for name in ("predict_proba", "score_samples", "in_distribution")
    )
