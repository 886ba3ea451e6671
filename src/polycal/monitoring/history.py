"""What was found in each batch of a series, and the monitor that follows them all: one file."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from .._utils.arrays import Array, Bools
from .._utils.files import atomic_file
from .._utils.warnings import ShiftWarning
from .check import SHOWN, check_batch, check_limits
from .monitor import Monitor, is_count, is_number

KIND, VERSION = "polycal history", 1
# Chance below which labels contradict what was expected.
SURE = 0.01
# Bytes of a file, at most.
MOST_BYTES = 256 << 20


class Labels(NamedTuple):
    """Labels of the rows of a batch, and of which rows they are known and of a known class."""

    y: Array
    known: Bools


@dataclass(frozen=True)
class Day:
    """What was found in one batch; the fields of ``BatchCheck`` and ``ExpectedScores`` say more."""

    name: str
    n_bytes: int  # of its file
    n_rows: int
    alarm: bool
    p_value: float
    size: float
    share_new: float
    share_new_low: float
    share_new_high: float
    share_out: float
    features: dict[str, float]  # the features that have moved most, with their distances
    evidence: float  # of the stream, after this batch
    stream_alarm: bool  # whether it has rung by now
    stream_behind: str  # what has most of the evidence
    accuracy: float | None  # expected; None where every row is out
    accuracy_low: float | None
    accuracy_high: float | None
    realised: float | None = None  # None without labels
    realised_p: float | None = None  # chance that expected and realised figures differ as much

    @property
    def contradicted(self) -> bool:
        """Whether labels differ from what was expected by more than chance."""
        return self.realised_p is not None and self.realised_p < SURE

    def is_valid(self) -> bool:
        """Whether the values of a file have the types and ranges of their fields."""
        values = asdict(self)
        numbers = {name: values[name] for name in NUMBERS}
        maybe = {name: values[name] for name in MAYBE if values[name] is not None}
        counts = (self.n_bytes, self.n_rows)
        return (
            all(is_number(v) and v >= 0 for v in (numbers | maybe).values())
            and all(v <= 1 for name, v in (numbers | maybe).items() if name != "evidence")
            and all(is_count(n) for n in counts)
            and all(type(flag) is bool for flag in (self.alarm, self.stream_alarm))
            and all(type(text) is str for text in (self.name, self.stream_behind))
            and isinstance(self.features, dict)
            and all(type(k) is str and is_number(v) for k, v in self.features.items())
        )


def first_rung(days: Sequence[Day]) -> Day | None:
    """The day on which the stream's alarm rang."""
    return next((day for day in days if day.stream_alarm), None)


SHARES = ("p_value", "size", "share_new", "share_new_low", "share_new_high", "share_out")
NUMBERS = (*SHARES, "evidence")
MAYBE = ("accuracy", "accuracy_low", "accuracy_high", "realised", "realised_p")


class History:
    """Batches in their order, each checked alone and followed as a stream.

    ``level`` and ``smallest`` are those of the alarm of one batch, ``delta`` that of the stream.
    """

    def __init__(self, model: Any, level: float, smallest: float, delta: float):
        check_limits(level, smallest)
        self.model, self.level, self.smallest = model, level, smallest
        self.monitor = Monitor(model, delta)
        self.days: list[Day] = []

    def add(self, name: str, X: Any, labels: Labels | None = None, n_bytes: int = 0) -> Day:
        """Check a batch, follow its rows, and remember what was found."""
        model = self.model
        answer = model.answer(X)
        names = getattr(model, "feature_names_in_", None)
        known = (model.model_, answer, names, model.n_jobs)
        check = check_batch(*known, level=self.level, smallest=self.smallest)
        out = model.model_.is_out(answer.log_f)
        moved = [f for f in check.features[:SHOWN] if f.p_value <= self.level]
        expected = None if out.all() else model.expected_scores(X).accuracy
        status = self.monitor.update_answer(answer)  # last: an error before it changes nothing
        day = Day(
            name=name,
            n_bytes=n_bytes,
            n_rows=check.n_rows,
            alarm=check.alarm,
            p_value=check.p_value,
            size=check.size,
            share_new=check.share_new,
            share_new_low=check.interval[0],
            share_new_high=check.interval[1],
            share_out=float(out.mean()),
            features={f.name: f.distance for f in moved},
            evidence=status.evidence,
            stream_alarm=status.alarm,
            stream_behind=status.behind[0][0],
            accuracy=None if expected is None else expected.value,
            accuracy_low=None if expected is None else expected.low,
            accuracy_high=None if expected is None else expected.high,
        )
        self.days.append(day)
        return day if labels is None else self.add_labels(name, X, labels, n_bytes)

    def add_labels(self, name: str, X: Any, labels: Labels, n_bytes: int) -> Day:
        """Remember the realised accuracy of a batch that was added, on its labelled rows."""
        place = next(k for k, day in enumerate(self.days) if day.name == name)
        rows = np.flatnonzero(labels.known)
        X = X.iloc[rows] if hasattr(X, "iloc") else X[rows]
        changed: dict[str, Any] = {"n_bytes": n_bytes}
        if len(rows) and not self.model.model_.is_out(self.model.answer(X).log_f).all():
            with warnings.catch_warnings():  # the figures say it
                warnings.simplefilter("ignore", ShiftWarning)
                scores = self.model.expected_scores(X, labels.y[rows])
            changed |= {"realised": scores.realised["accuracy"], "realised_p": scores.p_value}
        self.days[place] = replace(self.days[place], **changed)
        return self.days[place]

    def day(self, name: str) -> Day | None:
        """What was found in a batch; None where it was not checked yet."""
        return next((day for day in self.days if day.name == name), None)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write days and monitor into one file at once; an interrupted call leaves the old one."""
        state = {
            "kind": KIND,
            "version": VERSION,
            "level": self.level,
            "smallest": self.smallest,
            "monitor": self.monitor.to_dict(),
            "days": [asdict(day) for day in self.days],
        }
        with atomic_file(Path(path)) as part:
            part.write_text(json.dumps(state, allow_nan=False), encoding="utf-8")

    @classmethod
    def load(cls, path: str | os.PathLike[str], model: Any) -> Self:
        """Read a file that ``save`` wrote; it is checked, and runs no code."""
        path = Path(path)
        damaged = f"{path} is no history of polycal monitor, or it is damaged. Name another file."
        if path.stat().st_size > MOST_BYTES:
            raise ValueError(damaged)
        try:
            state = json.loads(path.read_text(encoding="utf-8"))
        except (ValueError, RecursionError):
            raise ValueError(damaged) from None
        if not isinstance(state, dict) or state.get("kind") != KIND:
            raise ValueError(damaged)
        if state.get("version") != VERSION:
            raise ValueError(f"{path} is of another version of polycal. Start a new history.")
        days = state.get("days")
        if not isinstance(days, list):
            raise ValueError(damaged)
        limits: list[Any] = [state.get(name) for name in ("level", "smallest")]
        try:
            monitor = Monitor.from_dict(state.get("monitor"), model)
            history = cls(model, limits[0], limits[1], monitor.delta)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
        names = {field.name for field in fields(Day)}
        if not all(isinstance(day, dict) and set(day) == names for day in days):
            raise ValueError(damaged)
        history.days = [Day(**day) for day in days]
        history.monitor = monitor
        if not all(day.is_valid() for day in history.days):
            raise ValueError(damaged)
        if len({day.name for day in history.days}) < len(history.days):
            raise ValueError(damaged)
        if sum(day.n_rows for day in history.days) != monitor.n_rows:
            raise ValueError(damaged)
        return history
