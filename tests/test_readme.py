"""The code of the README and of the recipes runs, and what they name exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = ["README.md", "docs/recipes.md"]


@pytest.mark.parametrize("page", PAGES)
def test_python_blocks_run(page):
    """The blocks of a page run in order, in one session."""
    if page == "docs/recipes.md":
        pytest.importorskip("torch")
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), flags=re.DOTALL)
    assert blocks
    session = {}
    for block in blocks:
        exec(compile(block, page, "exec"), session)


@pytest.mark.parametrize("page", [*PAGES, "docs/results.md", "docs/design.md"])
def test_named_files_and_commands_exist(page):
    text = (ROOT / page).read_text()
    for path in re.findall(r"\]\(([^)#]+)\)", text):
        assert ((ROOT / page).parent / path).exists(), path
    for script in re.findall(r"python (\S+\.py)", text):
        assert (ROOT / script).exists(), script
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"^make (\w+)", text, flags=re.MULTILINE):
        assert f"\n{target}:" in makefile, target
