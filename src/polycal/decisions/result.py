"""Results of ``decide`` and ``expected_scores``: tables to look at and frames to work with."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

from .._utils.arrays import Array, Floats
from .._utils.optional import optional
from .._utils.tables import LINE, html_table, text_table
from .expected import Figure

ACCEPT, REVIEW, REFUSE = "accept", "review", "refuse"
# Rows of the printed table at most, and its columns.
ROWS_SHOWN = 10
SHOWN = ("row", "action", "label", "chance of an error", "expected cost")
FIGURES_SHOWN = ("figure", "expected", "interval", "realised")


@dataclass(frozen=True, repr=False)
class Decisions:
    """Result of ``decide``: what to do with the answer for each row.

    Parameters
    ----------
    action : ndarray of str, shape (n_samples,)
        "accept": act on the label. "review": someone should look at the row. "refuse": the row is
        out of distribution, so that the model knows nothing about it.
    label : ndarray of shape (n_samples,)
        The label of lowest expected cost; without costs, the most probable one.
    error : ndarray of shape (n_samples,)
        Probability that this label is wrong.
    cost : ndarray of shape (n_samples,)
        Expected cost of this label.
    review : float or None
        Cost of a review, where it was given.
    threshold : float or None
        Labels with a probability of an error below it are accepted; None where no error rate was
        asked for, and 0 where no answer can be accepted.
    guarantee : str
        What is promised about the accepted answers.
    index : sequence or None
        Labels of the rows, where X was a pandas frame; otherwise None, and rows are numbered.
    """

    action: Array
    label: Array
    error: Floats
    cost: Floats
    review: float | None
    threshold: float | None
    guarantee: str
    index: Any = None

    def __len__(self) -> int:
        return len(self.action)

    @property
    def shares(self) -> dict[str, float]:
        """Share of the rows with each action."""
        return {a: float((self.action == a).mean()) for a in (ACCEPT, REVIEW, REFUSE)}

    @property
    def expected_errors(self) -> float:
        """Expected number of wrong labels among the accepted ones."""
        return float(self.error[self.action == ACCEPT].sum())

    @property
    def expected_cost(self) -> float:
        """Expected cost of all rows: of accepted labels, and of a review of all others.

        It is NaN where some are not accepted and the cost of a review was not given.
        """
        accepted = self.action == ACCEPT
        n_others = int((~accepted).sum())
        review = np.nan if self.review is None else self.review
        return float(self.cost[accepted].sum() + (n_others * review if n_others else 0.0))

    def __repr__(self) -> str:
        """A table of the first rows, and the shares."""
        below = "\n".join(textwrap.wrap(self._below(), LINE))
        return f"{text_table(SHOWN, self._lines())}\n{below}"

    def _repr_html_(self) -> str:
        return f"{html_table(SHOWN, self._lines())}<p>{escape(self._below())}</p>"

    def _lines(self) -> list[list[str]]:
        names = range(len(self)) if self.index is None else self.index
        return [
            [
                str(names[i]),
                str(self.action[i]),
                str(self.label[i]),
                f"{self.error[i]:.4f}",
                f"{self.cost[i]:.4g}",
            ]
            for i in range(min(len(self), ROWS_SHOWN))
        ]

    def _below(self) -> str:
        more = len(self) - ROWS_SHOWN
        rest = f"... and {more:,} more rows; to_frame() has them all. " if more > 0 else ""
        shares = ", ".join(f"{share:.1%} {action}" for action, share in self.shares.items())
        return f"{rest}{shares}. Promised: {self.guarantee}."

    def to_frame(self) -> Any:
        """Return the decisions as a pandas frame.

        Returns
        -------
        pandas.DataFrame
            One line for each row, with its action, label, error and cost; its index is that of X,
            where X was a pandas frame.
        """
        pandas = optional("pandas", "frame")
        columns = {"action": self.action, "label": self.label}
        return pandas.DataFrame(
            columns | {"error": self.error, "cost": self.cost}, index=self.index
        )


@dataclass(frozen=True, repr=False)
class ExpectedScores:
    """Result of ``expected_scores``: how right a model is on a batch, without its labels.

    All figures are those of the rows that are not out of distribution; what the model says of the
    others rests on no data.

    Parameters
    ----------
    accuracy, log_loss, brier : Figure
        Expected figure, its standard deviation and its interval. The Brier score is the sum over
        the classes, from 0 to 2.
    confusion : ndarray of shape (n_classes, n_classes)
        Expected number of rows of each class (rows) that are predicted as each (columns).
    confusion_low, confusion_high : ndarray of shape (n_classes, n_classes)
        Ends of the interval of each number.
    classes : ndarray of shape (n_classes,)
        Labels of the classes.
    n_rows : int
        Number of rows of the batch.
    n_out : int
        How many of them are out.
    level : float
        Share of batches whose realised figure lies in its interval.
    realised : dict of str to float, or None
        The same figures by labels, where they were given.
    realised_confusion : ndarray of shape (n_classes, n_classes) or None
        Numbers by labels.
    p_value : float or None
        Chance that realised figures differ as much from the expected ones.
    note : str
        What the figures rest on.
    """

    accuracy: Figure
    log_loss: Figure
    brier: Figure
    confusion: Floats
    confusion_low: Floats
    confusion_high: Floats
    classes: Array
    n_rows: int
    n_out: int
    level: float
    realised: dict[str, float] | None
    realised_confusion: Floats | None
    p_value: float | None
    note: str

    @property
    def share_out(self) -> float:
        """Share of the rows that are out."""
        return self.n_out / self.n_rows

    @property
    def accuracy_bounds(self) -> tuple[float, float]:
        """Expected accuracy of all rows, if the model is wrong on every row out, and on none."""
        inside = self.accuracy.value * (1 - self.share_out)
        return inside, inside + self.share_out

    def __repr__(self) -> str:
        """A table of the figures."""
        below = "\n".join(textwrap.wrap(self._below(), LINE))
        return f"{text_table(FIGURES_SHOWN, self._lines())}\n{below}"

    def _repr_html_(self) -> str:
        return f"{html_table(FIGURES_SHOWN, self._lines())}<p>{escape(self._below())}</p>"

    def _lines(self) -> list[list[str]]:
        lines = []
        figures = {"accuracy": self.accuracy, "log_loss": self.log_loss, "brier": self.brier}
        for name, figure in figures.items():
            known = "" if self.realised is None else f"{self.realised[name]:.4f}"
            interval = f"{figure.low:.4f} to {figure.high:.4f}"
            lines.append([name.replace("_", "-"), f"{figure.value:.4f}", interval, known])
        return lines

    def _below(self) -> str:
        text = f"{self.n_rows - self.n_out:,} rows"
        if self.n_out:
            text += f", and {self.n_out:,} ({self.share_out:.1%}) that are out and not counted"
        if self.p_value is not None:
            text += f". Chance of such a difference: {self.p_value:.2g}"
        return f"{text}. {self.note}"

    def to_frame(self) -> Any:
        """Return the figures as a pandas frame.

        Returns
        -------
        pandas.DataFrame
            One line for each figure: expected, deviation, low and high, and realised where labels
            were given.
        """
        pandas = optional("pandas", "frame")
        figures = {"accuracy": self.accuracy, "log_loss": self.log_loss, "brier": self.brier}
        columns = {
            "expected": [f.value for f in figures.values()],
            "deviation": [f.deviation for f in figures.values()],
            "low": [f.low for f in figures.values()],
            "high": [f.high for f in figures.values()],
        }
        if self.realised is not None:
            columns["realised"] = [self.realised[name] for name in figures]
        return pandas.DataFrame(columns, index=list(figures))
