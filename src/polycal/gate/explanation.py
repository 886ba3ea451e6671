"""Why a row is in distribution or not: its verdict, its nearest polytope, its surprises."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from .._utils.optional import optional
from .._utils.validation import count
from ..core.density import Density
from ..core.table import Table
from .gate import CalibrationScores

INSIDE, EDGE, OUTSIDE = "in distribution", "edge", "out"
# A row is at the edge where this many times the false alarms of "out" are allowed.
EDGE_ALARMS = 5


@dataclass(frozen=True)
class Explanation:
    """What ``explain`` found, row by row.

    Attributes
    ----------
    verdict : ndarray of str, shape (n_samples,)
        "out" below the score that at most ``levels[0]`` of new in-distribution rows fall below,
        "edge" below the one for ``levels[1]``, otherwise "in distribution".
    levels : tuple of float
        ``false_alarm`` of the model, and five times as much (at most 1/2).
    thresholds : tuple of float
        The two scores, in the units of ``score_samples``.
    score : ndarray of shape (n_samples,)
        log f, as ``score_samples`` gives it.
    p_value : ndarray of shape (n_samples,)
        Share of in-distribution rows that are no more familiar than this one.
    weight : ndarray of shape (n_samples,)
        The trust weight alpha, as ``in_distribution`` gives it.
    similarity : ndarray of shape (n_samples,)
        K to the nearest polytope; 0 where it shares no leaf or path with any.
    polytope : ndarray of shape (n_samples,)
        Index of the nearest polytope, into ``polytopes_``.
    counts : ndarray of shape (n_samples, n_classes)
        Weight of each class among its training rows.
    rows : list of ndarray
        Its training rows, as places in the X of ``fit``; with a DataLoader, in the order in
        which it gave them, so that one that shuffles gives places that cannot be looked up.
    surprise : ndarray of shape (n_samples, n_features)
        Minus the term of each feature in the log density of the nearest polytope, over that
        of the most usual value: half a squared distance in bandwidths for a number, the log
        of a ratio of shares for a category. 0 is no surprise; a row sums to minus the log of
        the polytope's kernel.
    features : list of str
        Name of each feature, as the classifier itself sees them.
    """

    verdict: NDArray
    levels: tuple[float, float]
    thresholds: tuple[float, float]
    score: NDArray
    p_value: NDArray
    weight: NDArray
    similarity: NDArray
    polytope: NDArray
    counts: NDArray
    rows: list[NDArray]
    surprise: NDArray
    features: list[str]

    @classmethod
    def judge(
        cls, log_f: NDArray, familiar: CalibrationScores, false_alarm: float, **parts: Any
    ) -> Self:
        """Thresholds from the calibration rows, and the verdict of each row by them."""
        levels = (false_alarm, max(false_alarm, min(EDGE_ALARMS * false_alarm, 0.5)))
        thresholds = (familiar.floor(levels[0]), familiar.floor(levels[1]))
        # -inf is out, whatever the floor: nothing in the training data agrees with the row.
        outside = (log_f < thresholds[0]) | np.isneginf(log_f)
        verdict = np.where(outside, OUTSIDE, np.where(log_f < thresholds[1], EDGE, INSIDE))
        return cls(
            verdict=verdict,
            levels=levels,
            thresholds=thresholds,
            score=log_f,
            p_value=familiar.p_value(log_f),
            **parts,
        )

    def __len__(self) -> int:
        return len(self.verdict)

    def top_features(self, k: int = 3) -> tuple[NDArray, NDArray]:
        """Names and surprises of the k most surprising features of each row, largest first."""
        count(k=k)
        order = np.argsort(-self.surprise, axis=1, kind="stable")[:, :k]
        names = np.array(self.features, dtype=object)[order]
        return names, np.take_along_axis(self.surprise, order, axis=1)

    def to_frame(self, n_features: int = 3) -> Any:
        """A pandas frame, one line for each row, with its most surprising features."""
        pandas = optional("pandas", "frame")
        columns: dict[str, Any] = {
            "verdict": self.verdict,
            "weight": self.weight,
            "p_value": self.p_value,
            "score": self.score,
            "similarity": self.similarity,
            "polytope": self.polytope,
            "counts": self.counts.tolist(),
            "rows": [rows.tolist() for rows in self.rows],
        }
        names, surprise = self.top_features(n_features)
        for j in range(names.shape[1]):
            columns |= {f"feature_{j + 1}": names[:, j], f"surprise_{j + 1}": surprise[:, j]}
        return pandas.DataFrame(columns)


def surprises(X: NDArray, polytope: NDArray, density: Density, table: Table) -> NDArray:
    """Minus each column's term in the log kernel of one polytope, shape (n_samples, n_columns).

    A number that was missing somewhere in the fit has two terms: its distance and whether it is
    missing.
    """
    n_numbers = density.mean.shape[1]
    z = X[:, :n_numbers] - density.mean[polytope]
    with np.errstate(over="ignore"):
        terms = 0.5 * z * z * density.precision_of(polytope)
    found = np.zeros((len(X), len(table.numbers) + len(table.categories)))
    found[:, table.numbers] = np.where(np.isnan(z), 0.0 - density.log_missing, terms)
    column = np.concatenate([table.categories, table.numbers[table.sometimes]])
    for c, j in enumerate(column):
        level = density.start[c] + X[:, n_numbers + c].astype(np.int64)
        found[:, j] -= density.log_share[polytope, level]
    return found
