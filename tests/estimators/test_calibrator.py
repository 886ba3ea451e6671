"""scikit-learn's own checks, the fitted attributes, labels, frames and weights."""

from __future__ import annotations

import inspect
import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.ensemble import BaggingClassifier, ExtraTreesClassifier, RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

import polycal
from polycal import PAPER, GeodesicCalibrator, KernelDensityForest, KernelDensityNetwork
from polycal.parents import find_adapter
from tests.toys.models import small_forest, small_network

SPLIT = (
    "rows are drawn at random by position (bootstraps, parts), so leaving a row out or repeating "
    "it draws others than weighting it does"
)
EXPECTED_FAILURES = {
    "check_sample_weight_equivalence_on_dense_data": SPLIT,
}


@parametrize_with_checks(
    [
        GeodesicCalibrator(RandomForestClassifier(n_estimators=5, random_state=0), random_state=0),
        KernelDensityForest(n_estimators=5, random_state=0),
        KernelDensityNetwork(hidden_layer_sizes=(8,), max_iter=50, random_state=0),
    ],
    expected_failed_checks=lambda estimator: EXPECTED_FAILURES,
    xfail_strict=True,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


PARENTS = {
    "forest": small_forest(),
    "extra trees": ExtraTreesClassifier(20, random_state=0),
    "tree": DecisionTreeClassifier(min_samples_leaf=5, random_state=0),
    "bagging": BaggingClassifier(n_estimators=10, max_features=0.7, random_state=0),
    "network": small_network(),
}


@pytest.mark.parametrize("name", PARENTS)
def test_every_parent_is_read_as_it_predicts(name, blobs):
    X, y = blobs
    parent = clone(PARENTS[name]).fit(X, y)
    reading = find_adapter(parent).read(X)
    modes = reading.modes
    assert_allclose(reading.proba, parent.predict_proba(X), atol=1e-12)
    if name in ("forest", "extra trees"):
        assert_array_equal(modes.codes, parent.apply(X))
    if name == "bagging":
        columns = parent.estimators_features_[3]
        assert_array_equal(modes.codes[:, 3], parent.estimators_[3].apply(X[:, columns]))


@pytest.mark.parametrize("setting", [{}, PAPER, {"distance": "euclidean"}, {"posterior": "parent"}])
@pytest.mark.parametrize("name", PARENTS)
def test_fit_and_predict(name, setting, blobs):
    X, y = blobs
    model = GeodesicCalibrator(PARENTS[name], random_state=0, **setting).fit(X[:500], y[:500])
    P = model.predict_proba(X[500:])
    assert_allclose(P.sum(axis=1), 1, atol=1e-12)
    assert (P >= 0).all()
    assert model.score(X[500:], y[500:]) > 0.8
    assert_allclose(np.exp(model.predict_log_proba(X[500:])), P, atol=1e-12)
    alpha = model.in_distribution(X[500:])
    assert ((alpha >= 0) & (alpha <= 1)).all()
    assert model.score_samples(X[500:]).shape == (100,)
    similarity, index = model.nearest(X[500:], k=3)
    assert similarity.shape == index.shape == (100, 3)
    K = model.similarity(X[500:], X[:500])
    assert K.shape == (100, 500)
    assert_allclose(np.diag(model.similarity(X[:20], X[:20])), 1)


def test_fitted_attributes(iris):
    X, y = iris
    model = KernelDensityForest(n_estimators=30, random_state=0).fit(X, y)
    assert_array_equal(model.classes_, [0, 1, 2])
    assert model.estimator_.n_estimators == 30
    assert_allclose(model.polytopes_.counts.sum(), 150)  # out of bag: no row is held out
    assert_allclose(model.priors_, 1 / 3)
    assert model.gamma_ is None  # the votes count at several exponents
    assert np.isfinite(model.log_floor_)
    assert model.pool_weights_.shape == (7, 3)
    assert (model.pool_weights_[:, :2] >= 0).all()
    assert model.n_features_in_ == 4
    assert not hasattr(model, "feature_names_in_")


def test_the_paper_setting_is_the_papers():
    expected = {
        "posterior": "kernel",
        "gate": "gaussian",
        "bandwidth": "polytope",
        "scoring": "ece",
    }
    assert expected == PAPER
    assert KernelDensityForest().n_estimators == 500
    network = KernelDensityNetwork()
    assert network.hidden_layer_sizes == "auto"
    assert network.learning_rate_init == 3e-4


def test_the_three_signatures_share_their_parameters():
    def shared(cls):
        own = {
            "estimator",
            "half_life",
            "n_estimators",
            "max_depth",
            "min_samples_leaf",
            "max_features",
        }
        own |= {"hidden_layer_sizes", "learning_rate_init", "alpha", "batch_size", "max_iter"}
        own |= {"early_stopping"}
        parameters = inspect.signature(cls).parameters
        return {name: p.default for name, p in parameters.items() if name not in own}

    assert shared(GeodesicCalibrator) == shared(KernelDensityForest) == shared(KernelDensityNetwork)


def test_string_labels(iris):
    X, y = iris
    names = np.array(["setosa", "versicolor", "virginica"])
    model = GeodesicCalibrator(small_forest(), random_state=0).fit(X, names[y])
    plain = GeodesicCalibrator(small_forest(), random_state=0).fit(X, y)
    assert_array_equal(model.predict(X), names[plain.predict(X)])
    assert_allclose(model.predict_proba(X), plain.predict_proba(X))


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
@pytest.mark.parametrize("parent", [small_forest(), small_network()], ids=["forest", "network"])
def test_frames_and_feature_names(frame, parent, iris):
    X, y = iris
    names = ["a", "b", "c", "d"]
    table = frame(dict(zip(names, X.T, strict=True)))
    model = GeodesicCalibrator(parent, random_state=0).fit(table, y)
    assert_array_equal(model.feature_names_in_, names)
    plain = GeodesicCalibrator(parent, random_state=0).fit(X, y)
    assert_allclose(model.predict_proba(table), plain.predict_proba(X))
    with pytest.raises(ValueError, match="feature names"):
        model.predict_proba(
            table.rename(columns={"a": "z"}) if frame is pd.DataFrame else table.rename({"a": "z"})
        )


def test_frozen_parent_is_used_as_it_is(blobs):
    X, y = blobs
    parent = small_forest().fit(X[:300], y[:300])
    model = GeodesicCalibrator(FrozenEstimator(parent))
    model.fit(X[:300], y[:300], X_cal=X[300:450], y_cal=y[300:450])
    assert model.estimator_ is parent
    assert len(model.polytopes_) <= 300


def test_given_calibration_rows_hold_nothing_out(blobs):
    X, y = blobs
    model = GeodesicCalibrator(small_forest())
    model.fit(X[:300], y[:300], X_cal=X[300:450], y_cal=y[300:450])
    assert model.polytopes_.counts.sum() == 300


def test_holdout_keeps_the_share_of_each_class(blobs):
    X, y = blobs
    keep = np.r_[np.flatnonzero(y == 0)[:100], np.flatnonzero(y == 1)[:20]]
    options = {"calibration": "holdout", "calibration_size": 0.25, "random_state": 0}
    model = GeodesicCalibrator(small_forest(), **options)
    model.fit(X[keep], y[keep])
    assert_array_equal(model.polytopes_.counts.sum(axis=0), [75, 15])


def test_same_seed_same_result(blobs):
    X, y = blobs
    a, b = (KernelDensityForest(20, random_state=7).fit(X, y).predict_proba(X) for _ in range(2))
    assert_array_equal(a, b)


def test_the_default_parent_follows_random_state(blobs):
    X, y = blobs
    a, b = (GeodesicCalibrator(random_state=3).fit(X, y).predict_proba(X) for _ in range(2))
    assert_array_equal(a, b)


def test_threads_do_not_change_the_result(blobs):
    X, y = blobs
    results = [
        GeodesicCalibrator(small_forest(), random_state=0, n_jobs=n).fit(X, y).predict_proba(X)
        for n in (1, 2)
    ]
    assert_array_equal(results[0], results[1])


class TestWeights:
    def test_weight_zero_removes_a_row(self, blobs):
        """With given calibration rows and a deterministic parent, exactly."""
        X, y = blobs
        tree = DecisionTreeClassifier(min_samples_leaf=5, random_state=0)
        held = {"X_cal": X[400:], "y_cal": y[400:]}
        weight = np.ones(400)
        weight[::3] = 0
        a = GeodesicCalibrator(tree).fit(X[:400], y[:400], weight, **held)
        kept = weight > 0
        b = GeodesicCalibrator(tree).fit(X[:400][kept], y[:400][kept], np.ones(kept.sum()), **held)
        assert_array_equal(a.predict_proba(X), b.predict_proba(X))

    def test_scale_of_the_weights_does_not_matter(self, blobs):
        X, y = blobs
        weight = np.random.default_rng(0).uniform(0.5, 2, len(X))
        a, b = (
            GeodesicCalibrator(small_forest(), random_state=0).fit(X, y, w).predict_proba(X)
            for w in (weight, 1024 * weight)
        )
        assert_allclose(a, b, atol=1e-9)

    def test_weights_reach_parent_counts_moments_and_prior(self, blobs):
        X, y = blobs
        weight = np.where(y == 1, 3.0, 1.0)
        model = GeodesicCalibrator(small_forest(), random_state=0).fit(X, y, weight)
        share = weight[y == 1].sum() / weight.sum()
        assert model.priors_[1] == pytest.approx(share, abs=0.01)
        counts = model.polytopes_.counts.sum(axis=0)
        assert counts[1] / counts.sum() == pytest.approx(share, abs=0.01)
        plain = GeodesicCalibrator(small_forest(), random_state=0).fit(X, y)
        assert model.predict_proba(X)[:, 1].mean() > plain.predict_proba(X)[:, 1].mean() + 0.01
        root = model.estimator_.estimators_[0].tree_.value[0, 0]
        assert root[1] == pytest.approx(share, abs=0.1)


class TestPrior:
    def test_posterior_and_far_limit_follow_the_prior(self, blobs):
        X, y = blobs
        prior = [0.9, 0.1]
        model = GeodesicCalibrator(small_forest(), random_state=0, prior=prior).fit(X, y)
        assert_array_equal(model.priors_, prior)
        assert_allclose(model.predict_proba(np.full((1, 5), 1e4)), [prior], atol=1e-12)
        # With the gate wide open the posterior alone is left: Bayes' rule with the new prior.
        options = {"random_state": 0, "floor": -1e9}
        plain = GeodesicCalibrator(small_forest(), **options).fit(X, y)
        moved = GeodesicCalibrator(small_forest(), prior=prior, **options).fit(X, y)
        expected = plain.predict_proba(X) * np.array(prior) / plain.priors_
        expected /= expected.sum(axis=1, keepdims=True)
        assert_allclose(moved.predict_proba(X), expected, atol=1e-9)

    def test_the_papers_posterior_follows_too(self, blobs):
        X, y = blobs
        model = GeodesicCalibrator(small_forest(), random_state=0, prior=[0.2, 0.8], **PAPER)
        P = model.fit(X, y).predict_proba(np.full((1, 5), -1e4))
        assert_allclose(P, [[0.2, 0.8]], atol=1e-12)


def test_verbose_shows_progress_bars(digits, capsys):
    X, y = digits
    GeodesicCalibrator(small_forest(), random_state=0, verbose=1).fit(X, y)
    shown = capsys.readouterr().err
    assert "nearest polytopes" in shown


def test_import_loads_no_extra():
    extras = {"torch", "matplotlib", "lightgbm", "skops"}
    code = f"import sys, polycal; print({extras} & set(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "set()"


def test_public_names():
    expected = ["PAPER", "GeodesicCalibrator", "KernelDensityForest", "KernelDensityNetwork"]
    expected += ["TorchParent", "Answer", "Evaluation", "evaluate", "Explanation", "report"]
    expected += ["ModelFileError", "load"]
    expected += ["DataWarning", "FewRowsWarning", "LeakWarning", "ShiftWarning"]
    expected += ["BatchCheck", "Decisions", "ExpectedScores", "Monitor", "StreamStatus", "mlflow"]
    expected += ["datasets", "metrics", "plotting", "simulations"]
    assert sorted(polycal.__all__) == sorted(expected)


def test_verbose_may_change_after_fit(capsys):
    """A model that was fitted with bars answers without, and the other way round."""
    X, y = load_iris(return_X_y=True)
    model = KernelDensityForest(20, random_state=0, verbose=1).fit(X, y)
    capsys.readouterr()
    model.set_params(verbose=0).predict_proba(X)
    assert capsys.readouterr().err == ""
    model.set_params(verbose=1).predict_proba(X)
    assert "nearest polytopes" in capsys.readouterr().err
