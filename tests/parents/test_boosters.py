"""Raw boosters as frozen parents, and what boosting libraries get of a frame."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.frozen import FrozenEstimator

import polycal
from polycal import DataWarning, GeodesicCalibrator, LeakWarning

lightgbm = pytest.importorskip("lightgbm")
xgboost = pytest.importorskip("xgboost")
catboost = pytest.importorskip("catboost")
polars = pytest.importorskip("polars")


def raw_lightgbm(X, y, **settings):
    settings = {"objective": "binary", "verbose": -1, "num_leaves": 7} | settings
    return lightgbm.train(settings, lightgbm.Dataset(X, y), num_boost_round=5)


def raw_xgboost(X, y, **settings):
    settings = {"objective": "binary:logistic", "max_depth": 3} | settings
    return xgboost.train(settings, xgboost.DMatrix(X, y), num_boost_round=5)


@pytest.mark.parametrize("train", [raw_lightgbm, raw_xgboost])
@pytest.mark.parametrize("freeze", [FrozenEstimator, lambda booster: booster])
def test_raw_boosters(train, freeze, blobs, tmp_path):
    X, y = blobs
    booster = train(X[:300], y[:300])
    words = np.where(y, "yes", "no")
    model = GeodesicCalibrator(freeze(booster), random_state=0)
    model.fit(X[:300], words[:300], X_cal=X[300:], y_cal=words[300:])
    rows = X if train is raw_lightgbm else xgboost.DMatrix(X)
    proba = model.answer(X).reading.proba
    np.testing.assert_allclose(proba[:, 1], booster.predict(rows), rtol=1e-5)
    assert list(model.classes_) == ["no", "yes"]
    model.save(tmp_path / "m.polycal")
    loaded = polycal.load(tmp_path / "m.polycal")
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize(
    ("train", "objective"),
    [
        (raw_lightgbm, "multiclass"),
        (raw_xgboost, "multi:softprob"),
        (raw_xgboost, "multi:softmax"),
    ],
)
def test_three_classes(train, objective, iris):
    X, y = iris
    number = "num_class"
    booster = train(X[::2], y[::2], objective=objective, **{number: 3})
    model = GeodesicCalibrator(FrozenEstimator(booster))
    model.fit(X[::2], y[::2], X_cal=X[1::2] + 1e-3, y_cal=y[1::2])
    assert model.score(X, y) > 0.9


@pytest.mark.parametrize(
    ("train", "objective"), [(raw_lightgbm, "regression"), (raw_xgboost, "reg:squarederror")]
)
def test_boosters_of_numbers_are_refused(train, objective, blobs):
    X, y = blobs
    booster = train(X, y, objective=objective)
    with pytest.raises(TypeError, match="gives no probabilities of classes; use objective="):
        GeodesicCalibrator(FrozenEstimator(booster)).fit(X, y)


@pytest.fixture(scope="module")
def cities():
    """Numbers and a column of words, missing in some rows, on which the label depends."""
    rng = np.random.default_rng(0)
    city = rng.choice(["Bern", "Oslo", "Rom"], 300)
    y = ((city == "Rom") ^ (rng.random(300) < 0.1)).astype(int)
    frame = pd.DataFrame({"size": rng.normal(size=300), "city": city.astype(object)})
    frame.loc[rng.random(300) < 0.1, "city"] = None
    return frame, y


PARENTS = {
    "lightgbm": lambda: lightgbm.LGBMClassifier(n_estimators=5, verbose=-1),
    "xgboost": lambda: xgboost.XGBClassifier(n_estimators=5, enable_categorical=True),
    "catboost": lambda: catboost.CatBoostClassifier(
        5, verbose=0, cat_features=["city"], allow_writing_files=False
    ),
}


@pytest.mark.parametrize("name", PARENTS)
@pytest.mark.parametrize("kind", ["object", "category"])
def test_words_and_missing_categories(name, kind, cities, tmp_path):
    frame, y = cities
    frame = frame.astype({"city": kind})
    model = GeodesicCalibrator(
        PARENTS[name](), categorical_features=["city"], calibration="holdout", random_state=0
    ).fit(frame, y)
    assert model.score(frame, y) > 0.75
    # Rows of one city alone: the same answers, though other categories are not there.
    rome = frame[frame["city"] == "Rom"]
    if kind == "category":
        rome = rome.assign(city=rome["city"].cat.remove_unused_categories())
    expected = model.predict_proba(frame)[(frame["city"] == "Rom").to_numpy()]
    np.testing.assert_allclose(model.predict_proba(rome), expected)
    assert model.predict(rome).mean() > 0.9
    model.save(tmp_path / "m.polycal")
    np.testing.assert_allclose(polycal.load(tmp_path / "m.polycal").predict_proba(rome), expected)


def test_categories_that_the_parent_was_not_told_of(cities):
    frame, y = cities
    frame = frame.astype({"city": "category"})
    with pytest.raises(ValueError, match=r"cat_features=\['city'\]"):
        GeodesicCalibrator(catboost.CatBoostClassifier(5, verbose=0)).fit(frame, y)
    parent = xgboost.XGBClassifier(n_estimators=5, enable_categorical=False)
    with pytest.raises(ValueError, match=r"XGBClassifier\(enable_categorical=True\)"):
        GeodesicCalibrator(parent).fit(frame, y)


@pytest.mark.parametrize(
    "parent",
    [
        lightgbm.LGBMClassifier(n_estimators=9, verbose=-1, early_stopping_rounds=2),
        xgboost.XGBClassifier(n_estimators=9, early_stopping_rounds=2, enable_categorical=True),
    ],
    ids=["lightgbm", "xgboost"],
)
@pytest.mark.filterwarnings("ignore:The argument 'eval_set' is deprecated")
def test_rows_to_stop_by_are_read_as_the_others(parent, blobs):
    """Ids are left out of them, words are categories, labels may be words."""
    X, y = blobs
    words = np.where(y, "yes", "no")
    frame = pd.DataFrame(X, columns=[f"f{j}" for j in range(X.shape[1])])
    frame["id"] = [f"K{i}" for i in range(len(X))]
    frame["city"] = np.where(X[:, 0] > 0, "Rom", "Oslo")
    model = GeodesicCalibrator(parent, calibration="holdout", categorical_features=["city"])
    with pytest.raises(ValueError, match="needs rows to stop by"):
        model.fit(frame, words)
    rows, labels = frame[400:], words[400:]
    given = {"eval_set": [(rows, labels)]}
    with pytest.warns(DataWarning, match="'id'"):
        model.fit(frame[:400], words[:400], **given)
    assert list(model.estimator_.feature_names_in_)[-1] == "city"
    if isinstance(parent, lightgbm.LGBMClassifier):
        rounds = model.estimator_.best_iteration_
        with pytest.warns(DataWarning, match="'id'"):
            model.fit(frame[:400], words[:400], eval_X=rows, eval_y=labels)
        assert model.estimator_.best_iteration_ == rounds
    plain = frame[:400].drop(columns="id")
    with pytest.warns(LeakWarning, match="99 of the 99 rows of eval_set also stand in X, by which"):
        model.fit(plain, words[:400], eval_set=[(plain[:99], words[:99])])


@pytest.mark.filterwarnings("ignore:The argument 'eval_set' is deprecated")
def test_early_stopping_with_an_eval_set(blobs):
    X, y = blobs
    words = np.where(y, "yes", "no")
    early = {"eval_set": [(X[400:], words[400:])]}
    boosted = xgboost.XGBClassifier(n_estimators=60, early_stopping_rounds=1)
    model = GeodesicCalibrator(boosted, calibration="holdout", random_state=0)
    model.fit(X[:400], words[:400], verbose=False, **early)
    assert model.estimator_.best_iteration < 59
    leaves = lightgbm.LGBMClassifier(n_estimators=100, verbose=-1, num_leaves=63)
    model = GeodesicCalibrator(leaves, calibration="holdout", random_state=0)
    stop = lightgbm.early_stopping(1, verbose=False)
    model.fit(X[:400], words[:400], callbacks=[stop], **early)
    assert 0 < model.estimator_.best_iteration_ < 100


def test_a_booster_of_an_objective_of_ones_own_is_refused(blobs):
    X, y = blobs

    def squared(scores, data):
        return scores - data.get_label(), np.ones_like(scores)

    booster = raw_lightgbm(X, y, objective=squared)
    with pytest.raises(TypeError, match='objective "custom" gives no probabilities'):
        GeodesicCalibrator(FrozenEstimator(booster)).fit(X, y)


def test_categories_of_polars_need_enable_categorical(blobs):
    X, y = blobs
    frame = polars.DataFrame({"a": X[:, 0], "c": np.where(X[:, 1] > 0, "u", "v")})
    frame = frame.with_columns(polars.col("c").cast(polars.Categorical))
    with pytest.raises(ValueError, match=r"column 'c' is a category.*enable_categorical=True"):
        GeodesicCalibrator(xgboost.XGBClassifier(n_estimators=3)).fit(frame, y)
    parent = xgboost.XGBClassifier(n_estimators=3, enable_categorical=True)
    assert GeodesicCalibrator(parent, calibration="holdout").fit(frame, y).score(frame, y) > 0.6
