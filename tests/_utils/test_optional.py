"""A package that is absent: the message has the install line."""

from __future__ import annotations

import pytest

from polycal._utils.optional import optional


def test_missing_extra_names_its_install_line():
    with pytest.raises(ModuleNotFoundError, match=r'pip install "polycal\[torch\]"'):
        optional("a_module_that_is_not_there", "torch")
