"""What decisions and expected scores print, and their frames."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from polycal.decisions.expected import Figure
from polycal.decisions.result import Decisions, ExpectedScores


def decisions(n=3, review=0.5, **fields):
    actions = np.array(["accept", "review", "refuse"])
    return Decisions(
        **{
            "action": np.resize(actions, n),
            "label": np.resize(["<b>", "good"], n),
            "error": np.linspace(0.1, 0.5, n),
            "cost": np.linspace(0.2, 1.0, n),
            "review": review,
            "threshold": None,
            "guarantee": "none",
        }
        | fields
    )


def test_decisions_add_up():
    found = decisions()
    assert len(found) == 3
    assert found.shares == {"accept": 1 / 3, "review": 1 / 3, "refuse": 1 / 3}
    assert found.expected_errors == pytest.approx(0.1)
    assert found.expected_cost == pytest.approx(0.2 + 2 * 0.5)
    assert np.isnan(decisions(review=None).expected_cost)
    accepted = decisions(review=None, action=np.full(3, "accept"))
    assert accepted.expected_cost == pytest.approx(0.2 + 0.6 + 1.0)


def test_decisions_are_shown():
    found = decisions(12)
    text = repr(found)
    assert text.splitlines()[0].split()[:3] == ["row", "action", "label"]
    assert "... and 2 more rows" in text
    assert "33.3% accept, 33.3% review, 33.3% refuse. Promised: none." in " ".join(text.split())
    html = found._repr_html_()
    assert "&lt;b&gt;" in html
    assert html.count("<tr>") == 11
    index = list("abcdefghijkl")
    frame = decisions(12, index=index).to_frame()
    assert list(frame.columns) == ["action", "label", "error", "cost"]
    assert frame.index.tolist() == index
    assert "a " in repr(decisions(12, index=index)).splitlines()[2]


def scores(**fields):
    figure = Figure(0.8, 0.02, 0.76, 0.84)
    return ExpectedScores(
        **{
            "accuracy": figure,
            "log_loss": Figure(0.5, 0.1, 0.3, 0.7),
            "brier": Figure(0.3, 0.05, 0.2, 0.4),
            "confusion": np.eye(2),
            "confusion_low": np.eye(2),
            "confusion_high": np.eye(2),
            "classes": np.arange(2),
            "n_rows": 200,
            "n_out": 50,
            "level": 0.95,
            "realised": None,
            "realised_confusion": None,
            "p_value": None,
            "note": "Such is it.",
        }
        | fields
    )


def test_expected_scores_are_shown():
    found = scores()
    assert found.share_out == 0.25
    assert found.accuracy_bounds == pytest.approx((0.6, 0.85))
    text = " ".join(repr(found).split())
    assert "accuracy 0.8000 0.7600 to 0.8400" in text
    assert "150 rows, and 50 (25.0%) that are out and not counted. Such is it." in text
    assert "<td>log-loss</td><td>0.5000</td>" in found._repr_html_()
    frame = found.to_frame()
    assert list(frame.columns) == ["expected", "deviation", "low", "high"]
    assert frame.loc["brier", "expected"] == 0.3
    realised = {"accuracy": 0.7, "log_loss": 0.6, "brier": 0.5}
    known = scores(realised=realised, p_value=0.004, n_out=0)
    assert "Chance of such a difference: 0.004." in " ".join(repr(known).split())
    assert "out" not in repr(known)
    expected = pd.Series(realised, name="realised")
    pd.testing.assert_series_equal(known.to_frame()["realised"], expected)
