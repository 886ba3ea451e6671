"""The benchmarks beside the strongest calibrators and detectors."""

from __future__ import annotations

import importlib
import json
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import make_classification

from tests.toys.benchmarks import BENCHMARKS, rows_of, start


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("sets")
    how = {"n_redundant": 0, "n_informative": 4, "class_sep": 2, "random_state": 0}
    for n_classes in (2, 3):
        X, y = make_classification(240, 5, n_classes=n_classes, **how)
        np.savez_compressed(path / f"{n_classes}_classes.npz", X=X, y=y)
    return path


@pytest.fixture
def module(monkeypatch):
    """A benchmark, as the scripts import it."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module


@pytest.mark.slow
def test_quality_beside_the_strongest(tmp_path, folder):
    out = tmp_path / "strong.csv"
    command = ("quality", folder, "--parent", "hgb", "--jobs", 1, "--strong", out)
    done = start(*command)
    assert done.returncode == 0, done.stderr
    assert "## hgb, holdout, seed 0: 2 sets" in done.stdout
    rows = rows_of(out)
    methods = {row["method"] for row in rows}
    assert {"parent", "temperature", "Dirichlet", "polycal", "polycal PAPER"} <= methods
    if find_spec("probmetrics") is None:
        assert "ETS is left out: probmetrics is not installed" in done.stderr
    assert all(0 <= float(row["brier"]) <= 2 for row in rows)
    before = out.read_bytes()
    assert start(*command).returncode == 0
    assert out.read_bytes() == before  # the sets are there
    assert out.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
    done = start(*command, "--all-rows")
    assert "## hgb, all rows, seed 0: 2 sets" in done.stdout, done.stderr
    assert len(rows_of(out)) > len(rows)


def test_dirichlet_finds_what_made_the_labels(module):
    """Labels from p^2, normalised: the weights of log p are 2 on the diagonal."""
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.ones(3), 6000)
    truth = P**2 / (P**2).sum(axis=1, keepdims=True)
    y = np.array([rng.choice(3, p=p) for p in truth])
    found = module("_peers").dirichlet_peer(P[:4000], y[:4000], P[4000:])
    assert_allclose(found.sum(axis=1), 1)
    assert np.abs(found - truth[4000:]).mean() < 0.02
    few = module("_peers").dirichlet_peer(P[:50], np.r_[0, np.ones(49, int)], P[:5])
    assert few.shape == (5, 2)


def test_a_peer_that_fails_is_named(module, capsys):
    peers = module("_peers")
    made = {
        "good": ("numpy", lambda P_cal, y_cal, P: P),
        "bad": ("numpy", lambda P_cal, y_cal, P: P / 0.0),
        "absent": ("no_such_library", None),
    }
    assert peers.installed(made) == ["good", "bad"]
    assert "absent is left out: no_such_library is not installed" in capsys.readouterr().err
    P = np.array([[0.5, 0.5]])
    with np.errstate(divide="ignore"):
        found = peers.answers(made, ["good", "bad"], (P, np.array([0])), P)
    assert list(found) == ["good"]
    assert "bad fails: probabilities that are not finite" in capsys.readouterr().err


def test_wins_by_hand(module, capsys):
    wins = module("_wins")
    losses = {"polycal": (0.2, 0.37), "a": (0.3, 0.3), "b": (0.1, 0.6), "broken": (0.0,)}
    rows = [
        {"data": f"{i}_x", "parent": "hgb", "seed": "0", "plan": "holdout", "method": method}
        | {"log_loss": str(loss), "error": "0.1", "ece": "0.1", "brier": "0.1", "oce": "0.1"}
        for method, values in losses.items()
        for i, loss in enumerate(values)
    ]
    found = wins.by_method(rows)
    assert list(found) == ["polycal", "a", "b"]  # "broken" has no answer for the second set
    assert wins.strongest(found) == "a"
    wins.report(rows)
    printed = capsys.readouterr().out
    assert "| a | 0.1000 | 0.1000 | 0.3000 | 0.1000 | 0.1000 | 1 |" in printed
    assert "log-loss 5.0% below the strongest peer (a): **missed**" in printed
    assert "better than it on 1 of 2 sets: **missed**" in printed
    assert "lowest Brier: reached" in printed
    assert "Left out, since they lack an answer for some set: broken." in printed


def test_tails_by_hand(module):
    """Three rows of one column, 0, 1 and 5, skewed to the right, and new rows at 1 and 9."""
    near_ood = module("near_ood")
    X_fit, new = np.array([[0.0], [1.0], [5.0]]), np.array([[1.0], [9.0]])
    left, right, sign = near_ood.tails(X_fit, new)
    assert_allclose(left.ravel(), -np.log([3 / 4, 4 / 4]))
    assert_allclose(right.ravel(), -np.log([3 / 4, 1 / 4]))
    assert sign.tolist() == [1.0]
    assert_allclose(near_ood.ecod(X_fit)(new), np.log([3 / 4, 1 / 4]))
    assert_allclose(near_ood.copod(X_fit)(new), np.log([3 / 4, 1 / 4]))
    assert near_ood.floor_of(np.arange(99.0), 0.05) == 4  # a new row is below with 5 in 100
    assert near_ood.floor_of(np.arange(9.0), 0.05) == 0


@pytest.mark.slow
def test_near_ood(folder):
    done = start("near_ood", folder, "--jobs", 1)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["columns shuffled"]["sets"] == 2
    assert found["classes held out"]["sets"] == 1
    mean = found["columns shuffled"]["mean"]
    assert {"LOF", "ECOD", "COPOD", "mean 10-NN distance", "polycal"} < mean.keys()
    for figures in mean.values():
        assert figures["rejected at 1%"] <= figures["rejected at 5%"]
        assert figures["AUROC"] > 0.3


def test_every_figure_says_how_it_is_made(module):
    """Each command of the page on results names a benchmark that is there, with its options."""
    results = module("results")
    found = list(results.commands(results.PAGE.read_text(encoding="utf-8")))
    assert len(found) > 20
    for _, command, _ in found:
        script, *words = command.split()[1:]
        source = (BENCHMARKS.parent / script).read_text(encoding="utf-8")
        source += (BENCHMARKS / "_clock.py").read_text(encoding="utf-8")
        for option in (word for word in words if word.startswith("--")):
            assert f'"{option}"' in source, (script, option)
    text = "# A\n`python benchmarks/x.py OUT.csv` and more (2 minutes; commit 1). B\n"
    assert list(results.commands(text)) == [
        ("A", "python benchmarks/x.py OUT.csv", "2 minutes; commit 1")
    ]
