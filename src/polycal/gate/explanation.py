"""Why a row is in distribution or not: verdict, nearest polytope, surprise of each feature."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from html import escape
from typing import Any, Self

import numpy as np

from .._utils.arrays import Array, Floats, Ints
from .._utils.optional import optional
from .._utils.tables import LINE, html_table, text_table
from .._utils.validation import count
from ..core.density import Density
from ..core.table import Table
from .floor import CalibrationScores

INSIDE, EDGE, OUTSIDE = "in distribution", "edge", "out"
# Level of "edge", as a multiple of the level of "out".
EDGE_ALARMS = 5
# The printed table: its rows at most, the features named in a row, and its columns.
ROWS_SHOWN, TOP_SHOWN = 10, 2
SHOWN = ("row", "verdict", "trust", "p-value", "most surprising features")


@dataclass(frozen=True, repr=False)
class Explanation:
    """Result of ``explain``: why each row is, or is not, in distribution.

    Parameters
    ----------
    verdict : ndarray of str, shape (n_samples,)
        "out" for a score below ``thresholds[0]``, "edge" for one below ``thresholds[1]``,
        otherwise "in distribution".
    levels : tuple of float
        ``false_alarm`` of the model, and five times as much (at most 1/2).
    guarantee : str
        What is promised about the share of new in-distribution rows that are called "out".
    thresholds : tuple of float
        The scores that at most these two shares of new in-distribution rows, and of those of each
        class that has a bound of its own, fall below.
    score : ndarray of shape (n_samples,)
        The score log f of each row, as ``score_samples`` returns it.
    p_value : ndarray of shape (n_samples,)
        Share of in-distribution rows whose score is no higher.
    weight : ndarray of shape (n_samples,)
        The trust weight alpha, as ``in_distribution`` returns it.
    similarity : ndarray of shape (n_samples,)
        Kernel K between the row and its nearest polytope; 0 where the row has no leaf or
        activation path in common with any polytope.
    polytope : ndarray of shape (n_samples,)
        Index of the nearest polytope, into ``polytopes_``.
    counts : ndarray of shape (n_samples, n_classes)
        Weight of each class among the training rows of that polytope.
    rows : list of ndarray
        Training rows of that polytope, as row numbers of X in ``fit``. With a DataLoader, rows are
        numbered in the order in which it yielded them in ``fit``; if it shuffles, the numbers
        cannot be traced back to rows.
    surprise : ndarray of shape (n_samples, n_features)
        How unusual each feature is for that polytope: the log density at the most usual value
        minus that at the value of the row. This is half a squared distance in bandwidths for a
        number, and the log of a ratio of shares for a category. 0 is the most usual value; the
        sum over the features is minus the log of the polytope's kernel.
    features : list of str
        Name of each feature of the table that the classifier gets (with a Pipeline, that of its
        last step).
    witnesses : list of str
        Who is heard in the posterior: "parent", its own probabilities; "kernel", the labels of
        rows that it treats alike; "hyperplanes", those of rows on the same side of random
        hyperplanes.
    favoured : ndarray of shape (n_samples, 2)
        The two classes of highest posterior, as places in ``classes_``.
    odds : ndarray of shape (n_samples, n_witnesses)
        What each witness adds to the log odds of the first of them against the second. A witness
        with a negative number speaks for the second. The offsets of the classes, the confidence
        levels and a change of the prior make up the rest of the log odds.
    index : sequence or None
        Labels of the rows, where X was a pandas frame; otherwise None, and rows are numbered.
    """

    verdict: Array
    levels: tuple[float, float]
    guarantee: str
    thresholds: tuple[float, float]
    score: Floats
    p_value: Floats
    weight: Floats
    similarity: Floats
    polytope: Ints
    counts: Floats
    rows: list[Ints]
    surprise: Floats
    features: list[str]
    witnesses: list[str]
    favoured: Ints
    odds: Floats
    index: Any = None

    @classmethod
    def judge(
        cls, log_f: Floats, scores: CalibrationScores, false_alarm: float, **parts: Any
    ) -> Self:
        """Make an explanation, with thresholds and verdicts from the calibration scores.

        Parameters
        ----------
        log_f : ndarray of shape (n_samples,)
            Score of each row.
        scores : CalibrationScores
            Scores of the calibration rows.
        false_alarm : float
            Share of new in-distribution rows that may be called "out".
        **parts : dict
            The other fields.

        Returns
        -------
        Explanation
            All fields together.
        """
        levels = (false_alarm, max(false_alarm, min(EDGE_ALARMS * false_alarm, 0.5)))
        thresholds = (scores.verdict_floor(levels[0]), scores.verdict_floor(levels[1]))
        # -inf is out, whatever the threshold: the row has no symbol in common with any polytope.
        outside, edge = (scores.is_below(log_f, threshold) for threshold in thresholds)
        verdict = np.where(outside, OUTSIDE, np.where(edge, EDGE, INSIDE))
        return cls(
            verdict=verdict,
            levels=levels,
            thresholds=thresholds,
            score=log_f,
            p_value=scores.p_value(log_f),
            **parts,
        )

    def __len__(self) -> int:
        return len(self.verdict)

    def __repr__(self) -> str:
        """A table of the first rows."""
        below = "\n".join(textwrap.wrap(self._below(), LINE))
        return f"{text_table(SHOWN, self._lines())}\n{below}"

    def _repr_html_(self) -> str:
        return f"{html_table(SHOWN, self._lines())}<p>{escape(self._below())}</p>"

    def _lines(self) -> list[list[str]]:
        """Cells of the table of the first rows."""
        names = range(len(self)) if self.index is None else self.index
        features, surprise = self.top_features(TOP_SHOWN)
        return [
            [
                str(names[i]),
                str(self.verdict[i]),
                f"{self.weight[i]:.3f}",
                f"{self.p_value[i]:.4f}",
                ", ".join(
                    f"{name} {value:.3g}"
                    for name, value in zip(features[i], surprise[i], strict=True)
                ),
            ]
            for i in range(min(len(self), ROWS_SHOWN))
        ]

    def _below(self) -> str:
        """What stands below the table: rows that are not shown, and the guarantee."""
        more = len(self) - ROWS_SHOWN
        rest = f"... and {more:,} more rows; to_frame() has them all. " if more > 0 else ""
        return f'{rest}Called "out": {self.guarantee}.'

    def top_features(self, k: int = 3) -> tuple[Array, Array]:
        """Find the k most surprising features of each row.

        Parameters
        ----------
        k : int, default=3
            Number of features; all, if there are fewer.

        Returns
        -------
        names : ndarray of shape (n_samples, k)
            Names of the features, the most surprising first.
        surprise : ndarray of shape (n_samples, k)
            Their surprises.
        """
        count(k=k)
        order = np.argsort(-self.surprise, axis=1, kind="stable")[:, :k]
        names = np.array(self.features, dtype=object)[order]
        return names, np.take_along_axis(self.surprise, order, axis=1)

    def to_frame(self, n_features: int = 3) -> Any:
        """Return the explanation as a pandas frame.

        Parameters
        ----------
        n_features : int, default=3
            Number of most surprising features to include.

        Returns
        -------
        pandas.DataFrame
            One line for each row of the explanation; its index is that of X, where X was a pandas
            frame.
        """
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
        for witness, odds in zip(self.witnesses, self.odds.T, strict=True):
            columns[f"odds_{witness}"] = odds
        for j in range(names.shape[1]):
            columns |= {f"feature_{j + 1}": names[:, j], f"surprise_{j + 1}": surprise[:, j]}
        return pandas.DataFrame(columns, index=self.index)


def surprises(X: Floats, polytope: Ints, density: Density, table: Table) -> Floats:
    """Minus the term of each column in the log kernel of one polytope.

    The shape is (n_samples, n_columns). A number that was missing in some row of the fit has two
    terms: one for its value, and one for whether it is missing.
    """
    n_numbers = density.mean.shape[1]
    z = X[:, :n_numbers] - density.mean[polytope]
    with np.errstate(over="ignore"):
        terms = 0.5 * z * z * density.precision_of(polytope)
    found = np.zeros((len(X), len(table.numbers) + len(table.categories)))
    found[:, table.numbers] = np.where(np.isnan(z), 0.0 - density.log_missing, terms)
    column = np.concatenate([table.categories, table.numbers[table.with_missing]])
    for c, j in enumerate(column):
        level = density.level_offsets[c] + X[:, n_numbers + c].astype(np.int64)
        found[:, j] -= density.log_share[polytope, level]
    return found
