"""Docstrings of the public names pass the checks of ``tool.numpydoc_validation``."""

from __future__ import annotations

import inspect
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import polycal

validation = pytest.importorskip("numpydoc.validate")

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
# "all" comes first, so the others are the checks that are left out.
LEFT_OUT = set(PROJECT["tool"]["numpydoc_validation"]["checks"]) - {"all"}


def public_names() -> Iterator[str]:
    """Functions, classes and their methods, as a user writes them."""
    for name in polycal.__all__:
        value = getattr(polycal, name)
        if inspect.ismodule(value):
            for inner in value.__all__:
                yield from with_methods(f"polycal.{name}.{inner}", getattr(value, inner))
        elif callable(value):
            yield from with_methods(f"polycal.{name}", value)


def with_methods(name: str, value: object) -> Iterator[str]:
    yield name
    if inspect.isclass(value):
        for inner, member in inspect.getmembers(value):
            function = member.fget if isinstance(member, property) else member
            home = getattr(function, "__module__", None) or ""
            if not inner.startswith("_") and callable(function) and home.startswith("polycal"):
                yield f"{name}.{inner}"


@pytest.mark.parametrize("name", list(public_names()))
def test_docstring(name):
    found = validation.validate(name)["errors"]
    errors = [f"{code}: {message}" for code, message in found if code not in LEFT_OUT]
    assert not errors, f"{name}: {errors}"


def test_checks_are_known_and_all_but_a_few():
    assert PROJECT["tool"]["numpydoc_validation"]["checks"][0] == "all"
    assert set(validation.ERROR_MSGS) >= LEFT_OUT
    assert len(LEFT_OUT) < 8
