"""Tables in and out: types of columns, categories, and files in pieces."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
import sklearn.ensemble

import polycal
from polycal.cli.files import Source
from polycal.cli.tables import features_of
from tests.toys.commands import call


def test_types_do_not_depend_on_the_piece(folder, tmp_path):
    """Codes stay text where a piece holds digits only; truth values may miss."""
    table = pd.read_csv(folder / "train.csv")
    table["region"] = table["region"].map({"north": "007", "south": "x"})
    table["dry"] = (table["alcohol"] > 13).astype(object)
    table.loc[:9, "dry"] = None
    table.to_csv(tmp_path / "t.csv", index=False)
    path, out = tmp_path / "m.polycal", tmp_path / "p.csv"
    arguments = ["--target", "grape", "-o", path, "--drop", "id", "--json"]
    assert json.loads(call("fit", tmp_path / "t.csv", *arguments).stdout)["categories"] == 1
    new = pd.concat([table[table["region"] == "007"], table[table["region"] == "x"]])
    new.to_csv(tmp_path / "new.csv", index=False)
    call("predict", path, tmp_path / "new.csv", "-o", out)
    whole = pd.read_csv(out)
    assert (whole["verdict"] != "out").mean() > 0.9
    call("predict", path, tmp_path / "new.csv", "-o", out, "--rows-at-a-time", 5)
    pd.testing.assert_frame_equal(pd.read_csv(out), whole)
    new.replace({"dry": {True: "TRUE", False: "FALSE"}}).to_csv(tmp_path / "excel.csv", index=False)
    call("predict", path, tmp_path / "excel.csv", "-o", out)
    pd.testing.assert_frame_equal(pd.read_csv(out), whole)


@pytest.mark.parametrize("kind", ["hgb", "lightgbm"])
def test_model_of_python_with_categories(folder, tmp_path, kind):
    """Its columns of text become the pandas categories that the parent was fitted on."""
    library = pytest.importorskip("lightgbm") if kind == "lightgbm" else sklearn.ensemble
    parent = (
        library.LGBMClassifier(n_estimators=10, verbose=-1)
        if kind == "lightgbm"
        else library.HistGradientBoostingClassifier(max_iter=10)
    )
    names = ["alcohol", "proline", "region"]
    tables = [pd.read_csv(folder / f"{name}.csv") for name in ("train", "test")]
    X, X_test = (t[names].assign(region=t["region"].astype("category")) for t in tables)
    model = polycal.GeodesicCalibrator(parent, calibration="holdout", random_state=0)
    model.fit(X, tables[0]["grape"]).save(tmp_path / "m.polycal")
    out = tmp_path / "p.csv"
    call("predict", tmp_path / "m.polycal", folder / "test.csv", "-o", out)
    P = pd.read_csv(out).filter(like="p_").to_numpy()
    np.testing.assert_allclose(P, model.predict_proba(X_test), rtol=1e-9)


def with_commas(table, path):
    """A file with semicolons and decimal commas; proline has a point for the thousands."""
    shown = table.assign(
        alcohol=[f"{v:.2f}".replace(".", ",") for v in table["alcohol"]],
        proline=[f"{v:,.0f}".replace(",", ".") for v in table["proline"]],
    )
    shown.to_csv(path, sep=";", index=False)


def test_a_file_is_read_with_the_decimal_mark_of_the_fit(folder, tmp_path):
    names = ["alcohol", "proline", "grape"]
    train, test = (
        pd.read_csv(folder / f"{name}.csv")[names].dropna() for name in ("train", "test")
    )
    whole = test.assign(alcohol=13.0, proline=test["proline"] + 1000)
    with_commas(train, tmp_path / "train.csv")
    with_commas(whole, tmp_path / "commas.csv")
    # without a cell that would say what the point means
    text = (tmp_path / "commas.csv").read_text("utf-8").replace("13,00", "13")
    (tmp_path / "vague.csv").write_text(text, "utf-8")
    path, out = tmp_path / "m.polycal", tmp_path / "p.csv"
    call("fit", tmp_path / "train.csv", "--target", "grape", "-o", path, "--set", "n_estimators=30")
    assert polycal.load(path).columns_.decimal == ","
    assert "comma" in call("info", path).stdout
    answers = []
    for name in ("commas", "vague"):
        call("predict", path, tmp_path / f"{name}.csv", "-o", out)
        found = [pd.read_csv(out)]
        for command in (["explain"], ["evaluate", "--target", "grape"]):
            said = call(command[0], path, tmp_path / f"{name}.csv", *command[1:], "--json")
            found.append(said.stdout)
        answers.append(found)
    pd.testing.assert_frame_equal(answers[0][0], answers[1][0])
    assert answers[0][1:] == answers[1][1:]
    test.to_csv(tmp_path / "points.csv", index=False)
    with pytest.warns(UserWarning, match="fitted on a file with ','"):
        call("predict", path, tmp_path / "points.csv", "-o", out)
    loaded = polycal.load(path)
    P = pd.read_csv(out).filter(like="p_").to_numpy()
    np.testing.assert_allclose(P, loaded.predict_proba(test[["alcohol", "proline"]]), rtol=1e-9)


def test_names_with_blanks_of_a_model_of_python(folder, tmp_path):
    table = pd.read_csv(folder / "test.csv")[["flavanoids", "proline"]]
    table = table.rename(columns={"proline": " proline "})
    model = polycal.KernelDensityForest(10, false_alarm=0.1, random_state=0)
    model.fit(table, pd.read_csv(folder / "test.csv")["grape"])
    table.to_csv(tmp_path / "t.csv", index=False)
    with pytest.warns(UserWarning, match="blanks around names"):
        read = Source(tmp_path / "t.csv").read()
    pd.testing.assert_frame_equal(features_of(model, read).reset_index(drop=True), table)
