"""Scores of being in distribution, each as its paper has it; higher means more in distribution.

None of them sees a row that is out of distribution.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import logsumexp, softmax
from torch import Tensor, nn
from torch.nn import functional

NEIGHBOUR = 50
TEMPERATURE = 1000.0
# Of pixels from 0 to 1: the range of ODIN's paper.
MAGNITUDES = (0.0, 0.001, 0.002, 0.003, 0.004)


def max_softmax(logits: NDArray) -> NDArray:
    """The highest probability (Hendrycks and Gimpel 2017)."""
    return softmax(logits.astype(float), axis=1).max(axis=1)


def energy(logits: NDArray) -> NDArray:
    """log sum exp of the logits, the negative energy at temperature 1 (Liu et al. 2020)."""
    return logsumexp(logits.astype(float), axis=1)


class Mahalanobis:
    """Distance to the nearest class mean under the covariance that all classes share.

    Lee et al. 2018, on the last embedding, without their input perturbation and their
    combination of layers, which is fitted to rows out of distribution.
    """

    def __init__(self, X: NDArray, y: NDArray):
        X = X.astype(float)
        self.means = np.stack([X[y == k].mean(axis=0) for k in np.unique(y)])
        centred = X - self.means[np.unique(y, return_inverse=True)[1]]
        values, vectors = np.linalg.eigh(centred.T @ centred / len(X))
        # A direction without any variance says nothing.
        kept = values > values[-1] * 1e-10
        self.whiten = vectors[:, kept] / np.sqrt(values[kept])
        self.white_means = self.means @ self.whiten

    def __call__(self, X: NDArray) -> NDArray:
        white = X.astype(float) @ self.whiten
        squared = (white**2).sum(axis=1)[:, None] - 2 * white @ self.white_means.T
        return -(squared + (self.white_means**2).sum(axis=1)).min(axis=1)


class Neighbours:
    """Distance to the k-th nearest training row, embeddings of length 1 (Sun et al. 2022)."""

    def __init__(self, X: NDArray, k: int = NEIGHBOUR, device: str = "cpu"):
        self.k, self.device = k, device
        self.stored = self._unit(X)

    def _unit(self, X: NDArray) -> Tensor:
        return functional.normalize(torch.as_tensor(X, device=self.device).float(), dim=1)

    def __call__(self, X: NDArray, block: int = 2000) -> NDArray:
        found = []
        for part in self._unit(X).split(block):
            # Of unit rows the squared distance is 2 - 2 times the product.
            kth = (part @ self.stored.T).topk(self.k, dim=1).values[:, -1]
            found.append(-(2 - 2 * kth).clamp(min=0).sqrt())
        return torch.cat(found).double().cpu().numpy()


class VirtualLogit:
    """ViM: energy less the length outside of the principal subspace, in the unit of the logits.

    Wang et al. 2022. Without the weights of a single last layer, the origin is the mean of the
    training rows; the subspace has half of the directions.
    """

    def __init__(self, X: NDArray, logits: NDArray):
        self.mean = X.mean(axis=0, dtype=float)
        centred = X - self.mean
        vectors = np.linalg.eigh(centred.T @ centred)[1]
        self.residual = vectors[:, : X.shape[1] - X.shape[1] // 2]
        self.unit = logits.max(axis=1).mean() / self._outside(X).mean()

    def _outside(self, X: NDArray) -> NDArray:
        return np.linalg.norm((X - self.mean) @ self.residual, axis=1)

    def __call__(self, X: NDArray, logits: NDArray) -> NDArray:
        return energy(logits) - self.unit * self._outside(X)


def odin_logits(
    model: nn.Module,
    x: Tensor,
    magnitudes: Sequence[float],
    temperature: float = TEMPERATURE,
    batch: int = 500,
) -> list[NDArray]:
    """Logits of pixels that were moved to raise confidence, for each magnitude.

    Liang et al. 2018: x - magnitude sign(-grad log S), where S is the highest softmax at the
    temperature. ``x`` is uint8, or floats from 0 to 1.
    """
    found: list[list[Tensor]] = [[] for _ in magnitudes]
    for part in x.split(batch):
        pixels = part if part.is_floating_point() else part.float() / 255
        pixels = pixels.detach().requires_grad_()
        log_score = functional.log_softmax(model(pixels) / temperature, dim=1).amax(dim=1)
        (slope,) = torch.autograd.grad(-log_score.sum(), pixels)
        with torch.no_grad():
            for kept, magnitude in zip(found, magnitudes, strict=True):
                kept.append(model(pixels - magnitude * slope.sign()))
    return [torch.cat(kept).cpu().numpy() for kept in found]


def odin_score(logits: NDArray, temperature: float = TEMPERATURE) -> NDArray:
    """Highest softmax at the temperature."""
    return max_softmax(logits.astype(float) / temperature)


def choose_magnitude(
    model: nn.Module, x: Tensor, magnitudes: Sequence[float] = MAGNITUDES
) -> float:
    """The one of highest mean score on rows in distribution (Hsu et al. 2020)."""
    means = [odin_score(logits).mean() for logits in odin_logits(model, x, magnitudes)]
    return float(magnitudes[int(np.argmax(means))])
