"""Notebooks: their code is run in order, and what it prints and draws is stored below it.

``python -m tests.toys.notebooks examples/notebooks/*.ipynb`` writes outputs into the notebooks.
No Jupyter is needed for it: cells print and draw, and none ends with a value to be shown.
"""

from __future__ import annotations

import base64
import contextlib
import io
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tests.toys.pages import ROOT, tidy

NOTEBOOKS = ROOT / "examples" / "notebooks"


class Run(NamedTuple):
    """A cell that was run: the cell as stored, what it printed now, and its figures."""

    cell: dict[str, Any]
    printed: str
    figures: list[bytes]

    @property
    def shown(self) -> str:
        """What the notebook shows as printed."""
        return "".join("".join(out.get("text", [])) for out in self.cell["outputs"])

    @property
    def pictures(self) -> int:
        """How many pictures the notebook shows."""
        return sum("image/png" in out.get("data", {}) for out in self.cell["outputs"])


def read(path: Path) -> dict[str, Any]:
    """A notebook as it is stored."""
    return json.loads(path.read_text(encoding="utf-8"))


def run_notebook(notebook: dict[str, Any]) -> Iterator[Run]:
    """Run the code cells in order, in one session and in the current folder."""
    session: dict = {"__name__": "__main__"}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(compile("".join(cell["source"]), cell["id"], "exec"), session)
            yield Run(cell, tidy(out.getvalue()), take_figures())


def take_figures() -> list[bytes]:
    """The open figures as PNG files; they are closed, as Jupyter does after each cell."""
    import matplotlib.pyplot as plt

    files = []
    for number in plt.get_fignums():
        file = io.BytesIO()
        # No metadata: the version of a library is no difference.
        plt.figure(number).savefig(file, format="png", dpi=70, metadata={"Software": None})
        files.append(file.getvalue())
    plt.close("all")
    return files


def outputs(run: Run) -> list[dict[str, Any]]:
    """Outputs of a cell in Jupyter's format."""
    found: list[dict[str, Any]] = []
    if run.printed:
        lines = run.printed.splitlines(keepends=True)
        found.append({"name": "stdout", "output_type": "stream", "text": lines})
    for figure in run.figures:
        data = {"image/png": base64.b64encode(figure).decode(), "text/plain": ["<Figure>"]}
        found.append({"data": data, "metadata": {}, "output_type": "display_data"})
    return found


def main(name: str) -> None:
    """Write what the cells of a notebook print and draw into the notebook."""
    path = Path(name).resolve()
    notebook = read(path)
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for count, run in enumerate(run_notebook(notebook), start=1):
            run.cell["outputs"] = outputs(run)
            run.cell["execution_count"] = count
    text = json.dumps(notebook, indent=1, ensure_ascii=False, sort_keys=True)
    path.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    os.environ.setdefault("MPLBACKEND", "agg")
    for name in sys.argv[1:]:
        main(name)
