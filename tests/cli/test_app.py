"""The command line, as a user types it."""

from __future__ import annotations

import errno
import io
import json
import os
import sys
from types import SimpleNamespace

import pandas as pd
import pytest

import polycal
from tests.toys.commands import call

FIT = ["fit", "{f}/test.csv", "--target", "grape", "-o", "{f}/x", "--drop", "id"]


def test_evaluate(folder, model):
    arguments = [model, folder / "test.csv", "--target", "grape", "--ood", folder / "far.csv"]
    found = json.loads(call("evaluate", *arguments, "--json").stdout)
    by_name = {(f["model"], f["rows"], f["metric"]): f["value"] for f in found["figures"]}
    assert by_name["polycal", "out of distribution", "auroc"] == 1.0
    assert by_name["polycal", "in distribution", "error"] < 0.3
    assert ("parent", "in distribution", "ece") in by_name
    assert "| polycal |" in call("evaluate", *arguments).stdout


def test_report(folder, model):
    out = folder / "r.html"
    call("report", model, folder / "test.csv", "--target", "grape", "-o", out)
    assert "Verdict" in out.read_text()


def test_help_has_examples():
    first = ("fit", "predict", "evaluate", "report", "explain")
    for command in (*first, "check", "monitor", "info", "reproduce"):
        assert f"polycal {command}" in call(command, "--help").stdout
    assert "Start here" in call("--help").stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fit", "none.csv", "--target", "y", "-o", "m.polycal"], "there is no file"),
        (["fit", "{f}/train.csv", "--target", "y", "-o", "{f}/x.polycal"], "'y' is not a column"),
        (["fit", "{f}/train.xlsx", "--target", "y", "-o", "{f}/x.polycal"], "must end in .csv"),
        (
            ["fit", "{f}/train.csv", "--target", "grape", "-o", "{f}/no/x.polycal"],
            "does not exist",
        ),
        (
            ["fit", "{f}/train.csv", "--target", "grape", "-o", "{f}/x", "--drop", "z"],
            "--drop 'z' is not a column",
        ),
        (
            ["fit", "{f}/train.csv", "--target", "grape", "-o", "{f}/x", "--false-alarm", "low"],
            "--false-alarm must be a number",
        ),
        (
            ["fit", "{f}/train.csv", "--target", "grape", "-o", "{f}/x", "--weight", "region"],
            "column 'region' must hold finite numbers; line 2 of",
        ),
        (["fit", "{f}/head.csv", "--target", "grape", "-o", "{f}/x"], "holds no rows"),
        (["evaluate", "{m}", "{f}/head.csv", "--target", "grape"], "holds no rows"),
        (["predict", "{f}/none.polycal", "{f}/test.csv", "-o", "{f}/o.csv"], "none.polycal"),
        (["predict", "{f}/test.csv", "{f}/test.csv", "-o", "{f}/o.csv"], "test.csv"),
        (["predict", "{m}", "{f}/test.csv", "-o", "{f}/o.xlsx"], "must end in .csv"),
        (["predict", "{m}", "{f}/test.csv", "-o", "{f}/test.csv"], "is also read"),
        (["predict", "{m}", "{f}/test.csv", "-o", "{m}"], "is also read"),
        (["fit", "{f}/test.csv", "--target", "grape", "-o", "{f}/test.csv"], "is also read"),
        (["fit", "{f}/test.csv", "--target", "grape", "-o", "-"], "must name a file"),
        (["report", "{m}", "{f}/test.csv", "--target", "grape", "-o", "{f}/test.csv"], "also read"),
        (
            [*FIT, "--set", "n_estimator=5"],
            "RandomForestClassifier has no such parameter. Did you mean n_estimators?",
        ),
        (["fit", "{f}/alone.csv", "--target", "grape", "-o", "{f}/x"], "no column but the target"),
        ([*FIT, "--false-alarm", "3"], "error: --false-alarm must lie strictly between 0 and 1"),
        ([*FIT, "--jobs", "0"], "error: --jobs must be None or an integer other than 0"),
        (
            [*FIT, "--set", "max_depth"],
            "--set takes NAME=VALUE",
        ),
        (
            [*FIT, "--calibration-file", "{f}/short.csv"],
            "short.csv lacks the column(s) ['proline'] of DATA",
        ),
        (["predict", "{m}", "{f}/test.csv", "-o", "{f}/no/o.csv"], "does not exist"),
        (["predict", "{m}", "{f}/short.csv", "-o", "{f}/o.csv"], "lacks the column"),
        (
            ["predict", "{m}", "{f}/words.csv", "-o", "{f}/o.csv"],
            "finite numbers; line 3 of",
        ),
        (["predict", "{m}", "{f}/empty.csv", "-o", "{f}/o.csv"], "is empty"),
        (["predict", "{m}", "{f}/head.csv", "-o", "{f}/o.csv"], "holds no rows"),
        (["evaluate", "{m}", "{f}/test.csv", "--target", "y"], "'y' is not a column"),
        (
            ["explain", "{m}", "{f}/test.csv", "--rows", "999"],
            "--rows must be below the number of rows",
        ),
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
    table[["grape"]].to_csv(folder / "alone.csv", index=False)
    (folder / "empty.csv").write_text("")
    (folder / "train.xlsx").write_text("x")
    before = sorted(folder.iterdir())
    result = call(*[a.format(f=folder, m=model) for a in arguments], code=2)
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1  # one line, however long
    assert message in result.stderr
    assert "Traceback" not in result.output
    assert sorted(folder.iterdir()) == before


def test_version():
    assert call("--version").stdout == f"{polycal.__version__}\n"


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


def test_no_command_replaces_a_pipe(folder, model, tmp_path):
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "link.csv").symlink_to(tmp_path / "pipe.csv")
    train, target = folder / "train.csv", ("--target", "grape")
    for name in ("pipe.csv", "link.csv"):
        out = ("-o", tmp_path / name)
        for command in (
            ("fit", train, *target, *out),
            ("predict", model, train, *out),
            ("report", model, train, *target, *out),
        ):
            assert "is a named pipe, which is not replaced" in call(*command, code=2).stderr
    assert (tmp_path / "pipe.csv").is_fifo()
    assert "is a named pipe" in call("info", tmp_path / "link.csv", code=2).stderr


@pytest.mark.skipif(sys.platform == "win32", reason="pipes of Unix")
def test_a_reader_that_goes_away_is_no_error(folder, model, monkeypatch):
    """As in polycal predict ... -o - | head: the exit code says it, and no word."""

    class Gone(io.StringIO):
        def write(self, text):
            raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    monkeypatch.setattr("polycal.cli.output.sys", SimpleNamespace(stdout=Gone()))
    said = call("predict", model, folder / "test.csv", "-o", "-", code=1)
    assert "error" not in said.stderr
