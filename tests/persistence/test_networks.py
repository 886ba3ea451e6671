"""Weights of networks come back into a module that fits them."""

from __future__ import annotations

import numpy as np
import pytest

import polycal
from polycal import GeodesicCalibrator, TorchParent
from polycal.persistence import AlteredFileError, WrongModuleError
from tests.toys.families import skorch, torch_net
from tests.toys.model_files import MARKS, again, assert_same, forged

pytestmark = MARKS


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


@pytest.mark.parametrize(
    "edit",
    [
        lambda m, a: m["parent"]["state"][0].pop(),
        lambda m, a: m["parent"]["state"][0].__setitem__(1, "bfloat16"),
        lambda m, a: m["parent"]["parameters"]["values"].update(forward=1),
    ],
    ids=["entry", "type", "parameter"],
)
def test_forged_weights(edit, blobs, tmp_path):
    X, y = blobs
    net = torch_net(X[:300].astype(np.float32), y[:300])
    model = GeodesicCalibrator(net).fit(
        X[:300].astype(np.float32), y[:300], X_cal=X[300:].astype(np.float32), y_cal=y[300:]
    )
    model.save(tmp_path / "m")
    with pytest.raises(AlteredFileError):
        polycal.load(forged(tmp_path / "m", edit), net)
