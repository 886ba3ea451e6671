"""Whether a batch of new rows is like the calibration rows, how much of it is new, and where."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
from joblib import effective_n_jobs

from .._utils import validation
from .._utils.arrays import Array, Bools, Floats
from .._utils.tables import html_table, text_table
from ..calibration.fitted_model import Answer, FittedModel
from ..calibration.kept_rows import described
from .conformal import p_values, select, share_new
from .novelty import novelty_scores
from .sides import Sides, column_sources
from .two_sample import N_PERMUTATIONS, Difference, compare

# Rows of a batch that its p-value is computed from, at most, and numbers of them.
MOST_ROWS, MOST_NUMBERS = 5000, 500_000
# Features in the printed table.
SHOWN = 5
EXACT = (
    "of batches that are drawn as the calibration rows were, at most {level:.2%} raise an alarm, "
    "on average over calibration sets"
)
APPROXIMATE = (
    "{exact}; approximately, since stand-ins for the model scored the calibration rows (the "
    "features alone are compared exactly)"
)


@dataclass(frozen=True)
class FeatureShift:
    """How far one feature of a batch has moved.

    Parameters
    ----------
    name : str
        Name of the feature of the table that the classifier gets.
    p_value : float
        Probability that some feature differs as much by chance: it is corrected for their number.
    distance : float
        Largest difference of a share between batch and calibration rows: of the rows below some
        value, of a category, or of missing values.
    distance_selected : float
        The same between the rows that were selected as new and the calibration rows; NaN without
        such rows.
    """

    name: str
    p_value: float
    distance: float
    distance_selected: float


@dataclass(frozen=True, repr=False)
class BatchCheck:
    """Result of ``check``: whether a batch has shifted, by how much, and which rows are new.

    Parameters
    ----------
    n_rows : int
        Number of rows of the batch.
    alarm : bool
        Whether ``p_value`` is at most ``level`` and ``size`` at least ``smallest``.
    p_value : float
        Probability that a batch drawn as the calibration rows were differs as much from them.
    size : float
        Largest difference of a share between batch and calibration rows, over the features, log f
        and the score of novelty. At least this share of the batch would have to be replaced, but
        for chance.
    share_new : float
        Share of the batch that is new: unlike the calibration rows, beyond the number expected.
    interval : tuple of float
        Its lower and upper end, which hold together with probability ``confidence``. Rows that are
        new and look usual are not counted.
    confidence : float
        Confidence of the interval.
    selected : ndarray of bool, shape (n_rows,)
        Which rows are new: on average at most a share ``false_discovery`` of them is not.
    row_p_values : ndarray of shape (n_rows,)
        Conformal p-value of each row, by the score of novelty.
    features : list of FeatureShift
        The features, those first that have moved most surely.
    parts : dict
        P-value of each statistic behind ``p_value`` alone: "columns", each feature on its own;
        "means", all features together; "log f", the score of the model; "novelty", a classifier's.
    level : float
        Share of batches without a shift that may raise an alarm.
    smallest : float
        Smallest size of an alarm.
    false_discovery : float
        Rate for ``selected``.
    guarantee : str
        What is promised about alarms.
    """

    n_rows: int
    alarm: bool
    p_value: float
    size: float
    share_new: float
    interval: tuple[float, float]
    confidence: float
    selected: Bools
    row_p_values: Floats
    features: list[FeatureShift]
    parts: dict[str, float]
    level: float
    smallest: float
    false_discovery: float
    guarantee: str

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain values, without the rows.

        Returns
        -------
        dict
            Numbers, texts, lists and dicts, as JSON has them.
        """
        return {
            "rows": self.n_rows,
            "alarm": self.alarm,
            "p_value": self.p_value,
            "size": self.size,
            "share_new": self.share_new,
            "interval": list(self.interval),
            "selected": int(self.selected.sum()),
            "features": [
                {"name": f.name, "p_value": f.p_value, "distance": f.distance}
                for f in self.features[:SHOWN]
            ],
            "parts": dict(self.parts),
        }

    def __repr__(self) -> str:
        """One sentence, and a table of features."""
        return f"{self._sentence()}\n{text_table(*self._table())}"

    def _repr_html_(self) -> str:
        return f"<p>{escape(self._sentence())}</p>{html_table(*self._table())}"

    def _sentence(self) -> str:
        low, high = self.interval
        found = "The batch has shifted" if self.alarm else "No shift is seen"
        return (
            f"{found}: p = {self.p_value:.3g} (alarm at {self.level:g}), size {self.size:.3f} "
            f"(alarm from {self.smallest:g}), {self.share_new:.1%} of {self.n_rows:,} rows new "
            f"({low:.1%} to {high:.1%}), {self.selected.sum():,} selected."
        )

    def _table(self) -> tuple[list[str], list[list[str]]]:
        heads = ["feature", "p-value", "distance", "in selected rows"]
        lines = [
            [
                f.name,
                f"{f.p_value:.3g}",
                f"{f.distance:.3f}",
                "" if np.isnan(f.distance_selected) else f"{f.distance_selected:.3f}",
            ]
            for f in self.features[:SHOWN]
        ]
        return heads, lines


def check_limits(level: float, smallest: float) -> None:
    """Raise for limits of an alarm that none could reach, or that are no shares."""
    validation.share(level=level)
    validation.fraction(smallest=smallest)
    least = 1 / (N_PERMUTATIONS + 1)
    if level < least:
        raise ValueError(
            f"level must be at least {least:g}, the smallest p-value that there is, or no shift "
            f"could raise an alarm; got {level!r}. For fewer vain alarms, follow all batches with "
            "Monitor (polycal monitor), whose delta may be smaller."
        )


def check_batch(
    model: FittedModel,
    answer: Answer,
    names: Array | None,
    n_jobs: int | None,
    *,
    level: float = 0.01,
    smallest: float = 0.01,
    false_discovery: float = 0.1,
    confidence: float = 0.95,
    seed: int = 0,
) -> BatchCheck:
    """Compare the rows of an answer with the rows that the model has kept."""
    rng = np.random.default_rng(seed)
    sides = Sides.of(model, len(answer), rng)
    rows = described(answer.X[:, : sides.known.shape[1] - 1], answer.log_f)
    n_known = len(sides.known)
    mixed = np.concatenate([sides.known, rows])
    novelty = novelty_scores(sides.reference, mixed, sides.is_symbol, effective_n_jobs(n_jobs), rng)
    p = p_values(novelty[:n_known], novelty[n_known:])
    selected = select(p, false_discovery)
    log_f = mixed[:, -1].astype(np.float64)
    pairs = [(score[:n_known], score[n_known:]) for score in (novelty, log_f)]
    share, low, high = share_new(pairs, confidence)

    found = _difference(sides, mixed, novelty, rng)
    guarantee = EXACT.format(level=level)
    if not sides.exact:
        guarantee = APPROXIMATE.format(exact=guarantee)
    features = model.parent.feature_names(answer.reading.features, names)
    return BatchCheck(
        n_rows=len(rows),
        alarm=bool(found.p_value <= level and found.largest >= smallest),
        p_value=found.p_value,
        size=found.largest,
        share_new=share,
        interval=(low, high),
        confidence=confidence,
        selected=selected,
        row_p_values=p,
        features=_features(model, sides, rows[selected], found, features),
        parts=found.by_part,
        level=level,
        smallest=smallest,
        false_discovery=false_discovery,
        guarantee=guarantee,
    )


def _difference(
    sides: Sides, mixed: Array, novelty: Floats, rng: np.random.Generator
) -> Difference:
    """Compare known rows with the batch, or with random parts of both where there are many."""
    n_known = len(sides.known)
    most = min(MOST_ROWS, max(500, MOST_NUMBERS // mixed.shape[1]))
    known = rng.permutation(n_known)[:most]
    new = n_known + rng.permutation(len(mixed) - n_known)[:most]
    rows = np.concatenate([known, new])
    # Known rows were scored without their own labels, or by stand-ins for the model. That may make
    # their log f a little lower, which the lower tail of a batch cannot be mistaken for; two-sided,
    # it could.
    scores = {"log f": mixed[rows, -1].astype(np.float64), "novelty": novelty[rows]}
    return compare(mixed[rows, :-1], sides.is_symbol[:-1], scores, len(known), rng)


def _features(
    model: FittedModel, sides: Sides, new: Array, found: Difference, names: list[str]
) -> list[FeatureShift]:
    """One line for each feature; one of several columns is as far away as the farthest of them."""
    source = column_sources(model)
    lines = []
    for j in np.unique(source):
        columns = np.flatnonzero(source == j)
        columns = columns[columns < sides.known.shape[1] - 1]
        lines.append(
            FeatureShift(
                names[j],
                float(found.column_p[columns].min()),
                float(found.column_distance[columns].max()),
                max(_distance(sides.known[:, c], new[:, c], sides.is_symbol[c]) for c in columns)
                if len(new)
                else float("nan"),
            )
        )
    return sorted(lines, key=lambda f: (f.p_value, -f.distance))


def _distance(known: Array, new: Array, is_symbol: bool) -> float:
    """Largest difference of a share: below a value, of a symbol, or of missing values."""
    here, there = ~np.isnan(known), ~np.isnan(new)
    away = abs(here.mean() - there.mean())
    values = np.unique(np.concatenate([known[here], new[there]]))
    a, b = (
        [np.searchsorted(some, values), np.searchsorted(some, values, "right")]
        for some in (np.sort(known[here]), np.sort(new[there]))
    )
    if len(values) == 0:
        return float(away)
    n, m = len(known), len(new)
    start = (a[0] / n - b[0] / m) if is_symbol else 0.0
    differences = a[1] / n - b[1] / m - start
    return float(max(away, abs(differences).max()))
