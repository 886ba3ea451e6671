"""The OpenML-CC18 study: KDF and KDN beside parent and recalibrators, in and out of distribution.

python -m studies.openml_cc18 [--quick] [--parents forest network] [--sets NAME ...]

Every cell fits one parent on 70 % of n training rows and gives the other 30 % to every method.
polycal runs with its defaults, on every set and for every figure alike.
"""

from __future__ import annotations

import sys
import warnings

import numpy as np

from benchmarks._protocol import PEERS
from polycal import PAPER, GeodesicCalibrator

from ._cc18_report import draw
from ._runner import Cell, Options, Study, main
from ._tabular import Problem, add_flags, chosen_sets, recalibrator, training_rows
from ._variants import chosen_parents, parent_settings

SMALLEST_N = 100
OURS = {"polycal": {}, "polycal PAPER": PAPER}


def cells(options: Options) -> list[Cell]:
    """Three sample sizes of each set, the longest first within a repetition."""
    found = []
    for name in chosen_sets(options):
        rows = training_rows(name, options)
        grid = np.geomspace(SMALLEST_N, min(rows, 400) if options.quick else rows, 3)
        for place, n in enumerate(np.round(grid).astype(int).tolist()):
            found += [
                {"data": name, "parent": parent, "size": place, "n": n, "rep": rep}
                for parent in chosen_parents(options)
                for rep in options.repeat(10)
            ]
    return sorted(found, key=lambda cell: (cell["rep"], -cell["n"]))


def run(cell: Cell, options: Options) -> list[dict]:
    warnings.simplefilter("ignore")  # isotonic and sigmoid on classes of few rows
    seed = options.seed_of(data=cell["data"], rep=cell["rep"])
    problem = Problem.make(cell["data"], options, seed, cell["n"])
    parent, source = problem.fit_parent(cell["parent"], options, seed)
    P_cal, P = parent.predict_proba(problem.X_cal), parent.predict_proba(problem.queries)
    found = {"parent": problem.figures(P)}
    for method in PEERS:
        found[method] = problem.figures(recalibrator(method, P_cal, problem.y_cal)(P))
    for method, setting in OURS.items():
        model = GeodesicCalibrator(source, **setting)
        model.fit(problem.X_fit, problem.y_fit, X_cal=problem.X_cal, y_cal=problem.y_cal)
        found[method] = problem.figures(model.predict_proba(problem.queries))
        alarms = model.score_samples(problem.X_test) < model.out_floor_
        found[method]["false alarms"] = float(alarms.mean())
    return [
        {"method": method, "metric": metric, "value": value}
        for method, figures in found.items()
        for metric, value in figures.items()
    ]


TITLE = "KDF and KDN on the OpenML-CC18 sets, beside the parent and three recalibrators."
STUDY = Study("openml_cc18", TITLE, cells, run, draw, settings=parent_settings, flags=add_flags)

if __name__ == "__main__":
    sys.exit(main(STUDY))
