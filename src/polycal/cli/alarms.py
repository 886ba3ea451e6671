"""``polycal check`` and ``polycal monitor``, whose exit code says whether there is an alarm."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from . import show
from .errors import shown_errors
from .options import Data, Decimal, Encoding, Json, Level, Model, Sep, Smallest, load_model

# Exit code of an alarm, and features that are shown.
ALARM, FEATURES_SHOWN = 3, 5
# Exit code where a day could not be read, as of other errors.
UNREAD = 2


def check(
    model: Model,
    data: Data,
    level: Level = 0.01,
    smallest: Smallest = 0.01,
    false_discovery: Annotated[
        float, typer.Option(help="Share of the selected rows that may not be new.")
    ] = 0.1,
    sep: Sep = None,
    encoding: Encoding = None,
    decimal: Decimal = None,
    as_json: Json = False,
) -> None:
    """Say whether the rows of a file are like the calibration rows; exit code 3 is an alarm."""
    with shown_errors():
        from .check import check_file, facts
        from .files import Source
        from .tables import trained_mark

        loaded = load_model(model)
        source = Source(data, sep, encoding, decimal, trained_mark(loaded))
        options = {"level": level, "smallest": smallest, "false_discovery": false_discovery}
        with show.say.status("checking"):
            found = check_file(loaded, source, **options)
    if as_json:
        show.as_json(found.to_dict())
    else:
        show.facts(facts(found))
        show.features(found.features[:FEATURES_SHOWN])
    if found.alarm:
        raise typer.Exit(ALARM)


def monitor(
    model: Model,
    folder: Annotated[
        Path,
        typer.Argument(metavar="FOLDER", help="Folder of tables, one a day.", show_default=False),
    ],
    history: Annotated[
        Path | None,
        typer.Option(help="File of what was found; FOLDER/history.json if not named."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="HTML page; FOLDER/monitor.html if not named."),
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="Column of the labels, of days that have it.")
    ] = None,
    level: Level = 0.01,
    smallest: Smallest = 0.01,
    delta: Annotated[
        float, typer.Option(help="Probability that the alarm of all days ever rings in vain.")
    ] = 0.01,
    sep: Sep = None,
    encoding: Encoding = None,
    decimal: Decimal = None,
    as_json: Json = False,
) -> None:
    """Check the new days of a folder, and write a page of all days; exit code 3 is an alarm."""
    with shown_errors():
        from ..monitoring.history import first_rung
        from .monitor import Unread, check_outputs, follow, open_history

        path, page = history or folder / "history.json", output or folder / "monitor.html"
        check_outputs(folder, model, path, page)
        loaded = load_model(model)
        known = open_history(path, loaded, level, smallest, delta)
        days = follow(known, path, folder, target, (sep, encoding, decimal), page)
        new, unread = [], []
        with show.say.status("checking the days"):
            for day in days:
                if isinstance(day, Unread):
                    unread.append(day)
                    show.line(f"error: {day.name} is not checked: {day.why}", "bold red")
                    continue
                new.append(day)
                if not as_json:
                    show.day(day)
        from .._utils.files import atomic_file
        from ..reporting.timeline import timeline

        with atomic_file(page) as part:
            part.write_text(timeline(known, f"{folder.resolve().name}: monitor"), encoding="utf-8")
    first, stream = first_rung(known.days), known.monitor.status
    if as_json:
        show.as_json(
            {
                "days": [asdict(day) for day in new],
                "unread": [day._asdict() for day in unread],
                "stream": {
                    "alarm": stream.alarm,
                    "rows": stream.n_rows,
                    "since": None if first is None else first.name,
                },
                "page": str(page),
                "history": str(path),
            }
        )
    else:
        if first is not None:
            show.stream(first)
        show.line(f"{len(new)} new of {len(known.days)} days. Page: {page}")
    if stream.alarm or any(day.alarm for day in new):
        raise typer.Exit(ALARM)
    if unread:
        raise typer.Exit(UNREAD)
