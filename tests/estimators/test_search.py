"""``search=``: sampled tables in place of a comparison with every training row."""

from __future__ import annotations

from contextlib import nullcontext

import joblib
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.neural_network import MLPClassifier

import polycal
from polycal import PAPER, GeodesicCalibrator
from polycal.calibration import folds
from polycal.estimators import model_facts
from polycal.kernels import Sampling

X, Y = make_classification(2400, 8, n_informative=5, n_classes=3, flip_y=0.1, random_state=0)
NEW, NEW_Y = X[1600:], Y[1600:]
PARENTS = {
    "boosting": HistGradientBoostingClassifier(max_iter=30, random_state=0),
    "forest": RandomForestClassifier(30, min_samples_leaf=5, random_state=0),
    "network": MLPClassifier((16, 16), max_iter=100, random_state=0),
    "classifier": LogisticRegression(),
}


def fitted(parent, search="sampled", calibration="holdout", **options):
    model = GeodesicCalibrator(
        parent, search=search, calibration=calibration, random_state=0, **options
    )
    return model.fit(X[:1600], Y[:1600])


@pytest.fixture(scope="module", params=PARENTS)
def pair(request):
    parent = PARENTS[request.param]
    with pytest.warns() if request.param == "network" else nullcontext():
        return fitted(parent), fitted(parent, "exact")


def test_sampled_answers_are_near_the_exact_ones(pair):
    sampled, exact = pair
    assert (sampled.search_, exact.search_) == ("sampled", "exact")
    P, Q = sampled.predict_proba(NEW), exact.predict_proba(NEW)
    assert np.abs(P - Q).mean() < 0.06  # the pool hears other exponents
    assert np.abs((P - Q).mean(axis=0)).max() < 0.01
    assert log_loss(NEW_Y, P) < log_loss(NEW_Y, Q) + 0.02
    # Scores rank the rows alike, and a nearest polytope is nearly always the nearest.
    assert np.corrcoef(sampled.score_samples(NEW), exact.score_samples(NEW))[0, 1] > 0.95
    similarity, index = sampled.nearest(NEW[:200])
    assert_allclose(similarity, exact.nearest(NEW[:200])[0], atol=0.1)
    assert (index == exact.nearest(NEW[:200])[1]).mean() > 0.9
    assert_array_equal(sampled.similarity(NEW[:5], NEW[:7]), exact.similarity(NEW[:5], NEW[:7]))


def test_false_alarms_are_kept_and_far_away_is_the_prior(pair):
    sampled, _ = pair
    assert (sampled.explain(NEW).verdict == "out").mean() < 0.03  # 0.01 and three standard errors
    far = np.full((3, 8), 1e6) * np.array([[1], [-1], [30]])
    assert_allclose(sampled.predict_proba(far), np.tile(sampled.priors_, (3, 1)), atol=1e-12)
    assert (sampled.explain(far).verdict == "out").all()


def test_sampled_models_answer_the_same_in_threads_files_and_copies(pair, tmp_path):
    sampled, _ = pair
    P = sampled.predict_proba(NEW)
    joblib.dump(sampled, tmp_path / "m.joblib")
    sampled.save(tmp_path / "m.polycal")
    for other in (joblib.load(tmp_path / "m.joblib"), polycal.load(tmp_path / "m.polycal")):
        assert other.search_ == "sampled"
        assert_array_equal(other.predict_proba(NEW), P)
        assert_array_equal(other.explain(NEW[:20]).verdict, sampled.explain(NEW[:20]).verdict)
    order = np.random.default_rng(0).permutation(len(NEW))
    threads = sampled.set_params(n_jobs=2).predict_proba(NEW[order])
    sampled.set_params(n_jobs=None)
    assert_allclose(threads, P[order], rtol=1e-12)


def test_the_search_is_shown(pair):
    sampled, exact = pair
    assert repr(sampled).endswith("# fitted, search: sampled")
    assert repr(exact).endswith("# fitted, search: exact")
    shown = model_facts(sampled)["search"]
    assert "128 random sequences" in shown
    assert "all buckets kept" in shown
    assert model_facts(exact)["search"] == "exact"


@pytest.mark.parametrize("calibration", ["cv", "auto"])
def test_cross_fitted_models_are_sampled_too(calibration):
    """A forest whose search is sampled is not calibrated out of bag."""
    model = fitted(PARENTS["forest"], calibration=calibration)
    assert (model.calibration_, model.search_) == ("cv", "sampled")
    assert (model.explain(NEW).verdict == "out").mean() < 0.03


def test_the_parent_alone_and_no_hyperplanes():
    alone = fitted(PARENTS["boosting"], posterior="parent")
    assert alone.search_ == "sampled"
    none = fitted(PARENTS["boosting"], n_hyperplanes=0)
    assert list(none.model_.reference.sampled) == ["kernel"]
    for model in (alone, none):
        assert_allclose(model.predict_proba(NEW).sum(axis=1), 1.0)


def test_auto_is_exact_for_few_rows():
    assert fitted(PARENTS["boosting"], "auto").search_ == "exact"


def test_auto_samples_for_many_rows(monkeypatch):
    monkeypatch.setattr("polycal.kernels.path_tables.WORTH_OF_EXACT", 1e-3)
    assert fitted(PARENTS["boosting"], "auto").search_ == "sampled"
    forest = RandomForestClassifier(30, max_depth=3, random_state=0)
    model = fitted(forest, "auto", "oob")
    assert (model.calibration_, model.search_) == ("oob", "exact, hyperplanes sampled")
    assert fitted(forest, "auto", "auto").calibration_ == "cv"


@pytest.mark.parametrize(
    "options",
    [
        {"posterior": "kernel"},
        {"gate": "gaussian"},
        {"distance": "euclidean"},
        {"gamma": 1.0},
        PAPER,
    ],
    ids=str,
)
def test_what_cannot_be_sampled(options):
    with pytest.raises(ValueError, match='search="sampled" needs .*or search="exact"'):
        fitted(PARENTS["boosting"], **options)
    assert fitted(PARENTS["boosting"], "auto", **options).search_ == "exact"


def test_sampled_paths_have_no_bags():
    with pytest.raises(ValueError, match='calibration="oob" needs search="exact"'):
        fitted(PARENTS["forest"], calibration="oob")
    assert fitted(PARENTS["forest"], "exact", "oob").search_ == "exact"


@pytest.mark.parametrize("limit", ["abc", -1, 0, True, "3 apples", float("nan"), None])
def test_bad_memory_limits(limit):
    with pytest.raises(ValueError, match="memory_limit must be a number of bytes above 0, or a"):
        fitted(PARENTS["boosting"], memory_limit=limit)


@pytest.mark.parametrize("limit", ["20MB", "20 MiB", 2e7, "20000KB"])
def test_memory_limits(limit):
    tables = fitted(PARENTS["boosting"], memory_limit=limit).model_.reference.sampled
    assert sum(t.nbytes for t in tables.values()) < 21e6


def test_a_memory_limit_that_is_too_small_says_what_is_enough():
    with pytest.raises(ValueError, match="memory_limit is too small") as error:
        fitted(PARENTS["boosting"], memory_limit="1KB")
    enough = str(error.value).split('"')[1]
    assert fitted(PARENTS["boosting"], memory_limit=enough).search_ == "sampled"


@pytest.mark.parametrize("calibration", ["holdout", "cv", "oob"])
def test_of_many_calibration_rows_some_of_each_class_are_scored(monkeypatch, calibration):
    monkeypatch.setattr(folds, "MOST_SCORED", 200)
    y = Y[:1600].copy()
    y[:4] = 3  # a class of four rows
    model = GeodesicCalibrator(
        RandomForestClassifier(30, random_state=0), calibration=calibration, random_state=0
    ).fit(X[:1600], y)
    scores = model.model_.scores
    assert 190 <= len(scores.log_f) <= 204
    assert_array_equal(np.unique(scores.y), np.arange(4))
    assert log_loss(NEW_Y, model.predict_proba(NEW), labels=np.arange(4)) < 0.9


def test_of_many_rows_of_groups_all_are_scored(monkeypatch):
    monkeypatch.setattr(folds, "MOST_SCORED", 200)
    parent = RandomForestClassifier(20, random_state=0).fit(X[:800], Y[:800])
    model = GeodesicCalibrator(FrozenEstimator(parent), random_state=0)
    model.fit(X[800:1600], Y[800:1600], groups=np.arange(800) // 2)
    assert len(model.model_.scores.log_f) > 200


def test_no_row_is_scored_with_its_own_label(monkeypatch):
    """On labels without any signal, the posterior stays near the class shares."""
    monkeypatch.setattr(folds, "MOST_SCORED", 300)
    y = np.random.default_rng(0).integers(0, 2, 1600)
    model = GeodesicCalibrator(
        RandomForestClassifier(30, random_state=0), calibration="holdout", random_state=0
    ).fit(X[:1600], y)
    assert len(model.model_.scores.log_f) < 0.3 * 1600
    assert np.abs(model.predict_proba(NEW)[:, 1] - 0.5).mean() < 0.06


@pytest.mark.parametrize("parent", ["forest", "boosting", "classifier"])
def test_folds_are_searched_as_the_model_is(monkeypatch, parent):
    """Fewer rows of a fold might make the exact search the cheaper one."""

    def many(sampling, modes, by_sides=False):
        return len(modes) > 1100

    monkeypatch.setattr(Sampling, "is_cheaper", many)
    model = GeodesicCalibrator(PARENTS[parent], calibration="cv", random_state=0)
    model.fit(X[:1250], Y[:1250])  # folds of 1000 rows
    assert model.search_ == "sampled"
    assert log_loss(NEW_Y, model.predict_proba(NEW), labels=np.unique(Y)) < 1.0
