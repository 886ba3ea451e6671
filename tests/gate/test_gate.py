"""The score of a row, its weight, and their limit far away."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.frozen import FrozenEstimator

from polycal import PAPER, GeodesicCalibrator
from polycal.core.density import Density
from polycal.core.neighbours import Neighbours
from polycal.gate.floor import logistic_scale
from polycal.gate.gate import GateInput, GeodesicGate, balance, neighbourhood
from tests.toys.models import small_forest, small_network
from tests.toys.settings import SETTINGS


@pytest.mark.slow
@pytest.mark.parametrize("setting", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize(
    ("parent", "distances"),
    [(small_forest, (1e3, 1e30)), (small_network, (1e3, 1e30, 1e150))],
    ids=["forest", "network"],
)
def test_far_away_is_the_prior(parent, distances, setting, blobs):
    """Proposition 2, to 1e-12, without a warning (warnings are errors here).

    The paper's bandwidth has variances from lambda to those of the widest polytope; its far
    limit begins where the widest kernel falls below the floor that the narrowest ones set,
    about sqrt(1 / lambda) = 1000 times further out.
    """
    X, y = blobs
    if setting.get("bandwidth") == "polytope":
        distances = (1e5, *distances[1:])
    X, y = X[:400], y[:400]
    model = GeodesicCalibrator(parent(), random_state=0, **setting).fit(X[:-60], y[:-60])
    rng = np.random.default_rng(0)
    direction = rng.normal(size=(50, 5))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    for distance in distances:
        P = model.predict_proba(distance * direction)
        assert_allclose(P, np.tile(model.priors_, (50, 1)), atol=1e-12)
        assert_allclose(model.in_distribution(distance * direction), 0, atol=1e-12)


@pytest.mark.parametrize("setting", [{}, PAPER], ids=["default", "paper"])
def test_784_features_and_single_rows_do_not_overflow(setting):
    rng = np.random.default_rng(0)
    X = rng.random((200, 784)) * (rng.random((200, 784)) < 0.2)
    y = (X[:, :50].sum(axis=1) > X[:, 50:100].sum(axis=1)).astype(int)
    model = GeodesicCalibrator(small_forest(), random_state=0, **setting).fit(X, y)
    assert len(model.polytopes_) == model.polytopes_.counts.sum()  # one row in each
    P = model.predict_proba(X)
    assert np.isfinite(P).all()
    assert_allclose(P.sum(axis=1), 1, atol=1e-12)
    assert np.isfinite(model.score_samples(X)).all()


def test_neighbourhood_counts_only_polytopes_that_share_a_symbol():
    """Hand-computed; K = 0 with every polytope closes the gate, whatever the density."""
    mean, variance = np.array([[0.0], [2.0], [0.0]]), np.array([[1.0], [4.0], [1.0]])
    density = Density.from_parts(mean, variance, np.ones(3) / 3)
    near = Neighbours(
        np.array([[0.5, 0.25, 0.0], [0.0, 0.0, 0.0]]), np.array([[0, 1, 2], [0, 1, -1]])
    )
    place = GateInput(np.array([[1.0], [0.0]]), near, density)
    kernel, log_similarity = neighbourhood(place)
    expected = np.log(np.exp(-0.5) + np.exp(-0.5 * (1 / 4)))
    assert_allclose(kernel, [expected, -np.inf])
    assert_allclose(log_similarity, [np.log([0.5, 0.25]).mean(), 0.0])
    gate = GeodesicGate(100, log_floor=-5.0, by_similarity=True, kappa=2.0, scale=3.0)
    log_f = gate.log_f(place)
    assert_allclose(log_f, [(expected + 2 * log_similarity[0]) / 3, -np.inf])
    assert gate.alpha(log_f)[1] == 0.0
    f, floor = np.exp(log_f[0]), np.exp(-5.0) / np.log(100)
    assert gate.alpha(log_f)[0] == pytest.approx(f / (f + floor))


def test_energy_takes_the_place_of_the_similarity_up_to_its_ceiling():
    """Hand-computed: the second term is kappa times the energy, and none is above the ceiling."""
    density = Density.from_parts(np.zeros((1, 1)), np.ones((1, 1)), np.ones(1))
    near = Neighbours(np.full((3, 1), 0.25), np.zeros((3, 1), dtype=int))
    X, energy = np.array([[1.0], [1.0], [1.0]]), np.array([3.0, 8.0, 1e9])
    gate = GeodesicGate(100, log_floor=0.0, by_similarity=True, kappa=2.0, scale=4.0, ceiling=8.0)
    place = GateInput(X, near, density, energy)
    assert_allclose(gate.log_f(place), [5.5 / 4, 15.5 / 4, 15.5 / 4])
    without = GeodesicGate(100, log_floor=0.0, by_similarity=True, kappa=2.0, scale=4.0)
    assert_allclose(without.log_f(place), (-0.5 + 2 * np.log(0.25)) / 4)


def test_gate_learns_its_second_term_from_the_calibration_rows():
    rng = np.random.default_rng(0)
    kernel, similar, energy = -rng.exponential(6.0, 500), -rng.random(500), rng.normal(9, 3, 500)
    by_energy = GeodesicGate.from_terms(100, True, kernel, similar, energy)
    assert by_energy.kappa == balance(kernel, energy)
    assert by_energy.ceiling == energy.max()
    assert by_energy.scale == logistic_scale(kernel + by_energy.kappa * energy)
    by_similarity = GeodesicGate.from_terms(100, True, kernel, similar, None)
    assert (by_similarity.kappa, by_similarity.ceiling) == (balance(kernel, similar), None)
    alone = GeodesicGate.from_terms(100, False, kernel, np.zeros(500), None)
    assert (alone.kappa, alone.scale) == (0.0, logistic_scale(kernel))


@pytest.mark.parametrize("setting", SETTINGS.values(), ids=SETTINGS)
def test_with_equal_priors_the_gate_never_changes_predict(setting, blobs):
    X, y = blobs
    rng = np.random.default_rng(1)
    far = X * 10.0 ** rng.uniform(0, 6, (len(X), 1))
    options = {"random_state": 0, "prior": [0.5, 0.5], **setting}
    gated = GeodesicCalibrator(small_forest(), **options).fit(X, y)
    open_ = GeodesicCalibrator(small_forest(), **options, floor=-1e300).fit(X, y)
    assert gated.in_distribution(far).min() == 0
    assert_array_equal(gated.predict(far), open_.predict(far))


def test_scale_and_balance():
    rng = np.random.default_rng(0)
    scores = rng.logistic(scale=3.0, size=200_000)
    assert logistic_scale(scores) == pytest.approx(3.0, rel=0.02)
    kernel, log_similarity = -rng.exponential(6.0, 5000), -rng.exponential(0.5, 5000)
    assert balance(kernel, log_similarity) == pytest.approx(12.0, rel=0.1)
    assert balance(kernel, np.zeros(5000)) == 1.0


@pytest.mark.parametrize("gate", ["geodesic", "gaussian"])
def test_no_shared_leaf_closes_the_gate(gate, blobs):
    X, y = blobs
    frozen = FrozenEstimator(small_forest(n_estimators=3).fit(X[:300], y[:300]))
    model = GeodesicCalibrator(frozen, gate=gate)
    model.fit(X[300:320], y[300:320], X_cal=X[320:450], y_cal=y[320:450])
    alone = model.nearest(X[450:])[0][:, 0] == 0
    assert alone.any()
    assert (model.in_distribution(X[450:])[alone] == 0).all()
