"""One size and one parent of ``scale.py``: times, memory, tables, files and log-loss; the targets.

Each cell is a process of its own, so that its memory is its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from _clock import best_time
from _parents import TorchNet
from _parents import make_parent as named_parent
from _protocol import row_losses
from _record import Row
from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.neural_network import MLPClassifier

import polycal
from polycal import GeodesicCalibrator, TorchParent
from polycal.kernels import SampledIndex
from polycal.posterior.votes import QueryVotes

PARENTS = ("lightgbm", "hgb", "xgboost", "mlp", "torch", "forest")
SIZES = (10_000, 40_000, 160_000, 640_000)
LAYERS, EPOCHS, PATIENCE = (256, 256), 10, 3
N_QUERIES, FIT_SHARE, SEED = 4000, 0.7, 0
N_WARM = 600
# Rows for which ratios, memory and loading have targets, and from which on predict has one.
MILLION, FROM = 1_000_000, 40_000
# The most of calibration by the parent's fit, and of predict by the parent's.
RATIOS = {"lightgbm": (3.0, 8.0), "forest": (1.0, 1.0)}
FIGURES = (
    "search",
    "planes",  # search by hyperplanes
    "parent_fit_s",
    "fit_s",
    "fit_ratio",
    "parent_predict_us",  # a row
    "predict_us",
    "predict_ratio",
    "parent_peak_GiB",
    "resident_GiB",  # after the parent's fit
    "peak_GiB",  # from then on
    "beyond_GiB",  # the difference
    "tables_GiB",
    "kept",  # least share of the buckets that a scale keeps
    "parent_log_loss",
    "log_loss",
    "out",
    "save_s",
    "load_s",
    "file_GiB",
)


class Cell(NamedTuple):
    parent: str
    n: int
    wanted: str  # the parameter search
    jobs: int


COLUMNS = (*Cell._fields, *FIGURES)


def make_parent(name: str, jobs: int) -> Any:
    if name in ("lightgbm", "xgboost"):
        return named_parent(name, SEED, jobs)
    if name == "hgb":
        return HistGradientBoostingClassifier(max_iter=200, early_stopping=False, random_state=SEED)
    if name == "mlp":
        stop = {"early_stopping": True, "n_iter_no_change": PATIENCE, "max_iter": EPOCHS}
        return MLPClassifier(LAYERS, random_state=SEED, **stop)
    if name == "torch":
        return TorchNet(SEED, EPOCHS, PATIENCE, LAYERS)
    return RandomForestClassifier(50, min_samples_leaf=5, random_state=SEED, n_jobs=jobs)


def make_data(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows and labels, N_QUERIES more than n; the clusters have other shapes at other n."""
    return make_classification(
        n + N_QUERIES,
        n_features=20,
        n_informative=10,
        n_classes=3,
        class_sep=0.8,
        flip_y=0.2,
        random_state=SEED,
    )


def calibrate(parent: Any, X: np.ndarray, y: np.ndarray, search: str, jobs: int) -> Any:
    """The calibrated parent, which was fitted on the first rows."""
    ours = TorchParent(parent.module_) if isinstance(parent, TorchNet) else FrozenEstimator(parent)
    model = GeodesicCalibrator(ours, search=search, n_jobs=jobs, random_state=SEED)
    n_fit = int(FIT_SHARE * len(X))
    return model.fit(X[:n_fit], y[:n_fit], X_cal=X[n_fit:], y_cal=y[n_fit:])


def fit_parent(name: str, X: np.ndarray, y: np.ndarray, jobs: int) -> Any:
    n_fit = int(FIT_SHARE * len(X))
    return make_parent(name, jobs).fit(X[:n_fit], y[:n_fit])


def save_and_load(model: Any, parent: Any, queries: np.ndarray) -> tuple[float, float, float]:
    """Seconds to save and to load, and the file's size in GiB; the loaded model answers alike."""
    module = getattr(parent, "module_", None)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.polycal"
        save = seconds(lambda: model.save(path))
        start = time.perf_counter()
        loaded = polycal.load(path, module)
        load = time.perf_counter() - start
        assert np.allclose(loaded.predict_proba(queries), model.predict_proba(queries))
        return save, load, path.stat().st_size / 2**30


def seconds(function: Callable[[], object]) -> float:
    return best_time(function, repeats=1)


def memory(field: str) -> float:
    """GiB of this process: "VmRSS" is resident now, "VmHWM" the most since the last reset."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field)) / 2**20


def reset_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def run_here(cell: Cell) -> Row:
    """The figures of a cell, in this process."""
    warnings.simplefilter("ignore")  # networks that stop before they converge
    X, y = make_data(N_WARM)
    warm = fit_parent(cell.parent, X[:N_WARM], y[:N_WARM], cell.jobs)
    for search in ("exact", "sampled"):  # compile before the clock runs
        model = calibrate(warm, X[:N_WARM], y[:N_WARM], search, cell.jobs)
        save_and_load(model, warm, X[N_WARM:][:100])

    X, y = make_data(cell.n)
    queries, labels, X, y = X[cell.n :], y[cell.n :], X[: cell.n], y[: cell.n]
    start = time.perf_counter()
    parent = fit_parent(cell.parent, X, y, cell.jobs)
    parent_fit = time.perf_counter() - start
    parent_peak, resident = memory("VmHWM"), memory("VmRSS")
    reset_peak()
    start = time.perf_counter()
    model = calibrate(parent, X, y, cell.wanted, cell.jobs)
    fit = time.perf_counter() - start
    predict = best_time(lambda: model.predict_proba(queries), 3) / N_QUERIES
    peak = memory("VmHWM")
    parent_predict = best_time(lambda: parent.predict_proba(queries), 3) / N_QUERIES
    answer, scores = model.answer(queries), model.model_.scores
    out = scores.is_below(answer.log_f, scores.verdict_floor(model.model_.false_alarm))
    save, load, size = save_and_load(model, parent, queries[:100])
    search, planes, tables = tables_of(model)
    figures = (
        *(search, planes, parent_fit, fit, fit / parent_fit),
        *(1e6 * parent_predict, 1e6 * predict, predict / parent_predict),
        *(parent_peak, resident, peak, peak - resident),
        sum(part.nbytes for part in tables) / 2**30,
        min((float(part.share_kept.min()) for part in tables), default=1.0),
        float(row_losses(parent.predict_proba(queries), labels).mean()),
        float(row_losses(answer.probabilities, labels).mean()),
        *(float(out.mean()), save, load, size),
    )
    return cell._asdict() | dict(zip(FIGURES, figures, strict=True))


def tables_of(model: Any) -> tuple[str, str, list[Any]]:
    """The search by the parent's modes, that by hyperplanes ("" without any), and the tables."""
    reference = model.model_.reference
    search = "sampled" if isinstance(reference.index, SampledIndex) else "exact"
    planes, parts = "", [reference.votes.evidence]
    if reference.hyperplanes is not None:
        planes = "exact"
        if isinstance(reference.hyperplanes, QueryVotes):
            planes = "sampled"
            parts.append(reference.hyperplanes.evidence)
    tables = [part.tables for part in parts if part.tables is not None]
    return getattr(model, "search_", search), planes, tables


def run(cell: Cell) -> list[Row]:
    """The figures of a cell, in a process of its own."""
    print(f"{cell.parent}, {cell.n} rows ...", file=sys.stderr, flush=True)
    script = Path(__file__).with_name("scale.py")
    command = [sys.executable, str(script), "--one", *map(str, cell)]
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), str(cell.jobs))
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, env=os.environ | threads)
    return [json.loads(done.stdout)]


def exponent_of(rows: list[Row], key: str) -> float:
    """The e of the n^e that a column follows most nearly; NaN for a single size."""
    if len(rows) < 2:
        return np.nan
    n, values = ([row[k] for row in rows] for k in ("n", key))
    return float(np.polyfit(np.log(n), np.log(np.maximum(values, 1e-9)), 1)[0])


def growth(rows: list[Row]) -> list[Row]:
    """Exponents of one parent's rows, between successive sizes and overall."""
    parts = [rows[i : i + 2] for i in range(len(rows) - 1)]
    if len(parts) > 1:
        parts.append(rows)
    keys = ("parent_fit_s", "fit_s", "parent_predict_us", "predict_us", "beyond_GiB")
    return [
        {"parent": part[0]["parent"], "from": part[0]["n"], "to": part[-1]["n"]}
        | {key: exponent_of(part, key) for key in keys}
        for part in parts
    ]


def numbers(rows: Iterable[dict[str, str]]) -> list[Row]:
    """Rows of the CSV with numbers in place of their text, by size."""
    texts = {"parent", "wanted", "search", "planes"}
    counts = {"n", "jobs"}
    found = [
        {k: v if k in texts else int(v) if k in counts else float(v) for k, v in row.items()}
        for row in rows
    ]
    return sorted(found, key=lambda row: (PARENTS.index(row["parent"]), row["n"]))


def targets(rows: list[Row]) -> list[Row]:
    """What is wanted beside what one parent's rows, in the order of their sizes, have reached.

    A target for a million rows is not reached by what holds for fewer.
    """
    name, last = rows[0]["parent"], rows[-1]
    late = [row for row in rows if row["n"] >= FROM]
    slowest = max(rows, key=lambda row: row["predict_us"])
    wanted = [
        ("growth of fit", 1.1, rows, exponent_of(rows, "fit_s"), 0),
        ("growth of predict", 0.15, late, exponent_of(late, "predict_us"), 0),
        ("predict, microseconds a row", 100.0, [slowest], slowest["predict_us"], 0),
        ("memory beyond the parent's, GiB", 8.0, [last], last["beyond_GiB"], MILLION),
        ("load, s", 2.0, [last], last["load_s"], MILLION),
    ]
    if name in RATIOS:
        fit, predict = RATIOS[name]
        wanted += [
            ("fit / parent's fit", fit, [last], last["fit_ratio"], MILLION),
            ("predict / parent's predict", predict, [last], last["predict_ratio"], 0),
        ]
    lines = []
    for what, limit, used, value, least in wanted:
        sizes = " to ".join(str(n) for n in sorted({row["n"] for row in used[:1] + used[-1:]}))
        state = "reached" if last["n"] >= least else "holds so far"
        if np.isnan(value):
            state = "not measured"
        elif value > limit:
            state = "MISSED"
        line = {"parent": name, "target": what, "at most": limit, "found": value}
        lines.append(line | {"rows": sizes, "state": state})
    return lines
