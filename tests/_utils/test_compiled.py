"""Loops compile where no folder is writable, and say so; see also tests/test_anywhere.py."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from numba.core import caching

from polycal._utils import compiled


def add_one(x):
    return x + 1


def add_two(x):
    return x + 2


@pytest.fixture
def no_folder(monkeypatch):
    """No folder is writable."""

    def refuse(self):
        raise OSError("read-only file system")

    monkeypatch.setattr(caching._CacheLocator, "ensure_cache_path", refuse)


def test_a_loop_without_any_folder(no_folder, monkeypatch):
    monkeypatch.setattr(compiled, "_check_folder", caching._CacheLocator.ensure_cache_path)
    loop = compiled.njit(nogil=True, cache=True)(add_one)
    assert loop(1) == 2
    assert loop._cache.cache_path is None


def test_a_folder_that_can_be_read(no_folder):
    """It is looked into, and left as it is."""
    (Path(__file__).parent / "__pycache__").mkdir(exist_ok=True)
    loop = compiled.njit(nogil=True, cache=True)(add_one)
    assert loop(1) == 2
    assert loop._cache.cache_path is not None
    assert loop.stats.cache_misses
    with pytest.raises(OSError, match="read-only"):  # as it was before
        caching._CacheLocator.ensure_cache_path(None)


def test_a_folder_that_can_be_read_comes_before_one_that_is_writable(monkeypatch, tmp_path):
    """The loops of an image are used although the home of its user is writable, and empty."""
    compiled.njit(cache=True)(add_two)(1)  # beside this file, as in an image
    writable = caching._CacheLocator.ensure_cache_path

    def refuse(self):
        if "UserWide" not in type(self).__name__:
            raise OSError("read-only file system")
        self._cache_path = str(tmp_path)
        writable(self)

    monkeypatch.setattr(caching._CacheLocator, "ensure_cache_path", refuse)
    loop = compiled.njit(cache=True)(add_two)
    assert loop(1) == 3
    assert loop.stats.cache_hits
    assert loop(1.5) == 3.5  # it was not compiled for this before
    assert loop.stats.cache_misses
    assert {path.suffix for path in tmp_path.iterdir()} == {".nbi", ".nbc"}
    again = compiled.njit(cache=True)(add_two)
    assert (again(1), again(1.5)) == (3, 3.5)
    assert not again.stats.cache_misses


@pytest.mark.parametrize(("module", "said"), [("polycal.gate", 1), ("other", 0)])
def test_the_first_compilation_is_told(no_folder, caplog, monkeypatch, module, said):
    report = compiled._Report()
    monkeypatch.setattr(add_one, "__module__", module)
    loops = [compiled.njit(cache=True)(add_one) for _ in range(2)]
    with caplog.at_level(logging.WARNING, "polycal"):
        for loop in loops:
            report.on_start(type("Event", (), {"data": {"dispatcher": loop}}))
    assert [record.getMessage() for record in caplog.records] == [compiled.NOT_KEPT] * said
