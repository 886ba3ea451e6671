"""Where the calibration rows come from: held out, out of bag, or in turn."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import cross_val_predict

from polycal import GeodesicCalibrator
from polycal.calibration import folds as calibration_folds
from polycal.calibration.folds import (
    N_PARTS,
    alone_in_polytope,
    cross_fit_splits,
    stratified_parts,
)
from polycal.core.reading import LabelledRows
from polycal.parents import find_adapter
from tests.toys.models import small_forest, small_network


@pytest.fixture(name="folds")
def folds_of_the_fits(monkeypatch):
    """The calibration folds of the fits that follow."""
    seen = []

    def spy(name):
        make = getattr(calibration_folds, name)

        def made(*args, **kwargs):
            result = make(*args, **kwargs)
            seen.extend(result[1])
            return result

        monkeypatch.setattr(f"polycal.calibration.fit.{name}", made)

    for name in ("holdout_folds", "out_of_bag_folds", "cross_fitted_folds"):
        spy(name)
    return seen


def test_out_of_bag_equals_scikit_learns_own(blobs):
    X, y = blobs
    forest = RandomForestClassifier(40, oob_score=True, random_state=0).fit(X, y)
    parent = find_adapter(FrozenEstimator(forest))
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
    parent = find_adapter(FrozenEstimator(bag))
    reading, _ = parent.out_of_bag(parent.read(X))
    assert_allclose(reading.proba, bag.oob_decision_function_, atol=1e-12)


def test_out_of_bag_similarity_is_the_share_of_trees_that_did_not_see_the_row(blobs, folds):
    X, y = blobs
    model = GeodesicCalibrator(small_forest(n_estimators=25), calibration="oob").fit(X, y)
    shown = np.concatenate([fold.X for fold in folds])
    similarity = np.concatenate([fold.neighbours.similarity for fold in folds])
    index = np.concatenate([fold.neighbours.index for fold in folds])
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


def test_rows_that_every_tree_saw_sit_out(blobs, folds):
    X, y = blobs
    GeodesicCalibrator(small_forest(n_estimators=3), calibration="oob").fit(X, y)
    seen_by_all = 0.632**3
    assert sum(len(fold.rows) for fold in folds) == pytest.approx(600 * (1 - seen_by_all), abs=40)


def test_turns_show_every_row_once_to_a_parent_that_has_not_seen_it(blobs, folds):
    X, y = blobs
    model = GeodesicCalibrator(small_network(), calibration="cv", random_state=0).fit(X, y)
    assert len(folds) == 5
    assert sum(len(fold.rows) for fold in folds) == 600
    shown = np.concatenate([fold.X for fold in folds])
    assert_array_equal(np.sort(shown, axis=0), np.sort(X, axis=0))
    for fold in folds:
        assert fold.reference.polytopes.counts.sum() == 480
        assert fold.reference.votes.n_samples == 600  # the exponent of the final kernel
    assert model.polytopes_.counts.sum() == 600


def test_turns_equal_cross_val_predict(blobs, folds):
    X, y = blobs
    GeodesicCalibrator(small_network(), calibration="cv", random_state=0).fit(X, y)
    rows = LabelledRows(X, y, np.ones(600), np.arange(600))
    splits = cross_fit_splits(rows, np.unique(y), N_PARTS, 0)
    expected = cross_val_predict(small_network(), X, y, cv=splits, method="predict_proba")
    for fold, (_, held) in zip(folds, splits, strict=True):
        assert_allclose(fold.reading.proba, expected[held], atol=1e-9)


def test_a_row_is_alone_where_its_polytope_holds_no_other_weight():
    owner, weight = np.array([0, 1, 1, 2, 3]), np.array([1.0, 1.0, 2.0, 0.0, 0.3])
    size = np.array([1.0, 3.0, 0.0, 0.1 + 0.2])  # the last is a sum that rounds upwards
    rows = LabelledRows(np.zeros((5, 1)), np.zeros(5, int), weight, np.arange(5))
    assert alone_in_polytope(size, owner, rows).tolist() == [True, False, False, True, True]
    assert alone_in_polytope(size, owner, replace(rows, groups=owner)).all()


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


def test_out_of_bag_bandwidths_do_not_know_the_row(folds):
    """A feature that one row alone has is new to the reference set that scores this row."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 3)), np.arange(200) % 2
    X[:, 2] = 0.0
    X[7, 2] = 5.0
    GeodesicCalibrator(small_forest(n_estimators=30), calibration="oob", random_state=0).fit(X, y)
    for fold in folds:
        knows = (fold.X[:, 2] == 5.0).any()
        # The row's own polytope, far from all others, is no neighbour of it.
        variance = np.sort(1 / fold.reference.density.precision[:, 2])[:-1]
        assert (variance.max() > 1.1e-6) != knows
        labels = fold.reference.votes.evidence.counts.sum()
        assert labels == 160


def test_a_part_that_every_tree_has_seen_sits_out(folds):
    """With one tree and two rows of a class in each part, some parts have no row left."""
    X, y = np.arange(8.0)[:, None], np.arange(8) % 2
    sizes = []
    for seed in range(6):
        folds.clear()
        forest = small_forest(n_estimators=2, random_state=seed)
        out = np.ones((8, 2), dtype=bool)
        for tree, rows in enumerate(forest.fit(X, y).estimators_samples_):
            out[rows, tree] = False
        if len(np.unique(y[out.any(axis=1)])) < 2:
            continue
        model = GeodesicCalibrator(forest, calibration="oob", random_state=0).fit(X, y)
        assert np.isfinite(model.predict_proba(X)).all()
        assert sum(len(fold.rows) for fold in folds) == out.any(axis=1).sum()
        sizes.append(len(folds))
    assert min(sizes) < 4  # four rows of each class make four parts
