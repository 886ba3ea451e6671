"""The mixture, its far limit, the label, the floor and the pool."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_wine, make_classification
from sklearn.frozen import FrozenEstimator

from polycal import PAPER, GeodesicCalibrator, KernelDensityForest
from polycal.core.density import Density
from polycal.core.neighbours import Neighbours
from polycal.core.reading import ActivationModes
from polycal.gate.gate import (
    LEVELS,
    CalibrationScores,
    GateInput,
    GeodesicGate,
    affordable_level,
    balance,
    conformal_floor,
    logistic_scale,
    neighbourhood,
)
from polycal.kernels import reference
from polycal.posterior.posterior import decide, mixture, shift_prior, views_of
from polycal.posterior.votes import Evidence, choose_gamma, exponents, normalize
from tests.toys.models import small_forest, small_network

SETTINGS = {
    "default": {},
    "paper": PAPER,
    "kernel": {"posterior": "kernel"},
    "parent": {"posterior": "parent"},
    "gaussian gate": {"gate": "gaussian"},
    "polytope bandwidth": {"bandwidth": "polytope"},
    "euclidean": {"distance": "euclidean"},
    "ece": {"scoring": "ece"},
}


# ---------------------------------------------------------------- far limit


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
    gate = GeodesicGate(100, log_floor=-5.0, kappa=2.0, scale=3.0)
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
    gate = GeodesicGate(100, log_floor=0.0, kappa=2.0, scale=4.0, ceiling=8.0)
    place = GateInput(X, near, density, energy)
    assert_allclose(gate.log_f(place), [5.5 / 4, 15.5 / 4, 15.5 / 4])
    without = GeodesicGate(100, log_floor=0.0, kappa=2.0, scale=4.0)
    assert_allclose(without.log_f(place), (-0.5 + 2 * np.log(0.25)) / 4)


def test_gate_learns_its_second_term_from_the_calibration_rows():
    rng = np.random.default_rng(0)
    kernel, similar, energy = -rng.exponential(6.0, 500), -rng.random(500), rng.normal(9, 3, 500)
    given = (100, -1.0, kernel)
    by_energy = GeodesicGate.fit(*given, similar, energy)
    assert by_energy.kappa == balance(kernel, energy)
    assert by_energy.ceiling == energy.max()
    assert by_energy.scale == logistic_scale(kernel + by_energy.kappa * energy)
    by_similarity = GeodesicGate.fit(*given, similar, None)
    assert (by_similarity.kappa, by_similarity.ceiling) == (balance(kernel, similar), None)
    alone = GeodesicGate.fit(*given, None, None)
    assert (alone.kappa, alone.scale) == (0.0, logistic_scale(kernel))


# -------------------------------------------------------------------- label


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


def test_decide_uses_the_posterior_below_rounding():
    log_pi = np.log([[0.2, 0.8], [0.7, 0.3]])
    P = mixture(np.array([1e-300, 0.0]), log_pi, np.array([0.5, 0.5]))
    assert_array_equal(P, [[0.5, 0.5], [0.5, 0.5]])
    assert_array_equal(decide(P, log_pi), [1, 0])


def test_mixture_is_the_prior_where_alpha_is_zero_even_without_a_posterior():
    P = mixture(np.array([0.0]), np.array([[np.nan, np.nan]]), np.array([0.3, 0.7]))
    assert_array_equal(P, [[0.3, 0.7]])


# -------------------------------------------------------------------- floor


def test_floor_is_the_conformal_rank():
    scores = np.arange(1.0, 200.0)  # 199 scores: rank floor(0.05 * 200) = 10
    weight = np.ones(199)
    assert conformal_floor(scores, weight, 0.05) == 10.0
    assert conformal_floor(scores[::-1], weight, 0.05) == 10.0
    assert conformal_floor(np.arange(1.0, 100.0), np.ones(99), 0.01) == 1.0


def test_too_few_rows_put_the_floor_below_all_scores():
    scores = np.arange(10.0)
    floor = conformal_floor(scores, np.ones(10), 0.01)
    expected = -logistic_scale(scores) * np.log(1 / (11 * 0.01))
    assert floor == pytest.approx(expected)
    assert floor < 0


def test_floor_counts_weights_as_rows():
    scores = np.arange(50.0)
    weight = np.random.default_rng(0).integers(1, 5, 50).astype(float)
    by_weight = conformal_floor(scores, weight, 0.2)
    rank = np.cumsum(weight) / (weight.sum() + weight.mean())
    assert by_weight == scores[rank <= 0.2][-1]


def test_floor_is_never_minus_infinity():
    scores = np.r_[np.full(20, -np.inf), np.arange(80.0)]
    assert conformal_floor(scores, np.ones(100), 0.1) == 0.0


@pytest.mark.parametrize("setting", [{}, PAPER], ids=["default", "paper"])
def test_false_alarms_stay_below_their_level(setting):
    """200 random splits of exchangeable rows: mean share of gated new rows <= false_alarm."""
    X, y = make_classification(
        900, n_features=4, n_informative=3, n_redundant=0, class_sep=1.0, random_state=0
    )
    level, n_splits = 0.05, 200
    rng = np.random.default_rng(0)
    forest = FrozenEstimator(small_forest(n_estimators=15).fit(X[:300], y[:300]))
    shares = []
    for _ in range(n_splits):
        order = 300 + rng.permutation(600)
        held, new = order[:150], order[150:]
        model = GeodesicCalibrator(forest, false_alarm=level, gamma=0.3, **setting)
        model.fit(X[:300], y[:300], X_cal=X[held], y_cal=y[held])
        shares.append((model.score_samples(X[new]) < model.log_floor_).mean())
    error = np.std(shares) / np.sqrt(n_splits)
    assert np.mean(shares) <= level + 3 * error
    assert np.mean(shares) > level / 3  # the floor is not simply far below everything


def test_scale_and_balance():
    rng = np.random.default_rng(0)
    scores = rng.logistic(scale=3.0, size=200_000)
    assert logistic_scale(scores) == pytest.approx(3.0, rel=0.02)
    kernel, log_similarity = -rng.exponential(6.0, 5000), -rng.exponential(0.5, 5000)
    assert balance(kernel, log_similarity) == pytest.approx(12.0, rel=0.1)
    assert balance(kernel, np.zeros(5000)) == 1.0


# --------------------------------------------------------------- labels, gamma


@pytest.mark.parametrize("layers", [(16,), (16, 8)], ids=["one", "two"])
def test_labels_of_a_network_leave_out_its_output_layer(layers, blobs):
    """Of the pool's witness; the paper's ratios are by all layers."""
    X, y = blobs
    network = FrozenEstimator(small_network(hidden_layer_sizes=layers).fit(X[:300], y[:300]))
    held = {"X_cal": X[300:450], "y_cal": y[300:450]}
    for posterior, distance in (
        ("pooled", "geodesic"),
        ("pooled", "euclidean"),
        ("kernel", "geodesic"),
    ):
        model = GeodesicCalibrator(network, posterior=posterior, distance=distance)
        model.fit(X[:300], y[:300], **held)
        reading, values = model._query(X[450:])
        place = model._place
        kernel, near = place.kernel, place.nearest(reading.modes, values, gamma=model.gamma_)
        counts = kernel.evidence.counts
        exponent = exponents(model.gamma_, kernel.n_samples)
        stored, asked = kernel.evidence.index.modes, reading.modes
        gamma, execution = np.array([model.gamma_]), place.settings.execution
        found = kernel.proba(asked, near, gamma, execution)[0]
        if (posterior, distance) == ("pooled", "geodesic"):
            hidden = [
                ActivationModes.from_bits(list(modes.groups())[:-1]) for modes in (asked, stored)
            ]
            expected = reference.class_sums(reference.similarity(*hidden), counts, exponent)
        else:
            sums = reference.class_sums(reference.similarity(stored, stored), counts, exponent)
            expected = kernel.prior * (sums / sums.sum(axis=0))[near.index[:, 0]]
        assert_allclose(found, normalize(expected, kernel.prior), rtol=1e-8)


def test_views_add_one_row_of_the_prior():
    log_p, minus_log_rest, p = views_of(np.array([[1.0, 0.0]]), np.array([0.5, 0.5]), 9)
    assert_allclose(p, [[0.95, 0.05]])
    assert_allclose(log_p, np.log(p))
    assert_allclose(minus_log_rest, -np.log(1 - p))


def test_prior_shift_is_bayes_rule():
    moved = shift_prior(np.log([[0.5, 0.5]]), np.array([0.5, 0.5]), np.array([0.9, 0.1]))
    assert_allclose(np.exp(moved), [[0.9, 0.1]])


@pytest.mark.parametrize("target", [1e-3, 0.02, 0.3, 15.0, 900.0])
def test_gamma_grid_widens_to_the_optimum(target):
    asked = []

    def loss(gammas):
        asked.extend(gammas)
        return np.log(gammas / target) ** 2

    gamma = choose_gamma(loss)
    assert abs(np.log2(gamma / target)) <= 0.51  # the nearest point of a grid of factor 2
    assert len(asked) == len(set(asked))


def test_counts_without_all_their_rows_are_exactly_zero():
    """A rest of rounding at K = 1 would outweigh every real neighbour at a large gamma."""
    weight = np.random.default_rng(0).uniform(0.1, 1, 50)
    counts = np.array([[weight.sum(), 1.0]])
    stored, y = np.zeros(51, dtype=int), np.r_[np.zeros(50, dtype=int), 1]
    left = Evidence(None, counts).without(stored, y, np.r_[weight[::-1], 0.25]).counts
    assert_array_equal(left, [[0.0, 0.75]])


def test_normalize_gives_the_prior_where_there_is_no_mass():
    prior = np.array([0.3, 0.7])
    assert_allclose(normalize(np.array([[2.0, 6.0], [0.0, 0.0]]), prior), [[0.25, 0.75], prior])


@pytest.mark.parametrize("depth", [1, None], ids=["stumps", "deep"])
def test_labels_without_signal_give_about_the_prior(depth):
    """No confidence is invented: calibration rows do not see a trace of their own label."""
    losses, confidences = [], []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(1200, 3)), np.arange(1200) % 2
        parent = small_forest(max_depth=depth, random_state=seed)
        model = GeodesicCalibrator(parent, random_state=seed).fit(X[:800], y[:800])
        P = model.predict_proba(X[800:])
        losses.append(-np.log(P[np.arange(400), y[800:]]).mean())
        confidences.append(P.max(axis=1).mean())
    # The pool has 8 free numbers and 240 calibration rows: 8 / (2 * 240) = 0.017 is chance.
    assert np.mean(losses) < np.log(2) + 0.017 + 0.01
    assert np.mean(confidences) < 0.57


def test_constant_features_give_the_prior():
    X, y = np.ones((200, 3)), np.arange(200) % 2
    model = GeodesicCalibrator(small_forest(), random_state=0).fit(X, y)
    assert_allclose(model.predict_proba(X[:1]), [[0.5, 0.5]], atol=0.02)


@pytest.mark.parametrize("posterior", ["pooled", "parent", "kernel"])
def test_class_shares_of_the_calibration_rows_do_not_matter(posterior):
    """X half and half, X_cal 90 / 10: the answer follows ``prior``, whatever X_cal holds."""
    X, y = make_classification(6000, n_features=6, n_informative=4, class_sep=0.7, random_state=1)
    few = np.flatnonzero(y[2000:4000] == 1)[:90] + 2000
    held = np.r_[np.flatnonzero(y[2000:4000] == 0)[:810] + 2000, few]
    new = np.r_[np.flatnonzero(y[4000:] == 0)[:810], np.flatnonzero(y[4000:] == 1)[:90]] + 4000
    model = GeodesicCalibrator(small_forest(n_estimators=50), posterior=posterior, prior=[0.9, 0.1])
    model.fit(X[:2000], y[:2000], X_cal=X[held], y_cal=y[held])
    assert model.predict_proba(X[new])[:, 1].mean() == pytest.approx(0.1, abs=0.03)
    even = GeodesicCalibrator(small_forest(n_estimators=50), posterior=posterior)
    even.fit(X[:2000], y[:2000], X_cal=X[held], y_cal=y[held])
    assert even.priors_[1] == pytest.approx(0.5, abs=0.02)
    assert even.predict_proba(X[4000:])[:, 1].mean() == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize("gate", ["geodesic", "gaussian"])
def test_no_shared_leaf_closes_the_gate(gate, blobs):
    X, y = blobs
    frozen = FrozenEstimator(small_forest(n_estimators=3).fit(X[:300], y[:300]))
    model = GeodesicCalibrator(frozen, gate=gate)
    model.fit(X[300:320], y[300:320], X_cal=X[320:450], y_cal=y[320:450])
    alone = model.nearest(X[450:])[0][:, 0] == 0
    assert alone.any()
    assert (model.in_distribution(X[450:])[alone] == 0).all()


def test_auto_false_alarm_takes_what_costs_nothing():
    """A posterior that knows nothing affords the highest level; a perfect one the lowest."""
    scores = np.arange(1000.0) / 100
    familiar = CalibrationScores(scores, np.ones(1000))
    gate = GeodesicGate(1000, 0.0, 1.0, 1.0)
    y = np.tile([0, 1], 500)
    prior = np.array([0.5, 0.5])
    nothing = np.log(np.full((1000, 2), 0.5))
    assert affordable_level(gate, familiar, nothing, prior, y) == LEVELS[-1]
    perfect = np.log(np.where(np.arange(2) == y[:, None], 0.999, 0.001))
    assert affordable_level(gate, familiar, perfect, prior, y) == LEVELS[0]
    # Right only where it is familiar: up to a level near that share the prior is the better answer.
    wrong = np.where(scores < 0.5, 1 - y, y)  # the 50 lowest of 1000
    half = np.log(np.where(np.arange(2) == wrong[:, None], 0.9, 0.1))
    assert affordable_level(gate, familiar, half, prior, y) >= 0.05


def test_auto_false_alarm_in_a_model():
    X, y = load_wine(return_X_y=True)
    model = KernelDensityForest(30, false_alarm="auto", random_state=0).fit(X, y)
    assert model.false_alarm_ in LEVELS
    fixed = KernelDensityForest(30, false_alarm=model.false_alarm_, random_state=0).fit(X, y)
    np.testing.assert_array_equal(fixed.predict_proba(X), model.predict_proba(X))
    assert fixed.false_alarm_ == model.false_alarm_
    assert model.explain(X).levels[0] == model.false_alarm_
