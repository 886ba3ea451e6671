"""Polytopes as a monoid."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from polycal.core.polytopes import Polytopes
from polycal.gate.bandwidth import polytope_density
from tests.toys.polytopes import make_rows, mixed_polytopes, polytopes_of


def assert_same(a: Polytopes, b: Polytopes):
    assert_array_equal(a.modes.codes, b.modes.codes)
    for name in ("counts", "mean", "variance"):
        assert_allclose(getattr(a, name), getattr(b, name), rtol=1e-9, atol=1e-11)


def test_merge_is_associative_commutative_and_equal_to_one_batch():
    rows = make_rows()
    a, b, c = (polytopes_of(rows, slice(start, start + 20)) for start in (0, 20, 40))
    whole = polytopes_of(rows)
    assert_same(a.merge(b).merge(c), whole)
    assert_same(a.merge(b.merge(c)), whole)
    assert_same(c.merge(a).merge(b), whole)


def test_counts_add_up_and_moments_are_those_of_the_rows():
    modes, X, y, weight = rows = make_rows()
    polytopes = polytopes_of(rows)
    expected = [weight[y == k].sum() for k in range(3)]
    assert_allclose(polytopes.counts.sum(axis=0), expected)
    for r, code in enumerate(polytopes.modes.codes):
        inside = (modes.codes == code).all(axis=1)
        mean = np.average(X[inside], axis=0, weights=weight[inside])
        assert_allclose(polytopes.mean[r], mean)
        variance = np.average((X[inside] - mean) ** 2, axis=0, weights=weight[inside])
        assert_allclose(polytopes.variance[r], variance, atol=1e-10)
    precision = polytope_density(polytopes, 0.5).precision
    assert_array_equal(precision, 1 / (polytopes.variance + 0.5))


def test_polytopes_with_missing_values_merge_as_one_batch():
    modes, X, y, weight, start = mixed_polytopes()
    whole = Polytopes.from_rows(modes, X, y, weight, 2, start)
    a, b = (
        Polytopes.from_rows(modes[part], X[part], y[part], weight[part], 2, start)
        for part in (slice(0, 30), slice(30, 80))
    )
    for name in ("counts", "mean", "variance", "observed", "levels"):
        assert_allclose(getattr(a.merge(b), name), getattr(whole, name), atol=1e-9)
    for r, code in enumerate(whole.modes.codes):
        inside = (modes.codes == code).all(axis=1) & ~np.isnan(X[:, 1])
        assert whole.observed[r, 1] == pytest.approx(weight[inside].sum())
        if inside.any():
            mean = np.average(X[inside, 1], weights=weight[inside])
            assert whole.mean[r, 1] == pytest.approx(mean)
