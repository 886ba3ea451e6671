"""Hooks record each call once, in order, and say which call cannot be recorded."""

from __future__ import annotations

import pytest
from scipy.special import softmax

from tests.toys.readings import D, K, assert_modes, assert_same

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from polycal.parents.torch.parent import TorchParent  # noqa: E402
from tests.toys.torch_nets import MARKS, Shared, TwoParts, read  # noqa: E402

pytestmark = MARKS


def test_layers_that_the_forward_pass_skips(X):
    net = Shared()
    net.spare = nn.ReLU()
    assert len(read(net, X).modes.sizes) == 3  # not asked for: no error
    with pytest.raises(ValueError, match=r"never calls \['spare'\]"):
        read(TorchParent(net, layers=["relu", "spare"]), X)


def test_activations_must_keep_the_rows(X):
    class Mixed(Shared):
        def forward(self, x):
            self.relu(self.first(x).reshape(-1, 1))
            return super().forward(x)

    with pytest.raises(ValueError, match="'relu' must keep one row for each input row; got 490"):
        read(Mixed(), X)


def test_an_encoder_called_twice(X):
    class Twice(TwoParts):
        def forward(self, x):
            return super().forward(x) + super().forward(-x)

    with pytest.raises(ValueError, match="calls the encoder 2 times; expected once"):
        read(TorchParent(Twice(), encoder="encoder"), X)


def test_an_encoder_that_puts_the_rows_elsewhere(X):
    class Turned(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder, self.relu, self.out = nn.Linear(D, 4), nn.ReLU(), nn.Linear(4, K)
            self.turn = nn.Module()
            self.turn.forward = lambda x: x.T

        def forward(self, x):
            return self.out(self.relu(self.turn(self.encoder(x))).T)

    with pytest.raises(ValueError, match="70 rows of scores, but 4 rows passed"):
        read(TorchParent(Turned(), encoder="turn"), X)


def test_each_call_of_a_shared_activation_is_a_group(X):
    net = Shared()
    with torch.no_grad():
        first = net.first(torch.as_tensor(X))
        second = net.second(first.relu())
        logits = net.out(second.relu()).double().numpy()
    expected = [first.numpy() > 0, second.numpy() > 0]
    assert_modes(read(net, X), expected, softmax(logits, axis=1))


def test_a_head_in_place_does_not_change_the_embedding(X):
    net = TwoParts().double()
    net.head[0] = nn.ReLU(inplace=True)
    seen = read(TorchParent(net, encoder="encoder", normalize=False), X).features
    assert (seen < 0).any()


def test_an_activation_shared_by_encoder_and_head_counts_in_the_head_only(X):
    net = TwoParts()
    expected = read(TorchParent(net, encoder="encoder"), X)
    net.head[0] = net.encoder[1]
    for head in (None, "head"):
        assert_same(read(TorchParent(net, encoder="encoder", head=head), X), expected)
