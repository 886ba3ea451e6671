"""Where the calibration rows come from: held out, out of bag, or in turn."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.ensemble import BaggingClassifier, ExtraTreesClassifier, RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from polycal import GeodesicCalibrator
from polycal.calibration import reference_set
from polycal.calibration.splits import Rows, parts_of, shuffled_parts
from polycal.core.density import Density
from polycal.core.neighbours import Neighbours
from polycal.estimators.source import Source
from polycal.kernels import reference
from polycal.parents import find_adapter
from polycal.posterior.votes import stratified_parts
from tests.toys.models import small_forest, small_network


@pytest.fixture
def exams(monkeypatch):
    """The exams of the fits that follow."""
    seen = []

    def spy(name):
        make = getattr(reference_set, name)

        def made(*args, **kwargs):
            landscape, found = make(*args, **kwargs)
            seen.extend(found)
            return landscape, found

        monkeypatch.setattr(f"polycal.estimators.base.{name}", made)

    for name in ("holdout_folds", "out_of_bag_folds", "cross_fitted_folds"):
        spy(name)
    return seen


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
    assert Source.of(estimator).plan("auto") == plan
    weighted = "cv" if plan == "oob" else plan
    assert Source.of(estimator).plan("auto", weighted=True) == weighted


def test_out_of_bag_equals_scikit_learns_own(blobs):
    X, y = blobs
    forest = RandomForestClassifier(40, oob_score=True, random_state=0).fit(X, y)
    parent = find_adapter(forest)(forest)
    reading, share = parent.out_of_bag(parent.read(X))
    assert_allclose(reading.proba, forest.oob_decision_function_, atol=1e-12)
    sampled = np.stack([np.isin(np.arange(600), rows) for rows in forest.estimators_samples_])
    assert_allclose(share, 1 - sampled.mean(axis=0))


@pytest.mark.parametrize("max_features", [1.0, 0.6])
def test_out_of_bag_of_a_bagging_equals_scikit_learns_own(max_features, blobs):
    X, y = blobs
    bag = BaggingClassifier(
        n_estimators=40, max_features=max_features, oob_score=True, random_state=0
    ).fit(X, y)
    parent = find_adapter(bag)(bag)
    reading, _ = parent.out_of_bag(parent.read(X))
    assert_allclose(reading.proba, bag.oob_decision_function_, atol=1e-12)


def test_out_of_bag_similarity_is_the_share_of_trees_that_did_not_see_the_row(blobs, exams):
    X, y = blobs
    model = GeodesicCalibrator(small_forest(n_estimators=25), calibration="oob").fit(X, y)
    shown = np.concatenate([exam.X for exam in exams])
    similarity = np.concatenate([exam.near.similarity for exam in exams])
    index = np.concatenate([exam.near.index for exam in exams])
    forest, leaves = model.estimator_, model.estimator_.apply(X)
    stored = model.polytopes_.modes.codes
    alone = model.polytopes_.size == 1
    for i in (0, 17, 333, 500):
        out = [t for t, rows in enumerate(forest.estimators_samples_) if i not in rows]
        K = (leaves[i, out] == stored[:, out]).mean(axis=1)
        own = (stored == leaves[i]).all(axis=1)
        best = np.sort(K[~(own & alone)])[::-1][:10]
        (here,) = np.flatnonzero((shown == X[i]).all(axis=1))
        assert_allclose(similarity[here], best, atol=1e-12)
        # A row that is alone in its polytope is not its own neighbour.
        assert (np.flatnonzero(own)[0] in index[here]) != (own & alone).any()


def test_rows_that_every_tree_saw_sit_out(blobs, exams):
    X, y = blobs
    GeodesicCalibrator(small_forest(n_estimators=3), calibration="oob").fit(X, y)
    seen_by_all = 0.632**3
    assert sum(len(exam.rows) for exam in exams) == pytest.approx(600 * (1 - seen_by_all), abs=40)


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


def test_turns_show_every_row_once_to_a_parent_that_has_not_seen_it(blobs, exams):
    X, y = blobs
    model = GeodesicCalibrator(small_network(), calibration="cv", random_state=0).fit(X, y)
    assert len(exams) == 5
    assert sum(len(exam.rows) for exam in exams) == 600
    shown = np.concatenate([exam.X for exam in exams])
    assert_array_equal(np.sort(shown, axis=0), np.sort(X, axis=0))
    for exam in exams:
        assert exam.landscape.polytopes.counts.sum() == 480
        assert exam.landscape.kernel.n_samples == 600  # the exponent of the final kernel
    assert model.polytopes_.counts.sum() == 600


def test_turns_equal_cross_val_predict(blobs, exams):
    X, y = blobs
    GeodesicCalibrator(small_network(), calibration="cv", random_state=0).fit(X, y)
    folds = parts_of(shuffled_parts(Rows.given(X, y, np.ones(600)), 0))
    expected = cross_val_predict(small_network(), X, y, cv=folds, method="predict_proba")
    for exam, (_, held) in zip(exams, folds, strict=True):
        assert_allclose(exam.reading.proba, expected[held], atol=1e-9)


def test_parts_are_stratified_and_two_rows_of_a_class_are_enough():
    y = np.array([0] * 50 + [1] * 11 + [2] * 2)
    part = stratified_parts(y)
    for code, least, most in ((0, 10, 10), (1, 2, 3), (2, 0, 1)):
        sizes = np.bincount(part[y == code], minlength=5)
        assert sizes.min() == least
        assert sizes.max() == most
    X = np.random.default_rng(0).normal(size=(63, 3)) + y[:, None]
    model = GeodesicCalibrator(small_network(), calibration="cv", random_state=0).fit(X, y)
    assert model.predict_proba(X).shape == (63, 3)


def test_own_polytope_is_dropped_or_else_the_last():
    near = Neighbours(np.array([[0.9, 0.8, 0.7]] * 3), np.array([[4, 2, 1], [2, 4, 1], [2, 1, 5]]))
    left = reference_set._without_own(near, np.array([4, 4, -1]), 2)
    assert_array_equal(left.index, [[2, 1], [2, 1], [2, 1]])
    assert_allclose(left.similarity, [[0.8, 0.7], [0.9, 0.7], [0.9, 0.8]])
    few = reference_set._without_own(near, np.array([4, 4, -1]), 3)
    assert_array_equal(few.index, [[2, 1, -1], [2, 1, -1], [2, 1, 5]])
    assert_array_equal(few.similarity[:2, 2], [0, 0])


def test_out_of_bag_bandwidths_do_not_know_the_row(exams):
    """A feature that one row alone has is new to the landscape that judges this row."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 3)), np.arange(200) % 2
    X[:, 2] = 0.0
    X[7, 2] = 5.0
    GeodesicCalibrator(small_forest(n_estimators=30), calibration="oob", random_state=0).fit(X, y)
    for exam in exams:
        knows = (exam.X[:, 2] == 5.0).any()
        # The row's own polytope, far from all others, is no neighbour of it.
        variance = np.sort(1 / exam.landscape.density.precision[:, 2])[:-1]
        assert (variance.max() > 1.1e-6) != knows
        labels = exam.landscape.kernel.evidence.counts.sum()
        assert labels == 160


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
        shares.append((model.score_samples(X[600:]) < model.log_floor_).mean())
    # 600 calibration rows: each share has a deviation of 0.009, their mean of 0.003.
    assert np.mean(shares) < 0.05 + 0.009
    # Parents that saw 80 % of the rows see new ones as a little stranger than the final one.
    assert np.mean(shares) > {"oob": 0.041, "cv": 0.03}[plan]


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


def test_reference_ignores_the_leaf_that_is_none(blobs):
    """An out-of-bag row agrees with nothing in the trees that saw it, in every back-end."""
    from polycal.core.reading import ActivationModes
    from polycal.kernels import Execution, ForestIndex, Search
    from polycal.parents.base import NO_LEAF

    rng = np.random.default_rng(0)
    stored = ActivationModes.from_leaves(rng.integers(0, 4, (50, 12)))
    codes = rng.integers(0, 4, (20, 12))
    codes[rng.random(codes.shape) < 0.6] = NO_LEAF
    queries = ActivationModes.from_leaves(codes)
    K = reference.similarity(queries, stored)
    density = Density.from_parts(rng.normal(size=(50, 1)), np.ones((50, 1)), np.ones(50) / 50)
    for method in ("index", "scan"):
        index = ForestIndex(stored, method)
        assert_allclose(index.similarity(queries, Execution()), K)
        near = index.nearest(queries, np.zeros((20, 1)), Search(density, 3), Execution())
        assert_allclose(near.similarity, np.sort(K, axis=1)[:, ::-1][:, :3])


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


def test_a_part_that_every_tree_has_seen_sits_out(exams):
    """With one tree and two rows of a class in each part, some parts have no row left."""
    X, y = np.arange(8.0)[:, None], np.arange(8) % 2
    sizes = []
    for seed in range(6):
        exams.clear()
        forest = small_forest(n_estimators=2, random_state=seed)
        out = np.ones((8, 2), dtype=bool)
        for tree, rows in enumerate(forest.fit(X, y).estimators_samples_):
            out[rows, tree] = False
        if len(np.unique(y[out.any(axis=1)])) < 2:
            continue
        model = GeodesicCalibrator(forest, calibration="oob", random_state=0).fit(X, y)
        assert np.isfinite(model.predict_proba(X)).all()
        assert sum(len(exam.rows) for exam in exams) == out.any(axis=1).sum()
        sizes.append(len(exams))
    assert min(sizes) < 4  # four rows of each class make four parts


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
