"""The floor, p-values and the level that costs nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_wine, make_classification
from sklearn.frozen import FrozenEstimator

from polycal import PAPER, GeodesicCalibrator, KernelDensityForest
from polycal.gate.floor import (
    LEVELS,
    CalibrationScores,
    affordable_level,
    cautious_floor,
    conformal_floor,
    logistic_scale,
    mixture_losses,
)
from polycal.gate.gate import GeodesicGate
from tests.toys.models import small_forest


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


@pytest.mark.slow
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


@given(
    st.lists(st.integers(-50, 50), min_size=20, max_size=60),
    st.lists(st.integers(-60, 60), min_size=1, max_size=20),
    st.sampled_from([0.05, 0.1, 0.3, 0.5]),
)
@settings(deadline=None)
def test_p_value_and_floor_agree(held, new, level):
    scores = CalibrationScores(np.array(held, dtype=float), np.ones(len(held)))
    new = np.array(new, dtype=float)
    by_definition = [(1 + sum(h <= v for h in held)) / (len(held) + 1) for v in new]
    np.testing.assert_allclose(scores.p_value(new), by_definition)
    if level * (len(held) + 1) >= 1:
        below = new < scores.floor(level)
        np.testing.assert_array_equal(below, scores.p_value(new) <= level * (1 + 1e-12))


def test_p_value_counts_weights():
    scores, weight = np.array([1.0, 2.0, 3.0]), np.array([1.0, 3.0, 2.0])
    np.testing.assert_allclose(
        CalibrationScores(scores, weight).p_value(np.array([0.0, 2.0, 9.0])), [2 / 8, 6 / 8, 1.0]
    )


def test_auto_false_alarm_takes_what_costs_nothing():
    """A posterior that knows nothing affords the highest level; a perfect one the lowest."""
    log_f = np.arange(1000.0) / 100
    scores = CalibrationScores(log_f, np.ones(1000))
    gate = GeodesicGate(1000, 0.0, True, 1.0, 1.0)

    def level(own):
        def losses(floor):
            alpha = replace(gate, log_floor=floor).alpha(log_f)
            return mixture_losses(alpha, own, np.full(1000, 0.5))

        return affordable_level(losses, scores)

    assert level(np.full(1000, 0.5)) == LEVELS[-1]
    assert level(np.full(1000, 0.999)) == LEVELS[0]
    # Right only where it is familiar: up to a level near that share the prior is the better answer.
    assert level(np.where(log_f < 0.5, 0.1, 0.9)) >= 0.05  # the 50 lowest of 1000
    assert np.isfinite(mixture_losses(np.ones(1), np.zeros(1), np.full(1, 0.5)))


def test_caution_is_less_for_the_sake_of_rare_classes():
    """Losses by hand: each row below the floor costs one unit, or saves one."""

    def caution(unit, n=10_000, highest=0.01, rare=True):
        log_f = np.arange(n) / n
        y = ((np.arange(n) % 100 == 1) & rare).astype(int)
        y[: n // 50 : 2] = rare  # most of them where there is little data
        y[-1] = 1
        scores = CalibrationScores(log_f, np.ones(n), y=y if rare else np.arange(n) % 2)
        assert scores.is_rare.any() == rare
        level, floor = cautious_floor(lambda f: np.where(log_f < f, unit, 0.0), scores, highest)
        assert floor == (scores.near_floor if level == highest else scores.floor)(level)
        return level

    assert caution(1.0) == pytest.approx(0.0002)  # a last row is no sure gain
    assert caution(1.0, rare=False) == 0.01  # no class is rare
    assert caution(-1.0) == 0.01
    assert caution(0.0) == 0.01  # of equal ones the highest
    assert caution(1.0, 1999) == pytest.approx(0.001)
    assert caution(1.0, 150) == 0.01
    assert caution(1.0, highest=0.05) == 0.05  # more than the default, by choice


@pytest.mark.parametrize("n_odd", [1, 9])
def test_alphas_floor_is_far_below_the_others_only_for_a_sure_gain(n_odd):
    """One row with a wrong value gains too little; a class of nine scattered rows is worth it."""
    log_f = np.r_[np.full(n_odd, -2000.0) + np.arange(n_odd), np.arange(1000.0 - n_odd) / 100]
    scores = CalibrationScores(log_f, np.ones(1000), y=(np.arange(1000) < 9).astype(int))
    level, floor = cautious_floor(lambda f: np.where(log_f < f, 2.0, 0.0), scores, 0.01)
    assert (floor < -1000) == (n_odd == 9)
    assert level < 0.01


def test_alphas_floor_is_near_the_bulk_of_the_rows():
    """Wrong values in 2 % of the rows must not open the gate for everything."""
    log_f = np.r_[np.full(20, -2000.0), np.arange(980.0) / 100]
    scores = CalibrationScores(log_f, np.ones(1000))
    assert scores.floor(0.01) == -2000  # as the bound of the verdict needs
    assert scores.near_floor(0.01) == scores.floor(0.05) - 12 * np.log(5)
    assert scores.near_floor(0.05) == scores.floor(0.05)
    heavy = CalibrationScores(np.random.default_rng(0).standard_t(3, 1000), np.ones(1000))
    assert heavy.near_floor(0.01) == heavy.floor(0.01)


def test_a_class_whose_own_rows_are_scattered_lowers_the_floor_by_one_unit():
    """Its own floor would be so low that hardly any row were out, of any class."""
    y = np.arange(1200) % 10
    log_f = np.random.default_rng(0).logistic(size=1200)
    log_f[y == 4] -= np.where(np.arange(120) < 3, 60.0, 0.0)  # three of its rows
    scores = CalibrationScores(log_f, np.ones(1200), y=y)
    bounded = scores.bounded_classes(0.01)
    assert 4 not in bounded
    assert scores.verdict_floor(0.01) == scores.floor(0.01) - 1
    assert f"also of {len(bounded)} of the 10 classes" in scores.guarantee(0.01)


def test_classes_that_are_not_rare_have_bounds_of_their_own():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], [1000, 150, 90])  # a fifth of an equal share is 83 rows
    log_f = rng.normal(size=1240) - 1.0 * (y == 1)
    scores = CalibrationScores(log_f, np.ones(1240), y=y)
    assert scores.bounded_classes(0.01).tolist() == [0, 1]  # 90 rows are too few for 1 %
    assert scores.bounded_classes(0.05).tolist() == [0, 1, 2]
    relaxed = 0.01 + (0.01 * 0.99 / 150) ** 0.5  # one standard error
    assert scores.verdict_floor(0.01) == conformal_floor(log_f[y == 1], np.ones(150), relaxed)
    assert scores.verdict_floor(0.01) < scores.floor(0.01)
    assert "also of 2 of the 3 classes" in scores.guarantee(0.01)
    assert "also of each class" in scores.guarantee(0.05)
    one = CalibrationScores(log_f, np.ones(1240))
    assert one.verdict_floor(0.01) == one.floor(0.01)
    rare = CalibrationScores(log_f[:1100], np.ones(1100), y=(np.arange(1100) >= 1000).astype(int))
    assert rare.bounded_classes(0.01).tolist() == [0]  # 100 of 1100 rows: below a tenth
    assert rare.verdict_floor(0.01) == rare.floor(0.01)


def test_classes_lower_the_floor_without_a_jump():
    """As the rows of a class move down, so does the floor, up to one unit and no further."""
    y = np.arange(1000) % 2
    log_f = np.random.default_rng(0).logistic(size=1000)
    own = np.argsort(np.where(y == 1, log_f, np.inf))[:10]  # 2 % of the class
    floors = []
    for down in np.linspace(0, 8, 81):
        moved = log_f.copy()
        moved[own] -= down
        scores = CalibrationScores(moved, np.ones(1000), y=y)
        floors.append(scores.verdict_floor(0.01) - scores.floor(0.01))
    assert np.abs(np.diff(floors)).max() < 0.5
    assert min(floors) >= -1


@pytest.mark.parametrize("n", [60, 120, 1000])
def test_a_wrong_value_does_not_set_the_verdicts_floor(n):
    """One row far below all others is set aside, as it is by alpha's floor."""
    log_f = np.random.default_rng(0).logistic(size=n)
    y = np.arange(n) % 2
    log_f[0] = -1e5
    scores = CalibrationScores(log_f, np.ones(n), y=y)
    assert scores.verdict_floor(0.01) > -50
    if n == 60:
        assert scores.guarantee(0.01).startswith("none")
    elif n == 120:
        level = 0.01 + 1 / (n + 1)
        assert scores.guarantee(0.01).startswith(f"at most {level:.2%} of new in-distribution rows")
        assert "the level of 1.00% and one calibration row" in scores.guarantee(0.01)
        assert scores.is_below(log_f, scores.verdict_floor(0.01)).mean() <= level
        # A promise with a confidence, and the paper's one floor, stay what they are.
        for other in (replace(scores, confidence=0.5), replace(scores, y=None)):
            assert other.verdict_floor(0.01) == -1e5
    else:
        assert scores.guarantee(0.01).startswith("at most 1.00% ")
    many = np.where(np.arange(n) < 0.1 * n, -1e5, log_f)  # too many to be set aside
    if n > 60:
        assert CalibrationScores(many, np.ones(n), y=y).verdict_floor(0.01) < -1e4


def test_auto_false_alarm_in_a_model():
    X, y = load_wine(return_X_y=True)
    model = KernelDensityForest(30, false_alarm="auto", random_state=0).fit(X, y)
    assert model.false_alarm_ in LEVELS
    fixed = KernelDensityForest(30, false_alarm=model.false_alarm_, random_state=0).fit(X, y)
    np.testing.assert_array_equal(fixed.predict_proba(X), model.predict_proba(X))
    assert fixed.false_alarm_ == model.false_alarm_
    assert model.explain(X).levels[0] == model.false_alarm_
