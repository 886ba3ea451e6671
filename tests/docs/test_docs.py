"""The code of the README and of the docs runs, and what they name exists."""

from __future__ import annotations

import importlib
import inspect
import re
import runpy
import xml.etree.ElementTree as ET
from importlib.util import find_spec
from pathlib import Path

import pytest

import polycal
from polycal.cli.app import app
from polycal.estimators import BaseCalibrator, GeodesicCalibrator
from tests.toys.pages import BLOCK, commands, run_page, same_output, write_tables

ROOT = Path(__file__).parents[2]
DOCS = ["README.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))]
MODULES = ("datasets", "metrics", "mlflow", "plotting", "simulations")
# Where the files of the main branch are, on the web.
HERE = re.compile(
    r"^https://(github\.com/polycal/polycal/(blob|tree)|raw\.githubusercontent\.com/polycal/polycal)"
    r"/main/"
)
NEEDS_TORCH = {"docs/recipes.md"}
# Pages on which every block that prints something is followed by what it prints.
SHOWS_OUTPUT = {"docs/start.md", "docs/guide.md", "docs/recipes.md"}


def text_of(page: str) -> str:
    return (ROOT / page).read_text()


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text_of(page), flags=re.DOTALL)


@pytest.mark.parametrize("page", [page for page in DOCS if BLOCK.search(text_of(page))])
def test_code_runs_and_prints_what_is_shown(page, tmp_path, monkeypatch):
    """The blocks of a page run in order, in one session and one folder."""
    if page in NEEDS_TORCH:
        pytest.importorskip("torch")
    write_tables(tmp_path)
    monkeypatch.chdir(tmp_path)
    for run in run_page(page):
        if run.shown is not None:
            assert same_output(run.shown, run.printed), f"{run.code}prints\n{run.printed}"
        elif page in SHOWS_OUTPUT:
            assert not run.printed, f"run python -m tests.toys.pages {page}"


def test_the_comparison_of_outputs_works():
    assert same_output("alpha  0.912\n", "alpha 0.913\n")
    assert not same_output("alpha 0.912\n", "alpha 0.812\n")
    assert not same_output("edge 0.912\n", "out 0.912\n")
    assert not same_output("1 2\n", "1\n")


def test_every_command_is_on_its_page():
    names = [command.callback.__name__ for command in app.registered_commands]
    sections = re.findall(r"^## (\w+)$", text_of("docs/cli.md"), flags=re.MULTILINE)
    assert sections == names
    shown = {line.split()[1] for line in commands("\n".join(blocks("docs/cli.md", "console")))}
    assert shown == set(names)


@pytest.mark.parametrize("page", [*DOCS, "studies/README.md"])
def test_named_files_and_commands_exist(page):
    text = text_of(page)
    for link in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", text):
        path, n_here = HERE.subn("", link)
        assert ((ROOT if n_here else (ROOT / page).parent) / path).exists(), link
    for script in re.findall(r"python (\S+\.py)", text):
        assert (ROOT / script).exists(), script
    for module in re.findall(r"python -m (studies\.[a-z]\w*)", text):
        assert find_spec(module) is not None, module
    for study in re.findall(r"^polycal reproduce (\w+)", text, flags=re.MULTILINE):
        assert (ROOT / "studies" / f"{study}.py").exists(), study
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"^make (\w+)", text, flags=re.MULTILINE):
        assert f"\n{target}:" in makefile, target


def test_links_of_the_readme_are_whole():
    """A package index shows it outside of the repository: pictures are raw files, by address."""
    links = re.findall(r"(!?)\[[^\]]*\]\(([^)]+)\)", text_of("README.md"))
    assert len(links) > 10
    for picture, link in links:
        assert HERE.match(link), link
        assert bool(picture) == link.startswith("https://raw."), link


def test_links_of_the_changelog_are_whole():
    """It is a page of the site too, where paths of the repository lead nowhere."""
    links = re.findall(r"\]\(([^)]*)\)", (ROOT / "CHANGELOG.md").read_text("utf-8"))
    assert all(link.startswith("https://") for link in links)


def test_methods_of_metadata_routing_are_not_in_the_reference():
    """scikit-learn writes their docstrings, with references that lead nowhere here."""
    text = (ROOT / "docs" / "_templates" / "autosummary" / "class.rst").read_text("utf-8")
    for name in dir(polycal.GeodesicCalibrator):
        if name.startswith("set_") and name.endswith("_request"):
            assert name in text


def test_every_page_is_in_the_navigation():
    trees = [tree for page in DOCS for tree in blocks(page, r"\{toctree\}")]
    listed = {line for tree in trees for line in tree.splitlines() if line and line[0] != ":"}
    pages = {Path(page).stem for page in DOCS[1:]} - {"index"}
    assert listed == pages | {"gallery/index", "reference"}


def test_every_option_and_method_of_the_guide_exists():
    text = text_of("docs/guide.md")
    options = re.findall(r"^\| `(\w+)` \|", text.split("## Which option")[1], flags=re.MULTILINE)
    assert len(options) > 8
    assert set(options) <= set(inspect.signature(BaseCalibrator).parameters)


def test_the_map_of_equations_names_functions_that_exist():
    """Each function of theory.md is defined in the file beside it."""
    rows = re.findall(r"\| `([\w.]+)` \| `([\w/]+)\.py` \|", text_of("docs/theory.md"))
    assert len(rows) > 30
    for name, path in rows:
        module = importlib.import_module("polycal." + path.replace("/", "."))
        found = module
        for part in name.split("."):
            found = getattr(found, part)
        assert found.__module__ == module.__name__, name


def test_the_map_of_equations_is_complete():
    """Equations 1 to 20 of the paper, and both of its algorithms, have a line."""
    column = re.findall(r"^\| ([^|]+) \|", text_of("docs/theory.md"), flags=re.MULTILINE)
    known: set[int] = set()
    for cell in column:
        for first, last in re.findall(r"\b(\d+)(?: to (\d+))?", cell):
            known |= set(range(int(first), int(last or first) + 1))
    assert set(range(1, 21)) <= known
    assert {"Algorithm 1", "Algorithm 2"} <= set(column)


def test_every_public_name_is_on_the_page_of_names():
    modules = [polycal, *(getattr(polycal, name) for name in MODULES)]
    names = {module.__name__: sorted(module.__all__) for module in modules}
    # set_..._request comes from scikit-learn's metadata routing.
    ours = [base for base in GeodesicCalibrator.__mro__ if base.__module__.startswith("polycal")]
    members = [(name, getattr(base, name)) for base in ours for name in vars(base)]
    own = [name for name, m in members if callable(m) and not name.startswith(("_", "set_"))]
    names["Methods of the estimators"] = sorted(set(own))
    sections = text_of("docs/api.md").split("\n## ")[1:]
    row = re.compile(r"^\| `(\w+)` \| \S", flags=re.MULTILINE)
    listed = {text.split("\n")[0]: sorted(row.findall(text)) for text in sections}
    assert listed == names


def test_every_public_class_and_function_is_in_the_reference():
    listed = re.findall(r"^   (\w+)$", text_of("docs/reference.rst"), flags=re.MULTILINE)
    modules = [polycal, *(getattr(polycal, name) for name in MODULES)]
    names = [name for module in modules for name in module.__all__]
    assert sorted(listed) == sorted({*names} - {"PAPER", *MODULES})


def test_every_display_is_shown_and_the_pictures_are_small():
    text = text_of("docs/displays.md")
    for name in polycal.plotting.__all__:
        assert f"plotting.{name}" in text
    pictures = dict(re.findall(r"!\[(.*)\]\((\S+\.png)\)", text))
    assert len(pictures) == text.count("![") == len(polycal.plotting.__all__) + 1
    for words, path in pictures.items():
        assert len(words) > 40  # what one would see
        assert (ROOT / "docs" / path).stat().st_size < 60_000


def test_the_picture_of_the_flow_names_files_that_exist():
    tree = ET.parse(ROOT / "docs/images/flow.svg")
    words = " ".join(tree.getroot().itertext()).split()
    files = [word for word in words if word.endswith((".py", "/"))]
    assert len(files) >= 6
    for file in files:
        assert (ROOT / "src/polycal" / file).exists(), file


@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.py")), ids=lambda p: p.stem)
def test_examples_begin_with_a_title(example):
    """The gallery takes it from there; displays.py is no page of the gallery."""
    lines = inspect.cleandoc(example.read_text().split('"""')[1]).splitlines()
    if example.stem != "displays":
        assert set(lines[1]) == {"="}
        assert len(lines[1]) >= len(lines[0])


@pytest.mark.parametrize(
    "example", sorted((ROOT / "examples").glob("plot_*.py")), ids=lambda path: path.stem
)
def test_examples_of_the_gallery_run(example):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.close("all")
    runpy.run_path(str(example))
    assert pyplot.get_fignums()  # each draws something
    pyplot.close("all")
