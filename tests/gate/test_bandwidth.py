"""Bandwidths and shares, against their definitions."""

from __future__ import annotations

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal

from polycal.core.columns import Columns
from polycal.core.density import Density
from polycal.core.execution import Execution
from polycal.core.polytopes import Polytopes
from polycal.core.reading import ActivationModes
from polycal.gate.bandwidth import (
    EstimatedFrom,
    GeodesicBandwidth,
    class_density,
    geodesic_density,
    polytope_density,
    smoothed_shares,
)
from polycal.kernels import build_index, reference
from tests.toys.polytopes import make_rows, mixed_polytopes, polytopes_of


def test_geodesic_bandwidth_equals_its_definition():
    modes, X, _, weight = rows = make_rows()
    polytopes = polytopes_of(rows)
    index = build_index(polytopes.modes)
    K = reference.similarity(polytopes.modes, modes) * weight
    square = (X[None] - polytopes.mean[:, None]) ** 2
    local = (K[..., None] * square).sum(axis=1) / K.sum(axis=1)[:, None] + 1e-6
    common = np.average(local, axis=0, weights=polytopes.size)
    density = geodesic_density(polytopes, index, 1e-6, Execution())
    assert_allclose(density.precision, 1 / np.sqrt(local * common), rtol=1e-9)


def test_class_density_has_the_width_of_a_class():
    """Weighted rows around the means of their classes; one width for rows and features."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 5)), np.arange(40) % 3
    weight = rng.uniform(0.5, 2, 40)
    modes = ActivationModes.from_bits([np.unpackbits(np.arange(40, dtype=np.uint8)[:, None], 1)])
    polytopes = Polytopes.from_rows(modes, X, y, weight, 3)
    means = np.stack([np.average(X[y == k], axis=0, weights=weight[y == k]) for k in range(3)])
    width = np.average((X - means[y]) ** 2, axis=0, weights=weight).mean()
    density = class_density(polytopes, 1e-3)
    assert_allclose(1 / density.precision, width + 1e-3, rtol=1e-12)
    assert_array_equal(density.mean, polytopes.mean)
    assert density.precision.shape == (1, 5)
    each = Density.from_parts(density.mean, np.full((40, 5), width + 1e-3), polytopes.size)
    near = rng.integers(0, 40, (7, 3))
    rows = rng.normal(size=(7, 5))
    assert_allclose(density.log_density(rows, near), each.log_density(rows, near), rtol=1e-12)
    assert_array_equal(density.precision_of(near[0]), density.precision[[0, 0, 0]])
    assert_array_equal(each.precision_of(3), each.precision[3])
    # Equal rows do not vary, whatever is left by rounding.
    same = Polytopes.from_rows(modes, np.full((40, 5), 0.1), y, weight, 3)
    assert_allclose(1 / class_density(same, 1e-3).precision, 1e-3, rtol=1e-9)


def test_shares_by_hand():
    """Levels with 3 and 1 of 4 rows, one never seen; a polytope that holds two of the first."""
    levels, start = np.array([[2.0, 0.0, 0.0], [1.0, 1.0, 0.0]]), np.array([0, 3])
    common = (np.array([3.0, 1.0, 0.0]) + 1 / 3) / 5
    expected = (levels + common) / 3
    shares = smoothed_shares(levels, levels, start)
    assert_allclose(shares, expected)
    assert_allclose(shares.sum(axis=1), 1)
    assert (shares[:, 2] < shares[:, :2].min(axis=1)).all()


def test_geodesic_density_with_missing_values_equals_its_definition():
    modes, X, y, weight, start = mixed_polytopes()
    polytopes = Polytopes.from_rows(modes, X, y, weight, 2, start)
    density = geodesic_density(polytopes, build_index(polytopes.modes), 1e-6, Execution(), start)
    K = reference.similarity(polytopes.modes, modes) * weight
    there = ~np.isnan(X[:, 1])
    near = (K[:, there] * X[there, 1]).sum(axis=1) / K[:, there].sum(axis=1)
    mean = np.where(polytopes.observed[:, 1] > 0, polytopes.mean[:, 1], near)
    assert_allclose(density.mean[:, 1], mean, rtol=1e-9)
    square = (X[there, 1][None] - mean[:, None]) ** 2
    local = (K[:, there] * square).sum(axis=1) / K[:, there].sum(axis=1) + 1e-6
    common = np.average(local, weights=polytopes.size)
    assert_allclose(density.precision[:, 1], 1 / np.sqrt(local * common), rtol=1e-8)
    counts = np.stack([(K * (X[:, 2] == level)).sum(axis=1) for level in range(4)], axis=1)
    total = np.array([weight[X[:, 2] == level].sum() for level in range(4)])
    everyone = (total + 1 / 4) / (total.sum() + 1)
    local_share = (counts + everyone) / (counts.sum(axis=1, keepdims=True) + 1)
    common_share = (total + everyone) / (total.sum() + 1)
    log_share = 0.5 * (np.log(local_share) + np.log(common_share))
    expected = log_share - log_share.max(axis=1, keepdims=True)
    assert_allclose(density.log_share[:, :4], expected, atol=1e-9)


def test_a_number_that_nobody_has():
    """A column that is missing in every row of the fit leaves the density finite."""
    modes, X, y, weight, start = mixed_polytopes()
    X[:, 1], X[:, 3] = np.nan, 1
    polytopes = Polytopes.from_rows(modes, X, y, weight, 2, start)
    index = build_index(polytopes.modes)
    for density in (
        geodesic_density(polytopes, index, 1e-6, Execution(), start),
        polytope_density(polytopes, 1e-6, start),
    ):
        assert np.isfinite(density.log_density(X, np.zeros((80, 1), dtype=int))).all()


def test_outliers_are_centres_but_set_no_width():
    """Widths equal those by the definition with clipped rows, around clipped means."""
    modes, X, y, weight = make_rows()
    X = X.copy()
    X[3, 0], X[5, 1] = 1e7, -1e9
    polytopes = Polytopes.from_rows(modes, X, y, weight, 3)
    index, columns = build_index(polytopes.modes), Columns.of(X)
    clipped = Polytopes.from_rows(modes, columns.clip(X), y, weight, 3)
    some = EstimatedFrom(clipped, np.arange(len(polytopes)))
    density = GeodesicBandwidth(1e-4).density(
        polytopes, index, np.zeros(1, dtype=int), Execution(), columns=columns, estimated_from=some
    )
    assert_array_equal(density.mean, polytopes.mean)
    K = reference.similarity(polytopes.modes, modes) * weight
    inside, centre = columns.clip(X), columns.clip(polytopes.mean)
    square = (inside[None] - centre[:, None]) ** 2
    local = (K[..., None] * square).sum(axis=1) / K.sum(axis=1)[:, None]
    local += 1e-4 * columns.spread**2
    common = np.average(local, axis=0, weights=polytopes.size)
    assert_allclose(density.precision, 1 / np.sqrt(local * common), rtol=1e-8)
    assert_array_equal(density.ranges.high, columns.high)
    assert columns.upper[0] < 200


def test_tiny_and_huge_units_leave_widths_finite():
    modes, X, y, weight = make_rows()
    for unit in (1e-250, 1e-150, 1e120):
        scaled = unit * X
        polytopes = Polytopes.from_rows(modes, scaled, y, weight, 3)
        density = GeodesicBandwidth(1e-6).density(
            polytopes,
            build_index(polytopes.modes),
            np.zeros(1, dtype=int),
            Execution(),
            columns=Columns.of(scaled),
        )
        assert np.isfinite(density.precision).all()
        assert (density.precision > 0).all()
