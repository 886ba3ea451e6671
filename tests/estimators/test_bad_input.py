"""Bad input: the message names the argument, what came, and what to do."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from polycal import GeodesicCalibrator, KernelDensityForest
from polycal.metrics import expected_calibration_error
from tests.toys.models import small_forest, small_network


@pytest.fixture
def fitted(blobs):
    X, y = blobs
    return GeodesicCalibrator(small_forest(), random_state=0).fit(X, y)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_nan_and_infinity(value, blobs, fitted):
    X, y = blobs
    bad = X.copy()
    bad[3, 2] = value
    with pytest.raises(ValueError, match="NaN|infinity"):
        GeodesicCalibrator(small_network()).fit(bad, y)
    if np.isinf(value):  # a forest takes NaN
        with pytest.raises(ValueError, match="infinity"):
            fitted.predict_proba(bad)
    with pytest.raises(ValueError, match="NaN|infinity"):
        GeodesicCalibrator(small_network()).fit(X, y, X_cal=bad, y_cal=y)


def test_values_beyond_the_parents_range(fitted):
    with pytest.raises(ValueError, match="float32"):
        fitted.predict_proba(np.full((1, 5), 1e150))


def test_wrong_width(fitted, blobs):
    X, y = blobs
    with pytest.raises(ValueError, match="3 features.*expecting 5"):
        fitted.predict_proba(X[:, :3])
    with pytest.raises(ValueError, match="3 features.*expecting 5"):
        GeodesicCalibrator(small_forest()).fit(X, y, X_cal=X[:, :3], y_cal=y)


def test_one_class(blobs):
    X, y = blobs
    with pytest.raises(ValueError, match=r"at least 2 classes.*one class, \[0\].*every class"):
        KernelDensityForest(5).fit(X, np.zeros_like(y))


def test_class_with_a_single_row(blobs):
    X, y = blobs
    y = y.copy()
    y[0] = 7
    with pytest.raises(ValueError, match="class 7 has 1 row.*at least 2.*X_cal"):
        KernelDensityForest(5).fit(X, y)


def test_class_missing_from_calibration(blobs):
    X, y = blobs
    only = y == 0
    with pytest.raises(ValueError, match=r"y_cal has no row of class \[1\].*more calibration rows"):
        KernelDensityForest(5).fit(X, y, X_cal=X[only], y_cal=y[only])


def test_unknown_class_in_calibration(blobs):
    X, y = blobs
    with pytest.raises(ValueError, match=r"y_cal holds \[5\].*Remove those rows"):
        KernelDensityForest(5).fit(X, y, X_cal=X[:3], y_cal=[0, 1, 5])


def test_fewer_than_two_calibration_rows(blobs):
    X, y = blobs
    with pytest.raises(ValueError, match="X_cal has 1 row; at least 2.*more rows"):
        KernelDensityForest(5).fit(X, y, X_cal=X[:1], y_cal=y[:1])


def test_half_of_the_calibration_rows(blobs):
    X, y = blobs
    with pytest.raises(ValueError, match="X_cal and y_cal go together"):
        KernelDensityForest(5).fit(X, y, X_cal=X)


def test_unsupported_parents(blobs):
    X, y = blobs
    cases = {
        LinearRegression(): "LinearRegression is a regressor.*such as LogisticRegression",
        LinearSVC(): r"LinearSVC has no predict_proba.*CalibratedClassifierCV\(LinearSVC",
        StandardScaler(): "StandardScaler has no predict_proba, so it is no classifier",
    }
    for parent, message in cases.items():
        with pytest.raises(TypeError, match=message):
            GeodesicCalibrator(parent).fit(X, y)
        with pytest.raises(TypeError, match=message):
            GeodesicCalibrator(FrozenEstimator(parent)).fit(X, y)


def test_unfitted_models(blobs):
    X, y = blobs
    with pytest.raises(NotFittedError):
        GeodesicCalibrator(FrozenEstimator(RandomForestClassifier())).fit(X, y)
    for method in ("predict", "predict_proba", "score_samples", "in_distribution", "nearest"):
        with pytest.raises(NotFittedError):
            getattr(KernelDensityForest(), method)(X)


def test_frozen_parent_with_other_classes(blobs):
    X, y = blobs
    parent = small_forest().fit(X, y + 1)
    with pytest.raises(ValueError, match="knows the classes.*exactly its classes"):
        GeodesicCalibrator(FrozenEstimator(parent)).fit(X, y)


def test_frozen_parent_with_other_features(blobs):
    X, y = blobs
    parent = small_forest().fit(X, y)
    with pytest.raises(ValueError, match="X has 3 features; the frozen estimator.*on 5"):
        GeodesicCalibrator(FrozenEstimator(parent)).fit(X[:, :3], y)


def test_frozen_parent_with_columns_in_another_order(iris):
    X, y = iris
    table = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    parent = small_forest().fit(table, y)
    with pytest.raises(ValueError, match="feature names.*same columns in the same order"):
        GeodesicCalibrator(FrozenEstimator(parent)).fit(table[["d", "c", "b", "a"]], y)


def test_pipelines_and_classes_get_a_remedy(blobs):
    X, y = blobs
    with pytest.raises(TypeError, match="its last step.*LinearRegression is a regressor"):
        GeodesicCalibrator(make_pipeline(StandardScaler(), LinearRegression())).fit(X, y)
    with pytest.raises(TypeError, match=r"Use RandomForestClassifier\(\)"):
        GeodesicCalibrator(RandomForestClassifier).fit(X, y)


def test_ece_refuses_labels_that_are_not_columns():
    with pytest.raises(ValueError, match="searchsorted"):
        expected_calibration_error(["a", "b"], [[0.5, 0.5], [0.1, 0.9]])
    with pytest.raises(ValueError, match="2 rows"):
        expected_calibration_error([0, 1, 1], [[0.5, 0.5], [0.1, 0.9]])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda w: w - 2, "sample_weight must not be negative.*-1.*weight 0"),
        (lambda w: w * np.nan, "sample_weight contains NaN"),
        (lambda w: w * 0, "non-zero"),
        (lambda w: w[:-1], "one number for each of the 600 rows; it holds 599"),
        (lambda w: np.stack([w, w]), "1D"),
        (lambda w: "balanced", "sample_weight must hold one number for each row; got 'balanced'"),
    ],
)
def test_weights(change, message, blobs):
    X, y = blobs
    with pytest.raises(ValueError, match=message):
        KernelDensityForest(5).fit(X, y, change(np.ones(len(y))))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"posterior": "both"}, "posterior must be one of 'pooled'.*got 'both'"),
        ({"gate": None}, "gate must be one of"),
        ({"bandwidth": "x"}, "bandwidth must be one of"),
        ({"distance": "x"}, "distance must be one of"),
        ({"scoring": "accuracy"}, "scoring must be one of"),
        ({"calibration": "never"}, "calibration must be one of"),
        ({"gamma": -1}, "gamma must be a finite number above 0; got -1"),
        ({"gamma": "big"}, 'gamma must be "auto" or a number'),
        ({"floor": float("nan")}, 'floor must be "auto" or a number'),
        ({"floor": float("inf")}, "floor must be below infinity.*floor=-inf trusts every row"),
        ({"n_jobs": 0}, "n_jobs must be None or an integer other than 0; got 0.*-1 for all"),
        ({"n_jobs": "all"}, "n_jobs must be None or an integer.*got 'all'"),
        ({"n_jobs": 1.5}, "n_jobs must be None or an integer"),
        ({"false_alarm": 0}, "false_alarm must lie strictly between 0 and 1"),
        ({"false_alarm": "low"}, 'false_alarm must be "auto" or a number'),
        ({"calibration_size": 1.5}, "calibration_size must lie strictly"),
        ({"n_neighbors": 0}, "n_neighbors must be an integer"),
        ({"n_hyperplanes": -1}, "n_hyperplanes must be an integer of at least 0; got -1"),
        ({"n_hyperplanes": 0.5}, "n_hyperplanes must be an integer of at least 0; got 0.5"),
        ({"regularization": 0}, "regularization must be a finite number above 0"),
        ({"prior": [0.5, 0.6]}, "prior must sum to 1.*Divide"),
        ({"prior": [1.0]}, "prior must hold one probability for each of the 2 classes"),
        ({"prior": [0.0, 1.0]}, "prior must be positive"),
        ({"prior": {0: 0.5, 2: 0.5}}, r"prior must name each of the classes \[0, 1\]"),
    ],
)
def test_parameters(parameters, message, blobs):
    X, y = blobs
    with pytest.raises(ValueError, match=message):
        GeodesicCalibrator(small_forest(), **parameters).fit(X, y)


def test_k_of_nearest(fitted, blobs):
    with pytest.raises(ValueError, match="k must be at most"):
        fitted.nearest(blobs[0][:2], k=10_000)
    with pytest.raises(ValueError, match="k must be an integer"):
        fitted.nearest(blobs[0][:2], k=0)


def test_an_answer_of_another_kind_is_not_explained(iris):
    X, y = iris
    model = KernelDensityForest(20, random_state=0).fit(X, y)
    other = KernelDensityForest(30, random_state=0).fit(X, y)
    with pytest.raises(NotFittedError):
        KernelDensityForest(20).explain_answer(model.answer(X))
    with pytest.raises(TypeError, match=r"what model\.answer\(X\) returns; got ndarray"):
        model.explain_answer(X)
    with pytest.raises(ValueError, match="that of another model"):
        model.explain_answer(other.answer(X))


def test_the_gate_can_be_left_open(blobs):
    """What the message about floor=inf says."""
    X, y = blobs
    model = KernelDensityForest(20, floor=float("-inf"), random_state=0).fit(X, y)
    assert (model.in_distribution(100 * X) == 1).all()


def test_jobs_are_checked_after_the_fit_too(fitted, blobs):
    with pytest.raises(ValueError, match="n_jobs must be None or an integer other than 0"):
        fitted.set_params(n_jobs=0).predict_proba(blobs[0])
    assert fitted.set_params(n_jobs=-1).predict_proba(blobs[0]).shape == (len(blobs[0]), 2)


def test_columns_of_one_name(blobs):
    X, y = blobs
    frame = pd.DataFrame(X, columns=["a", "b", "c", "b", "e"])
    model = GeodesicCalibrator(small_forest(), random_state=0)
    with pytest.raises(ValueError, match="several columns of the name 'b'. Give every column"):
        model.fit(frame, y)
    good = frame.set_axis(list("abcde"), axis=1)
    model.fit(good, y)
    with pytest.raises(ValueError, match="several columns of the name 'b'"):
        model.predict_proba(frame)
    pipe = GeodesicCalibrator(make_pipeline(StandardScaler(), small_forest()), random_state=0)
    with pytest.raises(ValueError, match="several columns of the name 'b'"):
        pipe.fit(frame, y)


def test_weights_whose_sum_overflows(blobs):
    X, y = blobs
    weight = np.full(len(y), 1e308)
    model = GeodesicCalibrator(small_forest(), random_state=0)
    with pytest.raises(ValueError, match=r"its sum overflows.*1e\+308. Divide all weights"):
        model.fit(X, y, sample_weight=weight)
    P = model.fit(X, y, sample_weight=weight / 1e308).predict_proba(X)
    np.testing.assert_array_equal(
        P, model.fit(X, y, sample_weight=np.ones(len(y))).predict_proba(X)
    )


def test_groups_that_leave_no_row_out_of_bag(blobs):
    X, y = blobs
    groups = np.arange(len(y)) % 4
    model = GeodesicCalibrator(RandomForestClassifier(20, random_state=0), calibration="oob")
    with pytest.raises(ValueError, match='"oob".*groups, or copies, are so large.*Use calib'):
        model.fit(X, y, groups=groups)
    assert model.set_params(calibration="cv").fit(X, y, groups=groups).calibration_ == "cv"
