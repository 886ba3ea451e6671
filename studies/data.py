"""The cache of data sets: .npz files with arrays X and y, ``<OpenML id>_<name>.npz``.

python -m studies.data list
python -m studies.data import FOLDER      copies sets from a folder
python -m studies.data download [NAME]    fetches OpenML-CC18 sets from OpenML

The cache is the folder that POLYCAL_DATA names, or polycal in the user's cache. cc18.csv lists
the 72 sets with what OpenML has of them, and a checksum of the arrays that the committed
results were made from: over their values and order, whatever the compression. A set from
another source may have other row order, category codes or filled-in values; then the checksum
differs, and this says so, while rows, features and classes must be equal. scikit-learn checks
each download by OpenML's own MD5; the checksum of its arrays is kept with the file (``sha256``).
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import os
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from polycal._utils.files import atomic_file

TABLE = Path(__file__).parent / "cc18.csv"


@dataclass(frozen=True)
class Entry:
    """A line of cc18.csv; sizes are 0, and the checksum is empty, where they are not known."""

    id: int
    name: str
    rows: int  # as OpenML has it
    features: int
    classes: int
    kind: str  # numeric, categorical, filled, missing, partial; empty where the set was not at hand
    categorical: str  # columns that hold categories: "all", or names with ; between
    sha256: str
    note: str

    @property
    def numeric(self) -> bool:
        """The paper's choice: only numbers, none of them missing."""
        return self.kind == "numeric"


def entries() -> dict[str, Entry]:
    """cc18.csv by name."""
    with open(TABLE, newline="", encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    sizes = ("id", "rows", "features", "classes")
    return {e["name"]: Entry(**(e | {key: int(e[key] or 0) for key in sizes})) for e in lines}


def cache(given: Path | None = None) -> Path:
    """The folder given, that of POLYCAL_DATA, or polycal in the user's cache."""
    if given is not None:
        return Path(given)
    if "POLYCAL_DATA" in os.environ:
        return Path(os.environ["POLYCAL_DATA"])
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local")) / "polycal"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "polycal"
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "polycal"


def find(name: str, folder: Path) -> Path | None:
    """The file of a CC18 set in a folder, by its OpenML id."""
    return next(iter(sorted(folder.glob(f"{entries()[name].id}_*.npz"))), None)


def available(folder: Path) -> dict[str, Path]:
    """CC18 sets of a folder, in the order of cc18.csv; an error where there is none."""
    found = {name: path for name in entries() if (path := find(name, folder)) is not None}
    if not found:
        raise SystemExit(
            f"{folder} holds no OpenML-CC18 set: fill it with python -m studies.data import "
            "FOLDER, or python -m studies.data download, or name another in POLYCAL_DATA"
        )
    return found


def read(path: Path) -> tuple[NDArray, NDArray]:
    """X as numbers and y as codes 0, 1, ...; a ValueError says what is wrong with the file."""
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as arrays:
            missing = {"X", "y"} - set(arrays.files)
            if missing:
                raise ValueError(f"it has no array {' and '.join(sorted(missing))}")
            X, y = arrays["X"], arrays["y"]
    except ValueError:
        raise
    except Exception as error:  # numpy and zipfile raise many kinds for a broken file
        raise ValueError(f"it cannot be read: {error}") from error
    if X.ndim != 2 or y.ndim != 1 or len(X) != len(y) or X.dtype.kind not in "fiub":
        raise ValueError(
            "X must be numbers of shape (rows, features) and y of shape (rows,); got "
            f"{X.dtype} {X.shape} and {y.dtype} {y.shape}"
        )
    return X.astype(np.float64), np.unique(y, return_inverse=True)[1]


def checksum(X: NDArray, y: NDArray) -> str:
    """sha256 of shape and values, the same for every dtype and compression that keeps them."""
    digest = hashlib.sha256(repr(X.shape).encode())
    digest.update(np.ascontiguousarray(X, dtype="<f8").tobytes())
    digest.update(np.ascontiguousarray(y, dtype="<i8").tobytes())
    return digest.hexdigest()


def verdict(X: NDArray, y: NDArray, entry: Entry | None) -> str:
    """In words, how a set compares with its entry; a ValueError where it is another set."""
    if entry is None:
        return "not an OpenML-CC18 set, nothing to compare with"
    if entry.sha256 and checksum(X, y) == entry.sha256:
        return "the arrays of the committed results"
    shape, known = (*X.shape, int(y.max()) + 1), (entry.rows, entry.features, entry.classes)
    if not entry.rows:
        return "no size or checksum is known for it"
    if shape != known:
        raise ValueError(f"rows, features, classes must be {known}; got {shape}")
    return "right in size, not the arrays of the committed results (order or coding may differ)"


def import_folder(source: Path, target: Path) -> list[str]:
    """Copy the .npz sets of a folder that pass; one line for each file."""
    by_id = {str(entry.id): entry for entry in entries().values()}
    paths = sorted(source.glob("*.npz"))
    if not paths:
        raise SystemExit(f"{source} holds no .npz file: expected <OpenML id>_<name>.npz")
    lines = []
    for path in paths:
        try:
            words = verdict(*read(path), by_id.get(path.name.split("_")[0]))
        except ValueError as error:
            lines.append(f"refused {path.name}: {error}")
            continue
        _put(target / path.name, path.read_bytes())
        lines.append(f"taken   {path.name}: {words}")
    return lines


def download(names: list[str], target: Path) -> list[str]:
    """Fetch sets from OpenML by id; one line for each."""
    from sklearn.datasets import fetch_openml

    known = entries()
    unknown = sorted(set(names) - set(known))
    if unknown:
        raise SystemExit(f"no OpenML-CC18 set is called {unknown}; see python -m studies.data list")
    lines = []
    for name in names or list(known):
        entry = known[name]
        path = target / f"{entry.id}_{name}.npz"
        try:
            bunch = fetch_openml(data_id=entry.id, as_frame=True, parser="auto")
            X, y, arrays = _encode(bunch)
            words = verdict(X, y, entry)
            sha256 = checksum(X, y)
            if path.exists() and sha256 != (before := checksum(*read(path))):
                raise ValueError(f"sha256 was {before}, is {sha256}; delete {path} to accept it")
        except Exception as error:  # a set that cannot be had must not stop the others
            lines.append(f"refused {name}: {type(error).__name__}: {error}")
            continue
        target.mkdir(parents=True, exist_ok=True)
        with atomic_file(path) as part, open(part, "wb") as file:
            np.savez_compressed(file, **arrays, sha256=np.array(sha256))
        lines.append(f"taken   {name}: {words}; sha256 {sha256}")
    return lines


def _encode(bunch) -> tuple[NDArray, NDArray, dict[str, NDArray]]:
    """Numbers as they are, categories as codes in their own order, NaN where one is missing."""
    columns, categorical = [], []
    for name in bunch.data.columns:
        column = bunch.data[name]
        words = not hasattr(column, "cat") and column.dtype.kind not in "fiub"
        if words:
            column = column.astype("category")
        if hasattr(column, "cat"):
            codes = column.cat.codes.to_numpy().astype(float)
            columns.append(np.where(codes < 0, np.nan, codes))
        else:
            columns.append(column.to_numpy(dtype=float, na_value=np.nan))
        categorical.append(hasattr(column, "cat"))
    X = np.column_stack(columns)
    classes, y = np.unique(bunch.target.astype(str).to_numpy(dtype=str), return_inverse=True)
    arrays = {"X": X, "y": y, "classes": classes, "categorical": np.array(categorical)}
    return X, y, arrays | {"columns": np.array([str(name) for name in bunch.data.columns])}


def _put(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_file(path) as part:
        part.write_bytes(content)


def main(argv: list[str] | None = None) -> int:
    description = "The cache of data sets."
    parser = argparse.ArgumentParser(prog="python -m studies.data", description=description)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list", help="what the cache holds")
    commands.add_parser("import", help="copy sets").add_argument("folder", type=Path)
    fetch = commands.add_parser("download", help="fetch sets from OpenML")
    fetch.add_argument("names", nargs="*", help="all 72 where none is named")
    args = parser.parse_args(argv)
    target = cache()
    if args.command == "list":
        lines = []
        for name, entry in entries().items():
            path = find(name, target)
            lines.append(f"{entry.id:6} {name:40} {path.name if path else '-'}")
    elif args.command == "import":
        lines = import_folder(args.folder, target)
    else:
        lines = download(args.names, target)
    print(f"cache: {target}", *lines, sep="\n")
    return int(any(line.startswith("refused") for line in lines))


if __name__ == "__main__":
    sys.exit(main())
