"""Declarations of how the fields of a dataclass are saved."""

from __future__ import annotations

from dataclasses import dataclass, field, fields

import numpy as np
import pytest

from polycal._utils.saved import (
    Array,
    Number,
    Part,
    Unsaved,
    Value,
    declarations,
    saved_array,
    saved_number,
    saved_part,
    saved_value,
    unsaved,
)


@dataclass(frozen=True)
class Inner:
    share: float = saved_number(float, above=0.0, below=1.0)


@dataclass(frozen=True)
class Outer:
    table: np.ndarray = saved_array("float64 rows columns")
    sparse: np.ndarray = saved_array("int64 rows", nonzero_rows=True)
    inner: Inner = saved_part()
    words: tuple = saved_value()
    cache: dict = unsaved("filled when it is needed")
    flag: bool = saved_number(bool, default=True)
    other: Inner | None = saved_part(default=None)
    maybe: np.ndarray | None = saved_array("float64 rows", optional=True)
    scratch: list | None = unsaved("never read", default=None)


def test_each_field_has_the_declaration_it_was_given():
    assert declarations(Outer) == {
        "table": Array("float64", ("rows", "columns")),
        "sparse": Array("int64", ("rows",), nonzero_rows=True),
        "inner": Part(),
        "words": Value(),
        "cache": Unsaved("filled when it is needed"),
        "flag": Number(bool),
        "other": Part(),
        "maybe": Array("float64", ("rows",), optional=True),
        "scratch": Unsaved("never read"),
    }
    assert declarations(Inner) == {"share": Number(float, above=0.0, below=1.0)}


def test_the_order_is_that_of_the_fields():
    """A reader relies on it: an axis is known once the first field with it is read."""
    assert list(declarations(Outer)) == [f.name for f in fields(Outer)]


def test_defaults_are_those_of_a_dataclass():
    made = Outer(np.ones((2, 3)), np.zeros(2), Inner(0.5), (), {})
    assert (made.flag, made.other, made.maybe, made.scratch) == (True, None, None, None)
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'share'"):
        Inner()


def test_a_subclass_has_the_declarations_of_its_base():
    @dataclass(frozen=True)
    class Wider(Inner):
        more: int = saved_number(int, optional=True, default=None)

    assert declarations(Wider) == declarations(Inner) | {"more": Number(int, optional=True)}


@pytest.mark.parametrize("forgotten", [0.0, field(default=0.0), field(metadata={"doc": "x"})])
def test_a_field_that_says_nothing_is_an_error(forgotten):
    @dataclass
    class Forgetful:
        known: float = saved_number(float)
        amount: float = forgotten

    with pytest.raises(TypeError, match=r"Forgetful.amount does not say how.*saved_array"):
        declarations(Forgetful)


def test_only_a_dataclass_has_declarations():
    with pytest.raises(TypeError, match="dataclass"):
        declarations(int)
