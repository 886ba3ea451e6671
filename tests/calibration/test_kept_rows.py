"""Rows that a model keeps: scored as new rows are, in their shares, and none on both sides."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from polycal import PAPER, GeodesicCalibrator
from polycal.calibration import kept_rows
from polycal.calibration.kept_rows import KeptRows, described, sample_of_classes, single
from polycal.posterior.fit import (
    CalibrationLabels,
    fit_pooled,
    log_proba_without_own,
    refit_through_gate,
)
from tests.toys.models import small_forest


@pytest.fixture(scope="module")
def table():
    return make_classification(1600, n_features=6, n_informative=4, n_classes=3, random_state=2)


def boosting():
    return HistGradientBoostingClassifier(max_iter=10, random_state=0)


PLANS = {
    "oob": (small_forest, {"calibration": "oob"}),
    "cv": (boosting, {"calibration": "cv"}),
    "holdout": (boosting, {"calibration": "holdout"}),
    "hyperplanes": (LogisticRegression, {"calibration": "holdout"}),
    "paper": (small_forest, {"calibration": "holdout", **PAPER}),
    "paper, oob": (small_forest, {"calibration": "oob", **PAPER}),
    "euclidean": (small_forest, {"calibration": "holdout", "distance": "euclidean"}),
    "pipeline": (lambda: make_pipeline(StandardScaler(), boosting()), {"calibration": "cv"}),
}


@pytest.mark.parametrize("name", PLANS)
def test_kept_rows_look_like_new_ones(name, table):
    """Scores, accuracy and confidence are those of new rows, whatever scored the kept ones."""
    X, y = table
    parent, settings = PLANS[name]
    model = GeodesicCalibrator(parent(), random_state=0, **settings).fit(X[:800], y[:800])
    kept, new = model.model_.known_rows, model.answer(X[800:])
    assert len(kept) == len(model.model_.scores.log_f)
    assert kept.X.shape == (len(kept), new.X.shape[1])
    held_out = model.calibration_ == "holdout"
    assert len(kept.X_fit) == (560 if held_out else 0)
    right = kept.probabilities.argmax(axis=1) == kept.y
    assert abs(right.mean() - (new.most_probable == y[800:]).mean()) < 0.08
    confidence = (rows.probabilities.max(axis=1).mean() for rows in (kept, new))
    assert abs(np.subtract(*confidence)) < 0.05
    spread = np.subtract(*np.quantile(new.log_f, [0.75, 0.25]))
    assert abs(np.median(kept.log_f) - np.median(new.log_f)) < 0.25 * spread
    if held_out:  # the parent has seen them, so that they need not be quite alike
        assert abs(np.median(kept.log_f_fit) - np.median(new.log_f)) < 0.6 * spread
    # Features are as the model sees new rows, to single precision.
    assert_array_equal(
        np.sort(kept.X, axis=0)[[0, -1]], np.sort(single(_own(model, X)), 0)[[0, -1]]
    )


def _own(model, X):
    """Encoded features of the kept rows, by their numbers in the training rows."""
    encoded, kept = model.answer(X[:800]).X, model.model_.known_rows
    found = {row.tobytes(): i for i, row in enumerate(single(encoded))}
    return encoded[[found[row.tobytes()] for row in kept.X]]


def test_given_rows_and_a_frozen_parent(table):
    X, y = table
    parent = FrozenEstimator(boosting().fit(X[:500], y[:500]))
    model = GeodesicCalibrator(parent, random_state=0)
    model.fit(X[:500], y[:500], X_cal=X[500:900], y_cal=y[500:900])
    kept = model.model_.known_rows
    assert (len(kept), len(kept.X_fit)) == (400, 500)
    assert_array_equal(np.bincount(kept.y), np.bincount(y[500:900]))
    assert kept.new_weight == 1.0
    # Asked again, the model knows the label of each of these rows; when they were kept, it did not.
    again, own = _again(model, X[500:900], kept), (np.arange(400), kept.y)
    assert kept.probabilities[own].mean() < again[own].mean() - 0.05
    assert np.corrcoef(kept.probabilities.ravel(), again.ravel())[0, 1] > 0.8


def _again(model, X, kept):
    answer = model.answer(X)
    place = {row.tobytes(): i for i, row in enumerate(single(answer.X))}
    return answer.probabilities[[place[row.tobytes()] for row in kept.X]]


def test_no_row_is_on_both_sides(table):
    X, y = table
    for settings in ({"calibration": "oob"}, {"calibration": "holdout"}):
        model = GeodesicCalibrator(small_forest(), random_state=0, **settings)
        model.fit(X[:400], y[:400], groups=np.arange(400) // 2)
        kept = model.model_.known_rows
        first, second = kept.two_sides()
        assert first.shape[1] == second.shape[1] == X.shape[1] + 1
        assert not {row.tobytes() for row in first} & {row.tobytes() for row in second}
        if settings["calibration"] == "oob":
            assert len(first) + len(second) == len(kept)
            assert kept.new_weight == pytest.approx(kept.weight.sum() / len(np.unique(kept.group)))
            half = np.isin(described(kept.X, kept.log_f)[:, 0], first[:, 0])
            assert not set(kept.group[half]) & set(kept.group[~half])


def test_many_rows_are_sampled_in_their_shares(table, monkeypatch):
    """A rare class keeps more rows, each of less weight."""
    monkeypatch.setattr(kept_rows, "MOST_KEPT", 300)
    monkeypatch.setattr(kept_rows, "MOST_FIT_ROWS", 50)
    X, y = table
    rows = np.concatenate([np.flatnonzero(y < 2)[:900], np.flatnonzero(y == 2)[:60]])
    model = GeodesicCalibrator(small_forest(), calibration="holdout", random_state=0)
    model.set_params(calibration_size=0.5).fit(X[rows], y[rows])
    kept, scores = model.model_.known_rows, model.model_.scores
    assert 300 <= len(kept) <= 325
    assert len(kept.X_fit) == 50
    assert (kept.y == 2).sum() == 30
    shares = [np.bincount(rows.y, rows.weight) / rows.weight.sum() for rows in (kept, scores)]
    assert_allclose(*shares, rtol=1e-12)
    assert kept.weight.mean() == pytest.approx(1.0)


def test_rows_of_many_features_are_kept_without_them(table, monkeypatch):
    monkeypatch.setattr(kept_rows, "MOST_NUMBERS", 600)
    X, y = table
    model = GeodesicCalibrator(small_forest(), calibration="holdout", random_state=0)
    kept = model.fit(X[:900], y[:900]).model_.known_rows
    assert (len(kept), len(kept.X), len(kept.X_fit)) == (200, 100, 100)  # 600 by 3 and by 6
    first, second = kept.two_sides()
    assert (len(first), len(second)) == (100, 100)


def test_a_sample_has_every_class():
    y = np.repeat([0, 1, 2], [5000, 400, 3])
    rows = sample_of_classes(y, 3, 1000)
    counts = np.bincount(y[rows])
    assert counts.tolist() == [925, 166, 3]
    assert len(np.unique(rows)) == len(rows)
    assert not (np.diff(rows) > 0).all()
    assert sorted(sample_of_classes(y, 3, 10**6)) == list(range(len(y)))


def test_numbers_beyond_single_precision():
    rows = described(np.array([[1e300, np.nan], [-1e300, 0.1]]), np.array([-np.inf, 1.0]))
    largest = np.finfo(np.float32).max
    assert_array_equal(rows[:, 0], np.array([largest, -largest], dtype=np.float32))
    assert np.isnan(rows[0, 1])
    assert rows[0, 2] == -largest


def test_a_model_without_kept_rows_says_what_to_do(table):
    X, y = table
    model = GeodesicCalibrator(small_forest(), random_state=0).fit(X[:300], y[:300])
    with pytest.raises(ValueError, match="Fit it again"):
        _ = replace(model.model_, kept=None).known_rows


GOOD = {
    "log_f": np.zeros(2),
    "y": np.array([0, 1]),
    "weight": np.ones(2),
    "group": np.arange(2),
    "probabilities": np.array([[0.25, 0.75], [1.0, 0.0]]),
    "X": np.zeros((2, 3), dtype=np.float32),
    "X_fit": np.zeros((1, 3), dtype=np.float32),
    "log_f_fit": np.zeros(1),
}
BAD = {
    "no rows": {name: value[:0] for name, value in GOOD.items()},
    "no features": {"X": GOOD["X"][:0]},
    "more features": {"X": np.zeros((3, 3), dtype=np.float32)},
    "no score": {"log_f": np.array([0.0, np.nan])},
    "no fit score": {"log_f_fit": np.array([np.nan])},
    "no weight": {"weight": np.array([1.0, 0.0])},
    "endless weight": {"weight": np.array([1.0, np.inf])},
    "another class": {"y": np.array([0, 2])},
    "negative class": {"y": np.array([0, -1])},
    "too much": {"probabilities": np.array([[0.5, 0.75], [1.0, 0.0]])},
    "below 0": {"probabilities": np.array([[-0.5, 1.5], [1.0, 0.0]])},
    "no probability": {"probabilities": np.array([[np.nan, 0.5], [1.0, 0.0]])},
    "endless feature": {"X": np.full((2, 3), np.inf, dtype=np.float32)},
    "endless fit feature": {"X_fit": np.full((1, 3), np.inf, dtype=np.float32)},
}


def test_good_rows_contradict_nothing():
    assert not list(KeptRows(**GOOD).contradictions())
    assert not list(KeptRows(**GOOD | {"log_f": np.array([0.0, -np.inf])}).contradictions())


@pytest.mark.parametrize("name", BAD)
def test_contradictions(name):
    assert list(KeptRows(**GOOD | BAD[name]).contradictions())


def test_a_pool_does_not_see_the_labels_of_the_rows_that_it_judges():
    """Labels without any signal: a pool agrees with its own rows, not with those of others."""
    rng = np.random.default_rng(0)
    n, own, others = 60, [], []
    for _ in range(20):
        y, parent = rng.integers(0, 3, n), rng.dirichlet(np.ones(3), n)
        votes = rng.dirichlet(np.ones(3), (6, n))
        even = np.full(3, 1 / 3)
        rows = CalibrationLabels(y, np.ones(n), parent, even, 200, n)
        first = fit_pooled(votes, (1, 3, 3), rows, even)
        how = (votes, (1, 3, 3), rows, np.ones(n), False)
        posterior = refit_through_gate(first, *how)
        own.append(posterior.log_proba(parent, votes)[np.arange(n), y].mean())
        log_pi = log_proba_without_own(posterior, *how, np.arange(n) % 5)
        others.append(log_pi[np.arange(n), y].mean())
        # The row of another label is judged as before.
        flipped = rows._replace(y=np.r_[(y[0] + 1) % 3, y[1:]])
        again = log_proba_without_own(posterior, *how[:2], flipped, *how[3:], np.arange(n) % 5)
        assert_allclose(again[0], log_pi[0], rtol=0, atol=1e-9)
    assert np.mean(own) > -np.log(3) + 0.05
    assert np.mean(others) < -np.log(3)
