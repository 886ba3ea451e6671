"""Pipelines: the last step is read on the output of the steps before it."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.exceptions import NotFittedError
from sklearn.feature_selection import SelectKBest
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

from polycal import TorchParent
from polycal.parents import Adapter
from polycal.parents.forest import ForestAdapter
from tests.toys.families import torch_net, xgboost
from tests.toys.models import small_forest, small_network


class MyPipeline(Pipeline):
    """May resample rows on the way, as those of imbalanced-learn do."""


def test_the_last_step_reads_what_the_others_return(iris):
    X, y = iris
    pipeline = make_pipeline(StandardScaler(), SelectKBest(k=2), small_forest()).fit(X, y)
    adapter = Adapter.find(FrozenEstimator(pipeline))
    reading, inner = adapter.read(X), pipeline[:-1].transform(X)
    expected = ForestAdapter(pipeline[-1]).read(inner)
    assert_array_equal(reading.modes.codes, expected.modes.codes)
    assert_array_equal(reading.proba, expected.proba)
    assert_array_equal(reading.features, inner)
    assert adapter.known_features == 4
    assert_array_equal(adapter.known_classes, [0, 1, 2])
    chosen = pipeline[:-1].get_feature_names_out()
    assert adapter.feature_names(reading.features, np.array(list("abcd"))) == list(chosen)


def test_a_step_without_names_of_its_output(iris):
    X, y = iris
    adapter = Adapter.find(make_pipeline(FunctionTransformer(), small_forest()).fit(X, y))
    assert adapter.feature_names(X, np.array(list("abcd"))) == ["x0", "x1", "x2", "x3"]
    alone = Adapter.find(make_pipeline(small_forest()).fit(X, y))
    assert alone.feature_names(alone.read(X).features, np.array(list("abcd"))) == list("abcd")


def test_sparse_output_is_dense_where_the_last_step_needs_it():
    X, y = np.arange(60)[:, None] % 4, np.arange(60) % 2
    for last in (small_forest(), xgboost()):
        pipeline = make_pipeline(OneHotEncoder(), last).fit(X, y)
        reading = Adapter.find(pipeline).read(X)
        assert_array_equal(reading.features, pipeline[0].transform(X).toarray())
        np.testing.assert_allclose(reading.proba, pipeline.predict_proba(X), atol=1e-6)


def test_questions_about_labels_and_weights_go_to_the_last_step():
    codes, classes, weight = np.array([1, 0]), np.array(["a", "b"]), np.ones(2)
    inner = Pipeline([("scale", StandardScaler()), ("model", xgboost())])
    adapter = Adapter.find(Pipeline([("first", StandardScaler()), ("rest", inner)]))
    assert adapter.wants_codes
    assert_array_equal(adapter.labels(codes, classes), codes)
    assert list(adapter.weight_argument(weight)) == ["rest__model__sample_weight"]
    network = Adapter.find(make_pipeline(StandardScaler(), small_network()))
    assert_array_equal(network.labels(codes, classes), ["b", "a"])


def test_fit_fits_a_copy_of_every_step(iris):
    X, y = iris
    pipeline = make_pipeline(StandardScaler(), "passthrough", small_forest())
    fitted = Adapter.find(pipeline).fit(X, y, np.arange(3), np.ones(len(y)))
    assert not hasattr(pipeline[0], "mean_")
    expected = make_pipeline(StandardScaler(), small_forest())
    expected.fit(X, y, randomforestclassifier__sample_weight=np.ones(len(y)))
    assert_array_equal(fitted.read(X).proba, Adapter.find(expected).read(X).proba)


def test_every_step_must_be_fitted(iris):
    X, y = iris
    forest = small_forest().fit(X, y)
    with pytest.raises(NotFittedError, match="StandardScaler"):
        Adapter.find(FrozenEstimator(make_pipeline(StandardScaler(), forest)))
    with pytest.raises(NotFittedError, match="RandomForest"):
        Adapter.find(FrozenEstimator(make_pipeline(StandardScaler().fit(X), small_forest())))
    Adapter.find(FrozenEstimator(make_pipeline("passthrough", forest)))


def test_out_of_bag_rows_of_a_plain_pipeline_only(iris):
    X, y = iris
    steps = [("scale", StandardScaler()), ("forest", small_forest())]
    adapter = Adapter.find(Pipeline(steps).fit(X, y))
    assert adapter.has_out_of_bag
    assert not Adapter.find(MyPipeline(steps)).has_out_of_bag
    inner = ForestAdapter(adapter.estimator[-1])
    rows = adapter.estimator[:-1].transform(X)
    for got, expected in zip(
        adapter.out_of_bag(adapter.read(X)), inner.out_of_bag(inner.read(rows)), strict=True
    ):
        if isinstance(got, np.ndarray):
            assert_array_equal(got, expected)
        else:
            assert_array_equal(got.proba, expected.proba)


def test_a_trained_network_at_the_end(blobs):
    X, y = blobs[0].astype(np.float32), blobs[1]
    pipeline = make_pipeline(StandardScaler(), TorchParent(torch_net(X, y, steps=1)))
    adapter = Adapter.find(pipeline)
    assert not adapter.is_fitted
    assert not adapter.allows_missing
    with pytest.raises(TypeError, match=r"trained already.*FrozenEstimator\(pipeline\)"):
        adapter.copy()
    pipeline[0].fit(X)
    assert Adapter.find(FrozenEstimator(pipeline)).is_fitted
