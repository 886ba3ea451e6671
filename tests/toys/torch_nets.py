"""Small networks that several tests read, and the marks of their tests."""

from __future__ import annotations

import pytest

from tests.toys.readings import D, K

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402, N812
from torch.utils.data import Dataset  # noqa: E402

from polycal.parents.torch.adapter import TorchAdapter  # noqa: E402

MARKS = [
    pytest.mark.usefixtures("torch_seed"),
    # torch.jit is deprecated, and torch.compile imports it.
    pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning"),
]


def read(parent, X, **kwargs):
    return TorchAdapter(parent).read(X, **kwargs)


def mlp(*activations, out=K):
    """Linear layers of 7 units with these activations between them."""
    sizes = [D, *[7] * len(activations)]
    layers = []
    for n_in, n_out, activation in zip(sizes, sizes[1:], activations, strict=False):
        layers += [nn.Linear(n_in, n_out), activation]
    return nn.Sequential(*layers, nn.Linear(sizes[-1], out))


def by_hand(net, X):
    """Inputs of the activations of a Sequential, and its logits."""
    h, before = torch.as_tensor(X), []
    with torch.no_grad():
        for layer in net:
            if not isinstance(layer, (nn.Linear, nn.Conv2d, nn.Flatten)):
                before.append(h.flatten(1).numpy().copy())
            h = layer(h.clone())
    return before, h.double().numpy()


class Shared(nn.Module):
    """One ReLU, called twice."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.out = nn.Linear(D, 7), nn.Linear(7, 6), nn.Linear(6, K)
        self.relu = nn.ReLU()

    def forward(self, x):
        return self.out(self.relu(self.second(self.relu(self.first(x)))))


class Functional(Shared):
    """The same network with F.relu: no activation module."""

    def __init__(self):
        super().__init__()
        del self.relu

    def forward(self, x):
        return self.out(F.relu(self.second(F.relu(self.first(x), inplace=True)), inplace=True))


class TwoParts(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.head = mlp(nn.ReLU(), out=4), nn.Sequential(nn.ReLU(), nn.Linear(4, K))

    def forward(self, x):
        return self.head(self.encoder(x))


def linear():
    """No activation at all."""
    return nn.Sequential(nn.Linear(D, 4), nn.Linear(4, K))


def smooth():
    return nn.Sequential(nn.Linear(D, 4), nn.Tanh(), nn.Linear(4, K))


class Map(Dataset):
    def __init__(self, X, y):
        self.X, self.y = X, y

    def __len__(self):
        return len(self.X)

    def __getitem__(self, i):
        return self.X[i], self.y[i]


def hooks(net):
    return [len(m._forward_hooks) + len(m._forward_pre_hooks) for m in net.modules()]
