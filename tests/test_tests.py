"""The tests mirror the source: who changes gate/gate.py opens tests/gate/test_gate.py."""

from __future__ import annotations

import ast
from pathlib import Path

import polycal

TESTS = Path(__file__).parent
SOURCE = Path(polycal.__file__).parent
# Tests of more than one source file, with the reason. One line each: add and remove freely.
CROSS_CUTTING = {
    "estimators/test_threads.py": "every family, asked by many threads at once",
    "estimators/test_search.py": "the search that estimators choose, from fit to file",
    "calibration/test_promises.py": "what the docs guarantee, by simulation",
    "estimators/test_groups.py": "folds, groups and metadata routing, from fit to the last fold",
    "estimators/test_bad_input.py": "messages of all estimators",
    "estimators/test_families.py": "every family of parents in every estimator",
    "persistence/test_bad_files.py": "damage to any part of a file",
    "reporting/test_report.py": "the function report, from the model to the file",
}
# The names that a package offers are in its __init__.py.
SPECIAL = {"test_public.py": "__init__.py"}


def packages():
    """Folders of the source with Python files, relative to it."""
    folders = {path.parent.relative_to(SOURCE) for path in SOURCE.rglob("*.py")}
    return sorted(folders - {Path()})


def mirrored_files():
    """Test files in the folder of a package, relative to tests/."""
    for package in packages():
        for path in sorted((TESTS / package).glob("test_*.py")):
            yield path.relative_to(TESTS)


def source_of(test):
    """The source file that a test file mirrors by its name."""
    name = SPECIAL.get(test.name, test.name.removeprefix("test_"))
    return SOURCE / test.parent / name


def imported_modules(path):
    """Dotted names of modules that a file imports, and of what it imports from them."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            yield from (f"{module}.{alias.name}" for alias in node.names)


def is_test_module(name):
    """Whether a dotted name leads to a test module, or through one."""
    return name.startswith("tests.") and any(part.startswith("test_") for part in name.split("."))


def test_the_search_for_imports_works():
    assert is_test_module("tests.test_tests")
    assert is_test_module("tests.test_tests.packages")
    assert not is_test_module("tests.toys.models.small_forest")
    assert "tests.toys.models.small_forest" in set(imported_modules(TESTS / "toys" / "families.py"))


def test_no_test_imports_another():
    found = [
        f"{path.relative_to(TESTS)} imports {name}"
        for path in sorted(TESTS.rglob("*.py"))
        for name in imported_modules(path)
        if is_test_module(name) or name.startswith(".")
    ]
    assert not found, "move what they share to tests/toys"


def test_every_package_has_a_folder_of_tests():
    assert Path("parents/torch") in packages()  # the search works
    missing = [str(package) for package in packages() if not (TESTS / package).is_dir()]
    assert not missing


def test_every_test_file_mirrors_a_source_file():
    unknown = [
        str(test)
        for test in mirrored_files()
        if not source_of(test).is_file() and str(test) not in CROSS_CUTTING
    ]
    assert not unknown, "name them after a source file, or give a reason in CROSS_CUTTING"


def test_the_table_of_cross_cutting_tests_holds_no_other():
    found = {str(test) for test in mirrored_files() if not source_of(test).is_file()}
    assert set(CROSS_CUTTING) <= found, "remove the rows of files that are gone or have a source"
