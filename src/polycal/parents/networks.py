"""What all network adapters share: bits of activations, batch by batch, and probabilities."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, softmax

from .._utils.arrays import Array
from .._utils.compiled import njit
from ..core.reading import ActivationModes, Reading

OUTPUTS = ("logits", "probabilities", "log_probabilities")

# The sum of a row of probabilities may miss 1 by the rounding of half precision (8 bits).
HALF_PRECISION_SUM_TOLERANCE = 1e-2
# Rows of logits sum to 1 within this only if they are probabilities already.
ALREADY_PROBA_TOLERANCE = 1e-5


class Bounds(NamedTuple):
    """Inputs at which the linear pieces of an activation meet: one of them, or two."""

    low: float
    high: float | None = None


RELU = Bounds(0.0)


def piece_bits(values: Any, bounds: Bounds) -> list[Any]:
    """Bits that say in which linear piece each value is; arrays of NumPy or of torch."""
    if bounds.high is None:
        return [values > bounds.low]
    return [values > bounds.low, values >= bounds.high]


class ReadingBuilder:
    """Collects the batches of a network into one ``Reading``; of the bits it keeps packed words.

    Features go into one array, because embeddings may take half a gigabyte.

    Parameters
    ----------
    n_rows : int, optional
        The expected number of rows. The array grows if it is missing or too low.
    unit_length : bool, default=False
        Scale the features of each row to length 1.
    """

    def __init__(self, n_rows: int | None = None, unit_length: bool = False) -> None:
        self._n_rows, self._unit_length = n_rows, unit_length
        self._codes: list[Array] = []
        self._features = np.empty((0, 0))
        self._sizes: tuple[int, ...] = ()

    def __len__(self) -> int:
        return sum(map(len, self._codes))

    def add(self, groups: list[Array], features: Array) -> None:
        """Append one batch.

        Parameters
        ----------
        groups : list of ndarray of shape (n_rows, n_bits)
            The bits of each activation that was called.
        features : ndarray of shape (n_rows, n_features)
            The rows as the classifier gets them.
        """
        modes = ActivationModes.absent(len(features))
        if groups:
            modes = ActivationModes.from_bits(groups)
        self._sizes = self._sizes or modes.sizes
        if modes.sizes != self._sizes:
            raise ValueError(
                f"every batch must pass the same activations; the first had groups of "
                f"{self._sizes} bits, this one {modes.sizes}. Bring the rows to one shape, or "
                "name layers whose size does not depend on the batch."
            )
        if np.iscomplexobj(features):
            raise TypeError(
                "the input of the classifier must be real numbers; got complex ones. Give real "
                "and imaginary part as two numbers each."
            )
        start, stop = len(self), len(self) + len(features)
        if start and features.shape[1] != self._features.shape[1]:
            raise ValueError(
                f"every batch must have rows of one size; the first had {self._features.shape[1]} "
                f"numbers, this one has {features.shape[1]}. Bring the rows to one shape."
            )
        if stop > len(self._features):
            grown = self._allocate(max(stop, 2 * start), features.shape[1])
            if start:
                grown[:start] = self._features[:start]
            self._features = grown
        self._codes.append(modes.codes)
        rows = self._features[start:stop]
        if self._unit_length:
            _scale_to_unit_length(np.ascontiguousarray(features), rows)
        else:
            rows[:] = features

    def _allocate(self, n_rows: int, n_features: int) -> Array:
        """Space for all expected rows; for ``n_rows`` if the expected number is too large."""
        try:
            return np.empty((max(self._n_rows or 0, n_rows), n_features))
        except (MemoryError, ValueError):
            return np.empty((n_rows, n_features))

    def reading(self, proba: Array, labels: Array | None = None) -> Reading:
        """All batches; the output layer is the last group (bit k: above the uniform 1/K)."""
        if len(self) != len(proba):
            raise ValueError(
                f"the network returns {len(proba)} rows of scores, but {len(self)} rows passed "
                "its activations or its encoder; expected one for one. Keep the rows on axis 0."
            )
        modes = ActivationModes.absent(len(proba))
        if self._sizes:
            last = ActivationModes.from_bits([proba > 1.0 / proba.shape[1]])
            codes = np.concatenate([np.concatenate(self._codes), last.codes], axis=1)
            modes = ActivationModes(codes, self._sizes + last.sizes, packed=True)
        features = self._features
        if len(self) < len(features):
            features = features[: len(self)].copy()
        return Reading(modes, proba, features, labels)


@njit(nogil=True, cache=True, fastmath={"reassoc"})
def _scale_to_unit_length(rows: Array, out: Array) -> None:
    """Write each row over its length into ``out``; a row of zeros stays one."""
    for i in range(len(rows)):
        square = 0.0
        for j in range(rows.shape[1]):
            value = np.float64(rows[i, j])
            square += value * value
        length = math.sqrt(square) if square > 0.0 else 1.0
        for j in range(rows.shape[1]):
            out[i, j] = rows[i, j] / length


def check_output(output: str) -> None:
    """Raise for a kind of network output that ``to_proba`` does not know."""
    if output not in OUTPUTS:
        raise ValueError(f"output must be one of {', '.join(map(repr, OUTPUTS))}; got {output!r}.")


def to_proba(values: Array, output: str, remedy: str, who: str = "the network") -> Array:
    """Rows of class probabilities from what the network returns.

    Parameters
    ----------
    values : ndarray of shape (n_samples, n_classes), (n_samples, 1) or (n_samples,)
        One column is the logit (or probability) of the second of two classes.
    output : {"logits", "probabilities", "log_probabilities"}
    remedy : str
        What to do when the values are not what ``output`` says, for the error message.
    who : str, default="the network"
        What returned the values, for the error message.
    """
    if values.ndim == 1:
        values = values[:, None]
    if values.ndim != 2 or values.shape[1] == 0:
        raise ValueError(
            f"{who} must return one row of class scores for each row, shape (n, K); got "
            f"shape {values.shape}. Wrap it in a module that returns only the class scores."
        )
    several = values.shape[1] > 1
    if output == "logits" and several and _are_proba(values, ALREADY_PROBA_TOLERANCE):
        raise ValueError(
            f"{who}'s rows are taken as logits but are already probabilities. {remedy}"
        )
    # Scores that overflow are reported below, in one place.
    with np.errstate(over="ignore", invalid="ignore"):
        if output == "logits":
            proba = softmax(values, axis=1) if several else expit(values)
        else:
            proba = np.exp(values) if output == "log_probabilities" else values
    if proba.shape[1] == 1:
        proba = np.concatenate([1.0 - proba, proba], axis=1)
    finite = np.isfinite(proba).all(axis=1)
    if not finite.all():
        raise ValueError(
            f"{who} returns NaN or infinity for {(~finite).sum()} of {len(proba)} rows, "
            f"the first is row {int(np.argmin(finite))}. Scale or clip the input."
        )
    if not _are_proba(proba, HALF_PRECISION_SUM_TOLERANCE):
        worst = int(np.argmax(np.abs(proba.sum(axis=1) - 1.0)))
        raise ValueError(
            f"{who} must give probabilities: no negative number, each row with sum 1; row "
            f"{worst} is {np.array2string(proba[worst], precision=4, threshold=6)}. {remedy}"
        )
    rows: Array = proba / proba.sum(axis=1, keepdims=True)
    return rows


def _are_proba(values: Array, tolerance: float) -> bool:
    return bool((values >= 0).all() and (np.abs(values.sum(axis=1) - 1.0) <= tolerance).all())
