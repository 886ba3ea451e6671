"""Exact against sampled search on large data sets: log-loss, error, ECE, AUROC and share out."""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from _parents import make_parent as named_parent
from _protocol import load, scores, shuffled
from _record import Row, mean_and_error
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from polycal import GeodesicCalibrator

SETS = (
    "151_electricity",
    "41027_jungle_chess_2pcs_raw_endgame_complete",
    "40668_connect-4",
    "1590_adult",
)
PARENTS = ("lightgbm", "forest", "mlp")
METHODS = ("parent", "exact", "sampled")
HELD = 5000  # test rows, and as many calibration rows
FIGURES = ("log_loss", "error", "ece", "auroc", "out")


class Cell(NamedTuple):
    data: str
    parent: str
    seed: int


COLUMNS = (*Cell._fields, "method", "n_fit", *FIGURES, "seconds")


def make_parent(name: str, seed: int, jobs: int) -> Any:
    if name == "lightgbm":
        return named_parent(name, seed, jobs)
    if name == "forest":
        return RandomForestClassifier(100, min_samples_leaf=5, random_state=seed, n_jobs=jobs)
    network = MLPClassifier((128, 128), early_stopping=True, max_iter=100, random_state=seed)
    return make_pipeline(StandardScaler(), network)


def run(cell: Cell, folder: Path, max_rows: int | None, jobs: int) -> list[Row]:
    """One fitted parent, and both searches with the same calibration rows."""
    warnings.simplefilter("ignore")  # networks that stop before they converge
    rng = np.random.default_rng(cell.seed)
    X, y = load(folder / f"{cell.data}.npz", rng, max_rows)
    held = min(HELD, len(X) // 4)
    state = {"test_size": held, "random_state": cell.seed}
    X, X_test, y, y_test = train_test_split(X, y, stratify=y, **state)
    X, X_cal, y, y_cal = train_test_split(X, y, stratify=y, **state)
    near = shuffled(X_test, rng)
    is_test = np.repeat([1, 0], len(X_test))
    parent = make_parent(cell.parent, cell.seed, jobs).fit(X, y)
    rows = []
    for method in METHODS:
        start, auroc, out = time.perf_counter(), "", ""
        if method == "parent":
            P = parent.predict_proba(X_test)
        else:
            frozen = FrozenEstimator(parent)
            model = GeodesicCalibrator(frozen, search=method, n_jobs=jobs, random_state=cell.seed)
            model.fit(X, y, X_cal=X_cal, y_cal=y_cal)
            answer, kept = model.answer(X_test), model.model_.scores
            P = answer.probabilities
            log_f = np.concatenate([answer.log_f, model.answer(near).log_f])
            auroc = roc_auc_score(is_test, log_f)
            floor = kept.verdict_floor(model.model_.false_alarm)
            out = float(kept.is_below(answer.log_f, floor).mean())
        seconds = round(time.perf_counter() - start, 1)
        found = scores(P, y_test) | {"auroc": auroc, "out": out}
        figures = (method, len(X), *(found[name] for name in FIGURES), seconds)
        rows.append(dict(zip(COLUMNS, (*cell, *figures), strict=True)))
    return rows


def differences(rows: list[dict[str, str]]) -> list[Row]:
    """Sampled less exact, for each cell that has both."""
    found = {(*cell_of(row), row["method"]): row for row in rows}
    lines = []
    for cell in dict.fromkeys(map(cell_of, rows)):
        parent, exact, sampled = (found.get((*cell, method)) for method in METHODS)
        if parent is None or exact is None or sampled is None:
            continue
        line = dict(zip(Cell._fields, cell, strict=True))
        line |= {f"{m} log_loss": float(found[*cell, m]["log_loss"]) for m in METHODS}
        line |= {name: float(sampled[name]) - float(exact[name]) for name in FIGURES}
        lines.append(line)
    return lines


def cell_of(row: dict[str, str]) -> tuple[str, ...]:
    return tuple(row[name] for name in Cell._fields)


def targets(lines: list[Row]) -> list[Row]:
    """What is wanted of the differences beside the mean and the worst; a gain is no miss."""
    log_loss, ece = ([line[name] for line in lines] for name in ("log_loss", "ece"))
    lost = [-line["auroc"] for line in lines]
    wanted = (
        ("log-loss above exact, mean", 0.0, mean_and_error(log_loss)[0]),
        ("log-loss above exact, worst", 0.005, max(log_loss)),
        ("ECE above exact, mean", 0.003, mean_and_error(ece)[0]),
        ("ECE above exact, worst", 0.003, max(ece)),
        ("AUROC below exact, mean", 0.005, mean_and_error(lost)[0]),
        ("AUROC below exact, worst", 0.005, max(lost)),
    )
    return [
        {"target": what, "at most": limit, "found": value, "cells": len(lines)}
        | {"state": "reached" if value <= limit else "MISSED"}
        for what, limit, value in wanted
    ]
