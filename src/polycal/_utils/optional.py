"""Optional packages: imported where they are used, with the install line when absent."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType


def optional(module: str, extra: str) -> ModuleType:
    """Import ``module``, or say which extra of polycal brings it."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f'{module} is needed here and is not installed. Run: pip install "polycal[{extra}]"'
        ) from error
