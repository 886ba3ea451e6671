"""Pages of the docs: their code is run in order, and what it prints stands below it.

``python -m tests.toys.pages docs/start.md`` writes what is printed into the page.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from sklearn.datasets import load_wine

ROOT = Path(__file__).parents[2]
# A block of code, and the block of text right below it.
BLOCK = re.compile(r"^```(python|console)\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.M | re.S)
# Commands that take minutes, or a clone's data; other tests run them.
TOO_LONG = ("polycal demo", "polycal reproduce")
NUMBER = re.compile(r"[-+]?\d+(?:\.\d*)?(?:e[-+]?\d+)?")


class Run(NamedTuple):
    """A block that was run: its code, what the page shows below it, and what it printed."""

    code: str
    shown: str | None
    printed: str


def run_page(page: str) -> Iterator[Run]:
    """Run the blocks of a page in order, in one session and in the current folder."""
    session: dict = {}
    for language, code, shown in BLOCK.findall((ROOT / page).read_text()):
        if language == "python":
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(compile(code, page, "exec"), session)
            printed = out.getvalue()
        else:
            printed = "".join(map(run_command, commands(code)))
        yield Run(code, shown or None, tidy(printed))


def commands(code: str) -> list[str]:
    """Lines of a console block, without comments."""
    lines = (line.split("  #")[0].strip() for line in code.splitlines())
    return [line for line in lines if line]


def run_command(command: str) -> str:
    """What a command of polycal prints; nothing for other commands, and for long ones."""
    from typer.testing import CliRunner

    from polycal.cli import show
    from polycal.cli.app import app

    if not command.startswith("polycal") or command.startswith(TOO_LONG):
        return ""
    with warnings.catch_warnings():
        warnings.filterwarnings("always", category=UserWarning)
        warnings.showwarning = show.warning  # as the program itself prints them
        result = CliRunner(env={"COLUMNS": "88"}).invoke(app, shlex.split(command)[1:])
    assert result.exit_code == 0, f"{command}: {result.output}"
    return result.output


def tidy(printed: str) -> str:
    """Without spaces at the ends of lines, and without the note that loops are compiled."""
    lines = [line.rstrip() for line in printed.splitlines()]
    return "".join(f"{line}\n" for line in lines if not line.startswith("polycal compiles"))


def same_output(shown: str, printed: str) -> bool:
    """Whether words are equal, and numbers but for what other versions of libraries change."""
    words = [re.sub(r"\s+|--+", " ", NUMBER.sub("#", text)).split() for text in (shown, printed)]
    numbers = [[float(number) for number in NUMBER.findall(text)] for text in (shown, printed)]
    return words[0] == words[1] and np.allclose(*numbers, rtol=0.05, atol=0.03)


def write_tables(folder: Path) -> None:
    """Files that the pages name: an id, a label and some features."""
    wine = load_wine(as_frame=True)
    table = wine.data[["alcohol", "flavanoids", "proline"]].copy()
    table["region"] = np.where(np.arange(len(table)) % 3 == 0, "north", "south")
    table["id"] = np.arange(len(table))
    table["label"] = wine.target_names[wine.target]
    table = table.sample(frac=1, random_state=0)
    table[:120].to_csv(folder / "train.csv", index=False)
    table[120:].to_csv(folder / "test.csv", index=False)
    table[120:].drop(columns="label").to_csv(folder / "new.csv", index=False)
    (folder / "days").mkdir()
    for k in range(2):
        table[120 + 29 * k : 149 + 29 * k].to_csv(folder / f"days/day-{k}.csv", index=False)
    table[120:].assign(proline=1e6).to_csv(folder / "other.csv", index=False)


def main(page: str) -> None:
    """Write what the blocks of a page print into the page."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        write_tables(Path(folder))
        printed = iter([run.printed for run in run_page(page)])

    def with_output(found: re.Match[str]) -> str:
        text = next(printed)
        code = f"```{found[1]}\n{found[2]}```\n"
        return f"{code}\n```text\n{text}```\n" if text else code

    (ROOT / page).write_text(BLOCK.sub(with_output, (ROOT / page).read_text()))


if __name__ == "__main__":
    os.environ.setdefault("MPLBACKEND", "agg")
    for name in sys.argv[1:]:
        main(name)
