"""A Dask worker that is killed while a model is fitted: the fit ends, with the same model.

    python -m stress.cluster --times 100

Two worker processes read the rows slowly; at a random moment one of them is killed, and its nanny
starts another. The answers must be those of a fit on one machine, to rounding.
"""

from __future__ import annotations

import argparse
import os
import signal
import threading
import time
from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator

from polycal import GeodesicCalibrator
from stress.watch import Tally, quiet

N_BLOCKS, N_ROWS, SECONDS = 16, 100, 0.05
TOLERANCE = 1e-9


def block(number: int) -> np.ndarray:
    """Rows of one partition."""
    return np.random.default_rng(number).normal(size=(N_ROWS, 5))


def labels(rows: np.ndarray) -> np.ndarray:
    """Their labels."""
    return (rows[:, 0] * rows[:, 1] + 0.3 * np.sin(40 * rows[:, 2]) > 0).astype(int)


def _slowly(block_id: Any) -> np.ndarray:
    time.sleep(SECONDS)
    return block(block_id[0])


def calibrator() -> GeodesicCalibrator:
    """A calibrator of a forest that was fitted on other rows."""
    rows = block(N_BLOCKS)
    forest = RandomForestClassifier(8, random_state=0).fit(rows, labels(rows))
    options = {"memory_limit": "50MiB", "n_hyperplanes": 64, "random_state": 0}
    return GeodesicCalibrator(FrozenEstimator(forest), calibration="holdout", **options)


def fit() -> GeodesicCalibrator:
    """A fit on the cluster of the current client."""
    import dask.array as da

    chunks = ((N_ROWS,) * N_BLOCKS, (5,))
    rows = da.map_blocks(_slowly, chunks=chunks, dtype=float, meta=np.empty((0, 5)))
    y = rows.map_blocks(labels, drop_axis=1, dtype=int, meta=np.empty(0, int))
    return calibrator().fit(rows, y)


def run(times: int, seed: int) -> Tally:
    """Kill a worker in each of so many fits."""
    from distributed import Client, LocalCluster

    whole = np.concatenate([block(k) for k in range(N_BLOCKS)])
    new, tally = block(N_BLOCKS + 1), Tally()
    with quiet(), LocalCluster(2, threads_per_worker=1, dashboard_address=None) as cluster:
        expected = calibrator().fit_batches([(whole, labels(whole))]).predict_proba(new)
        with Client(cluster) as client:
            fit()
            start = time.monotonic()
            fit()
            lasts = time.monotonic() - start
            for case in range(times):
                moment = np.random.default_rng([seed, case]).random() * lasts
                client.wait_for_workers(2)
                pids = sorted(client.run(os.getpid).values())
                killer = threading.Timer(moment, os.kill, (pids[case % 2], signal.SIGKILL))
                killer.start()
                what = f"worker {case} killed after {moment:.1f} of {lasts:.1f} s"
                try:
                    away = abs(fit().predict_proba(new) - expected).max()
                    outcome = "good" if away < TOLERANCE else "broken"
                    tally.add(outcome, f"{what}: {away} away")
                except Exception as error:
                    tally.add("broken", f"{what}: {error!r}")
                killer.join()
    return tally


def main() -> int:
    """Run the cases of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--times", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    return run(asked.times, asked.seed).report("Dask workers killed")


if __name__ == "__main__":
    raise SystemExit(main())
