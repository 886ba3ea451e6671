"""The plan of a calibration, and what every plan promises."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.ensemble import BaggingClassifier, ExtraTreesClassifier, RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from polycal import GeodesicCalibrator
from polycal.calibration.fit import Options, choose_plan
from polycal.core.reading import LabelledRows
from polycal.parents import find_adapter
from tests.toys.models import small_forest, small_network


@pytest.mark.parametrize(
    ("estimator", "plan"),
    [
        (RandomForestClassifier(), "oob"),
        (RandomForestClassifier(5), "cv"),
        (RandomForestClassifier(bootstrap=False), "cv"),
        (RandomForestClassifier(class_weight="balanced"), "cv"),
        (RandomForestClassifier(class_weight="balanced_subsample"), "oob"),
        (ExtraTreesClassifier(bootstrap=True), "oob"),
        (ExtraTreesClassifier(), "cv"),
        (BaggingClassifier(n_estimators=30), "oob"),
        (DecisionTreeClassifier(), "cv"),
        (small_network(), "cv"),
        (make_pipeline(StandardScaler(), RandomForestClassifier()), "cv"),
        (FrozenEstimator(DecisionTreeClassifier().fit([[0], [1]], [0, 1])), "holdout"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_auto(estimator, plan):
    options = Options.from_parameters(GeodesicCalibrator(estimator).get_params(deep=False), 2)
    rows = LabelledRows(None, np.array([0, 1]), np.ones(2), np.arange(2))
    parent = find_adapter(estimator)
    assert choose_plan(parent, options, rows, None) == plan
    weighted = "cv" if plan == "oob" else plan
    assert choose_plan(parent, options, rows, 1.0) == weighted


def test_the_plan_that_was_taken():
    X, y = make_classification(120, random_state=0)
    forest = RandomForestClassifier(20, random_state=0)
    assert GeodesicCalibrator(forest).fit(X, y).calibration_ == "oob"
    tree = DecisionTreeClassifier(random_state=0)
    assert GeodesicCalibrator(tree).fit(X, y).calibration_ == "cv"
    frozen = FrozenEstimator(tree.fit(X[:60], y[:60]))
    assert GeodesicCalibrator(frozen).fit(X[60:], y[60:]).calibration_ == "holdout"
    given = GeodesicCalibrator(frozen).fit(X[:60], y[:60], X_cal=X[60:], y_cal=y[60:])
    assert given.calibration_ == "given"


def test_plans_that_cannot_be(blobs):
    X, y = blobs
    frozen = FrozenEstimator(small_forest().fit(X, y))
    for plan in ("oob", "cv"):
        with pytest.raises(ValueError, match=f'"{plan}" needs a parent that polycal fits itself'):
            GeodesicCalibrator(frozen, calibration=plan).fit(X, y)
    with pytest.raises(ValueError, match='(?s)bootstrap=True.*Use calibration="cv"'):
        GeodesicCalibrator(small_network(), calibration="oob").fit(X, y)
    with pytest.raises(ValueError, match="class 2 has 1 row"):
        GeodesicCalibrator(small_network()).fit(X, np.r_[y[:-1], 2])


def test_one_forest_is_fitted_out_of_bag_and_six_parents_by_turns(blobs, monkeypatch):
    X, y = blobs
    fits = []
    fit = RandomForestClassifier.fit

    def counted(self, X, *args, **kwargs):
        fits.append(len(X))
        return fit(self, X, *args, **kwargs)

    monkeypatch.setattr(RandomForestClassifier, "fit", counted)
    GeodesicCalibrator(small_forest(), calibration="oob").fit(X, y)
    assert fits == [600]
    fits.clear()
    GeodesicCalibrator(small_forest(), calibration="cv", random_state=0).fit(X, y)
    assert sorted(fits) == [480] * 5 + [600]


@pytest.mark.parametrize("plan", ["holdout", "oob", "cv"])
@pytest.mark.parametrize("setting", [{}, {"posterior": "kernel"}, {"distance": "euclidean"}])
def test_every_plan_keeps_the_promises(plan, setting, blobs):
    X, y = blobs
    model = GeodesicCalibrator(small_forest(), calibration=plan, random_state=0, **setting)
    model.fit(X[:500], y[:500])
    assert model.score(X[500:], y[500:]) > 0.8
    assert_allclose(model.predict_proba(X[:5] * 1e4), np.tile(model.priors_, (5, 1)), atol=1e-9)


@pytest.mark.parametrize("plan", ["oob", "cv"])
@pytest.mark.parametrize("depth", [1, None], ids=["stumps", "deep"])
def test_labels_without_signal_give_about_the_prior(plan, depth):
    """Neither plan lets a row see a trace of its own label."""
    losses, confidences = [], []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(1000, 3)), np.arange(1000) % 2
        parent = small_forest(max_depth=depth, n_estimators=40, random_state=seed)
        model = GeodesicCalibrator(parent, calibration=plan, random_state=seed)
        P = model.fit(X[:600], y[:600]).predict_proba(X[600:])
        losses.append(-np.log(P[np.arange(400), y[600:]]).mean())
        confidences.append(P.max(axis=1).mean())
    assert np.mean(losses) < np.log(2) + 0.02
    assert np.mean(confidences) < 0.57


@pytest.mark.parametrize("plan", ["oob", "cv"])
def test_false_alarms_of_new_rows_keep_their_share(plan):
    """Mean over seeds of the share below the floor, at 5 %."""
    shares = []
    for seed in range(8):
        X, y = make_classification(2400, n_features=6, n_informative=4, random_state=seed)
        parent = small_forest(n_estimators=60, random_state=seed)
        model = GeodesicCalibrator(
            parent, calibration=plan, false_alarm=0.05, random_state=seed
        ).fit(X[:600], y[:600])
        shares.append((model.score_samples(X[600:]) < model.model_.scores.floor(0.05)).mean())
    # 600 calibration rows: each share has a deviation of 0.009, their mean of 0.003.
    assert np.mean(shares) < 0.05 + 0.009
    # Parents that saw 80 % of the rows see new ones as a little stranger than the final one.
    assert np.mean(shares) > {"oob": 0.041, "cv": 0.03}[plan]


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_rare_class_of_large_weight(n_classes):
    """Its rows are in every tree's sample: out-of-bag says so, the default takes turns."""
    rng = np.random.default_rng(0)
    y = np.r_[np.zeros(300, dtype=int), np.full(10, 1), np.full(100 * (n_classes - 2), 2)]
    X = rng.normal(size=(len(y), 3)) + 0.7 * y[:, None]
    balanced = RandomForestClassifier(100, class_weight="balanced", random_state=0)
    if hasattr(clone(balanced).fit(X, y), "_sample_weight"):  # older ones draw without weights
        with pytest.raises(ValueError, match='every tree has seen.*Use calibration="cv"'):
            GeodesicCalibrator(balanced, calibration="oob").fit(X, y)
    model = GeodesicCalibrator(balanced, random_state=0).fit(X, y)
    P = model.predict_proba(X)
    assert np.isfinite(P).all()
    assert P[:, 1].mean() == pytest.approx((y == 1).mean(), abs=0.02)
