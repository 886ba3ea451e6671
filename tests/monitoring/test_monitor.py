"""A monitor of a stream: its bound, its state, and what it refuses to read."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sklearn.datasets import make_classification

from polycal import GeodesicCalibrator, Monitor
from polycal.monitoring.martingale import Track
from tests.toys.models import small_forest


@pytest.mark.parametrize("plan", ["holdout", "oob"])
def test_a_change_rings_and_names_its_feature(plan, model, out_of_bag, rows):
    monitor = Monitor(model if plan == "holdout" else out_of_bag)
    new = rows[2]
    for k in range(5):
        status = monitor.update(new[100 * k : 100 * k + 100])
    assert not status.alarm
    assert status.n_rows == 500
    assert status.evidence < 1
    moved = new[500:1000].copy()
    moved[:, 3] += 1.5
    status = monitor.update(moved)
    assert status.alarm
    assert 500 < status.alarm_row < 900
    assert status.behind[0][0] in ("x3", "log f")
    assert status.behind[0][1] == status.evidence > 1
    assert "alarm after row" in str(status)
    assert monitor.update(new[1000:1100]).alarm  # it stays


@pytest.mark.slow
def test_unchanged_streams_hardly_ever_ring():
    """Over calibration sets, each with a stream of its own."""
    rang, n = 0, 60
    for seed in range(n):
        X, y = make_classification(1300, n_features=4, n_redundant=0, random_state=seed)
        parent = small_forest(n_estimators=5, max_depth=4)
        fitted = GeodesicCalibrator(parent, calibration="holdout", n_hyperplanes=64)
        monitor = Monitor(fitted.fit(X[:400], y[:400]), delta=0.1)
        rang += monitor.update(X[400:]).alarm
    assert rang / n <= 0.1 + 3 * np.sqrt(0.1 * 0.9 / n)


def test_a_saved_monitor_goes_on_bit_for_bit(model, rows, tmp_path):
    path, new = tmp_path / "m.json", rows[2]
    one, other = Monitor(model), Monitor(model)
    for k in range(4):
        part = new[150 * k : 150 * k + 150]
        one.update(part)
        other.update(part)
        other.save(path)
        other = Monitor.load(path, model)
    assert one.to_dict() == other.to_dict()
    assert one.status.evidence == other.status.evidence
    assert path.stat().st_size < 100_000


def test_a_file_sorted_by_a_column_does_not_ring(model, rows):
    monitor = Monitor(model)
    assert not monitor.update(rows[2][np.argsort(rows[2][:, 0])]).alarm


DAMAGE = {
    "kind": "x",
    "version": 99,
    "model": "0" * 64,
    "delta": 2.0,
    "random_state": -1,
    "rows": 7,
    "alarm_row": 10**9,
    "tracks": [],
}
BEYOND = {"delta": 10**400, "random_state": 2**63, "rows": 10**400, "alarm_row": 10**400}


@pytest.mark.parametrize(("name", "value"), [*DAMAGE.items(), *BEYOND.items()])
def test_damaged_states_are_refused(name, value, model, rows, tmp_path):
    monitor = Monitor(model)
    monitor.update(rows[2][:50])
    state = monitor.to_dict()
    (tmp_path / "m.json").write_text(json.dumps({**state, name: value}))
    with pytest.raises(ValueError, match="m.json: .*(monitor|damaged)"):
        Monitor.load(tmp_path / "m.json", model)


@pytest.mark.parametrize("name", ["count", "low", "high", "capital", "log_scale"])
@pytest.mark.parametrize("value", [-1.0, "1", None, 1e308, 10**400])
def test_damaged_tracks_are_refused(name, value, model, rows):
    monitor = Monitor(model)
    monitor.update(rows[2][:50])
    state = json.loads(json.dumps(monitor.to_dict()))
    if name == "log_scale":
        if value == -1.0:
            return  # it may be: other numbers are not, or would have been an alarm
        state["tracks"][1][name] = value
    else:
        state["tracks"][1][name][0] = value
    with pytest.raises(ValueError, match="damaged"):
        Monitor.from_dict(state, model)


def test_counts_are_whole_numbers(model, rows):
    monitor = Monitor(model)
    monitor.update(rows[2][:50])
    state = monitor.to_dict()
    count = state["tracks"][1]["count"]
    count[0], count[1] = count[0] + 0.5, count[1] + 0.5
    count[int(np.argmax(count))] -= 1.0
    with pytest.raises(ValueError, match="damaged"):
        Monitor.from_dict(state, model)


def test_an_interrupted_update_changes_nothing(model, rows, monkeypatch):
    monitor = Monitor(model)
    monitor.update(rows[2][:50])
    before = json.dumps(monitor.to_dict())
    plain, calls = Track.follow, []

    def interrupted(*given):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return plain(*given)

    monkeypatch.setattr(Track, "follow", interrupted)
    with pytest.raises(KeyboardInterrupt):
        monitor.update(rows[2][50:100])
    assert json.dumps(monitor.to_dict()) == before


def test_no_json_and_another_model(model, out_of_bag, tmp_path):
    (tmp_path / "m.json").write_text("[" * 5000)
    with pytest.raises(ValueError, match="not JSON"):
        Monitor.load(tmp_path / "m.json", model)
    Monitor(model).save(tmp_path / "m.json")
    with pytest.raises(ValueError, match="of another model"):
        Monitor.load(tmp_path / "m.json", out_of_bag)


def test_delta_is_a_share(model):
    with pytest.raises(ValueError, match="delta must lie strictly between 0 and 1"):
        Monitor(model, delta=1)
    with pytest.raises(ValueError, match="random_state must be at most"):
        Monitor(model, random_state=2**70)
