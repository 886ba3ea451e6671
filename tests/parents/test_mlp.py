"""MLPClassifier: bits of each hidden layer and of the output, computed as the network does."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit

from polycal.parents import Adapter
from polycal.parents.mlp import MLPAdapter
from tests.toys.models import small_network


@pytest.mark.parametrize("n_classes", [2, 3])
def test_bits_and_probabilities(n_classes, iris):
    X, y = (part[: 50 * n_classes] for part in iris)
    net = small_network(hidden_layer_sizes=(6, 5)).fit(X, y)
    reading = MLPAdapter(net).read(X)
    assert reading.modes.sizes == (6, 5, n_classes)
    assert_allclose(reading.proba, net.predict_proba(X), atol=1e-12)
    h, layers = X, []
    for weight, bias in zip(net.coefs_[:-1], net.intercepts_[:-1], strict=True):
        layers.append(h @ weight + bias > 0)
        h = np.maximum(h @ weight + bias, 0)
    expected = [*layers, reading.proba > 1 / n_classes]
    for got, bits in zip(reading.modes.groups(), expected, strict=True):
        assert_array_equal(got, bits)


@pytest.mark.parametrize(
    ("activation", "curve"), [("tanh", np.tanh), ("logistic", expit)], ids=["tanh", "logistic"]
)
def test_a_smooth_unit_is_on_where_its_input_is_positive(activation, curve, iris):
    X, y = iris
    net = small_network(hidden_layer_sizes=(6, 5), activation=activation).fit(X, y)
    assert MLPAdapter.is_for(net)
    reading = MLPAdapter(net).read(X)
    assert_allclose(reading.proba, net.predict_proba(X), atol=1e-12)
    first = X @ net.coefs_[0] + net.intercepts_[0]
    second = curve(first) @ net.coefs_[1] + net.intercepts_[1]
    expected = [first > 0, second > 0, reading.proba > 1 / 3]
    for got, bits in zip(reading.modes.groups(), expected, strict=True):
        assert_array_equal(got, bits)
        assert 0 < bits.mean() < 1


def test_a_network_without_units_is_any_classifier(iris):
    net = small_network(activation="identity").fit(*iris)
    assert not MLPAdapter.is_for(net)
    reading = Adapter.find(net).read(iris[0])
    assert reading.modes.are_absent
    assert_allclose(reading.proba, net.predict_proba(iris[0]), atol=1e-12)


def test_missing_values_are_refused(iris):
    net = small_network().fit(*iris)
    assert not MLPAdapter(net).allows_missing
    with pytest.raises(ValueError, match="contains NaN.*imputer before it in a Pipeline"):
        MLPAdapter(net).read(np.full((1, 4), np.nan))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_logits_that_overflow_say_nothing(n_classes, iris):
    """Infinities of both signs would be NaN; the classes are then equally likely."""
    X, y = (part[: 50 * n_classes] for part in iris)
    net = small_network(hidden_layer_sizes=(6, 5)).fit(X, y)
    net.coefs_[-1][:] = np.where(np.arange(5) % 2, 1e308, -1e308)[:, None]
    reading = MLPAdapter(net).read(np.vstack([X[:3], [[1e200, -1e200, 1e300, -1e300]] * 2]))
    assert np.isfinite(reading.proba).all()
    assert_allclose(reading.proba.sum(axis=1), 1.0)


def test_one_row_is_read_as_among_others(digits):
    """To the last bit, and so with the same units on."""
    X, y = digits
    adapter = MLPAdapter(small_network(hidden_layer_sizes=(40, 30), max_iter=5).fit(X, y))
    together = adapter.read(X[:60])
    for i in range(60):
        alone = adapter.read(X[i : i + 1])
        assert_array_equal(alone.proba[0], together.proba[i])
        assert_array_equal(alone.modes.codes[0], together.modes.codes[i])
