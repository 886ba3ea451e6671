"""Adapter.find: every family, what is refused and why, and what all adapters do alike."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.ensemble import (
    BaggingClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier

import polycal.parents
from polycal import TorchParent
from polycal.core.reading import ActivationModes, Reading
from polycal.parents import Adapter, find_adapter
from polycal.parents.bagging import BaggingAdapter
from polycal.parents.boosting import (
    CatBoostAdapter,
    GradientBoostingAdapter,
    HistGradientBoostingAdapter,
    LightGBMAdapter,
    XGBoostAdapter,
)
from polycal.parents.classifier import ClassifierAdapter
from polycal.parents.forest import ForestAdapter
from polycal.parents.keras import KerasAdapter
from polycal.parents.mlp import MLPAdapter
from polycal.parents.pipeline import PipelineAdapter
from polycal.parents.skorch import SkorchAdapter
from polycal.parents.torch.adapter import TorchAdapter
from tests.toys.families import catboost, lightgbm, skorch, torch_net, xgboost
from tests.toys.models import small_forest, small_network


class MyForest(RandomForestClassifier):
    """A subclass, as users write them."""


class MyParent(TorchParent):
    """A subclass, as users write them."""


def xgboost_forest():
    return pytest.importorskip("xgboost").XGBRFClassifier(n_estimators=3)


def module():
    nn = pytest.importorskip("torch").nn
    return nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 2))


FOUND = {
    "random forest": (RandomForestClassifier, ForestAdapter),
    "extra trees": (ExtraTreesClassifier, ForestAdapter),
    "tree": (DecisionTreeClassifier, ForestAdapter),
    "extra tree": (ExtraTreeClassifier, ForestAdapter),
    "subclass": (MyForest, ForestAdapter),
    "bagging": (BaggingClassifier, BaggingAdapter),
    "gradient boosting": (GradientBoostingClassifier, GradientBoostingAdapter),
    "hist gradient boosting": (HistGradientBoostingClassifier, HistGradientBoostingAdapter),
    "lightgbm": (lightgbm, LightGBMAdapter),
    "xgboost": (xgboost, XGBoostAdapter),
    "xgboost forest": (xgboost_forest, XGBoostAdapter),
    "catboost": (catboost, CatBoostAdapter),
    "mlp": (MLPClassifier, MLPAdapter),
    "mlp tanh": (lambda: MLPClassifier(activation="tanh"), MLPAdapter),
    "mlp logistic": (lambda: MLPClassifier(activation="logistic"), MLPAdapter),
    "mlp without units": (lambda: MLPClassifier(activation="identity"), ClassifierAdapter),
    "any classifier": (LogisticRegression, ClassifierAdapter),
    "bagging of no trees": (lambda: BaggingClassifier(LogisticRegression()), ClassifierAdapter),
    "torch": (module, TorchAdapter),
    "torch parent": (lambda: TorchParent(module()), TorchAdapter),
    "torch parent subclass": (lambda: MyParent(module()), TorchAdapter),
    "skorch": (skorch, SkorchAdapter),
    "pipeline": (lambda: make_pipeline(StandardScaler(), small_network()), PipelineAdapter),
    "pipeline of any": (
        lambda: make_pipeline(StandardScaler(), LogisticRegression()),
        PipelineAdapter,
    ),
}


@pytest.mark.filterwarnings("ignore:`XGBRFClassifier` is deprecated:FutureWarning")
@pytest.mark.parametrize("name", FOUND)
def test_every_family_is_found(name):
    build, family = FOUND[name]
    adapter = find_adapter(build())
    assert type(adapter) is family
    assert adapter.problem() is None
    assert adapter.is_fitted == family.pretrained


def test_a_keras_model_is_found_also_where_it_is_a_torch_module(keras):
    L = keras.layers
    model = keras.Sequential([keras.Input((5,)), L.Dense(4, "relu"), L.Dense(2, "softmax")])
    adapter = Adapter.find(model)
    assert type(adapter) is KerasAdapter
    assert adapter.is_fitted
    assert adapter.estimator is model
    with pytest.raises(TypeError, match="Dense is not supported: a single Keras layer"):
        Adapter.find(L.Dense(4))


def test_find_runs_no_code_of_other_families():
    folder = Path(polycal.parents.__file__).parent
    files = set()

    def record(frame, event, argument):
        path = Path(frame.f_code.co_filename)
        if path.is_relative_to(folder):
            files.add(str(path.relative_to(folder)))

    sys.setprofile(record)
    try:
        Adapter.find(RandomForestClassifier())
    finally:
        sys.setprofile(None)
    assert "base.py" in files
    assert files <= {"base.py", "forest.py"}


def catboost_class(name):
    return getattr(pytest.importorskip("catboost"), name)()


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: RandomForestClassifier, r"must be an instance; got the class. Use RandomForestCl"),
        (
            lambda: FrozenEstimator(MyForest),
            r"an instance; got the class. Use MyForest\(\)",
        ),
        (LinearRegression, "LinearRegression is a regressor.*such as LogisticRegression"),
        (LinearSVC, r"LinearSVC has no .* use CalibratedClassifierCV\(LinearSVC\(...\), ensemble"),
        (lambda: None, "estimator=NoneType is not supported: NoneType is not a known family"),
        (lambda: "forest", "estimator=str is not supported"),
        (lambda: GradientBoostingClassifier(init=MyForest()), r"use init=None or \"zero\""),
        (lambda: catboost_class("CatBoost"), r"use catboost.to_classifier\(model\)"),
        (lambda: catboost_class("CatBoostRegressor"), "CatBoostRegressor has no predict_proba"),
        (lambda: module()[:1], "no activation module.*layers="),
        (
            lambda: make_pipeline(StandardScaler(), LinearRegression()),
            "Pipeline is not supported: its last step cannot be read: estimator=LinearRegression",
        ),
        (lambda: make_pipeline(StandardScaler(), "passthrough"), "it ends in 'passthrough'"),
    ],
)
def test_what_is_refused_says_why(build, message):
    with pytest.raises(TypeError, match=message):
        Adapter.find(build())


def test_the_message_lists_every_family_once():
    with pytest.raises(TypeError) as raised:
        Adapter.find(object())
    listed = str(raised.value).split("Supported: ")[1].rstrip(".").split("; ")
    assert len(set(listed)) == len(listed)
    assert {family.family for _, family in FOUND.values()} <= set(listed)
    assert listed[0].startswith("RandomForestClassifier")
    assert listed[-1] == "any classifier with predict_proba and classes_"


def test_a_frozen_estimator_is_used_as_it_is(iris):
    forest = small_forest()
    with pytest.raises(NotFittedError):
        Adapter.find(FrozenEstimator(forest))
    adapter = Adapter.find(FrozenEstimator(forest.fit(*iris)))
    assert adapter.estimator is forest
    assert adapter.is_fitted
    assert not Adapter.find(forest).is_fitted  # fitted or not, it is there to be fitted


def test_a_pretrained_estimator_is_copied_unless_frozen():
    net = module()
    parent = TorchParent(net)
    adapter = Adapter.find(parent)
    assert adapter.estimator is not parent
    assert adapter.estimator.module is net
    assert Adapter.find(FrozenEstimator(parent)).estimator is parent
    assert Adapter.find(net).estimator is net


def test_a_subclass_with_handles_registers_itself_and_one_without_does_not():
    class Rules:
        """Its package is the one of the tests."""

    class RulesAdapter(Adapter):
        family = "rules of the tests"
        handles = ((Rules.__module__.split(".")[0], "Rules"),)

        def read(self, X, verbose=0):
            modes = ActivationModes.from_leaves(np.zeros((len(X), 1)))
            return Reading(modes, np.ones((len(X), 1)), X)

    class OtherRulesAdapter(RulesAdapter):
        pass

    try:
        assert type(Adapter.find(Rules())) is RulesAdapter
    finally:
        for handle in RulesAdapter.handles:
            del polycal.parents.base._ADAPTERS[handle]
    with pytest.raises(TypeError, match="Rules is not a known family"):
        Adapter.find(Rules())


def test_fit_makes_a_fitted_copy(iris):
    X, y = iris
    classes = np.array(["a", "b", "c"])
    adapter = Adapter.find(small_forest())
    fitted = adapter.fit(X, y, classes)
    assert type(fitted) is ForestAdapter
    assert fitted.is_fitted
    assert not hasattr(adapter.estimator, "estimators_")
    assert_array_equal(fitted.known_classes, classes)
    assert fitted.known_features == 4
    expected = small_forest().fit(X, y)
    assert_array_equal(fitted.read(X).modes.codes, expected.apply(X))
    weight = np.where(y == 0, 5.0, 1.0)
    weighted = adapter.fit(X, y, classes, weight)
    expected = small_forest().fit(X, y, sample_weight=weight)
    assert_array_equal(weighted.read(X).modes.codes, expected.apply(X))


def test_labels_are_codes_where_the_family_needs_them():
    codes, classes = np.array([0, 1, 0]), np.array(["no", "yes"])
    assert_array_equal(Adapter.find(small_forest()).labels(codes, classes), ["no", "yes", "no"])
    assert_array_equal(Adapter.find(xgboost()).labels(codes, classes), codes)
    for early_stopping in (False, True):
        adapter = Adapter.find(MLPClassifier(early_stopping=early_stopping))
        assert adapter.wants_codes == early_stopping
    net = skorch()
    assert Adapter.find(net).labels(codes, classes).dtype == np.int64
    with pytest.raises(ValueError, match="NeuralNetClassifier.fit does not take it. Leave it out"):
        Adapter.find(net).weight_argument(np.ones(3))


def test_features_and_classes_of_a_fitted_estimator(iris):
    X, y = iris
    adapter = Adapter.find(FrozenEstimator(small_forest().fit(X, y)))
    adapter.check_features(4, None)
    adapter.check_features(None, np.array(list("abcd")))  # fitted without names
    with pytest.raises(ValueError, match="X has 3 features; .* was fitted on 4"):
        adapter.check_features(3, None)
    adapter.check_classes(np.arange(3), np.ones((1, 3)))
    with pytest.raises(ValueError, match=r"knows the classes .* y holds \[1, 2, 3\]"):
        adapter.check_classes(np.arange(1, 4), np.ones((1, 3)))
    with pytest.raises(ValueError, match="3 probabilities to each row; y holds the 2 classes"):
        adapter.check_classes(np.arange(2), np.ones((1, 3)))
    # Codes stand for any labels where the family needs codes.
    coded = Adapter.find(FrozenEstimator(xgboost().fit(X, y)))
    coded.check_classes(np.array(["a", "b", "c"]), np.ones((1, 3)))


def test_names_of_features():
    pandas = pytest.importorskip("pandas")
    adapter = Adapter.find(small_forest())
    rows = np.zeros((2, 2))
    assert adapter.feature_names(rows, None) == ["x0", "x1"]
    assert adapter.feature_names(rows, np.array(["a", "b"])) == ["a", "b"]
    assert adapter.feature_names(rows, np.array(["a"])) == ["x0", "x1"]
    assert adapter.feature_names(pandas.DataFrame(rows, columns=["p", "q"]), None) == ["p", "q"]


@pytest.mark.parametrize(
    ("estimator", "expected"),
    [
        (RandomForestClassifier(), True),
        (RandomForestClassifier(bootstrap=False), False),
        (ExtraTreesClassifier(), False),
        (DecisionTreeClassifier(), False),
        (BaggingClassifier(), True),
        (make_pipeline(StandardScaler(), RandomForestClassifier()), True),
        (make_pipeline(StandardScaler(), MLPClassifier()), False),
        (HistGradientBoostingClassifier(), False),
    ],
    ids=repr,
)
def test_out_of_bag_rows_are_known(estimator, expected):
    assert Adapter.find(estimator).has_out_of_bag is expected


def test_copies_are_unfitted(iris):
    for estimator in (small_forest(), make_pipeline(StandardScaler(), small_forest())):
        fitted = clone(estimator).fit(*iris)
        adapter = Adapter.find(Adapter.find(fitted).copy())
        with pytest.raises(NotFittedError):
            adapter.check_fitted()
        Adapter.find(fitted).check_fitted()


def test_a_torch_net_is_fitted_by_definition(blobs):
    X, y = blobs
    adapter = Adapter.find(torch_net(X[:50].astype(np.float32), y[:50], steps=1))
    adapter.check_fitted()
    assert adapter.copy() is adapter.estimator
    assert adapter.known_classes is None


def test_no_optional_library_is_imported():
    libraries = {"torch", "keras", "skorch", "lightgbm", "xgboost", "catboost", "polars"}
    code = (
        "import sys, polycal.parents\n"
        "from sklearn.ensemble import RandomForestClassifier\n"
        "polycal.parents.find_adapter(RandomForestClassifier())\n"
        f"print({libraries} & set(sys.modules))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "set()"
