"""What all network adapters share: bits packed by batch, and rows of probabilities."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.special import expit, softmax

from ..core.reading import ActivationModes, Reading

OUTPUTS = ("logits", "probabilities", "log_probabilities")

# A row of probabilities may miss 1 by the rounding of half precision (8 bits), not by more.
SUM_TOLERANCE = 1e-2


class Rows:
    """Bits and rows of a network, batch after batch. Only packed words are kept of the bits.

    Rows go into one array, which grows unless ``n_rows`` says how many will come: embeddings may
    be half a gigabyte. With ``unit_length`` each becomes a direction.
    """

    def __init__(self, n_rows: int | None = None, unit_length: bool = False) -> None:
        self._n_rows, self._unit_length = n_rows, unit_length
        self._codes: list[NDArray] = []
        self._seen = np.empty((0, 0))
        self._sizes: tuple[int, ...] = ()

    def __len__(self) -> int:
        return sum(map(len, self._codes))

    def add(self, groups: list[NDArray], seen: NDArray) -> None:
        """One batch: a group of bits for each call, and its rows as the classifier sees them."""
        modes = ActivationModes.from_bits(groups)
        self._sizes = self._sizes or modes.sizes
        if modes.sizes != self._sizes:
            raise ValueError(
                f"every batch must pass the same activations; the first had groups of "
                f"{self._sizes} bits, this one {modes.sizes}. Bring the rows to one shape, or "
                "name layers whose size does not depend on the batch."
            )
        if np.iscomplexobj(seen):
            raise TypeError(
                "the rows that the classifier sees must be real numbers; got complex ones. "
                "Give real and imaginary part as two numbers each."
            )
        start, stop = len(self), len(self) + len(seen)
        if start and seen.shape[1] != self._seen.shape[1]:
            raise ValueError(
                f"every batch must have rows of one size; the first had {self._seen.shape[1]} "
                f"numbers, this one has {seen.shape[1]}. Bring the rows to one shape."
            )
        if stop > len(self._seen):
            grown = self._room(max(stop, 2 * start), seen.shape[1])
            if start:
                grown[:start] = self._seen[:start]
            self._seen = grown
        self._codes.append(modes.codes)
        rows = self._seen[start:stop]
        if self._unit_length:
            _put_directions(np.ascontiguousarray(seen), rows)
        else:
            rows[:] = seen

    def _room(self, n_rows: int, n_numbers: int) -> NDArray:
        """For all that will come, or for ``n_rows`` where that length is no more than a wish."""
        try:
            return np.empty((max(self._n_rows or 0, n_rows), n_numbers))
        except (MemoryError, ValueError):
            return np.empty((n_rows, n_numbers))

    def reading(self, proba: NDArray, labels: NDArray | None = None) -> Reading:
        """All batches; the output layer is the last group (bit k: above the uniform 1/K)."""
        if len(self) != len(proba):
            raise ValueError(
                f"the network returns {len(proba)} rows of scores, but {len(self)} rows passed "
                "its activations or its encoder; expected one for one. Keep the rows on axis 0."
            )
        last = ActivationModes.from_bits([proba > 1.0 / proba.shape[1]])
        codes = np.concatenate([np.concatenate(self._codes), last.codes], axis=1)
        modes = ActivationModes(codes, self._sizes + last.sizes, packed=True)
        seen = self._seen if len(self) == len(self._seen) else self._seen[: len(self)].copy()
        return Reading(modes, proba, seen, labels)


@njit(nogil=True, cache=True, fastmath={"reassoc"})
def _put_directions(rows, out):
    """Rows over their length, in one pass; a row of zeros has no direction and stays one."""
    for i in range(len(rows)):
        square = 0.0
        for j in range(rows.shape[1]):
            value = np.float64(rows[i, j])
            square += value * value
        length = math.sqrt(square) if square > 0.0 else 1.0
        for j in range(rows.shape[1]):
            out[i, j] = rows[i, j] / length


def piece_bits(flat: Any, low: float, high: float | None) -> list[Any]:
    """Bits that name the linear piece: two pieces, or three where the activation is bounded."""
    return [flat > low] if high is None else [flat > low, flat >= high]


def check_output(output: str) -> None:
    if output not in OUTPUTS:
        raise ValueError(f"output must be one of {', '.join(map(repr, OUTPUTS))}; got {output!r}.")


def to_proba(values: NDArray, output: str, remedy: str) -> NDArray:
    """Rows of class probabilities from what the network returns.

    Parameters
    ----------
    values : ndarray of shape (n_samples, n_classes), (n_samples, 1) or (n_samples,)
        One column is the logit (or probability) of the second of two classes.
    output : {"logits", "probabilities", "log_probabilities"}
    remedy : str
        What to do when the values are not what ``output`` says.
    """
    if values.ndim == 1:
        values = values[:, None]
    if values.ndim != 2 or values.shape[1] == 0:
        raise ValueError(
            f"the network must return one row of class scores for each row, shape (n, K); got "
            f"shape {values.shape}. Wrap it in a module that returns only the class scores."
        )
    if output == "logits" and values.shape[1] > 1 and _are_proba(values, 1e-5):
        raise ValueError(
            f"the network's rows are taken as logits but are already probabilities. {remedy}"
        )
    # Scores that overflow are reported below, in one place.
    with np.errstate(over="ignore", invalid="ignore"):
        if output == "logits":
            proba = softmax(values, axis=1) if values.shape[1] > 1 else expit(values)
        else:
            proba = np.exp(values) if output == "log_probabilities" else values
    if proba.shape[1] == 1:
        proba = np.concatenate([1.0 - proba, proba], axis=1)
    finite = np.isfinite(proba).all(axis=1)
    if not finite.all():
        raise ValueError(
            f"the network returns NaN or infinity for {(~finite).sum()} of {len(proba)} rows, "
            f"the first is row {int(np.argmin(finite))}. Scale or clip the input."
        )
    if not _are_proba(proba, SUM_TOLERANCE):
        worst = int(np.argmax(np.abs(proba.sum(axis=1) - 1.0)))
        raise ValueError(
            "the network must give probabilities: no negative number, each row with sum 1; row "
            f"{worst} is {np.array2string(proba[worst], precision=4, threshold=6)}. {remedy}"
        )
    return proba / proba.sum(axis=1, keepdims=True)


def _are_proba(values: NDArray, tolerance: float) -> bool:
    return bool((values >= 0).all() and (np.abs(values.sum(axis=1) - 1.0) <= tolerance).all())
