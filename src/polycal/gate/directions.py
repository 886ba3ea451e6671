"""Directions of an encoder's embedding: how near a row is to the rows of the fit, in two ways.

``mean_cosine`` and ``class_distance`` are the definitions; ``Directions.terms`` is equal to them,
in blocks and on any device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from .._utils.arrays import Floats, Ints, Singles
from .._utils.blocks import map_blocks
from .._utils.optional import optional
from .._utils.saved import LARGEST_LOG, saved_array
from ..core.execution import Execution

# Rows of the fit that a row is compared with: those of highest cosine.
NEAREST = 10
# Rows that single precision proposes beyond these, so that its rounding loses none.
SPARE = 6
# Least variance, as a share of the mean over all directions, of one in which no row differs.
LEAST_VARIANCE = 1e-10
# Above the rounding of a length.
SHORTEST = 1e-300


@dataclass(frozen=True)
class Directions:
    """Embeddings of length 1 that a model was fitted on, and their spread around class means."""

    rows: Singles = saved_array("float32 directions numbers", least=-1.001, most=1.001)
    # the inverse root of the covariance within classes, and the class means times it
    whiten: Floats = saved_array("float64 numbers numbers", least=-LARGEST_LOG, most=LARGEST_LOG)
    means: Floats = saved_array(
        "float64 direction_classes numbers", least=-LARGEST_LOG, most=LARGEST_LOG
    )

    @classmethod
    def of(cls, X: Floats, counts: Floats, execution: Execution) -> Directions:
        """From rows of the fit, or centres of some, and the weight of each class in them.

        The covariance is that of rows around the means of their classes, shrunk to a sphere as far
        as the number of rows makes it uncertain (``shrinkage``).
        """
        unit, size = unit_length(X), counts.sum(axis=1)
        of_class = counts.sum(axis=0)
        centers = (counts.T @ unit)[of_class > 0] / of_class[of_class > 0, None]
        weighted = unit if (size == 1.0).all() else unit * np.sqrt(size)[:, None]
        squares = _squares(weighted, execution.device)
        covariance = (squares - centers.T @ (of_class[of_class > 0, None] * centers)) / size.sum()
        n, d = len(unit), unit.shape[1]
        mean = max(np.trace(covariance) / d, SHORTEST)
        rho = max(shrinkage(covariance, n), LEAST_VARIANCE)
        shrunk = (1 - rho) * covariance + rho * mean * np.eye(d)
        root = solve_triangular(cholesky(shrunk, lower=True), np.eye(d), lower=True)
        return cls(unit.astype(np.float32), root, centers @ root.T)

    def terms(self, X: Floats, execution: Execution, own: Ints | None = None) -> Floats:
        """Mean cosine to the nearest rows, and minus the distance to the nearest class mean.

        The shape is (2, n_samples). ``own`` are places of rows of the fit, each of which is not
        its own neighbour.
        """
        found = np.empty((2, len(X)))
        own = np.full(len(X), -1) if own is None else own
        k = min(NEAREST, len(self.rows) - bool((own >= 0).any()))
        compute = self._on_cpu if execution.device is None else self._on_device(execution.device)

        def fill(rows: slice) -> None:
            found[:, rows] = compute(unit_length(X[rows]), own[rows], k)

        # On a device one block is work enough at a time.
        n_jobs = execution.n_jobs if execution.device is None else 1
        map_blocks(fill, len(X), 8.0 * len(self.rows), n_jobs=n_jobs)
        return found

    def _on_cpu(self, unit: Floats, own: Ints, k: int) -> Floats:
        cosine = unit.astype(np.float32) @ self.rows.T
        known = np.flatnonzero(own >= 0)
        cosine[known, own[known]] = -np.inf
        n_proposed = min(k + SPARE, len(self.rows))
        near = np.argpartition(-cosine, n_proposed - 1, axis=1)[:, :n_proposed]
        exact = np.einsum("ij,ikj->ik", unit, self.rows[near].astype(float))
        exact[near == own[:, None]] = -np.inf
        white = unit @ self.whiten.T
        squared = self._mean_squares + (white**2).sum(axis=1)[:, None] - 2 * white @ self.means.T
        nearest = -np.sort(-exact, axis=1)[:, :k]
        return np.stack([nearest.mean(axis=1), -np.sqrt(np.maximum(squared.min(axis=1), 0.0))])

    def _on_device(self, device: str) -> Callable[[Floats, Ints, int], Floats]:
        """``_on_cpu`` by torch, in double precision, with the rows kept on the device."""
        torch = optional("torch", "torch")
        if device not in self._kept:
            arrays = self.rows, self.whiten, self.means, self._mean_squares
            self._kept[device] = [torch.as_tensor(a, device=device).double() for a in arrays]
        rows, whiten, means, mean_squares = self._kept[device]

        def compute(unit: Floats, own: Ints, k: int) -> Floats:
            x = torch.as_tensor(unit, device=device)
            cosine = x @ rows.T
            known = np.flatnonzero(own >= 0)
            cosine[torch.as_tensor(known), torch.as_tensor(own[known])] = -torch.inf
            white = x @ whiten.T
            squared = mean_squares + (white**2).sum(dim=1, keepdim=True) - 2 * white @ means.T
            near = cosine.topk(k, dim=1).values.mean(dim=1)
            distance = squared.amin(dim=1).clamp(min=0).sqrt()
            stacked: Floats = torch.stack([near, -distance]).cpu().numpy()
            return stacked

        return compute

    @cached_property
    def _mean_squares(self) -> Floats:
        squares: Floats = (self.means**2).sum(axis=1)
        return squares

    @cached_property
    def _kept(self) -> dict[str, list[Any]]:
        """Tensors of each device."""
        return {}

    def __getstate__(self) -> dict[str, Any]:
        """The fields alone: a copy, or another process, makes its own tensors."""
        return {name: vars(self)[name] for name in self.__dataclass_fields__}

    def contradictions(self) -> Iterator[str]:
        """Inconsistencies in directions that were read from a file, as messages."""
        if len(self.rows) == 0 or len(self.means) == 0:
            yield "there are no directions"


def mean_cosine(x: Floats, rows: Floats) -> float:
    """Definition of the first term for one direction."""
    return float(np.sort(rows @ x)[-NEAREST:].mean())


def class_distance(x: Floats, centers: Floats, covariance: Floats) -> float:
    """Definition of the second term for one direction."""
    away = x - centers
    squared = np.einsum("ij,ij->i", away, np.linalg.solve(covariance, away.T).T)
    return -float(np.sqrt(squared.min()))


def shrinkage(covariance: Floats, n: int) -> float:
    """Share of the sphere in an estimate from n rows: oracle approximating shrinkage.

    Chen, Wiesel, Eldar and Hero (2010), equation 23.
    """
    d = len(covariance)
    square, trace = float((covariance**2).sum()), float(np.trace(covariance)) ** 2
    above = (1 - 2 / d) * square + trace
    below = (n + 1 - 2 / d) * (square - trace / d)
    return min(1.0, above / below) if below > 0 else 1.0


def unit_length(X: Floats) -> Floats:
    """Rows divided by their length; rows of zeros stay so."""
    length = np.sqrt(np.einsum("ij,ij->i", X, X))[:, None]
    return np.asarray(X / np.maximum(length, SHORTEST), dtype=float)


def _squares(X: Floats, device: str | None) -> Floats:
    """X^T X."""
    if device is None:
        squares: Floats = X.T @ X
        return squares
    x = optional("torch", "torch").as_tensor(X, device=device)
    found: Floats = (x.T @ x).cpu().numpy()
    return found
