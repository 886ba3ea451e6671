"""Files that appear whole or not at all."""

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
    """A name to write to; it becomes ``path`` when all went well, and vanishes otherwise.

    A link keeps pointing to its file, and a file that is there already keeps its permissions.
    """
    if not path.parent.is_dir():  # name the folder, not a file that the user never heard of
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
        if error.filename == str(part):  # again, a name that the user knows
            error.filename = str(path)
        raise
    finally:
        part.unlink(missing_ok=True)
    with suppress(OSError):  # make the rename last through a loss of power, where one can
        handle = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
