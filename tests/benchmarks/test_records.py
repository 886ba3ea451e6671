"""Benchmarks that keep a record of their cells: each one's command on tiny data, and the record."""

from __future__ import annotations

import importlib
import json
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from sklearn.datasets import make_classification

from tests.toys.benchmarks import BENCHMARKS, rows_of, start


class Cell(NamedTuple):
    name: str
    seed: int


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("sets")
    X, y = make_classification(300, 5, n_redundant=0, class_sep=3, flip_y=0, random_state=0)
    np.savez_compressed(path / "1_clusters.npz", X=X, y=y)
    return path


@pytest.fixture
def record(monkeypatch):
    """The module, as the scripts import it."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module("_record")


@pytest.mark.slow
def test_beside_parent(tmp_path, folder):
    out = tmp_path / "beside.csv"
    command = ("beside_parent", folder, out, "--quick", "--only", "forest/mlp")
    done = start(*command, "--plan", "holdout")
    assert done.returncode == 0, done.stderr
    assert "of 2 cells" in done.stdout
    rows = rows_of(out)
    assert {(row["data"], row["parent"], row["plan"]) for row in rows} == {
        ("1_clusters", "forest", "holdout"),
        ("1_clusters", "mlp", "holdout"),
    }
    for row in rows:
        difference = float(row["log_loss"]) - float(row["parent_log_loss"])
        assert float(row["difference"]) == pytest.approx(difference)
        assert 0 <= float(row["out"]) <= 1
    kept = json.loads(out.with_suffix(".json").read_text())
    assert kept["settings"]["seeds"] == [0]
    assert {"command", "commit", "versions"} == kept["starts"][0].keys()
    before = out.read_bytes()
    assert start(*command, "--plan", "holdout").returncode == 0
    assert out.read_bytes() == before  # the cells are there
    assert start(*command, "--plan", "auto").returncode == 0
    assert [row["plan"] for row in rows_of(out)] == ["holdout"] * 2 + ["auto"] * 2
    refused = start("beside_parent", folder, out, "--only", "forest")
    assert refused.returncode == 1
    assert "Name another OUT.csv" in refused.stderr
    assert len(rows_of(out)) == 4


@pytest.mark.slow
def test_rare_classes(tmp_path):
    out = tmp_path / "rare.csv"
    command = ("rare_classes", out, "--quick", "--only", "forest,holdout")
    done = start(*command)
    assert done.returncode == 0, done.stderr
    rows = rows_of(out)
    assert [row["seed"] for row in rows] == ["0", "1"]
    for row in rows:
        assert (row["n_train"], row["n_test"], row["n_rare_test"]) == ("2000", "1000", "50")
        assert float(row["parent_ap"]) > 0.2
    compared = start(*command, "--before", out)
    assert "| 1.0000 |" in compared.stdout  # the ratio to itself
    assert rows_of(out) == rows


@pytest.mark.slow
def test_easy_sets(tmp_path, folder):
    out = tmp_path / "easy.csv"
    done = start("easy_sets", folder, out, "--quick")
    assert done.returncode == 0, done.stderr
    assert "forest: 1 of 1 sets are easy: 1_clusters" in done.stdout
    assert "polycal - best single peer" in done.stdout
    methods = [row["method"] for row in rows_of(out)]
    assert methods[:4] == ["parent", "isotonic", "sigmoid", "temperature"]
    assert methods[-1] == "polycal"
    if find_spec("betacal") is None:
        assert "betacal is left out: betacal is not installed" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("benchmark_name", "methods"),
    [
        ("sets", {"polycal", "polycal, scored", "polycal, by class"}),
        ("expected_accuracy", {"parent", "CBPE", "polycal", "polycal, mean confidence"}),
    ],
)
def test_decisions(benchmark_name, methods, tmp_path, folder):
    out = tmp_path / "cells.csv"
    done = start(benchmark_name, folder, out, "--quick")
    assert done.returncode == 0, done.stderr
    assert "## forest" in done.stdout
    found = {row["method"] for row in rows_of(out)}
    assert found - {"MAPIE lac", "MAPIE aps"} == methods
    before = out.read_bytes()
    assert start(benchmark_name, folder, out, "--quick").returncode == 0
    assert out.read_bytes() == before


def test_words_choose_cells(record):
    cells = [Cell(name, seed) for name in ("a", "b") for seed in (0, 1, 2)]
    assert record.chosen(cells, "") == cells
    assert record.chosen(cells, "b,0/2") == [("b", 0), ("b", 2)]


def test_a_cell_that_fails_is_tried_again(record, tmp_path, capsys):
    out = tmp_path / "cells.csv"
    tried = []

    def run(cell):
        tried.append(cell)
        if cell.seed == 1 and len(tried) < 3:
            raise ValueError("no such seed")
        return [cell._asdict() | {"value": 7}]

    cells = [Cell("a", 0), Cell("a", 1)]
    arguments = (cells, out, ("name", "seed", "value"), 1, {})
    assert len(record.run_cells(run, *arguments)) == 1
    assert "ValueError: no such seed" in capsys.readouterr().err
    assert [row["seed"] for row in record.run_cells(run, *arguments)] == ["0", "1"]
    assert tried == [("a", 0), ("a", 1), ("a", 1)]


def test_a_standard_error_needs_two_values(record):
    assert record.mean_and_error(["1", "3"]) == (2.0, 1.0)
    assert np.isnan(record.mean_and_error([1.0])[1])
    assert record.table([{"a": 0.5, "b": "x"}]).splitlines()[-1] == "| 0.5000 | x |"
