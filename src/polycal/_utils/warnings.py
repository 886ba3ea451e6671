"""Warnings about data, each a category of its own, so that a user can filter it."""

from __future__ import annotations

import warnings
from inspect import currentframe
from pathlib import Path

HERE = str(Path(__file__).parent.parent)


class DataWarning(UserWarning):
    """Base of polycal's warnings about the data that a model was given."""


class LeakWarning(DataWarning):
    """Rows may not be new to the model that is calibrated or judged by them."""


class FewRowsWarning(DataWarning):
    """There are fewer calibration rows than a promise needs."""


class ShiftWarning(DataWarning):
    """New rows lie where there was no training data, or have other labels than expected."""


def warn(message: str, category: type[DataWarning]) -> None:
    """Warn at the line outside of polycal that led here."""
    level, frame = 1, currentframe()
    while frame is not None and frame.f_code.co_filename.startswith(HERE):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
