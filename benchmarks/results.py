"""How each figure of docs/results.md is made, and how long that takes: `make results`.

Prints every command of the page below its heading, with what stands in parentheses behind it. The
page is the one place where commands and times are written. FOLDER holds .npz files with arrays X
and y, LIST is a file with names of some of them, and OUT.csv is where a record is kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "results.md"
COMMAND = re.compile(r"`(python benchmarks/\w+\.py[^`]*)`(?:[^`(]*\(([^)]*)\))?")


def commands(text: str) -> Iterator[tuple[str, str, str]]:
    """Heading, command, and what is said of its time, commit and the like."""
    heading = ""
    for line in text.splitlines():
        if line.startswith("#"):
            heading = line.lstrip("# ")
        for command, about in COMMAND.findall(line):
            yield heading, command, about


def main() -> None:
    last = ""
    for heading, command, about in commands(PAGE.read_text(encoding="utf-8")):
        if heading != last:
            print(f"\n{heading}")
        last = heading
        print(f"  {command}" + f"\n      {about}" * bool(about))


if __name__ == "__main__":
    main()
