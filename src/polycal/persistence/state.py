"""The fitted state, written and read as its dataclasses declare it.

``_utils/saved.py`` has the declarations. A file can fill the declared fields and nothing else.
Compiled loops index by the declared lengths without checks of their own, so nothing is accepted
here that does not fit.
"""

from __future__ import annotations

import math
import types
import typing
from dataclasses import is_dataclass
from functools import cache
from typing import Any

import numpy as np

from .._utils.arrays import Array as AnyArray
from .._utils.saved import Array, Number, Part, Spec, Unsaved, Value, declarations
from ..calibration.reference_set import ReferenceSet
from ..core.reading import leaf_type
from ..core.roles import ColumnRoles
from ..posterior.posterior import Pool
from .errors import AlteredFileError
from .values import Packer, Unpacker, expect_keys, expect_type

# Types of activation modes in a file; leaf ids are stored in as few bytes as they need.
LEAF_TYPES = ("uint8", "uint16", "int32")
# Fields with a default that older files of this format lack.
NEWER: dict[type, str] = {ColumnRoles: "units", Pool: "matrix", ReferenceSet: "directions"}


def pack_part(packer: Packer, part: Any, name: str) -> dict[str, Any]:
    """A dataclass with its declared fields; ``name`` is the prefix of its arrays' names.

    What rows are added to has room for more, and another form that is saved.
    """
    part = part.to_save() if hasattr(part, "to_save") else part
    node: dict[str, Any] = {"type": type(part).__name__}
    for field, spec in declarations(type(part)).items():
        if not isinstance(spec, Unsaved):
            node[field] = _pack_field(packer, getattr(part, field), spec, f"{name}.{field}")
    return node


def _pack_field(packer: Packer, value: Any, spec: Spec, name: str) -> Any:
    if value is None:
        return None
    if isinstance(spec, Part):
        return pack_part(packer, value, name)
    if isinstance(spec, Number):
        return packer.value(name, spec.kind(value))
    if isinstance(spec, Value):
        return packer.value(name, value)
    assert isinstance(spec, Array)
    if spec.dtype == "codes":
        return packer.array(name, _narrow(value))
    if spec.sparse:
        return _pack_sparse(packer, value, name)
    if not spec.nonzero_rows:
        return packer.array(name, value)
    rows = np.flatnonzero(value.any(axis=1))
    values = packer.array(name, value[rows])
    return {"rows": packer.array(f"{name}.rows", rows), "values": values}


def _pack_sparse(packer: Packer, value: AnyArray, name: str) -> dict[str, Any]:
    """The places and values that are not zero; the whole array where that takes less."""
    places = np.flatnonzero(value)
    if 2 * len(places) >= value.size:
        return packer.array(name, value)
    return {
        "shape": list(value.shape),
        "places": packer.array(f"{name}.places", places),
        "values": packer.array(f"{name}.values", value.ravel()[places]),
    }


def _narrow(codes: AnyArray) -> AnyArray:
    if codes.dtype == np.uint64:  # packed bits
        return codes
    top = int(codes.max())
    return codes.astype(np.uint8 if top < 2**8 else np.uint16 if top < 2**16 else np.int32)


class PartReader(Unpacker):
    """Reads dataclasses; axes of one name must have one length throughout the model."""

    def __init__(self, arrays: dict[str, AnyArray]):
        super().__init__(arrays)
        self.lengths: dict[str, int] = {}

    def part(self, node: Any, kinds: tuple[type, ...]) -> Any:
        """A dataclass of one of these types, whose fields fit together."""
        name = expect_type(dict, node).get("type")
        found = [kind for kind in kinds if kind.__name__ == name and is_dataclass(kind)]
        if not found:
            names = " or ".join(kind.__name__ for kind in kinds if is_dataclass(kind))
            raise AlteredFileError(f"the file holds {str(name)[:40]!r} where {names} belongs.")
        # Its own axes have lengths of their own, inside this part alone.
        own = getattr(found[0], "own_axes", ())
        outside = {axis: self.lengths.pop(axis) for axis in own if axis in self.lengths}
        values = self.fields(node, found[0])
        for axis in own:
            self.lengths.pop(axis, None)
        self.lengths |= outside
        part = getattr(found[0], "restore", found[0])(**values)
        check_part(part)
        return part

    def fields(self, node: Any, kind: type) -> dict[str, Any]:
        """The saved fields of a dataclass of this type."""
        saved = {
            field: spec
            for field, spec in declarations(kind).items()
            if not isinstance(spec, Unsaved)
        }
        newer = NEWER.get(kind)
        if newer in saved and newer not in expect_type(dict, node):
            del saved[newer]
        name, *_ = expect_keys(node, "type", *saved)
        if name != kind.__name__:
            raise AlteredFileError(
                f"the file holds {str(name)[:40]!r} where {kind.__name__} belongs."
            )
        kinds = _parts(kind)
        return {name: self._field(node[name], spec, kinds[name]) for name, spec in saved.items()}

    def _field(self, node: Any, spec: Spec, kinds: tuple[type, ...]) -> Any:
        if isinstance(spec, Value):
            return self.value(node)
        if isinstance(spec, Array) and spec.nonzero_rows:
            return self._scattered(node, spec)
        if isinstance(spec, Array) and spec.sparse and type(node) is dict and "shape" in node:
            return self._sparse(node, spec)
        if node is None and (getattr(spec, "optional", False) or type(None) in kinds):
            return None
        if isinstance(spec, Part):
            return self.part(node, kinds)
        if isinstance(spec, Number):
            return self._number(node, spec)
        assert isinstance(spec, Array)
        if spec.dtype == "codes":
            return self._codes(node, spec)
        return self.sized(node, spec)

    def sized(self, node: Any, spec: Array) -> AnyArray:
        """An array of the declared type, whose axes have the lengths known so far."""
        found = self.array(node)
        lengths = zip(spec.axes, found.shape, strict=False)
        shape = tuple(self.lengths.setdefault(axis, n) for axis, n in lengths)
        same_type = spec.dtype == "codes" or found.dtype == spec.dtype
        if not same_type or found.ndim != len(spec.axes) or found.shape != shape:
            raise AlteredFileError(
                f"the array {node['array'][:80]!r} has shape {found.shape} of {found.dtype}; "
                f"expected {shape} of {spec.dtype}."
            )
        known = found[~np.isnan(found)] if spec.missing else found
        if not has_values_within(known, spec.least, spec.most):
            nan = "" if spec.missing else ", or NaN"
            raise AlteredFileError(
                f"the array {node['array'][:80]!r} holds a number outside of {spec.least:g} to "
                f"{spec.most:g}{nan}."
            )
        return found

    def _number(self, node: Any, spec: Number) -> Any:
        value = expect_type(spec.kind, self.value(node))
        too_low = spec.above is not None and not value > spec.above
        too_high = spec.below is not None and not value < spec.below
        no_number = isinstance(value, float) and not math.isfinite(value)
        if spec.infinite:
            no_number = math.isnan(value)
        if too_low or too_high or no_number:
            raise AlteredFileError(
                f"the file holds {str(value)[:80]} where a number above {spec.above} and below "
                f"{spec.below} belongs."
            )
        return value

    def _codes(self, node: Any, spec: Array) -> AnyArray:
        """Activation modes; leaf ids get the type that they have in memory again."""
        found = self.array(node)
        if found.dtype.name in LEAF_TYPES and found.size and found.ndim == 2:
            # Without its sign, a negative id is a huge one, and refused as such.
            unsigned = found.view(np.uint32) if found.dtype == np.int32 else found
            n_leaves = int((unsigned.max(axis=0).astype(np.int64) + 1).sum())
            # The index allocates memory for each leaf. A leaf takes more than a byte of a file,
            # so a number of leaves above that of the bytes is forged.
            size = sum(array.nbytes for array in self.arrays.values())
            require(n_leaves <= size, f"its trees have {n_leaves} leaves in {size} bytes")
            self.arrays[node["array"]] = found.astype(leaf_type(unsigned), copy=False)
        return self.sized(node, spec)

    def _scattered(self, node: Any, spec: Array) -> AnyArray:
        """Rows of zeros, but for those that are stored."""
        rows, values = expect_keys(node, "rows", "values")
        # Another field with these axes is declared, and read, before this one.
        full = np.zeros([self.lengths[axis] for axis in spec.axes], dtype=spec.dtype)
        index = self.sized(rows, Array("int64", (f"rows of {spec.axes}",)))
        stored = self.sized(values, spec.along(f"rows of {spec.axes}", *spec.axes[1:]))
        ordered = bool((np.diff(index) > 0).all())
        require(ordered and is_within(index, len(full)), "stored rows are out of order or range")
        full[index] = stored
        return full

    def _sparse(self, node: Any, spec: Array) -> AnyArray:
        """Zeros, but for the values that are stored with their places."""
        shape, places, values = expect_keys(node, "shape", "places", "values")
        lengths = [expect_type(int, length) for length in expect_type(list, shape)]
        size = sum(array.nbytes for array in self.arrays.values())
        # Another array of this shape is stored as it is, so a larger one is forged.
        small = all(n >= 0 for n in lengths) and math.prod(lengths) <= size
        require(len(lengths) == len(spec.axes) and small, "a sparse array has a wrong shape")
        known = [self.lengths.setdefault(a, n) for a, n in zip(spec.axes, lengths, strict=True)]
        require(known == lengths, "a sparse array has another shape than others")
        index = self.sized(places, Array("int64", (f"places of {spec.axes}",)))
        stored = self.sized(values, spec.along(f"places of {spec.axes}"))
        full = np.zeros(lengths, dtype=spec.dtype)
        ordered = bool((np.diff(index) > 0).all())
        require(ordered and is_within(index, full.size), "places are out of order or range")
        full.ravel()[index] = stored
        return full


def check_part(part: Any) -> None:
    """Raise if the fields of a dataclass from a file do not fit together."""
    for contradiction in getattr(part, "contradictions", tuple)():
        raise AlteredFileError(f"the file contradicts itself: {contradiction}.")


def require(good: bool, contradiction: str) -> None:
    """Raise unless this holds in the file."""
    if not good:
        raise AlteredFileError(f"the file contradicts itself: {contradiction}.")


def has_values_within(values: AnyArray, least: float, most: float) -> bool:
    """Whether all values lie in this closed interval; NaN lies in none."""
    if values.size == 0 or values.dtype.kind not in "iuf":
        return True
    return bool(values.min().item() >= least and values.max().item() <= most)


def is_within(values: AnyArray, stop: int) -> bool:
    """Whether all numbers lie in range(stop)."""
    return len(values) == 0 or bool(values.min() >= 0 and values.max() < stop)


@cache
def _parts(kind: type) -> dict[str, tuple[type, ...]]:
    """The dataclasses (and None) that the annotation of each field allows."""
    found: dict[str, tuple[type, ...]] = {}
    for name, hint in typing.get_type_hints(kind).items():
        union = typing.get_origin(hint) in (typing.Union, types.UnionType)
        members = typing.get_args(hint) if union else (hint,)
        found[name] = tuple(
            m for m in members if isinstance(m, type) and (is_dataclass(m) or m is type(None))
        )
    return found
