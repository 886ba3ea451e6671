"""polycal fit."""

from __future__ import annotations

import json
import re

import numpy as np
import pandas as pd
import pytest

import polycal
from polycal import FewRowsWarning
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


@pytest.mark.parametrize("kind", ["extra-trees", "hgb", "lightgbm", "xgboost", "catboost", "mlp"])
def test_every_parent(folder, kind):
    path = folder / f"{kind}.polycal"
    arguments = ["--target", "grape", "-o", path, "--drop", "id", "--parent", kind, "--json"]
    assert json.loads(call("fit", folder / "train.csv", *arguments).stdout)["parent"] == kind
    out = folder / f"{kind}.csv"
    call("predict", path, folder / "test.csv", "-o", out)
    found = pd.read_csv(out)
    truth = pd.read_csv(folder / "test.csv")["grape"]
    assert (found["prediction"] == truth).mean() > 0.7


def test_a_network_on_few_rows(tmp_path):
    """Too few to set some apart that tell it when to stop."""
    (tmp_path / "t.csv").write_text("x,z,y\n1,2,a\n2,3,b\n1,4,a\n3,3,b\n2,2,a\n")
    arguments = ["--target", "y", "-o", tmp_path / "m.polycal", "--parent", "mlp", "--json"]
    with pytest.warns(FewRowsWarning, match="5 independent"):
        found = json.loads(call("fit", tmp_path / "t.csv", *arguments).stdout)
    assert found["rows"] == 5


def test_settings_and_a_calibration_file(folder):
    arguments = ["--target", "grape", "-o", folder / "c.polycal", "--drop", "id", "--json"]
    settings = ["--set", "n_estimators=20", "--set", "criterion=entropy", "--set", "bootstrap=true"]
    held = ["--calibration-file", folder / "test.csv"]
    found = json.loads(call("fit", folder / "train.csv", *arguments, *settings, *held).stdout)
    assert found["rows"] == 120
    model = polycal.load(folder / "c.polycal")
    forest = model.estimator_.steps[-1][1]
    assert (len(forest.estimators_), forest.criterion, forest.bootstrap) == (20, "entropy", True)
    assert len(model.model_.scores.log_f) == 58


@pytest.mark.parametrize(
    ("held", "message"),
    [
        ("train.csv", "--calibration-file is .*train.csv itself"),
        (
            "copy.csv",
            "of the 40 rows of --calibration-file also .*train.csv, the first is line 2 of",
        ),
        ("new.csv", r"target column of --calibration-file holds \['none'\], which the target col"),
        ("one.csv", "or leave --calibration-file out so that rows of DATA are held out"),
    ],
)
def test_a_calibration_file_that_cannot_be(folder, held, message):
    """Errors speak of the file, and not of arguments in Python."""
    train, test = (pd.read_csv(folder / name) for name in ("train.csv", "test.csv"))
    train.sample(40, random_state=0).to_csv(folder / "copy.csv", index=False)
    test.assign(grape=["none", *test["grape"][1:]]).to_csv(folder / "new.csv", index=False)
    test.assign(grape="barbera").to_csv(folder / "one.csv", index=False)
    arguments = ["--target", "grape", "-o", folder / "h.polycal", "--drop", "id"]
    held = ["--calibration-file", folder / held, "--set", "n_estimators=5"]
    said = call("fit", folder / "train.csv", *arguments, *held, code=2).stderr
    assert re.search(message, said)
    assert "_cal" not in said


def test_columns_are_told_once(folder):
    """In a table for people, in JSON for machines; an id is left out with a note."""
    arguments = ["--target", "grape", "-o", folder / "r.polycal", "--set", "n_estimators=20"]
    with pytest.warns(UserWarning, match=r"left out: 'id' \(id: numbers the rows\).*--number id;"):
        said = call("fit", folder / "train.csv", *arguments)
    assert [line.split() for line in said.stderr.splitlines()][4:6] == [
        ["region", "category", "2", "levels"],
        ["id", "id", "numbers", "the", "rows"],
    ]
    with pytest.warns(UserWarning, match="left out"):
        said = call("fit", folder / "train.csv", *arguments, "--json")
    columns = json.loads(said.stdout)["columns"]
    assert columns["region"] == {
        "role": "category",
        "reason": "2 levels",
        "details": [],
        "unit": "",
    }
    call("fit", folder / "train.csv", *arguments, "--number", "id")
    assert polycal.load(folder / "r.polycal").columns_.features[-1] == "id"


def test_an_id_column_does_not_make_a_large_model(tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.normal(size=600), "key": [f"K{i}" for i in range(600)]})
    table["y"] = np.where(table["x"] > 0, "a", "b")
    table.to_csv(tmp_path / "t.csv", index=False)
    with pytest.warns(UserWarning, match="left out: 'key'"):
        call("fit", tmp_path / "t.csv", "--target", "y", "-o", tmp_path / "m.polycal")
    assert (tmp_path / "m.polycal").stat().st_size < 5e6


def test_labels_are_read_exactly(tmp_path):
    """Zeros in front count, and "None" is a name."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 3, 240)
    lines = [
        f"{a + rng.normal() / 9:.3f};{('01', '1', 'None')[a]};{i:05d}" for i, a in enumerate(x)
    ]
    (tmp_path / "t.csv").write_text("\n".join(["x;y;key", *lines]))
    path, out = tmp_path / "m.polycal", tmp_path / "p.csv"
    arguments = ["--target", "y", "-o", path, "--drop", "key", "--set", "n_estimators=20"]
    call("fit", tmp_path / "t.csv", *arguments)
    assert polycal.load(path).classes_.tolist() == ["01", "1", "None"]
    call("predict", path, tmp_path / "t.csv", "-o", out, "--keep", "key", "--keep", "y")
    found = pd.read_csv(out, dtype=str, keep_default_na=False)
    assert found["key"].tolist() == [f"{i:05d}" for i in range(240)]
    assert (found["prediction"] == found["y"]).mean() > 0.95
    call("evaluate", path, tmp_path / "t.csv", "--target", "y")
    (tmp_path / "e.csv").write_text("x;y\n1;a\n2;\n")
    said = call("fit", tmp_path / "e.csv", "--target", "y", "-o", path, code=2).stderr
    assert "the label is missing in 1 row(s), the first is line 3 of" in said
