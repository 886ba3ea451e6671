"""What each decision of polycal is worth: its defaults with one of them changed at a time.

python -m studies.ablation [--quick] [--parents forest network] [--sets NAME ...]

On the numeric OpenML-CC18 sets, at most 1000 training rows: 70 % fit the parent, 30 % calibrate.
The random numbers are not those of openml_cc18, so that no default is chosen by the runs that
report it. Beside the figures of that study:

false alarms          share of test rows below the floor;
AUROC shuffled        of log f, test rows against test rows with every column shuffled;
AUROC classes         the same against the rows of a fifth of the classes, held out of everything
                      (sets of 3 and more classes);
trusted shuffled, trusted classes   share of those rows above the floor.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmarks._protocol import MAX_TEST, load, split
from polycal import GeodesicCalibrator
from polycal.metrics import auroc
from polycal.plotting.style import BLUE, GREY

from . import _hooks
from ._figures import new_figure, save
from ._runner import Cell, Options, Study, main, write_atomically
from ._tabular import Problem, add_flags, chosen_sets, training_rows
from ._variants import MODELS, PARENTS, chosen_parents, parent_settings
from .data import available, cache

MAX_TRAIN = 1000


@dataclass(frozen=True)
class Change:
    """One decision taken otherwise: parameters, or a hook for what has none."""

    parameters: dict[str, Any] = field(default_factory=dict)
    hook: Callable[[], AbstractContextManager] = nullcontext
    shapes_gate: bool = True  # whether log f or the floor can differ
    parents: tuple[str, ...] = PARENTS


CHANGES = {
    "default": Change(),
    "floor as printed, log b = -1e-7": Change({"floor": -1e-7}),
    "floor log b = -10": Change({"floor": -10.0}),
    "gate gaussian": Change({"gate": "gaussian"}),
    "bandwidth polytope": Change({"bandwidth": "polytope"}),
    "distance euclidean": Change({"distance": "euclidean"}),
    "one neighbour": Change({"n_neighbors": 1}),
    "posterior kernel": Change({"posterior": "kernel"}),
    "posterior parent": Change({"posterior": "parent"}),
    "one exponent, log n": Change({"gamma": 1.0}),
    "no hyperplanes": Change({"n_hyperplanes": 0}),
    "256 hyperplanes": Change({"n_hyperplanes": 256}),
    "4096 hyperplanes": Change({"n_hyperplanes": 4096}),
    "no class matrix": Change(hook=_hooks.no_class_matrix),
    "no confidence levels": Change(hook=_hooks.no_confidence_levels),
    "labels by all layers": Change(hook=_hooks.labels_by_all_layers, parents=("network",)),
    "no output layer": Change(hook=_hooks.no_output_layer, parents=("network",)),
    "variance prior, mean": Change(hook=partial(_hooks.variance_prior, _hooks.mean_variance)),
    "variance prior, median": Change(hook=partial(_hooks.variance_prior, _hooks.median_variance)),
    "variance prior, range": Change(hook=partial(_hooks.variance_prior, _hooks.range_variance)),
}
METRICS = {
    "error": "error",
    "ece": "ECE",
    "log_loss": "log-loss",
    "brier": "Brier",
    "oce": "OCE",
    "false alarms": "false alarms",
    "AUROC shuffled": "AUROC shuffled",
    "AUROC classes": "AUROC classes",
    "trusted shuffled": "trusted shuffled",
    "trusted classes": "trusted classes",
}
DRAWN = ("error", "ece", "log_loss", "oce", "AUROC shuffled", "AUROC classes", "trusted classes")
HIGHER_IS_BETTER = ("AUROC shuffled", "AUROC classes")
RESAMPLES = 10_000
FEWEST_SETS = 5  # below it the sets say nothing about an interval


def settings(options: Options) -> dict:
    return {"max_train": 300 if options.quick else MAX_TRAIN, **parent_settings(options)}


def cells(options: Options) -> list[Cell]:
    found = [
        {"data": name, "parent": parent, "rep": rep}
        for rep in options.repeat(3)
        for name in chosen_sets(options, numeric_only=True)
        for parent in chosen_parents(options)
    ]
    n = {cell["data"]: training_rows(cell["data"], options) for cell in found}
    return sorted(found, key=lambda cell: (cell["rep"], -min(n[cell["data"]], MAX_TRAIN)))


def run(cell: Cell, options: Options, wanted: dict[str, Change] = CHANGES) -> list[dict]:
    warnings.simplefilter("ignore")
    name, parent = cell["data"], cell["parent"]
    n = settings(options)["max_train"]
    seed = options.seed_of(study="ablation", data=name, rep=cell["rep"])
    changes = {key: change for key, change in wanted.items() if parent in change.parents}
    problem = Problem.make(name, options, seed, n)
    rng = np.random.default_rng(seed)
    shuffled = np.stack([rng.permutation(column) for column in problem.X_test.T], axis=1)
    source = problem.fit_parent(parent, options, seed)[1]
    found = {}
    for key, change in changes.items():
        with change.hook():
            model = _fit(source, problem, change)
            found[key] = problem.figures(model.predict_proba(problem.queries))
            inside = model.score_samples(problem.X_test)
            found[key]["false alarms"] = float((inside < model.out_floor_).mean())
            found[key] |= _near("shuffled", model, inside, shuffled)
    rest, outside = without_classes(name, options, seed, n)
    if rest is not None:
        source = rest.fit_parent(parent, options, seed)[1]
        for key, change in changes.items():
            if change.shapes_gate:
                with change.hook():
                    model = _fit(source, rest, change)
                    found[key] |= _near("classes", model, model.score_samples(rest.X_test), outside)
    return [
        {"method": key, "metric": metric, "value": value}
        for key, figures in found.items()
        for metric, value in figures.items()
    ]


def without_classes(
    name: str, options: Options, seed: int, n: int
) -> tuple[Problem | None, NDArray]:
    """The set without a fifth of its classes, and rows of those; None below 3 classes."""
    rng = np.random.default_rng(seed)
    X, y = load(available(cache(options.data))[name], rng)
    n_classes = y.max() + 1
    if n_classes < 3:
        return None, X[:0]
    away = np.isin(y, rng.choice(n_classes, max(1, n_classes // 5), replace=False))
    labels = np.unique(y[~away], return_inverse=True)[1]
    rows = split(X[~away], labels, seed, n)
    outside = X[away][rng.permutation(away.sum())[:MAX_TEST]]
    return Problem(*rows, X[:0], np.bincount(labels) / len(labels)), outside


def _fit(source: Any, problem: Problem, change: Change) -> GeodesicCalibrator:
    model = GeodesicCalibrator(source, **change.parameters)
    rows = {"X_cal": problem.X_cal, "y_cal": problem.y_cal}
    return model.fit(problem.X_fit, problem.y_fit, **rows)


def _near(kind: str, model: GeodesicCalibrator, inside: NDArray, outside: NDArray) -> dict:
    score = model.score_samples(outside)
    trusted = float((score >= model.out_floor_).mean())
    return {f"AUROC {kind}": auroc(inside, score), f"trusted {kind}": trusted}


# ---------------------------------------------------------------- table and figure


def draw(frame: pd.DataFrame, folder: Path) -> list[Path]:
    parents = [parent for parent in PARENTS if (frame["parent"] == parent).any()]
    compared = {parent: compare(frame[frame["parent"] == parent]) for parent in parents}
    words = [
        "# Ablation",
        "Mean difference to the default over the numeric sets, with a 95 % interval from "
        f"{RESAMPLES} paired bootstrap samples of the sets; bold where it does not hold 0. The "
        'first row is the default itself. Lower is better except for AUROC; "trusted" is the '
        "share of out-of-distribution rows above the floor.",
    ]
    for parent, table in compared.items():
        n_sets = frame[frame["parent"] == parent]["data"].nunique()
        reps = frame[frame["parent"] == parent]["rep"].nunique()
        words += [f"## {MODELS[parent]}, {n_sets} sets, {reps} repetitions", markdown(table)]
    path = folder / "ablation.md"
    write_atomically(path, "\n\n".join(words) + "\n")
    return [path, *draw_differences(compared, folder / "ablation")]


def compare(frame: pd.DataFrame, metrics: Iterable[str] = METRICS) -> pd.DataFrame:
    """Mean, low and high end of each difference; of the default its own mean."""
    means = frame.pivot_table("value", ["data", "method"], "metric", aggfunc="mean")
    base = means.xs("default", level="method")
    rng = np.random.default_rng(0)
    rows = []
    for method in [key for key in CHANGES if key in set(frame["method"])]:
        own = means.xs(method, level="method")
        for metric in metrics:
            plain = base[metric].dropna()
            if method == "default":
                rows.append((method, metric, plain.mean(), np.nan, np.nan))
                continue
            values = (own[metric] - base[metric]).dropna().to_numpy()
            if len(values) == 0:  # a change that cannot move this figure is not measured on it
                continue
            if len(values) < FEWEST_SETS:
                rows.append((method, metric, values.mean(), -np.inf, np.inf))
                continue
            drawn = values[rng.integers(0, len(values), (RESAMPLES, len(values)))].mean(axis=1)
            low, high = np.quantile(drawn, [0.025, 0.975])
            rows.append((method, metric, values.mean(), low, high))
    return pd.DataFrame(rows, columns=["method", "metric", "mean", "low", "high"])


def markdown(table: pd.DataFrame, metrics: Iterable[str] = METRICS) -> str:
    at = table.set_index(["method", "metric"])
    names = [METRICS[metric] for metric in metrics]
    lines = ["| | " + " | ".join(names) + " |", "|---" * (len(names) + 1) + "|"]
    for method in dict.fromkeys(table["method"]):
        cells = []
        for metric in metrics:
            if (method, metric) not in at.index:
                cells.append("")
                continue
            mean, low, high = at.loc[(method, metric)]
            if np.isnan(low):
                cells.append(f"{mean:.4f}")
            else:
                text = f"{mean:+.4f} ({low:+.4f} to {high:+.4f})".replace("-", "\N{MINUS SIGN}")
                cells.append(f"**{text}**" if low > 0 or high < 0 else text)
        lines.append(f"| {method} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def draw_differences(compared: dict[str, pd.DataFrame], path: Path) -> list[Path]:
    """A dot and its interval for each change, a row of panels for each parent."""
    fig, axes = new_figure(len(compared), [1.0] * len(DRAWN), height=2.6, width=1.5)
    for row, (parent, table) in zip(axes, compared.items(), strict=True):
        methods = [m for m in dict.fromkeys(table["method"]) if m != "default"][::-1]
        at = table.set_index(["method", "metric"])
        for ax, metric in zip(row, DRAWN, strict=True):
            ax.axvline(0, color="black", lw=0.6)
            for place, method in enumerate(methods):
                if (method, metric) not in at.index:
                    continue
                mean, low, high = at.loc[(method, metric)]
                color = GREY if low <= 0 <= high else BLUE
                ax.hlines(place, max(low, -1), min(high, 1), color=color, lw=1.2)
                ax.plot(mean, place, "o", ms=3, color=color)
            ax.set_xscale("symlog", linthresh=0.01, linscale=1.0)
            ax.set_xticks([-0.1, 0, 0.1], ["-0.1", "0", "0.1"])
            ax.set_xticks([-1, -0.01, 0.01, 1], minor=True)
            ax.set_ylim(-0.6, len(methods) - 0.4)
            ax.set_yticks(range(len(methods)), methods if ax is row[0] else [])
            better = "right" if metric in HIGHER_IS_BETTER else "left"
            ax.set_title(f"{METRICS[metric]}\n({better} is better)", fontsize=7)
        row[0].set_ylabel(MODELS[parent])
    fig.supxlabel(
        "mean difference to the default, 95 % interval (linear up to 0.01, then logarithmic)",
        fontsize=8,
    )
    return save(fig, path)


TITLE = "The defaults with one decision changed at a time, on the numeric OpenML-CC18 sets."
STUDY = Study("ablation", TITLE, cells, run, draw, settings=settings, flags=add_flags)

if __name__ == "__main__":
    sys.exit(main(STUDY))
