"""``polycal fit`` for a file that is larger than memory: a piece of it at a time."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from tqdm import tqdm

from .._utils.arrays import Floats
from .._utils.optional import optional
from ..core.copies import row_hashes
from ..core.roles import ID, NUMBER, NUMBERS_THE_ROWS, ColumnRoles, Role
from ..estimators import GeodesicCalibrator
from .columns import typed
from .files import Source
from .fit import FitOptions, calibrator, check_features, summary, weights_of
from .roles import decide
from .tables import labels_of

# Rows of a Parquet file, or bytes of any, beyond which it is fitted in batches. Cells of text take
# several times as much memory as in the file.
MANY_ROWS, MANY_BYTES = 1_000_000, 5e8
# Rows of a piece, and of the sample that says how columns are read.
PIECE_ROWS, SAMPLE_ROWS = 50_000, 100_000


def is_large(source: Source) -> bool:
    """Whether a file is fitted in batches unless the user says otherwise."""
    n_rows, n_bytes = source.size()
    return n_bytes > MANY_BYTES or (n_rows or 0) > MANY_ROWS


def fit_source(
    source: Source, target: str, chosen: dict[str, Role], options: FitOptions
) -> tuple[GeodesicCalibrator, dict[str, Any]]:
    """Fit a model on a file in three passes; returns the model and a summary.

    The first pass finds how columns are read, the others are those of ``fit_batches``.
    """
    sample = sample_of(source, options)
    left_out = [target, options.weight]
    known = _counters(source, sample, chosen, left_out, options)
    roles = decide(sample, chosen, left_out, known)
    check_features(roles)
    X = typed(sample, roles)

    def batches() -> Iterator[Any]:
        for table in source.pieces(PIECE_ROWS):
            if len(table):
                weights = weights_of(table, options.weight)
                yield typed(table, roles), labels_of(table, target), weights

    model = calibrator(X, roles, options, calibration="auto")
    model.fit_batches(batches)
    model.columns_ = roles  # those of the file, before they became numbers and text
    return model, summary(model, options, model.n_rows_seen_)


def sample_of(source: Source, options: FitOptions) -> Any:
    """Random rows of a file, in their order."""
    pandas = optional("pandas", "cli")
    parts: list[Any] = []
    priority = np.empty(0)
    with tqdm(desc="columns", unit="row", disable=not options.show) as bar:
        for number, table in enumerate(source.pieces(PIECE_ROWS)):
            found = np.random.default_rng([options.seed, number]).random(len(table))
            limit = np.inf
            if len(priority) >= SAMPLE_ROWS:
                limit = np.partition(priority, SAMPLE_ROWS - 1)[SAMPLE_ROWS - 1]
            parts.append(table[found <= limit])
            priority = np.concatenate([priority, found[found <= limit]])
            if len(priority) > 2 * SAMPLE_ROWS:
                parts, priority = _thinned(pandas, parts, priority)
            bar.update(len(table))
    if not len(priority):
        raise ValueError(f"{source.name} holds no rows below its header.")
    if len(priority) > SAMPLE_ROWS:
        parts, priority = _thinned(pandas, parts, priority)
    sample = pandas.concat(parts)
    sample.attrs, sample.index.name = parts[0].attrs, parts[0].index.name
    return sample


def _thinned(pandas: Any, parts: list[Any], priority: Floats) -> tuple[list[Any], Floats]:
    """The rows of lowest priority."""
    kept = np.sort(np.argsort(priority, kind="stable")[:SAMPLE_ROWS])
    joined = pandas.concat(parts).iloc[kept]
    joined.attrs, joined.index.name = parts[0].attrs, parts[0].index.name
    return [joined], priority[kept]


def _counters(
    source: Source,
    sample: Any,
    chosen: dict[str, Role],
    left_out: list[str | None],
    options: FitOptions,
) -> dict[str, Role]:
    """Columns that number the rows of the file.

    A sample has gaps. So the few columns that may be such are looked through in the whole file.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # said once, when all roles are known
        roles = decide(sample, chosen, left_out)
    X = typed(sample, roles)
    names = [
        name
        for name in roles.with_role(NUMBER)
        if name not in chosen and _may_count(X[name].to_numpy())
    ]
    if not names:
        return {}
    some = ColumnRoles.of({n: r for n, r in roles.items() if n in names}, decimal=roles.decimal)
    counts = {name: Counter() for name in names}
    with tqdm(desc="ids", unit="row", disable=not options.show) as bar:
        for table in source.pieces(PIECE_ROWS):
            values = typed(table, some)
            for name in names:
                counts[name].add(values[name].to_numpy())
            bar.update(len(table))
    return {n: Role(ID, NUMBERS_THE_ROWS) for n in names if counts[n].numbers_the_rows}


def _may_count(values: Floats) -> bool:
    known = values[~np.isnan(values)]
    whole = bool((known == np.round(known)).all()) and bool((np.abs(known) < 2.0**53).all())
    return len(known) > 0 and whole and len(np.unique(known)) == len(known)


class Counter:
    """Whether whole numbers are all distinct and without gaps, in little memory.

    They are so where the sum of their hashes is that of all whole numbers in their range.
    """

    def __init__(self) -> None:
        self.n, self.low, self.high, self.total = 0, np.inf, -np.inf, 0

    def add(self, values: Floats) -> None:
        """Add numbers; NaN is none."""
        known = values[~np.isnan(values)]
        if len(known):
            self.n += len(known)
            self.low, self.high = min(self.low, known.min()), max(self.high, known.max())
            self.total += _sum_of_hashes(known)

    @property
    def numbers_the_rows(self) -> bool:
        """Whether they are all distinct and without gaps."""
        if self.n == 0 or self.high - self.low + 1 != self.n:
            return False
        total = 0
        for first in range(int(self.low), int(self.high) + 1, PIECE_ROWS):
            last = min(first + PIECE_ROWS, int(self.high) + 1)
            total += _sum_of_hashes(np.arange(first, last, dtype=float))
        return total % 2**64 == self.total % 2**64


def _sum_of_hashes(values: Floats) -> int:
    hashes = row_hashes(values[:, None])
    return 0 if hashes is None else int(hashes.sum(dtype=np.uint64))
