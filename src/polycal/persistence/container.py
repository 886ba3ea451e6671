"""One file of arrays and a manifest, in the safetensors format.

The file has three parts: the length of the header in eight bytes; the header, which is JSON with
the manifest and the position of each array; and the arrays, one after another. The checksum in the
header covers every byte but its own. All sizes in a file are compared with its real size before
they are used.
"""

from __future__ import annotations

import json
import math
import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from .._utils.arrays import Array, Bytes
from .._utils.files import atomic_file, check_named, special_kind
from .checksum import PIECE, Checksum, pieces
from .errors import (
    AlteredFileError,
    ModelFileError,
    NewerFormatError,
    NotAModelFileError,
    TruncatedFileError,
)

FORMAT = 2
# Data types by their names in the safetensors format.
DTYPES = {
    "BOOL": np.dtype(bool),
    "U8": np.dtype("<u1"),
    "I8": np.dtype("<i1"),
    "U16": np.dtype("<u2"),
    "I16": np.dtype("<i2"),
    "F16": np.dtype("<f2"),
    "U32": np.dtype("<u4"),
    "I32": np.dtype("<i4"),
    "F32": np.dtype("<f4"),
    "U64": np.dtype("<u8"),
    "I64": np.dtype("<i8"),
    "F64": np.dtype("<f8"),
}
NAMES = {dtype: name for name, dtype in DTYPES.items()}
SYNC_EVERY = 4  # pieces
MAX_HEADER = 100_000_000  # the limit of the safetensors format
# Well below the recursion limit, which differs between versions of Python.
MOST_NESTED = 100
NO_SUM = "0" * 64
_ONE_READER = Lock()


def write(path: str | os.PathLike[str], manifest: dict[str, Any], arrays: dict[str, Array]) -> None:
    """Write the complete file or nothing: a temporary file, fsync, and a rename."""
    path = check_named(path)
    if _nested_too_deep(manifest):
        raise ModelFileError(
            f"the model's settings hold values inside each other more than {MOST_NESTED} deep. "
            "A model file does not. Use settings that are less deep."
        )
    # Wide elements first: then every array begins at a multiple of its element's size.
    ordered = sorted(arrays.items(), key=lambda item: -item[1].itemsize)
    table, begin = {}, 0
    for name, array in ordered:
        end = begin + array.nbytes
        entry = {"dtype": NAMES[array.dtype], "shape": array.shape, "data_offsets": [begin, end]}
        table[name], begin = entry, end
    metadata = {
        "format": "polycal",
        "format_version": str(FORMAT),
        "checksum": NO_SUM,
        "manifest": json.dumps(manifest, allow_nan=False, separators=(",", ":")),
    }
    header = json.dumps({"__metadata__": metadata, **table}, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)
    if len(header) > MAX_HEADER:
        raise ModelFileError(
            f"the model's names and settings take {len(header)} bytes; at most {MAX_HEADER} fit "
            "into a file. Use fewer category levels or labels."
        )
    head = len(header).to_bytes(8, "little") + header
    buffers = [np.ravel(array).view(np.uint8) for _, array in ordered if array.size]
    with (
        atomic_file(path) as part,
        open(part, "xb") as file,
        ThreadPoolExecutor(1) as disk,
        Checksum() as checksum,
    ):
        file.write(head)
        synced = []
        for i, piece in enumerate(pieces(buffers)):
            checksum.add(piece)
            file.write(piece.data)
            if i % SYNC_EVERY == SYNC_EVERY - 1:  # the disk works while the rest is copied
                synced.append(disk.submit(os.fsync, file.fileno()))
        for done in synced:
            done.result()  # an error of the disk is reported only once
        file.seek(0)
        file.write(head.replace(NO_SUM.encode(), checksum.hex(head).encode(), 1))


class ModelFile(NamedTuple):
    """What a file holds, and the version of its format."""

    version: int
    manifest: dict[str, Any]
    arrays: dict[str, Array]


def read(path: str | os.PathLike[str]) -> ModelFile:
    """The content of a file, whose every byte must be as it was written."""
    path = check_named(path)
    kind = special_kind(path)
    if kind is not None:
        raise NotAModelFileError(f"{path} is {kind}. Give a file that model.save wrote.")
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > MAX_HEADER:
            raise NotAModelFileError(
                f"{path} is not a polycal model. Give a file that model.save wrote."
            )
        raw = file.read(length)
        if len(raw) < length:
            if b'"polycal"' in raw[:200]:
                raise TruncatedFileError(_truncated(path, size, 8 + length))
            raise NotAModelFileError(
                f"{path} is not a polycal model. Give a file that model.save wrote."
            )
        header, metadata = _header(path, raw)
        table = _table(path, header, size - 8 - length)
        payload = np.empty(size - 8 - length, dtype=np.uint8)
        with Checksum() as checksum:
            for start in range(0, len(payload), PIECE):
                piece = payload[start : start + PIECE]
                fill = partial(_read_piece, path, file, piece, 8 + length + start)
                checksum.add_after(fill, piece)
            total = checksum.hex(length.to_bytes(8, "little") + _unsummed(raw))
    if total != metadata["checksum"]:
        raise AlteredFileError(
            f"{path} was altered after it was saved: its content does not match its checksum. Use "
            "another copy, or save the model again."
        )
    arrays = {
        name: _view(payload[begin:end], dtype).reshape(shape)
        for name, (dtype, shape, begin, end) in table.items()
    }
    return ModelFile(int(metadata["format_version"]), parse(metadata["manifest"]), arrays)


def _read_piece(path: Path, file: Any, piece: Bytes, offset: int) -> None:
    """Fill a piece from the file, beside other threads."""
    if hasattr(os, "preadv"):
        n_read, view = 0, piece.data
        while n_read < len(piece):
            n = os.preadv(file.fileno(), [view[n_read:]], offset + n_read)
            if n == 0:
                break
            n_read += n
    else:  # Windows has no read at a place
        with _ONE_READER:
            file.seek(offset)
            n_read = file.readinto(piece.data)
    if n_read != len(piece):
        raise TruncatedFileError(f"{path} became shorter while it was read.")


def _view(content: Bytes, dtype: np.dtype[Any]) -> Array:
    # Compiled code takes only the bytes 0 and 1 for booleans.
    return content != 0 if dtype.kind == "b" else content.view(dtype)


def parse(text: str | bytes) -> dict[str, Any]:
    """A JSON object without repeated keys and without NaN."""
    try:
        found = json.loads(text, object_pairs_hook=_once, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise AlteredFileError(f"the file's description is not valid JSON: {error}.") from error
    if not isinstance(found, dict):
        raise AlteredFileError(
            f"the file's description is not an object but {type(found).__name__}."
        )
    if _nested_too_deep(found):
        raise AlteredFileError(
            f"the file's description holds values inside each other more than {MOST_NESTED} deep."
        )
    return found


def _nested_too_deep(value: Any) -> bool:
    """Whether more than ``MOST_NESTED`` objects and lists are inside each other; not recursive."""
    level = [value]
    for _ in range(MOST_NESTED):
        inner = [node.values() if type(node) is dict else node for node in level]
        level = [node for nodes in inner for node in nodes if type(node) in (dict, list)]
        if not level:
            return False
    return True


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key is repeated")
    return found


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


def _header(path: Path, raw: bytes) -> tuple[dict[str, Any], dict[str, str]]:
    try:
        header = parse(raw)
        metadata = header.pop("__metadata__")
        ours = metadata["format"] == "polycal"
        version = int(metadata["format_version"])
        complete = ours and all(isinstance(metadata[key], str) for key in ("checksum", "manifest"))
    except (ModelFileError, KeyError, TypeError, ValueError) as error:
        raise NotAModelFileError(
            f"{path} is not a polycal model, or its beginning is damaged. Give a file that "
            "model.save wrote."
        ) from error
    if not ours:
        raise NotAModelFileError(
            f"{path} is not a polycal model. Give a file that model.save wrote."
        )
    if version > FORMAT:
        raise NewerFormatError(
            f"{path} has format version {version}; this polycal reads up to {FORMAT}. Install a "
            "newer polycal."
        )
    if not complete or version < 1:
        raise AlteredFileError(f"{path} has a header that polycal did not write.")
    return header, metadata


def _table(path: Path, header: dict[str, Any], size: int) -> dict[str, tuple[Any, ...]]:
    """dtype, shape, first and last byte of each array: without gaps, up to the file's end."""
    table, extents = {}, []
    try:
        for name, entry in header.items():
            dtype, shape = DTYPES[entry["dtype"]], entry["shape"]
            begin, end = entry["data_offsets"]
            numbers = [*shape, begin, end]
            if any(type(number) is not int or number < 0 for number in numbers):
                raise ValueError("a size is not a number")
            if end - begin != dtype.itemsize * math.prod(shape) or begin % dtype.itemsize:
                raise ValueError("a shape that does not fit its bytes")
            table[name] = (dtype, tuple(shape), begin, end)
            extents.append((begin, end))
    except (KeyError, TypeError, ValueError) as error:
        raise AlteredFileError(f"{path} has a wrong table of arrays: {error}.") from error
    last = 0
    for begin, end in sorted(extents):
        if begin != last:
            raise AlteredFileError(f"{path} has arrays that overlap or leave a gap.")
        last = end
    if last > size:
        raise TruncatedFileError(_truncated(path, size, last))
    if last < size:
        raise AlteredFileError(f"{path} has {size - last} bytes after its last array.")
    return table


def _truncated(path: Path, size: int, expected: int) -> str:
    return f"{path} ends too early: {size} bytes instead of {expected}. Copy it again."


def _unsummed(raw: bytes) -> bytes:
    """The header as it was before the checksum was filled in."""
    mark = b'"checksum":"'
    start = raw.find(mark) + len(mark)
    return raw[:start] + NO_SUM.encode() + raw[start + len(NO_SUM) :]
