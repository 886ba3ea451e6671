"""Copies of rows, in any container."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest

from polycal.core import copies
from polycal.core.copies import LowestHashes, copies_between, find_copies, row_hashes

NAMES = list("abc")
FRAMES = {
    "array": lambda X: X,
    "pandas": lambda X: pd.DataFrame(X, columns=NAMES),
    "objects": lambda X: pd.DataFrame(X, columns=NAMES).astype(object),
    "nullable": lambda X: pd.DataFrame(X, columns=NAMES).convert_dtypes(),
    "polars": lambda X: pl.DataFrame(X, schema=NAMES),
}


def rows():
    X = np.random.default_rng(0).normal(size=(60, 3))
    X[3:9, 1] = np.nan
    X[5, 2] = 0.0
    return X


@pytest.mark.parametrize("first", FRAMES)
@pytest.mark.parametrize("second", FRAMES)
def test_copies_are_found_in_any_container(first, second):
    X = rows()
    shared, chance = copies_between(FRAMES[first](X[:50]), FRAMES[second](X[30:]))
    assert shared.tolist() == [True] * 20 + [False] * 10
    assert chance < 1e-6


def test_rows_that_differ_in_late_columns_alone_are_no_copies():
    first = copies.FIRST_COLUMNS
    X = np.repeat(np.random.default_rng(0).normal(size=(1, first + 30)), 30, axis=0)
    X[:, -1] = np.arange(30)
    assert find_copies(X) is None
    shared, chance = copies_between(X[:20], X[20:])
    assert (len(shared), chance) == (0, 1.0)
    # All are equal in the first columns; two are copies.
    X[:, first:] = np.random.default_rng(1).normal(size=(30, 30))
    X[29] = X[3]
    groups = find_copies(X)
    assert len(np.unique(groups)) == 29
    assert groups[29] == groups[3]
    assert copies_between(X[:20], X[20:])[0].tolist() == [False] * 9 + [True]
    # All others differ there.
    X[:, :first] = np.random.default_rng(2).normal(size=(30, first))
    X[29] = X[3]
    groups = find_copies(X)
    assert len(np.unique(groups)) == 29
    assert groups[29] == groups[3]
    assert find_copies(X[:29]) is None


def test_zeros_and_nan_have_several_bits():
    X = np.r_[rows(), rows()]
    X[65, 2] = -0.0
    X[63:69, 1] = -np.float64(np.nan)
    for frame in FRAMES.values():
        groups = find_copies(frame(X))
        np.testing.assert_array_equal(groups[:60], groups[60:])


def test_numbers_of_a_frame_are_no_python_objects(monkeypatch):
    """200,000 rows of 20 numbers would take seconds."""
    monkeypatch.setattr(copies, "_code", None)
    X = pd.DataFrame(rows(), columns=NAMES).assign(d=range(60), e=True)
    assert find_copies(X) is None


@pytest.mark.parametrize("most", [0, 30, 100, 120, 1000])
def test_lowest_hashes_find_the_copies_among_them(most):
    """Rows 80 to 99 of the first table are rows 0 to 19 of the second; row 0 stands there twice."""
    X = np.random.default_rng(0).normal(size=(200, 3))
    hashes = row_hashes(X)
    tables = hashes[:100], np.r_[hashes[80:199], hashes[80]]
    found = []
    for part in tables:
        whole, left, right = (LowestHashes(most) for _ in range(3))
        whole.add(part)
        left.add(part[:70])
        right.add(part[70:90])
        right.add(part[90:])
        right.merge(left)
        assert sorted(right._hashes) == sorted(whole._hashes)
        assert right.n_rows == len(part)
        found.append(right)
    limits = [np.sort(part)[most - 1] if 0 < most < len(part) else hashes.max() for part in tables]
    compared = tables[1][tables[1] <= min(limits)] if most else tables[1][:0]
    n_shared, n_compared, chance = found[1].shared_with(found[0])
    assert n_compared == len(compared)
    assert n_shared == np.isin(compared, tables[0]).sum()
    assert chance == 1 if most == 0 else chance < 2.0 ** -(n_shared - 2)


def test_lowest_hashes_of_tables_without_a_copy_in_common():
    hashes = row_hashes(np.random.default_rng(0).normal(size=(200, 3)))
    first, second = LowestHashes(50), LowestHashes(50)
    first.add(np.r_[hashes[:100], hashes[:20]])
    second.add(hashes[100:])
    assert second.shared_with(first)[0] == 0
    assert second.shared_with(first)[2] == 1
