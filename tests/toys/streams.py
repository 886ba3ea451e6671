"""What two streams have in common."""

from __future__ import annotations

from numpy.testing import assert_allclose, assert_array_equal


def assert_same_sums(one, other, rtol=1e-9):
    """All that is a sum, and what is drawn by the rows alone."""
    assert one.n_rows == other.n_rows
    assert_allclose(one.class_weight, other.class_weight, rtol=rtol)
    for left, right in zip(one.kernels, other.kernels, strict=True):
        a, b = left.tables.to_save(), right.tables.to_save()
        assert_array_equal(a.key, b.key)
        assert_allclose(a.total, b.total, rtol=rtol)
        mine, theirs = left.stored.to_save(), right.stored.to_save()
        assert_array_equal(mine.key, theirs.key)
        assert_allclose(mine.values, theirs.values, rtol=rtol, atol=1e-12)
    assert_array_equal(one.reservoir.X, other.reservoir.X)
    assert_array_equal(one.reservoir.y, other.reservoir.y)
