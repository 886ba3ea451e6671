"""The page of a history: what it says, and in a real browser."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from polycal.monitoring.history import Day
from polycal.reporting.timeline import timeline, verdict
from tests.toys.reports import NASTY

DAY = Day(
    name="2026-03-01.csv", n_bytes=1, n_rows=300, alarm=False, p_value=0.4, size=0.05,
    share_new=0.01, share_new_low=0.0, share_new_high=0.06, share_out=0.01, features={},
    evidence=0.002, stream_alarm=False, stream_behind="log f",
    accuracy=0.9, accuracy_low=0.86, accuracy_high=0.94,
)  # fmt: skip
MOVED = {
    "alarm": True, "p_value": 0.002, "share_new": 0.3, "share_new_low": 0.2, "share_new_high": 0.4,
    "features": {NASTY: 0.4, "income": 0.2}, "evidence": 1e5, "stream_alarm": True,
    "stream_behind": NASTY,
}  # fmt: skip


def series(*changes):
    """Days with these changes, as a history."""
    days = [replace(DAY, name=f"2026-03-{k + 1:02d}.csv", **some) for k, some in enumerate(changes)]
    monitor = SimpleNamespace(n_rows=300 * len(days), alarm_row=700, delta=0.01)
    return SimpleNamespace(days=days, monitor=monitor, level=0.01, smallest=0.01)


def grades(*changes):
    return [statement.grade for statement in verdict(series(*changes))]


def test_verdicts():
    fine = {"realised": 0.91, "realised_p": 0.6}
    assert grades(fine, fine) == ["good", "good", "good"]
    assert grades({}, {}) == ["good", "good", "careful"]  # no labels
    assert grades(fine, MOVED) == ["problem", "problem", "good"]
    assert grades(MOVED, {}) == ["careful", "problem", "careful"]
    wrong = {"realised": 0.7, "realised_p": 1e-4}
    assert grades(fine, wrong)[2] == "problem"
    nothing = dict.fromkeys(("accuracy", "accuracy_low", "accuracy_high")) | {"share_out": 1.0}
    assert grades(nothing)[2] == "problem"
    assert grades() == ["careful"]


def test_when_it_began_and_what_labels_say():
    shift, _, right = verdict(series({}, MOVED, MOVED | {"realised": 0.7, "realised_p": 1e-4}))
    assert "2 of 3 days raised an alarm, the first of them 2026-03-02.csv." in shift.text
    assert "2026-03-03.csv: 70.0% right, where 90.0% was expected." in right.text
    alone = verdict(series({}, MOVED))[0]
    assert "1 of 2 days raised an alarm. Features" in alone.text


def test_evidence_beyond_the_axis():
    text = timeline(series({"evidence": 0.0}, {"evidence": 1e300}), "days")
    assert ">10¹²<" in text
    assert ">0.0001<" in text


@pytest.mark.parametrize("changes", [[], [{}], [MOVED], [{}, MOVED, {}] * 5])
def test_any_number_of_days_has_a_page(changes):
    text = timeline(series(*changes), "days")
    assert text.count("<svg") == (4 if changes else 0)
    assert NASTY not in text  # it is escaped
    assert "nan" not in text


@pytest.fixture
def page_path(tmp_path):
    labels = {"realised": 0.88, "realised_p": 0.3}
    nothing = dict.fromkeys(("accuracy", "accuracy_low", "accuracy_high"))
    changes = [labels, labels, labels | MOVED, {}, nothing, MOVED, {}, {}]
    path = tmp_path / "monitor.html"
    path.write_text(timeline(series(*changes), f"days of {NASTY}"), encoding="utf-8")
    return path


@pytest.mark.parametrize(("width", "scheme"), [(1360, "light"), (390, "dark")])
def test_in_a_browser(visit, width, scheme):
    page = visit(width=width, scheme=scheme)
    ids = page.locator("section").evaluate_all("nodes => nodes.map(n => n.id)")
    assert ids == ["verdict", "shift", "accuracy", "features", "days"]
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate("window.broken") is None
    assert NASTY in page.locator("#features").inner_text()
    assert page.locator("#shift .dot.b").count() == 2
    assert page.locator("#accuracy .dot.b").count() == 3
    assert page.locator("#days tbody tr").count() == 8
    boxes = page.locator("svg text").evaluate_all(
        "nodes => nodes.map(n => n.getBoundingClientRect()).map(b => [b.left, b.right])"
    )
    assert all(left >= 0 and right <= width for left, right in boxes)
