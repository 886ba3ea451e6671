"""The ReLU network of the paper's tabular studies, trained in PyTorch on a CPU or a GPU.

The paper's table gives four hidden layers of 1000 nodes, Adam and a learning rate of 3e-4, and
no more. Epochs (200) and the end of training (10 epochs without a lower training loss) are those
of its published code. The batch is ours: 128 rows, where that code has 32 or 64. So are the
standard scores: the first layer of the network, fixed, takes the mean and the standard deviation
of its training rows out, so that the module itself takes the rows as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin

from polycal._utils.optional import optional

HIDDEN = (1000,) * 4
LEARNING_RATE = 3e-4
EPOCHS = 200
PATIENCE = 10
BATCH = 128
TINY = 1e-30  # PyTorch asks for a number above 0; beside any variance it is none


def make_network(
    X: ArrayLike,
    n_classes: int,
    *,
    hidden: Sequence[int] = HIDDEN,
    seed: int = 0,
    standardize: bool = True,
) -> Any:
    """An untrained network on the CPU, in evaluation mode, for rows like those of X.

    Weights of hidden layers are N(0, 2 / inputs), which keeps a signal's size through any depth
    of ReLUs; all else is PyTorch's own. They are drawn from ``seed``; the global state is left
    alone.
    ``standardize`` adds a first layer without parameters: standard scores by the mean and the
    variance of X, where a constant column keeps its unit. It is a batch norm in evaluation mode,
    so leave the module there; there is nothing else in it that training mode would change.
    """
    torch = optional("torch", "torch")
    nn = torch.nn
    rows = np.asarray(X, dtype=float)
    sizes = (rows.shape[1], *hidden)
    layers = []
    if standardize:
        first = nn.BatchNorm1d(sizes[0], eps=TINY, affine=False)
        variance = rows.var(axis=0)
        first.running_mean.copy_(torch.as_tensor(rows.mean(axis=0)))
        first.running_var.copy_(torch.as_tensor(np.where(variance > 0, variance, 1.0)))
        layers.append(first)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for before, after in pairwise(sizes):
            linear = nn.Linear(before, after)
            nn.init.kaiming_normal_(linear.weight, nonlinearity="relu")
            layers += [linear, nn.ReLU()]
        layers.append(nn.Linear(sizes[-1], n_classes))
    return nn.Sequential(*layers).eval()


def train_network(
    X: ArrayLike,
    y: ArrayLike,
    *,
    hidden: Sequence[int] = HIDDEN,
    epochs: int = EPOCHS,
    patience: int = PATIENCE,
    batch_size: int = BATCH,
    learning_rate: float = LEARNING_RATE,
    device: str = "cpu",
    seed: int = 0,
    standardize: bool = True,
) -> Any:
    """A network that :func:`make_network` made, trained by cross-entropy and left on ``device``.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
    y : array-like of shape (n_samples,)
        Any labels; the columns of the output are the sorted classes.
    hidden : sequence of int
        Nodes of each hidden layer.
    epochs, patience : int
        At most so many passes; training ends before when the mean training loss has not fallen
        below its lowest value for ``patience`` passes.
    device : str
        Where all rows and the network lie while training; "cuda" multiplies in TF32.
    seed : int
        Draws the weights and the order of the rows: the same network each time on one device.

    Returns
    -------
    torch.nn.Module
        In evaluation mode; it takes raw rows and returns logits.
    """
    torch = optional("torch", "torch")
    classes, codes = np.unique(np.asarray(y), return_inverse=True)
    network = make_network(X, len(classes), hidden=hidden, seed=seed, standardize=standardize)
    network.to(device)
    rows = torch.as_tensor(np.asarray(X), dtype=torch.float32, device=device)
    target = torch.as_tensor(codes, device=device)
    on_gpu = True if rows.is_cuda else None
    step = torch.optim.Adam(
        network.parameters(), lr=learning_rate, fused=on_gpu, capturable=bool(on_gpu)
    )
    shuffled = torch.empty(len(rows), dtype=torch.int64, device=device)
    total = torch.zeros((), device=device)

    def epoch() -> None:
        total.zero_()
        for batch in shuffled.split(batch_size):
            loss = torch.nn.functional.cross_entropy(network(rows[batch]), target[batch])
            step.zero_grad()
            loss.backward()
            step.step()
            total.add_(loss.detach() * len(batch))

    order = torch.Generator().manual_seed(seed)
    lowest, waited = float("inf"), 0
    with _fast_products(torch):
        run = _recorded(torch, network, step, epoch, rows[:batch_size]) if on_gpu else epoch
        for _ in range(epochs):
            shuffled.copy_(torch.randperm(len(rows), generator=order))
            run()
            # One look at the loss an epoch: each look makes the CPU wait for the device.
            now = float(total) / len(rows)
            waited = 0 if now < lowest else waited + 1
            lowest = min(lowest, now)
            if waited >= patience:
                break
    return network


def _recorded(torch: Any, network: Any, step: Any, epoch: Any, rows: Any) -> Any:
    """The epoch as one CUDA graph: thousands of small kernels without a word from the CPU."""
    # Streams belong to one device, and a graph records only those of its own.
    with torch.cuda.device(rows.device):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            # Libraries and Adam make what they keep at their first use, which a graph would
            # repeat. Gradients of 0 make Adam's moments and change no weight.
            for _ in range(3):
                network(rows).sum().backward()
            for weight in network.parameters():
                weight.grad.zero_()
            step.step()
            for state in step.state.values():
                state["step"].zero_()
            step.zero_grad()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            epoch()
    return graph.replay


@contextmanager
def _fast_products(torch: Any) -> Iterator[None]:
    """TF32 for the float32 products of a GPU; a CPU is not affected."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


class NetworkClassifier(ClassifierMixin, BaseEstimator):
    """A trained network as a fitted scikit-learn classifier, for baselines.

    ``NetworkClassifier(train_network(X, y), np.unique(y))`` is fitted as it is: put it into
    ``FrozenEstimator`` for ``CalibratedClassifierCV``. polycal takes the module.
    """

    def __init__(self, module: Any, classes: ArrayLike, batch_size: int = 4096):
        self.module = module
        self.classes = classes
        self.batch_size = batch_size

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_clone__(self) -> NetworkClassifier:
        return self

    @property
    def classes_(self) -> NDArray:
        return np.asarray(self.classes)

    def fit(self, X: ArrayLike, y: ArrayLike) -> NetworkClassifier:
        """Nothing: the module is trained."""
        return self

    def predict_proba(self, X: ArrayLike) -> NDArray:
        """Softmax of the logits, in double precision."""
        torch = optional("torch", "torch")
        device = next(self.module.parameters()).device
        rows = torch.as_tensor(np.asarray(X), dtype=torch.float32)
        with torch.no_grad():
            logits = [self.module(part.to(device)) for part in rows.split(self.batch_size)]
        return torch.cat(logits).double().softmax(dim=1).cpu().numpy()

    def predict(self, X: ArrayLike) -> NDArray:
        """The most probable class."""
        return self.classes_[self.predict_proba(X).argmax(axis=1)]
