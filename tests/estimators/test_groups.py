"""Folds as scikit-learn has them: splitters, numbers of folds, groups, metadata routing."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn import config_context
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    LeaveOneGroupOut,
    ShuffleSplit,
    StratifiedKFold,
    cross_validate,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from polycal import GeodesicCalibrator
from polycal.calibration import fit as calibration_fit
from tests.toys.models import small_forest


class Watched(RandomForestClassifier):
    """A forest that keeps the rows of each of its fits."""

    seen: list = []  # noqa: RUF012 - shared by all copies on purpose

    def fit(self, X, y, sample_weight=None):
        self.seen.append(np.asarray(X)[:, 0].copy())
        return super().fit(X, y, sample_weight)


@pytest.fixture
def watched():
    Watched.seen.clear()
    return Watched(10, random_state=0)


@pytest.fixture
def grouped():
    """300 rows in 60 groups of five; the first column is the number of the row."""
    rng = np.random.default_rng(0)
    X = np.c_[np.arange(300.0), rng.normal(size=(300, 4))]
    y = (X[:, 1] + 0.5 * rng.normal(size=300) > 0).astype(int)
    return X, y, rng.permutation(np.repeat(np.arange(60), 5))


@pytest.fixture
def folds(monkeypatch):
    """The calibration folds of the fits that follow."""
    found, plain = [], calibration_fit.calibrate

    def spy(*args):
        result = plain(*args)
        found.append(result.folds)
        return result

    monkeypatch.setattr(calibration_fit, "calibrate", spy)
    return found


@pytest.mark.parametrize("plan", ["cv", 3, "holdout", GroupKFold(4)])
def test_groups_are_never_on_both_sides(plan, grouped, watched, folds):
    X, y, groups = grouped
    GeodesicCalibrator(watched, calibration=plan, random_state=0).fit(X, y, groups=groups)
    if plan == "holdout":
        fits = [Watched.seen[0]]
        scored = [np.concatenate([fold.rows.ids for fold in folds[0]])]
    else:
        fits, scored = Watched.seen[1:], [fold.rows.ids for fold in folds[0]]
        assert_array_equal(np.sort(np.concatenate(scored)), np.arange(300))
    for known, new in zip(fits, scored, strict=True):
        assert not set(groups[known.astype(int)]) & set(groups[new])
    for fold in folds[0]:  # nor may a row be scored with the label of its group
        labelled = fold.reference.votes.evidence.counts.sum()
        assert labelled <= 300 - len(fold.rows)


def test_groups_of_held_out_rows_vote_together(grouped, folds):
    X, y, groups = grouped
    model = GeodesicCalibrator(small_forest(), calibration="holdout", random_state=0)
    model.fit(X, y, groups=groups)
    parts = [set(groups[fold.rows.ids]) for fold in folds[0]]
    assert len(parts) == 5
    assert sum(map(len, parts)) == len(set.union(*parts))


def test_groups_and_labels_without_signal_stay_at_the_prior():
    """Five copies of each row, labels of the rows at random: copies would give them away."""
    rng = np.random.default_rng(1)
    X, y = np.repeat(rng.normal(size=(120, 3)), 5, axis=0), np.repeat(rng.integers(0, 2, 120), 5)
    new = rng.normal(size=(400, 3))
    model = GeodesicCalibrator(small_forest(n_estimators=50), calibration="cv", random_state=0)
    torn = clone(model).fit(X, y).predict_proba(new).max(axis=1).mean()
    kept = model.fit(X, y, groups=np.repeat(np.arange(120), 5)).predict_proba(new)
    assert kept.max(axis=1).mean() < 0.6 < torn


def test_a_number_of_folds(grouped, watched):
    X, y, _ = grouped
    model = GeodesicCalibrator(watched, calibration=3, random_state=0).fit(X, y)
    assert len(Watched.seen) == 4
    assert model.calibration_ == "cv"
    five = GeodesicCalibrator(small_forest(), calibration=5, random_state=0).fit(X, y)
    named = GeodesicCalibrator(small_forest(), calibration="cv", random_state=0).fit(X, y)
    assert_array_equal(five.predict_proba(X), named.predict_proba(X))


@pytest.mark.parametrize(
    ("splitter", "n_scored"),
    [(StratifiedKFold(4), 300), (ShuffleSplit(3, test_size=60, random_state=0), 180)],
)
def test_a_splitter_of_scikit_learn(splitter, n_scored, grouped, folds):
    X, y, _ = grouped
    model = GeodesicCalibrator(small_forest(), calibration=splitter).fit(X, y)
    assert model.calibration_ == "cv"
    assert sum(len(fold.rows) for fold in folds[0]) == n_scored
    assert model.score(X, y) > 0.8


def test_labels_reach_the_splitter_as_they_are(grouped):
    X, y, groups = grouped
    words = np.array(["no", "yes"])[y]

    class Splitter:
        def split(self, X, y, groups):
            assert set(y) == {"no", "yes"}
            assert len(X) == len(groups) == 300
            yield np.arange(150), np.arange(150, 300)
            yield np.arange(150, 300), np.arange(150)

    GeodesicCalibrator(small_forest(), calibration=Splitter()).fit(X, words, groups=groups)


def test_what_cannot_be_split_is_said(grouped):
    X, y, groups = grouped
    model = GeodesicCalibrator(small_forest(), random_state=0)
    with pytest.raises(ValueError, match="one group for each of the 300 rows; got shape"):
        model.fit(X, y, groups=groups[:10])
    with pytest.raises(ValueError, match="at least 2 groups"):
        model.fit(X, y, groups=np.zeros(300))
    with pytest.raises(ValueError, match='"oob" draws rows one by one'):
        clone(model).set_params(calibration="oob").fit(X, y, groups=groups)
    with pytest.raises(ValueError, match="no row of class 0.*stratifies"):
        clone(model).set_params(calibration=LeaveOneGroupOut()).fit(X, y, groups=y)
    with pytest.raises(ValueError, match="held out lack a class"):
        clone(model).set_params(calibration="holdout").fit(X, y, groups=y)
    for wrong in (1, True, 2.5, "loo", None):
        with pytest.raises(ValueError, match="calibration must be"):
            clone(model).set_params(calibration=wrong).fit(X, y)
    frozen = FrozenEstimator(small_forest().fit(X, y))
    with pytest.raises(ValueError, match="calibration=3 needs a parent that polycal fits itself"):
        GeodesicCalibrator(frozen, calibration=3).fit(X, y)


def test_auto_keeps_groups_together(grouped):
    X, y, groups = grouped
    model = GeodesicCalibrator(small_forest(), random_state=0)
    assert model.fit(X, y).calibration_ == "oob"
    assert model.fit(X, y, groups=groups).calibration_ == "cv"


def test_rows_of_weight_zero_leave_with_their_groups(grouped):
    X, y, groups = grouped
    weight = np.where(groups < 10, 0.0, 1.0)
    model = GeodesicCalibrator(small_forest(), calibration="cv", random_state=0)
    kept = weight > 0
    some = clone(model).fit(X[kept], y[kept], np.ones(kept.sum()), groups=groups[kept])
    model.fit(X, y, weight, groups=groups)
    assert_array_equal(model.predict_proba(X), some.predict_proba(X))


def test_metadata_reaches_fit_through_cross_validation_search_and_pipeline(grouped):
    X, y, groups = grouped
    weight = 1.0 + groups % 3
    seen = []

    class Spy(GeodesicCalibrator):
        def fit(self, X, y, sample_weight=None, *, groups=None, X_cal=None, y_cal=None):
            seen.append((len(X), sample_weight, groups, X_cal, y_cal))
            return super().fit(X, y, sample_weight, groups=groups, X_cal=X_cal, y_cal=y_cal)

    def check(n_calls):
        assert len(seen) == n_calls
        for n, weights, some, _, _ in seen:
            assert len(weights) == len(some) == n
            assert_array_equal(weights, 1.0 + some % 3)
        seen.clear()

    with config_context(enable_metadata_routing=True):
        model = Spy(small_forest(), calibration="holdout", random_state=0)
        model.set_fit_request(sample_weight=True, groups=True)
        model.set_score_request(sample_weight=False)
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        data = {"sample_weight": weight, "groups": groups}
        cross_validate(model, X, y, cv=3, params=data, error_score="raise")
        check(3)
        search = GridSearchCV(model, {"false_alarm": [0.01, 0.05]}, cv=2, error_score="raise")
        search.fit(X, y, **data)
        check(5)
        make_pipeline(scaler, model).fit(X, y, **data)
        check(1)
        given = Spy(small_forest(), random_state=0).set_fit_request(X_cal=True, y_cal=True)
        make_pipeline("passthrough", given).fit(X[:200], y[:200], X_cal=X[200:], y_cal=y[200:])
        assert_array_equal(seen[0][3], X[200:])
        unasked = make_pipeline(scaler, Spy(small_forest()).set_fit_request(groups=False))
        with pytest.raises(TypeError, match="groups"):
            unasked.fit(X, y, groups=groups)
