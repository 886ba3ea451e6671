"""Every bad or odd input has its message or its answer; none is silent, none is another's crash."""

from __future__ import annotations

import re
import traceback
import warnings
from pathlib import Path

import pytest

import polycal
from tests.odd_inputs.cases import CASES

HOME = Path(polycal.__file__).parent
# Libraries whose checks of plain tables and parameters polycal uses and passes on.
CHECKS = ("sklearn/utils/validation.py", "sklearn/utils/_param_validation.py")
KINDS = (ValueError, TypeError, FileNotFoundError, AttributeError)


def test_there_are_enough():
    assert len(CASES) >= 150


def raised_in(error):
    """File of the last line of a traceback."""
    return traceback.extract_tb(error.__traceback__)[-1].filename


def outcome(call):
    """The error of a call, or None, and the texts of its warnings."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        try:
            call()
        except KINDS as error:
            return error, []
    return None, [str(w.message) for w in found]


@pytest.mark.parametrize("name", CASES)
def test_case(name):
    call, message = CASES[name]
    error, texts = outcome(call)
    if error is not None:
        where, texts = raised_in(error), [str(error)]
        assert where.startswith(str(HOME)) or where.endswith(CHECKS), f"raised in {where}: {error}"
    if message is None:
        # Rows are few on purpose.
        assert not [t for t in texts if "independent calibration rows are too few" not in t]
    else:
        assert any(re.search(message, text, re.DOTALL) for text in texts), f"silent, or {texts}"
