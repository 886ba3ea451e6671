"""Trees and forests: one packed walk gives the forest's own leaves and probabilities."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.tree import DecisionTreeClassifier

from polycal.parents.forest import ForestAdapter, float32_threshold
from tests.toys.models import small_forest

FORESTS = {
    "forest": small_forest(),
    "extra trees": ExtraTreesClassifier(20, random_state=0),
    "tree": DecisionTreeClassifier(random_state=0),
    "a leaf": DecisionTreeClassifier(max_depth=1, min_samples_leaf=100),
    "two jobs": small_forest(n_jobs=2),
}


@pytest.mark.parametrize("n", [1, 15, 16, 17, 150])
@pytest.mark.parametrize("name", FORESTS)
def test_leaves_and_probabilities_are_the_forests_own(name, n, iris):
    X, y = iris
    forest = FORESTS[name].fit(X, y)
    reading = ForestAdapter(forest).read(X[:n])
    assert_array_equal(reading.modes.codes, forest.apply(X[:n]).reshape(n, -1))
    assert_allclose(reading.proba, forest.predict_proba(X[:n]), atol=1e-12)
    assert reading.features.shape == (n, 4)


def test_missing_values(iris):
    X, y = iris
    X = np.where(np.random.default_rng(0).random(X.shape) < 0.2, np.nan, X)
    forest = small_forest().fit(X, y)
    reading = ForestAdapter(forest).read(X)
    assert_array_equal(reading.modes.codes, forest.apply(X))
    assert_array_equal(reading.proba, forest.predict_proba(X))


def test_rows_on_a_threshold_take_the_forests_side():
    """Thresholds are float64, rows float32: the packed float32 threshold decides alike."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 4, (200, 2)) / 3 + 1e-9 * rng.normal(size=(200, 2))
    tree = DecisionTreeClassifier(random_state=0).fit(X, rng.integers(0, 2, 200))
    rows = np.repeat(tree.tree_.threshold[tree.tree_.feature >= 0], 2).reshape(-1, 2)
    rows = np.concatenate([rows, np.nextafter(rows, np.inf), np.nextafter(rows, -np.inf)])
    assert_array_equal(ForestAdapter(tree).read(rows).modes.codes[:, 0], tree.apply(rows))
    exact = np.array([0.1, -0.1, 1e300, -1e300, 0.5])
    rounded = float32_threshold(exact)
    assert (rounded <= exact).all()
    with np.errstate(over="ignore"):
        above = np.nextafter(rounded, np.float32(np.inf))
    assert (above > exact).all()


def test_trees_are_packed_at_the_first_reading_and_once(iris):
    X, y = iris
    adapter = ForestAdapter(small_forest())  # unfitted: nothing to pack
    assert "_packed" not in vars(adapter)
    adapter = ForestAdapter(small_forest().fit(X, y))
    assert "_packed" not in vars(adapter)
    adapter.read(X)
    packed = adapter._packed
    adapter.read(X)
    assert adapter._packed is packed
    assert packed.start[-1] == len(packed.nodes) == len(packed.value)


def test_threads_share_one_adapter(iris):
    X, y = iris
    expected = ForestAdapter(small_forest().fit(X, y)).read(X)
    for _ in range(5):
        adapter = ForestAdapter(small_forest().fit(X, y))
        with ThreadPoolExecutor(4) as pool:
            for reading in pool.map(adapter.read, [X] * 8):
                assert_array_equal(reading.modes.codes, expected.modes.codes)
                assert_array_equal(reading.proba, expected.proba)


@pytest.mark.parametrize("packed", [False, True])
def test_pickled_before_and_after_the_first_reading(packed, iris):
    X, y = iris
    adapter = ForestAdapter(small_forest().fit(X, y), is_fitted=True)
    expected = ForestAdapter(adapter.estimator).read(X)
    if packed:
        adapter.read(X)
    loaded = pickle.loads(pickle.dumps(adapter))
    assert loaded.is_fitted
    reading = loaded.read(X)
    assert_array_equal(reading.modes.codes, expected.modes.codes)
    assert_array_equal(reading.proba, expected.proba)


def test_rows_that_the_trees_cannot_compare(iris):
    adapter = ForestAdapter(small_forest().fit(*iris))
    with pytest.raises(ValueError, match=r"1e\+300, beyond the range of float32"):
        adapter.read(np.full((1, 4), 1e300))
    with pytest.raises(ValueError, match="X has 2 features; the trees need at least 4"):
        adapter.read(np.zeros((3, 2)))
