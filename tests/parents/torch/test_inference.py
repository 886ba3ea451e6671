"""Forward passes leave the module and its input as they were."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from tests.toys.readings import D, K, assert_same

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from polycal.parents.torch.parent import TorchParent  # noqa: E402
from tests.toys.torch_nets import MARKS, Shared, TwoParts, hooks, mlp, read  # noqa: E402

pytestmark = MARKS


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_input_is_cast_to_the_dtype_of_the_module(X, dtype):
    net = mlp(nn.ReLU()).to(dtype)
    with torch.no_grad():
        expected = net(torch.as_tensor(X).to(dtype)).double().softmax(1).numpy()
    np.testing.assert_allclose(read(net, X).proba, expected, atol=1e-12)


def test_parts_compiled_inside_run_as_written(X):
    net = TwoParts()
    expected = read(net, X)
    encoded = read(TorchParent(net, encoder="encoder"), X)
    whole = copy.deepcopy(net)
    whole.compile()
    assert_same(read(whole, X), expected)
    net.encoder = torch.compile(net.encoder)
    assert_same(read(net, X), expected)
    assert_same(read(TorchParent(net, encoder="encoder"), X), encoded)
    assert_same(read(TorchParent(net, encoder=net.encoder), X), encoded)


def test_an_in_place_first_layer_leaves_the_input_alone(X):
    net = nn.Sequential(nn.ReLU(inplace=True), nn.Linear(D, K)).double()
    for rows in (X.astype(float), torch.tensor(X).double()):
        before = copy.deepcopy(rows)
        reading = read(net, rows)
        np.testing.assert_array_equal(reading.features, before)
        np.testing.assert_array_equal(rows, before)


def test_output_that_is_not_a_tensor(X):
    class Pair(Shared):
        def forward(self, x):
            return super().forward(x), x

    with pytest.raises(TypeError, match="one tensor of class scores; got tuple"):
        read(Pair(), X)


@pytest.mark.parametrize("fails", [False, True])
def test_flags_hooks_and_statistics_are_put_back(X, fails):
    net = TwoParts()
    net.encoder.append(nn.BatchNorm1d(4))
    net.encoder.append(nn.Dropout(0.5))
    net.train()
    net.encoder[0].eval()
    net.head.register_forward_hook(lambda *args: None)
    flags, n_hooks = [m.training for m in net.modules()], hooks(net)
    state = copy.deepcopy(net.state_dict())
    parent = TorchParent(net, encoder="encoder", batch_size=16)
    if fails:
        with pytest.raises(RuntimeError):
            read(parent, np.zeros((5, D + 1)))
    else:
        assert_same(read(parent, X), read(parent, X))  # eval(): no dropout
    assert [m.training for m in net.modules()] == flags
    assert hooks(net) == n_hooks
    assert all(torch.equal(value, state[key]) for key, value in net.state_dict().items())
    assert torch.is_grad_enabled()


def test_device_is_put_back(X):
    net = mlp(nn.ReLU())
    with pytest.raises((RuntimeError, NotImplementedError, ValueError)):
        # "meta" tensors have no values, so reading them fails after the move.
        read(TorchParent(net.to("meta"), device="cpu"), X)
    assert {p.device.type for p in net.parameters()} == {"meta"}


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_gpu_equals_cpu_and_the_module_goes_back(X):
    net = mlp(nn.ReLU())
    reading = read(TorchParent(net, device="cuda"), X)
    np.testing.assert_allclose(reading.proba, read(net, X).proba, atol=1e-5)
    assert {p.device.type for p in net.parameters()} == {"cpu"}
