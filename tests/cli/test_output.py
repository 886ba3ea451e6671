"""Files that are written: a piece at a time, never over what is read or what is no file."""

from __future__ import annotations

import os

import pandas as pd
import pytest

from polycal.cli.files import Source
from polycal.cli.output import Writer, check_output


def test_pieces_of_other_types_join(tmp_path):
    """A column that is whole in one piece and not in the next is one column."""
    writer = Writer(tmp_path / "x.parquet", ".parquet")
    writer.write(pd.DataFrame({"a": [1.5, 2.0]}))
    writer.write(pd.DataFrame({"a": [3, 4]}))
    writer.close()
    assert pd.read_parquet(tmp_path / "x.parquet")["a"].tolist() == [1.5, 2.0, 3.0, 4.0]


@pytest.mark.parametrize("kind", [".csv", ".tsv", ".csv.gz"])
def test_text_files_are_written(tmp_path, kind):
    path = tmp_path / f"x{kind}"
    writer = Writer(path, kind)
    writer.write(pd.DataFrame({"a": ["00", "x,y"]}))
    writer.write(pd.DataFrame({"a": ["ü"]}))
    writer.close()
    table = Source(path).read()
    assert list(table.columns) == ["a"]
    assert table["a"].tolist() == ["00", "x,y", "ü"]


def test_the_output_is_never_the_input(tmp_path):
    (tmp_path / "t.csv").write_text("a\n1\n")
    (tmp_path / "link.csv").symlink_to(tmp_path / "t.csv")
    with pytest.raises(ValueError, match=r"link\.csv is also read, and would be lost"):
        check_output(tmp_path / "link.csv", tmp_path / "t.csv")
    check_output(tmp_path / "other.csv", tmp_path / "t.csv")


def test_an_output_that_is_no_file_is_refused_before_the_work(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link.csv").symlink_to(tmp_path / "pipe")
    for name in ("pipe", "link.csv"):
        with pytest.raises(ValueError, match=f"{name} is a named pipe, which is not replaced"):
            check_output(tmp_path / name)
    with pytest.raises(ValueError, match="is a folder; name a file in it"):
        check_output(tmp_path)
