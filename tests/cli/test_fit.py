"""polycal fit."""

from __future__ import annotations

import json

import pandas as pd
import pytest

from tests.toys.commands import call


def test_fit_says_what_it_did(folder):
    arguments = ["--target", "grape", "-o", folder / "n.polycal", "--drop", "id", "--json"]
    found = json.loads(call("fit", folder / "train.csv", *arguments).stdout)
    assert found["rows"] == 120
    assert found["features"] == 4
    assert found["categories"] == 1
    assert found["calibration"] == "oob"
    assert found["false_alarm"] == 0.01
    assert sum(found["classes"].values()) == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize("kind", ["extra-trees", "hgb", "lightgbm", "xgboost", "mlp"])
def test_every_parent(folder, kind):
    path = folder / f"{kind}.polycal"
    arguments = ["--target", "grape", "-o", path, "--drop", "id", "--parent", kind, "--json"]
    assert json.loads(call("fit", folder / "train.csv", *arguments).stdout)["parent"] == kind
    out = folder / f"{kind}.csv"
    call("predict", path, folder / "test.csv", "-o", out)
    found = pd.read_csv(out)
    truth = pd.read_csv(folder / "test.csv")["grape"]
    assert (found["prediction"] == truth).mean() > 0.7
