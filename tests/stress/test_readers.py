"""A few of the cases of stress/readers.py."""

from __future__ import annotations

import pytest

from stress import readers


@pytest.mark.parametrize("kind", readers.KINDS)
def test_damaged_tables_are_refused_or_read(kind):
    tally = readers.run(kind, n_cases=25, seed=1)
    assert not tally.failures
    assert tally.counts["refused"] > 3


def test_a_reader_that_fails_would_be_found(tmp_path, monkeypatch):
    path = tmp_path / "t.csv"
    content = readers.write(".csv", path)
    assert readers.read(path, len(content))[0] == "good"

    def crash(source):
        raise KeyError("name")

    monkeypatch.setattr(readers.Source, "read", crash)
    assert readers.read(path, len(content))[0] == "wrong error"
    monkeypatch.setattr(readers.Source, "read", lambda source: "x" * readers.LEAST * 2)
    assert readers.read(path, 1)[0] == "memory"
