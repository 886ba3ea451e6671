"""Conversion of values to JSON and back, exactly; arrays are stored separately.

JSON itself has None, bool, int, str, finite float and list. Everything else is an object with
one key that names its kind. The keys are those below: a file cannot name a class or a function.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .._utils.arrays import Array
from .container import DTYPES, NAMES
from .errors import AlteredFileError, UnknownTypeError

# Most characters of an array of texts, where each takes as much memory as the longest: 256 MB.
MOST_CHARACTERS = 2**26


class Packer:
    """Collects the arrays of a file; an array that is added twice is stored once."""

    def __init__(self) -> None:
        self.arrays: dict[str, Array] = {}
        self._known: dict[int, tuple[str, Any]] = {}

    def array(self, name: str, array: Array) -> dict[str, Any]:
        """An array of numbers or bools."""
        key = id(array)
        if key not in self._known:
            stored = name
            while stored in self.arrays:
                stored += "'"
            self.arrays[stored] = _plain(array, name)
            # The array is kept alive, because its id may be used again once it is gone.
            self._known[key] = stored, array
        return {"array": self._known[key][0]}

    def bytes(self, name: str, content: bytes) -> dict[str, Any]:
        """Bytes, stored as an array of them."""
        return self.array(name, np.frombuffer(content, dtype=np.uint8))

    def value(self, name: str, value: Any) -> Any:
        """Any value that can be restored exactly; ``name`` is for errors and array names."""
        kind = type(value)
        if value is None or kind in (bool, int, str):
            return value
        if kind is float:
            return value if math.isfinite(value) else {"float": repr(value)}
        if kind is list:
            return [self.value(name, item) for item in value]
        if kind is tuple:
            return {"tuple": [self.value(name, item) for item in value]}
        if kind is dict:
            return {"dict": [[self.value(name, k), self.value(name, v)] for k, v in value.items()]}
        if isinstance(value, np.str_):
            return {"text": str(value)}
        if isinstance(value, np.generic) and value.dtype in NAMES:
            return {"number": [NAMES[value.dtype], self.value(name, value.item())]}
        if kind is np.ndarray and value.dtype.kind in "biuf":
            return self.array(name, value)
        if kind is np.ndarray and value.dtype.kind in "OU":
            width = "object" if value.dtype.kind == "O" else value.dtype.itemsize // 4
            if width == "object" or width * value.size <= MOST_CHARACTERS:
                items = [self.value(name, item) for item in value.ravel().tolist()]
                return {"objects": [width, list(value.shape), items]}
        raise UnknownTypeError(
            f"{name} is {value!r}, of a type that a model file does not hold "
            f"({kind.__module__}.{kind.__qualname__}). Use numbers, strings, lists or arrays."
        )


class Unpacker:
    """Restores the values that a ``Packer`` stored."""

    def __init__(self, arrays: dict[str, Array]) -> None:
        self.arrays = arrays

    def array(self, node: Any) -> Array:
        """The array that a node names."""
        found = self.arrays.get(expect_type(str, expect_keys(node, "array")))
        if found is None:
            raise AlteredFileError(f"the file lacks the array {str(node)[:80]}.")
        return found

    def bytes(self, node: Any) -> bytes:
        """The bytes of the array that a node names."""
        return self.array(node).tobytes()

    def value(self, node: Any) -> Any:
        """The value that a node describes."""
        if node is None or type(node) in (bool, int, str, float):
            return node
        if type(node) is list:
            return [self.value(item) for item in node]
        if type(node) is not dict or len(node) != 1:
            raise AlteredFileError(f"the file holds {str(node)[:80]} instead of a value.")
        ((kind, content),) = node.items()
        try:
            return self._special(kind, content)
        except (TypeError, ValueError, KeyError, OverflowError) as error:
            if isinstance(error, AlteredFileError):
                raise
            raise AlteredFileError(f"the file holds a wrong {kind[:20]}: {error}.") from error

    def _special(self, kind: str, content: Any) -> Any:
        if kind == "float":
            return float({"nan": "nan", "inf": "inf", "-inf": "-inf"}[content])
        if kind == "tuple":
            return tuple(map(self.value, content))
        if kind == "dict":
            return {self.value(key): self.value(value) for key, value in content}
        if kind == "text":
            return np.str_(expect_type(str, content))
        if kind == "number":
            dtype, value = content
            return DTYPES[dtype].type(self.value(value))
        if kind == "array":
            return self.array({kind: content})
        if kind == "objects":
            return self._objects(*content)
        raise AlteredFileError(f"the file holds an unknown kind of value, {kind[:20]!r}.")

    def _objects(self, width: Any, shape: list[int], items: list[Any]) -> Array:
        values = np.empty(len(items), dtype=object)
        values[:] = [self.value(item) for item in items]
        if width != "object":
            longest = max((len(expect_type(str, value)) for value in values), default=0)
            # A smaller width would cut texts, and a huge one would allocate all memory.
            if not (longest <= expect_type(int, width) and width * len(values) <= MOST_CHARACTERS):
                raise ValueError(f"{len(values)} texts of width {width}")
            values = values.astype(f"<U{width}")
        return values.reshape(shape)


def expect_type(kind: Any, value: Any) -> Any:
    """The value, which must be exactly of this type (or one of these)."""
    kinds = kind if isinstance(kind, tuple) else (kind,)
    if type(value) not in kinds:
        names = " or ".join(k.__name__ for k in kinds)
        raise AlteredFileError(f"the file holds {str(value)[:80]} where {names} belongs.")
    return value


def expect_keys(node: Any, *keys: str) -> Any:
    """What the object holds under these keys, which must be all its keys."""
    if type(node) is not dict or node.keys() != set(keys):
        raise AlteredFileError(
            f"the file holds {str(node)[:80]} where an object with {', '.join(keys)} belongs."
        )
    found = tuple(node[key] for key in keys)
    return found if len(found) > 1 else found[0]


def _plain(array: Array, name: str) -> Array:
    # Files are little-endian.
    plain = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    if array.ndim == 0:
        plain = plain.reshape(())
    if plain.dtype not in NAMES:
        raise UnknownTypeError(
            f"{name} is an array of {array.dtype}, which a model file does not hold. Use numbers "
            "or bools."
        )
    return plain
