"""Sets of classes, decisions and expected scores of fitted models."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import binom
from sklearn.datasets import make_classification
from sklearn.frozen import FrozenEstimator

import polycal
from polycal import FewRowsWarning, GeodesicCalibrator, ShiftWarning
from polycal._utils.significance import above_chance
from tests.toys.models import small_forest


def made(n, seed=1):
    return make_classification(
        n, n_features=6, n_informative=4, n_classes=3, flip_y=0.1, random_state=seed
    )


@pytest.fixture(scope="module")
def rows():
    X, y = made(2400)
    return X, np.array(["low", "middle", "high"])[y]


@pytest.fixture(scope="module")
def model(rows):
    X, y = rows
    return GeodesicCalibrator(small_forest(), random_state=0).fit(X[:900], y[:900])


@pytest.fixture(scope="module")
def new(rows):
    X, y = rows
    return X[900:], y[900:]


def columns(model, y):
    return np.searchsorted(model.classes_, y)


# ----------------------------------------------------------------------------- sets


@pytest.mark.parametrize("by_class", [False, True])
def test_sets_hold_the_class(model, new, by_class):
    X, y = new
    sizes = []
    for coverage in (0.7, 0.8, 0.9, 0.95):
        sets = model.predict_set(X, coverage, by_class=by_class)
        assert (sets.shape, sets.dtype) == ((1500, 3), bool)
        hit = sets[np.arange(1500), columns(model, y)]
        # 900 calibration rows and 1500 new ones: two and a half standard errors of both.
        error = 2.5 * np.sqrt(coverage * (1 - coverage) * (1 / 900 + 1 / 1500))
        assert hit.mean() > coverage - error
        for code in range(3) if by_class else ():
            assert hit[columns(model, y) == code].mean() > coverage - 1.8 * error
        sizes.append(sets.sum(axis=1).mean())
    assert sizes == sorted(sizes)
    assert sizes[0] < 1.1


def test_larger_coverages_have_larger_sets(model, new):
    small, large = (model.predict_set(new[0], coverage) for coverage in (0.8, 0.9))
    assert (large | ~small).all()


def test_a_row_that_is_out_has_all_classes(model, new):
    X = np.concatenate([new[0][:40], np.full((2, 6), 1e4)])
    sets, out = model.predict_set(X, return_out=True)
    assert_array_equal(out, model.explain(X).verdict == "out")
    assert out[-2:].all()
    assert sets[out].all()
    scored = model.predict_set(X, 0.6, all_if_out=False)
    assert model.predict_set(X, 0.6)[out].all()
    assert not scored[-2:].any()  # no class is likely there


def test_too_few_rows(rows):
    X, y = rows
    few = np.concatenate([np.flatnonzero(y != "high")[:80], np.flatnonzero(y == "high")[:6]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FewRowsWarning)
        model = GeodesicCalibrator(small_forest(), random_state=0).fit(X[few], y[few])
    message = "rows of class 'high' for a coverage of 0.9 of its own, which needs 9"
    with pytest.warns(FewRowsWarning, match=message):
        sets = model.predict_set(X[1000:], by_class=True)
    assert sets[:, 0].all()  # "high" is the first in order
    assert not sets[:, 1].all()
    with pytest.warns(
        FewRowsWarning, match=r"are too few for a coverage of 0.999, which needs 999"
    ):
        assert model.predict_set(X[1000:], 0.999).all()


@pytest.mark.parametrize("coverage", [0, 1, "much", None])
def test_a_coverage_that_is_no_share(model, new, coverage):
    with pytest.raises(ValueError, match="coverage must lie strictly between 0 and 1"):
        model.predict_set(new[0], coverage)


@pytest.mark.slow
@pytest.mark.parametrize("calibration", ["given", "oob"])
def test_coverage_of_few_calibration_rows(calibration):
    """On average over models of few rows, whose pools would be too sure of their own rows."""
    X, y = made(5000, seed=3)
    rng, shares = np.random.default_rng(0), []
    for seed in range(12):
        some = rng.permutation(len(X))
        fit, held, test = some[:200], some[200:300], some[-500:]
        parent = small_forest(random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if calibration == "given":
                parent = FrozenEstimator(parent.fit(X[fit], y[fit]))
                model = GeodesicCalibrator(parent, random_state=seed)
                model.fit(X[fit], y[fit], X_cal=X[held], y_cal=y[held])
            else:
                model = GeodesicCalibrator(parent, calibration="oob", random_state=seed)
                model.fit(X[held], y[held])
            sets = model.predict_set(X[test], 0.8)
        shares.append(sets[np.arange(500), y[test]].mean())
    error = np.std(shares) / np.sqrt(len(shares))
    assert np.mean(shares) > 0.8 - 2 * error
    assert np.mean(shares) < 0.92


def test_another_prior_has_its_own_coverage(rows):
    """Calibrated at equal shares, used where the first class is frequent."""
    X, y = rows
    prior = {"high": 0.8, "low": 0.1, "middle": 0.1}
    model = GeodesicCalibrator(small_forest(), prior=prior, random_state=0).fit(X[:900], y[:900])
    weight = np.array([prior[label] for label in y[900:]])
    drawn = np.random.default_rng(0).choice(1500, 3000, p=weight / weight.sum())
    sets = model.predict_set(X[900:][drawn], 0.8)
    hit = sets[np.arange(3000), columns(model, y[900:][drawn])]
    assert 0.76 < hit.mean() < 0.88


# ------------------------------------------------------------------------- decisions


def test_costs_decide(model, new):
    X, _ = new
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(6)], index=np.arange(1500) + 7)
    found = model.decide(X, review=0.2)
    P = model.predict_proba(X)
    assert_array_equal(found.label, model.predict(X))
    assert_allclose(found.error, 1 - P.max(axis=1))
    assert_allclose(found.cost, found.error)
    out = model.explain(X).verdict == "out"
    assert_array_equal(found.action == "refuse", out)
    assert_array_equal(found.action == "accept", ~out & (found.error <= 0.2))
    assert found.guarantee.startswith("none")
    assert found.threshold is None
    # A "low" that is called "high" costs much: fewer are called so.
    dear = model.decide(X, {("low", "high"): 20.0}, review=0.2)
    assert (dear.label == "high").sum() < (found.label == "high").sum()
    matrix = 1.0 - np.eye(3)
    matrix[1, 0] = 20.0  # classes_ are "high", "low", "middle"
    same = model.decide(X, matrix, review=0.2)
    assert_array_equal(same.action, dear.action)
    assert_array_equal(same.label, dear.label)
    assert_allclose(same.cost, (P @ matrix).min(axis=1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # fitted without names
        assert model.decide(frame, review=0.2).index.tolist() == frame.index.tolist()


def test_expected_costs_are_those_that_come(model, new):
    X, y = new
    found = model.decide(X, review=0.2)
    accepted = found.action == "accept"
    wrong = (found.label != y)[accepted]
    assert abs(wrong.sum() - found.expected_errors) < 3 * np.sqrt(found.expected_errors) + 5
    assert found.expected_cost == pytest.approx(found.expected_errors + 0.2 * (~accepted).sum())


def test_the_error_rate_is_kept(model, new):
    X, y = new
    shares = []
    for rate in (0.1, 0.15, 0.5):
        found = model.decide(X, error_rate=rate)
        accepted = found.action == "accept"
        shares.append(accepted.mean())
        wrong = int((found.label != y)[accepted].sum())
        assert binom.sf(wrong - 1, int(accepted.sum()), rate) > 0.01
        assert "approximately, since stand-ins" in found.guarantee  # out of bag
        assert_array_equal(accepted, (found.error < found.threshold) & (found.action != "refuse"))
    assert shares == sorted(shares)
    assert shares[0] > 0.1
    both = model.decide(X, error_rate=0.15, review=0.05)
    assert 0 < (both.action == "accept").mean() <= shares[1]
    assert (both.cost[both.action == "accept"] <= 0.05).all()


def test_no_answer_is_sure_enough(model, new):
    found = model.decide(new[0], error_rate=1e-4)
    assert not (found.action == "accept").any()
    assert found.threshold == 0.0
    assert found.guarantee.startswith("none: no answers can be accepted")


def test_a_decision_needs_a_cost_or_a_rate(model, new):
    with pytest.raises(ValueError, match="give review, the cost of looking at a row"):
        model.decide(new[0])
    with pytest.raises(ValueError, match="review must be a finite number"):
        model.decide(new[0], review=-1)
    with pytest.raises(ValueError, match="error_rate must lie strictly"):
        model.decide(new[0], error_rate=2)
    with pytest.raises(ValueError, match="confidence must lie strictly"):
        model.decide(new[0], error_rate=0.1, confidence=95)


# -------------------------------------------------------------------- expected scores


@pytest.mark.parametrize("label", [None, "never seen"])
def test_labels_of_no_class_are_named(model, new, label):
    X, y = new
    labels = np.array(y[:20], dtype=object)
    labels[3] = label
    with pytest.raises(ValueError, match=f"y must hold classes of the model.*{label}.*Leave out"):
        model.expected_scores(X[:20], labels)


def test_expected_scores_are_near_the_realised_ones(model, new):
    X, y = new
    alone, known = model.expected_scores(X), model.expected_scores(X, y)
    assert alone.realised is None
    assert alone.accuracy == known.accuracy
    inside = model.explain(X).verdict != "out"
    assert known.n_out == (~inside).sum()
    right = (model.predict(X) == y)[inside]
    assert known.realised["accuracy"] == pytest.approx(right.mean())
    P, codes = model.predict_proba(X)[inside], columns(model, y)[inside]
    assert known.realised["log_loss"] == pytest.approx(-np.log(P[np.arange(len(P)), codes]).mean())
    for name in ("accuracy", "log_loss", "brier"):
        figure = getattr(known, name)
        assert abs(figure.value - known.realised[name]) < 3 * figure.deviation
        assert figure.low < figure.value < figure.high
    assert known.confusion.sum() == pytest.approx(inside.sum())
    assert known.realised_confusion.sum() == inside.sum()
    within = known.confusion_low <= known.realised_confusion
    within &= known.realised_confusion <= known.confusion_high
    assert within.mean() > 0.7
    assert known.p_value > 0.01
    assert "stand-ins" in known.note


def test_harder_rows_are_expected_to_be_worse(model, new):
    """Covariate shift: rows that are near a border."""
    X, y = new
    hard = np.argsort(model.predict_proba(X).max(axis=1))[:500]
    found = model.expected_scores(X[hard], y[hard])
    assert found.accuracy.value < model.expected_scores(X).accuracy.value - 0.15
    assert abs(found.accuracy.value - found.realised["accuracy"]) < 3 * found.accuracy.deviation


def test_labels_that_have_changed_give_a_warning(model, new):
    X, y = new
    other = np.where(np.arange(1500) % 5 == 0, np.roll(y, 1), y)
    with pytest.warns(ShiftWarning, match=r"by these labels is .*, and .* was expected"):
        found = model.expected_scores(X, other)
    assert found.p_value < 0.01
    assert found.realised["accuracy"] < found.accuracy.low


def test_rows_that_are_all_out(model):
    with pytest.raises(ValueError, match="all 3 rows are out of distribution"):
        model.expected_scores(np.full((3, 6), 1e5))


def test_labels_that_do_not_fit(model, new):
    X, y = new
    with pytest.raises(ValueError, match="one label for each row of X; got 3 for 1500"):
        model.expected_scores(X, y[:3])
    with pytest.raises(ValueError, match="classes of the model"):
        model.expected_scores(X[:2], ["low", "none"])


# ---------------------------------------------------------------------------- both


def test_they_come_back_from_a_file(model, new, tmp_path):
    model.save(tmp_path / "m.polycal")
    loaded = polycal.load(tmp_path / "m.polycal")
    X = new[0][:50]
    assert_array_equal(loaded.predict_set(X), model.predict_set(X))
    ours, theirs = (m.decide(X, error_rate=0.1) for m in (loaded, model))
    assert_array_equal(ours.action, theirs.action)
    assert loaded.expected_scores(X).accuracy == model.expected_scores(X).accuracy


def test_a_model_from_an_older_file(model, new):
    old = GeodesicCalibrator(small_forest())
    vars(old).update(vars(model))
    old.model_ = replace(model.model_, kept=None)
    for ask in (
        old.predict_set,
        lambda X: old.decide(X, error_rate=0.1),
        old.expected_scores,
    ):
        with pytest.raises(ValueError, match="Fit it again"):
            ask(new[0])
    assert len(old.decide(new[0], review=0.1)) == 1500  # needs no kept rows


def test_weights_of_the_rows(rows, new):
    """A class of weight 0.1 is nearly left out of the promise of all."""
    X, y = rows
    weight = np.where(y[:900] == "low", 0.02, 1.0)
    model = GeodesicCalibrator(small_forest(), random_state=0).fit(X[:900], y[:900], weight)
    sets = model.predict_set(new[0], 0.9)
    hit = sets[np.arange(1500), columns(model, new[1])]
    low = new[1] == "low"
    assert hit[~low].mean() > 0.87
    missed = ~hit[low]
    assert above_chance(missed - 0.1, np.ones(low.sum()), 3.0)
