"""Log-loss on data sets that are easy, where a peer has little left to win, beside more peers.

python benchmarks/easy_sets.py FOLDER OUT.csv [--sets LIST] [--jobs 2] [--only TEXT] [--quick]

The hold-out protocol of quality.py: a parent is fitted on 70 % of the training rows, and every
method gets it with the same other 30 %. A cell is a data set of FOLDER (or of those that the file
LIST names), a parent and a seed. Peers beside scikit-learn's come with `pip install
'polycal[benchmarks]'`, and one that is not installed is left out: probmetrics' logistic scaling
(structured matrix scaling, affine for two classes) and temperature scaling with a mixture,
Venn-Abers (one against one and one against the rest), and beta calibration (one against the rest,
normalised). Zeros of a forest cost those that take logarithms much, so they also run with "cut"
probabilities, none below half a vote of 300 trees. A set is easy for a parent where the best
calibrator's log-loss, mean over the seeds, is below 0.15. Wanted, in the mean over these: a
log-loss no higher than that of the best single peer, chosen with hindsight, which favours the peer.
"""

from __future__ import annotations

import argparse
import time
import warnings
from functools import partial
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
from _parents import make_parent
from _peers import EXTRA_PEERS, installed
from _protocol import MAX_ROWS, find_sets, load, scores, split
from _protocol import PEERS as SKLEARN_PEERS
from _record import ONLY, Row, chosen, mean_and_error, run_cells, table
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator

from polycal import GeodesicCalibrator

PARENTS = ("forest", "lightgbm", "mlp")
SEEDS = (0, 1, 2)
EASY = 0.15
FIGURES = ("log_loss", "brier", "ece", "error")
COLUMNS = ("data", "parent", "seed", "method", *FIGURES, "seconds")


class Cell(NamedTuple):
    data: str
    parent: str
    seed: int


def run(cell: Cell, folder: Path, max_rows: int, extra: list[str]) -> list[Row]:
    warnings.simplefilter("ignore")  # networks that stop before they converge
    X, y = load(folder / f"{cell.data}.npz", np.random.default_rng(cell.seed), max_rows)
    X_fit, y_fit, X_cal, y_cal, X_test, y_test = split(X, y, cell.seed)
    parent = make_parent(cell.parent, cell.seed).fit(X_fit, y_fit)
    frozen = FrozenEstimator(parent)

    def with_sklearn(method: str) -> np.ndarray:
        peer = CalibratedClassifierCV(frozen, method=method)
        return peer.fit(X_cal, y_cal).predict_proba(X_test)

    def with_extra(name: str) -> np.ndarray:
        return EXTRA_PEERS[name][1](
            parent.predict_proba(X_cal), y_cal, parent.predict_proba(X_test)
        )

    def with_polycal() -> np.ndarray:
        model = GeodesicCalibrator(frozen, random_state=cell.seed)
        return model.fit(X_fit, y_fit, X_cal=X_cal, y_cal=y_cal).predict_proba(X_test)

    methods = {"parent": lambda: parent.predict_proba(X_test)}
    methods |= {name: partial(with_sklearn, name) for name in SKLEARN_PEERS}
    methods |= {name: partial(with_extra, name) for name in extra}
    methods["polycal"] = with_polycal
    rows = []
    for name, predict in methods.items():
        start = time.perf_counter()
        P = np.asarray(predict(), dtype=float)
        seconds = round(time.perf_counter() - start, 2)
        if not np.isfinite(P).all():
            raise ValueError(f"{name} gives probabilities that are not finite")
        found = scores(P, y_test)
        figures = (found[figure] for figure in FIGURES)
        rows.append(dict(zip(COLUMNS, (*cell, name, *figures, seconds), strict=True)))
    return rows


def means(rows: list[dict[str, str]], parent: str, figure: str) -> dict[str, dict[str, float]]:
    """Method -> set -> mean over the seeds."""
    found: dict[str, dict[str, list[float]]] = {}
    for row in rows:
        if row["parent"] == parent:
            values = found.setdefault(row["method"], {}).setdefault(row["data"], [])
            values.append(float(row[figure]))
    return {m: {s: float(np.mean(v)) for s, v in sets.items()} for m, sets in found.items()}


def report(rows: list[dict[str, str]], parent: str) -> None:
    """Print which sets are easy for a parent, and polycal on them beside the best single peer."""
    loss = means(rows, parent, "log_loss")
    calibrators = [method for method in loss if method != "parent"]
    sets = loss["polycal"]
    easy = [name for name in sets if min(loss[method][name] for method in calibrators) < EASY]
    print(f"\n## {parent}: {len(easy)} of {len(sets)} sets are easy: {', '.join(easy)}\n")
    if not easy:
        return
    lines = []
    for method in loss:
        line: Row = {"method": method}
        for figure in FIGURES:
            values = means(rows, parent, figure)[method]
            line[figure] = float(np.mean([values[name] for name in easy]))
        line["log_loss, all sets"] = float(np.mean(list(loss[method].values())))
        lines.append(line)
    print(table(lines))
    peers = {line["method"]: line["log_loss"] for line in lines if line["method"] != "parent"}
    ours = peers.pop("polycal")
    best = min(peers, key=peers.__getitem__)
    differences = {name: sets[name] - loss[best][name] for name in easy}
    mean, error = mean_and_error(differences.values())
    verdict = "Reached" if ours <= peers[best] else "Missed"
    print(f"\npolycal - best single peer ({best}): {mean:.4f} ± {error:.4f}. {verdict}.")
    worse = [name for name in sorted(easy, key=differences.__getitem__) if differences[name] > 0]
    print(f"Above it on {len(worse)} of {len(easy)} easy sets:\n")
    print(
        table(
            [
                {"set": name, "polycal": sets[name], best: loss[best][name]}
                | {"difference": differences[name]}
                for name in reversed(worse)
            ]
        )
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--sets", type=Path, help="file that lists the sets to run")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--only", default="", help=ONLY)
    parser.add_argument("--quick", action="store_true", help="500 rows, the forest, seed 0")
    args = parser.parse_args()
    extra = installed(EXTRA_PEERS)
    sets = sorted(find_sets(args.folder, args.sets), key=lambda path: path.stat().st_size)
    parents, seeds = (PARENTS[:1], SEEDS[:1]) if args.quick else (PARENTS, SEEDS)
    max_rows = 500 if args.quick else MAX_ROWS
    cells = [Cell(path.stem, parent, seed) for seed, parent, path in product(seeds, parents, sets)]
    rows = run_cells(
        partial(run, folder=args.folder, max_rows=max_rows, extra=extra),
        chosen(cells, args.only),
        args.out,
        COLUMNS,
        args.jobs,
        {"max_rows": max_rows, "seeds": seeds, "extra peers": extra},
        ["lightgbm", "probmetrics", "venn-abers", "betacal", "torch"],
    )
    for parent in PARENTS:
        if any(row["parent"] == parent for row in rows):
            report(rows, parent)


if __name__ == "__main__":
    main()
