"""Test rows that the model knows, and new rows that it knows nothing of."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder

import polycal
from polycal import GeodesicCalibrator, LeakWarning, ShiftWarning, evaluate, report
from tests.toys.models import small_forest


@pytest.fixture(scope="module")
def table():
    """Numbers, with missing values, and two categories; the label depends on all."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "age": rng.normal(40, 10, 600).round(),
            "income": np.where(rng.random(600) < 0.1, np.nan, rng.lognormal(8, 1, 600)),
            "city": pd.Categorical(rng.choice(["Bern", "Rom", "Oslo"], 600)),
            "is active": pd.Categorical(rng.choice(["0", "1"], 600)),
        }
    )
    y = (frame["age"] > 40) ^ (rng.random(600) < 0.2)
    return frame, y.to_numpy()


@pytest.fixture(scope="module")
def model(table):
    frame, y = table
    parent = HistGradientBoostingClassifier(random_state=0)
    return GeodesicCalibrator(parent, random_state=0).fit(frame[:400], y[:400])


@pytest.mark.parametrize("parent", [None, small_forest(), LogisticRegression()])
def test_evaluation_on_training_rows(parent, blobs, tmp_path):
    X, y = blobs
    fitted = GeodesicCalibrator(parent, random_state=0, calibration="holdout").fit(X[:300], y[:300])
    fitted.save(tmp_path / "m.polycal")
    for some in (fitted, polycal.load(tmp_path / "m.polycal")):
        with pytest.warns(LeakWarning, match="of the 300 rows stand among the training rows"):
            evaluate(some, X[:300], y[:300], n_rounds=5)
        evaluate(some, X[300:], y[300:], n_rounds=5)
        evaluate(some, X[:5], y[:5], n_rounds=5)
    with pytest.warns(LeakWarning, match="stand among"):
        report(fitted, X, y, path=tmp_path / "r.html")
    report(fitted, X[300:], y[300:], path=tmp_path / "r.html")


def test_evaluation_on_training_rows_of_a_frame(model, table):
    frame, y = table
    with pytest.warns(LeakWarning, match="of the 400 rows stand among the training rows"):
        evaluate(model, frame[:400], y[:400], n_rounds=5)
    evaluate(model, frame[400:], y[400:], n_rounds=5)


def test_rows_that_are_equal_by_chance_are_new():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, (800, 6)).astype(float)
    y = rng.integers(0, 2, 800)
    fitted = GeodesicCalibrator(small_forest(), random_state=0).fit(X[:500], y[:500])
    evaluate(fitted, X[500:], y[500:], n_rounds=5)


def test_values_never_seen_are_named(model, table):
    frame = table[0][400:].copy()
    frame["is active"] = pd.Categorical(["no"] * 200, categories=["no", "yes"])
    message = r"100% of the 200 rows are out.*1% were expected: column 'is active' holds values "
    for ask in (model.predict, model.predict_proba):
        with pytest.warns(ShiftWarning, match=message + "never seen, such as 'no'"):
            ask(frame)


def test_categories_behind_a_pipeline_are_named_as_they_were_given():
    rng = np.random.default_rng(0)
    city = np.where(rng.random(600) < 0.5, "Oslo", "Bergen").astype(object)
    city[:3] = "Voss"
    frame = pd.DataFrame({"age": rng.normal(size=600), "city": city})
    y = ((city == "Oslo") ^ (frame["age"] > 0)).astype(int)
    encoder = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
    steps = [("city", encoder, ["city"])]
    codes = ColumnTransformer(steps, remainder="passthrough", verbose_feature_names_out=False)
    parent = make_pipeline(codes, small_forest())
    fitted = GeodesicCalibrator(parent, categorical_features=[0], random_state=0)
    fitted.fit(frame[:400], y[:400])
    new = frame[400:].assign(city="Bodø")
    with pytest.warns(ShiftWarning, match="column 'city' holds values never seen, such as 'Bodø'"):
        fitted.predict(new)


def test_a_number_far_away_is_named(model, table):
    frame = table[0][400:].copy()
    frame["age"] *= 1000
    with pytest.warns(ShiftWarning, match=r"column 'age' is outside of its range.*such as \d+"):
        model.predict_proba(frame)


def test_a_shift_of_all_columns_has_no_single_one_to_blame(blobs):
    X, y = blobs
    fitted = GeodesicCalibrator(small_forest(), random_state=0).fit(X, y)
    with pytest.warns(ShiftWarning, match="expected: 5 of the 5 columns hold values that no"):
        fitted.predict(X + 100 * X.std(axis=0))


def test_no_warning_for_single_rows_or_rows_in_distribution(model, table):
    frame = table[0][400:].copy()
    far = frame.assign(age=1e6)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict_proba(frame)
        model.predict(far[:1])
        model.predict(pd.concat([frame, far[:50]]))
        model.explain(far)
        model.answer(far)
