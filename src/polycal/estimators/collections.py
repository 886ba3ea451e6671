"""Predictions on Dask collections: lazy, one task for each partition.

Dask is imported only where X is one of its collections already.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from copy import copy
from functools import wraps
from typing import Any, TypeVar

import numpy as np
from sklearn.utils.validation import check_is_fitted, validate_data

from .._utils.arrays import Array, Floats
from .._utils.optional import optional
from .._utils.validation import is_dask
from ..calibration.fitted_model import Answer
from ..parents.torch.inference import CHANGED

Model = TypeVar("Model")


def lazy_on_dask(method: Callable[[Model, Any], Array]) -> Callable[[Model, Any], Array]:
    """Decorator of a method of one array: on a Dask collection it returns a lazy Dask array."""

    @wraps(method)
    def query(self: Model, X: Any) -> Array:
        return predict_lazily(self, X, method.__name__) if is_dask(X) else method(self, X)

    return query


def predict_lazily(model: Any, X: Any, method: str) -> Any:
    """What ``method`` returns for the rows of a Dask collection, as a lazy Dask array."""
    check_is_fitted(model, "model_")
    array = optional("dask.array", "dask")
    if isinstance(X, array.Array):
        return _map_array(array, model, X, method)
    if hasattr(X, "map_partitions") and getattr(X, "ndim", None) == 2:
        return _map_frame(model, X, method)
    raise TypeError(
        f"X must be a Dask array of rows or a Dask dataframe; got {type(X).__name__}. Make one of "
        "it: dask.array.from_delayed, Bag.to_dataframe, Series.to_frame."
    )


def _map_array(array: Any, model: Any, X: Any, method: str) -> Any:
    """One task for each block of rows; blocks of columns are joined."""
    if X.ndim < 2:
        raise ValueError(
            f"Expected 2D array, a table of rows and columns; got a Dask array of {X.ndim} "
            "dimension. Use X.reshape(-1, 1) if it is one column."
        )
    if not np.isfinite(np.array(X.shape[1:], dtype=float)).all():
        raise ValueError(
            "the number of columns of X is not known. Call X.compute_chunk_sizes() first."
        )
    if X.ndim == 2:
        validate_data(model, np.empty((0, X.shape[1])), skip_check_array=True, reset=False)
    if any(len(blocks) > 1 for blocks in X.chunks[1:]):
        X = X.rechunk(dict.fromkeys(range(1, X.ndim), -1))
    empty = no_rows(model, method)
    return array.map_blocks(
        _answer_block,
        X,
        _in_graph(model),
        method=method,
        chunks=(X.chunks[0], *((width,) for width in empty.shape[1:])),
        drop_axis=list(range(empty.ndim, X.ndim)),
        dtype=empty.dtype,
        meta=empty,
    )


def _map_frame(model: Any, X: Any, method: str) -> Any:
    """One task for each partition; the numbers of rows are not known."""
    meta = optional("dask.dataframe.dispatch", "dask").make_meta(X)
    if getattr(model, "columns_", None) is not None:
        meta = model.columns_.prepare(meta)
    validate_data(model, meta, skip_check_array=True, reset=False)
    return X.map_partitions(
        _answer_partition,
        _in_graph(model),
        method=method,
        meta=no_rows(model, method),
        enforce_metadata=False,
    )


class SharedModel:
    """A model that all tasks of a worker use, and that another worker may ask for meanwhile.

    A torch module has hooks while rows are read, which must not go with it, and cannot.
    """

    def __init__(self, model: Any):
        self.model = copy(model)
        self.model.verbose = 0  # no progress bars

    def __reduce__(self) -> tuple[Any, ...]:
        with CHANGED:
            return _load_shared, (pickle.dumps(self.model, pickle.HIGHEST_PROTOCOL),)


def _load_shared(data: bytes) -> SharedModel:
    return SharedModel(pickle.loads(data))


def _in_graph(model: Any) -> Any:
    """The model as one node of the graph, which all tasks refer to."""
    return optional("dask", "dask").delayed(SharedModel(model), traverse=False)


def _answer_block(rows: Any, shared: SharedModel, method: str, block_id: tuple[int, ...]) -> Array:
    return answer_part(rows, shared.model, method, f"partition {block_id[0]}")


def _answer_partition(
    rows: Any, shared: SharedModel, method: str, partition_info: Any = None
) -> Array:
    return answer_part(rows, shared.model, method, f"partition {partition_info['number']}")


def answer_part(rows: Any, model: Any, method: str, name: str) -> Array:
    """What ``method`` returns for some of the rows, without a warning about a shift."""
    if rows.shape[0] == 0:
        return no_rows(model, method)
    return RESULTS[method](model, answer_named(model, rows, name))


def answer_named(model: Any, rows: Any, name: str) -> Answer:
    """The answer for some of the rows; an error begins with their name."""
    try:
        answer: Answer = model.answer(rows)
    except (TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{name} of X: {error}") from error
    return answer


def no_rows(model: Any, method: str) -> Array:
    """What ``method`` returns for no rows."""
    if method == "predict":
        return np.empty(0, dtype=model.classes_.dtype)
    wide = method in ("predict_proba", "predict_log_proba")
    return np.empty((0, len(model.classes_)) if wide else 0)


def _log_probabilities(model: Any, answer: Answer) -> Floats:
    with np.errstate(divide="ignore"):
        return np.log(answer.probabilities)


# What each method takes from an answer.
RESULTS: dict[str, Callable[[Any, Answer], Array]] = {
    "predict_proba": lambda model, answer: answer.probabilities,
    "predict_log_proba": _log_probabilities,
    "predict": lambda model, answer: model.classes_[answer.most_probable],
    "score_samples": lambda model, answer: answer.log_f,
    "in_distribution": lambda model, answer: answer.alpha,
}
