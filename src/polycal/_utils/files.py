"""Atomic writing of files: complete or not at all."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """Temporary file that replaces ``path`` on success and is removed otherwise.

    A symbolic link keeps pointing to its file, and an existing file keeps its permissions.
    """
    if not path.parent.is_dir():  # name the folder, not a temporary file
        raise FileNotFoundError(errno.ENOENT, "there is no such folder", str(path.parent))
    path = Path(os.path.realpath(path))
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        yield part
        with open(part, "rb+") as file:
            os.fsync(file.fileno())
        with suppress(FileNotFoundError):
            shutil.copymode(path, part)
        part.replace(path)
    except OSError as error:
        if error.filename == str(part):  # again, not the temporary file
            error.filename = str(path)
        raise
    finally:
        part.unlink(missing_ok=True)
    with suppress(OSError):  # make the rename survive a loss of power, where the system can
        handle = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
