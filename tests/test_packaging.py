"""What goes into a release: package data, one version, and lower bounds that are tested."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

import polycal

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
# Of no parent, and so in no test of the lowest versions.
UNTESTED = {"probmetrics", "venn-abers", "betacal"}


def test_every_file_of_the_package_goes_into_the_wheel():
    patterns = PROJECT["tool"]["setuptools"]["package-data"]["polycal"]
    package = ROOT / "src" / "polycal"
    there = {
        path.relative_to(package).as_posix()
        for path in package.rglob("*")
        if path.is_file() and path.suffix != ".py" and "__pycache__" not in path.parts
    }
    assert there == {p.relative_to(package).as_posix() for q in patterns for p in package.glob(q)}
    assert "py.typed" in there
    folders = {path.parent for path in package.rglob("*.py")}
    assert all((folder / "__init__.py").exists() for folder in folders)


def test_one_version():
    cited = re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    assert cited is not None
    assert polycal.__version__ == PROJECT["project"]["version"] == cited.group(1)


def test_one_list_of_pythons():
    """Those that are said to be tested begin with the lowest, and the README names the same."""
    project = PROJECT["project"]
    known = [re.search(r":: (3\.\d+)$", line) for line in project["classifiers"]]
    tested = [found.group(1) for found in known if found]
    assert project["requires-python"] == f">={tested[0]}"
    readme = (ROOT / "README.md").read_text()
    assert f"Python {tested[0]} or newer (tested: {', '.join(tested)})" in readme
    assert f"{tested[0]} to {tested[-1]}" in (ROOT / "CONTRIBUTING.md").read_text()


def requirements():
    project, groups = PROJECT["project"], PROJECT["dependency-groups"]
    yield from project["dependencies"]
    for extra in project["optional-dependencies"].values():
        yield from extra
    yield from groups["test"]
    yield from groups["parents"]


def test_lower_bounds_are_those_that_are_tested():
    lines = (ROOT / ".ci" / "lowest.txt").read_text().splitlines()
    lowest = dict(line.split("==") for line in lines if "==" in line)
    bounds = dict(re.split(r">=|==", r) for r in requirements() if re.search(r">=|==", r))
    for name, bound in bounds.items():
        if name not in UNTESTED:
            assert re.fullmatch(rf"{re.escape(bound)}(\.0)*", lowest[name.split("[")[0]]), (
                name,
                bound,
            )


def test_a_tool_has_one_lower_bound():
    """The groups "check", "lint", "test" and "docs" may name the same tool."""
    bounds: dict[str, set[str]] = {}
    for name in ("check", "lint", "test"):
        for requirement in PROJECT["dependency-groups"][name]:
            tool, bound = re.split(r">=|==", requirement)
            bounds.setdefault(tool, set()).add(bound)
    assert all(len(found) == 1 for found in bounds.values()), bounds


def test_links():
    """One repository, in the metadata of the package and in the citation."""
    links = PROJECT["project"]["urls"]
    assert links.keys() == {"Homepage", "Documentation", "Source", "Changelog", "Issues"}
    cited = re.search(
        r"^repository-code: (\S+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE
    )
    assert cited is not None
    assert all(link.startswith(cited.group(1)) for link in links.values())
    assert links["Source"] == cited.group(1)


@pytest.mark.parametrize("name", ["LICENSE", "README.md", "MANIFEST.in", "pyproject.toml"])
def test_files_of_every_release(name):
    """setuptools puts these into the sdist by itself."""
    assert (ROOT / name).read_text().strip()


@pytest.mark.parametrize(
    "name",
    [
        ".ci/lowest.txt",
        ".pre-commit-config.yaml",
        "CHANGELOG.md",
        "CITATION.cff",
        "CONTRIBUTING.md",
        "Makefile",
        "RELEASING.md",
        "SECURITY.md",
    ],
)
def test_files_of_the_sdist(name):
    assert (ROOT / name).read_text().strip()
    lines = [line.split() for line in (ROOT / "MANIFEST.in").read_text().splitlines()]
    included = {file for line in lines if line and line[0] == "include" for file in line[1:]}
    assert name in included


def test_changelog_has_this_version():
    headings = re.findall(r"^## \[?([^\]\s]+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[0] == "Unreleased"
    assert polycal.__version__ in headings


def test_quick_tests_exist():
    """The folders that `make check` runs, and nothing that needs an optional library."""
    found = re.search(r"^QUICK_TESTS := (.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert found is not None
    assert all(list(ROOT.glob(pattern)) for pattern in found.group(1).split())
