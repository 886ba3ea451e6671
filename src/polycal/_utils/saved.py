"""What a model file holds is declared beside the fields that it fills.

Every field of a dataclass that a fitted model is made of is either ``saved`` or ``unsaved``;
``polycal.persistence`` walks over these declarations to write a file and to read one.
"""

from __future__ import annotations

import sys
from dataclasses import MISSING, Field, field, fields
from typing import Any, NamedTuple

# Largest finite number. Logarithms, weights and the like are far below their own limits in every
# fitted model; beyond these, sums and products of a forged one could overflow to NaN.
FINITE = sys.float_info.max
LARGEST_LOG = 1e100
LARGEST_WEIGHT = 1e150


class Array(NamedTuple):
    """An array: its type, and a name for the length of each axis.

    Axes of one name have one length throughout a model: compiled loops index by these lengths
    without checks of their own. A dataclass that may occur more than once in a model lists in
    ``own_axes`` the names whose lengths are its own.
    """

    dtype: str
    axes: tuple[str, ...]
    nonzero_rows: bool = False  # only rows that are not all zero are stored
    optional: bool = False  # whether it may be None
    sparse: bool = False  # only values that are not zero are stored
    # the closed interval that values lie in
    least: float = -FINITE
    most: float = FINITE
    missing: bool = False  # whether NaN may stand for a missing value

    def along(self, *axes: str) -> Array:
        """Some values of such an array, along other axes."""
        return Array(self.dtype, axes, least=self.least, most=self.most)


class Number(NamedTuple):
    """A Python number: its type, whether it may be None, and the open interval it lies in.

    It is finite; one that is ``infinite`` may be -inf or inf, and never NaN.
    """

    kind: type[int] | type[float] | type[bool]
    optional: bool = False
    above: float | None = None
    below: float | None = None
    infinite: bool = False


class Value(NamedTuple):
    """Any value that JSON and arrays can hold: text, lists, arrays of labels."""


class Part(NamedTuple):
    """Another dataclass, one of those that the annotation names."""


class Unsaved(NamedTuple):
    """A field that no file holds, and where it comes from instead."""

    reason: str


Spec = Array | Number | Value | Part | Unsaved


def saved_array(
    shape: str,
    *,
    nonzero_rows: bool = False,
    optional: bool = False,
    sparse: bool = False,
    least: float = -FINITE,
    most: float = FINITE,
    missing: bool = False,
) -> Any:
    """A field that is an array, as in ``saved_array("float64 polytopes classes")``.

    One that is optional has the default None. Values are finite unless the limits are infinite,
    and NaN only where one may be missing.
    """
    dtype, *axes = shape.split()
    spec = Array(dtype, tuple(axes), nonzero_rows, optional, sparse, least, most, missing)
    return _field(spec, None if optional else MISSING)


def saved_log(shape: str, *, lowest: float = -LARGEST_LOG, **options: Any) -> Any:
    """A field that is an array of logarithms, or of weights of logarithms."""
    return saved_array(shape, least=lowest, most=LARGEST_LOG, **options)


def saved_weight(shape: str, **options: Any) -> Any:
    """A field that is an array of weights or counts, none of them negative."""
    return saved_array(shape, least=0.0, most=LARGEST_WEIGHT, **options)


def saved_number(
    kind: type[int] | type[float] | type[bool],
    *,
    optional: bool = False,
    above: float | None = None,
    below: float | None = None,
    infinite: bool = False,
    default: Any = MISSING,
) -> Any:
    """A field that is a number or a truth value."""
    return _field(Number(kind, optional, above, below, infinite), default)


def saved_value(default: Any = MISSING) -> Any:
    """A field that is a plain value."""
    return _field(Value(), default)


def saved_part(default: Any = MISSING) -> Any:
    """A field that is a dataclass with declarations of its own, or None where that is allowed."""
    return _field(Part(), default)


def unsaved(reason: str, default: Any = MISSING) -> Any:
    """A field that is not in the file; the reason says where a loaded model has it from."""
    return _field(Unsaved(reason), default)


def declarations(cls: type) -> dict[str, Spec]:
    """How each field of a dataclass is saved.

    Raises
    ------
    TypeError
        If a field says neither how it is saved nor that it is not.
    """
    undeclared = [f.name for f in fields(cls) if "saved" not in f.metadata]
    if undeclared:
        raise TypeError(
            f"{cls.__name__}.{undeclared[0]} does not say how it is saved. Declare it with one of "
            "saved_array, saved_number, saved_value, saved_part and unsaved."
        )
    return {f.name: f.metadata["saved"] for f in fields(cls)}


def _field(spec: Spec, default: Any = MISSING) -> Any:
    made: Field[Any] = field(metadata={"saved": spec}, default=default)
    return made
