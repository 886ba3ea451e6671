"""The notebooks run, and print and draw what they show."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest

from tests.toys.notebooks import NOTEBOOKS, read, run_notebook
from tests.toys.pages import ROOT, same_output

ALL = sorted(NOTEBOOKS.glob("*.ipynb"))
NEEDS_TORCH = {"images"}


def test_there_are_three():
    assert [path.stem for path in ALL] == ["images", "production", "table"]


@pytest.mark.slow
@pytest.mark.parametrize("path", ALL, ids=lambda path: path.stem)
def test_cells_run_and_show_what_they_print(path, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib.pyplot")
    pytest.importorskip("pandas")
    if path.stem in NEEDS_TORCH:
        pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    for run in run_notebook(read(path)):
        code = "".join(run.cell["source"])
        assert same_output(run.shown, run.printed), f"{code}\nprints\n{run.printed}"
        assert run.pictures == len(run.figures), code


@pytest.mark.parametrize("path", ALL, ids=lambda path: path.stem)
def test_notebooks_are_fit_to_be_read(path):
    """They begin with a title, explain each step, were run in order, and stay small."""
    notebook = read(path)
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    cells = notebook["cells"]
    assert "".join(cells[0]["source"]).startswith("# ")
    kinds = [cell["cell_type"] for cell in cells]
    assert "code" in kinds
    for before, kind in pairwise(kinds):
        assert "markdown" in (before, kind)
    counts = [cell["execution_count"] for cell in cells if cell["cell_type"] == "code"]
    assert counts == list(range(1, len(counts) + 1))
    assert len({cell["id"] for cell in cells}) == len(cells)
    assert path.stat().st_size < 200_000


@pytest.mark.parametrize("path", ALL, ids=lambda path: path.stem)
def test_notebooks_are_linked(path):
    name = path.relative_to(ROOT).as_posix()
    for page in ("README.md", "docs/index.md", "docs/start.md", "examples/GALLERY_HEADER.rst"):
        assert name in (ROOT / page).read_text(), page


@pytest.mark.parametrize("path", ALL, ids=lambda path: path.stem)
def test_notebooks_hold_no_absolute_path(path):
    """Nothing of the machine that stored the outputs."""
    cells = read(path)["cells"]
    texts = ["".join(cell["source"]) for cell in cells]
    texts += ["".join(out.get("text", [])) for cell in cells for out in cell.get("outputs", [])]
    assert not re.search(r"(?<![\w/.:])/\w+/", "\n".join(texts))
