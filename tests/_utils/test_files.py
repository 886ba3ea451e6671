"""Files that appear complete or not at all."""

from __future__ import annotations

import pytest

from polycal._utils.files import atomic_file


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
