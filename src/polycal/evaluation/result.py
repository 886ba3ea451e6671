"""The result of an evaluation: figures as a frame, a table or a plot."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Any, NamedTuple

import numpy as np

from .._utils.optional import optional
from .._utils.tables import html_table, text_table

INSIDE = "in distribution"
#: Title of each metric in a table, in the order of the columns.
TITLES = {
    "error": "error",
    "ece": "ECE",
    "ece_debiased": "ECE, debiased",
    "log_loss": "log-loss",
    "brier": "Brier",
    "confidence_on_errors": "confidence on errors",
    "oce": "OCE",
    "confidence": "confidence",
    "trusted": "trusted",
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


@dataclass(frozen=True, repr=False)
class Evaluation:
    """Result of ``evaluate``: the figures of several models.

    Parameters
    ----------
    figures : list of Figure
        One figure for each model, set of rows and metric.
    level : float
        Level of the confidence intervals.
    """

    figures: list[Figure]
    level: float

    def __repr__(self) -> str:
        """A table for each set of rows: a line for each metric, a column for each model."""
        tables = [f"{name}\n{text_table(*table)}" for name, table in self._tables().items()]
        return "\n\n".join([*tables, f"In brackets: {self.level:.0%} intervals."])

    def _repr_html_(self) -> str:
        tables = self._tables().items()
        parts = [f"<p>{escape(name)}</p>{html_table(*table)}" for name, table in tables]
        return "".join([*parts, f"<p>In brackets: {self.level:.0%} intervals.</p>"])

    def _tables(self) -> dict[str, tuple[list[str], list[list[str]]]]:
        """Heads and lines of the table of each set of rows."""
        found = {}
        for rows in dict.fromkeys(f.rows for f in self.figures):
            here = {(f.model, f.metric): f for f in self.figures if f.rows == rows}
            models = list(dict.fromkeys(model for model, _ in here))
            metrics = [m for m in TITLES if any(m == metric for _, metric in here)]
            lines = [
                [TITLES[m], *(_cell(here.get((model, m)), 3) for model in models)] for m in metrics
            ]
            found[rows] = (["", *models], lines)
        return found

    def to_frame(self) -> Any:
        """Return the figures as a pandas frame.

        Returns
        -------
        pandas.DataFrame
            One row for each figure; the columns are "model", "rows", "metric", "value", "low" and
            "high".
        """
        pandas = optional("pandas", "frame")
        return pandas.DataFrame(self.figures, columns=Figure._fields)

    def to_markdown(self, digits: int = 3) -> str:
        """Write a Markdown table for each set of rows.

        Parameters
        ----------
        digits : int, default=3
            Number of decimals.

        Returns
        -------
        str
            The tables, with a line for each model and the intervals in brackets.
        """
        parts = []
        for rows in dict.fromkeys(f.rows for f in self.figures):
            here = [f for f in self.figures if f.rows == rows]
            columns = [metric for metric in TITLES if any(f.metric == metric for f in here)]
            known = {(f.model, f.metric): f for f in here}
            lines = [f"| {_escaped(rows)} | " + " | ".join(TITLES[c] for c in columns) + " |"]
            lines.append("|---" * (len(columns) + 1) + "|")
            for model in dict.fromkeys(f.model for f in here):
                line = [_cell(known.get((model, c)), digits) for c in columns]
                lines.append(f"| {_escaped(model)} | " + " | ".join(line) + " |")
            parts.append("\n".join(lines))
        return "\n\n".join(parts) + "\n"

    def plot(self, metrics: list[str] | None = None) -> Any:
        """Plot the figures with their intervals.

        Parameters
        ----------
        metrics : list of str, default=None
            Metrics to show, by their names in ``figures``. None: all.

        Returns
        -------
        matplotlib.figure.Figure
            The plot, with a panel for each metric and set of rows.
        """
        pyplot = optional("matplotlib.pyplot", "plot")
        sets, order = list(dict.fromkeys(f.rows for f in self.figures)), list(TITLES)
        shown = {(f.rows, f.metric) for f in self.figures if metrics is None or f.metric in metrics}
        panels = sorted(shown, key=lambda p: (sets.index(p[0]), order.index(p[1])))
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
            line = [models.index(f.model) for f in here]
            value = np.array([f.value for f in here])
            spread = np.array([[f.value - f.low, f.high - f.value] for f in here]).T
            ax.errorbar(value, line, xerr=np.maximum(spread, 0), fmt="o", color="#0072B2")
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


def _escaped(name: str) -> str:
    return name.replace("|", "\\|")


def _cell(figure: Figure | None, digits: int) -> str:
    if figure is None or np.isnan(figure.value):
        return "none"
    return f"{figure.value:.{digits}f} ({figure.low:.{digits}f} to {figure.high:.{digits}f})"
