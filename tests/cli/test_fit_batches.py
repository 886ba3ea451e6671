"""polycal fit --stream: a file that is larger than memory."""

from __future__ import annotations

import gzip
import json
import signal
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import polycal
from polycal.cli import fit_batches
from polycal.cli.files import Source
from tests.toys.commands import call

N = 3000


@pytest.fixture(scope="module")
def messy(tmp_path_factory):
    """Numbers, codes, dates, prose, ids and text of numbers, as CSV and as Parquet."""
    folder = tmp_path_factory.mktemp("large")
    rng = np.random.default_rng(0)
    kind = rng.choice(["red", "green", "blue"], N)
    kind[17] = "rare"
    x = rng.normal(size=N)
    days = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 500, N), unit="D")
    table = pd.DataFrame(
        {
            "row": rng.permutation(N) + 1000,
            "x": x.round(3),
            "price": [f"{v:.2f} EUR" for v in rng.lognormal(3, 1, N)],
            "kind": kind,
            "zip": [f"0{v}" for v in rng.integers(1000, 1020, N)],
            "day": days.strftime("%d.%m.%Y"),
            "key": [f"K{i:06d}" for i in range(N)],
            "note": [f"row {i} says a few words {i % 7}" for i in range(N)],
            "weight": rng.integers(0, 3, N),
        }
    )
    table.loc[17, "weight"] = 1
    table.loc[5::50, "x"] = np.nan
    table.loc[3::100, "price"] = "n.a."
    y = x + (kind == "red") + rng.normal(size=N) / 2 > 0
    table["label"] = np.where(y, "yes", "no")
    table.to_csv(folder / "t.csv", index=False)
    table.assign(day=days).to_parquet(folder / "t.parquet")
    return folder


def fit(path, output, *options):
    arguments = ["--target", "label", "-o", output, "--weight", "weight", "--json", *options]
    arguments += ["--parent", "hgb", "--set", "max_iter=20"]
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found = json.loads(call("fit", path, *arguments).stdout)
    notes = [str(warning.message) for warning in said]
    # Also those of few calibration rows, and of cells that are read as missing.
    assert sum(note.startswith("left out: 'row' (id: numbers the rows)") for note in notes) == 1
    return found


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_columns_are_read_as_in_a_plain_fit(messy, name, monkeypatch):
    """Also where a sample alone decides, and has gaps."""
    monkeypatch.setattr(fit_batches, "PIECE_ROWS", 700)
    monkeypatch.setattr(fit_batches, "SAMPLE_ROWS", 1500)
    plain = fit(messy / name, messy / "plain.polycal", "--no-stream")
    stream = fit(messy / name, messy / "stream.polycal", "--stream", "--memory-limit", "200MiB")
    roles = {name: column["role"] for name, column in plain["columns"].items()}
    assert roles == {name: column["role"] for name, column in stream["columns"].items()}
    assert roles["row"] == "id"
    assert stream["columns"]["row"]["reason"] == "numbers the rows"
    same = ("parent", "features", "categories")
    assert {key: plain[key] for key in same} == {key: stream[key] for key in same}
    assert stream["calibration"] == "stream"
    model = polycal.load(messy / "stream.polycal")
    table = pd.read_csv(messy / "t.csv")
    assert stream["rows"] == (table["weight"] > 0).sum()
    encoder = model.estimator_.steps[0][1].named_transformers_["categories"]
    # One row of 3000 has it, and the parent is fitted on half of them.
    assert any("rare" in known for known in encoder.categories_)
    out = messy / "p.csv"
    call("predict", messy / "stream.polycal", messy / name, "-o", out)
    assert (pd.read_csv(out)["prediction"] == table["label"]).mean() > 0.75
    assert model.columns_.decimal == (None if name == "t.parquet" else ".")


def test_a_large_parquet_file_streams_by_itself(messy, monkeypatch):
    monkeypatch.setattr(fit_batches, "MANY_ROWS", 2000)
    options = ["--target", "label", "-o", messy / "l.polycal", "--parent", "hgb"]
    options += ["--set", "max_iter=20"]
    with pytest.warns(UserWarning, match="left out"):
        said = call("fit", messy / "t.parquet", *options, "--memory-limit", "200MiB")
    assert "is large, and is fitted batch by batch; --no-stream reads it whole" in said.stderr
    assert polycal.load(messy / "l.polycal").calibration_ == "stream"


def test_which_files_are_large(messy, tmp_path, monkeypatch):
    text, zipped = messy / "t.csv", tmp_path / "t.csv.gz"
    zipped.write_bytes(gzip.compress(text.read_bytes()))
    names = (text, zipped, messy / "t.parquet")
    assert not any(fit_batches.is_large(Source(name)) for name in names)
    assert not fit_batches.is_large(Source(Path("-")))
    assert not fit_batches.is_large(Source(tmp_path / "none.csv"))
    monkeypatch.setattr(fit_batches, "MANY_BYTES", 100_000)
    assert all(fit_batches.is_large(Source(name)) for name in names)
    monkeypatch.setattr(fit_batches, "MANY_BYTES", 1e9)
    monkeypatch.setattr(fit_batches, "MANY_ROWS", 2000)
    assert [fit_batches.is_large(Source(name)) for name in names] == [False, False, True]


def test_what_cannot_stream(messy):
    options = ["--target", "label", "-o", messy / "n.polycal", "--stream"]
    held = ["--calibration-file", messy / "t.parquet"]
    said = call("fit", messy / "t.csv", *options, *held, code=2)
    assert "takes no --calibration-file" in said.stderr
    said = call("fit", messy / "t.csv", *options, "--target", "lable", code=2)
    assert "--target 'lable' is not a column" in said.stderr
    said = call("fit", "-", *options, code=2)
    assert "stdin can be read only once" in said.stderr
    assert not (messy / "n.polycal").exists()


def test_counters_are_told_from_other_whole_numbers():
    rng = np.random.default_rng(0)
    numbers = rng.permutation(np.arange(10.0, 5010.0))
    for values, expected in (
        (numbers, True),
        (np.append(numbers[1:], np.nan), numbers[0] in (10.0, 5009.0)),
        (np.append(numbers[1:], numbers[1]), False),  # one is twice, one is not there
        (2 * numbers, False),
    ):
        counter = fit_batches.Counter()
        for part in np.array_split(values, 7):
            counter.add(part)
        assert counter.numbers_the_rows is bool(expected)
    assert not fit_batches.Counter().numbers_the_rows


def test_a_killed_fit_leaves_nothing_that_could_be_a_model(messy):
    folder = messy / "killed"
    folder.mkdir()
    arguments = ["fit", messy / "t.csv", "--stream", "--target", "label"]
    arguments += ["-o", folder / "m.polycal", "--set", "n_estimators=5"]
    # It says when the second pass is under way, and then waits to be killed.
    program = (
        "import sys, time; sys.argv = sys.argv[1:]\n"
        "from polycal.calibration.stream import Stream\n"
        "added = Stream.add\n"
        "def add(self, *a, **k):\n"
        "    added(self, *a, **k); print('added', flush=True); time.sleep(60)\n"
        "Stream.add = add\n"
        "from polycal.cli.app import app; app()\n"
    )
    command = [sys.executable, "-W", "ignore", "-c", program, "polycal", *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "added\n"
        process.send_signal(signal.SIGKILL)
        assert process.wait(30) == -signal.SIGKILL
    assert list(folder.iterdir()) == []
