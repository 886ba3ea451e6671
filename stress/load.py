"""Many answers from one model: threads, processes, and a million rows one by one.

    python -m stress.load --rows 1000000

Every answer must be equal to the bit to the one that the model gives alone, and memory must not
grow.
"""

from __future__ import annotations

import argparse
import pickle
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.neural_network import MLPClassifier

import polycal
from polycal import GeodesicCalibrator
from stress.watch import Tally, quiet

# Memory that single predictions may take beside what the first ones took, in bytes.
GROWTH = 20 << 20
WARM_UP = 2000
N_THREADS, N_PROCESSES = 8, 2
PARENTS: dict[str, Callable[[], Any]] = {
    "forest": lambda: RandomForestClassifier(20, random_state=0),
    "boosting": lambda: HistGradientBoostingClassifier(max_iter=10, random_state=0),
    "network": lambda: MLPClassifier((16, 8), max_iter=30, random_state=0),
}


def data() -> tuple[np.ndarray, np.ndarray]:
    """Rows and labels."""
    found = make_classification(600, n_features=5, n_informative=4, n_redundant=0, random_state=0)
    return found[0], found[1]


def fitted(parent: str, **options: Any) -> GeodesicCalibrator:
    """A fitted model."""
    with quiet():
        model = GeodesicCalibrator(
            PARENTS[parent](), calibration="holdout", random_state=0, **options
        )
        return model.fit(*data())


def threads(path: Path, times: int) -> Tally:
    """Threads that ask a model which nobody has asked before: the first answer fills its caches."""
    X, tally = data()[0], Tally()
    expected = polycal.load(path).predict_proba(X)
    for number in range(times):
        model = polycal.load(path)
        parts = np.array_split(np.random.default_rng(number).permutation(len(X)), N_THREADS)

        def ask(rows: np.ndarray, model: Any = model) -> bool:
            return np.array_equal(model.predict_proba(X[rows]), expected[rows])

        with quiet(), ThreadPoolExecutor(N_THREADS) as pool:
            same = list(pool.map(ask, parts))
        tally.add("good" if all(same) else "broken", f"threads {path.name} {number}: {same}")
    return tally


def _asked(model: Any) -> np.ndarray:
    with quiet():
        found: np.ndarray = model.predict_proba(data()[0])
    return found


def processes(model: GeodesicCalibrator, times: int) -> Tally:
    """Forked and spawned processes that ask a fitted model."""
    tally, expected = Tally(), _asked(model)
    for method in ("fork", "spawn"):
        for number in range(times):
            with get_context(method).Pool(N_PROCESSES) as pool:
                jobs = [pool.apply_async(_asked, (model,)) for _ in range(N_PROCESSES)]
                found = [job.get(timeout=120) for job in jobs]
            same = all(np.array_equal(answer, expected) for answer in found)
            tally.add("good" if same else "broken", f"{method} {number}")
    return tally


def in_threads_of_a_fork(model: GeodesicCalibrator) -> bool:
    """Whether a model that has used its threads answers in a fork with threads."""
    model.n_jobs = 2
    expected = _asked(model)
    with get_context("fork").Pool(1) as pool:
        return np.array_equal(pool.apply_async(_asked, (model,)).get(timeout=120), expected)


def interrupted(path: Path, times: int) -> Tally:
    """Ctrl-C at random moments of a prediction; the same model must then answer as before."""
    X, tally = data()[0], Tally()
    model = polycal.load(path)
    expected = _asked(model)
    start = time.perf_counter()
    _asked(model)
    lasts = time.perf_counter() - start
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        for number in range(times):
            moment = np.random.default_rng(number).random() * lasts
            try:
                with quiet():
                    signal.setitimer(signal.ITIMER_REAL, max(moment, 1e-6))
                    model.predict_proba(X)
                    signal.setitimer(signal.ITIMER_REAL, 0)
                word = "good"
            except KeyboardInterrupt:
                word = "good"
            except SystemError as error:  # at the edge of a compiled function
                word = "good" if isinstance(error.__cause__, KeyboardInterrupt) else "broken"
            same = np.array_equal(_asked(model), expected)
            tally.add(word if same else "broken", f"interrupted {number}: equal after it: {same}")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    return tally


def signalled(path: Path, times: int) -> Tally:
    """Signals that are handled, up to a thousand a second, while threads ask for answers."""
    X, tally, n_signals = data()[0], Tally(), 0
    expected = polycal.load(path).predict_proba(X)

    def count(*_: object) -> None:
        nonlocal n_signals
        n_signals += 1

    before = signal.signal(signal.SIGALRM, count)
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    try:
        for number in range(times):
            model = polycal.load(path)
            with quiet(), ThreadPoolExecutor(N_THREADS) as pool:
                jobs = [pool.submit(model.predict_proba, X) for _ in range(N_THREADS)]
                same = all(np.array_equal(job.result(), expected) for job in jobs)
            tally.add("good" if same else "broken", f"signals {number}")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    if not n_signals:
        tally.add("broken", "no signal came")
    print(f"{n_signals} signals", flush=True)
    return tally


def resident() -> int:
    """Memory of this process in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def singles(model: GeodesicCalibrator, n_rows: int) -> tuple[int, float, bool]:
    """Growth in bytes, seconds a row, and whether all answers are those of the whole table."""
    X = data()[0]
    expected, same = _asked(model), True
    with quiet():
        for i in range(WARM_UP):
            model.predict_proba(X[i % len(X)][None])
        before, start = resident(), time.perf_counter()
        for i in range(n_rows):
            row = i % len(X)
            same &= np.array_equal(model.predict_proba(X[row : row + 1])[0], expected[row])
        seconds = (time.perf_counter() - start) / max(n_rows, 1)
    return resident() - before, seconds, bool(same)


NO_NETWORK = """
import socket, sys
def refuse(*arguments, **options):
    raise OSError("the network was asked for")
socket.socket.connect = socket.socket.connect_ex = socket.getaddrinfo = refuse
socket.create_connection = socket.gethostbyname = refuse
import numpy as np, polycal, warnings
warnings.simplefilter("ignore")
from sklearn.ensemble import RandomForestClassifier
X = np.random.default_rng(0).normal(size=(200, 3)); y = (X[:, 0] > 0).astype(int)
model = polycal.GeodesicCalibrator(RandomForestClassifier(10, random_state=0), random_state=0)
model.fit(X[:150], y[:150]).save(sys.argv[1] + "/m")
model = polycal.load(sys.argv[1] + "/m")
polycal.evaluate({"polycal": model}, X[150:], y[150:])
polycal.report(model, X[150:], y[150:], path=sys.argv[1] + "/r.html")
from polycal.datasets import load_loans
load_loans()
print(len(model.predict_proba(X)))
"""


def without_network(folder: Path) -> str:
    """What a program prints that fits, saves, loads, evaluates and reports without a network."""
    done = subprocess.run(
        [sys.executable, "-c", NO_NETWORK, str(folder)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return done.stdout.strip() or done.stderr.strip()[-500:]


def main() -> int:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000, help="single-row predictions")
    parser.add_argument("--times", type=int, default=100, help="times that threads ask at once")
    parser.add_argument("--parent", choices=PARENTS, action="append")
    asked = parser.parse_args()
    total = Tally()
    with tempfile.TemporaryDirectory() as folder:
        for name in asked.parent or PARENTS:
            model, path = fitted(name), Path(folder) / name
            model.save(path)
            of_threads = threads(path, asked.times)
            of_threads.report(f"{name}, {N_THREADS} threads")
            of_processes = processes(pickle.loads(pickle.dumps(model)), max(asked.times // 20, 1))
            of_processes.report(f"{name}, {N_PROCESSES} processes by fork and by spawn")
            for what, try_it in (("Ctrl-C", interrupted), ("signals", signalled)):
                of_signals = try_it(path, asked.times)
                of_signals.report(f"{name}, {what}")
                total.join(of_signals)
            total.join(of_threads)
            total.join(of_processes)
            grown, seconds, same = singles(model, asked.rows)
            good = same and grown < GROWTH
            total.add("good" if good else "broken", f"{name}: {grown} bytes, equal: {same}")
            print(
                f"{name}, {asked.rows} single rows: {grown / 2**20:.1f} MiB more, "
                f"{1e6 * seconds:.0f} us each, equal to the table's: {same}",
                flush=True,
            )
        said = without_network(Path(folder))
        total.add("good" if said == "200" else "broken", f"without a network: {said}")
    return total.report("load")


if __name__ == "__main__":
    raise SystemExit(main())
