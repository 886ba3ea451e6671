"""Small tables of text cells, for the terminal and for notebooks."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from html import escape

# Characters of a line; notebooks and terminals show as many.
LINE = 88


def text_table(heads: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Columns that are as wide as their longest cell, with a rule below the heads."""
    widths = [max(map(len, column)) for column in zip(heads, *lines, strict=True)]
    shown = [heads, ["-" * width for width in widths], *lines]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in shown
    )


def facts_table(facts: dict[str, str]) -> str:
    """Names and values, one below the other; long values continue on the next line."""
    width = max(map(len, facts)) + 2
    lines = []
    for name, value in facts.items():
        first, *more = textwrap.wrap(value, LINE - width) or [""]
        lines += [name.ljust(width) + first, *(" " * width + line for line in more)]
    return "\n".join(lines)


def html_table(heads: Sequence[str], lines: Sequence[Sequence[str]], *, safe: bool = False) -> str:
    """A plain table; with ``safe`` the cells are HTML already."""
    head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in heads)
    body = "".join(
        "<tr>" + "".join(f"<td>{cell if safe else escape(cell)}</td>" for cell in line) + "</tr>"
        for line in lines
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
