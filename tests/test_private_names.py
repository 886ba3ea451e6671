"""scikit-learn's private names are used in ``_utils/sklearn_compat.py`` alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import polycal

ROOT = Path(polycal.__file__).parent
COMPAT = ROOT / "_utils" / "sklearn_compat.py"


def private_imports(source: str) -> Iterator[str]:
    """Dotted names below ``sklearn`` with a part that begins with an underscore."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                imported = [alias.name for alias in names]
            case ast.ImportFrom(module=str(module), names=names, level=0):
                imported = [f"{module}.{alias.name}" for alias in names]
            case ast.Attribute():  # import sklearn; sklearn.ensemble._forest
                imported = [ast.unparse(node)]
            case _:
                continue
        yield from filter(is_private, imported)


def is_private(name: str) -> bool:
    package, *parts = name.split(".")
    # __version__ and its like are public.
    return package == "sklearn" and any(p.startswith("_") and p[:2] != "__" for p in parts)


@pytest.mark.parametrize(
    "source",
    [
        "import sklearn.ensemble._forest",
        "from sklearn.ensemble._forest import BaseForest",
        "from sklearn.utils import _safe_indexing",
        "def f():\n    from sklearn.utils import check_array, _safe_indexing as take",
        "import sklearn\nsklearn.utils._safe_indexing(X, rows)",
    ],
)
def test_private_names_are_found(source):
    assert list(private_imports(source))


@pytest.mark.parametrize(
    "source",
    [
        "import sklearn\nsklearn.__version__",
        "from sklearn.utils import check_array",
        "from .sklearn import _helper",
        "from numpy import _core",
    ],
)
def test_public_names_are_left_alone(source):
    assert not list(private_imports(source))


def test_compat_is_where_they_are():
    assert list(private_imports(COMPAT.read_text()))


def test_private_names_are_in_one_file():
    found = {
        path.relative_to(ROOT).as_posix(): names
        for path in sorted(ROOT.rglob("*.py"))
        if path != COMPAT and (names := list(private_imports(path.read_text())))
    }
    assert not found, f"import these from {COMPAT.name}, under a public name: {found}"
