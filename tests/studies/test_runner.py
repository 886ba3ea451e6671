"""The study runner: resuming, independence of jobs and order, failures, settings."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from studies import _runner
from studies._runner import Options, Study, cell_name, main, read_table

ROOT = Path(__file__).parents[2]


def cells(options):
    sizes = (10, 100, 9)
    return [{"data": d, "n": n, "rep": r} for d in "ba" for n in sizes for r in options.repeat(2)]


def run(cell, options):
    if os.environ.get("TOY_PAUSE"):
        time.sleep(float(os.environ["TOY_PAUSE"]))
    if os.environ.get("TOY_FAIL") == str(cell["n"]):
        raise RuntimeError("this size fails")
    rng = np.random.default_rng(options.seed_of(**cell))
    shared = np.random.default_rng(options.seed_of(data=cell["data"])).random()
    return [
        {"method": "m", "metric": "mean", "value": rng.random(cell["n"]).mean()},
        {"method": "m", "metric": "shared", "value": shared},
    ]


def draw(frame, folder):
    table = frame.groupby(["data", "n", "metric"])["value"].mean().reset_index()
    (folder / "table.md").write_text(table.to_csv())
    return [folder / "table.md"]


TOY = Study("toy", "A toy.", cells, run, draw, settings=lambda options: {"trees": 5})
FILES = ("results.csv.gz", "table.md")


def outcome(folder: Path) -> tuple[bytes, ...]:
    return tuple((folder / name).read_bytes() for name in FILES)


def test_table_is_tidy_and_sorted(tmp_path):
    assert main(TOY, ["--out", str(tmp_path), "--seed", "7"]) == 0
    frame = read_table(tmp_path)
    assert list(frame.columns[:6]) == ["data", "n", "rep", "method", "metric", "value"]
    assert len(frame) == 2 * 3 * 2 * 2
    keys = frame[["data", "n", "rep"]].drop_duplicates()
    assert keys.to_numpy().tolist() == [
        [d, n, r] for d in "ab" for n in (9, 10, 100) for r in (0, 1)
    ]
    assert set(frame["seed"]) == {7}
    assert json.loads(frame["settings"][0]) == {"quick": False, "trees": 5}
    assert json.loads(frame["versions"][0])["numpy"] == np.__version__
    shared = frame[frame["metric"] == "shared"].groupby("data")["value"]
    assert (shared.nunique() == 1).all()
    times = pd.read_csv(tmp_path / "times.csv")
    assert (times["seconds"] >= 0).all()
    assert len(times) == 12


def test_jobs_and_order_change_nothing(tmp_path):
    backwards = replace(TOY, cells=lambda options: cells(options)[::-1])
    main(TOY, ["--out", str(tmp_path / "one")])
    main(backwards, ["--out", str(tmp_path / "two"), "--jobs", "2"])
    assert outcome(tmp_path / "one") == outcome(tmp_path / "two")


def test_cells_of_one_turn_run_one_after_another_in_one_process(tmp_path):
    """Each needs what those before it have left."""
    folder = tmp_path / "left"
    folder.mkdir()

    def numbered(options):
        return [{"data": d, "n": n, "rep": 0} for n in (0, 1, 2) for d in "abc"]

    def turn(cell):
        return cell["data"]

    def run_numbered(cell, options):
        before = [folder / f"{cell['data']}{n}" for n in range(cell["n"])]
        time.sleep(0.05 * (not before))
        assert {path.read_text() for path in before} <= {str(os.getpid())}
        (folder / f"{cell['data']}{cell['n']}").write_text(str(os.getpid()))
        return [{"metric": "none", "value": 0.0}]

    study = replace(TOY, cells=numbered, run=run_numbered, turn=turn)
    arguments = ["--out", str(tmp_path / "out"), "--jobs", "2", "--no-draw"]
    assert main(study, arguments) == 0
    assert len(list(folder.iterdir())) == 9


def test_killed_run_resumes_to_the_same_files(tmp_path):
    main(TOY, ["--out", str(tmp_path / "whole")])
    code = "import tests.studies.test_runner as t; t.main(t.TOY, ['--out', 'killed'])"
    path = os.pathsep.join([str(ROOT), str(ROOT / "src")])
    environment = {**os.environ, "PYTHONPATH": path, "TOY_PAUSE": "0.2"}
    with subprocess.Popen(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, stderr=subprocess.DEVNULL
    ) as process:
        folder = tmp_path / "killed" / "cells"
        while len(list(folder.glob("*.json"))) < 3:
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
    kept = {path: path.stat().st_mtime_ns for path in folder.glob("*.json")}
    assert 3 <= len(kept) < 12
    assert not (tmp_path / "killed" / "results.csv.gz").exists()
    main(TOY, ["--out", str(tmp_path / "killed")])
    assert outcome(tmp_path / "killed") == outcome(tmp_path / "whole")
    assert all(path.stat().st_mtime_ns == when for path, when in kept.items())


def test_failed_cell_is_reported_and_tried_again(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("TOY_FAIL", "10")
    assert main(TOY, ["--out", str(tmp_path)]) == 1
    assert "4 cells failed" in capsys.readouterr().out
    errors = sorted(path.name for path in (tmp_path / "errors").iterdir())
    assert errors[0] == "data=a,n=10,rep=0.txt"
    assert "RuntimeError: this size fails" in (tmp_path / "errors" / errors[0]).read_text()
    assert set(read_table(tmp_path)["n"]) == {9, 100}
    monkeypatch.delenv("TOY_FAIL")
    assert main(TOY, ["--out", str(tmp_path)]) == 0
    assert not list((tmp_path / "errors").iterdir())
    main(TOY, ["--out", str(tmp_path / "whole")])
    assert outcome(tmp_path) == outcome(tmp_path / "whole")


def count_runs(study: Study, arguments: list[str]) -> int:
    ran = []

    def counted(cell, options):
        ran.append(cell)
        return run(cell, options)

    main(replace(study, run=counted), arguments)
    return len(ran)


def test_only_what_is_missing_or_made_otherwise_runs(tmp_path):
    arguments = ["--out", str(tmp_path)]
    assert count_runs(TOY, [*arguments, "--reps", "1"]) == 6
    assert count_runs(TOY, arguments) == 6  # the second repetitions
    assert count_runs(TOY, arguments) == 0
    assert count_runs(TOY, [*arguments, "--device", "cuda"]) == 0  # where is not what
    other = replace(TOY, settings=lambda options: {"trees": 6})
    assert count_runs(other, arguments) == 12
    assert count_runs(other, [*arguments, "--seed", "1"]) == 12
    first, second = sorted((tmp_path / "cells").glob("*.json"))[:2]
    whole = first.read_text()
    first.write_text(whole[: len(whole) // 2])
    second.write_text(second.read_text().replace('"n": 10', '"n": 11'))
    assert count_runs(other, [*arguments, "--seed", "1"]) == 2
    assert first.read_text().split('"seconds"')[0] == whole.split('"seconds"')[0]


def test_cells_of_another_machine_and_more_cells_are_taken(tmp_path):
    main(TOY, ["--out", str(tmp_path / "there"), "--reps", "3", "--no-draw"])
    assert not (tmp_path / "there" / "table.md").exists()
    (tmp_path / "home").mkdir()
    (tmp_path / "there" / "cells").rename(tmp_path / "home" / "cells")
    assert count_runs(TOY, ["--out", str(tmp_path / "home")]) == 0
    assert len(read_table(tmp_path / "home")) == 2 * 3 * 3 * 2  # --reps 3 stays in the table


def test_draw_only_needs_no_cells(tmp_path):
    main(TOY, ["--out", str(tmp_path)])
    table = (tmp_path / "table.md").read_bytes()
    (tmp_path / "table.md").unlink()
    for path in (tmp_path / "cells").iterdir():
        path.unlink()
    assert count_runs(TOY, ["--out", str(tmp_path), "--draw-only"]) == 0
    assert (tmp_path / "table.md").read_bytes() == table
    with pytest.raises(SystemExit, match=r"run the study first"):
        main(TOY, ["--out", str(tmp_path / "nothing"), "--draw-only"])


def test_quick_has_its_own_folder_and_settings(monkeypatch, tmp_path):
    monkeypatch.setattr(_runner, "RESULTS", tmp_path)
    main(TOY, [])
    main(TOY, ["--quick"])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["toy", "toy-quick"]
    assert len(read_table(tmp_path / "toy")) == 2 * len(read_table(tmp_path / "toy-quick"))
    assert '"quick": true' in read_table(tmp_path / "toy-quick")["settings"][0]


def test_a_study_adds_its_own_flags(tmp_path):
    seen = []

    def flags(parser):
        parser.add_argument("--parents", nargs="+", default=["forest"])

    study = replace(TOY, cells=lambda options: seen.append(options) or [], flags=flags)
    main(study, ["--out", str(tmp_path), "--parents", "network", "--no-draw"])
    assert seen[0].extra == {"parents": ["network"]}


def test_seed_depends_on_seed_and_key_alone():
    options = Options(seed=3, jobs=4, device="cuda")
    assert options.seed_of(a=1, b="x") == Options(seed=3).seed_of(b="x", a=1)
    assert options.seed_of(a=1) != options.seed_of(a=2)
    assert options.seed_of(a=1) != Options(seed=4).seed_of(a=1)
    # Written down once: the seeds of published figures must not move.
    assert options.seed_of(a=1) == 1893826091


def test_names_are_readable_and_distinct():
    assert cell_name({"data": "mfeat-pixel", "n": 100}) == "data=mfeat-pixel,n=100"
    assert cell_name({"data": "a/b"}) != cell_name({"data": "a b"})
    twice = replace(TOY, cells=lambda options: [{"n": 1}, {"n": 1}])
    with pytest.raises(ValueError, match=r"distinct keys, got n=1 twice"):
        main(twice, [])


def test_rows_must_be_plain(tmp_path):
    odd = replace(TOY, cells=lambda options: [{"n": 1}], run=lambda cell, options: [{"x": set()}])
    assert main(odd, ["--out", str(tmp_path), "--no-draw"]) == 1
    assert "plain JSON values, got set" in (tmp_path / "errors" / "n=1.txt").read_text()


def test_no_cell_starts_after_the_time_is_over(tmp_path, capsys):
    assert main(TOY, ["--out", str(tmp_path), "--minutes", "-1", "--no-draw"]) == 0
    assert "12 cells are left" in capsys.readouterr().out
    assert not list((tmp_path / "cells").iterdir())
    assert not (tmp_path / "errors").exists()
    assert main(TOY, ["--out", str(tmp_path), "--minutes", "10"]) == 0
    assert len(read_table(tmp_path)) == 24
