"""The command line, as a user types it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest
import sklearn.ensemble
from sklearn.datasets import load_wine
from typer.testing import CliRunner

import polycal
from polycal._utils.files import atomic_file
from polycal.cli import predict
from polycal.cli.app import app
from polycal.cli.tables import Writer, typed

runner = CliRunner()


def call(*arguments, code=0):
    result = runner.invoke(app, [str(a) for a in arguments])
    assert result.exit_code == code, result.output + repr(result.exception)
    return result


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Training and test tables with numbers, text, missing values and text labels."""
    folder = tmp_path_factory.mktemp("cli")
    data = load_wine(as_frame=True)
    table = data.data[["alcohol", "flavanoids", "proline"]].copy()
    rng = np.random.default_rng(0)
    table["region"] = np.where(rng.random(len(table)) < 0.5, "north", "south")
    table.loc[::17, "region"] = None
    table.loc[::13, "alcohol"] = np.nan
    table["id"] = np.arange(len(table))
    table["grape"] = np.array(["barbera", "grignolino", "nebbiolo"])[data.target]
    table = table.sample(frac=1, random_state=0)
    table[:120].to_csv(folder / "train.csv", index=False)
    table[120:].to_csv(folder / "test.csv", index=False)
    table[120:].to_parquet(folder / "test.parquet")
    far = table[120:].assign(proline=1e6)
    far.to_csv(folder / "far.csv", index=False)
    return folder


@pytest.fixture(scope="module")
def model(folder):
    path = folder / "m.polycal"
    call("fit", folder / "train.csv", "--target", "grape", "-o", path, "--drop", "id", "--json")
    return path


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


@pytest.mark.parametrize("data", ["test.csv", "test.parquet"])
@pytest.mark.parametrize("kind", [".csv", ".parquet"])
def test_predict(folder, model, data, kind):
    out = folder / f"{data}.out{kind}"
    rows = ["--rows-at-a-time", 7]
    said = call("predict", model, folder / data, "-o", out, "--keep", "id", *rows, "--json")
    found = pd.read_csv(out) if kind == ".csv" else pd.read_parquet(out)
    table = pd.read_csv(folder / "test.csv")
    loaded = polycal.load(model)
    X = typed(table[["alcohol", "flavanoids", "proline", "region"]], ["region"])
    np.testing.assert_array_equal(found["id"], table["id"])
    np.testing.assert_array_equal(found["prediction"], loaded.predict(X))
    np.testing.assert_allclose(
        found[[f"p_{c}" for c in loaded.classes_]], loaded.predict_proba(X), atol=1e-12
    )
    np.testing.assert_allclose(found["trust"], loaded.in_distribution(X), atol=1e-12)
    np.testing.assert_array_equal(found["verdict"], loaded.explain(X).verdict)
    counts = json.loads(said.stdout)
    assert counts["rows"] == len(table)
    assert counts["out"] == (found["verdict"] == "out").sum()


def test_far_rows_are_out(folder, model):
    call("predict", model, folder / "far.csv", "-o", folder / "far_out.csv")
    found = pd.read_csv(folder / "far_out.csv")
    assert (found["verdict"] == "out").all()
    assert found["trust"].max() < 0.01


def test_evaluate(folder, model):
    arguments = [model, folder / "test.csv", "--target", "grape", "--ood", folder / "far.csv"]
    found = json.loads(call("evaluate", *arguments, "--json").stdout)
    by_name = {(f["model"], f["rows"], f["metric"]): f["value"] for f in found["figures"]}
    assert by_name["polycal", "out of distribution", "auroc"] == 1.0
    assert by_name["polycal", "in distribution", "error"] < 0.3
    assert ("parent", "in distribution", "ece") in by_name
    assert "| polycal |" in call("evaluate", *arguments).stdout


def test_report_explain_info(folder, model):
    out = folder / "r.html"
    call("report", model, folder / "test.csv", "--target", "grape", "-o", out)
    assert "Verdict" in out.read_text()
    found = json.loads(call("explain", model, folder / "far.csv", "--rows", 2, "--json").stdout)
    (row,) = found["rows"]
    assert row["row"] == 2
    assert row["verdict"] == "out"
    assert next(iter(row["surprise"])) == "proline"
    text = call("explain", model, folder / "far.csv").stdout
    assert text.count("row ") >= 10
    facts = json.loads(call("info", model, "--json").stdout)
    assert facts["columns"] == ["alcohol", "flavanoids", "proline", "region"]
    assert (facts["features"], facts["training_rows"], facts["calibration_rows"]) == (4, 120, 120)
    assert facts["parent"] == "Pipeline with RandomForestClassifier"
    assert facts["false_alarm"] == 0.01
    assert facts["bytes"] == model.stat().st_size
    assert sum(facts["priors"].values()) == pytest.approx(1)
    assert "polytopes" in call("info", model).stdout


def test_help_has_examples():
    for command in ("fit", "predict", "evaluate", "report", "explain", "info", "reproduce"):
        assert f"polycal {command}" in call(command, "--help").stdout
    assert "Start here" in call("--help").stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fit", "none.csv", "--target", "y", "-o", "m.polycal"], "there is no file"),
        (["fit", "{f}/train.csv", "--target", "y", "-o", "{f}/x.polycal"], "'y' is no column"),
        (["fit", "{f}/train.txt", "--target", "y", "-o", "{f}/x.polycal"], "must end in .csv"),
        (
            ["fit", "{f}/train.csv", "--target", "grape", "-o", "{f}/no/x.polycal"],
            "does not exist",
        ),
        (
            ["fit", "{f}/train.csv", "--target", "grape", "-o", "{f}/x", "--drop", "z"],
            "--drop 'z' is no column",
        ),
        (
            ["fit", "{f}/train.csv", "--target", "grape", "-o", "{f}/x", "--false-alarm", "low"],
            "--false-alarm must be a number",
        ),
        (
            ["fit", "{f}/train.csv", "--target", "grape", "-o", "{f}/x", "--weight", "region"],
            "column 'region' must hold numbers; row 0",
        ),
        (["fit", "{f}/head.csv", "--target", "grape", "-o", "{f}/x"], "holds no rows"),
        (["evaluate", "{m}", "{f}/head.csv", "--target", "grape"], "holds no rows"),
        (["predict", "{f}/none.polycal", "{f}/test.csv", "-o", "{f}/o.csv"], "none.polycal"),
        (["predict", "{f}/test.csv", "{f}/test.csv", "-o", "{f}/o.csv"], "test.csv"),
        (["predict", "{m}", "{f}/test.csv", "-o", "{f}/o.xlsx"], "must end in .csv"),
        (["predict", "{m}", "{f}/test.csv", "-o", "{f}/no/o.csv"], "does not exist"),
        (["predict", "{m}", "{f}/short.csv", "-o", "{f}/o.csv"], "lacks the column"),
        (["predict", "{m}", "{f}/words.csv", "-o", "{f}/o.csv"], "must hold numbers; row 1"),
        (["predict", "{m}", "{f}/empty.csv", "-o", "{f}/o.csv"], "is empty"),
        (["predict", "{m}", "{f}/head.csv", "-o", "{f}/o.csv"], "holds no rows"),
        (["evaluate", "{m}", "{f}/test.csv", "--target", "y"], "'y' is no column"),
        (["explain", "{m}", "{f}/test.csv", "--rows", "999"], "is beyond the"),
        (["reproduce", "nothing"], "must name a study"),
    ],
)
def test_errors_are_one_line(folder, model, arguments, message):
    table = pd.read_csv(folder / "test.csv")
    table.drop(columns="proline").to_csv(folder / "short.csv", index=False)
    table.assign(proline=["1", "many", *["2"] * (len(table) - 2)]).to_csv(
        folder / "words.csv", index=False
    )
    table[:0].to_csv(folder / "head.csv", index=False)
    (folder / "empty.csv").write_text("")
    (folder / "train.txt").write_text("x")
    before = sorted(folder.iterdir())
    result = call(*[a.format(f=folder, m=model) for a in arguments], code=2)
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1  # one line, however long
    assert message in result.stderr
    assert "Traceback" not in result.output
    assert sorted(folder.iterdir()) == before


def test_output_is_whole_or_not_at_all(folder, model, monkeypatch):
    out = folder / "whole.csv"
    out.write_text("older")
    plain, calls = predict.predict_table, []

    def fail_at_the_third(*arguments):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return plain(*arguments)

    monkeypatch.setattr(predict, "predict_table", fail_at_the_third)
    before = sorted(folder.iterdir())
    call("predict", model, folder / "test.csv", "-o", out, "--rows-at-a-time", 5, code=130)
    assert out.read_text() == "older"
    assert sorted(folder.iterdir()) == before


def test_error_names_the_file_that_the_user_named(tmp_path):
    path = tmp_path / "out.csv"
    with pytest.raises(OSError, match="out.csv") as caught, atomic_file(path) as part:
        raise PermissionError(13, "denied", str(part))
    assert caught.value.filename == str(path)


def test_ctrl_c_leaves_no_half_file(folder, model):
    """The real signal, in a real process, between two pieces."""
    big = pd.concat([pd.read_csv(folder / "test.csv")] * 400)
    big.to_csv(folder / "big.csv", index=False)
    out = folder / "big_out.csv"
    command = "from polycal.cli import main; main()"
    arguments = ["predict", model, folder / "big.csv", "-o", out, "--rows-at-a-time", "50"]
    process = subprocess.Popen(
        [sys.executable, "-c", command, *map(str, arguments)],
        stderr=subprocess.PIPE,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    for _ in range(600):  # until it has begun to write
        if list(folder.glob(".big_out*")) or process.poll() is not None:
            break
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 130, said
    assert b"Traceback" not in said
    assert not out.exists()
    assert not list(folder.glob(".big_out*"))


def test_pieces_of_other_types_join(tmp_path):
    """A column that is whole in one piece and not in the next is one column."""
    writer = Writer(tmp_path / "x.parquet", ".parquet")
    writer.write(pd.DataFrame({"a": [1.5, 2.0]}))
    writer.write(pd.DataFrame({"a": [3, 4]}))
    writer.close()
    assert pd.read_parquet(tmp_path / "x.parquet")["a"].tolist() == [1.5, 2.0, 3.0, 4.0]


def test_text_of_categories():
    table = pd.DataFrame({"a": [1.0, np.nan, 3.0], "b": ["x", None, "y"], "c": [True, False, True]})
    found = typed(table, ["a", "b", "c"])
    assert found["a"].tolist() == ["1", None, "3"]
    assert found["b"].tolist() == ["x", None, "y"]
    assert found["c"].tolist() == ["True", "False", "True"]


def test_names_in_brackets_are_not_markup(folder, tmp_path):
    """rich would take them for styles, or fail."""
    table = pd.read_csv(folder / "train.csv").rename(columns={"proline": "[/p]"})
    table["grape"] = table["grape"].replace({"barbera": "[red]b", "nebbiolo": "[/n]"})
    table.to_csv(tmp_path / "t.csv", index=False)
    path = tmp_path / "m.polycal"
    said = call("fit", tmp_path / "t.csv", "--target", "grape", "-o", path, "--drop", "id").stdout
    assert "[red]b: 0." in said
    assert "[/n]: 0." in said
    assert "[/p]" in call("info", path).stdout


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
