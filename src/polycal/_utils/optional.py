"""Import of optional libraries, with the install command in the error."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType


def optional(module: str, extra: str) -> ModuleType:
    """Import ``module``, or raise an error that names the extra of polycal that installs it."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f'{module} is needed here and is not installed. Run: pip install "polycal[{extra}]"'
        ) from error
