"""Constructor parameters: stored if a file can hold them, else named and left at None."""

from __future__ import annotations

import warnings
from typing import Any

from .errors import UnknownTypeError
from .values import Packer, Unpacker, of, one


def pack_parameters(packer: Packer, parameters: dict[str, Any], owner: str) -> dict[str, Any]:
    """Prediction needs none of them: what cannot be stored gives a warning, not an error."""
    values, lost = {}, []
    for key, value in parameters.items():
        try:
            values[key] = packer.value(f"{owner}.{key}", value)
        except UnknownTypeError:
            values[key] = None
            lost.append(key)
            warnings.warn(
                f"{owner}({key}=...) is a {type(value).__name__}, which a model file does not "
                f"hold; the loaded model will have {key}=None. Predictions do not depend on it; "
                "set it before you fit again.",
                stacklevel=2,
            )
    return {"values": values, "lost": lost}


def unpack_parameters(reader: Unpacker, node: Any) -> dict[str, Any]:
    values, _ = one(node, "values", "lost")
    return {key: reader.value(value) for key, value in of(dict, values).items()}
