"""Which modules of a torch classifier are read, unwrapped or refused."""

from __future__ import annotations

import numpy as np
import pytest

from tests.toys.readings import D, assert_same

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from polycal.parents.torch.adapter import TorchAdapter  # noqa: E402
from polycal.parents.torch.parent import TorchParent  # noqa: E402
from tests.toys.torch_nets import MARKS, Shared, TwoParts, linear, mlp, read  # noqa: E402

pytestmark = MARKS


def test_wrapped_modules_are_read_inside(X):
    net = Shared()
    expected = read(net, X)
    assert_same(read(torch.compile(net), X), expected)
    assert_same(read(nn.DataParallel(net), X), expected)
    assert_same(
        read(TorchParent(torch.compile(nn.DataParallel(net)), layers=["relu"]), X), expected
    )


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (linear, r"no activation module .* in the module \(Sequential\).*layers=\[.*encoder="),
        (
            lambda: torch.jit.trace(mlp(nn.ReLU()), torch.zeros(2, D)),
            "torch.jit.ScriptModule.*Pass",
        ),
        (lambda: TorchParent(mlp(nn.ReLU()), layers=["relu"]), "'relu'.*Available: '0', '1', '2'"),
        (lambda: TorchParent(mlp(nn.ReLU()), layers="1"), "list of submodule names; got '1'"),
        (lambda: TorchParent(mlp(nn.ReLU()), layers=[]), r"list of submodule names; got \[\]"),
        (lambda: TorchParent(TwoParts(), head="head"), "head is given without an encoder"),
        (lambda: TorchParent(TwoParts(), encoder="body"), "encoder names 'body'.*'encoder.0'"),
        (lambda: TorchParent(TwoParts(), encoder=mlp(nn.ReLU())), "encoder must be a submodule"),
        (lambda: TorchParent(TwoParts(), encoder="encoder", head="encoder.0"), "two separate"),
        (lambda: TorchParent(mlp(nn.ReLU()), encoder=""), "encoder names ''"),
        (
            lambda: TorchParent(TwoParts(), encoder="encoder", head="head", layers=["head.0"]),
            "head and layers both",
        ),
        (lambda: TorchParent(), "module=None needs encoder and head"),
        (lambda: TorchParent(encoder="encoder", head=mlp(nn.ReLU())), "got encoder='encoder'"),
        (lambda: TorchParent(Shared), "must be a torch.nn.Module instance; got the class Shared"),
        (lambda: TorchParent(mlp(nn.ReLU()), batch_size=0), "batch_size must be .* got 0"),
        (lambda: TorchParent(mlp(*[nn.ReLU()] * 12), layers=["x"]), r"\.\.\. \(14 in all\)"),
    ],
)
def test_refused_with_a_remedy(X, build, message):
    estimator = build()
    problem = TorchAdapter(estimator).problem()
    assert problem
    assert not problem.endswith(".")
    with pytest.raises((TypeError, ValueError), match=message):
        read(estimator, X)


def test_a_scripted_encoder_is_fine(X):
    net = TwoParts()
    traced = torch.jit.trace(net.encoder, torch.as_tensor(X))
    expected = read(TorchParent(net, encoder="encoder"), X)
    assert_same(read(TorchParent(encoder=traced, head=net.head), X), expected)


def test_an_encoder_that_is_everything_is_refused():
    net = mlp(nn.ReLU())
    problem = TorchAdapter(TorchParent(net, encoder=net)).problem()
    assert "encoder is the whole module; expected the part of it" in problem


def test_a_part_without_activations_is_read_by_hyperplanes(X):
    for parent in (
        TorchParent(TwoParts(), encoder="encoder", head="head.1"),
        TorchParent(mlp(nn.ReLU()), encoder="1"),
    ):
        assert TorchAdapter(parent).problem() is None
        assert read(parent, X).modes.are_absent


def test_a_module_that_can_be_read():
    adapter = TorchAdapter(mlp(nn.ReLU()))
    assert adapter.problem() is None
    assert adapter.is_fitted
    assert not adapter.allows_missing


def test_named_layers_leave_out_the_others(X):
    net = mlp(nn.ReLU(), nn.ReLU6())
    every = list(read(net, X).modes.groups())
    some = list(read(TorchParent(net, layers=["3"]), X).modes.groups())
    assert len(some) == 2
    np.testing.assert_array_equal(some[0], every[1])
