"""Codes for missing values in columns of numbers, such as 99999 for "unknown"."""

from __future__ import annotations

import numpy as np

from .._utils.arrays import Bools, Floats
from .columns import FAR, quartiles

# Rows that share a far value exactly, for it to be a code.
CODE_ROWS = 3
# Share of rows with one value that may hide from the quartiles that it is far.
OFTEN = 0.2
# A code is more than so many times as large as all other values of its sign, or far from them.
APART = 5.0
# Fewer other values say nothing about what values are usual.
LEAST_KINDS = 3
# Ends of types of integers, and a size that no measured number has.
LIMITS = (-(2**31), 2**31 - 1, -(2**15), 2**15 - 1)
LARGEST = 1e20


def find_codes(X: Floats, coded: Bools | None) -> dict[int, Floats]:
    """The codes of each column that has any: far values that rows share, and those known."""
    first, third = quartiles(X)
    with np.errstate(over="ignore", invalid="ignore"):
        width = third - first
        low, high = np.fmin.reduce(X, axis=0), np.fmax.reduce(X, axis=0)
        outside = (low < first - FAR * width) | (high > third + FAR * width)
        # Where a code is in many rows, or most rows are equal, the quartiles do not tell.
        often = np.maximum((low == X).sum(axis=0), (high == X).sum(axis=0)) >= OFTEN * len(X)
    far = {int(j): _is_far(X[:, j]) for j in np.flatnonzero((outside | often) & (high > low))}
    common = _common_codes([X[is_far, j] for j, is_far in far.items() if width[j] > 0])
    codes = {}
    for j in range(X.shape[1]) if len(common) else far:
        is_far = far.get(j, np.zeros(len(X), dtype=bool))
        value, count = np.unique(X[is_far, j], return_counts=True)
        found = value[count >= CODE_ROWS]
        if 0 < width[j] < np.inf:
            others = X[~is_far, j]
            gap = np.maximum(common - np.nanmax(others), np.nanmin(others) - common)
            found = np.union1d(found, common[gap > FAR * width[j]])
        if coded is not None and coded.shape == X.shape:
            found = np.union1d(found, X[is_far & coded[:, j], j])
        if len(found):
            codes[int(j)] = found
    return codes


def _common_codes(columns: list[Floats]) -> Floats:
    """Far values of several columns, in enough rows of all together: codes of the whole table.

    With few rows, a column may have its first one in a new row.
    """
    distinct = [np.unique(values) for values in columns]
    in_rows, n_rows = np.unique(np.concatenate([np.empty(0), *columns]), return_counts=True)
    n_columns = np.unique(np.concatenate([np.empty(0), *distinct]), return_counts=True)[1]
    common: Floats = in_rows[(n_rows >= CODE_ROWS) & (n_columns > 1)]
    return common


def _is_far(values: Floats) -> Bools:
    """Which values a gap of ten widths of the others parts from them."""
    others = values[~np.isnan(values)]
    smaller: Floats | None = others
    while smaller is not None:  # a code in many rows would make its own gap look small
        others, smaller = smaller, _without_far_end(smaller)
    first, third, width = _quartiles_and_width(others)
    if not 0 < width < np.inf:
        return np.isin(values, others, invert=True) & ~np.isnan(values)
    return _after_gap(values, third, FAR * width) | _after_gap(-values, -first, FAR * width)


def _without_far_end(values: Floats) -> Floats | None:
    """The others, if the highest or the lowest value is far from them and rows share it."""
    for end in (values.max(), values.min()):
        others: Floats = values[values != end]
        if len(values) - len(others) < CODE_ROWS or len(others) < CODE_ROWS:
            continue
        first, third, width = _quartiles_and_width(others)
        with np.errstate(over="ignore"):
            away = min(abs(end - others.min()), abs(end - others.max()))
            beyond = max(end - third, first - end)
        if 0 < width < np.inf and min(away, beyond) > FAR * width:
            return others
    return None


def _quartiles_and_width(values: Floats) -> tuple[float, float, float]:
    """Quartiles, and the interquartile range or, where that is 0, the standard deviation."""
    first, third = np.quantile(values, [0.25, 0.75])
    with np.errstate(over="ignore", invalid="ignore"):
        width = third - first if third > first else values.std()
    return float(first), float(third), float(width)


def _after_gap(values: Floats, quartile: float, gap: float) -> Bools:
    """Which values are beyond the first gap of this size outside of the fence."""
    fence = quartile + gap
    inside = values[values <= fence]
    ordered = np.concatenate([[inside.max()], np.sort(values[values > fence])])
    first = np.flatnonzero(np.diff(ordered) > gap)
    after: Bools = values > (ordered[first[0]] if len(first) else np.inf)
    return after


def likely_codes(values: Floats) -> dict[float, int]:
    """Values of one column that look like codes for "unknown" to a reader, and the rows of each.

    Such a value ends the column, is written as people write codes (-9, 99, -999, 9999.9, the limit
    of a type of integers), and stands in at least 3 rows. It is more than five times as large as
    all others of its sign, or far from all others.
    """
    known = values[np.isfinite(values)]
    looks = [v for v in (known.min(), known.max()) if _is_written_as_code(v)] if len(known) else []
    if not looks:
        return {}
    others = known[~np.isin(known, looks)]
    if len(np.unique(others)) < LEAST_KINDS:
        return {}
    found = {}
    for value in looks:
        count = int((known == value).sum())
        sign = np.sign(value)
        alone = abs(value) > APART * max(0.0, float((sign * others).max()))
        if count >= CODE_ROWS and (alone or bool(_is_far(known)[known == value].all())):
            found[float(value)] = count
    return found


def _is_written_as_code(value: float) -> bool:
    digits = f"{abs(value):.10g}".replace(".", "")
    repeated = set(digits) in ({"9"}, {"8"}) and (len(digits) > 1 or value == -9)
    return repeated or value in LIMITS or abs(value) >= LARGEST
