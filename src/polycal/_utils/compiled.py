"""Compiled loops: kept in a folder where there is one, with a message when they are compiled.

Numba refuses to cache a function where it finds no folder that it may write to, as in a container
with a read-only file system. Here such a function is compiled anew by each process, unless it was
compiled before and lies in a folder that can be read. Such a folder comes first also where another
one is writable: the home in a container may be empty at every start.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numba
from numba.core import caching
from numba.core.event import Event, Listener, register

logger = logging.getLogger("polycal")
KEPT = "polycal compiles loops that are new to this machine, once; some ten seconds."
NOT_KEPT = (
    "polycal compiles its loops, some ten seconds, and so will every process here: no folder is "
    "writable in which they could be kept. Set NUMBA_CACHE_DIR to one that is, or compile them "
    "when the container is built (docs/recipes.md, In a container)."
)


def njit(**options: Any) -> Callable[[Any], Any]:
    """``numba.njit`` whose ``cache=True`` asks for a cache only where there can be one."""

    def decorate(function: Any) -> Any:
        try:
            loop = numba.njit(**options)(function)
        except RuntimeError:  # no folder that is writable
            loop = numba.njit(**{**options, "cache": False})(function)
        known = _readable(function) if options.get("cache") else None
        if known is None:
            return loop  # nor one that can be read
        own = loop._cache
        if own.cache_path is None:
            loop._cache, known.save_overload = known, _save_nothing
        elif own.cache_path != known.cache_path:
            load = own.load_overload
            own.load_overload = lambda *asked: known.load_overload(*asked) or load(*asked)
        return loop

    return decorate


def _readable(function: Any) -> Any:
    """The cache in the first folder that can be read; None where there is none."""
    try:
        with _read_only():
            return caching.FunctionCache(function)  # type: ignore[no-untyped-call]
    except (RuntimeError, AttributeError):
        return None


@contextmanager
def _read_only() -> Iterator[None]:
    """Numba takes a folder that exists for one that it can use."""
    locator: Any = caching._CacheLocator
    writable = locator.ensure_cache_path
    locator.ensure_cache_path = _check_folder
    try:
        yield
    finally:
        locator.ensure_cache_path = writable


def _check_folder(locator: Any) -> None:
    if not os.path.isdir(locator.get_cache_path()):
        raise OSError("there is no such folder")


def _save_nothing(sig: Any, data: Any) -> None:
    """Instead of a cache that cannot be written."""


class _Report(Listener):
    """Says, once in a process, that a loop of polycal is compiled."""

    said = False

    def on_start(self, event: Event) -> None:
        loop = event.data["dispatcher"]
        if self.said or not loop.py_func.__module__.startswith("polycal."):
            return
        self.said = True
        kept = loop._cache.cache_path is not None and loop._cache.save_overload is not _save_nothing
        logger.warning(KEPT if kept else NOT_KEPT)

    def on_end(self, event: Event) -> None:
        """Nothing to say."""


register("numba:compile", _Report())  # type: ignore[no-untyped-call]
