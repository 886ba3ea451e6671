"""polycal explain."""

from __future__ import annotations

import json

from tests.toys.commands import call


def test_explain(folder, model):
    found = json.loads(call("explain", model, folder / "far.csv", "--rows", 2, "--json").stdout)
    (row,) = found["rows"]
    assert row["row"] == 2
    assert row["verdict"] == "out"
    assert next(iter(row["surprise"])) == "proline"
    text = call("explain", model, folder / "far.csv").stdout
    assert text.count("row ") >= 10
