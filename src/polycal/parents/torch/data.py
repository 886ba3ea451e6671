"""Input of a torch module: arrays, frames, tensors, data sets and loaders, in batches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ..._utils.arrays import Array
from ..._utils.optional import optional
from ..base import is_a

# Names of the labels in a batch that is a dict.
LABEL_KEYS = ("labels", "label")


def iterate(X: Any, batch_size: int) -> tuple[int | None, Iterable[Any]]:
    """Number of rows if known, and batches: those of a loader, or slices of anything else."""
    torch = optional("torch", "torch")
    if is_a(X, "torch", "DataLoader"):
        return _length(X.sampler), X
    if is_a(X, "torch", "Dataset"):
        # A loader draws a seed; from a generator of its own, so that the user's is untouched.
        loader = torch.utils.data.DataLoader(X, batch_size, generator=torch.Generator())
        return _length(X), loader
    is_tensor = is_a(X, "torch", "Tensor")
    rows = X if is_tensor else _as_array(X)
    if rows.ndim == 0:
        raise ValueError("X must hold rows; got a single number. Give an array of rows.")
    parts = (rows[start : start + batch_size] for start in range(0, len(rows), batch_size))
    return len(rows), parts if is_tensor else map(torch.tensor, parts)


def in_order(X: Any) -> bool:
    """False for a loader that shuffles, samples, or has a batch sampler of its own."""
    if not is_a(X, "torch", "DataLoader"):
        return True
    plain = ("SequentialSampler", "_InfiniteConstantSampler")
    batches = type(X.batch_sampler).__name__ in ("BatchSampler", "NoneType")
    return batches and type(X.sampler).__name__ in plain


def _length(collection: Any) -> int | None:
    try:
        return len(collection)
    except TypeError:  # an iterable data set has none
        return None


def _as_array(X: Any) -> Array:
    array: Array = np.asarray(X)
    if array.dtype.kind in "fiub":
        return array
    try:
        return array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(
            "X must be an array of numbers, a frame of numeric columns, a tensor, a Dataset or a "
            f"DataLoader; got {type(X).__name__} of {array.dtype}. Encode text and categories "
            "first; make a sparse matrix dense."
        ) from error


def split_batch(batch: Any) -> tuple[Any, Array | None]:
    """Input and labels of a batch: ``x``, ``(x,)``, ``(x, label, ...)`` or a dict of tensors.

    In a dict, the labels are called "labels" or "label", and all else goes to the module by name.
    """
    label = None
    if isinstance(batch, Mapping):
        inputs = {key: value for key, value in batch.items() if key not in LABEL_KEYS}
        label = next((batch[key] for key in LABEL_KEYS if batch.get(key) is not None), None)
        if not inputs or not all(is_a(value, "torch", "Tensor") for value in inputs.values()):
            raise TypeError(
                "a batch that is a dict must hold tensors by the names that the module takes; got "
                f"{ {key: describe(value) for key, value in batch.items()} }. Use a collate_fn "
                "that makes it so."
            )
        return inputs, _labels(label, len(next(iter(inputs.values()))))
    if isinstance(batch, (tuple, list)):
        label = batch[1] if len(batch) > 1 else None
        batch = batch[0] if batch else None
    if not is_a(batch, "torch", "Tensor"):
        raise TypeError(
            f"a batch must be a tensor or (tensor, labels); got {describe(batch)}. "
            "Use a collate_fn that makes it so, and a module that takes one tensor."
        )
    return batch, _labels(label, len(batch))


def _labels(label: Any, n_rows: int) -> Array | None:
    if label is None:
        return None
    label = label.detach().cpu().numpy() if is_a(label, "torch", "Tensor") else np.asarray(label)
    if label.size != n_rows:
        raise ValueError(
            f"labels must be one for each of the {n_rows} rows of a batch; got shape "
            f"{label.shape}. Give class numbers, not one-hot rows."
        )
    labels: Array = label.reshape(-1)
    return labels


def describe(value: Any) -> str:
    """The name of a wrong value in a message."""
    if isinstance(value, type):
        return f"the class {value.__name__}"
    return repr(value) if value is None or isinstance(value, str) else type(value).__name__
