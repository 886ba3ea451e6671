"""What all network adapters share: pieces of activations, batches, probabilities."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit, softmax

from polycal.parents.networks import RELU, Bounds, ReadingBuilder, piece_bits, to_proba


def test_bits_of_two_and_of_three_pieces():
    values = np.array([-2.0, 0.0, 0.5, 1.0, 3.0])
    (bits,) = piece_bits(values, RELU)
    assert_array_equal(bits, [False, False, True, True, True])
    above, beyond = piece_bits(values, Bounds(0.0, 1.0))
    assert_array_equal(above, bits)
    assert_array_equal(beyond, [False, False, False, True, True])  # a bound is part of its piece


def batches(n_rows=(3, 1, 4), n_features=5, dtype=np.float64):
    rng = np.random.default_rng(0)
    for n in n_rows:
        groups = [rng.random((n, size)) < 0.5 for size in (7, 300)]
        yield groups, rng.normal(size=(n, n_features)).astype(dtype)


PROBA = np.random.default_rng(1).dirichlet([1, 1, 1], size=8)


@pytest.mark.parametrize("n_rows", [None, 0, 2, 8, 100, 2**62])
def test_batches_are_joined_in_order(n_rows):
    builder = ReadingBuilder(n_rows)
    for groups, features in batches():
        builder.add(groups, features)
    assert len(builder) == 8
    labels = np.arange(8)
    reading = builder.reading(PROBA, labels)
    assert_array_equal(reading.features, np.concatenate([f for _, f in batches()]))
    assert reading.features.shape == (8, 5)
    assert reading.labels is labels
    assert reading.modes.sizes == (7, 300, 3)
    *layers, output = reading.modes.groups()
    for i, layer in enumerate(layers):
        assert_array_equal(layer, np.concatenate([groups[i] for groups, _ in batches()]))
    assert_array_equal(output, PROBA > 1 / 3)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_features_of_unit_length(dtype):
    builder = ReadingBuilder(unit_length=True)
    for groups, features in batches(dtype=dtype):
        features[0] = 0.0
        builder.add(groups, features)
    features = builder.reading(PROBA).features
    length = np.linalg.norm(features, axis=1)
    assert_array_equal(length[[0, 3, 4]], 0.0)  # a row of zeros has no direction
    assert_allclose(np.delete(length, [0, 3, 4]), 1.0, rtol=1e-12)


def test_batches_that_do_not_fit_together():
    builder = ReadingBuilder()
    bits, rows = np.ones((2, 4), dtype=bool), np.ones((2, 3))
    builder.add([bits], rows)
    with pytest.raises(ValueError, match=r"groups of \(4,\) bits, this one \(4, 4\)"):
        builder.add([bits, bits], rows)
    with pytest.raises(ValueError, match="rows of one size; the first had 3 numbers, .* has 2"):
        builder.add([bits], rows[:, :2])
    with pytest.raises(TypeError, match="complex"):
        builder.add([bits], rows * 1j)
    with pytest.raises(ValueError, match="3 rows of scores, but 2 rows passed"):
        builder.reading(PROBA[:3])


def test_probabilities_of_every_kind_of_output():
    logits = np.random.default_rng(2).normal(size=(6, 3))
    expected = softmax(logits, axis=1)
    assert_allclose(to_proba(logits, "logits", ""), expected, rtol=1e-12)
    assert_allclose(to_proba(expected, "probabilities", ""), expected, rtol=1e-12)
    assert_allclose(to_proba(np.log(expected), "log_probabilities", ""), expected, rtol=1e-12)
    positive = expit(logits[:, 0])
    two = np.stack([1 - positive, positive], axis=1)
    for column in (logits[:, 0], logits[:, :1]):
        assert_allclose(to_proba(column, "logits", ""), two, rtol=1e-12)


@pytest.mark.parametrize(
    ("values", "output", "message"),
    [
        (np.zeros((2, 3, 1)), "logits", r"one row of class scores .* got shape \(2, 3, 1\)"),
        (np.full((2, 2), 0.5), "logits", "already probabilities. Do this."),
        (np.full((2, 2), 0.4), "probabilities", "row 0 is .* Do this."),
        (np.array([[1.5, -0.5]]), "probabilities", "no negative number"),
        (np.array([[0.5, 0.5], [np.nan, 1.0]]), "probabilities", "1 of 2 rows, the first is row 1"),
    ],
)
def test_values_that_are_not_what_the_output_says(values, output, message):
    with pytest.raises(ValueError, match=message):
        to_proba(values, output, "Do this.")
