"""Leaks and too few rows: what is said, that advice helps, and that clean data stay silent."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingClassifier, VotingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from polycal import FewRowsWarning, GeodesicCalibrator, LeakWarning
from polycal.calibration.guards import warn_of_few_rows
from polycal.gate.floor import CalibrationScores
from tests.toys.models import small_forest


@pytest.fixture(scope="module")
def noisy():
    """Rows of which a quarter has a random label: 500 to fit, 300 to calibrate, 700 to test."""
    X, y = make_classification(1500, 8, n_informative=5, flip_y=0.5, random_state=0)
    return np.split(X, [500, 800]), np.split(y, [500, 800])


def frozen(parent, **settings):
    return GeodesicCalibrator(FrozenEstimator(parent), random_state=0, **settings)


def said(fit, *arguments, **rows):
    """Texts of the leak warnings of a fit."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        fit(*arguments, **rows)
    return [str(w.message) for w in found if w.category is LeakWarning]


def test_calibration_rows_that_stand_in_x(noisy):
    (X, X_cal, X_test), (y, y_cal, y_test) = noisy
    parent = small_forest().fit(X, y)
    mixed, labels = np.r_[X_cal[:50], X[:60]], np.r_[y_cal[:50], y[:60]]
    message = "60 of the 110 rows of X_cal also stand in X, the first is row 50 of X_cal.*unfitted"
    for model in (frozen(parent), GeodesicCalibrator(small_forest())):
        with pytest.raises(ValueError, match=message):
            model.fit(X, y, X_cal=mixed, y_cal=labels)
    # Frames, and columns of words, are compared alike.
    table = pd.DataFrame(X).assign(word=np.where(X[:, 0] > 0, "a", "b")).astype({"word": object})
    table.columns = table.columns.astype(str)
    table["word"] = table["word"].astype("category")
    with pytest.raises(ValueError, match="500 of the 500 rows of X_cal also stand in X"):
        GeodesicCalibrator(HistGradientBoostingClassifier()).fit(table, y, X_cal=table, y_cal=y)
    # Both ways out that the message names.
    honest = frozen(parent).fit(X, y, X_cal=X_cal, y_cal=y_cal)
    plain = GeodesicCalibrator(small_forest(), random_state=0).fit(X, y)
    best = log_loss(y_test, parent.predict_proba(X_test))
    assert log_loss(y_test, honest.predict_proba(X_test)) < best
    assert log_loss(y_test, plain.predict_proba(X_test)) < best


def test_natural_copies_are_no_leak():
    rng = np.random.default_rng(0)
    distinct = rng.normal(size=(400, 4))
    rows = distinct[rng.integers(0, 400, 800)]  # copies at random, on both sides of any split
    y = (rows[:, 0] > 0).astype(int)
    GeodesicCalibrator(small_forest()).fit(rows[:600], y[:600], X_cal=rows[600:], y_cal=y[600:])
    cells = rng.integers(0, 3, (800, 4)).astype(float)
    y = rng.integers(0, 2, 800)
    GeodesicCalibrator(small_forest()).fit(cells[:600], y[:600], X_cal=cells[600:], y_cal=y[600:])


def test_a_frozen_parent_without_calibration_rows_says_what_it_assumes(noisy):
    (X, X_cal, _), (y, y_cal, _) = noisy
    parent = LogisticRegression().fit(X, y)
    with pytest.warns(LeakWarning, match="taken to be new.*X_cal and y_cal.*calibration=.holdout"):
        frozen(parent).fit(X_cal, y_cal)
    # Each of the three ways out is silent.
    frozen(parent).fit(X, y, X_cal=X_cal, y_cal=y_cal)
    frozen(parent, calibration="holdout").fit(X_cal, y_cal)
    GeodesicCalibrator(LogisticRegression(), calibration="holdout").fit(X, y)


PARENTS = {
    "forest": small_forest,
    "boosting": lambda: HistGradientBoostingClassifier(random_state=0),
    "pipeline": lambda: make_pipeline(StandardScaler(), small_forest()),
}


@pytest.mark.parametrize("name", PARENTS)
def test_memorised_rows(name, noisy):
    (X, X_cal, _), (y, y_cal, _) = noisy
    both = PARENTS[name]().fit(np.r_[X, X_cal], np.r_[y, y_cal])
    message = r"wrong on \d+ of \d+ calibration rows; a copy.*on \d+\. It seems to know.*by heart"
    leaks = said(frozen(both).fit, X, y, X_cal=X_cal, y_cal=y_cal)
    assert len(leaks) == 1
    assert re.match(f"the frozen parent is {message}", leaks[0])
    assert len(said(frozen(both, calibration="holdout").fit, X, y)) == 1
    # A parent that is honest, and one that no row is memorised by, are not suspected.
    alone = PARENTS[name]().fit(X, y)
    assert not said(frozen(alone).fit, X, y, X_cal=X_cal, y_cal=y_cal)
    assert not said(frozen(alone, calibration="holdout").fit, X_cal, y_cal)


NEIGHBOURS = {
    "alone": KNeighborsClassifier,
    "pipeline": lambda: make_pipeline(StandardScaler(), KNeighborsClassifier()),
    "search": lambda: GridSearchCV(KNeighborsClassifier(), {"n_neighbors": [5, 9]}),
    "vote": lambda: VotingClassifier([("near", KNeighborsClassifier())], voting="soft"),
}


@pytest.mark.parametrize("name", NEIGHBOURS)
def test_rows_that_the_parent_keeps(name, noisy):
    (X, X_cal, _), (y, y_cal, _) = noisy
    both = NEIGHBOURS[name]().fit(np.r_[X, X_cal], np.r_[y, y_cal])
    (leak,) = said(frozen(both).fit, X, y, X_cal=X_cal, y_cal=y_cal)
    assert leak.startswith("300 of 300 calibration rows stand among the rows that the frozen")
    (leak,) = said(frozen(both, calibration="holdout").fit, X, y)
    assert leak.startswith("150 of 150 calibration rows stand")
    alone = NEIGHBOURS[name]().fit(X, y)
    assert not said(frozen(alone).fit, X, y, X_cal=X_cal, y_cal=y_cal)
    assert not said(frozen(alone, calibration="holdout").fit, X_cal, y_cal)


def test_natural_copies_among_kept_rows_are_no_leak():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(400, 4))[rng.integers(0, 400, 800)]
    y = (rows[:, 0] > 0).astype(int)
    parent = KNeighborsClassifier().fit(rows[:600], y[:600])
    assert not said(frozen(parent).fit, rows[:600], y[:600], X_cal=rows[600:], y_cal=y[600:])


def test_a_copy_that_cannot_be_fitted_has_a_stand_in(noisy):
    class FitsOnce(HistGradientBoostingClassifier):
        def fit(self, X, y):
            if len(X) < 800:
                raise RuntimeError("too few")
            return super().fit(X, y)

    (X, X_cal, _), (y, y_cal, _) = noisy
    both = FitsOnce().fit(np.r_[X, X_cal], np.r_[y, y_cal])
    assert len(said(frozen(both).fit, X, y, X_cal=X_cal, y_cal=y_cal)) == 1


def test_the_message_about_plans_does_not_recommend_a_leak(noisy):
    (X, *_), (y, *_) = noisy
    parent = small_forest().fit(X, y)
    with pytest.raises(ValueError, match=r"unfitted.*X_cal and y_cal, rows that are new to it"):
        frozen(parent, calibration="cv").fit(X, y)
    one = {"X_cal": np.zeros((1, 8)), "y_cal": [0]}
    with pytest.raises(ValueError, match=r"Give more rows\.$"):
        frozen(parent).fit(X, y, **one)
    with pytest.raises(ValueError, match=r"or leave X_cal out so that rows of X are held out\.$"):
        GeodesicCalibrator(small_forest()).fit(X, y, **one)


@pytest.mark.parametrize("confidence", [None, 0.9])
def test_too_few_rows_for_the_floor(confidence, noisy):
    (X, *_), (y, *_) = noisy
    settings = {"confidence": confidence, "random_state": 0}
    with pytest.warns(FewRowsWarning, match="60 independent.*too few for false_alarm=0.01") as w:
        GeodesicCalibrator(small_forest(), **settings).fit(X[:60], y[:60])
    level = float(re.search(r"use false_alarm=([\d.]+)\.", str(w[0].message)).group(1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        GeodesicCalibrator(small_forest(), false_alarm=level, **settings).fit(X[:60], y[:60])
        if confidence is None:
            GeodesicCalibrator(small_forest(), **settings).fit(X[:200], y[:200])


def test_the_warning_is_at_the_line_of_the_user(noisy):
    (X, *_), (y, *_) = noisy
    with pytest.warns(FewRowsWarning) as found:
        GeodesicCalibrator(small_forest()).fit(X[:60], y[:60])
    assert found[0].filename == __file__


def test_just_enough_rows_get_no_word():
    def scores(n):
        return CalibrationScores(np.arange(float(n)), np.ones(n))

    needed = scores(200).least_rows(0.05)
    assert needed == pytest.approx(
        19
    )  # of 19 and a new row, the new one is lowest in 1 of 20 cases
    warn_of_few_rows(scores(19), 0.05)
    with pytest.warns(FewRowsWarning, match="^18 independent calibration rows are too few"):
        warn_of_few_rows(scores(18), 0.05)
