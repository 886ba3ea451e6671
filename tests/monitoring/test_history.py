"""The history of batches: one file that is whole, and is checked."""

from __future__ import annotations

import json
from dataclasses import asdict

import numpy as np
import pytest

from polycal.monitoring.history import History, Labels


@pytest.fixture(scope="module")
def history(model, rows, shifted):
    _, _, X, y = rows
    history = History(model, 0.01, 0.01, 0.01)
    known = np.arange(300) < 200
    history.add("one.csv", X[300:600], Labels(y[300:600], known), 10)
    history.add("two.csv", shifted)
    history.add("far.csv", X[:20] + 1000)
    return history


def test_days_say_what_was_found(history, model, rows):
    _, _, X, y = rows
    one, two, far = history.days
    assert not one.alarm
    assert two.alarm
    assert two.stream_alarm
    assert two.features.keys() >= {"x0", "x1"}
    assert one.accuracy_low < one.accuracy < one.accuracy_high
    scores = model.expected_scores(X[300:500], y[300:500])
    assert one.realised == scores.realised["accuracy"]
    assert two.realised is None
    assert far.share_out == 1.0
    assert far.accuracy is None
    assert history.monitor.n_rows == 620
    assert history.day("two.csv") is two
    assert history.day("three.csv") is None


def test_labels_that_come_later(model, rows):
    _, _, X, y = rows
    history = History(model, 0.01, 0.01, 0.01)
    before = history.add("one.csv", X[:100])
    after = history.add_labels("one.csv", X[:100], Labels(y[:100], np.ones(100, bool)), 99)
    assert before.realised is None
    assert 0.5 < after.realised <= 1
    assert after.n_bytes == 99
    assert history.monitor.n_rows == 100
    assert history.days == [after]


def test_a_saved_history_goes_on(history, model, rows, tmp_path):
    path = tmp_path / "h.json"
    history.save(path)
    loaded = History.load(path, model)
    assert loaded.days == history.days
    again = loaded.add("next.csv", rows[2][600:700])
    other = History.load(path, model).add("next.csv", rows[2][600:700])
    assert again == other


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("kind", "x"),
        ("version", 2),
        ("level", "low"),
        ("level", 0),
        ("days", None),
        ("days", [{}]),
        ("days", []),
        ("monitor", {}),
    ],
)
def test_damaged_files_are_refused(name, value, history, model, tmp_path):
    path = tmp_path / "h.json"
    history.save(path)
    path.write_text(json.dumps({**json.loads(path.read_text()), name: value}))
    with pytest.raises(ValueError, match="h.json"):
        History.load(path, model)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("name", 1),
        ("n_rows", -1),
        ("n_bytes", 10**400),
        ("evidence", 10**400),
        ("name", "two.csv"),
        ("p_value", 2.0),
        ("share_new", "much"),
        ("alarm", 1),
        ("realised", float("inf")),
        ("features", {"x": "far"}),
    ],
)
def test_damaged_days_are_refused(name, value, history, model, tmp_path):
    path = tmp_path / "h.json"
    history.save(path)
    state = json.loads(path.read_text())
    state["days"][0][name] = value
    path.write_text(json.dumps(state))
    with pytest.raises(ValueError, match="is no history of polycal monitor, or it is damaged"):
        History.load(path, model)


def test_days_are_plain_values(history):
    assert json.loads(json.dumps([asdict(day) for day in history.days]))


def test_an_error_changes_nothing(history, model, rows, tmp_path, monkeypatch):
    path = tmp_path / "h.json"
    history.save(path)
    other = History.load(path, model)

    def fail(*_, **__):
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(type(model), "expected_scores", fail)
        with pytest.raises(MemoryError):
            other.add("next.csv", rows[2][600:700])
    other.save(path)
    assert History.load(path, model).days == history.days
