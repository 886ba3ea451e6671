"""Boosted trees: modes are the library's own leaves, for exactly the trees it predicts with."""

from __future__ import annotations

import subprocess
import sys

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from sklearn.ensemble import (
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from polycal._utils import sklearn_compat
from polycal._utils.sklearn_compat import hist_gradient_boosting_leaves
from polycal.parents.boosting import (
    CatBoostAdapter,
    GradientBoostingAdapter,
    HistGradientBoostingAdapter,
    LightGBMAdapter,
    XGBoostAdapter,
    check_proba,
)

# LightGBM 4.7 renamed eval_set, XGBoost 3.4 (from Python 3.12 on) is about to drop dart and
# XGBRFClassifier; the older versions that polycal takes know no other names.
pytestmark = [
    pytest.mark.filterwarnings("ignore:The argument 'eval_set' is deprecated"),
    pytest.mark.filterwarnings("ignore:.*`booster=dart` is deprecated"),
    pytest.mark.filterwarnings("ignore:`XGBRFClassifier` is deprecated:FutureWarning"),
]

N, TRAIN = 300, 220
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


def model(name, **kwargs):
    """A small model of each family."""
    if name == "lightgbm":
        lgb = pytest.importorskip("lightgbm")
        small = {"n_estimators": 8, "num_leaves": 6, "min_child_samples": 5, "n_jobs": 1}
        return lgb.LGBMClassifier(**(small | {"verbose": -1} | kwargs))
    if name == "xgboost":
        xgb = pytest.importorskip("xgboost")
        return xgb.XGBClassifier(**({"n_estimators": 8, "max_depth": 3, "n_jobs": 1} | kwargs))
    if name == "catboost":
        cb = pytest.importorskip("catboost")
        small = {"n_estimators": 8, "max_depth": 3, "thread_count": 1, "verbose": 0}
        return cb.CatBoostClassifier(**(small | {"allow_writing_files": False} | kwargs))
    if name == "gb":
        return GradientBoostingClassifier(**({"n_estimators": 8, "random_state": 0} | kwargs))
    return HistGradientBoostingClassifier(
        **({"max_iter": 8, "max_leaf_nodes": 6, "min_samples_leaf": 5} | kwargs)
    )


def numbers(missing=True):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 4))
    binary = (X[:, 0] * X[:, 1] > 0).astype(int)
    three = (X[:, 0] + 0.3 * rng.normal(size=N) > 0).astype(int) + (X[:, 1] > 0.5)
    if missing:
        X[rng.random(X.shape) < 0.1] = np.nan
    return X, binary, three


def frame(missing=True):
    """Three numbers and a category that decides, some of both missing."""
    rng = np.random.default_rng(1)
    X, _, _ = numbers(missing)
    colour = rng.choice(["red", "green", "blue", "grey"], N)
    y = (colour == "red").astype(int) + (colour == "blue") * (np.nan_to_num(X[:, 0]) > 0)
    table = pd.DataFrame(X[:, :3], columns=["a", "b", "c"])
    table["colour"] = pd.Categorical(np.where(rng.random(N) < 0.1, None, colour))
    if not missing:
        table["colour"] = pd.Categorical(colour)
    return table, y


def native(name):
    """A model of the family told of the category, and a frame that it takes."""
    # CatBoost takes missing numbers but wants a missing category as a string.
    table, y = frame()
    if name == "catboost":
        table["colour"] = table["colour"].cat.add_categories("none").fillna("none")
    options = {
        "lightgbm": {"min_data_per_group": 1, "cat_smooth": 0.0},
        "xgboost": {"enable_categorical": True, "max_cat_to_onehot": 1},
        "catboost": {"cat_features": ["colour"]},
        "hgb": {},
    }
    return model(name, **options[name]), table, y


def own_leaves(estimator, X):
    """The library's own leaf indices; a walk in Python where it has none."""
    if isinstance(estimator, HistGradientBoostingClassifier):
        return walk(estimator, X)
    if hasattr(estimator, "calc_leaf_indexes"):
        return estimator.calc_leaf_indexes(X)
    if hasattr(estimator, "booster_"):
        return estimator.booster_.predict(X, pred_leaf=True)
    if hasattr(estimator, "get_booster"):
        import xgboost

        rows = xgboost.DMatrix(X, enable_categorical=True)
        last = getattr(estimator, "best_iteration", -1) + 1
        found = estimator.get_booster().predict(rows, pred_leaf=True, iteration_range=(0, last))
        return found.reshape(len(X), -1)
    return np.stack([tree.apply(X) for tree in estimator.estimators_.ravel()], axis=1)


def walk(estimator, X):
    """Node by node, as the documentation of HistGradientBoosting describes it."""
    values = estimator._preprocess_X(X, reset=False)
    trees = [tree for trees in estimator._predictors for tree in trees]
    leaves = np.empty((len(values), len(trees)), dtype=int)
    for t, tree in enumerate(trees):
        for i, row in enumerate(values):
            at = 0
            while not tree.nodes[at]["is_leaf"]:
                node = tree.nodes[at]
                value = row[node["feature_idx"]]
                if np.isnan(value):
                    left = node["missing_go_to_left"]
                elif node["is_categorical"]:
                    bits = tree.raw_left_cat_bitsets[node["bitset_idx"]]
                    left = bits[int(value) // 32] >> (int(value) % 32) & 1
                else:
                    left = value <= node["num_threshold"]
                at = node["left"] if left else node["right"]
            leaves[i, t] = at
    return leaves


def check_reading(name, estimator, X, constant=True):
    """Leaves and probabilities are the library's, and leaves decide the probabilities."""
    assert FAMILY[name].problem(estimator) is None
    reading = FAMILY[name](estimator).read(X)
    leaves = own_leaves(estimator, X)
    np.testing.assert_array_equal(reading.modes.codes, leaves)
    assert reading.modes.codes.dtype == np.int32
    assert reading.modes.codes.min() >= 0
    assert reading.modes.sizes == (leaves.shape[1],)
    np.testing.assert_array_equal(reading.proba, estimator.predict_proba(X))
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
    assert FAMILY[name].allows_missing(model(name)) == (name != "gb")


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
    table = pl.from_pandas(frame(missing=False)[0])
    with pytest.raises(TypeError, match=r"'colour' is Categorical.*X.to_pandas\(\)"):
        FAMILY[name].check_table(table)
    FAMILY[name].check_table(table.drop("colour"))
    FAMILY[name].check_table(table.to_pandas())


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
    assert FAMILY[name].problem(loaded) is None
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


def test_catboost_columns_come_in_the_order_of_the_sorted_labels():
    X, _, y = numbers()
    labels = np.array(["8", "9", "10"])[y]
    estimator = model("catboost").fit(X, labels)
    assert list(estimator.classes_) == ["8", "9", "10"]
    proba = CatBoostAdapter(estimator).read(X).proba
    np.testing.assert_array_equal(proba, estimator.predict_proba(X)[:, [2, 0, 1]])
    assert np.mean(np.unique(labels)[proba.argmax(axis=1)] == labels) > 0.8


@pytest.mark.parametrize("name", NAMES)
def test_other_models_are_another_family(name):
    others = [RandomForestClassifier(), LogisticRegression(), None, "text"]
    others += [model(other) for other in NAMES if other != name]
    assert [FAMILY[name].problem(other) for other in others] == [""] * len(others)


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
    assert message in FAMILY[name].problem(model(name, **options))


def test_boosters_say_which_wrapper_to_use():
    X, y, _ = numbers()
    booster = model("xgboost").fit(X, y).get_booster()
    assert "model = XGBClassifier() and model.load_model(path)" in XGBoostAdapter.problem(booster)
    booster = model("lightgbm").fit(X, y).booster_
    assert "train LGBMClassifier" in LightGBMAdapter.problem(booster)
    cb = pytest.importorskip("catboost")
    assert "catboost.to_classifier(model)" in CatBoostAdapter.problem(cb.CatBoost())
    assert "CatBoostRegressor has no predict_proba" in CatBoostAdapter.problem(
        cb.CatBoostRegressor()
    )


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


@pytest.mark.parametrize("n_classes", [2, 3])
def test_leaf_values_sum_to_the_decision_function(n_classes):
    """Fails loudly when scikit-learn changes where HistGradientBoosting keeps its trees."""
    X, y = frame()
    y = y if n_classes == 3 else (y > 0).astype(int)
    estimator = model("hgb").fit(X, y)
    leaves = hist_gradient_boosting_leaves(estimator, X)
    scores = np.repeat(estimator._baseline_prediction, N, axis=0)
    trees = [(k, tree) for trees in estimator._predictors for k, tree in enumerate(trees)]
    assert leaves.shape == (N, len(trees))
    for t, (k, tree) in enumerate(trees):
        assert tree.nodes["is_leaf"][leaves[:, t]].all()
        scores[:, k] += tree.nodes["value"][leaves[:, t]]
    known = estimator.decision_function(X).reshape(N, -1)
    np.testing.assert_allclose(scores, known, rtol=1e-12, atol=1e-12)


def test_reading_leaves_does_not_change_the_model():
    X, y = frame()
    estimator = model("hgb").fit(X, y)
    before = estimator.predict_proba(X)
    hist_gradient_boosting_leaves(estimator, X)
    np.testing.assert_array_equal(estimator.predict_proba(X), before)


def test_another_scikit_learn_is_named(monkeypatch):
    X, y, _ = numbers()
    estimator = model("hgb").fit(X, y)
    wanted = f"scikit-learn {sklearn.__version__}".replace(".", r"\.")
    with monkeypatch.context() as patch:
        patch.setattr(sklearn_compat, "_number_nodes", lambda tree: tree)
        with pytest.raises(RuntimeError, match=wanted):
            hist_gradient_boosting_leaves(estimator, X)
    with monkeypatch.context() as patch:
        patch.delattr(estimator, "_predictors")
        with pytest.raises(RuntimeError, match=f"{wanted}.*_predictors"):
            hist_gradient_boosting_leaves(estimator, X)


def test_wrong_rows_get_scikit_learns_own_message():
    X, y, _ = numbers()
    estimator = model("hgb").fit(X, y)
    with pytest.raises(ValueError, match="X has 3 features"):
        HistGradientBoostingAdapter(estimator).read(X[:, :3])


def test_no_optional_library_is_imported():
    code = (
        "import sys, polycal.parents.boosting; "
        "print({'lightgbm', 'xgboost', 'catboost'} & set(sys.modules))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "set()"
