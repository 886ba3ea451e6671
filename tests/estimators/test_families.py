"""Every family through the calibrator: posterior, far limit, weights, priors, files, labels."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from polycal import PAPER, GeodesicCalibrator, TorchParent
from polycal.metrics import auroc
from tests.toys.families import FAMILIES, catboost, lightgbm, skorch, torch_net, xgboost
from tests.toys.models import small_forest, small_network

# Third-party words that are no news: Keras with NumPy 2, and torch.compile's own imports.
pytestmark = [
    pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy keyword"),
    pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated"),
]


@pytest.fixture(scope="module")
def rows(blobs):
    X, y = blobs
    return X.astype(np.float32), y


# ------------------------------------------------------------------ promises


@pytest.mark.parametrize("plan", ["holdout", "cv"])
@pytest.mark.parametrize("name", FAMILIES)
def test_posterior_and_far_limit(name, plan, rows):
    X, y = rows
    model = GeodesicCalibrator(FAMILIES[name](), calibration=plan, random_state=0)
    model.fit(X[:450], y[:450])
    P = model.predict_proba(X[450:])
    assert_allclose(P.sum(axis=1), 1, atol=1e-9)
    assert model.score(X[450:], y[450:]) > 0.8
    loss = -np.log(P[np.arange(150), y[450:]]).mean()
    assert loss < 0.5
    far = np.float32(1e6) * X[:20]
    assert_allclose(model.predict_proba(far), np.tile(model.priors_, (20, 1)), atol=1e-9)
    assert (model.in_distribution(X[450:]) > 0.5).mean() > 0.9


@pytest.mark.parametrize("name", FAMILIES)
def test_the_papers_setting(name, rows):
    X, y = rows
    model = GeodesicCalibrator(FAMILIES[name](), calibration="holdout", random_state=0, **PAPER)
    assert model.fit(X[:450], y[:450]).score(X[450:], y[450:]) > 0.75
    far = np.float32(1e8) * X[:5]
    assert_allclose(model.predict_proba(far), np.tile(model.priors_, (5, 1)), atol=1e-9)


@pytest.mark.parametrize("name", FAMILIES)
def test_frozen_equals_fitted_here(name, rows):
    """The parent fitted outside, on the same rows, gives the same calibrator."""
    X, y = rows
    if name != "skorch":
        X = X.astype(np.float64)  # as polycal hands it on
    held = {"X_cal": X[300:], "y_cal": y[300:]}
    inside = GeodesicCalibrator(FAMILIES[name]()).fit(X[:300], y[:300], **held)
    # skorch draws its weights anew at each fit.
    outside = inside.estimator_ if name == "skorch" else FAMILIES[name]().fit(X[:300], y[:300])
    frozen = GeodesicCalibrator(FrozenEstimator(outside)).fit(X[:300], y[:300], **held)
    assert_allclose(frozen.predict_proba(X), inside.predict_proba(X), atol=1e-7)


@pytest.mark.parametrize("name", FAMILIES)
def test_prior_moves_posterior_and_far_limit(name, rows):
    X, y = rows
    options = {"calibration": "holdout", "random_state": 0, "prior": [0.9, 0.1]}
    model = GeodesicCalibrator(FAMILIES[name](), **options).fit(X, y)
    assert_allclose(model.predict_proba(np.float32(1e6) * X[:3]), [[0.9, 0.1]] * 3, atol=1e-9)
    # Rows drawn as the prior says have the prior's share of class 1 on average.
    kept = np.r_[np.flatnonzero(y == 0)[:270], np.flatnonzero(y == 1)[:30]]
    assert model.predict_proba(X[kept])[:, 1].mean() == pytest.approx(0.1, abs=0.06)


@pytest.mark.parametrize("name", [name for name in FAMILIES if name not in ("network", "skorch")])
def test_sample_weight(name, rows):
    """Weight 0 is no row; the weighted class shares are the priors."""
    X, y = rows
    if name == "pipeline":
        estimator = make_pipeline(StandardScaler(), small_forest())
    else:
        estimator = FAMILIES[name]()
    weight = np.where(y == 1, 3.0, 1.0)
    weight[:100] = 0.0
    options = {"calibration": "holdout", "random_state": 0}
    model = GeodesicCalibrator(estimator, **options).fit(X, y, weight)
    share = weight[y == 1].sum() / weight.sum()
    assert model.priors_[1] == pytest.approx(share)
    assert model.predict_proba(X)[:, 1].mean() > y.mean() + 0.01
    without = GeodesicCalibrator(clone(estimator), **options).fit(X[100:], y[100:], weight[100:])
    assert_allclose(model.predict_proba(X), without.predict_proba(X), atol=1e-6)


@pytest.mark.parametrize("name", ["skorch"])
def test_weights_that_a_parent_does_not_take(name, rows):
    X, y = rows
    with pytest.raises(ValueError, match="sample_weight was given, but NeuralNetClassifier.fit"):
        GeodesicCalibrator(FAMILIES[name]()).fit(X, y, np.ones(len(y)))


@pytest.mark.parametrize("name", FAMILIES)
def test_labels_may_be_words(name, rows):
    X, y = rows
    words = np.array(["no", "yes"])[y]
    options = {"calibration": "holdout", "random_state": 0}
    if name == "skorch":
        pytest.importorskip("torch").manual_seed(0)
    model = GeodesicCalibrator(FAMILIES[name](), **options).fit(X, words)
    assert_array_equal(model.classes_, ["no", "yes"])
    assert (model.predict(X) == words).mean() > 0.8


def test_a_network_that_stops_early_takes_words(rows):
    """scikit-learn 1.8 fails on words there, so the network gets codes."""
    X, y = rows
    words = np.array(["no", "yes"])[y]
    network = small_network(early_stopping=True, solver="adam")
    model = GeodesicCalibrator(network, calibration="holdout", random_state=0).fit(X, words)
    assert_array_equal(model.estimator_.classes_, [0, 1])
    assert set(model.predict(X)) == {"no", "yes"}


@pytest.mark.parametrize("name", FAMILIES)
def test_three_classes(name, iris):
    X, y = iris
    parent = FAMILIES[name]()
    if name == "skorch":
        X, parent = (
            X.astype(np.float32),
            skorch(4, 3).set_params(lr=0.05, max_epochs=200, batch_size=30),
        )
    model = GeodesicCalibrator(parent, random_state=0).fit(X, y)
    assert model.score(X, y) > 0.9
    assert_allclose(model.predict_proba(X[:3] * 1e4), 1 / 3, atol=1e-9)


# ------------------------------------------------------------ libraries' own


def test_native_categories_of_each_library():
    rng = np.random.default_rng(0)
    n = 500
    colour = rng.choice(["red", "green", "blue"], n)
    X = pd.DataFrame({"a": rng.normal(size=n), "colour": pd.Categorical(colour)})
    y = ((X["a"] > 0) ^ (colour == "red")).to_numpy().astype(int)
    X.loc[::9, "a"] = np.nan
    parents = [HistGradientBoostingClassifier(max_iter=30), lightgbm()]
    parents.append(xgboost().set_params(enable_categorical=True, tree_method="hist"))
    parents.append(catboost().set_params(cat_features=["colour"], iterations=60))
    for parent in parents:
        model = GeodesicCalibrator(parent, random_state=0).fit(X[:400], y[:400])
        assert model.score(X[400:], y[400:]) > 0.85
        assert len(model.model_.reference.table.levels[0]) == 3


def test_a_column_transformer_in_front():
    rng = np.random.default_rng(0)
    n = 400
    X = pd.DataFrame(
        {"a": rng.normal(size=n), "b": rng.normal(size=n), "c": rng.choice(["x", "y"], n)}
    )
    y = ((X["a"] > 0) ^ (X["c"] == "x")).to_numpy().astype(int)
    X.loc[::7, "b"] = np.nan
    columns = make_column_transformer(
        (make_pipeline(SimpleImputer(), StandardScaler()), ["a", "b"]),
        (OneHotEncoder(handle_unknown="ignore"), make_column_selector(dtype_exclude="number")),
    )
    for last in (small_forest(), xgboost(), small_network()):
        model = GeodesicCalibrator(make_pipeline(columns, last), random_state=0).fit(X, y)
        assert model.score(X, y) > 0.9
        far = X[:4].assign(a=1e7)
        assert_allclose(model.predict_proba(far), np.tile(model.priors_, (4, 1)), atol=1e-9)
        assert_array_equal(model.feature_names_in_, ["a", "b", "c"])
    with pytest.raises(ValueError, match="[Ff]eature names|columns"):
        model.predict_proba(X[["c", "b", "a"]].rename(columns={"a": "z"}))


@pytest.mark.parametrize("name", ["lightgbm", "xgboost", "catboost"])
def test_a_saved_parent_gives_the_same_result(name, rows, tmp_path):
    X, y = rows
    parent = FAMILIES[name]().fit(X[:300], y[:300])
    path = str(tmp_path / "parent.json")
    if name == "lightgbm":
        import joblib

        joblib.dump(parent, path)
        loaded = joblib.load(path)
    else:
        parent.save_model(path)
        loaded = type(parent)()
        loaded.load_model(path)
    expected, found = (
        GeodesicCalibrator(FrozenEstimator(p))
        .fit(X[:300], y[:300], X_cal=X[300:], y_cal=y[300:])
        .predict_proba(X)
        for p in (parent, loaded)
    )
    assert_allclose(found, expected, atol=1e-7)


# ------------------------------------------------------------------- PyTorch


def test_torch_parent(rows):
    X, y = rows
    net = torch_net(X[:300], y[:300])
    model = GeodesicCalibrator(TorchParent(net)).fit(X[:300], y[:300], X_cal=X[300:], y_cal=y[300:])
    assert model.score(X[300:], y[300:]) > 0.85
    assert_allclose(model.predict_proba(X[:4] * 1e4), np.tile(model.priors_, (4, 1)), atol=1e-9)
    bare = GeodesicCalibrator(net).fit(X[:300], y[:300], X_cal=X[300:], y_cal=y[300:])
    assert_array_equal(bare.predict_proba(X), model.predict_proba(X))
    words = np.array(["no", "yes"])[y]
    named = GeodesicCalibrator(TorchParent(net)).fit(
        X[:300], words[:300], X_cal=X[300:], y_cal=words[300:]
    )
    assert_array_equal(named.predict(X), np.array(["no", "yes"])[model.predict(X)])


def test_torch_data_sets_bring_their_labels(rows):
    torch = pytest.importorskip("torch")
    from torch.utils.data import DataLoader, TensorDataset

    X, y = rows
    net = torch_net(X[:300], y[:300])
    expected = GeodesicCalibrator(TorchParent(net), random_state=0).fit(X[300:], y[300:])
    data = TensorDataset(torch.as_tensor(X[300:]), torch.as_tensor(y[300:]))
    as_set = GeodesicCalibrator(TorchParent(net), random_state=0).fit(data)
    assert_allclose(as_set.predict_proba(X), expected.predict_proba(X), atol=1e-6)
    known = GeodesicCalibrator(TorchParent(net)).fit(
        TensorDataset(torch.as_tensor(X[:300]), torch.as_tensor(y[:300])),
        X_cal=DataLoader(data, batch_size=64, shuffle=True),
    )
    P = known.predict_proba(DataLoader(TensorDataset(torch.as_tensor(X)), batch_size=50))
    assert P.shape == (600, 2)
    assert (P.argmax(axis=1) == y).mean() > 0.85
    with pytest.raises(ValueError, match="y is missing"):
        GeodesicCalibrator(TorchParent(net)).fit(X[300:])
    with pytest.raises(ValueError, match="2 probabilities to each row; y holds the 3 classes"):
        GeodesicCalibrator(TorchParent(net)).fit(X, np.arange(600) % 3)


def test_torch_encoder_and_head(digits):
    """The density lives on the normalised embedding, and other images are far from it."""
    torch = pytest.importorskip("torch")
    X, y = digits
    X = X.astype(np.float32)
    net = torch_net(X[:900], y[:900], n_classes=10, steps=250)
    parent = TorchParent(encoder=net[:2], head=net[2:])
    model = GeodesicCalibrator(parent).fit(X[:900], y[:900], X_cal=X[900:1300], y_cal=y[900:1300])
    assert model.polytopes_.mean.shape[1] == 24
    assert np.linalg.norm(model.answer(X[:50]).X, axis=1) == pytest.approx(1, abs=1e-6)
    assert model.score(X[1300:], y[1300:]) > 0.85
    noise = np.random.default_rng(0).random((300, 64)).astype(np.float32)
    assert auroc(model.score_samples(X[1300:]), model.score_samples(noise)) > 0.7
    tensor = torch.as_tensor(X[1300:])
    assert_allclose(model.predict_proba(tensor), model.predict_proba(X[1300:]), atol=1e-6)


def test_keras(keras, rows):
    X, y = rows
    keras.utils.set_random_seed(0)
    layers = [keras.Input((5,)), keras.layers.Dense(24, activation="relu")]
    net = keras.Sequential([*layers, keras.layers.Dense(2, activation="softmax")])
    net.compile("adam", "sparse_categorical_crossentropy")
    net.fit(X[:300], y[:300], epochs=60, verbose=0)
    model = GeodesicCalibrator(net).fit(X[:300], y[:300], X_cal=X[300:], y_cal=y[300:])
    assert model.score(X[300:], y[300:]) > 0.85
    assert_allclose(model.predict_proba(X[:4] * 1e4), np.tile(model.priors_, (4, 1)), atol=1e-9)


# --------------------------------------------------------- found by a reviewer


def sparse_columns():
    return make_column_transformer(
        (OneHotEncoder(), ["c"]), remainder="passthrough", sparse_threshold=1.0
    )


@pytest.mark.parametrize("name", ["forest", "gradient boosting", "lightgbm", "xgboost", "network"])
def test_a_sparse_matrix_is_read_as_the_parent_reads_it(name):
    """What a sparse matrix leaves out is missing to XGBoost and zero to the others."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=300), "c": rng.choice(list("xyz"), 300)})
    y = ((X["a"] > 0) ^ (X["c"] == "x")).to_numpy().astype(int)
    pipeline = make_pipeline(sparse_columns(), FAMILIES[name]())
    model = GeodesicCalibrator(pipeline, calibration="holdout", random_state=0).fit(X, y)
    expected = model.estimator_.predict_proba(X)
    assert_allclose(model.answer(X).reading.proba, expected, atol=1e-6)
    assert model.score(X, y) > 0.9


def test_loaders_that_shuffle_need_their_own_labels(rows):
    torch = pytest.importorskip("torch")
    from torch.utils.data import DataLoader, TensorDataset

    X, y = rows
    data = TensorDataset(torch.as_tensor(X), torch.as_tensor(y))
    model = GeodesicCalibrator(TorchParent(torch_net(X, y)), random_state=0)
    with pytest.raises(ValueError, match="does not keep the order of its rows"):
        model.fit(DataLoader(data, shuffle=True), y)
    model.fit(DataLoader(data, batch_size=50, shuffle=True))
    assert model.score(X, y) > 0.85
    with pytest.raises(ValueError, match="no answer could be matched"):
        model.predict_proba(DataLoader(data, shuffle=True))
    in_order = model.predict_proba(DataLoader(data, batch_size=50))
    assert_allclose(in_order, model.predict_proba(X), atol=1e-6)


def test_missing_values_behind_a_pipeline(rows):
    X, y = rows
    model = GeodesicCalibrator(
        make_pipeline(StandardScaler(), small_network()), calibration="holdout", random_state=0
    ).fit(X, y)
    holes = X[:3].copy()
    holes[0, 0] = np.nan
    with pytest.raises(ValueError, match="NaN.*imputer"):
        model.predict_proba(holes)


def test_pipelines_that_end_in_a_trained_network(rows):
    X, y = rows
    scaler = StandardScaler().fit(X)
    net = torch_net(scaler.transform(X).astype(np.float32), y)
    pipeline = make_pipeline(scaler, TorchParent(net))
    with pytest.raises(TypeError, match=r"trained already.*FrozenEstimator\(pipeline\)"):
        GeodesicCalibrator(pipeline, calibration="cv").fit(X, y)
    frozen = GeodesicCalibrator(FrozenEstimator(pipeline), random_state=0).fit(X, y)
    assert frozen.score(X, y) > 0.85
    by_hand = GeodesicCalibrator(TorchParent(net), random_state=0)
    expected = by_hand.fit(scaler.transform(X), y).predict_proba(scaler.transform(X))
    assert_allclose(frozen.predict_proba(X), expected, atol=1e-6)


def test_lightgbm_keeps_names_with_spaces_in_its_own_way(rows):
    X, y = rows
    table = pd.DataFrame(X, columns=[f"the {i}th" for i in range(5)])
    parent = lightgbm().fit(table[:300], y[:300])
    model = GeodesicCalibrator(FrozenEstimator(parent)).fit(table[300:], y[300:])
    assert model.score(table, y) > 0.8
    with pytest.raises(ValueError, match="same columns in the same order"):
        GeodesicCalibrator(FrozenEstimator(parent)).fit(table[table.columns[::-1]], y)


def test_catboost_in_a_pipeline(rows):
    X, y = rows
    words = np.array(["8", "9", "10"])[y + (X[:, 0] > 1)]
    pipeline = make_pipeline(StandardScaler(), catboost())
    fitted = clone(pipeline).fit(X, words)
    model = GeodesicCalibrator(FrozenEstimator(fitted), random_state=0).fit(X, words)
    assert (model.predict(X) == words).mean() > 0.85
    listed = make_pipeline("passthrough", catboost().set_params(cat_features=[0]))
    table = pd.DataFrame({"c": np.where(X[:, 0] > 0, "p", "m"), "a": X[:, 1], "b": X[:, 2]})
    options = {"calibration": "holdout", "categorical_features": ["c"], "random_state": 0}
    assert GeodesicCalibrator(listed, **options).fit(table, y).score(table, y) > 0.6


def test_nullable_columns(rows):
    X, y = rows
    table = pd.DataFrame(X[:, :3], columns=["a", "b", "c"]).astype("Float64")
    table.loc[::7, "b"] = pd.NA
    for parent in (small_forest(), HistGradientBoostingClassifier(max_iter=10)):
        model = GeodesicCalibrator(parent, random_state=0).fit(table, y)
        plain = table.astype("float64")
        assert_allclose(model.predict_proba(table), model.predict_proba(plain), atol=1e-12)


def test_a_clone_of_a_torch_parent_is_its_own(rows):
    X, y = rows
    model = GeodesicCalibrator(TorchParent(torch_net(X, y), encoder="0"), random_state=0).fit(X, y)
    before = model.score_samples(X[:5])
    clone(model).set_params(estimator__normalize=False)
    model.set_params(estimator__normalize=False)
    assert_array_equal(model.score_samples(X[:5]), before)
    assert clone(model).estimator.module is model.estimator.module


def test_xgboosts_own_mark_for_missing(rows):
    X, y = rows
    holes = np.where(np.random.default_rng(0).random(X.shape) < 0.1, np.nan, X)
    marked = np.where(np.isnan(holes), -999, holes)
    options = {"calibration": "holdout", "random_state": 0}
    plain = GeodesicCalibrator(xgboost(), **options).fit(holes, y)
    other = GeodesicCalibrator(xgboost().set_params(missing=-999), **options).fit(marked, y)
    assert_allclose(other.predict_proba(marked), plain.predict_proba(holes), atol=1e-6)


def test_the_parent_gets_the_weights_as_they_came(rows):
    X, y = rows
    weight = np.full(300, 0.05)
    model = GeodesicCalibrator(xgboost()).fit(
        X[:300], y[:300], weight, X_cal=X[300:], y_cal=y[300:]
    )
    expected = xgboost().fit(X[:300].astype(float), y[:300], sample_weight=weight)
    assert_allclose(model.estimator_.predict_proba(X), expected.predict_proba(X), atol=1e-6)
    nested = make_pipeline(StandardScaler(), make_pipeline(StandardScaler(), small_forest()))
    assert GeodesicCalibrator(nested).fit(X, y, np.ones(600)).score(X, y) > 0.9


def test_categories_for_a_parent_of_numbers(rows):
    X, y = rows
    table = pd.DataFrame(X[:, :2], columns=["a", "b"])
    table["c"] = pd.Categorical(np.where(X[:, 2] > 0, "yes", "no"))
    with pytest.raises(ValueError, match="'c' is a category.*encode it before this parent"):
        GeodesicCalibrator(small_forest()).fit(table, y)
    with pytest.raises(ValueError, match="X_cal and y_cal go together"):
        GeodesicCalibrator(small_forest()).fit(X, y, y_cal=y)


# ------------------------------------------------------------ optional means


def test_the_core_needs_none_of_the_libraries():
    """With every optional library hidden, polycal imports, fits and names the install line."""
    script = """
import sys
from importlib.abc import MetaPathFinder
class Hidden(MetaPathFinder):
    names = {"torch", "lightgbm", "xgboost", "catboost", "skorch", "keras", "pandas", "polars"}
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in self.names:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Hidden())
import numpy as np
from sklearn.datasets import load_iris
from polycal import KernelDensityForest, TorchParent
X, y = load_iris(return_X_y=True)
assert KernelDensityForest(20, random_state=0).fit(X, y).score(X, y) > 0.9
try:
    TorchParent(None)
except ModuleNotFoundError as error:
    assert 'pip install "polycal[torch]"' in str(error), error
else:
    raise AssertionError("torch is hidden")
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_importing_polycal_loads_no_optional_library():
    script = (
        "import sys, polycal\n"
        "names = {'torch', 'lightgbm', 'xgboost', 'catboost', 'skorch', 'keras', 'matplotlib'}\n"
        "assert not names & set(sys.modules), names & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
