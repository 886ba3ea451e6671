"""Any classifier with probabilities: hyperplanes stand in for modes, from the fit to the file."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    HistGradientBoostingClassifier,
    StackingClassifier,
    VotingClassifier,
)
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

import polycal
from polycal import PAPER, GeodesicCalibrator
from polycal.parents import Adapter
from polycal.parents.classifier import ClassifierAdapter
from tests.toys.tables import make_mixed


class Duck:
    """What a library of its own may offer: no base class and no tags of scikit-learn."""

    def __init__(self, strength=1.0):
        self.strength = strength

    def get_params(self, deep=True):
        return {"strength": self.strength}

    def set_params(self, **parameters):
        vars(self).update(parameters)
        return self

    def fit(self, X, y):
        self.inner_ = LogisticRegression(C=self.strength).fit(X, y)
        self.classes_ = self.inner_.classes_
        return self

    def predict_proba(self, X):
        return self.inner_.predict_proba(X)


def two(voting=None):
    parts = [("linear", LogisticRegression()), ("bayes", GaussianNB())]
    return VotingClassifier(parts, **({} if voting is None else {"voting": voting}))


CLASSIFIERS = {
    "linear": LogisticRegression,
    "bayes": GaussianNB,
    "neighbours": lambda: KNeighborsClassifier(15),
    "vote": lambda: two("soft"),
    "stack": lambda: StackingClassifier(two().estimators, cv=3),
    "bagging": lambda: BaggingClassifier(LogisticRegression(), 3, random_state=0),
    "boosting": lambda: AdaBoostClassifier(n_estimators=5, random_state=0),
    "calibrated": lambda: CalibratedClassifierCV(SVC(), ensemble=False, cv=3),
    "pipeline": lambda: make_pipeline(StandardScaler(), LogisticRegression()),
    "duck": Duck,
}
# What is in the files of some, and is not known to be safe.
TRUSTED = {
    "neighbours": [
        "sklearn.metrics._dist_metrics.EuclideanDistance64",
        "sklearn.neighbors._classification.KNeighborsClassifier",
        "sklearn.neighbors._kd_tree.KDTree",
    ],
    "vote": ["sklearn.utils._bunch.Bunch"],
    "stack": ["sklearn.utils._bunch.Bunch"],
    "calibrated": [
        "sklearn.calibration._CalibratedClassifier",
        "sklearn.calibration._SigmoidCalibration",
        "sklearn.svm._classes.SVC",
    ],
}


@pytest.fixture(scope="module")
def linear(blobs):
    X, y = blobs
    return GeodesicCalibrator(LogisticRegression(), calibration="holdout").fit(X[:450], y[:450])


def assert_calibrated(model, X, y):
    """Probabilities that are about right, and the prior far away."""
    P = model.predict_proba(X)
    assert_allclose(P.sum(axis=1), 1, atol=1e-9)
    assert model.score(X, y) > 0.85
    assert -np.log(P[np.arange(len(y)), y]).mean() < 0.35
    assert (model.in_distribution(X) > 0.5).mean() > 0.9
    far = np.concatenate([1e6 * X[:20], -1e9 * X[:20]])
    assert_array_equal(model.in_distribution(far), 0.0)
    assert_array_equal(model.predict_proba(far), np.tile(model.priors_, (40, 1)))


# ---------------------------------------------------------------- reading


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_probabilities_are_read_and_modes_are_absent(name, blobs):
    X, y = blobs
    parent = CLASSIFIERS[name]().fit(X[:300], y[:300])
    reading = (Adapter.find(parent) if name == "pipeline" else ClassifierAdapter(parent)).read(X)
    assert_allclose(reading.proba, parent.predict_proba(X), atol=1e-12)
    assert reading.modes.are_absent
    assert len(reading.modes) == len(X)
    expected = parent[0].transform(X) if name == "pipeline" else X
    assert_array_equal(reading.features, expected)


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (
            lambda n: np.full((n, 2), np.nan),
            "NaN or infinity for 60 of 60 rows, the first is row 0",
        ),
        (lambda n: np.full((n, 2), 0.9), "each row with sum 1.*Wrap Liar so that predict_proba"),
        (lambda n: np.tile([1.5, -0.5], (n, 1)), "no negative number.*Wrap Liar"),
        (lambda n: np.full((n, 2, 2), 0.25), r"shape \(n, K\); got shape \(60, 2, 2\)"),
        (lambda n: np.full((n, 3), 1 / 3), "3 probabilities to each row; y holds the 2 classes"),
    ],
)
def test_what_are_no_probabilities_is_said(returned, message, blobs):
    class Liar(ClassifierMixin, BaseEstimator):
        def fit(self, X, y):
            self.classes_ = np.unique(y)
            return self

        def predict_proba(self, X):
            return returned(len(X))

    X, y = (part[:60] for part in blobs)
    with pytest.raises(ValueError, match=message):
        GeodesicCalibrator(FrozenEstimator(Liar().fit(X, y))).fit(X, y)


# ---------------------------------------------------------------- from fit to file


@pytest.mark.parametrize("plan", ["cv", "holdout"])
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_every_classifier_is_calibrated(name, plan, blobs):
    X, y = blobs
    model = GeodesicCalibrator(CLASSIFIERS[name](), calibration=plan, random_state=0)
    model.fit(X[:450], y[:450])
    assert model.calibration_ == plan
    assert_calibrated(model, X[450:], y[450:])
    # No row is lost: each votes by its own sides, in the exponents of hyperplanes.
    assert model.pool_weights_.shape == (4, 3)
    assert list(model.model_.witnesses) == ["parent", "hyperplanes"]
    assert_array_equal(model.model_.reference.votes.exponents, [8, 32, 128])


@pytest.mark.parametrize("name", sorted(set(CLASSIFIERS) - {"duck"}))
def test_frozen_with_calibration_rows_and_saved(name, blobs, tmp_path):
    X, y = blobs
    parent = CLASSIFIERS[name]().fit(X[:300], y[:300])
    held = {"X_cal": X[300:450], "y_cal": y[300:450]}
    model = GeodesicCalibrator(FrozenEstimator(parent)).fit(X[:300], y[:300], **held)
    assert model.estimator_ is parent
    assert_calibrated(model, X[450:], y[450:])
    inside = GeodesicCalibrator(CLASSIFIERS[name]()).fit(X[:300], y[:300], **held)
    assert_allclose(model.predict_proba(X), inside.predict_proba(X), atol=1e-9)
    model.save(tmp_path / "model")
    loaded = polycal.load(tmp_path / "model", trusted=TRUSTED.get(name, []))
    assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    assert_array_equal(loaded.score_samples(X), model.score_samples(X))
    assert_array_equal(loaded.similarity(X[:9], X), model.similarity(X[:9], X))


@pytest.mark.parametrize(
    "setting",
    [
        PAPER,
        {"posterior": "parent"},
        {"distance": "euclidean"},
        {"gamma": 0.5},
        {"gate": "gaussian"},
    ],
    ids=str,
)
def test_every_setting_is_saved(setting, blobs, tmp_path):
    X, y = blobs
    model = GeodesicCalibrator(LogisticRegression(), calibration="holdout", **setting)
    model.fit(X[:300], y[:300])
    assert_array_equal(model.predict_proba(1e8 * X[:5]), np.tile(model.priors_, (5, 1)))
    model.save(tmp_path / "model")
    loaded = polycal.load(tmp_path / "model")
    assert_array_equal(loaded.predict_proba(X[300:]), model.predict_proba(X[300:]))
    assert_array_equal(loaded.score_samples(X[300:]), model.score_samples(X[300:]))


def test_labels_may_be_words(blobs):
    X, y = blobs
    words = np.array(["no", "yes"])[y]
    coded = GeodesicCalibrator(LogisticRegression(), random_state=0).fit(X[:450], y[:450])
    named = GeodesicCalibrator(LogisticRegression(), random_state=0).fit(X[:450], words[:450])
    assert_array_equal(named.classes_, ["no", "yes"])
    assert_array_equal(named.predict_proba(X), coded.predict_proba(X))
    assert_array_equal(named.predict(X), np.array(["no", "yes"])[coded.predict(X)])


def test_three_classes_and_weights(iris):
    X, y = iris
    weight = np.where(y == 2, 2.0, 1.0)
    model = GeodesicCalibrator(GaussianNB(), random_state=0).fit(X, y, weight)
    assert_allclose(model.priors_, [0.25, 0.25, 0.5])
    assert model.score(X, y) > 0.93
    with pytest.raises(ValueError, match="sample_weight was given, but KNeighborsClassifier.fit"):
        GeodesicCalibrator(KNeighborsClassifier()).fit(X, y, weight)


def test_a_seed_draws_the_planes(blobs):
    X, y = blobs
    held = {"X_cal": X[300:450], "y_cal": y[300:450]}
    parent = FrozenEstimator(LogisticRegression().fit(X[:300], y[:300]))

    def answers(**kwargs):
        model = GeodesicCalibrator(parent, n_hyperplanes=64, **kwargs)
        return model.fit(X[:300], y[:300], **held).similarity(X[:20], X)

    assert_array_equal(answers(), answers())  # without a seed they are the same too
    assert_array_equal(answers(random_state=1), answers(random_state=1))
    assert (answers(random_state=1) != answers(random_state=2)).any()


# ---------------------------------------------------------------- tables


def test_missing_numbers_are_taken_or_refused_as_the_classifier_says(blobs):
    X, y = (part.copy() for part in blobs)
    X[::5, 1] = np.nan
    assert not Adapter.find(LogisticRegression()).allows_missing
    with pytest.raises(ValueError, match="NaN"):
        GeodesicCalibrator(LogisticRegression()).fit(X, y)
    imputed = make_pipeline(SimpleImputer(), LogisticRegression())
    boosting = HistGradientBoostingClassifier(max_iter=10, random_state=0)
    bag = BaggingClassifier(boosting, 2, random_state=0)
    assert Adapter.find(bag).allows_missing
    for parent in (imputed, bag):
        model = GeodesicCalibrator(parent, calibration="holdout", random_state=0).fit(X, y)
        assert model.score(X, y) > 0.8
    # The classifier that has no tags decides itself.
    assert Adapter.find(Duck()).allows_missing
    with pytest.raises(ValueError, match="LogisticRegression does not accept missing values"):
        GeodesicCalibrator(Duck()).fit(X, y)


def test_categories_go_to_a_classifier_that_may_take_them():
    X, y = make_mixed()

    class Table(Duck):
        """It takes a frame with categories and holes."""

        def fit(self, X, y):
            return super().fit(self._encoded(X), y)

        def predict_proba(self, X):
            return super().predict_proba(self._encoded(X))

        def _encoded(self, X):
            red = (X["colour"] == "red").astype(float)
            return np.column_stack([X["a"], X["b"].fillna(0.0), red, X["size"].astype(float)])

    assert Adapter.find(Table()).takes_categories
    model = GeodesicCalibrator(Table(), calibration="holdout", random_state=0).fit(X, y)
    assert model.score(X, y) > 0.8
    other = X.assign(colour=pd.Categorical(["violet"] * len(X)))
    lost = (model.similarity(X, X).diagonal() - np.diag(model.similarity(X, other))).min()
    assert lost > 0  # a new colour moves a row to other sides
    assert not Adapter.find(LogisticRegression()).takes_categories
    with pytest.raises(ValueError, match="'colour' is a category, and the parent takes only numb"):
        GeodesicCalibrator(LogisticRegression()).fit(X.assign(b=0.0), y)


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize("parent", [SVC, LinearSVC])
def test_advice_for_classifiers_without_probabilities_helps(parent, blobs):
    X, y = blobs
    name = parent.__name__
    advice = rf"{name} has no predict_proba.*use CalibratedClassifierCV\({name}\(...\), ensemble=F"
    with pytest.raises(TypeError, match=advice):
        GeodesicCalibrator(parent()).fit(X, y)
    with pytest.raises(TypeError, match=advice):
        GeodesicCalibrator(make_pipeline(StandardScaler(), parent())).fit(X, y)
    with pytest.raises(TypeError, match=advice):
        GeodesicCalibrator(FrozenEstimator(parent().fit(X, y))).fit(X, y)
    followed = CalibratedClassifierCV(parent(), ensemble=False)
    model = GeodesicCalibrator(followed, calibration="holdout", random_state=0)
    assert_calibrated(model.fit(X[:450], y[:450]), X[450:], y[450:])


@pytest.mark.parametrize("frozen", [False, True])
def test_a_vote_without_probabilities_is_refused(frozen, blobs):
    X, y = blobs
    parent = FrozenEstimator(two().fit(X, y)) if frozen else two()
    with pytest.raises(
        TypeError,
        match='VotingClassifier has no predict_proba with voting="hard"; use voting="soft"',
    ):
        GeodesicCalibrator(parent).fit(X, y)


def test_hyperplanes_are_needed(blobs):
    X, y = blobs
    for setting in ({}, PAPER, {"posterior": "parent"}):
        model = GeodesicCalibrator(LogisticRegression(), n_hyperplanes=0, **setting)
        with pytest.raises(ValueError, match="n_hyperplanes is 0, but the parent has no .*=1024"):
            model.fit(X, y)
    few = GeodesicCalibrator(LogisticRegression(), n_hyperplanes=1, calibration="holdout")
    few.fit(X, y)
    assert len(few.polytopes_) == 2


def test_others_are_refused_with_a_reason():
    class NoFit:
        classes_ = np.arange(2)

        def predict_proba(self, X):
            return np.full((len(X), 2), 0.5)

    with pytest.raises(TypeError, match="NoFit is not a known family.*Supported"):
        Adapter.find(NoFit())
    with pytest.raises(NotFittedError):
        Adapter.find(FrozenEstimator(LogisticRegression()))
    with pytest.raises(TypeError, match="StandardScaler has no predict_proba, so it is no class"):
        Adapter.find(StandardScaler())


# ---------------------------------------------------------------- looking inside


def test_rows_of_the_fit_are_their_own_neighbours(linear, blobs):
    X, _ = blobs
    similarity, index = linear.nearest(X[:450], k=3)
    for polytope, rows in linear.model_.reference.members(np.arange(315)).items():
        assert_array_equal(index[rows, 0], polytope)
        assert_array_equal(similarity[rows, 0], 1.0)
    assert (np.diff(similarity, axis=1) <= 0).all()


def test_similarity_is_the_share_of_planes_that_do_not_part_two_rows(linear, blobs):
    X, _ = blobs
    K = linear.similarity(X[450:470], X[470:500])
    planes = linear.model_.reference.planes
    left, right = (planes.projected(rows) > planes.offsets for rows in (X[450:470], X[470:500]))
    assert_allclose(K, (left[:, None] == right[None]).mean(axis=2), rtol=1e-12)
    near, far = linear.similarity(X[:1], [X[0] + 1e-3, X[0] + 3.0])[0]
    assert near > 0.98
    assert far < 0.8


def test_explanations_name_rows_and_witnesses(linear, blobs):
    X, y = blobs
    rows = np.concatenate([X[450:], 1e6 * X[450:460]])
    why = linear.explain(rows)
    assert_array_equal(why.verdict[150:], "out")
    assert np.mean(why.verdict[:150] == "out") < 0.05
    assert_array_equal(why.weight, linear.in_distribution(rows))
    assert why.witnesses == ["parent", "hyperplanes"]
    assert_array_equal(why.similarity[:, None], linear.nearest(rows)[0])
    for i in range(150):
        assert_array_equal(np.bincount(y[why.rows[i]], minlength=2), why.counts[i])
    assert why.features == ["x0", "x1", "x2", "x3", "x4"]
    moved = X[450:451].copy()
    moved[0, 3] = 50.0
    assert linear.explain(moved).top_features(1)[0][0, 0] == "x3"
