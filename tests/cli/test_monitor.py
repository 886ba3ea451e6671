"""polycal monitor: days that are checked once, and a history that survives a crash."""

from __future__ import annotations

import json
import os

import pandas as pd
import pytest

from polycal.cli import monitor
from polycal.monitoring import history
from tests.toys.commands import call


@pytest.fixture
def days(folder, tmp_path):
    """Three days: one as it was, one without labels, one far away."""
    days = tmp_path / "days"
    days.mkdir()
    table = pd.read_csv(folder / "test.csv")
    table.to_csv(days / "day-1.csv", index=False)
    table.drop(columns="grape").to_parquet(days / "day-2.parquet")
    table.assign(proline=1e6, alcohol=99.0).to_csv(days / "day-3.csv", index=False)
    (days / "notes.md").write_text("no table")
    (days / ".hidden.csv").write_text("")
    return days


def test_a_folder_of_days(days, model, folder):
    said = call("monitor", model, days, "--target", "grape", "--json", code=3)
    found = json.loads(said.stdout)
    assert [day["name"] for day in found["days"]] == ["day-1.csv", "day-2.parquet", "day-3.csv"]
    assert [day["alarm"] for day in found["days"]] == [False, False, True]
    assert found["days"][0]["realised"] > 0.5
    assert found["days"][1]["realised"] is None
    assert found["stream"] == {"alarm": True, "rows": 3 * 58, "since": "day-3.csv"}
    text = (days / "monitor.html").read_text()
    assert "day-3.csv is not like the calibration rows" in text
    # A second call has nothing to do; a new day is checked alone.
    assert json.loads(call("monitor", model, days, "--json", code=3).stdout)["days"] == []
    pd.read_csv(folder / "test.csv").to_csv(days / "day-4.csv", index=False)
    said = call("monitor", model, days, code=3).stdout
    assert "day-4.csv: ok" in said
    assert "all days together: ALARM since day-3.csv, most of its evidence in" in said


def test_labels_that_contradict_are_told(days, model, folder):
    table = pd.read_csv(folder / "test.csv")
    for day in days.glob("day-*"):
        day.unlink()
    table.to_csv(days / "right.csv", index=False)
    turned = dict(zip(sorted(set(table["grape"])), sorted(set(table["grape"]))[::-1], strict=True))
    table.assign(grape=table["grape"].map(turned)).to_csv(days / "wrong.csv", index=False)
    right, wrong = call("monitor", model, days, "--target", "grape").stdout.splitlines()[:2]
    assert "CONTRADICT" not in right
    assert ": LABELS CONTRADICT IT (p < 0.000001)" in wrong


def test_a_crash_loses_no_day(days, model, monkeypatch):
    """Stopped while the second day is checked, it goes on there and ends as if it had not been."""
    plain, calls = history.check_batch, []

    def stop_at_the_second(*arguments, **options):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return plain(*arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(history, "check_batch", stop_at_the_second)
        call("monitor", model, days, code=130)
    first = json.loads((days / "history.json").read_text())
    assert [day["name"] for day in first["days"]] == ["day-1.csv"]
    call("monitor", model, days, code=3)
    resumed = (days / "history.json").read_text()
    os.remove(days / "history.json")
    call("monitor", model, days, code=3)
    assert (days / "history.json").read_text() == resumed


def test_labels_that_come_later(days, model, folder):
    call("monitor", model, days, "--target", "grape", code=3)
    pd.read_csv(folder / "test.csv").to_parquet(days / "day-2.parquet")
    again = call("monitor", model, days, "--target", "grape", "--json", code=3)
    found = json.loads(again.stdout)
    assert [day["name"] for day in found["days"]] == ["day-2.parquet"]
    assert found["days"][0]["realised"] > 0.5
    assert found["stream"] == {"alarm": True, "rows": 3 * 58, "since": "day-3.csv"}


def test_a_day_that_has_grown_is_said(days, model, folder):
    call("monitor", model, days, code=3)
    table = pd.read_csv(folder / "test.csv")
    pd.concat([table, table]).to_csv(days / "day-1.csv", index=False)
    with pytest.warns(UserWarning, match="it is not checked again"):
        call("monitor", model, days, code=3)


def test_labels_of_a_class_that_the_model_does_not_know(folder):
    table = pd.read_csv(folder / "test.csv", dtype="string")
    table.loc[table.index[:3], "grape"] = "merlot"
    table.loc[table.index[3:5], "grape"] = None
    classes = table["grape"].dropna().unique()
    with pytest.warns(UserWarning, match="does not know, .'merlot'."):
        found = monitor.labels_known(table, "grape", classes[classes != "merlot"].to_numpy())
    assert found.known.sum() == len(table) - 5


def test_other_limits_need_another_history(days, model):
    call("monitor", model, days, code=3)
    said = call("monitor", model, days, "--level", 0.05, code=2)
    assert "was begun with --level 0.01" in said.stderr


def test_what_is_no_folder_or_no_history(days, model):
    said = call("monitor", model, days / "day-1.csv", code=2)
    assert "is not a folder" in said.stderr or "does not exist" in said.stderr
    (days / "history.json").write_text("{}")
    said = call("monitor", model, days, code=2)
    assert "is no history of polycal monitor" in said.stderr


def test_a_day_that_cannot_be_read_stops_no_other(days, model):
    (days / "day-0.csv").write_text("")
    whole = (days / "day-1.csv").read_text()
    (days / "day-1.csv").write_text(whole.rstrip().rsplit(",", 3)[0])  # cut off within a line
    os.remove(days / "day-3.csv")
    said = call("monitor", model, days, "--json", code=2)
    found = json.loads(said.stdout)
    assert [day["name"] for day in found["days"]] == ["day-2.parquet"]
    assert [day["name"] for day in found["unread"]] == ["day-0.csv", "day-1.csv"]
    assert "day-0.csv is empty" in said.stderr
    assert (days / "monitor.html").exists()
    os.remove(days / "day-0.csv")
    (days / "day-1.csv").write_text(whole)
    assert "day-1.csv: ok" in call("monitor", model, days).stdout


def test_what_is_written_replaces_no_day_and_not_each_other(days, model):
    for name, option in (("history.json", "--output"), ("monitor.html", "--history")):
        said = call("monitor", model, days, option, days / name, code=2)
        assert "Name two files" in said.stderr
    before = (days / "day-1.csv").read_bytes()
    for option in ("--output", "--history"):
        said = call("monitor", model, days, option, days / "day-1.csv", code=2)
        assert "would stand for a day" in said.stderr
    assert (days / "day-1.csv").read_bytes() == before
