"""Keras models, with the back-end at hand: bits equal the activations computed by hand."""

from __future__ import annotations

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from scipy.special import expit, softmax

from polycal.parents import Adapter
from polycal.parents.keras import KerasAdapter
from tests.toys.readings import D, K, assert_modes, assert_same

# Keras converts tensors in a way that NumPy 2 will drop.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")


@pytest.fixture(autouse=True)
def same_weights(keras):
    keras.utils.set_random_seed(0)


def keras_read(model, X, **kwargs):
    return KerasAdapter(model).read(X, **kwargs)


def dense(layer, h):
    weight, bias = layer.get_weights()
    return h @ weight + bias


def test_keras_sequential_by_hand(keras, X, tmp_path):
    L = keras.layers
    model = keras.Sequential([keras.Input((D,))])
    model.add(L.Dense(8, activation="relu"))
    model.add(L.Dense(8, activation="relu6"))
    model.add(L.Dense(7))
    model.add(L.PReLU(alpha_initializer=keras.initializers.Constant(-0.5)))
    model.add(L.Dense(6, activation="tanh"))
    model.add(L.Dense(K, activation="softmax"))
    assert isinstance(Adapter.find(model), KerasAdapter)  # also where it is a torch module too
    model.layers[1].set_weights([w * 20 for w in model.layers[1].get_weights()])
    one, six, seven, last, out = (model.layers[i] for i in (0, 1, 2, 4, 5))
    a = dense(one, X)
    b = dense(six, np.maximum(a, 0))
    c = dense(seven, np.clip(b, 0, 6))
    proba = softmax(dense(out, np.tanh(dense(last, np.where(c > 0, c, -0.5 * c)))), axis=1)
    reading = keras_read(model, X)
    assert_modes(reading, [a > 0, np.concatenate([b > 0, b >= 6], axis=1), c > 0], proba)
    np.testing.assert_array_equal(reading.features, X.astype(np.float64))
    model.save(tmp_path / "model.keras")
    assert_same(keras_read(keras.saving.load_model(tmp_path / "model.keras"), X), reading)


def test_keras_functional_shared_nested_and_logits(keras, X, tmp_path):
    L = keras.layers
    inner = keras.Sequential([keras.Input((7,)), L.Dense(7), L.LeakyReLU()])
    shared, out = L.Dense(7, activation="relu"), L.Dense(1)
    first = L.Dense(7)
    inputs = keras.Input((D,))
    h = keras.ops.relu(first(inputs))
    model = keras.Model(inputs, out(shared(inner(shared(h)))))
    a = dense(first, X)
    b = dense(shared, np.maximum(a, 0))
    c = dense(inner.layers[0], np.maximum(b, 0))
    d = dense(shared, np.where(c > 0, c, 0.3 * c))
    positive = expit(dense(out, np.maximum(d, 0))[:, 0].astype(float))
    proba = np.stack([1 - positive, positive], axis=1)
    reading = keras_read(model, X)
    assert_modes(reading, [a > 0, b > 0, c > 0, d > 0], proba)
    assert tuple(first.output.shape) == (None, 7)  # the user's graph is as it was
    model.save(tmp_path / "model.keras")
    assert_same(keras_read(keras.saving.load_model(tmp_path / "model.keras"), X), reading)


SMOOTH = "gelu silu hard_silu mish elu celu selu tanh softsign sigmoid hard_sigmoid softplus"


@pytest.mark.parametrize("activation", SMOOTH.split())
def test_keras_smooth_units_are_on_where_their_input_is_positive(keras, X, activation):
    L = keras.layers
    layers = [keras.Input((D,)), L.Dense(8, activation), L.Dense(7), L.Activation(activation)]
    model = keras.Sequential([*layers, L.Dense(6), L.ELU(), L.Dense(1, "sigmoid")])
    assert KerasAdapter(model).problem() is None
    inputs = [
        np.asarray(keras.Model(model.inputs, model.layers[i].output).predict(X, verbose=0))
        for i in (1, 3)
    ]
    bits = [values > 0 for values in (dense(model.layers[0], X), *inputs)]
    proba = np.asarray(model.predict(X, verbose=0))
    assert_modes(keras_read(model, X), bits, np.concatenate([1 - proba, proba], axis=1))


def test_keras_smooth_operations_and_the_output(keras, X):
    """Operations of a functional model are read too; the sigmoid at the end is the output."""
    inputs = keras.Input((D,))
    hidden = keras.layers.Dense(8)
    middle = keras.ops.softplus(hidden(inputs))
    last = keras.layers.Dense(1)
    model = keras.Model(inputs, keras.ops.sigmoid(last(middle)))
    a = dense(hidden, X)
    proba = expit(dense(last, np.log1p(np.exp(a))))
    assert_modes(keras_read(model, X), [a > 0], np.concatenate([1 - proba, proba], axis=1))


def test_keras_reads_relu_alone_where_there_is_one(keras, X):
    L = keras.layers
    hidden = [L.Dense(8, "gelu"), L.Dense(7, "relu")]
    model = keras.Sequential([keras.Input((D,)), *hidden, L.Dense(K)])
    assert keras_read(model, X).modes.sizes == (7, K)
    only_output = keras.Sequential([keras.Input((D,)), L.Dense(1, "sigmoid")])
    assert "no hidden activation" in KerasAdapter(only_output).problem()


def test_keras_images_and_batches(keras, capsys):
    L = keras.layers
    images = np.random.default_rng(5).normal(size=(300, 6, 6, 1)).astype(np.float32)
    layers = [L.Conv2D(2, 3), L.ReLU(max_value=0.2), L.Dropout(0.5), L.Flatten()]
    last = L.Dense(1, activation="sigmoid")
    model = keras.Sequential([keras.Input((6, 6, 1)), *layers, last])
    reading = keras_read(model, images, verbose=1)
    assert "reading: 100%" in capsys.readouterr().err
    assert reading.modes.sizes == (2 * 32, 2)
    np.testing.assert_allclose(reading.proba[:, 1:], model.predict(images, verbose=0), atol=1e-6)
    kernel, bias = model.layers[0].get_weights()
    patches = np.lib.stride_tricks.sliding_window_view(images[..., 0], (3, 3), axis=(1, 2))
    h = (np.einsum("nijab,abc->nijc", patches, kernel[:, :, 0]) + bias).reshape(300, 32)
    expected = np.concatenate([h > 0, h >= 0.2], axis=1)
    np.testing.assert_array_equal(next(reading.modes.groups()), expected)
    assert reading.features.shape == (300, 36)


def test_keras_batch_norm_and_dropout_at_rest(keras, X):
    L = keras.layers
    layers = [L.Dense(7), L.BatchNormalization(epsilon=0.5), L.ReLU(), L.Dropout(0.5), L.Dense(K)]
    model = keras.Sequential([keras.Input((D,)), L.GaussianNoise(1.0), *layers])
    first, norm, out = layers[0], layers[1], layers[4]
    scale, shift, mean, variance = np.random.default_rng(2).uniform(0.5, 1.5, (4, 7))
    norm.set_weights([scale, shift, mean, variance])
    a = scale * (dense(first, X) - mean) / np.sqrt(variance + 0.5) + shift
    proba = softmax(dense(out, np.maximum(a, 0)), axis=1)
    assert_modes(keras_read(model, X), [a > 0], proba)
    np.testing.assert_array_equal(norm.get_weights()[2], mean.astype(np.float32))


@pytest.mark.parametrize("activation", ["relu", "relu6"])
def test_keras_overflow_inside(keras, activation):
    """The ReLU of TensorFlow makes zero of NaN: the answer would be finite, and wrong."""
    L = keras.layers
    first, second = L.Dense(4, activation=activation), L.Dense(4, activation=activation)
    model = keras.Sequential([keras.Input((2,)), first, second, L.Dense(K)])
    first.set_weights([np.full((2, 4), 10.0), np.zeros(4)])
    second.set_weights([np.tile([[2.0, -2.0], [-1.0, 1.0]], (2, 2)), np.zeros(4)])
    X = np.full((1, 2), 3e37, dtype=np.float32)  # times 10 + 10: inf, and then inf - inf
    if activation == "relu":
        with pytest.raises(ValueError, match="activation of the network is NaN or infinite"):
            keras_read(model, X)
    else:  # bounded: 6 everywhere, then 12 and -12
        one, two, _ = keras_read(model, X).modes.groups()
        assert one.all()
        np.testing.assert_array_equal(two, np.tile([[True, False]], 4))


def nested(keras, width=7):
    L = keras.layers
    inner = keras.Sequential([keras.Input((width,)), L.ReLU(), L.Dense(width), L.ReLU()])
    return keras.Sequential([keras.Input((D,)), L.Dense(width), inner, L.Dense(K)])


def test_keras_threads_read_one_model(keras, X):
    """And a weight that the user holds stays: JAX can give its memory away."""
    model = nested(keras)
    held = model.weights[0].value
    before = keras.ops.convert_to_numpy(held)
    parent = KerasAdapter(model)
    expected = parent.read(X)
    with ThreadPoolExecutor(4) as pool:
        for reading in pool.map(parent.read, [X] * 40):
            assert_same(reading, expected)
    np.testing.assert_array_equal(keras.ops.convert_to_numpy(held), before)


def test_keras_reads_the_model_as_it_is_now(keras, X):
    """The model of the activations is kept from call to call, the weights are not."""
    model = nested(keras)
    parent = KerasAdapter(model)

    def outgoing():
        return sum(len(layer._outbound_nodes) for layer in model._flatten_layers())

    first, nodes = parent.read(X), outgoing()
    assert parent.problem() is None
    assert_same(parent.read(X), first)
    assert outgoing() == nodes  # no call adds to the graph of the user
    model.set_weights([-weight for weight in model.get_weights()])
    second = parent.read(X)
    assert_same(second, keras_read(model, X))
    assert (second.modes.codes != first.modes.codes).any()
    for layer in [keras.layers.ReLU(), keras.layers.Dense(K)]:
        model.add(layer)
    third = parent.read(X)
    assert third.modes.sizes == (7, 7, K, K)
    assert_same(third, keras_read(model, X))
    assert_same(copy.deepcopy(parent).read(X), third)
    assert_same(pickle.loads(pickle.dumps(parent)).read(X), third)


def test_keras_refusals(keras, X):
    L = keras.layers

    class Subclassed(keras.Model):
        def call(self, x):
            return x

    inputs = keras.Input((D,))
    for model, message in [
        (L.Dense(K), "a single Keras layer is not a classifier"),
        (Subclassed(), "subclassed Keras model"),
        (keras.Sequential([L.Dense(K)]), "not built"),
        (keras.Sequential([keras.Input((D,)), L.Dense(K)]), "no hidden activation"),
        (keras.Model(inputs, [L.ReLU()(inputs), inputs]), "2 outputs"),
        (keras.Sequential([inputs, L.ReLU(), L.Dense(K, activation="tanh")]), "'tanh'"),
    ]:
        assert message in KerasAdapter(model).problem()
    rows = keras.Sequential([keras.Input((4, 1)), L.Flatten(), L.Dense(K, "relu"), L.Dense(K)])
    ones = np.ones((2, 4))
    assert_same(keras_read(rows, ones), keras_read(rows, ones[..., None]))  # as Keras takes them
    for wrong, message in [
        (ones[:, :3], r"rows of shape \(4, 1\).*got \(3,\)"),
        (np.ones((2, 4, 2)), r"rows of shape \(4, 1\).*got \(4, 2\)"),
        (ones[:0], "at least one row"),
        (ones.astype(object), "numbers; got dtype object"),
        (ones.astype(str), "numbers; got dtype <U32"),
        (ones * 1j, "numbers; got dtype complex128"),
        (ones * [1, 1, 1, np.nan], "finite as float32"),
        (ones * 1e39, "finite as float32"),
    ]:
        with pytest.raises(ValueError, match=message):
            keras_read(rows, wrong)
    many = keras.Sequential([keras.Input((D,)), L.ReLU(), L.Dense(K, activation="sigmoid")])
    with pytest.raises(ValueError, match="End the model with a softmax"):
        keras_read(many, X)
