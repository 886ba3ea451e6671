"""The changes of stress/mutations.py are those that they say."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from stress import mutations

SOURCE = '''
"""Words stay."""
from __future__ import annotations

@njit(cache=True)
def share(a: int | None, b=2):
    """Words stay here, too."""
    if a < 0 or b:
        raise ValueError("negative" + str(1 + 1))
    a += b
    out[a] = not -a
    return max(a, 1.5)
'''


def changes():
    changer = mutations._Changer()
    changer.visit(ast.parse(SOURCE))
    return changer.found


def test_every_change_by_hand():
    expected = [
        (6, "2 -> 3"),
        (8, "not"),
        (8, "Or -> And"),
        (8, "Lt -> LtE"),
        (8, "0 -> 1"),
        (9, "left out"),
        (10, "Add -> Sub"),
        (10, "left out"),
        (11, "left out"),
        (11, "Not left out"),
        (11, "USub left out"),
        (12, "max -> min"),
        (12, "1.5 -> 3.0"),
    ]
    assert [found[:2] for found in changes()] == expected
    assert {scope for *_, scope in changes()} == {"share"}


@pytest.mark.parametrize(
    ("number", "line"),
    [
        (0, "def share(a: int | None, b=3):"),
        (1, "    if not (a < 0 or b):"),
        (3, "    if a <= 0 or b:"),
        (5, "        pass"),
        (6, "    a -= b"),
        (9, "    out[a] = -a"),
        (11, "    return min(a, 1.5)"),
    ],
)
def test_a_mutant_differs_in_one_line(number, line):
    original = ast.unparse(ast.parse(SOURCE)).splitlines()
    changed = mutations.mutated(SOURCE, number).splitlines()
    assert [new for old, new in zip(original, changed, strict=True) if old != new] == [line]


def test_changes_of_a_file_of_the_source_can_be_compiled():
    root = Path(mutations.__file__).parent.parent
    path = root / "src/polycal/kernels/select.py"
    mutants = mutations.mutants_of(root, path)
    assert len({mutant.key for mutant in mutants}) == len(mutants) > 20
    some = mutants[::5]
    texts = {mutations.mutated(path.read_text("utf-8"), mutant.number) for mutant in some}
    assert len(texts) == len(some)
    for text in texts:
        compile(text, "mutant", "exec")
