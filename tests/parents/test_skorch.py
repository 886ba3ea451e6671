"""Networks of skorch are read as their modules are."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from tests.toys.readings import assert_same

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from polycal.parents import Adapter  # noqa: E402
from polycal.parents.skorch import SkorchAdapter  # noqa: E402
from tests.toys.torch_nets import MARKS, Shared, hooks, linear, mlp, read, smooth  # noqa: E402

pytestmark = MARKS


def skorch_net(module=Shared, **kwargs):
    skorch = pytest.importorskip("skorch")
    defaults = {"criterion": nn.CrossEntropyLoss, "max_epochs": 2, "batch_size": 16, "verbose": 0}
    return skorch.NeuralNetClassifier(module, **(defaults | kwargs))


def test_skorch_reads_its_module(X, y):
    net = skorch_net()
    assert isinstance(Adapter.find(net), SkorchAdapter)
    net.fit(X, y)
    reading = Adapter.find(net).read(X)
    assert_same(reading, read(net.module_, X))
    np.testing.assert_allclose(reading.proba, net.predict_proba(X), atol=1e-6)
    assert sum(hooks(net.module_)) == 0


def test_skorch_saved_and_loaded(X, y, tmp_path):
    net = skorch_net().fit(X, y)
    net.save_params(f_params=tmp_path / "net.pt")
    other = skorch_net().initialize()
    other.load_params(f_params=tmp_path / "net.pt")
    assert_same(SkorchAdapter(other).read(X), SkorchAdapter(net).read(X))


def test_skorch_binary(X, y):
    skorch = pytest.importorskip("skorch")
    net = skorch.NeuralNetBinaryClassifier(mlp(nn.ReLU(), out=1), max_epochs=2, verbose=0)
    net.fit(X, (y > 0).astype(np.float32))
    assert_same(SkorchAdapter(net).read(X), read(net.module_, X))


def test_skorch_refusals(X, y):
    assert "no activation module" in SkorchAdapter(skorch_net(linear())).problem()
    assert SkorchAdapter(skorch_net(smooth())).problem() is None
    parallel = skorch_net(nn.DataParallel(Shared()))
    assert "net.module_.module" in SkorchAdapter(parallel).problem()
    with pytest.raises(NotFittedError):
        SkorchAdapter(skorch_net()).read(X)
    net = skorch_net(predict_nonlinearity=None).fit(X, y)
    with pytest.raises(ValueError, match="predict_nonlinearity"):
        SkorchAdapter(net).read(X)
    assert sum(hooks(net.module_)) == 0
