"""Pieces of work that faults happen to, and what must hold of their files afterwards."""

from __future__ import annotations

import contextlib
import io
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator

import polycal
from polycal import GeodesicCalibrator
from polycal.cli.files import Source
from polycal.cli.monitor import follow, open_history
from polycal.cli.predict import predict_file
from polycal.monitoring.history import Day, History
from stress.watch import quiet
from studies import _runner

N_ROWS = 1500
NAMES = list("abcdef")
# Batches of a stream, days of a history, cells of a study.
N_PARTS = 5


@dataclass
class Bench:
    """A folder, data, and two models of different answers."""

    folder: Path
    X: np.ndarray
    y: np.ndarray
    models: tuple[GeodesicCalibrator, GeodesicCalibrator]
    answers: tuple[np.ndarray, np.ndarray]

    @classmethod
    def make(cls, folder: Path) -> Bench:
        """Fit the models and write the table."""
        X, y = make_classification(N_ROWS, n_features=6, n_informative=4, random_state=0)
        with quiet():
            models = (cls.fit(X, y, 0), cls.fit(X, y, 1))
            answers = tuple(model.predict_proba(X[:20]) for model in models)
        frame_of(X).to_csv(folder / "rows.csv", index=False)
        return cls(folder, X, y, models, answers)  # type: ignore[arg-type]

    @staticmethod
    def fit(X: np.ndarray, y: np.ndarray, seed: int) -> GeodesicCalibrator:
        """A fitted model."""
        forest = RandomForestClassifier(20, random_state=seed)
        model = GeodesicCalibrator(forest, calibration="holdout", random_state=seed)
        return model.fit(frame_of(X), y)

    @property
    def path(self) -> Path:
        """The model file."""
        return self.folder / "m.polycal"

    def rows(self, n: int) -> pd.DataFrame:
        """The first rows."""
        return frame_of(self.X[:n])

    def model_faults(self) -> Iterator[str]:
        """What is wrong with the model file: it must be one of the two models."""
        try:
            P = polycal.load(self.path).predict_proba(self.rows(20))
        except Exception as error:
            yield f"the model file cannot be read: {error!r}"
            return
        if not any(np.array_equal(P, known) for known in self.answers):
            yield "the model file holds another model"

    def leftovers(self) -> list[Path]:
        """Temporary files."""
        return [path for path in self.folder.rglob("*") if path.name.endswith(".part")]


def frame_of(X: np.ndarray) -> pd.DataFrame:
    """Rows with names of columns."""
    return pd.DataFrame(X, columns=NAMES)


class Work:
    """A piece of work in a folder. A second start must complete what a fault has ended."""

    # What it writes beside the model file, which is written anew before each case.
    written: tuple[str, ...] = ()
    # Whether it writes into the folder itself, so that it fails without rights to it.
    writes = True

    def __init__(self, bench: Bench):
        self.bench = bench

    def path(self, name: str) -> Path:
        """A file of the folder."""
        return self.bench.folder / name

    def reset(self) -> None:
        """Bring the folder into the state before the work."""
        self.bench.models[0].save(self.bench.path)
        for path in map(self.path, self.written):
            if path.is_dir():
                shutil.rmtree(path)
            path.unlink(missing_ok=True)

    def do(self) -> None:
        """Do it, or what is left of it."""
        raise NotImplementedError

    def faults(self) -> Iterator[str]:
        """A file that is half, or that should not be there; nothing where all is well."""
        yield from ()

    def lacks(self) -> Iterator[str]:
        """What is missing after the work was done."""
        yield from (f"{name} is missing" for name in self.written if not self.path(name).exists())


class Save(Work):
    """Write the second model over the first."""

    def do(self) -> None:
        self.bench.models[1].save(self.bench.path)


class Refit(Work):
    """Fit, and write the model."""

    writes = False

    def do(self) -> None:
        self.bench.fit(self.bench.X, self.bench.y, 1).save(self.bench.path)


class Load(Work):
    """Read the model file and ask the model."""

    writes = False

    def do(self) -> None:
        polycal.load(self.bench.path).predict_proba(self.bench.rows(20))


class Predict(Work):
    """Write predictions of the first model into a CSV file."""

    written = ("out.csv",)

    def do(self) -> None:
        source, output = Source(self.path("rows.csv")), self.path(self.written[0])
        predict_file(self.bench.models[0], source, output, [], "", 300, False)

    def faults(self) -> Iterator[str]:
        path = self.path("out.csv")
        if path.exists() and len(path.read_text("utf-8").splitlines()) != N_ROWS + 1:
            yield "out.csv is not whole"


class Parquet(Predict):
    """The same into a Parquet file."""

    written = ("out.parquet",)

    def faults(self) -> Iterator[str]:
        path = self.path("out.parquet")
        if not path.exists():
            return
        try:
            table = pyarrow.parquet.read_table(path, use_threads=False, memory_map=False)
        except Exception as error:
            yield f"out.parquet cannot be read: {error!r}"
            return
        P = np.column_stack([table[name].to_numpy() for name in ("p_0", "p_1")])
        if len(P) != N_ROWS or not np.array_equal(P[:20], self.bench.answers[0]):
            yield "out.parquet is not whole"


class Report(Work):
    """Write a report."""

    written = ("r.html",)

    def do(self) -> None:
        rows, labels = self.bench.rows(200), self.bench.y[:200]
        polycal.report(self.bench.models[0], rows, labels, path=self.path("r.html"))

    def faults(self) -> Iterator[str]:
        path = self.path("r.html")
        if path.exists() and not path.read_text("utf-8").rstrip().endswith("</html>"):
            yield "r.html is not whole"


class Monitor(Work):
    """Check some days of a folder one after the other, each of which goes into the history."""

    written = ("history.json",)

    def __init__(self, bench: Bench):
        super().__init__(bench)
        self.days = bench.folder / "days"
        self.days.mkdir(exist_ok=True)
        for k in range(N_PARTS):
            rows = frame_of(bench.X[60 * k : 60 * k + 60])
            rows.to_csv(self.days / f"day-{k}.csv", index=False)

    def _follow(self, path: Path) -> History:
        history = open_history(path, self.bench.models[0], 0.01, 0.01, 0.01)
        for _ in follow(history, path, self.days, None, (None, None, None)):
            pass
        return history

    def do(self) -> None:
        self._follow(self.path("history.json"))

    @cached_property
    def expected(self) -> list[Day]:
        """Days of a history that nothing happened to."""
        with tempfile.TemporaryDirectory() as folder, quiet():
            return self._follow(Path(folder) / "history.json").days

    def _found(self) -> list[Day]:
        path = self.path("history.json")
        return History.load(path, self.bench.models[0]).days if path.exists() else []

    def faults(self) -> Iterator[str]:
        try:
            found = self._found()
        except Exception as error:
            yield f"the history cannot be read: {error!r}"
            return
        if found != self.expected[: len(found)]:
            yield "the history holds other days"

    def lacks(self) -> Iterator[str]:
        yield from super().lacks()
        if len(self._found()) != N_PARTS:
            yield "the history lacks days"


class Stream(Work):
    """Add batches to a model, which is written after each of them."""

    written = ("stream.polycal",)

    def __init__(self, bench: Bench):
        super().__init__(bench)
        self.parent = RandomForestClassifier(8, random_state=0).fit(bench.X[:200], bench.y[:200])
        self.edges = np.linspace(200, N_ROWS, N_PARTS + 1).astype(int)

    def _begin(self) -> GeodesicCalibrator:
        options = {"n_hyperplanes": 64, "memory_limit": "50MiB", "random_state": 0}
        return GeodesicCalibrator(FrozenEstimator(self.parent), **options)

    def _add(self, model: GeodesicCalibrator, k: int) -> None:
        some = slice(self.edges[k], self.edges[k + 1])
        model.partial_fit(self.bench.X[some], self.bench.y[some])

    def _added(self, model: GeodesicCalibrator) -> int:
        """Number of batches in a model."""
        n_rows = model.n_rows_seen_
        return int(np.flatnonzero(self.edges - self.edges[0] == n_rows)[0])

    def do(self) -> None:
        path = self.path("stream.polycal")
        model = polycal.load(path) if path.exists() else self._begin()
        first = self._added(model) if path.exists() else 0
        for k in range(first, N_PARTS):
            self._add(model, k)
            model.save(path)

    @cached_property
    def expected(self) -> list[np.ndarray]:
        """Answers after each batch of a stream that nothing happened to."""
        model, found = self._begin(), []
        with quiet():
            for k in range(N_PARTS):
                self._add(model, k)
                found.append(model.predict_proba(self.bench.X[:20]))
        return found

    def _found(self) -> GeodesicCalibrator | None:
        path = self.path("stream.polycal")
        return polycal.load(path) if path.exists() else None

    def faults(self) -> Iterator[str]:
        try:
            model = self._found()
            if model is None:
                return
            P, n_added = model.predict_proba(self.bench.X[:20]), self._added(model)
        except Exception as error:
            yield f"the stream cannot be read: {error!r}"
            return
        if not np.array_equal(P, self.expected[n_added - 1]):
            yield f"the stream answers otherwise after {n_added} batches"

    def lacks(self) -> Iterator[str]:
        yield from super().lacks()
        model = self._found()
        if model is None or self._added(model) != N_PARTS:
            yield "the stream lacks batches"


def _cells(options: _runner.Options) -> list[dict[str, Any]]:
    return [{"n": n} for n in range(N_PARTS)]


def _run(cell: dict[str, Any], options: _runner.Options) -> list[dict[str, Any]]:
    values = np.random.default_rng(options.seed_of(**cell)).random(2000)
    return [{"metric": f"m{i}", "value": value} for i, value in enumerate(values[:300])]


def _draw(frame: pd.DataFrame, folder: Path) -> list[Path]:
    _runner.write_atomically(folder / "table.md", frame.to_csv(index=False))
    return [folder / "table.md"]


class Study(Work):
    """Run a small study: its cells, its table and what it draws."""

    written = ("study",)
    study = _runner.Study("stress", "A study.", _cells, _run, _draw)
    files = ("results.csv.gz", "table.md")

    def _main(self, folder: Path) -> None:
        with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
            status = _runner.main(self.study, ["--out", str(folder)])
        if status:  # cells that could not be written are named, and made by the next start
            raise MemoryError("cells failed")

    def do(self) -> None:
        self._main(self.path("study"))

    @cached_property
    def expected(self) -> dict[str, bytes]:
        """Files of a study that nothing happened to."""
        with tempfile.TemporaryDirectory() as folder:
            self._main(Path(folder))
            return {name: (Path(folder) / name).read_bytes() for name in self.files}

    def faults(self) -> Iterator[str]:
        folder = self.path("study")
        for name, content in self.expected.items():
            path = folder / name
            if path.exists() and path.read_bytes() != content:
                yield f"{name} is not whole"
        for path in folder.glob("cells/*.json"):
            stamp = self.study.stamp(_runner.Options(out=folder))
            if _runner.read_cell(path, stamp) is None:
                yield f"{path.name} is not whole"

    def lacks(self) -> Iterator[str]:
        folder = self.path("study")
        yield from (f"{n} is missing" for n in self.files if not (folder / n).exists())
