"""Constructor parameters: one that a file cannot hold gives a warning and becomes None."""

from __future__ import annotations

import warnings
from typing import Any

from .errors import UnknownTypeError
from .values import Packer, Unpacker, expect_keys, expect_type


def pack_parameters(packer: Packer, parameters: dict[str, Any], owner: str) -> dict[str, Any]:
    """No error for what cannot be stored: predictions do not need these parameters."""
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
    """The parameters by name."""
    values, _ = expect_keys(node, "values", "lost")
    return {key: reader.value(value) for key, value in expect_type(dict, values).items()}
