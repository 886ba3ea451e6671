"""Files that appear complete or not at all."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

import pytest

from polycal._utils.files import atomic_file, check_named, special_kind


def test_error_names_the_file_that_the_user_named(tmp_path):
    path = tmp_path / "out.csv"
    with pytest.raises(OSError, match="out.csv") as caught, atomic_file(path) as part:
        raise PermissionError(13, "denied", str(part))
    assert caught.value.filename == str(path)


def test_a_file_is_replaced_at_the_end_only(tmp_path):
    path = tmp_path / "out.csv"
    path.write_text("older")
    with atomic_file(path) as part:
        part.write_text("newer")
        assert path.read_text() == "older"
    assert path.read_text() == "newer"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("error", [ValueError, OSError, KeyboardInterrupt])
def test_after_an_error_the_older_file_is_there_and_no_other(error, tmp_path):
    path = tmp_path / "out.csv"
    path.write_text("older")
    with pytest.raises(error), atomic_file(path) as part:  # noqa: PT012
        part.write_text("half")
        raise error
    assert path.read_text() == "older"
    assert list(tmp_path.iterdir()) == [path]


def specials(folder):
    """A pipe, a socket, and a link to each."""
    os.mkfifo(folder / "pipe")
    with socket.socket(socket.AF_UNIX) as unix:
        unix.bind(os.path.relpath(folder / "socket"))  # a short name: the system allows no long one
    for name in ("pipe", "socket"):
        (folder / f"link to {name}").symlink_to(folder / name)
    return {"pipe": "a named pipe", "socket": "a socket"}


def test_what_is_no_regular_file_is_refused_and_stays(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, words in specials(tmp_path).items():
        for path in (tmp_path / name, tmp_path / f"link to {name}"):
            before = path.lstat()
            with pytest.raises(FileExistsError, match=f"{words}, which is not replaced"):
                atomic_file(path).__enter__()
            assert (path.lstat().st_mode, path.lstat().st_ino) == (before.st_mode, before.st_ino)
    with pytest.raises(IsADirectoryError, match="add a name for the file"):
        atomic_file(tmp_path).__enter__()
    assert len(list(tmp_path.iterdir())) == 4  # no temporary file


@pytest.mark.parametrize("kind", [stat.S_IFCHR, stat.S_IFBLK])
def test_devices_are_refused(kind, tmp_path, monkeypatch):
    device = os.stat_result([kind | 0o666, *[0] * 9])
    own = Path.stat
    monkeypatch.setattr(
        Path, "stat", lambda path, **o: device if path.name == "null" else own(path, **o)
    )
    with pytest.raises(FileExistsError, match="a device, which is not replaced"):
        atomic_file(tmp_path / "null").__enter__()


def test_a_pipe_that_appears_during_the_work_stays(tmp_path):
    path = tmp_path / "out.csv"
    with pytest.raises(FileExistsError), atomic_file(path) as part:  # noqa: PT012
        part.write_text("new")
        os.mkfifo(path)
    assert special_kind(path) == "a named pipe"
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_stays_and_its_file_is_written(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "file")
    for text in ("made", "replaced"):  # the first time there is no file yet
        with atomic_file(tmp_path / "link") as part:
            part.write_text(text)
        assert (tmp_path / "link").is_symlink()
        assert (tmp_path / "file").read_text() == text


def test_an_empty_name_is_no_folder():
    with pytest.raises(ValueError, match="path is empty"):
        check_named("")
    assert check_named("a") == Path("a")
