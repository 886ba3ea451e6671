"""A few of the cases of stress/guided.py."""

from __future__ import annotations

import numpy as np
import pytest

from polycal.persistence.container import read
from stress import guided


@pytest.mark.slow
@pytest.mark.parametrize("target", guided.TARGETS)
def test_damaged_files_are_refused_or_read(target):
    tally = guided.run(target, n_cases=20, seed=3)
    assert not tally.failures
    assert sum(tally.counts.values()) == 20


@pytest.fixture
def model(tmp_path):
    return guided.Model(tmp_path)


def test_a_mended_file_gets_as_far_as_its_content(model):
    content = model.good.replace(b'"calibration', b'"calibratiom')
    assert content != model.good
    model.path.write_bytes(content)
    with pytest.raises(ValueError, match="checksum"):
        read(model.path)
    model.path.write_bytes(guided.mended(content))
    read(model.path)
    assert guided.mended(model.good) == model.good
    assert guided.mended(b"short") == b"short"


def test_steps_of_polycal_alone_are_recorded(model):
    read_whole, cut = set(), set()
    model.path.write_bytes(model.good)
    with guided.recorded(read_whole):
        read(model.path)
    model.path.write_bytes(model.good[:-1])
    with guided.recorded(cut), pytest.raises(ValueError, match="ends too early"):
        read(model.path)
    assert cut - read_whole  # so that a cut file joins the corpus
    assert len(read_whole) > 30
    again = set()
    model.path.write_bytes(model.good)
    with guided.recorded(again):
        read(model.path)
        np.linalg.norm(np.ones(3))
    assert again == read_whole


def test_a_reader_that_fails_would_be_found(tmp_path, monkeypatch):
    target = guided.Monitored(tmp_path)
    assert target.read() == ("good", "")
    monkeypatch.setattr(guided.History, "save", lambda *_: 1 / 0)
    assert target.read()[0] == "invalid"
    monkeypatch.setattr(guided.History, "load", lambda *_: 1 / 0)
    assert target.read()[0] == "wrong error"
