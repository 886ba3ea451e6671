"""``polycal monitor``: a folder of files, each of which is a day, and their history."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .._utils.arrays import Array
from ..monitoring.history import Day, History, Labels
from .columns import exact_text
from .files import TABLE_KINDS, TEXT_KINDS, Source, kind_of
from .output import check_output
from .tables import features_of, trained_mark


class Unread(NamedTuple):
    """A day that could not be checked, and why."""

    name: str
    why: str


def days_of(folder: Path, *others: Path) -> list[Path]:
    """The tables of a folder by name, without hidden files and the named ones."""
    if not folder.is_dir():
        raise NotADirectoryError(f"{folder} is not a folder; name one that holds a file a day.")
    taken = {path.resolve() for path in others}
    found = []
    for path in sorted(folder.iterdir(), key=lambda path: path.name):
        if path.name.startswith(".") or not path.is_file() or path.resolve() in taken:
            continue
        if kind_of_table(path) is not None:
            found.append(path)
    return found


def kind_of_table(path: Path) -> str | None:
    """What a table ends in; None for a file that is none."""
    try:
        kind = kind_of(path)
    except ValueError:
        return None
    return kind if kind.removesuffix(".gz") in (*TEXT_KINDS, *TABLE_KINDS) else None


def check_outputs(folder: Path, model: Path, history: Path, page: Path) -> None:
    """Raise if history or page would replace each other, the model, or a day."""
    for file, option in ((history, "--history"), (page, "--output")):
        check_output(file, model)
        kind = kind_of_table(file)
        if kind is not None and file.parent.resolve() == folder.resolve():
            raise ValueError(
                f"{option} {file} would stand for a day of {folder}. Name a file that does not "
                f"end in .{kind}."
            )
    if history.resolve() == page.resolve():
        raise ValueError(f"--history and --output are both {page}. Name two files.")


def open_history(path: Path, model: Any, level: float, smallest: float, delta: float) -> History:
    """The history of a file, or a new one; its own limits hold."""
    if not path.exists():
        return History(model, level, smallest, delta)
    history = History.load(path, model)
    known = (history.level, history.smallest, history.monitor.delta)
    if known != (level, smallest, delta):
        raise ValueError(
            f"{path} was begun with --level {known[0]:g} --smallest {known[1]:g} --delta "
            f"{known[2]:g}. Say the same, or name another file with --history."
        )
    return history


def follow(
    history: History,
    path: Path,
    folder: Path,
    target: str | None,
    reading: tuple[str | None, str | None, str | None],
    *others: Path,
) -> Iterator[Day | Unread]:
    """Check the days of a folder that the history lacks; it is saved after each of them."""
    for file in days_of(folder, path, *others):
        try:
            day = _follow_day(history, file, target, reading)
        except (OSError, ValueError, TypeError) as error:  # one damaged day stops no other
            yield Unread(file.name, " ".join(str(error).split()))
            continue
        if day is not None:
            history.save(path)
            yield day


def _follow_day(
    history: History,
    file: Path,
    target: str | None,
    reading: tuple[str | None, str | None, str | None],
) -> Day | None:
    """Check one day, or add its labels; None where there is nothing new."""
    model = history.model
    n_bytes, seen = file.stat().st_size, history.day(file.name)
    if seen is not None and seen.n_bytes == n_bytes:
        return None
    table = Source(file, *reading, trained_mark(model)).read()
    labels = None
    if target is not None and target in table.columns:
        labels = labels_known(table, target, model.classes_)
    if seen is None:
        return history.add(file.name, features_of(model, table), labels, n_bytes)
    if labels is not None and len(table) == seen.n_rows:  # they have come since
        return history.add_labels(file.name, features_of(model, table), labels, n_bytes)
    warnings.warn(
        f"{file} was checked when it had {seen.n_bytes:,} bytes, and has {n_bytes:,} now; it is "
        "not checked again. Give what is new a file of its own.",
        stacklevel=3,
    )
    return None


def labels_known(table: Any, target: str, classes: Array) -> Labels | None:
    """Labels of the rows that have one of a known class; None where no row has."""
    text = exact_text(table[target])
    given = np.array([word is not None and bool(word.strip()) for word in text])
    code = {str(label): k for k, label in enumerate(classes)}
    place = np.array([code.get(str(word), code.get(_whole(word), -1)) for word in text], dtype=int)
    strange = sorted({str(word) for word in text[given & (place < 0)]})
    if strange:
        warnings.warn(
            f"{table.attrs.get('file', 'DATA')} has labels that the model does not know, "
            f"{strange[:5]}; these rows are not counted in the realised accuracy.",
            stacklevel=2,
        )
    known = place >= 0
    return Labels(classes[np.maximum(place, 0)], known) if known.any() else None


def _whole(word: Any) -> str:
    """A number such as "1.0" as the text of a whole number."""
    return str(word).removesuffix(".0")
