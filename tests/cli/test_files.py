"""Files as they are: separators, encodings, decimal marks, zipped files, streams, bad lines."""

from __future__ import annotations

import csv
import gzip
import io
import os
import sys
from types import SimpleNamespace

import pandas as pd
import pyarrow as arrow
import pyarrow.parquet
import pytest

from polycal.cli.files import (
    STREAM,
    Source,
    decimal_of,
    find_separator,
)

TABLE = "Größe;Note\n1,5;gut\n2,5;na ja\n"


def cells(source):
    table = source.read()
    return [list(table.columns), *table.astype(str).to_numpy().tolist()]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("ending", ["t.csv", "t.csv.gz", "t.txt"])
def test_encodings_and_zipped_files(tmp_path, encoding, ending):
    content = TABLE.encode(encoding)
    (tmp_path / ending).write_bytes(gzip.compress(content) if "gz" in ending else content)
    table = Source(tmp_path / ending).read()
    assert list(table.columns) == ["Größe", "Note"]
    assert table["Note"].tolist() == ["gut", "na ja"]
    assert table.attrs["decimal"] == ","
    assert table.index.tolist() == [2, 3]  # lines of the file


def test_windows_files_are_read_with_a_word(tmp_path):
    (tmp_path / "t.csv").write_bytes(TABLE.encode("cp1252"))
    with pytest.warns(
        UserWarning, match=r"t\.csv is not UTF-8 in line 1, and is read as cp1252.*--encoding"
    ):
        assert Source(tmp_path / "t.csv").read().columns[0] == "Größe"
    assert Source(tmp_path / "t.csv", encoding="cp1252").read().columns[0] == "Größe"
    with pytest.raises(ValueError, match=r"t\.csv is not utf-8 in line 1\. Name its encoding"):
        Source(tmp_path / "t.csv", encoding="utf-8").read()
    with pytest.raises(ValueError, match="--encoding 'utf-99' is not known"):
        Source(tmp_path / "t.csv", encoding="utf-99")


def test_a_file_that_is_not_utf8_beyond_the_sample(tmp_path, monkeypatch):
    monkeypatch.setattr("polycal.cli.files.SAMPLE_BYTES", 16)
    (tmp_path / "t.csv").write_bytes(b"a,b\n" + b"1,2\n" * 50 + "ü,2\n".encode("cp1252"))
    with pytest.raises(ValueError, match=r"is not utf-8 in line 52\. .*--encoding cp1252"):
        Source(tmp_path / "t.csv").read()


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_separators_are_found(tmp_path, separator):
    lines = [f'a{separator}"b, c; d"', f"1{separator}x", f"2{separator}y z"]
    assert find_separator([line + "\n" for line in lines]) == separator
    (tmp_path / "t.csv").write_text("\n".join(lines))
    assert cells(Source(tmp_path / "t.csv")) == [["a", "b, c; d"], ["1", "x"], ["2", "y z"]]


def test_separators_are_named(tmp_path):
    (tmp_path / "t.csv").write_text("a,b:c\n1,2:3\n")
    assert cells(Source(tmp_path / "t.csv", ":")) == [["a,b", "c"], ["1,2", "3"]]
    (tmp_path / "t.tsv").write_text("a,b\tc\n1,2\t3\n")
    assert cells(Source(tmp_path / "t.tsv")) == [["a,b", "c"], ["1,2", "3"]]
    assert cells(Source(tmp_path / "t.tsv", "comma")) == [["a", "b\tc"], ["1", "2\t3"]]
    (tmp_path / "excel.csv").write_text("sep=;\na;b\n1;2\n3\n")
    with pytest.raises(ValueError, match=r"excel\.csv, line 4: 1 cell where the header has 2"):
        Source(tmp_path / "excel.csv").read()
    with pytest.raises(ValueError, match="--sep must be one character.*got '::'"):
        Source(tmp_path / "t.csv", "::")
    with pytest.raises(ValueError, match="--decimal must be"):
        Source(tmp_path / "t.csv", decimal=";")


@pytest.mark.parametrize(
    ("cells", "trained", "decimal"),
    [
        (["1.234", "7"], ",", ","),  # thousands, as in the training file
        (["1,234", "7"], ".", "."),
        (["1.234", "0,5", "2.75"], ",", ","),  # one cell is enough to confirm the mark
        (["12", "x"], ",", ","),
    ],
)
def test_the_decimal_mark_of_the_training_file_holds(tmp_path, cells, trained, decimal):
    (tmp_path / "t.csv").write_text("a;b\n" + "".join(f"{cell};x\n" for cell in cells))
    assert Source(tmp_path / "t.csv", trained=trained).read().attrs["decimal"] == decimal
    named = Source(tmp_path / "t.csv", decimal=".", trained=trained)
    assert named.read().attrs["decimal"] == "."


@pytest.mark.parametrize(("cell", "trained", "found"), [("2.75", ",", "."), ("0,5", ".", ",")])
def test_cells_that_contradict_the_training_file_are_reported(tmp_path, cell, trained, found):
    (tmp_path / "t.csv").write_text(f"a;b\n{cell};x\n")
    with pytest.warns(UserWarning, match=f"such as '{cell}'.*fitted on a file with '{trained}'"):
        table = Source(tmp_path / "t.csv", trained=trained).read()
    assert table.attrs["decimal"] == found


def test_only_a_text_file_has_a_decimal_mark(tmp_path):
    (tmp_path / "t.csv").write_text("a;b\n1,5;x\n")
    table = Source(tmp_path / "t.csv").read()
    assert decimal_of(table) == ","
    table.to_parquet(tmp_path / "t.parquet")
    assert decimal_of(Source(tmp_path / "t.parquet").read()) is None


def test_blanks_around_names_are_left_out(tmp_path):
    (tmp_path / "t.csv").write_text("a , b,c\n1,2,3\n")
    with pytest.warns(UserWarning, match="blanks around names.*'a ', which is read as 'a'"):
        assert list(Source(tmp_path / "t.csv").read().columns) == ["a", "b", "c"]
    (tmp_path / "t.csv").write_text("a, a\n1,2\n")
    with pytest.raises(ValueError, match="several columns of the name 'a' .blanks around a name"):
        Source(tmp_path / "t.csv").read()


def test_the_decimal_mark_may_come_late(tmp_path):
    (tmp_path / "t.csv").write_text("a;b\n" + "1;x\n" * 1000 + "1,500;x\n")
    assert Source(tmp_path / "t.csv").read().attrs["decimal"] == ","


def test_a_cell_may_be_long(tmp_path):
    (tmp_path / "t.csv").write_text(f"a;b\n1;{'x' * 200_000}\n")
    limit = csv.field_size_limit(131_072)  # that of a new process
    try:
        assert len(Source(tmp_path / "t.csv").read()["b"].iloc[0]) == 200_000
    finally:
        csv.field_size_limit(limit)


def test_cells_are_read_exactly(tmp_path):
    """Zeros in front, words for missing values, blanks, and line ends inside of quotes."""
    text = 'id,x,note\n00000,None,"two\nlines, one cell"\n\n1e5, NA ,"a ""b"""\n'
    (tmp_path / "t.csv").write_text(text)
    table = Source(tmp_path / "t.csv").read()
    assert table.to_numpy().tolist() == [
        ["00000", "None", "two\nlines, one cell"],
        ["1e5", " NA ", 'a "b"'],
    ]
    assert table.index.tolist() == [2, 5]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "t.csv is empty"),
        ("a,b\n", "t.csv holds no rows"),
        ("a,b\n1,2\n\n1,2,3\n", r"t.csv, line 4: 3 cells where the header has 2 \(separator ','\)"),
        ('a,b\n1,2\n3,"4\n5,6\n', "t.csv, line 3: a quote is not closed"),
        ('a,b\n1,2\n3,"4"x\n', "t.csv, line 3: ',' expected after"),
        ("a,a\n1,2\n", "t.csv has several columns of the name 'a'. Rename"),
        ("a\0b\n", "holds null bytes"),
    ],
)
def test_errors_name_the_file_and_its_line(tmp_path, text, message):
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(ValueError, match=message):
        Source(tmp_path / "t.csv").read()


def test_lines_are_those_of_the_file_in_every_piece(tmp_path):
    rows = [f'{i},"{i}\n"' for i in range(7)]
    (tmp_path / "t.csv").write_text("\n".join(["a,b", *rows]))
    pieces = list(Source(tmp_path / "t.csv").pieces(3))
    assert [piece.index.tolist() for piece in pieces] == [[2, 4, 6], [8, 10, 12], [14]]
    pd.DataFrame({"a": range(7)}).to_parquet(tmp_path / "t.parquet")
    pieces = list(Source(tmp_path / "t.parquet").pieces(3))
    assert [piece.index.tolist() for piece in pieces] == [[0, 1, 2], [3, 4, 5], [6]]


def test_whole_numbers_of_parquet_stay_whole(tmp_path):
    rows = arrow.table({"n": arrow.array([2**60 + 1, None], arrow.int64())})
    pyarrow.parquet.write_table(rows, tmp_path / "t.pq")
    assert Source(tmp_path / "t.pq").read()["n"].tolist() == [2**60 + 1, None]
    (tmp_path / "t.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(ValueError, match="no Parquet file that can be read"):
        Source(tmp_path / "t.parquet").read()


@pytest.mark.parametrize("kind", ["csv", "gz", "parquet"])
def test_stdin(tmp_path, monkeypatch, kind):
    content = b"a\tb\n1\t2\n"
    if kind == "gz":
        content = gzip.compress(content)
    if kind == "parquet":
        pd.DataFrame({"a": [1], "b": [2]}).to_parquet(tmp_path / "t.parquet")
        content = (tmp_path / "t.parquet").read_bytes()
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(content)))
    assert cells(Source(STREAM)) == [["a", "b"], ["1", "2"]]


def test_a_pipe_is_read_as_stdin_alone(tmp_path):
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(ValueError, match=r"pipe\.csv is a named pipe\. Give a file, or - to read"):
        Source(tmp_path / "pipe.csv").read()


@pytest.mark.parametrize("damage", [lambda b: b[:-30], lambda b: b[:40] + b"\xff" * 40 + b[80:]])
def test_a_damaged_zip_is_said_to_be(damage, tmp_path):
    path = tmp_path / "t.csv.gz"
    path.write_bytes(damage(gzip.compress("".join(f"{i},{i * i}\n" for i in range(500)).encode())))
    with pytest.raises(ValueError, match=r"t\.csv\.gz is zipped, and damaged or cut: .*Copy it"):
        Source(path).read()


def test_a_parquet_file_with_a_damaged_description(tmp_path):
    table = arrow.table(
        {"a": [1.0]}, metadata={b"pandas": b'{"columns": [{}], "index_columns": []}'}
    )
    arrow.parquet.write_table(table, tmp_path / "t.parquet")
    with pytest.raises(ValueError, match="describes its columns in a way that cannot be read"):
        Source(tmp_path / "t.parquet").read()


def test_a_parquet_file_with_a_damaged_page_is_named(tmp_path):
    path = tmp_path / "t.parquet"
    arrow.parquet.write_table(arrow.table({"a": [1.5] * 50}), path, compression="none")
    content = bytearray(path.read_bytes())
    content[4:12] = b"\xff" * 8  # the head of the first page
    path.write_bytes(bytes(content))
    with pytest.raises(ValueError, match=r"t\.parquet is no Parquet file that can be read"):
        Source(path).read()
