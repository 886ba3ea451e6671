"""Reading of CSV and Parquet files, at once or a piece at a time.

A CSV file is read as text, cell for cell. What a column means is decided in ``columns.py``.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
import sys
import warnings
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from .._utils.files import special_kind
from .._utils.optional import optional
from ..core.roles import DECIMAL_MARKS
from .numbers import contrary_number, find_decimal

STREAM = Path("-")  # stdin or stdout
TEXT_KINDS = (".csv", ".tsv", ".txt")
TABLE_KINDS = (".parquet", ".pq")
SEPARATORS = (",", ";", "\t", "|")
NAMED_SEPARATORS = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "pipe": "|"}
# Bytes from which encoding and decimal mark are found, and lines from which the separator is.
SAMPLE_BYTES = 1 << 20
SAMPLE_LINES = 200
# Rows that become one piece of a frame; cells as Python objects take ten times the memory.
PIECE = 50_000
# First bytes of a zipped file, and how much larger tables are that were zipped.
GZIP, UNZIPPED = b"\x1f\x8b", 5.0
# Whole numbers with missing values stay whole, and dates are of one type.
EXACT = {"integer_object_nulls": True, "date_as_object": False}


@dataclass(frozen=True)
class Source:
    """A file and how it is read; what is None is found from the beginning of the file.

    ``trained`` is the decimal mark of the file that the model was fitted on. It holds for this
    file too, unless a mark is named or the cells contradict it.
    """

    path: Path
    separator: str | None = None
    encoding: str | None = None
    decimal: str | None = None
    trained: str | None = None

    def __post_init__(self) -> None:
        if self.separator is not None and len(self._separator or "") != 1:
            raise ValueError(
                f"--sep must be one character, or tab, comma, semicolon or pipe; got "
                f"{self.separator!r}."
            )
        if self.decimal not in (None, *DECIMAL_MARKS):
            raise ValueError(f'--decimal must be "." or ","; got {self.decimal!r}.')
        if self.encoding is not None:
            try:
                codecs.lookup(self.encoding)
            except LookupError:
                raise ValueError(
                    f"--encoding {self.encoding!r} is not known. Try utf-8, cp1252 (Windows), "
                    "latin-1 or utf-16."
                ) from None

    @property
    def _separator(self) -> str | None:
        if self.separator is None:
            return None
        return NAMED_SEPARATORS.get(self.separator.lower(), self.separator)

    @property
    def name(self) -> str:
        """Name of the file, for messages."""
        return "stdin" if self.path == STREAM else str(self.path)

    def read(self) -> Any:
        """The whole file as a pandas frame of at least one row."""
        pieces = list(self.pieces(None))
        if sum(map(len, pieces)) == 0:
            raise ValueError(f"{self.name} holds no rows below its header.")
        return pieces[0] if len(pieces) == 1 else optional("pandas", "cli").concat(pieces)

    def pieces(self, n_rows: int | None) -> Iterator[Any]:
        """Frames of at most n_rows rows, in order.

        The index says where a row is in the file: the line of a CSV file, from 1, or the row of a
        Parquet file, from 0. ``attrs`` has the name of the file, the decimal mark, and whether the
        columns have types.
        """
        try:
            with self._opened() as file:
                start = _peek(file)
                if not start:
                    raise ValueError(f"{self.name} is empty.")
                if start.startswith(b"PAR1"):
                    yield from self._parquet_pieces(file, n_rows)
                else:
                    yield from self._csv_pieces(file, start, n_rows or PIECE)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise ValueError(
                f"{self.name} is zipped, and damaged or cut: {error}. Copy it again."
            ) from None

    def size(self) -> tuple[int | None, float]:
        """Rows, where a Parquet file says how many, and bytes unzipped, about; stdin has 0."""
        if self.path == STREAM or not self.path.is_file():
            return None, 0.0
        with open(self.path, "rb") as file:
            begin = file.read(4)
        n_bytes = float(self.path.stat().st_size)
        if begin != b"PAR1":
            return None, n_bytes * (UNZIPPED if begin.startswith(GZIP) else 1.0)
        try:
            metadata = optional("pyarrow.parquet", "cli").read_metadata(self.path)
        except (optional("pyarrow", "cli").ArrowException, OSError):
            return None, 0.0  # reading it says what is wrong
        groups = range(metadata.num_row_groups)
        return int(metadata.num_rows), sum(metadata.row_group(i).total_byte_size for i in groups)

    @contextmanager
    def _opened(self) -> Iterator[IO[bytes]]:
        if self.path == STREAM:
            stream = io.BufferedReader(_Whole(sys.stdin.buffer), SAMPLE_BYTES)
            yield _unzipped(stream)
            return
        kind_of(self.path)
        if not self.path.is_file():
            kind = special_kind(self.path)
            if kind is None:
                raise FileNotFoundError(f"there is no file {self.path}.")
            raise ValueError(f"{self.path} is {kind}. Give a file, or - to read from a pipe.")
        with open(self.path, "rb", buffering=SAMPLE_BYTES) as file:
            yield _unzipped(file)

    def _parquet_pieces(self, file: IO[bytes], n_rows: int | None) -> Iterator[Any]:
        parquet = optional("pyarrow.parquet", "cli")
        seekable = file if file.seekable() else io.BytesIO(file.read())
        first = 0
        try:
            with parquet.ParquetFile(seekable) as table:
                batches = [table.read()] if n_rows is None else table.iter_batches(n_rows)
                for batch in batches:
                    frame = self._to_pandas(batch)
                    frame.columns = _names([str(name) for name in frame.columns], self.name)
                    frame.index = frame.index + first
                    first += len(frame)
                    yield self._described(frame, "row", ".", True)
        except (optional("pyarrow", "cli").ArrowException, OSError) as error:
            why = str(error).rstrip(". ")
            raise ValueError(f"{self.name} is no Parquet file that can be read: {why}.") from None

    def _to_pandas(self, batch: Any) -> Any:
        try:
            return batch.to_pandas(**EXACT).reset_index(drop=True)
        except (KeyError, TypeError, AttributeError, IndexError) as error:  # of its description
            raise ValueError(
                f"{self.name} describes its columns in a way that cannot be read: {error!r}. Write "
                "the file again."
            ) from None

    def _csv_pieces(self, file: IO[bytes], start: bytes, n_rows: int) -> Iterator[Any]:
        csv.field_size_limit(2**31 - 1)
        encoding = self.encoding or self._find_encoding(start)
        if codecs.lookup(encoding).name == "utf-8":
            encoding = "utf-8-sig"  # with or without a mark
        lines = start.decode(encoding, errors="replace").splitlines(keepends=True)
        declared = re.fullmatch(r"sep=(.)\s*", lines[0]) if lines else None  # a line of Excel
        separator = self._separator or (declared.group(1) if declared else None)
        if separator is None:
            tabs = "".join(self.path.suffixes[-2:]).lower().startswith(".tsv")
            separator = "\t" if tabs else find_separator(lines[:SAMPLE_LINES])
        sample = list(csv.reader(lines, delimiter=separator))
        decimal = self.decimal or self._find_decimal(sample[1:], separator)
        text = io.TextIOWrapper(file, encoding=encoding, newline="")
        try:
            if declared:
                text.readline()
            for frame in self._records(text, separator, n_rows, 1 if declared else 0):
                yield self._described(frame, "line", decimal, False)
        except UnicodeError:
            raise ValueError(
                f"{self.name} is not {encoding.removesuffix('-sig')}{self._bad_line(encoding)}. "
                "Name its encoding: --encoding cp1252 (Windows), latin-1 or utf-16."
            ) from None
        finally:
            text.detach()  # the file is closed by its owner

    def _records(self, text: IO[str], separator: str, n_rows: int, skipped: int) -> Iterator[Any]:
        reader = csv.reader(text, delimiter=separator, strict=True)
        names: list[str] | None = None
        rows: list[list[str]] = []
        at: list[int] = []
        last = 0  # line on which the last record ended
        try:
            for row in reader:
                first, last = last + 1, reader.line_num
                if not row:
                    continue
                if names is None:
                    names = _names(row, self.name)
                    continue
                if len(row) != len(names):
                    raise ValueError(
                        f"{self.name}, line {first + skipped}: {_n(len(row), 'cell')} where the "
                        f"header has {len(names)} (separator {_shown(separator)}). "
                        f"{_cure(names, separator)}"
                    )
                rows.append(row)
                at.append(first + skipped)
                if len(rows) == n_rows:
                    yield _frame(names, rows, at)
                    rows, at = [], []
        except csv.Error as error:
            why = "a quote is not closed" if "unexpected end" in str(error) else str(error)
            raise ValueError(
                f"{self.name}, line {last + 1 + skipped}: {why}. Correct the quotes of the record "
                "that begins there."
            ) from None
        if names is None:
            raise ValueError(f"{self.name} is empty.")
        if rows or not at:
            yield _frame(names, rows, at)

    def _described(self, frame: Any, unit: str, decimal: str, has_types: bool) -> Any:
        frame.index.name = unit
        frame.attrs |= {"file": self.name, "decimal": decimal, "typed": has_types}
        return frame

    def _find_encoding(self, start: bytes) -> str:
        if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            return "utf-16"
        if b"\0" in start:
            raise ValueError(
                f"{self.name} holds null bytes, so it is no plain CSV file. If it is UTF-16, say "
                "--encoding utf-16; if it is a spreadsheet, export it as CSV."
            )
        try:
            codecs.getincrementaldecoder("utf-8")().decode(
                start
            )  # a character may be cut at the end
        except UnicodeDecodeError:
            where = self._bad_line("utf-8")
            warnings.warn(
                f"{self.name} is not UTF-8{where}, and is read as cp1252 (Windows, "
                "Western Europe). Name another encoding with --encoding.",
                stacklevel=2,
            )
            return "cp1252"
        return "utf-8"

    def _find_decimal(self, rows: list[list[str]], separator: str) -> str:
        """The mark of the training file, where there was one and no cell contradicts it."""
        if self.trained is None:
            return find_decimal(rows, separator)
        contrary = contrary_number(rows, self.trained)
        if contrary is None:
            return self.trained
        found = "." if self.trained == "," else ","
        warnings.warn(
            f"{self.name} has numbers such as {contrary!r}, so it is read with the decimal mark "
            f"{found!r}; the model was fitted on a file with {self.trained!r}. If that is wrong, "
            f"say --decimal {self.trained}",
            stacklevel=2,
        )
        return found

    def _bad_line(self, encoding: str) -> str:
        """Where a file cannot be decoded, in words; nothing for a stream."""
        if self.path == STREAM:
            return ""
        with self._opened() as file:
            for number, line in enumerate(file, start=1):
                try:
                    line.decode(encoding)
                except UnicodeDecodeError:
                    return f" in line {number}"
        return ""


def kind_of(path: Path) -> str:
    """How the name of a table's file ends: ".csv", ".tsv.gz", ".parquet" and so on."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    zipped = suffixes[-1:] == [".gz"]
    kind = "".join(suffixes[-2:] if zipped else suffixes[-1:])
    if kind.removesuffix(".gz") in TEXT_KINDS or kind in TABLE_KINDS:
        return kind
    raise ValueError(
        f"{path} must end in .csv, .tsv or .txt (or with .gz after it), or in .parquet; it ends in "
        f"{path.suffix!r}. Export a spreadsheet as CSV."
    )


def find_separator(lines: list[str]) -> str:
    """The separator that splits most lines into as many cells as the first; "," if none does."""
    best, found = (0.0, 1), ","
    for separator in SEPARATORS:
        try:
            widths = [len(row) for row in csv.reader(lines, delimiter=separator) if row]
        except csv.Error:
            continue
        if widths and widths[0] > 1:
            score = (widths.count(widths[0]) / len(widths), widths[0])
            if score > best:
                best, found = score, separator
    return found


def check_names(names: list[str], target: str, weight: str | None) -> None:
    """Raise an error if the target or the weights are no columns."""
    for option, name in (("--target", target), ("--weight", weight)):
        if name is not None and name not in names:
            raise no_column(option, name, names)


def no_column(option: str, name: object, names: list[str]) -> ValueError:
    """The error of a name that no column has."""
    hint = "The first line of a file must hold the names."
    if len(names) == 1:
        hint = f"{hint} If it does, name the separator: --sep."
    return ValueError(f"{option} {name!r} is not a column of DATA: {names[:20]}. {hint}")


def decimal_of(table: Any) -> str | None:
    """The decimal mark of a table of a text file; None if its columns have types."""
    mark: str | None = table.attrs.get("decimal")
    return None if table.attrs.get("typed", True) else mark


def place_of(table: Any, row: int) -> str:
    """Where a row of a frame stands, in words: "line 17 of new.csv"."""
    unit, file = table.index.name, table.attrs.get("file")
    if unit is None or file is None:
        return f"row {row}"
    return f"{unit} {table.index[row]} of {file}"


def _frame(names: list[str], rows: list[list[str]], at: list[int]) -> Any:
    pandas = optional("pandas", "cli")
    columns = zip(*rows, strict=True) if rows else [()] * len(names)
    cells = {
        name: pandas.array(list(column), dtype="string[pyarrow]")
        for name, column in zip(names, columns, strict=True)
    }
    return pandas.DataFrame(cells, index=np.array(at, dtype=np.int64))


def _names(header: list[str], file: str) -> list[str]:
    """Names of the columns, without blanks around them; one without a name is "Unnamed: 0"."""
    names = [name.strip() or f"Unnamed: {j}" for j, name in enumerate(header)]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        blanks = " (blanks around a name do not count)" if header.count(twice) < 2 else ""
        raise ValueError(
            f"{file} has several columns of the name {twice!r}{blanks}. Rename all but one."
        )
    changed = [name for name in header if name.strip() and name != name.strip()]
    if changed:
        warnings.warn(
            f"{file}: blanks around names of columns are left out, as in {changed[0]!r}, which is "
            f"read as {changed[0].strip()!r}.",
            stacklevel=2,
        )
    return names


def _peek(file: IO[bytes]) -> bytes:
    """The first bytes of a file, which stay to be read."""
    start: bytes = file.peek(SAMPLE_BYTES)[:SAMPLE_BYTES]  # type: ignore[attr-defined]
    return start


def _unzipped(file: IO[bytes]) -> IO[bytes]:
    if not _peek(file).startswith(GZIP):
        return file
    return io.BufferedReader(gzip.GzipFile(fileobj=file), SAMPLE_BYTES)


class _Whole(io.RawIOBase):
    """A stream whose reads are filled, so that the first one shows enough of it."""

    def __init__(self, stream: IO[bytes]):
        self.stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        content = self.stream.read(len(buffer))
        buffer[: len(content)] = content
        return len(content)


def _n(count: int, thing: str) -> str:
    return f"{count} {thing}{'' if count == 1 else 's'}"


def _cure(names: list[str], separator: str) -> str:
    """What to do about a line that does not fit the header."""
    other = f"name another separator: --sep '{',' if separator == ';' else ';'}'."
    if len(names) == 1:
        return f"Remove {names[0]!r} if it is a title and not the header, or {other}"
    return f"Correct the line (a cell that holds the separator needs quotes), or {other}"


def _shown(separator: str) -> str:
    return "tab" if separator == "\t" else repr(separator)
