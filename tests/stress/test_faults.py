"""A few of the cases of stress/faults.py."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest

from stress import faults, works

# Python 3.12 warns of any fork beside threads; these children only do what the issue asks for.
pytestmark = pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("happening", "work"), [("kill", "save"), ("interrupt", "predict"), ("disk", "save")]
)
def test_nothing_half_written_is_taken_for_whole(happening, work):
    tally = faults.run(happening, work, times=3, seed=0)
    assert not tally.failures
    assert sum(tally.counts.values()) == 3


def test_a_half_written_file_would_be_found(tmp_path, monkeypatch):
    monkeypatch.setattr(works, "N_ROWS", 60)
    bench = works.Bench.make(tmp_path)
    bench.models[0].save(bench.path)
    written = works.Predict(bench), works.Report(bench)
    assert not [*bench.model_faults(), *(fault for work in written for fault in work.faults())]
    content = bench.path.read_bytes()
    bench.path.write_bytes(content[:-1])
    (tmp_path / "out.csv").write_text("a\n1\n")
    (tmp_path / "r.html").write_text("<html>")
    (tmp_path / ".m.polycal.1234.part").touch()
    assert [*bench.model_faults()]
    assert all([*work.faults()] for work in written)
    assert len(bench.leftovers()) == 1
    child = faults.in_fork(lambda: os.kill(os.getpid(), signal.SIGKILL), lambda: None)
    assert faults.ended(child) == -signal.SIGKILL


def test_a_start_goes_on_behind_the_cases_that_are_kept(tmp_path, monkeypatch):
    asked = []

    def case(happening, work, lasts, rng, again):
        asked.append(again)
        return "broken", ["x"]

    monkeypatch.setattr(faults, "_case", case)
    monkeypatch.setattr(faults, "_seconds", lambda work: 0.1)
    monkeypatch.setattr(works.Bench, "make", lambda folder: None)
    kept = tmp_path / "kept.jsonl"
    first = faults.run("kill", "save", times=2, seed=0, kept=kept)
    assert asked == [True, False]
    second = faults.run("kill", "save", times=3, seed=0, kept=kept)
    assert len(asked) == 3
    assert (
        first.failures
        == second.failures[:2]
        == ["broken: kill save 0: ['x']", "broken: kill save 1: ['x']"]
    )
    assert not faults.run("kill", "save", times=0, seed=1, kept=kept).counts


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix" or os.getuid() != 0, reason="only root may mount a disk")
def test_a_full_disk_leaves_the_older_file():
    try:
        tally = faults.run("full", "save", times=3, seed=0)
    except subprocess.CalledProcessError:
        pytest.skip("this machine lets nobody mount a disk")
    assert not tally.failures
    assert tally.counts["refused"] > 0
