"""Writing of files, complete or not at all, and never in place of what is no file."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a folder",
}


def check_named(path: str | os.PathLike[str]) -> Path:
    """The path, which must not be empty: ``Path("")`` would be the current folder."""
    if os.fspath(path) in ("", b""):
        raise ValueError("path is empty. Give the name of a file.")
    return Path(path)


def special_kind(path: Path) -> str | None:
    """What stands at a path, in words, if it is neither a regular file nor nothing.

    A link counts as what it leads to. Nothing is opened: a pipe would wait for its other end, and
    some devices act when they are opened.
    """
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return None
    return None if stat.S_ISREG(mode) else KINDS.get(stat.S_IFMT(mode), "no regular file")


def check_replaceable(path: Path) -> None:
    """Raise unless a file may be written at a path: in a folder, where nothing but a file is."""
    if not path.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "there is no such folder", str(path.parent))
    kind = special_kind(path)
    if kind == "a folder":
        raise IsADirectoryError(
            errno.EISDIR, "this is a folder; add a name for the file", str(path)
        )
    if kind is not None:
        raise FileExistsError(
            errno.EEXIST, f"this is {kind}, which is not replaced; name a regular file", str(path)
        )


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """Temporary file that replaces ``path`` on success and is removed otherwise.

    A link to a regular file, or to none yet, stays, and the file that it leads to is replaced; an
    existing file keeps its permissions. Pipes, sockets, devices and folders are refused, also
    through a link.
    """
    given = path
    check_replaceable(given)
    path = Path(os.path.realpath(path))
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        yield part
        with open(part, "rb+") as file:
            os.fsync(file.fileno())
        with suppress(FileNotFoundError):
            shutil.copymode(path, part)
        check_replaceable(given)  # the work may have taken hours
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
