"""Tables in and out: types of columns, categories, and files in pieces."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
import sklearn.ensemble

import polycal
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
