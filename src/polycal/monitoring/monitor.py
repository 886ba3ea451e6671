"""A monitor of a stream of new rows, whose state is one small file."""

from __future__ import annotations

import hashlib
import json
import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .._utils import validation
from .._utils.arrays import Array, Floats
from .._utils.files import atomic_file
from ..calibration.fitted_model import EXACT_PLANS, FittedModel
from ..calibration.kept_rows import described
from .conformal import one_of_each
from .martingale import JUMPS, N_BETS, Bins, Track
from .sides import column_sources

# Bins of log f and of a column, at most.
SCORE_BINS, COLUMN_BINS = 400, 60
# Columns that are followed, at most: beyond, evenly spaced ones.
MOST_COLUMNS = 100
# Log f's part of delta; the columns share the rest evenly.
SCORE_SHARE = 0.5
KIND, VERSION = "polycal monitor", 1
# Bytes of a state, at most.
MOST_BYTES = 16 << 20
SCORE = "log f"
ROUNDING = 1e-6
# Whole numbers of a state, at most.
LARGEST = 2**63 - 1


@dataclass(frozen=True)
class StreamStatus:
    """What a monitor knows after some rows.

    Parameters
    ----------
    n_rows : int
        Number of rows that were followed.
    alarm : bool
        Whether an alarm has rung, now or before.
    alarm_row : int or None
        Number of rows after which it first rang.
    evidence : float
        Evidence against an unchanged stream, in units of the one that rings the alarm: 1 or more
        is an alarm. It falls again where the stream is as it was.
    behind : list of tuple
        Name and evidence of log f and of the features, the strongest first.
    """

    n_rows: int
    alarm: bool
    alarm_row: int | None
    evidence: float
    behind: list[tuple[str, float]]

    def __str__(self) -> str:
        """One line."""
        name = self.behind[0][0]
        rang = f"alarm after row {self.alarm_row:,}" if self.alarm else "no alarm"
        return f"{self.n_rows:,} rows: {rang}; evidence {self.evidence:.3g}, most of it in {name}"


class Monitor:
    """Follows a stream of new rows, and rings when it is no longer like the calibration rows.

    Over the whole stream, however long, an alarm rings in vain with probability at most ``delta``,
    on average over calibration sets: by a test martingale for log f, and one for each feature. The
    rows must be independent. Those of one call are taken in random order.

    With calibration rows that are training rows (``calibration_`` "oob" or "cv") the bound holds
    for the features as it is. Log f is then compared within the stream alone, since stand-ins for
    the model scored the calibration rows: it tells a change after the first rows, not whether these
    were like the training rows.

    Parameters
    ----------
    model : polycal estimator
        A fitted model.
    delta : float, default=0.01
        Probability that an alarm ever rings although nothing has changed.
    random_state : int, default=0
        Seed of the random numbers that break ties.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from polycal import KernelDensityForest, Monitor
    >>> X, y = make_classification(900, random_state=0)
    >>> model = KernelDensityForest(30, random_state=0).fit(X[:500], y[:500])
    >>> monitor = Monitor(model)
    >>> monitor.update(X[500:700]).alarm
    False
    >>> monitor.update(X[700:] + 1.0).alarm
    True
    """

    def __init__(self, model: Any, delta: float = 0.01, *, random_state: int = 0):
        validation.share(delta=delta)
        validation.count(0, random_state=random_state)
        if random_state > LARGEST:
            raise ValueError(f"random_state must be at most {LARGEST}; got {random_state}.")
        check_is_fitted(model, "model_")
        self.model = model
        self.delta = float(delta)
        self.random_state = int(random_state)
        fitted = model.model_
        self._columns, self._bins = _tracks(fitted)
        source = column_sources(fitted)
        self._source = [int(source[j]) for j in self._columns[1:]]
        self._feature_names = [f"x{j}" for j in range(int(source.max()) + 1)]
        self._log_share = _log_shares(len(self._bins))
        self.fingerprint = _fingerprint(fitted)
        self.tracks = [Track.start(bins) for bins in self._bins]
        self.n_rows = 0
        self.alarm_row: int | None = None

    def update(self, X: Any) -> StreamStatus:
        """Follow more rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The next rows, in any form that the parent takes.

        Returns
        -------
        StreamStatus
            Alarm and evidence after these rows.
        """
        return self.update_answer(self.model.answer(X))

    def update_answer(self, answer: Any) -> StreamStatus:
        """Follow rows that ``model.answer`` was called with, without a second pass of the parent.

        Parameters
        ----------
        answer : Answer
            What ``model.answer`` returned.

        Returns
        -------
        StreamStatus
            Alarm and evidence after these rows.
        """
        rows = described(answer.X, answer.log_f)[:, self._columns]
        names = getattr(self.model, "feature_names_in_", None)
        self._feature_names = self.model.model_.parent.feature_names(answer.reading.features, names)
        # The numbers depend on the place in the stream alone, so that a loaded monitor goes on.
        rng = np.random.Generator(np.random.Philox(key=[self.random_state, self.n_rows]))
        rows = rows[rng.permutation(len(rows))]
        highest = np.full(len(rows), -np.inf)
        tracks = [track.copy() for track in self.tracks]  # an interrupted call changes nothing
        for k, (bins, track) in enumerate(zip(self._bins, tracks, strict=True)):
            log_capital = track.follow(bins, rows[:, k], rng.random((len(rows), 2)))
            np.maximum(highest, log_capital + self._log_share[k], out=highest)
        rang = np.flatnonzero(highest >= -math.log(self.delta))
        if self.alarm_row is None and len(rang):
            self.alarm_row = self.n_rows + int(rang[0]) + 1
        self.tracks, self.n_rows = tracks, self.n_rows + len(rows)
        return self.status

    @property
    def status(self) -> StreamStatus:
        """Alarm and evidence so far."""
        log_evidence = np.array([track.log_capital for track in self.tracks]) + self._log_share
        evidence = np.exp(np.minimum(log_evidence + math.log(self.delta), 700.0))
        behind: dict[str, float] = {}
        tracks = [SCORE, *(self._feature_names[j] for j in self._source)]
        for name, value in zip(tracks, evidence.tolist(), strict=True):
            behind[name] = max(behind.get(name, 0.0), value)
        order = sorted(behind.items(), key=lambda item: -item[1])
        alarm = self.alarm_row is not None
        return StreamStatus(self.n_rows, alarm, self.alarm_row, order[0][1], order)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the state into a file; an interrupted call leaves the old one.

        Parameters
        ----------
        path : str or path-like
            Path of the file, JSON without the model.
        """
        with atomic_file(Path(path)) as part:
            part.write_text(json.dumps(self.to_dict(), allow_nan=False), encoding="utf-8")

    @classmethod
    def load(cls, path: str | os.PathLike[str], model: Any) -> Self:
        """Read a state that ``save`` wrote, and go on as if there had been no break.

        Parameters
        ----------
        path : str or path-like
            Path of the file. It is checked, and runs no code.
        model : polycal estimator
            The model that the monitor was made for.

        Returns
        -------
        Monitor
            The monitor, after the rows that it has followed.
        """
        path = Path(path)
        if path.stat().st_size > MOST_BYTES:
            raise ValueError(f"{path} is too large for the state of a monitor.")
        try:
            state = json.loads(path.read_text(encoding="utf-8"))
        except (ValueError, RecursionError):
            raise ValueError(f"{path} is no state of a monitor: it is not JSON.") from None
        try:
            return cls.from_dict(state, model)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None

    def to_dict(self) -> dict[str, Any]:
        """Return the state as plain values.

        Returns
        -------
        dict
            Numbers, texts and lists, as JSON has them.
        """
        return {
            "kind": KIND,
            "version": VERSION,
            "model": self.fingerprint,
            "delta": self.delta,
            "random_state": self.random_state,
            "rows": self.n_rows,
            "alarm_row": self.alarm_row,
            "tracks": [
                {
                    "count": track.count.tolist(),
                    "low": track.low.tolist(),
                    "high": track.high.tolist(),
                    "capital": track.capital.ravel().tolist(),
                    "log_scale": track.log_scale,
                }
                for track in self.tracks
            ],
        }

    @classmethod
    def from_dict(cls, state: Any, model: Any) -> Self:
        """Make a monitor from a state that ``to_dict`` returned.

        Parameters
        ----------
        state : dict
            The state, which is checked.
        model : polycal estimator
            The model that the monitor was made for.

        Returns
        -------
        Monitor
            The monitor, after the rows that it has followed.
        """
        if not isinstance(state, dict) or state.get("kind") != KIND:
            raise ValueError("this is no state of a monitor.")
        if state.get("version") != VERSION:
            raise ValueError("the state is of another version of polycal. Start a new monitor.")
        try:
            monitor = cls(model, state.get("delta"), random_state=state.get("random_state"))  # type: ignore[arg-type]
        except ValueError:
            raise ValueError("the state is damaged. Start a new monitor.") from None
        if state.get("model") != monitor.fingerprint:
            raise ValueError(
                "the state is that of a monitor of another model. Load the model that it was made "
                "for, or start a new monitor."
            )
        n_rows: Any = state.get("rows")
        row: Any = state.get("alarm_row")
        known = is_count(n_rows) and (row is None or (is_count(row) and 0 < row <= n_rows))
        known = known and _restore(monitor.tracks, state.get("tracks"), n_rows)
        if not known or (row is None and monitor.status.evidence > 1 + ROUNDING):
            raise ValueError("the state is damaged. Start a new monitor.")
        monitor.n_rows, monitor.alarm_row = n_rows, row
        return monitor


def _restore(tracks: list[Track], state: Any, n_rows: int) -> bool:
    """Take over counts and capital; returns whether they fit the tracks and each other."""
    if not isinstance(state, list) or len(state) != len(tracks):
        return False
    for track, saved in zip(tracks, state, strict=True):
        if not isinstance(saved, dict) or not is_number(saved.get("log_scale")):
            return False
        for name in ("count", "low", "high", "capital"):
            here, values = getattr(track, name), saved.get(name)
            if not isinstance(values, list) or len(values) != here.size:
                return False
            if not all(is_number(value) and value >= 0 for value in values):
                return False
            here[...] = np.array(values, dtype=float).reshape(here.shape)
        track.log_scale = float(saved["log_scale"])
        counts = np.concatenate([track.count, track.low, track.high])
        if (counts != np.floor(counts)).any() or track.count.sum() != n_rows:
            return False
        if (track.low + track.high > track.count).any():
            return False
        if abs(track.capital.sum() - 1) > ROUNDING:
            return False
    return True


def _tracks(model: FittedModel) -> tuple[Array, list[Bins]]:
    """Places and bins of what is followed: log f, and columns of the features."""
    kept = model.known_rows
    rows = described(kept.X, kept.log_f[: len(kept.X)])
    usable = one_of_each(
        kept.group[: len(rows)], kept.weight[: len(rows)], np.random.default_rng(0)
    )
    rows = rows[usable]
    n_columns = rows.shape[1] - 1
    columns = np.unique(np.linspace(0, n_columns - 1, min(n_columns, MOST_COLUMNS)).astype(int))
    among_new = model.plan not in EXACT_PLANS
    bins = [Bins.of(rows[:, -1], SCORE_BINS, among_new)]
    bins += [Bins.of(rows[:, j], COLUMN_BINS) for j in columns]
    return np.concatenate([[n_columns], columns]), bins


def _log_shares(n_tracks: int) -> Floats:
    """Logarithm of each track's part of delta."""
    rest = (1 - SCORE_SHARE) / max(n_tracks - 1, 1)
    found: Floats = np.log(np.concatenate([[SCORE_SHARE], np.full(n_tracks - 1, rest)]))
    return found


def _fingerprint(model: FittedModel) -> str:
    """That of the rows that a model has kept."""
    kept = model.known_rows
    digest = hashlib.sha256(np.ascontiguousarray(kept.log_f).tobytes())
    digest.update(np.ascontiguousarray(kept.X).tobytes())
    digest.update(f"{len(JUMPS)} {N_BETS} {SCORE_BINS} {COLUMN_BINS} {MOST_COLUMNS}".encode())
    return digest.hexdigest()


def is_number(value: Any) -> bool:
    """Whether a value from a file is a finite number."""
    if type(value) is int:
        return abs(value) <= LARGEST
    return type(value) is float and math.isfinite(value)


def is_count(value: Any) -> bool:
    """Whether a value from a file is a number of rows or bytes."""
    return type(value) is int and 0 <= value <= LARGEST
