"""Boosted trees: modes are the library's own leaves, for exactly the trees it predicts with."""

from __future__ import annotations

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from polycal.core.reading import leaf_type
from polycal.parents.boosting import (
    CatBoostAdapter,
    GradientBoostingAdapter,
    HistGradientBoostingAdapter,
    LightGBMAdapter,
    XGBoostAdapter,
    check_proba,
)
from tests.toys.boosting import N, frame, model, native, numbers, own_leaves

# LightGBM 4.7 renamed eval_set, XGBoost 3.4 (from Python 3.12 on) is about to drop dart and
# XGBRFClassifier; the older versions that polycal takes know no other names.
pytestmark = [
    pytest.mark.filterwarnings("ignore:The argument 'eval_set' is deprecated"),
    pytest.mark.filterwarnings("ignore:.*`booster=dart` is deprecated"),
    pytest.mark.filterwarnings("ignore:`XGBRFClassifier` is deprecated:FutureWarning"),
]

TRAIN = 220
NAMES = ["lightgbm", "xgboost", "catboost", "gb", "hgb"]
NATIVE = ["lightgbm", "xgboost", "catboost", "hgb"]  # take missing values and categories
FAMILY = {
    "lightgbm": LightGBMAdapter,
    "xgboost": XGBoostAdapter,
    "catboost": CatBoostAdapter,
    "gb": GradientBoostingAdapter,
    "hgb": HistGradientBoostingAdapter,
}


@pytest.fixture(autouse=True)
def one_thread():
    """Threads of HistGradientBoosting wait for each other on a busy machine."""
    with threadpool_limits(1):
        yield


def check_reading(name, estimator, X, constant=True):
    """Leaves and probabilities are the library's, and leaves decide the probabilities."""
    assert FAMILY[name](estimator).problem() is None
    reading = FAMILY[name](estimator).read(X)
    leaves = own_leaves(estimator, X)
    np.testing.assert_array_equal(reading.modes.codes, leaves)
    assert reading.modes.codes.dtype == leaf_type(reading.modes.codes)
    assert reading.modes.codes.min() >= 0
    assert reading.modes.sizes == (leaves.shape[1],)
    np.testing.assert_allclose(reading.proba, estimator.predict_proba(X), rtol=1e-13)
    assert reading.proba.dtype == np.float64
    assert reading.features is X
    distinct, where = reading.modes.distinct()
    assert len(distinct) > 3
    spread = max(np.ptp(reading.proba[where == i], axis=0).max() for i in range(len(distinct)))
    assert (spread < 1e-6) == constant
    return reading


def assert_equal_readings(one, other):
    np.testing.assert_array_equal(one.modes.codes, other.modes.codes)
    np.testing.assert_array_equal(one.proba, other.proba)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_modes_are_the_librarys_leaves(name, n_classes):
    X, binary, three = numbers(missing=name != "gb")
    y = binary if n_classes == 2 else three
    estimator = model(name).fit(X[:TRAIN], y[:TRAIN])
    reading = check_reading(name, estimator, X)
    # K trees a round are all symbols; CatBoost has one tree for all classes.
    a_round = 1 if n_classes == 2 or name == "catboost" else 3
    assert reading.modes.sizes == (8 * a_round,)
    one = FAMILY[name](estimator).read(X[:1])
    assert_equal_readings(one, reading.take(np.array([0])))


@pytest.mark.parametrize("name", NAMES)
def test_one_tree_is_one_column(name):
    X, y, _ = numbers(missing=False)
    estimator = model(name, **{"max_iter" if name == "hgb" else "n_estimators": 1}).fit(X, y)
    assert check_reading(name, estimator, X).modes.codes.shape == (N, 1)


@pytest.mark.parametrize("name", NAMES)
def test_missing_values_are_allowed_where_the_library_takes_them(name):
    assert FAMILY[name](model(name)).allows_missing == (name != "gb")


@pytest.mark.parametrize("name", NATIVE)
def test_missing_values_and_categories_pass_through(name):
    estimator, X, y = native(name)
    estimator.fit(X[:TRAIN], y[:TRAIN])
    reading = check_reading(name, estimator, X)
    # The category is used: another one, another leaf.
    other = X.copy()
    other["colour"] = X["colour"].cat.rename_categories({"red": "blue", "blue": "red"})
    assert (FAMILY[name](estimator).read(other).modes.codes != reading.modes.codes).any()
    # The order in which the frame happens to list its categories is not.
    listed = X.copy()
    listed["colour"] = X["colour"].cat.reorder_categories(X["colour"].cat.categories[::-1])
    assert_equal_readings(FAMILY[name](estimator).read(listed), reading)


@pytest.mark.parametrize("name", ["lightgbm", "catboost", "hgb"])
def test_unseen_category(name):
    estimator, X, y = native(name)
    estimator.fit(X, y)
    unseen = X.copy()
    unseen["colour"] = pd.Categorical(["violet"] * N)
    reading = check_reading(name, estimator, unseen)
    if name != "catboost":  # which estimates a score for the unseen
        unknown = X.copy()
        unknown["colour"] = pd.Categorical([None] * N, categories=X["colour"].cat.categories)
        assert_equal_readings(reading, FAMILY[name](estimator).read(unknown))


def test_unseen_category_is_refused_by_xgboost_itself():
    xgboost = pytest.importorskip("xgboost", minversion="3.1")
    estimator, X, y = native("xgboost")
    estimator.fit(X, y)
    X["colour"] = pd.Categorical(["violet"] * N)
    with pytest.raises(xgboost.core.XGBoostError, match="category not in the training set"):
        XGBoostAdapter(estimator).read(X)


@pytest.mark.parametrize("name", NAMES)
def test_frames_of_numbers(name):
    X, _, y = numbers(missing=False)
    estimator = model(name).fit(X, y)
    wanted = FAMILY[name](estimator).read(X)
    columns = ["a", "b", "c", "d"]
    for table in (pd.DataFrame(X, columns=columns), pl.DataFrame(X, schema=columns)):
        named = model(name).fit(table, y)
        assert_equal_readings(FAMILY[name](named).read(table), wanted)


@pytest.mark.parametrize("name", ["xgboost", "hgb"])
def test_polars_categories(name):
    estimator, X, y = native(name)
    wanted = FAMILY[name](estimator.fit(X, y)).read(X)
    levels = pl.Enum(list(X["colour"].cat.categories))  # XGBoost 3.4 refuses pl.Categorical
    table = pl.from_pandas(X).with_columns(pl.col("colour").cast(levels))
    reading = FAMILY[name](estimator.fit(table, y)).read(table)
    np.testing.assert_allclose(reading.proba, wanted.proba, atol=1e-6)


@pytest.mark.parametrize("name", ["lightgbm", "catboost"])
def test_polars_categories_that_crash_the_library_are_refused(name):
    adapter = FAMILY[name](model(name))
    table = pl.from_pandas(frame(missing=False)[0])
    with pytest.raises(TypeError, match=r"'colour' is Categorical.*X.to_pandas\(\)"):
        adapter.check_table(table)
    adapter.check_table(table.drop("colour"))
    if name == "catboost":
        adapter.estimator.set_params(cat_features=["colour"])
    adapter.check_table(table.to_pandas())


@pytest.mark.parametrize("name", NATIVE)
def test_huge_numbers(name):
    X, _, y = numbers()
    estimator = model(name).fit(X, y)
    far = X.copy()
    far[:100, 0], far[50:150, 1] = 1e300, -1e300
    edge = np.clip(far, -1e30, 1e30)  # beyond every split as well
    reading = FAMILY[name](estimator).read(far)
    assert_equal_readings(reading, FAMILY[name](estimator).read(edge))
    columns = ["a", "b", "c", "d"]
    for table in (pd.DataFrame(far, columns=columns), pl.DataFrame(far, schema=columns)):
        named = model(name).fit(pd.DataFrame(X, columns=columns), y)
        assert_equal_readings(FAMILY[name](named).read(table), reading)
    assert far[0, 0] == 1e300  # the caller's rows stay as they were


def test_gradient_boosting_names_the_range_of_its_trees():
    X, y, _ = numbers(missing=False)
    estimator = model("gb").fit(X, y)
    with pytest.raises(ValueError, match=r"1e\+300, beyond the range of float32"):
        GradientBoostingAdapter(estimator).read(np.full((1, 4), 1e300))


@pytest.mark.parametrize("name", NAMES)
def test_early_stopping_reads_the_trees_used(name):
    X, _, y = numbers(missing=False)
    y = np.where(np.random.default_rng(2).random(N) < 0.2, (y + 1) % 3, y)
    train, valid = (X[:TRAIN], y[:TRAIN]), (X[TRAIN:], y[TRAIN:])
    if name == "lightgbm":
        stop = pytest.importorskip("lightgbm").early_stopping
        estimator = model(name, n_estimators=60, learning_rate=0.5)
        estimator.fit(*train, eval_set=[valid], callbacks=[stop(3, verbose=False)])
        used = 3 * estimator.best_iteration_
    elif name == "xgboost":
        estimator = model(name, n_estimators=60, early_stopping_rounds=3, learning_rate=0.5)
        estimator.fit(*train, eval_set=[valid], verbose=False)
        used = 3 * (estimator.best_iteration + 1)
        assert estimator.get_booster().num_boosted_rounds() * 3 > used  # trees to leave out
    elif name == "catboost":
        estimator = model(name, n_estimators=60, early_stopping_rounds=3, learning_rate=0.5)
        estimator.fit(*train, eval_set=[valid])
        used = estimator.best_iteration_ + 1
    elif name == "gb":
        estimator = model(name, n_estimators=60, n_iter_no_change=2, learning_rate=0.5)
        used = 3 * estimator.fit(*train).n_estimators_
    else:
        estimator = model(name, max_iter=60, n_iter_no_change=2, learning_rate=0.5)
        estimator.set_params(early_stopping=True, random_state=0)
        used = 3 * estimator.fit(*train).n_iter_
    reading = check_reading(name, estimator, X)
    assert reading.modes.sizes == (used,)
    assert used < 60 * (1 if name == "catboost" else 3)


@pytest.mark.parametrize("name", NAMES)
def test_saved_and_loaded(name, tmp_path):
    if name == "gb":
        X, _, y = numbers(missing=False)
        estimator = model(name)
    else:
        estimator, X, y = native(name)
    estimator.fit(X[:TRAIN], y[:TRAIN])
    path = str(tmp_path / "model.json")
    if name == "xgboost":
        estimator.save_model(path)
        loaded = type(estimator)()
        loaded.load_model(path)
    elif name == "catboost":
        estimator.save_model(path, format="cbm")
        loaded = type(estimator)().load_model(path, format="cbm")
    else:
        joblib.dump(estimator, path)
        loaded = joblib.load(path)
    assert FAMILY[name](loaded).problem() is None
    assert_equal_readings(FAMILY[name](loaded).read(X), FAMILY[name](estimator).read(X))


def test_early_stopping_survives_xgboosts_own_format(tmp_path):
    X, _, y = numbers()
    estimator = model("xgboost", n_estimators=60, early_stopping_rounds=2, learning_rate=1.0)
    estimator.fit(X[:TRAIN], y[:TRAIN], eval_set=[(X[TRAIN:], y[TRAIN:])], verbose=False)
    estimator.save_model(tmp_path / "model.json")
    loaded = type(estimator)()
    loaded.load_model(tmp_path / "model.json")
    reading = XGBoostAdapter(loaded).read(X)
    assert_equal_readings(reading, XGBoostAdapter(estimator).read(X))
    assert reading.modes.sizes == (3 * (estimator.best_iteration + 1),)


VARIANTS = [
    ("lightgbm", {"boosting_type": "dart", "drop_rate": 0.9, "skip_drop": 0.0}, 24),
    ("lightgbm", {"boosting_type": "rf", "bagging_freq": 1, "bagging_fraction": 0.7}, 24),
    ("lightgbm", {"data_sample_strategy": "goss"}, 24),
    ("xgboost", {"booster": "dart", "rate_drop": 0.5}, 24),
    ("xgboost", {"objective": "multi:softmax"}, 24),
    ("xgboost", {"num_parallel_tree": 2}, 48),
    ("xgboost", {"grow_policy": "lossguide", "max_leaves": 6, "max_depth": 0}, 24),
    ("xgboost", {"multi_strategy": "multi_output_tree"}, 8),
    ("catboost", {"grow_policy": "Lossguide", "num_leaves": 6}, 8),
    ("catboost", {"grow_policy": "Depthwise"}, 8),
    ("gb", {"init": "zero"}, 24),
    ("gb", {"subsample": 0.5}, 24),
]


@pytest.mark.parametrize(("name", "options", "n_trees"), VARIANTS)
def test_variants_that_work(name, options, n_trees):
    X, _, y = numbers(missing=name != "gb")
    estimator = model(name, **options).fit(X, y)
    assert check_reading(name, estimator, X).modes.sizes == (n_trees,)


def test_xgboost_drops_trees_without_dart():
    """From 3.4 on the tree booster takes the dropout parameters itself."""
    pytest.importorskip("xgboost", minversion="3.4")
    X, _, y = numbers()
    estimator = model("xgboost", rate_drop=0.5).fit(X, y)
    assert check_reading("xgboost", estimator, X).modes.sizes == (24,)
    plain = model("xgboost").fit(X, y)
    assert (estimator.predict_proba(X) != plain.predict_proba(X)).any()  # trees were dropped


def test_xgboost_random_forest():
    xgboost = pytest.importorskip("xgboost")
    X, _, y = numbers()
    estimator = xgboost.XGBRFClassifier(n_estimators=5, max_depth=4, n_jobs=1).fit(X, y)
    assert check_reading("xgboost", estimator, X).modes.sizes == (15,)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_linear_trees_have_leaves_but_no_constant_probability(n_classes):
    X, binary, three = numbers()
    y = binary if n_classes == 2 else three
    estimator = model("lightgbm", linear_tree=True).fit(X, y)
    check_reading("lightgbm", estimator, X, constant=False)
    far = np.where(np.isnan(X), X, 1e300)
    assert np.isfinite(LightGBMAdapter(estimator).read(far).proba).all()


def test_catboost_text_and_embeddings():
    X, y = frame(missing=False)
    words = {"red": "warm red day", "green": "cold wet", "blue": "sea wind", "grey": "rain"}
    X["text"] = [words[colour] for colour in X.pop("colour")]
    estimator = model("catboost", text_features=["text"]).fit(X, y)
    check_reading("catboost", estimator, X)
    X["text"] = list(np.random.default_rng(3).normal(size=(N, 5)) + y[:, None])
    estimator = model("catboost", embedding_features=["text"]).fit(X, y)
    check_reading("catboost", estimator, X)


def test_catboost_is_told_of_columns_of_words():
    X, y = frame(missing=False)
    X["colour"] = X["colour"].astype(object)
    with pytest.raises(ValueError, match=r"Use CatBoostClassifier\(cat_features=\['colour'\]\)"):
        CatBoostAdapter(model("catboost")).fit(X, y, np.unique(y))
    named = model("catboost", cat_features=["colour"])  # as the message says
    assert np.isfinite(CatBoostAdapter(named).fit(X, y, np.unique(y)).read(X).proba).all()


@pytest.mark.parametrize("name", ["lightgbm", "xgboost", "catboost"])
def test_numbers_as_objects_are_numbers(name):
    X, y, _ = numbers()
    plain = pd.DataFrame(X, columns=list("abcdefghij")[: X.shape[1]])
    objects = plain.astype({"a": object})
    classes = np.unique(y)
    first, second = (FAMILY[name](model(name)).fit(T, y, classes).read(T) for T in (plain, objects))
    np.testing.assert_array_equal(first.proba, second.proba)


def test_xgboost_is_told_of_categories():
    X, y = frame(missing=False)
    X["colour"] = X["colour"].astype(object)
    parent = XGBoostAdapter(model("xgboost", enable_categorical=False))
    with pytest.raises(ValueError, match=r"Use XGBClassifier\(enable_categorical=True\)"):
        parent.fit(X, y, np.unique(y))


def test_catboost_columns_come_in_the_order_of_the_sorted_labels():
    X, _, y = numbers()
    labels = np.array(["8", "9", "10"])[y]
    estimator = model("catboost").fit(X, labels)
    assert list(estimator.classes_) == ["8", "9", "10"]
    proba = CatBoostAdapter(estimator).read(X).proba
    np.testing.assert_array_equal(proba, estimator.predict_proba(X)[:, [2, 0, 1]])
    assert np.mean(np.unique(labels)[proba.argmax(axis=1)] == labels) > 0.8


def squares(y_true, y_pred):
    return y_pred - y_true, np.ones_like(y_pred)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("xgboost", {"booster": "gblinear"}, 'no leaves; use booster="gbtree"'),
        ("xgboost", {"objective": "binary:logitraw"}, 'use objective="binary:logistic"'),
        ("xgboost", {"objective": squares}, 'raw scores; use objective="binary:logistic"'),
        ("lightgbm", {"objective": squares}, 'raw scores; use objective="binary"'),
        ("gb", {"init": LogisticRegression()}, "no leaf shows; use init=None"),
    ],
)
def test_settings_that_cannot_work_say_what_to_do(name, options, message):
    assert message in FAMILY[name](model(name, **options)).problem()


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("lightgbm", {"objective": "multiclassova"}, '"binary" or "multiclass"'),
        ("catboost", {"loss_function": "MultiClassOneVsAll"}, '"Logloss" or "MultiClass"'),
    ],
)
def test_rows_that_are_no_probabilities(name, options, message):
    X, _, y = numbers()
    estimator = model(name, **options).fit(X, y)
    with pytest.raises(ValueError, match=f"must give rows of probabilities.*{message}"):
        FAMILY[name](estimator).read(X)


def test_check_proba():
    good = np.array([[0.25, 0.75], [1.0, 0.0]], dtype=np.float32)
    np.testing.assert_array_equal(check_proba(good, "A", "b"), good)
    for bad in ([0.5, 0.6], [np.nan, np.nan], [1.5, -0.5], [np.inf, 0.0]):
        with pytest.raises(ValueError, match="A must give rows .* got .* Train it with b"):
            check_proba([[0.5, 0.5], bad], "A", "b")
    with pytest.raises(ValueError, match=r"got 0.25\. "):
        check_proba([0.25, 0.5], "A", "b")


def test_wrong_rows_get_scikit_learns_own_message():
    X, y, _ = numbers()
    estimator = model("hgb").fit(X, y)
    with pytest.raises(ValueError, match="X has 3 features"):
        HistGradientBoostingAdapter(estimator).read(X[:, :3])
