"""Writing of CSV and Parquet files, a piece at a time."""

from __future__ import annotations

import gzip
import os
import sys
from pathlib import Path
from typing import Any

from .._utils.files import special_kind
from .._utils.optional import optional
from .files import STREAM, TABLE_KINDS


class Writer:
    """Appends data frames to one CSV or Parquet file, or to stdout."""

    def __init__(self, path: Path, kind: str):
        self.path, self.kind = path, kind
        self.file: Any = None

    def write(self, frame: Any) -> None:
        """Append the rows of a frame; a column has the type that it has in the first one."""
        if self.kind not in TABLE_KINDS:
            separator = "\t" if self.kind.startswith(".tsv") else ","
            first, self.file = self.file is None, self.file or self._opened()
            frame.to_csv(self.file, header=first, index=False, sep=separator, lineterminator="\n")
            return
        arrow, parquet = optional("pyarrow", "cli"), optional("pyarrow.parquet", "cli")
        rows = arrow.Table.from_pandas(frame, preserve_index=False)
        if self.file is None:
            self.file = parquet.ParquetWriter(self.path, rows.schema)
        self.file.write_table(rows.cast(self.file.schema))

    def _opened(self) -> Any:
        if self.path == STREAM:
            return sys.stdout
        if self.kind.endswith(".gz"):
            return gzip.open(self.path, "wt", encoding="utf-8", newline="")
        return open(self.path, "w", encoding="utf-8", newline="")

    def close(self) -> None:
        """Finish the file."""
        if self.file is sys.stdout:
            self.file.flush()
        elif self.file is not None:
            self.file.close()


def check_output(path: Path, *inputs: Path) -> None:
    """Raise an error before the work if the file cannot be written after it."""
    if path == STREAM:
        return
    if not path.resolve().parent.is_dir():
        raise ValueError(f"the folder {path.parent} of {path} does not exist. Make it first.")
    kind = special_kind(path)
    if kind == "a folder":
        raise ValueError(f"{path} is a folder; name a file in it.")
    if kind is not None:
        raise ValueError(f"{path} is {kind}, which is not replaced. Name a file to write.")
    if not os.access(path.resolve().parent, os.W_OK):
        raise ValueError(f"the folder {path.parent} of {path} is not writable. Choose another.")
    for given in inputs:
        if is_same_file(path, given):
            raise ValueError(
                f"--output {path} is also read, and would be lost. Name another file to write."
            )


def is_same_file(path: Path, other: Path) -> bool:
    """Whether two paths lead to one file."""
    return path.exists() and other.exists() and path.samefile(other)
