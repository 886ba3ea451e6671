"""Changes of polycal that have no parameter, for the ablation alone; each is undone on leaving."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polycal.core.density import Density
from polycal.core.polytopes import Polytopes
from polycal.core.reading import ActivationModes, Reading
from polycal.gate import bandwidth
from polycal.kernels import KernelIndex, build_index
from polycal.parents import networks
from polycal.posterior import fit, votes


@contextmanager
def _swapped(owner: Any, name: str, value: Any) -> Iterator[None]:
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


@contextmanager
def no_confidence_levels() -> Iterator[None]:
    """The pool's own highest probability stays as it is."""
    with _swapped(fit, "fit_levels", lambda *rows: None):
        yield


@contextmanager
def no_class_matrix() -> Iterator[None]:
    """The pool has the same weights for every class."""
    with _swapped(fit, "fit_class_matrix", lambda *rows: None):
        yield


@contextmanager
def labels_by_all_layers() -> Iterator[None]:
    """Labels are weighed by all groups of the modes, as neighbours are."""

    def plain(
        modes: ActivationModes, device: str | None = None, hidden_labels: bool = False
    ) -> KernelIndex:
        return build_index(modes, device)

    with _swapped(votes, "build_index", plain):
        yield


@contextmanager
def no_output_layer() -> Iterator[None]:
    """The modes of a network are its hidden layers only; reading rows must happen inside."""
    read = networks.ReadingBuilder.reading

    def without_last(self, proba, labels=None) -> Reading:
        reading = read(self, proba, labels)
        modes = reading.modes
        codes = np.ascontiguousarray(modes.codes[:, : modes.column_ranges[-1][0]])
        return replace(reading, modes=ActivationModes(codes, modes.sizes[:-1], modes.packed))

    with _swapped(networks.ReadingBuilder, "reading", without_last), labels_by_all_layers():
        yield


@contextmanager
def variance_prior(typical: Callable[[Polytopes], Any]) -> Iterator[None]:
    """One more row in each local variance: local = (sum + typical) / (weight + 1).

    ``typical`` takes all rows and returns the squared distance of the one more in each feature.
    """
    plain = bandwidth.geodesic_density

    def with_prior(
        polytopes, index, regularization, execution, level_offsets, estimated_from=None, around=None
    ) -> Density:
        settings = (regularization, execution, level_offsets, estimated_from, around)
        density = plain(polytopes, index, *settings)
        everything = bandwidth.EstimatedFrom(polytopes, np.arange(len(polytopes)))
        some = estimated_from or everything
        rows, polytope = some.rows, some.polytope
        local = local_variance(1.0 / density.precision, polytope, rows.size)
        size = np.zeros((len(polytopes), 1))
        size[polytope, 0] = rows.size
        weight = index.matmul(polytopes.modes, size, execution)
        local = (weight * local + typical(rows)) / (weight + 1.0)
        variance = np.sqrt(local * np.average(local[polytope], axis=0, weights=rows.size))
        shift = -0.5 * (np.log(variance) + np.log(density.precision)).sum(axis=1)
        return replace(density, precision=1.0 / variance, log_norm=density.log_norm + shift)

    with _swapped(bandwidth, "geodesic_density", with_prior):
        yield


def local_variance(variance: NDArray, polytope: NDArray, size: NDArray) -> NDArray:
    """local of sigma^2 = sqrt(local * mean of local): the mean of sigma^4 is that mean squared."""
    common = np.sqrt(np.average(variance[polytope] ** 2, axis=0, weights=size))
    return variance**2 / common


def overall_variance(rows: Polytopes) -> NDArray:
    """Of each feature over all rows."""
    center = np.average(rows.mean, axis=0, weights=rows.size)
    return np.average(rows.variance + (rows.mean - center) ** 2, axis=0, weights=rows.size)


def mean_variance(rows: Polytopes) -> float:
    """Of a feature, the mean over the features."""
    return float(overall_variance(rows).mean())


def median_variance(rows: Polytopes) -> float:
    """Of a feature, the median over the features."""
    return float(np.median(overall_variance(rows)))


def range_variance(rows: Polytopes) -> NDArray:
    """Of each feature's own range, were it filled evenly; of a constant one the mean variance."""
    width = np.ptp(rows.mean, axis=0)
    return np.where(width > 0, width**2 / 12.0, mean_variance(rows))
