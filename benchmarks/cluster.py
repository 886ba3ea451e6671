"""A fit on a Dask cluster: rows a second and peak memory of each worker, beside one process.

    python benchmarks/cluster.py out/cluster --picture docs/images/cluster.png

Rows are made on the fly, block by block, in the task that uses them: three classes of four clusters
in the first 10 of 20 columns, a fifth of the labels drawn at random. The parent is LightGBM, fitted
on other blocks and frozen. "equal" fits few rows on workers and by ``fit_batches``, and compares
the probabilities; "alone" is ``fit_batches`` in one process with the threads of all workers;
"workers" is the cluster. Figures go to FOLDER/cluster.csv. While a cell runs, FOLDER/progress.csv
gets a line a second: blocks made in both passes so far, and the memory of each process, so that a
run that is cut off has figures too. Memory is the peak that the system keeps of a process (VmHWM).
"""

from __future__ import annotations

import argparse
import csv
import multiprocessing
import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
from _record import Row, read, run_cells, table
from sklearn.frozen import FrozenEstimator

from polycal import GeodesicCalibrator

COLUMNS = (
    "kind",
    "rows",
    "wall_s",
    "first_pass_s",
    "rows_per_s",
    "peak_GiB",
    "client_GiB",
    "difference",
)
PACKAGES = ("lightgbm", "numba", "dask", "distributed")
SEED, N_FEATURES, N_INFORMATIVE, N_CLASSES, N_CLUSTERS = 0, 20, 10, 3, 4
# Blocks that the parent is fitted on, and new rows, have numbers beyond all others.
PARENT_BLOCK, NEW_BLOCK = 10**8, 2 * 10**8
NEW_ROWS, GIB = 2000, 2.0**30


class Cell(NamedTuple):
    kind: str  # "equal", "alone" or "workers"
    rows: int


def block_of_rows(number: int, n: int) -> np.ndarray:
    """Rows with their class as the last column; a number always gives the same."""
    shape = (N_CLASSES * N_CLUSTERS, N_INFORMATIVE)
    centres = 1.5 * np.random.default_rng(SEED).normal(size=shape)
    rng = np.random.default_rng([SEED, number])
    cluster = rng.integers(0, len(centres), n)
    rows = np.empty((n, N_FEATURES + 1))
    rows[:, :-1] = rng.normal(size=(n, N_FEATURES))
    rows[:, :N_INFORMATIVE] += centres[cluster]
    drawn = rng.integers(0, N_CLASSES, n)
    rows[:, -1] = np.where(rng.random(n) < 0.2, drawn, cluster % N_CLASSES)
    return rows


def made(number: int, n: int, log: str) -> np.ndarray:
    """A block, and a mark in a file that counts blocks."""
    with open(log, "ab") as file:
        file.write(b".")
    return block_of_rows(number, n)


def fitted_parent(n: int, jobs: int) -> object:
    from lightgbm import LGBMClassifier

    rows = block_of_rows(PARENT_BLOCK, n)
    parent = LGBMClassifier(n_estimators=100, n_jobs=jobs, random_state=SEED, verbose=-1)
    return parent.fit(rows[:, :-1], rows[:, -1].astype(int))


def peak(pid: int | str = "self") -> float:
    """Most memory that a process ever held, in GiB."""
    text = Path(f"/proc/{pid}/status").read_text()
    line = next(line for line in text.splitlines() if line.startswith("VmHWM"))
    return float(line.split()[1]) * 1024 / GIB


class Run:
    """The cells with the sizes of this start."""

    def __init__(self, args: argparse.Namespace):
        self.block, self.folder = args.block, args.folder
        self.workers, self.threads = args.workers, args.threads
        self.worker_memory, self.memory_limit = args.worker_memory, args.memory_limit
        self.parent_rows = args.parent_rows

    def __call__(self, cell: Cell) -> list[Row]:
        log = self.folder / f"{cell.kind}.blocks"
        log.write_bytes(b"")
        row: Row = {**cell._asdict(), "difference": ""}
        row |= self.alone(cell, log) if cell.kind == "alone" else self.cluster(cell, log)
        row["rows_per_s"] = round(cell.rows / row["wall_s"])
        return [row]

    def calibrator(self, parent: object, jobs: int | None = None) -> GeodesicCalibrator:
        return GeodesicCalibrator(
            FrozenEstimator(parent),
            calibration="holdout",
            memory_limit=self.memory_limit,
            random_state=SEED,
            n_jobs=jobs,
        )

    def sizes(self, n_rows: int) -> list[int]:
        full, rest = divmod(n_rows, self.block)
        return [self.block] * full + [rest] * (rest > 0)

    # ---------------------------------------------------------------- cluster

    def cluster(self, cell: Cell, log: Path) -> Row:
        from distributed import Client, LocalCluster

        parent = fitted_parent(self.parent_rows, self.threads)
        settings = {
            "n_workers": self.workers,
            "threads_per_worker": self.threads,
            "memory_limit": self.worker_memory,
            "processes": True,
            "dashboard_address": ":0",
        }
        with LocalCluster(**settings) as cluster, Client(cluster, timeout=60) as client:
            pids = sorted(client.run(os.getpid).values())
            n_blocks = len(self.sizes(cell.rows))
            with self.watched(cell, pids, log, n_blocks) as passes:
                start = time.perf_counter()
                model = self.calibrator(parent).fit(*self.collections(cell.rows, log))
                wall = time.perf_counter() - start
            # One that was started again after it ran out of memory would have another pid.
            assert sorted(client.run(os.getpid).values()) == pids, "a worker was lost"
            row = {"peak_GiB": " ".join(f"{peak(pid):.2f}" for pid in pids)}
        row |= {"wall_s": wall, "first_pass_s": passes[0] - start, "client_GiB": peak()}
        if cell.kind == "equal":
            row["difference"] = self.difference(model, parent, cell.rows, log)
        return row

    def collections(self, n_rows: int, log: Path) -> tuple[object, object]:
        import dask.array as da

        sizes, name = self.sizes(n_rows), str(log)

        def make(block_id: tuple[int, ...]) -> np.ndarray:
            return made(block_id[0], sizes[block_id[0]], name)

        chunks = (tuple(sizes), (N_FEATURES + 1,))
        meta = np.empty((0, N_FEATURES + 1))
        rows = da.map_blocks(make, chunks=chunks, dtype=float, meta=meta)
        return rows[:, :-1], rows[:, -1].astype(int)

    def difference(
        self, model: GeodesicCalibrator, parent: object, n_rows: int, log: Path
    ) -> float:
        """Largest difference to the probabilities of ``fit_batches``."""
        other = self.calibrator(parent, self.threads).fit_batches(self.batches(n_rows, log))
        new = block_of_rows(NEW_BLOCK, NEW_ROWS)[:, :-1]
        return float(np.abs(model.predict_proba(new) - other.predict_proba(new)).max())

    # ------------------------------------------------------------ one process

    def batches(self, n_rows: int, log: Path) -> object:
        def begin() -> Iterator[tuple[np.ndarray, np.ndarray]]:
            for number, n in enumerate(self.sizes(n_rows)):
                rows = made(number, n, str(log))
                yield rows[:, :-1], rows[:, -1].astype(int)

        return begin

    def alone(self, cell: Cell, log: Path) -> Row:
        """In a process of its own, whose memory is that of the fit."""
        spawn = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(1, mp_context=spawn) as pool:
            pid = pool.submit(os.getpid).result()
            n_blocks = len(self.sizes(cell.rows))
            with self.watched(cell, [pid], log, n_blocks) as passes:
                start, wall, most = pool.submit(self.fit_alone, cell.rows, log).result()
        # The clock is that of the system, the same for all processes.
        return {
            "wall_s": wall,
            "first_pass_s": passes[0] - start,
            "peak_GiB": f"{most:.2f}",
            "client_GiB": "",
        }

    def fit_alone(self, n_rows: int, log: Path) -> tuple[float, float, float]:
        jobs = self.workers * self.threads
        parent = fitted_parent(self.parent_rows, jobs)
        start = time.perf_counter()
        self.calibrator(parent, jobs).fit_batches(self.batches(n_rows, log))
        return start, time.perf_counter() - start, peak()

    # ---------------------------------------------------------------- watched

    @contextmanager
    def watched(self, cell: Cell, pids: list[int], log: Path, n_blocks: int) -> Iterator[list]:
        """Write a line a second while the body runs; yield when the first pass was over."""
        stop, passes = threading.Event(), [np.nan]

        def watch(writer: csv.writer, file: object, begin: float) -> None:
            while not stop.wait(1.0):
                n_made, now = log.stat().st_size, time.perf_counter()
                if n_made >= n_blocks and np.isnan(passes[0]):
                    passes[0] = now
                now_GiB = " ".join(f"{resident(pid):.2f}" for pid in pids)
                peaks = " ".join(f"{peak(pid):.2f}" for pid in pids)
                line = cell.kind, cell.rows, round(now - begin, 1), n_made, n_blocks
                writer.writerow([*line, now_GiB, peaks])
                file.flush()

        path = self.folder / "progress.csv"
        with path.open("a", newline="") as file:
            writer = csv.writer(file)
            if file.tell() == 0:
                names = "kind rows seconds blocks_made blocks_of_a_pass now_GiB peak_GiB"
                writer.writerow(names.split())
            where = (writer, file, time.perf_counter())
            thread = threading.Thread(target=watch, args=where, daemon=True)
            thread.start()
            try:
                yield passes
            finally:
                stop.set()
                thread.join(timeout=10)


def resident(pid: int) -> float:
    """Memory that a process holds now, in GiB; 0 if it has ended."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except OSError:
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / GIB


def summary(rows: list[dict[str, str]]) -> str:
    shown = (
        ("kind", "", str),
        ("rows", "", lambda text: f"{int(text):,}"),
        ("wall_s", "wall time, s", lambda text: f"{float(text):.0f}"),
        ("rows_per_s", "rows a second", lambda text: f"{int(text):,}"),
        ("peak_GiB", "peak of each process, GiB", str),
        ("difference", "largest difference", lambda text: f"{float(text):.1e}" if text else ""),
    )
    return table([{label or key: how(row[key]) for key, label, how in shown} for row in rows])


def draw(rows: list[dict[str, str]], picture: Path) -> None:
    """Wall time and peak memory against the number of rows."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import EngFormatter, NullFormatter

    from polycal.plotting.style import COLORS, SMALL

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
    names = {"alone": "one process, fit_batches", "workers": "cluster"}
    for i, (kind, name) in enumerate(names.items()):
        some = sorted(
            (row for row in rows if row["kind"] == kind), key=lambda row: int(row["rows"])
        )
        at = [int(row["rows"]) for row in some]
        style = {"color": COLORS[i], "label": name, "marker": "o"}
        left.plot(at, [float(row["wall_s"]) for row in some], **style)
        most = [max(map(float, row["peak_GiB"].split())) for row in some]
        right.plot(at, most, **style)
    left.set(xlabel="rows", ylabel="wall time of the fit (s)", xscale="log", yscale="log")
    right.set(xlabel="rows", ylabel="peak memory of a process (GiB)", xscale="log", ylim=(0, None))
    for ax in (left, right):
        ax.set_xticks(sorted({int(row["rows"]) for row in rows if row["kind"] in names}))
        ax.xaxis.set_major_formatter(EngFormatter(sep=""))
        ax.xaxis.set_minor_formatter(NullFormatter())
        ax.legend(fontsize=SMALL, frameon=False)
    left.yaxis.set_major_formatter(EngFormatter())
    left.yaxis.set_minor_formatter(NullFormatter())
    left.set_yticks([10, 30, 100, 300, 1000])
    figure.savefig(picture, dpi=130)


def whole_numbers(text: str) -> list[int]:
    return [int(word) for word in text.split(",") if word]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("folder", type=Path, help="gets cluster.csv, cluster.json, progress.csv")
    parser.add_argument("--picture", type=Path)
    parser.add_argument("--rows", type=whole_numbers, default=[50_000_000], help="1,2,...")
    parser.add_argument("--alone-rows", type=whole_numbers, default=[2_000_000], help="1,2,...")
    parser.add_argument("--equal-rows", type=int, default=200_000)
    parser.add_argument("--block", type=int, default=100_000, help="rows of a partition")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--threads", type=int, default=8, help="of a worker")
    parser.add_argument("--worker-memory", default="4GiB")
    parser.add_argument("--memory-limit", default="512MiB", help="of the model")
    parser.add_argument("--parent-rows", type=int, default=100_000)
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    cells = [Cell("equal", args.equal_rows)] if args.equal_rows else []
    cells += [Cell("alone", n) for n in args.alone_rows] + [Cell("workers", n) for n in args.rows]
    named = ("block", "workers", "threads", "worker_memory", "memory_limit", "parent_rows")
    settings = {"seed": SEED, **{name: getattr(args, name) for name in named}}
    out = args.folder / "cluster.csv"
    run_cells(Run(args), cells, out, COLUMNS, 1, settings, PACKAGES)
    rows = read(out)
    print(summary(rows))
    if args.picture is not None:
        draw(rows, args.picture)


if __name__ == "__main__":
    main()
