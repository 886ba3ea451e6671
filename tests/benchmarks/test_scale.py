"""The benchmark of growth: its commands on tiny data, and what it makes of figures."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys

import numpy as np
import pytest
from sklearn.datasets import make_classification

from tests.toys.benchmarks import BENCHMARKS, rows_of, start


@pytest.fixture
def module(monkeypatch):
    """A module of the benchmarks, as the scripts import it."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
def test_growth(tmp_path):
    pytest.importorskip("matplotlib")
    out, picture = tmp_path / "scale.csv", tmp_path / "scale.png"
    command = (out, "--parent", "forest", "--jobs", 1, "--search", "sampled")
    done = start("scale", *command, "--sizes", 400)
    assert done.returncode == 0, done.stderr
    assert start("scale", *command, "--sizes", 400, 800, "--plot", picture).returncode == 0
    rows = rows_of(out)
    assert [(row["n"], row["search"], row["planes"]) for row in rows] == [
        ("400", "sampled", "sampled"),
        ("800", "sampled", "sampled"),
    ]
    for row in rows:
        ratio = float(row["fit_s"]) / float(row["parent_fit_s"])
        assert float(row["fit_ratio"]) == pytest.approx(ratio)
        difference = float(row["peak_GiB"]) - float(row["resident_GiB"])
        assert float(row["beyond_GiB"]) == pytest.approx(difference)
        assert float(row["tables_GiB"]) > 0
        assert 0 <= float(row["out"]) <= 1
    assert picture.read_bytes()[:4] == b"\x89PNG"
    kept = json.loads(out.with_suffix(".json").read_text())
    assert kept["settings"] == {"benchmark": "growth", "seed": 0, "queries": 4000}
    refused = start("scale", out, "--quality", tmp_path, "--only", "forest")
    assert refused.returncode == 1
    assert "has no .npz data set called" in refused.stderr


@pytest.mark.slow
def test_quality(tmp_path):
    out = tmp_path / "quality.csv"
    X, y = make_classification(400, 5, n_redundant=0, random_state=0)
    np.savez_compressed(tmp_path / "151_electricity.npz", X=X, y=y)
    done = start(
        "scale", out, "--quality", tmp_path, "--only", "151_electricity,forest,0", "--jobs", 1
    )
    assert done.returncode == 0, done.stderr
    rows = rows_of(out)
    assert [row["method"] for row in rows] == ["parent", "exact", "sampled"]
    assert [row["n_fit"] for row in rows] == ["200"] * 3
    assert rows[0]["auroc"] == ""
    assert all(0 < float(row["auroc"]) <= 1 for row in rows[1:])
    assert "| log-loss above exact, worst | 0.0050 |" in done.stdout


@pytest.mark.slow
def test_work():
    pytest.importorskip("lightgbm")
    done = start("scale", "--work", "--work-rows", 1000)
    assert done.returncode == 0, done.stderr
    for name in ("DRAW_WORK", "LOOK_UP_WORK", "WORD_WORK", "POWER_WORK"):
        assert f"| {name} | units |" in done.stdout


@pytest.mark.slow
def test_nothing_to_do_is_an_error():
    """In a process of its own, as all other tests here are not."""
    command = [sys.executable, str(BENCHMARKS / "scale.py")]
    refused = subprocess.run(command, capture_output=True, text=True, check=False)
    assert refused.returncode == 2
    assert "name OUT.csv" in refused.stderr


def growing(parent, sizes, **powers):
    """Rows whose figures are (n / 10,000)^power, or 1."""
    keys = ("parent_fit_s", "fit_s", "fit_ratio", "parent_predict_us", "predict_us")
    keys += ("predict_ratio", "beyond_GiB", "load_s")
    return [
        {"parent": parent, "n": n} | {key: (n / 1e4) ** powers.get(key, 0.0) for key in keys}
        for n in sizes
    ]


def test_exponents_and_targets(module):
    growth = module("_scale_growth")
    rows = growing("lightgbm", (10_000, 40_000, 160_000), fit_s=1.2, predict_us=0.1, fit_ratio=0.5)
    lines = growth.growth(rows)
    assert [(line["from"], line["to"]) for line in lines] == [
        (10_000, 40_000),
        (40_000, 160_000),
        (10_000, 160_000),
    ]
    for line in lines:
        assert line["fit_s"] == pytest.approx(1.2)
        assert line["predict_us"] == pytest.approx(0.1)
    found = {line["target"]: line for line in growth.targets(rows)}
    assert found["growth of fit"]["state"] == "MISSED"
    assert found["growth of predict"] == {
        "parent": "lightgbm",
        "target": "growth of predict",
        "at most": 0.15,
        "found": pytest.approx(0.1),
        "rows": "40000 to 160000",
        "state": "reached",
    }
    assert found["fit / parent's fit"]["state"] == "MISSED"  # 4 of at most 3
    assert found["load, s"]["state"] == "holds so far"
    million = growth.targets(growing("mlp", (1_000_000,)))
    states = {line["target"]: line["state"] for line in million}
    assert states["load, s"] == "reached"
    assert states["growth of fit"] == "not measured"
    assert "fit / parent's fit" not in states


def test_differences_of_the_searches(module):
    quality = module("_scale_quality")
    shared = {"data": "a", "parent": "mlp", "seed": "0", "error": "0.1", "out": "0.01"}
    figures = {"parent": (0.5, 0.1, ""), "exact": (0.4, 0.02, 0.9), "sampled": (0.39, 0.026, 0.89)}
    rows = [
        shared | {"method": m} | dict(zip(("log_loss", "ece", "auroc"), map(str, f), strict=True))
        for m, f in figures.items()
    ]
    alone = shared | {"method": "exact", "seed": "1"}
    (line,) = quality.differences([*rows, alone])
    assert line["log_loss"] == pytest.approx(-0.01)
    states = {line["target"]: line["state"] for line in quality.targets([line])}
    assert states["log-loss above exact, worst"] == "reached"
    assert states["ECE above exact, worst"] == "MISSED"
    assert states["AUROC below exact, worst"] == "MISSED"
