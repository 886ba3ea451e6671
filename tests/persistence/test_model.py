"""Model files: the same model to the last bit; ``test_persistence_bad.py`` has the others."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from safetensors import safe_open
from sklearn.base import clone
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import (
    BaggingClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
)
from sklearn.feature_selection import SelectFromModel
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

import polycal
from polycal import (
    PAPER,
    GeodesicCalibrator,
    KernelDensityForest,
    KernelDensityNetwork,
    TorchParent,
)
from polycal.persistence import UnknownTypeError, WrongModuleError
from polycal.persistence.checksum import xxh64
from polycal.persistence.container import DTYPES, read, write
from polycal.persistence.trees import Trees
from polycal.persistence.values import Packer, Unpacker
from tests.toys.families import FAMILIES, catboost, lightgbm, skorch, torch_net, xgboost
from tests.toys.models import small_forest, small_network

pytestmark = [
    pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy keyword"),
    pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated"),
]
DATA = Path(__file__).parents[1] / "data"


@pytest.fixture(scope="module")
def rows(blobs):
    X, y = blobs
    return X.astype(np.float32), y


def again(model, path, module=None, **options):
    """The model after a way through a file."""
    model.save(path / "m.polycal")
    return polycal.load(path / "m.polycal", module, **options)


def assert_same(loaded, model, X):
    """Every answer is equal to the last bit."""
    assert type(loaded) is type(model)
    assert loaded.classes_.dtype == model.classes_.dtype
    assert_array_equal(loaded.classes_, model.classes_)
    for name in ("predict_proba", "predict", "score_samples", "in_distribution"):
        ours, theirs = getattr(loaded, name)(X), getattr(model, name)(X)
        assert ours.dtype == theirs.dtype
        assert_array_equal(ours, theirs, err_msg=name)
    assert_array_equal(loaded.nearest(X, 3), model.nearest(X, 3))
    ours, theirs = loaded.explain(X), model.explain(X)
    for name in ("verdict", "p_value", "polytope", "similarity", "counts", "surprise"):
        assert_array_equal(getattr(ours, name), getattr(theirs, name), err_msg=name)
    assert [row.tolist() for row in ours.rows] == [row.tolist() for row in theirs.rows]
    assert ours.features == theirs.features
    assert_array_equal(loaded.pool_weights_, model.pool_weights_)
    assert (loaded.gamma_, loaded.log_floor_) == (model.gamma_, model.log_floor_)


# ------------------------------------------------------------------ round trips

MORE = {
    "extra trees": lambda: ExtraTreesClassifier(20, random_state=0),
    "tree": lambda: DecisionTreeClassifier(max_depth=6, random_state=0),
    "best first": lambda: small_forest(max_leaf_nodes=12),
    "entropy": lambda: small_forest(criterion="entropy"),
    "class weights": lambda: ExtraTreesClassifier(
        20, class_weight={0: 1.0, 1: 2.5}, random_state=0
    ),
    "bagging": lambda: BaggingClassifier(n_estimators=20, max_features=0.6, random_state=0),
    "adam": lambda: MLPClassifier((12,), max_iter=20, random_state=0),
}
PARENTS = FAMILIES | MORE


@pytest.mark.parametrize("name", PARENTS)
def test_round_trip(name, rows, tmp_path):
    X, y = rows
    model = GeodesicCalibrator(PARENTS[name](), calibration="holdout", random_state=0)
    model.fit(X[:450], y[:450])
    module = PARENTS[name]() if name == "skorch" else None
    loaded = again(model, tmp_path, module)
    assert_same(loaded, model, X[400:])
    assert_array_equal(loaded.estimator_.predict_proba(X), model.estimator_.predict_proba(X))
    if name != "skorch":
        assert repr(loaded.get_params()) == repr(model.get_params())
        # What was loaded can be saved, and can be fitted again.
        assert_same(again(loaded, tmp_path), model, X[400:])
        refitted = clone(loaded).fit(X[:450], y[:450])
        assert_array_equal(refitted.predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize("name", ["forest", "hist gradient boosting", "xgboost", "pipeline"])
def test_frozen_parents_come_back_frozen(name, rows, tmp_path):
    X, y = rows
    parent = PARENTS[name]().fit(X[:300], y[:300])
    model = GeodesicCalibrator(FrozenEstimator(parent))
    model.fit(X[:300], y[:300], X_cal=X[300:], y_cal=y[300:])
    loaded = again(model, tmp_path)
    assert_same(loaded, model, X)
    assert isinstance(loaded.estimator, FrozenEstimator)
    assert loaded.estimator.estimator is loaded.estimator_
    assert_array_equal(loaded.estimator.predict_proba(X), parent.predict_proba(X))


@pytest.mark.parametrize(
    "options",
    [PAPER, {"distance": "euclidean"}, {"posterior": "parent"}, {"prior": [0.9, 0.1], "floor": -3}],
    ids=["paper", "euclidean", "parent", "prior"],
)
@pytest.mark.parametrize("name", ["forest", "network"])
def test_every_setting(name, options, rows, tmp_path):
    X, y = rows
    model = GeodesicCalibrator(PARENTS[name](), calibration="holdout", random_state=0, **options)
    assert_same(again(model.fit(X[:300], y[:300]), tmp_path), model, X[250:])


def test_a_pool_without_levels(rows, tmp_path):
    X, y = rows
    model = GeodesicCalibrator(small_forest(), random_state=0).fit(X[:300], y[:300])
    posterior = model._posterior
    model._posterior = replace(posterior, pool=replace(posterior.pool, confidence=None))
    loaded = again(model, tmp_path)
    assert loaded._posterior.pool.confidence is None
    assert_same(loaded, model, X[250:])


@pytest.mark.parametrize("plan", ["oob", "cv"])
def test_every_plan(plan, rows, tmp_path):
    X, y = rows
    model = KernelDensityForest(20, calibration=plan, random_state=0).fit(X[:300], y[:300])
    assert_same(again(model, tmp_path), model, X)


def test_the_papers_network(rows, tmp_path):
    X, y = rows
    model = KernelDensityNetwork((16, 8), max_iter=30, calibration="holdout", random_state=0)
    assert_same(again(model.fit(X[:300], y[:300]), tmp_path), model, X)


@pytest.mark.parametrize(
    "labels",
    [
        np.array(["no", "yes, äß"]),
        np.array(["no", "yes"], dtype=object),
        np.array([False, True]),
        np.array([-1.0, 1.0]),
        np.array([3, 7], dtype=np.int8),
    ],
    ids=["words", "objects", "bools", "floats", "small"],
)
def test_labels_keep_their_type(labels, rows, tmp_path):
    X, y = rows
    model = KernelDensityForest(10, calibration="holdout", random_state=0)
    model.fit(X[:200], labels[y[:200]])
    loaded = again(model, tmp_path)
    assert_same(loaded, model, X)
    assert list(map(type, loaded.classes_.tolist())) == list(map(type, model.classes_.tolist()))


def test_labels_of_the_other_byte_order(rows, tmp_path):
    X, y = rows
    model = KernelDensityForest(10, calibration="holdout", random_state=0)
    model.fit(X[:200], np.array([3, 7], dtype=">i4")[y[:200]])
    loaded = again(model, tmp_path)
    assert loaded.classes_.tolist() == [3, 7]
    assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))


def mixed():
    rng = np.random.default_rng(0)
    n = 400
    colour = rng.choice(["red", "green", "blue"], n)
    X = pd.DataFrame({"a": rng.normal(size=n), "b": rng.normal(size=n), "colour": colour})
    y = ((X["a"] > 0) ^ (colour == "red")).to_numpy().astype(int)
    X.loc[::9, "a"] = np.nan
    return X, y


@pytest.mark.parametrize("name", ["hist", "lightgbm", "xgboost", "catboost"])
def test_categories_and_missing_values(name, tmp_path):
    X, y = mixed()
    X["colour"] = X["colour"].astype("category")
    parent = {
        "hist": lambda: HistGradientBoostingClassifier(max_iter=20, random_state=0),
        "lightgbm": lightgbm,
        "xgboost": lambda: xgboost().set_params(enable_categorical=True, tree_method="hist"),
        "catboost": lambda: catboost().set_params(cat_features=["colour"]),
    }[name]()
    model = GeodesicCalibrator(parent, calibration="holdout", random_state=0).fit(X, y)
    loaded = again(model, tmp_path)
    assert_same(loaded, model, X[:100])
    assert_array_equal(loaded.feature_names_in_, ["a", "b", "colour"])
    if name != "xgboost":  # which refuses a level that it has not seen
        new = X[:3].assign(colour=pd.Categorical(["pink"] * 3))
        assert_array_equal(loaded.score_samples(new), model.score_samples(new))


def test_levels_keep_their_type(tmp_path):
    """2, 2.5 and missing are levels of their own type; so are others that a frame may hold."""
    X = pd.DataFrame({"a": np.tile([2.0, 2.5, 7.0], 50), "b": np.arange(150.0)})
    model = KernelDensityForest(10, categorical_features=["a"], random_state=0)
    model.fit(X, np.arange(150) % 3 < 1)
    loaded = again(model, tmp_path)
    assert_same(loaded, model, X)
    levels, known = loaded._landscape.table.levels[0], model._landscape.table.levels[0]
    assert [(type(v), v) for v in levels] == [(type(v), v) for v in known]
    others = np.array([True, 1.5, 2, "x", None, float("inf"), np.float32(2.5)], dtype=object)
    packer = Packer()
    node = json.loads(json.dumps(packer.value("levels", others), allow_nan=False))
    found = Unpacker(packer.arrays).value(node)
    assert [(type(v), v) for v in found] == [(type(v), v) for v in others]


@pytest.mark.parametrize("last", ["forest", "xgboost", "network", "hist"])
def test_pipelines(last, tmp_path):
    X, y = mixed()
    columns = make_column_transformer(
        (make_pipeline(SimpleImputer(), StandardScaler()), ["a", "b"]),
        (OneHotEncoder(handle_unknown="ignore"), make_column_selector(dtype_exclude="number")),
        sparse_threshold=0,
    )
    parent = {
        "forest": small_forest,
        "xgboost": xgboost,
        "network": small_network,
        "hist": lambda: HistGradientBoostingClassifier(max_iter=5, random_state=0),
    }[last]()
    model = GeodesicCalibrator(make_pipeline(columns, parent), calibration="holdout")
    model.set_params(random_state=0).fit(X, y)
    loaded = again(model, tmp_path)
    assert_same(loaded, model, X)
    refitted = clone(loaded).fit(X, y)
    assert_array_equal(refitted.predict_proba(X), model.predict_proba(X))


def test_a_selector_with_boosted_trees_inside(rows, tmp_path):
    """An unfitted estimator as a parameter, a fitted one as an attribute."""
    X, y = rows
    selector = SelectFromModel(GradientBoostingClassifier(n_estimators=5, random_state=0))
    model = GeodesicCalibrator(make_pipeline(selector, small_forest()), calibration="holdout")
    model.set_params(random_state=0).fit(X, y)
    assert_same(again(model, tmp_path), model, X)


# --------------------------------------------------------------------- networks


def test_torch(rows, tmp_path):
    X, y = rows
    net = torch_net(X[:300], y[:300])
    fresh = torch_net(X[:300], y[:300], seed=1, steps=0)
    before = [p.detach().clone() for p in fresh.parameters()]
    for parent in (net, TorchParent(net, batch_size=64), TorchParent(net, layers=["1"])):
        model = GeodesicCalibrator(parent).fit(X[:300], y[:300], X_cal=X[300:], y_cal=y[300:])
        loaded = again(model, tmp_path, fresh)
        assert_same(loaded, model, X)
        assert type(loaded.estimator) is type(parent)
    assert all((a == b).all() for a, b in zip(before, fresh.parameters(), strict=True))
    with pytest.raises(WrongModuleError, match=r"polycal.load\(path, module=net\)"):
        polycal.load(tmp_path / "m.polycal")
    with pytest.raises(WrongModuleError, match="'0.weight' has shape"):
        polycal.load(tmp_path / "m.polycal", torch_net(X[:9, :3], y[:9], steps=0))
    with pytest.raises(WrongModuleError, match="float64; saved was"):
        polycal.load(tmp_path / "m.polycal", torch_net(X[:9], y[:9], steps=0).double())
    with pytest.raises(WrongModuleError, match=r"it lacks \['4.bias', '4.weight'\]"):
        polycal.load(tmp_path / "m.polycal", fresh[:4])
    with pytest.raises(WrongModuleError, match="module is a int"):
        polycal.load(tmp_path / "m.polycal", 3)


def test_torch_encoder_and_head(rows, tmp_path):
    torch = pytest.importorskip("torch")
    X, y = rows
    net = torch_net(X[:300], y[:300])
    fresh = torch_net(X[:300], y[:300], seed=1, steps=0)
    fit = {"X": X[:300], "y": y[:300], "X_cal": X[300:], "y_cal": y[300:]}
    apart = GeodesicCalibrator(TorchParent(encoder=net[:2], head=net[2:])).fit(**fit)
    assert_same(again(apart, tmp_path, (fresh[:2], fresh[2:])), apart, X)
    given = TorchParent(encoder=fresh[:2], head=fresh[2:])
    assert_same(again(apart, tmp_path, given), apart, X)
    with pytest.raises(WrongModuleError, match=r"module=\(encoder, head\)"):
        polycal.load(tmp_path / "m.polycal", fresh)

    class Both(torch.nn.Module):
        def __init__(self, net):
            super().__init__()
            self.body, self.top = net[:2], net[2:]

        def forward(self, x):
            return self.top(self.body(x))

    both = Both(net)
    named = GeodesicCalibrator(TorchParent(both, encoder=both.body, normalize=False)).fit(**fit)
    loaded = again(named, tmp_path, Both(fresh))
    assert_same(loaded, named, X)
    assert loaded.estimator.encoder == "body"


def test_torch_in_bfloat16(rows, tmp_path):
    torch = pytest.importorskip("torch")
    X, y = rows
    net = torch_net(X[:300], y[:300]).to(torch.bfloat16)
    model = GeodesicCalibrator(net).fit(X[:300], y[:300], X_cal=X[300:], y_cal=y[300:])
    fresh = torch_net(X[:300], y[:300], seed=1, steps=0).to(torch.bfloat16)
    assert_same(again(model, tmp_path, fresh), model, X)


def test_skorch_needs_the_net(rows, tmp_path):
    X, y = rows
    model = GeodesicCalibrator(skorch(), calibration="holdout", random_state=0).fit(X, y)
    model.save(tmp_path / "m.polycal")
    with pytest.raises(WrongModuleError, match="expected the skorch net"):
        polycal.load(tmp_path / "m.polycal", skorch().module)


def test_keras(keras, rows, tmp_path):
    X, y = rows

    def network(width=24):
        layers = [keras.Input((5,)), keras.layers.Dense(width, activation="relu")]
        return keras.Sequential([*layers, keras.layers.Dense(2, activation="softmax")])

    keras.utils.set_random_seed(0)
    net = network()
    net.compile("adam", "sparse_categorical_crossentropy")
    net.fit(X[:300], y[:300], epochs=5, verbose=0)
    model = GeodesicCalibrator(net).fit(X[:300], y[:300], X_cal=X[300:], y_cal=y[300:])
    assert_same(again(model, tmp_path, network()), model, X)
    with pytest.raises(WrongModuleError, match="has shape"):
        polycal.load(tmp_path / "m.polycal", network(7))
    with pytest.raises(WrongModuleError, match="expected the Keras model"):
        polycal.load(tmp_path / "m.polycal", 3)


# ----------------------------------------------------------------- trees, values


@pytest.mark.parametrize("name", ["forest", "best first", "entropy", "class weights"])
def test_trees_come_back_node_for_node(name, rows):
    X, y = rows
    forest = PARENTS[name]().fit(X, y)
    trees = [tree.tree_ for tree in forest.estimators_]
    packer = Packer()
    node = Trees.of(trees).pack(packer, "trees")
    told = {
        "forest": ["children", "weight", "value", "impurity"],
        "best first": ["weight", "value", "impurity"],
        "entropy": ["children", "weight", "value"],
        "class weights": ["children", "counts"],
    }
    assert [key for key, part in node.items() if part is None] == told[name]
    found = Trees.unpack(Unpacker(packer.arrays), node, 5)
    for ours, theirs in zip(found.build(5, np.array([2])), trees, strict=True):
        a, b = ours.__getstate__(), theirs.__getstate__()
        assert a["max_depth"] == b["max_depth"]
        assert_array_equal(a["values"], b["values"])
        inner = b["nodes"]["left_child"] >= 0
        for field in b["nodes"].dtype.names:
            # scikit-learn leaves this field of a leaf as the memory was.
            rows_of = inner if field == "missing_go_to_left" else slice(None)
            assert_array_equal(a["nodes"][field][rows_of], b["nodes"][field][rows_of])


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        -(2**70),
        0.1,
        float("inf"),
        "\udc80é",
        [1, [2, (3,)]],
        {"a": (1, 2), 3: None},
        np.float32(0.1),
        np.int8(-3),
        np.str_("x"),
        np.array(2.5),
        np.empty((0, 3)),
        np.array([["a", "bcd"]]),
    ],
    ids=repr,
)
def test_values_keep_type_and_value(value):
    packer = Packer()
    node = json.loads(json.dumps(packer.value("x", value), allow_nan=False))
    found = Unpacker(packer.arrays).value(node)
    assert type(found) is type(value)
    assert_array_equal(found, value) if isinstance(value, np.ndarray) else None
    assert getattr(found, "dtype", None) == getattr(value, "dtype", None)
    assert repr(found) == repr(value)


def test_the_checksum_is_xxh64():
    """Two values of the reference implementation, and the effect of each single bit."""
    content = np.arange(64, dtype=np.uint8)
    assert xxh64(content[:32]) == 0xCBF59C5116FF32B4
    assert xxh64(content) == 0xF7C67301DB6713F0
    sums = {xxh64(content[:45]), xxh64(content[:46]), xxh64(np.append(content[:45], np.uint8(0)))}
    for bit in range(45 * 8):
        other = content[:45].copy()
        other[bit // 8] ^= np.uint8(1 << bit % 8)
        sums.add(xxh64(other))
    assert len(sums) == 3 + 45 * 8


def test_the_file_is_a_safetensors_file(iris, tmp_path):
    safetensors = pytest.importorskip("safetensors.numpy")
    model = KernelDensityForest(10, random_state=0).fit(*iris)
    model.save(tmp_path / "m.polycal")
    found = safetensors.load_file(tmp_path / "m.polycal")
    assert_array_equal(found["polytopes.mean"], model.polytopes_.mean)
    arrays = {name: np.arange(6).astype(dtype).reshape(2, 3) for name, dtype in DTYPES.items()}
    write(tmp_path / "a", {}, arrays | {"empty": np.empty((0, 2)), "scalar": np.array(3.0)})
    _, ours = read(tmp_path / "a")
    theirs = safetensors.load_file(tmp_path / "a")
    assert ours.keys() == theirs.keys()
    for name, array in ours.items():
        assert array.flags.aligned
        assert array.dtype == theirs[name].dtype
        assert_array_equal(array, theirs[name])


# ------------------------------------------------------------------- saving


def test_parameters_that_a_file_cannot_hold(iris, tmp_path):
    model = GeodesicCalibrator(small_forest(), random_state=np.random.RandomState(0)).fit(*iris)
    with pytest.warns(
        UserWarning, match=r"GeodesicCalibrator\(random_state=...\) is a RandomState"
    ):
        model.save(tmp_path / "m.polycal")
    loaded = polycal.load(tmp_path / "m.polycal")
    assert loaded.random_state is None
    assert_same(loaded, model, iris[0])


def test_types_that_a_file_cannot_hold(iris, tmp_path):
    X, y = iris
    model = GeodesicCalibrator(make_pipeline(FunctionTransformer(lambda x: 2 * x), small_forest()))
    with pytest.raises(UnknownTypeError, match="can be imported by name"):
        model.fit(X, y).save(tmp_path / "m.polycal")

    class Own(KernelDensityForest):
        pass

    with pytest.raises(UnknownTypeError, match="does not hold Own"):
        Own(10).fit(X, y).save(tmp_path / "m.polycal")
    assert list(tmp_path.iterdir()) == []


class Doubler(StandardScaler):
    """A transformer of the user's own."""


def test_types_of_the_users_own_need_trust(iris, tmp_path):
    X, y = iris
    model = GeodesicCalibrator(make_pipeline(Doubler(), small_forest()), calibration="holdout")
    model.set_params(random_state=0).fit(X, y)
    path = tmp_path / "m.polycal"
    model.save(path)
    with pytest.raises(
        UnknownTypeError, match=r"holds tests.persistence.test_model.Doubler.*trusted=\["
    ):
        polycal.load(path)
    for trusted in (["tests.persistence.test_model.Doubler"], [Doubler]):
        assert_same(polycal.load(path, trusted=trusted), model, X)


def test_a_save_that_fails_leaves_the_old_file(iris, tmp_path, monkeypatch):
    X, y = iris
    model = KernelDensityForest(10, random_state=0).fit(X, y)
    path = tmp_path / "m.polycal"
    model.save(path)
    before = path.read_bytes()

    def full(handle):
        raise OSError("No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        model.save(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["m.polycal"]


def test_an_unfitted_model_is_not_saved(tmp_path):
    with pytest.raises(ValueError, match="not fitted"):
        KernelDensityForest().save(tmp_path / "m.polycal")


def test_a_module_that_is_not_needed(iris, tmp_path):
    KernelDensityForest(10).fit(*iris).save(tmp_path / "m.polycal")
    with pytest.raises(WrongModuleError, match="holds the whole model"):
        polycal.load(tmp_path / "m.polycal", module=small_forest())


def test_a_first_prediction_makes_no_estimator(iris, tmp_path):
    """scikit-learn's own trees are made from the file only when someone asks for them."""
    model = again(KernelDensityForest(10, random_state=0).fit(*iris), tmp_path)
    model.predict_proba(iris[0])
    assert "estimator" not in vars(model._parent)
    assert len(model.estimator_.estimators_) == 10


def test_permissions_and_links_stay(iris, tmp_path):
    model = KernelDensityForest(10, random_state=0).fit(*iris)
    (tmp_path / "real").mkdir()
    path, link = tmp_path / "real" / "m.polycal", tmp_path / "latest.polycal"
    model.save(path)
    path.chmod(0o600)
    link.symlink_to(path)
    model.save(link)
    assert link.is_symlink()
    assert path.stat().st_mode & 0o777 == 0o600
    assert_same(polycal.load(link), model, iris[0])


def test_a_folder_that_is_not_there(iris, tmp_path):
    model = KernelDensityForest(10, random_state=0).fit(*iris)
    with pytest.raises(FileNotFoundError, match="there is no such folder: .*none'"):
        model.save(tmp_path / "none" / "m.polycal")


def test_only_polytopes_that_vary_keep_their_variance(blobs, tmp_path):
    X, y = blobs
    model = KernelDensityForest(n_estimators=8, random_state=0).fit(X, y)
    place, path = model._landscape, tmp_path / "forest.polycal"
    varies = place.polytopes.variance.any(axis=1)
    assert 0 < varies.sum() < len(varies)
    model.save(path)
    loaded = polycal.load(path)
    assert_array_equal(loaded._landscape.polytopes.variance, place.polytopes.variance)
    with safe_open(path, "numpy") as file:
        assert file.get_slice("polytopes.variance").get_shape() == [varies.sum(), X.shape[1]]
