"""polycal predict: the answers of the model, in a file that is complete or absent."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier

import polycal
from polycal.cli import predict
from polycal.cli.files import Source
from polycal.cli.tables import features_of
from tests.toys.commands import call


@pytest.mark.parametrize("data", ["test.csv", "test.parquet"])
@pytest.mark.parametrize("kind", [".csv", ".parquet"])
def test_predict(folder, model, data, kind):
    out = folder / f"{data}.out{kind}"
    rows = ["--rows-at-a-time", 7]
    said = call("predict", model, folder / data, "-o", out, "--keep", "id", *rows, "--json")
    found = pd.read_csv(out) if kind == ".csv" else pd.read_parquet(out)
    table = pd.read_csv(folder / "test.csv")
    loaded = polycal.load(model)
    X = features_of(loaded, table)
    assert found["id"].astype(str).tolist() == table["id"].astype(str).tolist()
    np.testing.assert_array_equal(found["prediction"], loaded.predict(X))
    np.testing.assert_allclose(
        found[[f"p_{c}" for c in loaded.classes_]], loaded.predict_proba(X), atol=1e-12
    )
    np.testing.assert_allclose(found["trust"], loaded.in_distribution(X), atol=1e-12)
    np.testing.assert_array_equal(found["verdict"], loaded.explain(X).verdict)
    counts = json.loads(said.stdout)
    assert counts["rows"] == len(table)
    assert counts["out"] == (found["verdict"] == "out").sum()


def test_stdout_has_the_rows_and_stderr_the_summary(folder, model):
    said = call("predict", model, folder / "test.csv", "-o", "-", "--keep", "id")
    found = pd.read_csv(io.StringIO(said.stdout))
    assert len(found) == 58
    assert "in distribution" in said.stderr
    found = call("predict", model, folder / "test.csv", "-o", "-", "--json")
    assert json.loads(found.stderr)["rows"] == 58


def test_kept_columns_are_never_overwritten(folder, model, tmp_path):
    table = pd.read_csv(folder / "test.csv", dtype=str)
    table.assign(trust="00000").to_csv(tmp_path / "t.csv", index=False)
    arguments = ["predict", model, tmp_path / "t.csv", "-o", tmp_path / "o.csv", "--keep", "trust"]
    said = call(*arguments, code=2).stderr
    assert "--keep 'trust' has the name of a column of the answers" in said
    assert "--prefix polycal_" in said
    call(*arguments, "--prefix", "polycal_")
    found = pd.read_csv(tmp_path / "o.csv", dtype=str)
    assert set(found["trust"]) == {"00000"}
    assert "polycal_trust" in found


def test_labels_of_numbers(folder, tmp_path):
    """A model of Python with whole numbers as classes takes a file of them."""
    names = ["alcohol", "flavanoids", "proline"]
    table = pd.read_csv(folder / "train.csv")[names].fillna(13.0)
    y = (table["proline"] > 700).astype(int)
    forest = RandomForestClassifier(20, random_state=0)
    polycal.GeodesicCalibrator(forest, random_state=0).fit(table, y).save(tmp_path / "m.polycal")
    table.assign(y=y.astype(float)).to_csv(tmp_path / "t.csv", index=False)
    call("evaluate", tmp_path / "m.polycal", tmp_path / "t.csv", "--target", "y")
    table.assign(y="yes").to_csv(tmp_path / "t.csv", index=False)
    said = call("evaluate", tmp_path / "m.polycal", tmp_path / "t.csv", "--target", "y", code=2)
    assert "has the label 'yes'; the classes of the model are [0, 1]" in said.stderr


def test_far_rows_are_out(folder, model):
    call("predict", model, folder / "far.csv", "-o", folder / "far_out.csv")
    found = pd.read_csv(folder / "far_out.csv")
    assert (found["verdict"] == "out").all()
    assert found["trust"].max() < 0.01


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


def test_an_interrupt_inside_compiled_code_is_one_too(folder, model, monkeypatch):
    """Python wraps it into a SystemError; any other SystemError is a fault of a library."""
    out = folder / "never.csv"

    def fail(cause):
        raise SystemError("returned a result with an exception set") from cause

    for cause, code in ((KeyboardInterrupt(), 130), (None, 1)):
        monkeypatch.setattr(predict, "predict_table", lambda *a, cause=cause: fail(cause))
        call("predict", model, folder / "test.csv", "-o", out, code=code)
    assert not out.exists()


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


def test_a_table_that_has_shifted_is_said_once(tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.normal(size=300), "b": rng.normal(size=300)})
    y = np.where(table["a"] + rng.normal(size=300) > 0, "yes", "no")
    forest = RandomForestClassifier(20, random_state=0)
    model = polycal.GeodesicCalibrator(forest, random_state=0).fit(table, y)
    table.assign(b=1000.0).to_csv(tmp_path / "new.csv", index=False)
    rows = Source(tmp_path / "new.csv"), tmp_path / "out.csv", [], "", 100, False
    with pytest.warns(polycal.ShiftWarning) as found:
        assert predict.predict_file(model, *rows)["out"] == 300
    (said,) = found
    assert "100% of the 100 rows" in str(said.message)
    assert "column 'b' is outside of its range" in str(said.message)
