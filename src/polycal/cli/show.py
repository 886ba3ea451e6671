"""What the commands print: words to stderr, results to stdout, as wide as the terminal."""

from __future__ import annotations

import json
import math
import re
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

# Messages go to stderr and results to stdout, so that a pipe gets results only.
say = Console(stderr=True, highlight=False)
out = Console(highlight=False)
# Beyond this many columns of a table, those that need no reason are counted.
MOST_COLUMNS = 40
# Names in messages of the library, and what a user of the command line calls them.
OPTIONS = (
    (r"\bX_cal and y_cal\b", "--calibration-file"),
    (r"\bX_cal\b", "--calibration-file"),
    (r"\by_cal\b", "the target column of --calibration-file"),
    (r"^y (?=holds|must)", "the target column "),
    (r"(?<![\w'\"=.(])y(?= does not|;| are)", "the target column"),
    (r"(?<![\w'\"=.(])X(?= are held| and y\b|;)", "DATA"),
    (r"DATA and y\b", "DATA"),
    (r"\bfalse_alarm=", "--false-alarm "),
    (r"\bmemory_limit=", "--memory-limit "),
    (r"\bfalse_alarm\b(?!_)", "--false-alarm"),
    (r"\bmemory_limit\b", "--memory-limit"),
    (r"\bsample_weight\b", "the column of --weight"),
    (r"\bn_jobs\b", "--jobs"),
)


def line(text: str, style: str | None = None) -> None:
    """Print one line to stderr, without wrapping and without markup."""
    say.print(text, style=style, markup=False, soft_wrap=True)


def warning(message: Any, *_: Any, **__: Any) -> None:
    """Print a warning without its file and line."""
    line(f"note: {with_options(' '.join(str(message).split()))}", "yellow")


def with_options(text: str) -> str:
    """A message of the library with the options of the command line for its names in Python."""
    for name, option in OPTIONS:
        text = re.sub(name, option, text)
    return text


def facts(values: dict[str, Any], console: Console = out) -> None:
    """Names and values, one below the other."""
    from ..estimators.facts import shares_as_text  # slow to import

    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in values.items():
        if isinstance(value, dict):
            value = shares_as_text(value)
        table.add_row(Text(name, "dim"), Text(str(value)))
    console.print(table)


def columns(roles: Any) -> None:
    """How each column was read, to stderr; of very many, those with something to say."""
    rows = list(roles.items())
    plain = [name for name, role in rows if not role.reason] if len(rows) > MOST_COLUMNS else []
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("column", overflow="fold", max_width=32)
    table.add_column("read as", no_wrap=True)
    table.add_column("why", overflow="fold")
    for name, role in rows:
        if name not in plain:
            table.add_row(Text(name), Text(role.role), Text(role.reason))
    if plain:
        table.add_row(Text(f"{len(plain)} others"), Text("number"), Text(""))
    say.print(table)


def features(moved: Any) -> None:
    """How far features have moved."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("feature", "p-value", "distance", "in selected rows"):
        table.add_column(name, overflow="fold")
    for one in moved:
        selected = "" if math.isnan(one.distance_selected) else f"{one.distance_selected:.3f}"
        table.add_row(Text(one.name), f"{one.p_value:.3g}", f"{one.distance:.3f}", selected)
    out.print(table)


def day(found: Any) -> None:
    """One day of a folder, in one line on stdout."""
    accuracy = "" if found.accuracy is None else f", expected accuracy {found.accuracy:.3f}"
    realised = "" if found.realised is None else f", realised {found.realised:.3f}"
    if found.contradicted:
        chance = f"p = {found.realised_p:.1g}" if found.realised_p > 1e-6 else "p < 0.000001"
        realised += f": LABELS CONTRADICT IT ({chance})"
    word = "ALARM" if found.alarm else "ok"
    out.print(
        f"{found.name}: {word}, p = {found.p_value:.3g}, {found.share_new:.1%} of "
        f"{found.n_rows:,} rows new{accuracy}{realised}",
        markup=False,
        soft_wrap=True,
    )


def stream(first: Any) -> None:
    """That the alarm of all days has rung, on which of them, and what has most of the evidence."""
    out.print(
        f"all days together: ALARM since {first.name}, most of its evidence in "
        f"{first.stream_behind}",
        markup=False,
        soft_wrap=True,
    )


def as_json(value: Any, console: Console | None = None) -> None:
    """One JSON object in one line."""
    text = json.dumps(_finite(value), default=str, allow_nan=False)
    print(text, file=None if console is None else console.file)


def evaluation(found: Any) -> None:
    """The figures: for people in a terminal, one below the other; elsewhere as Markdown."""
    if not out.is_terminal:
        print(found.to_markdown())
        return
    from ..evaluation import TITLES  # slow to import

    models = list(dict.fromkeys(figure.model for figure in found.figures))
    for rows in dict.fromkeys(figure.rows for figure in found.figures):
        table = Table(box=None, pad_edge=False, header_style="dim")
        for name in (rows, *models):
            table.add_column(Text(name), overflow="fold")
        some = [figure for figure in found.figures if figure.rows == rows]
        for metric in dict.fromkeys(figure.metric for figure in some):
            cells = {f.model: _interval(f) for f in some if f.metric == metric}
            table.add_row(TITLES[metric], *(cells.get(model, "") for model in models))
        out.print(table)


def _interval(figure: Any) -> str:
    if math.isnan(figure.value):
        return "none"
    return f"{figure.value:.3f} ({figure.low:.3f} to {figure.high:.3f})"


def _finite(value: Any) -> Any:
    """The value with null for NaN and infinity, which JSON does not have."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
