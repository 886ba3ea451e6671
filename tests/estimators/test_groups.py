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
    """Five near copies of each row, random labels: the copies would give them away."""
    rng = np.random.default_rng(1)
    X, y = np.repeat(rng.normal(size=(120, 3)), 5, axis=0), np.repeat(rng.integers(0, 2, 120), 5)
    X += 1e-6 * rng.normal(size=X.shape)
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
    X, y, _ = grouped
    words = np.array(["no", "yes"])[y]

    class Splitter:
        def split(self, X, y, groups):
            assert set(y) == {"no", "yes"}
            assert len(X) == len(groups) == 300
            yield np.arange(150), np.arange(150, 300)
            yield np.arange(150, 300), np.arange(150)

    own = np.arange(300)
    GeodesicCalibrator(small_forest(), calibration=Splitter()).fit(X, words, groups=own)


def test_what_cannot_be_split_is_said(grouped):
    X, y, groups = grouped
    model = GeodesicCalibrator(small_forest(), random_state=0)
    with pytest.raises(ValueError, match="one group for each of the 300 rows; got shape"):
        model.fit(X, y, groups=groups[:10])
    with pytest.raises(ValueError, match="at least 2 groups"):
        model.fit(X, y, groups=np.zeros(300))
    with pytest.raises(ValueError, match="no row of class 0.*stratifies"):
        clone(model).set_params(calibration=LeaveOneGroupOut()).fit(X, y, groups=y)
    with pytest.raises(ValueError, match="every class on both sides"):
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


BAD_SPLITS = {
    "no splits": ([], "gives no split"),
    "an empty part": ([(np.arange(250), np.arange(0))], "no empty part"),
    "beyond the rows": ([(np.arange(250), np.array([299, 300]))], "row numbers from 0 to 299"),
    "floats": ([(np.arange(250), np.array([260.0]))], "row numbers from 0 to 299"),
    "a short mask": ([(np.arange(250), np.ones(10, bool))], "masks of length 300"),
    "rows on both sides": ([(np.arange(250), np.arange(240, 300))], "puts a row into both"),
}


@pytest.mark.parametrize("name", BAD_SPLITS)
def test_a_splitter_that_cannot_be_used_is_said(name, grouped):
    X, y, _ = grouped
    splits, message = BAD_SPLITS[name]

    class Splitter:
        def split(self, X, y):
            return iter(splits)

    with pytest.raises(ValueError, match=message):
        GeodesicCalibrator(small_forest(), calibration=Splitter()).fit(X, y)


def test_masks_are_row_numbers(grouped):
    X, y, _ = grouped
    first = np.arange(300) < 150

    class Masks:
        def split(self, X, y):
            return [(first, ~first), (~first, first)]

    class Numbers:
        def split(self, X, y):
            return [(np.flatnonzero(a), np.flatnonzero(b)) for a, b in Masks().split(X, y)]

    found = [
        GeodesicCalibrator(small_forest(), calibration=splitter()).fit(X, y).predict_proba(X)
        for splitter in (Masks, Numbers)
    ]
    assert_array_equal(*found)


def test_every_class_is_calibrated_on_and_fitted_on(grouped):
    X, _, groups = grouped
    rare = np.where(np.arange(300) < 3, 2, np.arange(300) % 2)
    splitter = ShuffleSplit(1, test_size=100, random_state=3)
    held = next(splitter.split(X))[1]
    assert not (rare[held] == 2).any()
    with pytest.raises(ValueError, match=r"no test part .* class 2"):
        GeodesicCalibrator(small_forest(), calibration=splitter).fit(X, rare)
    alone = np.where(groups == 0, 2, np.arange(300) % 2)  # a class in one group only
    with pytest.raises(ValueError, match="every class on both sides"):
        GeodesicCalibrator(small_forest(), calibration="holdout").fit(X, alone, groups=groups)


def test_groups_of_weight_zero_and_of_mixed_types(grouped):
    X, y, groups = grouped
    model = GeodesicCalibrator(small_forest(), calibration="holdout", random_state=0)
    with pytest.raises(ValueError, match="at least 2 groups in rows of positive weight"):
        model.fit(X, y, (groups == 0) * 1.0, groups=groups)
    mixed = groups.astype(str).astype(object)
    mixed[3] = None
    with pytest.raises(ValueError, match="groups must hold values of one type"):
        model.fit(X, y, groups=mixed)
    weight = np.where(np.arange(300) == 7, 0.0, 1.0)
    with pytest.raises(ValueError, match="count other rows than yours"):
        model.set_params(calibration=StratifiedKFold(3)).fit(X, y, weight)


@pytest.mark.parametrize("sizes", [np.ones(36), [80, *np.ones(10)], [20, 20, 5, 5, 40]])
def test_holdout_keeps_about_its_share_of_uneven_groups(sizes, folds):
    groups = np.repeat(np.arange(len(sizes)), np.array(sizes, dtype=int))
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(len(groups), 3)), np.arange(len(groups)) % 3
    model = GeodesicCalibrator(small_forest(), calibration="holdout", random_state=0)
    model.fit(X, y, groups=groups)
    held = sum(len(fold.rows) for fold in folds[0]) / len(groups)
    assert 0.05 < held < 0.5
    assert np.isfinite(model.predict_proba(X)).all()


def test_a_failed_fit_leaves_the_fitted_model_as_it_was(grouped):
    X, y, _ = grouped
    model = GeodesicCalibrator(small_forest(), random_state=0).fit(X, y)
    before = model.predict_proba(X)
    with pytest.raises(ValueError, match="at least 2 classes"):
        model.fit(X[:, :2], np.zeros(300))
    assert_array_equal(model.predict_proba(X), before)
    assert model.n_features_in_ == 5
