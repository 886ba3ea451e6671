"""polycal check: exit code 0, or 3 on an alarm."""

from __future__ import annotations

import json

from tests.toys.commands import call


def test_check(folder, model):
    said = call("check", model, folder / "test.csv")
    assert "none seen" in said.stdout
    assert "promised" in said.stdout
    found = json.loads(call("check", model, folder / "far.csv", "--json", code=3).stdout)
    assert found["alarm"]
    assert found["features"][0]["name"] == "proline"
    assert found["rows"] == 58
    assert found["interval"][0] > 0.5
    assert "alarm" in call("check", model, folder / "far.csv", code=3).stdout


def test_bad_options(folder, model):
    said = call("check", model, folder / "test.csv", "--level", 2, code=2)
    assert said.stderr.startswith("error: level must lie strictly between 0 and 1")
