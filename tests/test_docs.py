"""The code of the README and of the docs runs, and what they name exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import polycal
from polycal.estimators._base import BaseCalibrator

ROOT = Path(__file__).parents[1]
PAGES = ["README.md", "docs/start.md", "docs/recipes.md", "docs/displays.md"]


@pytest.mark.parametrize("page", PAGES)
def test_python_blocks_run(page, tmp_path, monkeypatch):
    """The blocks of a page run in order, in one session."""
    monkeypatch.chdir(tmp_path)  # what they write
    if page == "docs/recipes.md":
        pytest.importorskip("torch")
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), flags=re.DOTALL)
    assert blocks
    session = {}
    for block in blocks:
        exec(compile(block, page, "exec"), session)


@pytest.mark.parametrize("page", [*PAGES, "docs/api.md", "docs/results.md", "docs/design.md"])
def test_named_files_and_commands_exist(page):
    text = (ROOT / page).read_text()
    for path in re.findall(r"\]\(([^)#]+)\)", text):
        assert ((ROOT / page).parent / path).exists(), path
    for script in re.findall(r"python (\S+\.py)", text):
        assert (ROOT / script).exists(), script
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"^make (\w+)", text, flags=re.MULTILINE):
        assert f"\n{target}:" in makefile, target


def test_every_public_name_is_on_the_page_of_names():
    modules = [polycal, polycal.metrics, polycal.plotting, polycal.simulations]
    names = {module.__name__: sorted(module.__all__) for module in modules}
    # set_..._request comes from scikit-learn's metadata routing.
    members = vars(BaseCalibrator).items()
    own = [name for name, m in members if callable(m) and not name.startswith(("_", "set_"))]
    names["Methods of the estimators"] = sorted(own)
    sections = (ROOT / "docs/api.md").read_text().split("\n## ")[1:]
    row = re.compile(r"^\| `(\w+)` \| \S", flags=re.MULTILINE)
    listed = {text.split("\n")[0]: sorted(row.findall(text)) for text in sections}
    assert listed == names


def test_the_gallery_shows_every_display_and_its_pictures_are_small():
    text = (ROOT / "docs/displays.md").read_text()
    for name in polycal.plotting.__all__:
        assert f"plotting.{name}" in text
    pictures = dict(re.findall(r"!\[(.*)\]\((\S+\.png)\)", text))
    assert len(pictures) == text.count("![") == len(polycal.plotting.__all__) + 1
    for words, path in pictures.items():
        assert len(words) > 40  # what one would see
        assert (ROOT / "docs" / path).stat().st_size < 60_000
