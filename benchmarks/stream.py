"""A stream of batches: what a batch costs, how good the answers are, and what a drift does.

    python benchmarks/stream.py out/stream.csv --picture docs/images/stream.png

The parent is LightGBM with 200 rounds, fitted on other rows of the same kind and frozen. Each batch
is answered before it is learned. At three checkpoints the same batch is also answered by a model
that is fitted anew, without the stream, on all rows so far (``calibration="holdout"``). In the
drift, classes change places in the middle. Times are CPU time; those of a new calibration, which
comes with every fifth more rows, are counted in ``cpu_s`` and also shown apart.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from _record import Row, read, run_cells, table
from sklearn.datasets import make_classification
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import log_loss

from polycal import GeodesicCalibrator
from polycal.metrics import expected_calibration_error
from polycal.plotting.style import COLORS, GREY, SMALL

COLUMNS = (
    "kind",
    "half_life",
    "batch",
    "n_seen",
    "cpu_s",
    "calibrated",
    "memory_MiB",
    "loss",
    "ece",
    "parent_loss",
    "anew_loss",
    "anew_ece",
)
PACKAGES = ("lightgbm", "numba", "pandas")
SEED, N_FEATURES = 0, 20
# Batches beside which a model is fitted anew, as shares of all.
CHECKPOINTS = (0.25, 0.5, 1.0)


class Cell(NamedTuple):
    kind: str  # "growth" or "drift"
    half_life: str  # "none", or rows


def make_rows(n: int) -> tuple[np.ndarray, np.ndarray]:
    """As those of ``scale.py``."""
    return make_classification(
        n,
        n_features=N_FEATURES,
        n_informative=10,
        n_classes=3,
        class_sep=0.8,
        flip_y=0.2,
        random_state=SEED,
    )


class Run:
    """The cells with the sizes of this start."""

    def __init__(self, args: argparse.Namespace):
        self.batches, self.rows, self.parent_rows = args.batches, args.rows, args.parent_rows
        self.drift_batches, self.drift_rows = args.drift_batches, args.drift_rows
        self.jobs = args.jobs

    def __call__(self, cell: Cell) -> list[Row]:
        drift = cell.kind == "drift"
        n_batches = self.drift_batches if drift else self.batches
        n_rows = self.drift_rows if drift else self.rows
        # One batch more: the last checkpoint is on rows after all others.
        X, y = make_rows(self.parent_rows + (n_batches + 1) * n_rows)
        parent = fitted_parent(X[: self.parent_rows], y[: self.parent_rows], self.jobs)
        X, y = X[self.parent_rows :], y[self.parent_rows :]
        if drift:
            after = np.arange(len(y)) >= n_batches // 2 * n_rows
            y = np.where(after, (y + 1) % 3, y)
        half_life = None if cell.half_life == "none" else float(cell.half_life)
        model = self.calibrator(parent, half_life)
        checkpoints = set() if drift else {round(share * n_batches) for share in CHECKPOINTS}
        return list(self.stream(cell, model, parent, X, y, n_rows, checkpoints))

    def calibrator(self, parent: object, half_life: float | None = None) -> GeodesicCalibrator:
        return GeodesicCalibrator(
            FrozenEstimator(parent),
            calibration="holdout",
            half_life=half_life,
            random_state=SEED,
            n_jobs=self.jobs,
        )

    def stream(
        self,
        cell: Cell,
        model: GeodesicCalibrator,
        parent: object,
        X: np.ndarray,
        y: np.ndarray,
        n_rows: int,
        checkpoints: set[int],
    ) -> Iterator[Row]:
        for batch in range(len(y) // n_rows):
            some, before = slice(batch * n_rows, (batch + 1) * n_rows), vars(model).get("model_")
            row: Row = {**cell._asdict(), "batch": batch, "n_seen": some.start}
            if before is not None:
                row |= quality(model, X[some], y[some])
                row["parent_loss"] = log_loss(y[some], parent.predict_proba(X[some]))
            if batch in checkpoints:
                anew = self.calibrator(parent).fit(X[: some.start], y[: some.start])
                row |= {f"anew_{k}": v for k, v in quality(anew, X[some], y[some]).items()}
                del anew
            start = time.process_time()
            model.partial_fit(X[some], y[some])
            row["cpu_s"] = time.process_time() - start
            row["calibrated"] = int(vars(model).get("model_") is not before)
            row["memory_MiB"] = memory_of(model)
            yield row


def fitted_parent(X: np.ndarray, y: np.ndarray, jobs: int) -> object:
    from lightgbm import LGBMClassifier

    parent = LGBMClassifier(n_estimators=200, n_jobs=jobs, random_state=SEED, verbose=-1)
    return parent.fit(X, y)


def quality(model: GeodesicCalibrator, X: np.ndarray, y: np.ndarray) -> Row:
    P = model.predict_proba(X)
    return {"loss": log_loss(y, P), "ece": expected_calibration_error(y, P)}


def memory_of(model: GeodesicCalibrator) -> float:
    """Of all arrays that a stream keeps, in MiB."""
    stream = model.stream_
    total = float(stream.reservoir.X.nbytes + stream.reservoir.modes.codes.nbytes)
    kernels = [stream.parent] + ([stream.hyperplanes] if stream.hyperplanes else [])
    for kernel in kernels:
        stored = kernel.stored
        total += kernel.tables.nbytes + stored.values.nbytes + stored.modes.codes.nbytes
    if "model_" in vars(model):
        total += sum(found.near.nbytes for found in model.model_.reference.streamed)
    return total / 2**20


def numbers(rows: list[dict[str, str]], kind: str, half_life: str | None = None) -> list[Row]:
    """Rows of one cell as numbers, NaN where there is none."""
    return [
        {name: float(row[name]) if row[name] else np.nan for name in COLUMNS[2:]}
        for row in rows
        if row["kind"] == kind and half_life in (None, row["half_life"])
    ]


def summary(rows: list[dict[str, str]]) -> str:
    growth = numbers(rows, "growth")
    cpu = np.array([row["cpu_s"] for row in growth])
    plain = np.array([row["cpu_s"] for row in growth if not row["calibrated"]])
    lines = [
        f"CPU time of the last ten batches by that of the first ten: {cpu[-10:].sum():.2f} s / "
        f"{cpu[:10].sum():.2f} s = {cpu[-10:].sum() / cpu[:10].sum():.2f}; without those that "
        f"calibrated: {np.mean(plain[-10:]) / np.mean(plain[:10]):.2f}",
        f"memory of the stream: at most {max(row['memory_MiB'] for row in growth):.0f} MiB",
        table(
            [
                {
                    "rows so far": int(row["n_seen"]),
                    "log-loss": row["loss"],
                    "fitted anew": row["anew_loss"],
                    "ECE": row["ece"],
                    "ECE, fitted anew": row["anew_ece"],
                    "parent": row["parent_loss"],
                }
                for row in growth
                if not np.isnan(row["anew_loss"])
            ]
        ),
    ]
    return "\n\n".join(lines)


def draw(rows: list[dict[str, str]], picture: Path) -> None:
    """What a batch costs, and log-loss on each next batch around the drift."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
    growth = numbers(rows, "growth")
    for calibrated, name in ((0, "a batch"), (1, "with a new calibration")):
        some = [row for row in growth if row["calibrated"] == calibrated]
        at, cost = [row["n_seen"] for row in some], [row["cpu_s"] for row in some]
        left.plot(at, cost, ".", color=COLORS[calibrated], label=name, markersize=5)
    left.set(xlabel="rows so far", ylabel="CPU time (s)", ylim=(0, None))
    left.set_title("What a batch costs", fontsize=SMALL + 2)
    kinds = sorted({row["half_life"] for row in rows if row["kind"] == "drift"}, reverse=True)
    for i, half_life in enumerate(kinds):
        some = numbers(rows, "drift", half_life)
        name = "all rows count alike" if half_life == "none" else f"half-life {half_life} rows"
        at, loss = [row["n_seen"] for row in some], [row["loss"] for row in some]
        right.plot(at, loss, color=COLORS[i], label=name)
    some = numbers(rows, "drift")
    middle = np.median([row["n_seen"] for row in some])
    right.axvline(middle, color=GREY, linestyle=":", linewidth=1)
    right.set(xlabel="rows so far", ylabel="log-loss of the next batch", ylim=(0, 2.5))
    right.set_title("Classes change places in the middle", fontsize=SMALL + 2)
    for ax in (left, right):
        ax.legend(fontsize=SMALL, frameon=False)
        ax.ticklabel_format(axis="x", style="plain")
    figure.savefig(picture, dpi=130)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("out", type=Path, help="CSV that the rows are appended to")
    parser.add_argument("--picture", type=Path)
    parser.add_argument("--batches", type=int, default=200)
    parser.add_argument("--rows", type=int, default=5000, help="of a batch")
    parser.add_argument("--parent-rows", type=int, default=100_000)
    parser.add_argument("--drift-batches", type=int, default=60)
    parser.add_argument("--drift-rows", type=int, default=1000, help="of a batch")
    parser.add_argument("--half-life", type=int, default=5000, help="in rows")
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    args.out.parent.mkdir(parents=True, exist_ok=True)
    cells = [Cell("drift", "none"), Cell("drift", str(args.half_life)), Cell("growth", "none")]
    named = ("batches", "rows", "parent_rows", "drift_batches", "drift_rows", "jobs")
    settings = {"seed": SEED, **{name: getattr(args, name) for name in named}}
    run_cells(Run(args), cells, args.out, COLUMNS, 1, settings, PACKAGES)
    rows = read(args.out)
    print(summary(rows))
    if args.picture is not None:
        draw(rows, args.picture)


if __name__ == "__main__":
    main()
