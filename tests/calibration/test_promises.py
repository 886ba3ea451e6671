"""The promise of the floor, by simulation, where it is hardest to keep; copies of rows."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm
from sklearn.ensemble import (
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.metrics import average_precision_score, log_loss
from sklearn.model_selection import StratifiedKFold
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from polycal import GeodesicCalibrator
from polycal.calibration import fit as calibration_fit
from polycal.core.copies import find_copies
from polycal.gate.floor import CalibrationScores, conformal_floor, without_excess

NEW, REPETITIONS = 1000, 6


def draw(kind, n, rng):
    if kind == "binary":
        X = rng.integers(0, 2, (n, 6)).astype(float)
    elif kind == "twice":
        X, y = draw(20, n // 2, rng)
        return np.repeat(X, 2, axis=0), np.repeat(y, 2)
    else:
        X = rng.normal(size=(n, kind))
    return X, (X[:, 0] + X[:, 1] - 2 * X[:, :2].mean() + rng.normal(size=n) > 0.5).astype(int)


def forest(n_trees):
    return lambda seed: RandomForestClassifier(n_trees, random_state=seed)


def extra(seed):
    return ExtraTreesClassifier(50, bootstrap=True, random_state=seed)


def boosting(seed):
    return HistGradientBoostingClassifier(random_state=seed)


HARD = {
    "many features": (forest(50), "oob", 100, 400),
    "more features than rows": (forest(50), "oob", 400, 200),
    "few trees": (forest(20), "oob", 60, 500),
    "extra trees": (extra, "oob", 60, 400),
    "discrete": (forest(50), "oob", "binary", 400),
    "copies": (forest(50), "oob", "twice", 400),
    "copies, by default": (forest(50), "auto", "twice", 400),
    "cross-fitted": (forest(50), "cv", 200, 300),
    "cross-fitted, discrete": (forest(50), "cv", "binary", 400),
    "cross-fitted boosting, discrete": (boosting, "cv", "binary", 300),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", HARD)
def test_false_alarms_of_hard_data_stay_below_their_level(name):
    """Calibration rows and queries are scored by other trees or parents, or have copies."""
    make, plan, kind, n = HARD[name]
    shares = []
    for seed in range(REPETITIONS):
        rng = np.random.default_rng(seed)
        X, y = draw(kind, n, rng)
        new, _ = draw(kind, NEW, rng)
        model = GeodesicCalibrator(make(seed), calibration=plan, false_alarm=0.05, random_state=0)
        shares.append((model.fit(X, y).explain(new).verdict == "out").mean())
    error = np.std(shares, ddof=1) / np.sqrt(REPETITIONS)
    assert np.mean(shares) <= 0.05 + 3 * error, shares


@pytest.mark.slow
@pytest.mark.parametrize("plan", ["oob", "holdout"])
def test_false_alarms_of_a_class_stay_near_their_level(plan):
    """One row in four is of a class that lies at the edge of the other."""
    shares = []
    for seed in range(REPETITIONS):
        rng = np.random.default_rng(seed)
        X, new = rng.normal(size=(2, 1000, 10))
        y, label = (
            (rows[:, 0] + rows[:, 1] + rng.normal(size=1000) > 1.2).astype(int) for rows in (X, new)
        )
        model = GeodesicCalibrator(forest(50)(seed), calibration=plan, false_alarm=0.05)
        out = model.set_params(random_state=0).fit(X, y).explain(new).verdict == "out"
        shares.append([out[label == code].mean() for code in (0, 1)])
    error = np.std(shares, axis=0, ddof=1) / np.sqrt(REPETITIONS)
    assert (np.mean(shares, axis=0) <= 0.05 + 3 * error).all(), shares


@pytest.mark.slow
def test_a_rare_class_keeps_its_ranking():
    """2 % positives at the edge of the others: found as well as by the parent, and not refused."""
    found = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        y, label = (rng.random((2, 4000)) < 0.02).astype(int)
        X, new = rng.normal(size=(2, 4000, 6))
        X[y == 1, :2] += 2.0
        new[label == 1, :2] += 2.0
        parent = forest(50)(seed)
        model = GeodesicCalibrator(parent, random_state=0).fit(X, y)
        theirs = average_precision_score(label, parent.fit(X, y).predict_proba(new)[:, 1])
        ours = average_precision_score(label, model.predict_proba(new)[:, 1])
        out = model.explain(new).verdict == "out"
        found.append([ours - theirs, out[label == 1].mean(), out.mean()])
    found = np.array(found)
    error = found.std(axis=0, ddof=1) / 2
    assert found[:, 0].mean() >= -2 * error[0]
    assert found[:, 1].mean() <= 0.1
    assert found[:, 2].mean() <= 0.01 + 3 * error[2]


@pytest.mark.parametrize("seed", range(6))
def test_rounding_is_no_scale(seed):
    """One binary feature: the scores of a network differ by rounding alone."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 2, (200, 1)).astype(float)
    y = (X[:, 0] + rng.normal(size=200) > 0.5).astype(int)
    net = MLPClassifier((16,), max_iter=50, random_state=seed)
    model = GeodesicCalibrator(make_pipeline(StandardScaler(), net), random_state=0).fit(X, y)
    assert (model.explain(X).verdict == "out").mean() <= 0.05


def test_copies_are_told_from_coincidences():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 3))
    assert find_copies(X) is None
    groups = find_copies(np.r_[X, X[[4, 4, 9]]])
    assert groups[4] == groups[50] == groups[51]
    assert groups[9] == groups[52]
    assert len(np.unique(groups)) == 50
    assert find_copies(rng.integers(0, 2, (400, 6)).astype(float)) is None
    assert find_copies([[1, 2], [1, 2]]) is None  # no table
    words = np.array([["a", f"b{i}", f"c{i}", f"d{i}"] for i in range(60)], dtype=object)
    assert find_copies(words) is None
    copied = find_copies(np.r_[words, words[:2]])
    assert copied[60] == copied[0]
    assert len(np.unique(copied)) == 60


@pytest.mark.parametrize("plan", ["auto", "oob", "cv", "holdout", StratifiedKFold(3)])
def test_a_table_of_two_different_rows(plan):
    """Twenty columns that say the same: equal rows are no copies, and a splitter decides alone."""
    rng = np.random.default_rng(7)
    X = np.repeat(rng.integers(0, 2, 100)[:, None], 20, axis=1).astype(float)
    y = (X[:, 0] + rng.normal(size=100) > 0.5).astype(int)
    model = GeodesicCalibrator(forest(30)(0), calibration=plan, random_state=0).fit(X, y)
    P = model.predict_proba(X)
    assert np.isfinite(P).all()
    assert (model.explain(X).verdict == "out").mean() <= 0.05
    assert (P.argmax(axis=1) == X[:, 0]).mean() > 0.9


@pytest.mark.parametrize("plan", ["oob", "cv", "holdout"])
def test_copies_of_all_rows_change_little(plan):
    """Rows without signal, each five times: copies in the bag would give labels away."""
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(200, 5)), rng.integers(0, 2, 200)
    new, labels = rng.normal(size=(500, 5)), rng.integers(0, 2, 500)
    model = GeodesicCalibrator(forest(60)(0), calibration=plan, random_state=0)
    times = 2 if plan == "oob" else 5
    P = model.fit(np.repeat(X, times, axis=0), np.repeat(y, times)).predict_proba(new)
    assert log_loss(labels, P) < 0.73
    assert model.calibration_ == plan


def test_over_sampling_is_undone_by_the_prior():
    """The recipe: rare rows many times, and the true shares as prior."""
    rng = np.random.default_rng(3)

    def rows(n):
        y = (rng.random(n) < 0.05).astype(int)
        return rng.normal(size=(n, 4)) + 1.2 * y[:, None], y

    (X, y), (new, labels) = rows(1500), rows(4000)
    times = np.where(y == 1, 19, 1)
    model = GeodesicCalibrator(forest(100)(0), prior=[0.95, 0.05], random_state=0)
    model.fit(np.repeat(X, times, axis=0), np.repeat(y, times))
    natural = GeodesicCalibrator(forest(100)(0), random_state=0).fit(X, y)
    P, plain = model.predict_proba(new), natural.predict_proba(new)
    assert P[:, 1].mean() == pytest.approx(0.05, abs=0.02)
    assert log_loss(labels, P) < log_loss(labels, plain) + 0.02


def test_a_query_is_judged_by_as_many_trees_as_a_calibration_row():
    rng = np.random.default_rng(4)
    X, y = draw(5, 200, rng)
    model = GeodesicCalibrator(forest(30)(0), calibration="oob", random_state=0).fit(X, y)
    reference = model.model_.reference
    assert reference.n_views == len(model.answer(X[:5]).neighbours.parts) == 3
    other = GeodesicCalibrator(forest(30)(0), calibration="cv").fit(X, y)
    assert other.model_.reference.n_views == 1
    assert other.answer(X[:5]).neighbours.parts == ()


def test_parents_of_fewer_rows_have_an_excess_of_similarity(monkeypatch):
    found, plain = [], calibration_fit.calibrate
    monkeypatch.setattr(
        calibration_fit, "calibrate", lambda *args: found.append(plain(*args)) or found[-1]
    )
    X, y = draw(100, 300, np.random.default_rng(5))
    GeodesicCalibrator(forest(50)(0), calibration="cv", random_state=0).fit(X, y)
    excess = [fold.log_similarity_excess for fold in found[0].folds]
    assert 0 < np.mean(excess) < 0.3
    own = found[0].own
    assert [fold.log_similarity_excess for fold in own.folds] == excess
    assert sum(len(fold.rows) for fold in own.folds) == 4 * 300
    of_row = own.whole.reference.row_polytope[own.whole.rows.ids]
    assert (own.whole.neighbours.index != of_row[:, None]).all()
    for options in ({"calibration": "holdout"}, {"calibration": "cv", "gate": "gaussian"}):
        GeodesicCalibrator(forest(50)(0), random_state=0, **options).fit(X, y)
        assert {fold.log_similarity_excess for fold in found[-1].folds} == {0.0}
        assert found[-1].own is None


def test_an_excess_is_that_of_the_rank():
    scores = CalibrationScores(np.array([3.0, 1.0, 2.0, 0.0]), np.array([1.0, 1.0, 2.0, 1.0]))
    usual = CalibrationScores(np.arange(5.0) * 10, np.ones(5))
    final = CalibrationScores(np.array([40.0, 31.0, 15.0, 9.0, -np.inf]), np.full(5, 2.0))
    # ranks 1, 0.4, 0.8 and 0.2: 40 - 40, 10 - 9, 30 - 31 and 0 - -inf
    lowered = without_excess(scores, usual, final)
    assert_array_equal(lowered.log_f, [3.0, 0.0, 2.0, -np.inf])
    assert_array_equal(without_excess(scores, final, final).log_f, scores.log_f)


@pytest.mark.parametrize("n", [200, 1000])
def test_confidence_is_that_of_one_model(n):
    """At most 5 % below the floor in at least 90 % of the models, not on average."""
    rng = np.random.default_rng(6)
    kept = {None: 0, 0.9: 0}
    for _ in range(400):
        log_f = rng.normal(size=n)
        for confidence in kept:
            scores = CalibrationScores(log_f, np.ones(n), None, confidence)
            # the share of new rows of a normal distribution below the floor
            kept[confidence] += norm.cdf(scores.floor(0.05)) <= 0.05
    assert kept[0.9] / 400 >= 0.9 - 3 * np.sqrt(0.09 / 400)
    assert kept[None] / 400 < 0.75


def test_the_guarantee_is_said(iris):
    X, y = iris
    model = GeodesicCalibrator(forest(30)(0), random_state=0).fit(X, y)
    promised = model.explain(X[:1]).guarantee
    assert "on average over models; approximately" in promised
    exact = GeodesicCalibrator(forest(30)(0), false_alarm=0.1, calibration="holdout")
    assert exact.fit(X, y).explain(X[:1]).guarantee.endswith("(to a standard error)")
    few = GeodesicCalibrator(forest(30)(0), calibration="holdout", random_state=0).fit(X, y)
    assert few.explain(X[:1]).guarantee.startswith("none: 45 independent calibration rows")
    sure = GeodesicCalibrator(forest(30)(0), confidence=0.95, false_alarm=0.1, random_state=0)
    assert "with 95% confidence" in sure.fit(X, y).explain(X[:1]).guarantee
    strict = GeodesicCalibrator(forest(30)(0), confidence=0.95, random_state=0).fit(X, y)
    assert "needs 299" in strict.explain(X[:1]).guarantee
    assert strict.log_floor_ < model.log_floor_
    with pytest.raises(ValueError, match="confidence must lie strictly between 0 and 1"):
        GeodesicCalibrator(confidence=1.0).fit(X, y)


def test_weights_of_groups_count_as_one_new_row():
    log_f = np.repeat(np.arange(50.0), 2)  # 50 groups of two
    assert conformal_floor(log_f, np.ones(100), 0.01) == 0.0  # as if there were 100 rows
    assert conformal_floor(log_f, np.ones(100), 0.019, new_weight=2.0) < 0.0  # 1 / 51 is more
    assert_allclose(conformal_floor(log_f, np.ones(100), 0.02, new_weight=2.0), 0.0)
