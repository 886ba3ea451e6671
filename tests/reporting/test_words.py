"""The verdict of the report, in words that the numbers allow."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from polycal import KernelDensityForest
from polycal.metrics import expected_calibration_error
from polycal.reporting.findings import Findings
from polycal.reporting.words import _alarms, chance_of_alarms, summary, verdict


def test_verdict_of_good_rows(wine):
    model, X, y, X_ood = wine
    found = Findings.of(model, X, y, X_ood, 50, 0)
    statements = verdict(found)
    assert [s.grade for s in statements[1:]] == ["good", "good", "good"]
    ece = expected_calibration_error(
        np.searchsorted(model.classes_, y), model.predict_proba(X), n_bins=20
    )
    assert f"(ECE) {ece:.3f}" in statements[0].text
    assert found.figure("polycal", "ece")[0] == pytest.approx(ece)
    assert statements[1].text.startswith(f"{(model.explain(X).verdict == 'out').sum()} of 45")


def test_verdict_of_shifted_rows(wine):
    model, X, y, _ = wine
    statements = verdict(Findings.of(model, X * 1.5, y, X, 50, 0))
    assert statements[1].grade == "problem"
    assert "not like" in statements[1].head
    assert statements[3].grade == "problem"  # rows in distribution, called out of it
    assert "problem" in summary(statements)


def test_verdict_of_wrong_labels(wine):
    model, X, y, _ = wine
    statements = verdict(Findings.of(model, X, np.roll(y, 1), None, 50, 0))
    assert statements[0].grade == "problem"
    assert "too sure" in statements[0].text


def test_a_floor_by_hand_that_never_closes_is_found(wine):
    _, X, y, _ = wine
    open_wide = KernelDensityForest(60, floor=-1e300, random_state=0).fit(X, y)
    assert verdict(Findings.of(open_wide, X, y, None, 50, 0))[2].grade == "problem"


def test_alarms_that_chance_explains():
    """In 40 samples of exchangeable rows, "not like the training data" is said at most once."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(3000, 2))
    label = (rows[:, 0] > 0).astype(int)
    model = KernelDensityForest(20, calibration="holdout", random_state=0)
    model.fit(rows[:600], label[:600])
    said = 0
    for part in np.array_split(np.arange(600, 3000), 40):
        found = Findings.of(model, rows[part], label[part], None, 1, 0)
        said += _alarms(found).grade == "problem"
    assert said <= 1


def test_a_few_rows_prove_nothing(wine):
    model, X, y, _ = wine
    for labels in (y[:2], y[:2][::-1]):  # right, and perhaps both wrong
        statement = verdict(Findings.of(model, X[:2], labels, None, 5, 0))[0]
        assert statement.grade != "good"
    assert "Too few test rows" in verdict(Findings.of(model, X[:2], y[:2], None, 5, 0))[0].head


def test_rows_that_are_all_out_are_not_inside_the_data(wine):
    model, X, y, _ = wine
    assert "Inside" not in verdict(Findings.of(model, X * 100, y, None, 5, 0))[0].head


def test_many_rows_at_the_edge_are_a_shift(wine):
    model, X, y, _ = wine
    found = Findings.of(model, X, y, None, 5, 0)
    words = np.where(np.arange(len(X)) < len(X) // 2, "edge", "in distribution")
    test = replace(found.sets[0], why=replace(found.sets[0].why, verdict=words))
    statement = _alarms(replace(found, sets=[test]))
    assert statement.grade == "problem"
    assert "0 of 45 rows (0.0%)" in statement.text
    assert "5.0% out or at the edge" in statement.text


def test_rows_that_are_noticed_but_trusted(wine):
    model, X, y, _ = wine
    found = Findings.of(model, X, y, X, 5, 0)  # trusted, since they are the test rows
    edge = replace(found.sets[1].why, verdict=np.full(len(X), "edge"))
    found = replace(found, sets=[found.sets[0], replace(found.sets[1], why=edge)])
    statement = verdict(found)[3]
    assert statement.grade == "careful"
    assert "answers most as if it knew them" in statement.head


def test_chance_of_alarms_by_hand():
    """One new row is below the k-th of m scores with chance k / (m + 1)."""
    assert chance_of_alarms(1, 1, 0.01, 199) == pytest.approx(2 / 200)
    assert chance_of_alarms(1, 1, 0.29, 99) == pytest.approx(29 / 100)  # 0.29 * 100 < 29 in floats
    assert chance_of_alarms(1, 1, 0.01, 9) == pytest.approx(1 / 10)  # too few scores: the lowest
    # Both of two rows below the lowest of two scores: 2! 2! / 4!, the orders that allow it.
    assert chance_of_alarms(2, 2, 0.4, 2) == pytest.approx(1 / 6)
    assert chance_of_alarms(0, 5, 0.01, 199) == 1.0
