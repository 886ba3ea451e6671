"""Polytopes as a monoid, the bandwidths, and invariances of the fitted model."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.frozen import FrozenEstimator

from polycal import PAPER, GeodesicCalibrator
from polycal.core.density import Density
from polycal.core.neighbours import Neighbours
from polycal.core.polytopes import Polytopes
from polycal.core.reading import ActivationModes
from polycal.gate.bandwidth import class_density, geodesic_density, polytope_density
from polycal.kernels import Execution, build_index, reference
from polycal.posterior.votes import Evidence, PolytopeVotes
from tests.toys.models import random_modes, small_forest, small_network


def make_rows(n=60, seed=0):
    rng = np.random.default_rng(seed)
    modes = ActivationModes.from_leaves(rng.integers(0, 3, (n, 3)))
    return modes, rng.normal(size=(n, 4)) + 100, rng.integers(0, 3, n), rng.uniform(0.2, 3, n)


def polytopes_of(rows, index=slice(None)):
    modes, X, y, weight = rows
    return Polytopes.from_rows(modes[index], X[index], y[index], weight[index], 3)


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


def test_gamma_to_infinity_gives_raw_counts():
    rows = make_rows()
    polytopes = polytopes_of(rows)
    index = build_index(polytopes.modes)
    prior = polytopes.counts.sum(axis=0) / polytopes.counts.sum()
    ratios = PolytopeVotes(Evidence(index, polytopes.counts), prior, 60)
    every = Neighbours(np.ones((len(polytopes), 1)), np.arange(len(polytopes))[:, None])
    proba = ratios.proba(polytopes.modes, every, np.array([1e4]), Execution())[0]
    expected = polytopes.counts / polytopes.size[:, None]
    assert_allclose(proba, expected, atol=1e-12)
    kept = ratios.at(1e4, Execution())
    assert_allclose(kept.ratios, polytopes.counts / polytopes.counts.sum(axis=0), atol=1e-12)


def test_smoothed_ratios_equal_their_definition():
    rows = make_rows()
    polytopes = polytopes_of(rows)
    index = build_index(polytopes.modes)
    gamma, n = 0.7, 60
    w = reference.similarity(polytopes.modes, polytopes.modes) ** (gamma * np.log(n))
    top = w @ polytopes.counts
    kept = PolytopeVotes(Evidence(index, polytopes.counts), np.ones(3) / 3, n).at(
        gamma, Execution()
    )
    assert_allclose(kept.ratios, top / top.sum(axis=0), rtol=1e-9)


def test_distinct_compares_integers():
    """Two modes that differ in one of 20,000 bits are two polytopes (K > 0.9999)."""
    bits = np.zeros((2, 20000), dtype=bool)
    bits[1, 7] = True
    assert len(ActivationModes.from_bits([bits]).distinct()[0]) == 2


@pytest.mark.parametrize("setting", [{}, PAPER], ids=["default", "paper"])
@pytest.mark.parametrize("parent", [small_forest, small_network], ids=["forest", "network"])
class TestInvariance:
    """Permuting rows, trees or neurons changes nothing; relabelling permutes columns."""

    def fit(self, parent, setting, data, order=None, labels=None):
        X, y = data
        fitted = parent().fit(X[:300], y[:300] if labels is None else labels[:300])
        y = y if labels is None else labels
        order = np.arange(300) if order is None else order
        model = GeodesicCalibrator(FrozenEstimator(fitted), **setting)
        return model.fit(X[:300][order], y[:300][order], X_cal=X[300:500], y_cal=y[300:500])

    def test_rows(self, parent, setting, blobs):
        order = np.random.default_rng(0).permutation(300)
        a = self.fit(parent, setting, blobs)
        b = self.fit(parent, setting, blobs, order)
        X = blobs[0][500:]
        assert_allclose(b.predict_proba(X), a.predict_proba(X), atol=1e-7)

    def test_parts_of_the_parent(self, parent, setting, blobs):
        a = self.fit(parent, setting, blobs)
        X, y = blobs
        expected = a.predict_proba(X[500:])
        other = a.estimator_
        rng = np.random.default_rng(0)
        if parent is small_forest:
            other.estimators_ = [other.estimators_[t] for t in rng.permutation(20)]
        else:
            p = rng.permutation(16)
            other.coefs_[0], other.intercepts_[0] = other.coefs_[0][:, p], other.intercepts_[0][p]
            other.coefs_[1] = other.coefs_[1][p]
        model = GeodesicCalibrator(FrozenEstimator(other), **setting)
        model.fit(X[:300], y[:300], X_cal=X[300:500], y_cal=y[300:500])
        assert_allclose(model.predict_proba(X[500:]), expected, atol=1e-7)

    def test_relabelling_permutes_columns(self, parent, setting, iris):
        X, y = iris
        order = np.random.default_rng(0).permutation(150)
        X, y = X[order], y[order]
        names, columns = np.array(["b", "c", "a"]), [2, 0, 1]  # names[columns] is sorted
        fitted = parent().fit(X[:80], y[:80])
        renamed = parent().fit(X[:80], names[y[:80]])
        if parent is small_network:
            # The same network with its outputs in the new order, not a second training run.
            renamed.coefs_ = [*fitted.coefs_[:-1], fitted.coefs_[-1][:, columns]]
            renamed.intercepts_ = [*fitted.intercepts_[:-1], fitted.intercepts_[-1][columns]]
        models = []
        for estimator, labels in ((fitted, y), (renamed, names[y])):
            model = GeodesicCalibrator(FrozenEstimator(estimator), **setting)
            model.fit(X[:80], labels[:80], X_cal=X[80:120], y_cal=labels[80:120])
            models.append(model.predict_proba(X[120:]))
        assert_allclose(models[1], models[0][:, columns], atol=1e-6)


def test_modes_are_packed_and_unpacked_without_loss():
    rng = np.random.default_rng(0)
    bits = [rng.random((5, n)) < 0.5 for n in (1, 64, 257)]
    modes = ActivationModes.from_bits(bits)
    for group, expected in zip(modes.groups(), bits, strict=True):
        assert_array_equal(group, expected)
    assert random_modes(rng, 3, (5,)).n_paths == 5
