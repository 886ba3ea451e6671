"""MLPClassifier: bits of each hidden layer and of the output, computed as the network does."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

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


def test_missing_values_are_refused(iris):
    net = small_network().fit(*iris)
    assert not MLPAdapter(net).allows_missing
    with pytest.raises(ValueError, match="contains NaN.*imputer before it in a Pipeline"):
        MLPAdapter(net).read(np.full((1, 4), np.nan))
