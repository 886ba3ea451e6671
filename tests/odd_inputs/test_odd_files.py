"""Every odd file has its message, or is read as it should be."""

from __future__ import annotations

import re
import warnings

import pytest

from polycal.cli.columns import typed
from polycal.cli.files import Source
from polycal.cli.roles import decide
from polycal.cli.tables import labels_of
from tests.odd_inputs.files import NOTED, READ, REFUSED

FILES = {**REFUSED, **NOTED, **READ}


def read(path):
    """Roles, and the texts of the notes."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        source = Source(path).read()
        labels = labels_of(source, "y")
        roles = decide(source, {}, ["y"])
        assert len(typed(source, roles)) == len(labels)
    return roles, [str(w.message) for w in found]


@pytest.mark.parametrize("name", FILES)
def test_file(name, tmp_path):
    content, expected = FILES[name]
    path = tmp_path / "t.csv"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    if name in REFUSED:
        with pytest.raises(ValueError, match=re.compile(expected, re.DOTALL)):
            read(path)
        return
    roles, notes = read(path)
    said = [f"{role.role}: {role.reason}" for _, role in roles.items()]
    if name in NOTED:
        assert any(re.search(expected, note) for note in notes), notes
    elif expected is None:
        assert not notes
        assert said == ["number: "]
    else:
        assert re.search(expected, said[1]), said
