"""polycal info."""

from __future__ import annotations

import json

import pytest

from tests.toys.commands import call


def test_info(model):
    facts = json.loads(call("info", model, "--json").stdout)
    assert facts["columns"] == ["alcohol", "flavanoids", "proline", "region"]
    assert (facts["features"], facts["training_rows"], facts["calibration_rows"]) == (4, 120, 120)
    assert facts["parent"] == "Pipeline with RandomForestClassifier"
    assert facts["false_alarm"] == 0.01
    assert facts["decimal_mark"] == "."
    assert facts["bytes"] == model.stat().st_size
    assert sum(facts["priors"].values()) == pytest.approx(1)
    assert "polytopes" in call("info", model).stdout
