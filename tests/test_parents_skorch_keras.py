"""Networks of skorch and Keras: bits equal the activations computed by hand."""

from __future__ import annotations

import os

import numpy as np
import pytest
from scipy.special import expit, softmax
from sklearn.exceptions import NotFittedError

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch_nets import MARKS, D, K, Shared, assert_modes, assert_same, hooks, linear, mlp, read  # noqa: E402

from polycal.parents._torch import TorchFamily  # noqa: E402

pytestmark = MARKS


# ---------------------------------------------------------------- skorch


def skorch_net(module=Shared, **kwargs):
    skorch = pytest.importorskip("skorch")
    defaults = {"criterion": nn.CrossEntropyLoss, "max_epochs": 2, "batch_size": 16, "verbose": 0}
    return skorch.NeuralNetClassifier(module, **(defaults | kwargs))


def test_skorch_reads_its_module(X, y):
    from polycal.parents._skorch import SkorchFamily

    net = skorch_net()
    assert SkorchFamily.problem(net) is None
    net.fit(X, y)
    assert SkorchFamily.problem(net) is None
    assert TorchFamily.problem(net) == ""
    reading = SkorchFamily(net).read(X)
    assert_same(reading, read(net.module_, X))
    np.testing.assert_allclose(reading.proba, net.predict_proba(X), atol=1e-6)
    assert sum(hooks(net.module_)) == 0


def test_skorch_saved_and_loaded(X, y, tmp_path):
    from polycal.parents._skorch import SkorchFamily

    net = skorch_net().fit(X, y)
    net.save_params(f_params=tmp_path / "net.pt")
    other = skorch_net().initialize()
    other.load_params(f_params=tmp_path / "net.pt")
    assert_same(SkorchFamily(other).read(X), SkorchFamily(net).read(X))


def test_skorch_binary(X, y):
    from polycal.parents._skorch import SkorchFamily

    skorch = pytest.importorskip("skorch")
    net = skorch.NeuralNetBinaryClassifier(mlp(nn.ReLU(), out=1), max_epochs=2, verbose=0)
    net.fit(X, (y > 0).astype(np.float32))
    assert_same(SkorchFamily(net).read(X), read(net.module_, X))


def test_skorch_refusals(X, y):
    from polycal.parents._skorch import SkorchFamily

    assert SkorchFamily.problem(mlp(nn.ReLU())) == ""
    assert "no ReLU-type" in SkorchFamily.problem(skorch_net(linear()))
    assert "net.module_.module" in SkorchFamily.problem(skorch_net(nn.DataParallel(Shared())))
    with pytest.raises(NotFittedError):
        SkorchFamily(skorch_net()).read(X)
    net = skorch_net(predict_nonlinearity=None).fit(X, y)
    with pytest.raises(ValueError, match="predict_nonlinearity"):
        SkorchFamily(net).read(X)
    assert sum(hooks(net.module_)) == 0


# ---------------------------------------------------------------- Keras


@pytest.fixture(scope="module")
def keras():
    before = os.environ.get("KERAS_BACKEND")
    os.environ["KERAS_BACKEND"] = "torch"
    yield pytest.importorskip("keras")
    if before is None:
        del os.environ["KERAS_BACKEND"]
    else:
        os.environ["KERAS_BACKEND"] = before


def keras_read(model, X, **kwargs):
    from polycal.parents._keras import KerasFamily

    return KerasFamily(model).read(X, **kwargs)


def dense(layer, h):
    weight, bias = layer.get_weights()
    return h @ weight + bias


def test_keras_sequential_by_hand(keras, X, tmp_path):
    from polycal.parents._keras import KerasFamily

    L = keras.layers
    model = keras.Sequential([keras.Input((D,))])
    model.add(L.Dense(8, activation="relu"))
    model.add(L.Dense(8, activation="relu6"))
    model.add(L.Dense(7))
    model.add(L.PReLU(alpha_initializer=keras.initializers.Constant(-0.5)))
    model.add(L.Dense(6, activation="tanh"))
    model.add(L.Dense(K, activation="softmax"))
    assert KerasFamily.problem(model) is None
    assert TorchFamily.problem(model) == ""
    model.layers[1].set_weights([w * 20 for w in model.layers[1].get_weights()])
    one, six, seven, last, out = (model.layers[i] for i in (0, 1, 2, 4, 5))
    a = dense(one, X)
    b = dense(six, np.maximum(a, 0))
    c = dense(seven, np.clip(b, 0, 6))
    proba = softmax(dense(out, np.tanh(dense(last, np.where(c > 0, c, -0.5 * c)))), axis=1)
    reading = keras_read(model, X)
    assert_modes(reading, [a > 0, np.concatenate([b > 0, b >= 6], axis=1), c > 0], proba)
    np.testing.assert_array_equal(reading.seen, X.astype(np.float64))
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
    h = np.asarray(model.layers[0](images).detach().cpu()).reshape(300, 32)
    expected = np.concatenate([h > 0, h >= 0.2], axis=1)
    np.testing.assert_array_equal(next(reading.modes.groups()), expected)
    assert reading.seen.shape == (300, 36)


def test_keras_refusals(keras, X):
    from polycal.parents._keras import KerasFamily

    L = keras.layers

    class Subclassed(keras.Model):
        def call(self, x):
            return x

    inputs = keras.Input((D,))
    for model, message in [
        (Subclassed(), "subclassed Keras model"),
        (keras.Sequential([L.Dense(K)]), "not built"),
        (keras.Sequential([keras.Input((D,)), L.Dense(K)]), "no ReLU-type"),
        (keras.Model(inputs, [L.ReLU()(inputs), inputs]), "2 outputs"),
        (keras.Sequential([inputs, L.ReLU(), L.Dense(K, activation="tanh")]), "'tanh'"),
    ]:
        assert message in KerasFamily.problem(model)
    assert KerasFamily.problem(object()) == ""
    many = keras.Sequential([keras.Input((D,)), L.ReLU(), L.Dense(K, activation="sigmoid")])
    with pytest.raises(ValueError, match="End the model with a softmax"):
        keras_read(many, X)
