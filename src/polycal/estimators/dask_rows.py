"""Labelled rows in Dask collections, as partitions that are made inside the task that uses them.

Where Dask made partitions in tasks of their own, many would wait in memory for the tasks that add
them up. Dask is imported only where rows are in one of its collections already.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator
from typing import Any

import numpy as np

from .._utils.optional import optional
from .._utils.sklearn_compat import n_rows_of
from .._utils.validation import is_dask

Key = Hashable


class Partition:
    """One partition of X, y and weights: what Dask would do to make it.

    A plain object, so that Dask takes it as it is and looks for no task in it. ``inputs`` are the
    keys of what other partitions need too, which is made once, by tasks of its own.
    """

    def __init__(self, name: str, number: int, graph: dict[Key, Any], keys: list[Key]):
        self.name, self.number, self.graph, self.keys = name, number, graph, keys
        self.inputs: list[Key] = []

    def make(self, inputs: list[Any]) -> tuple[Any, Any, Any]:
        """X, y, and weights or None."""
        quote = optional("dask.core", "dask").quote
        known = {key: quote(value) for key, value in zip(self.inputs, inputs, strict=True)}
        parts = list(optional("dask", "dask").get({**self.graph, **known}, self.keys))
        X, y, weight = parts if len(parts) == 3 else (*parts, None)
        for name, other in (("y", y), ("sample_weight", weight)):
            if other is not None and n_rows_of(other) != n_rows_of(X):
                raise ValueError(
                    f"it has {n_rows_of(X)} rows, and partition {self.number} of {name} has "
                    f"{n_rows_of(other)}. Partition both alike: take X and {name} from one frame, "
                    "or call rechunk or repartition."
                )
        return X, y, weight

    def error(self, error: Exception) -> Exception:
        """An error whose message begins with the name of the partition."""
        kind = TypeError if isinstance(error, TypeError) else ValueError
        return kind(f"partition {self.number} of {self.name}: {error}")


class Partitions:
    """The partitions of labelled rows, and tasks for what several of them need."""

    def __init__(self, X: Any, y: Any, sample_weight: Any = None, name: str = "X"):
        core = optional("dask.core", "dask")
        named = {name: X, "y" if name == "X" else "y_cal": y, "sample_weight": sample_weight}
        named = {key: value for key, value in named.items() if value is not None}
        _check_kinds(named)
        self.meta = _meta(X)
        # Without fused tasks, X and y of one frame are made of one reading of the file.
        found = [_simplified(rows) for rows in _aligned(named)]
        graph: dict[Key, Any] = {}
        for collection in found:
            graph.update(collection.__dask_graph__())
        keys = zip(*(list(core.flatten(rows.__dask_keys__())) for rows in found), strict=True)
        self._parts = [Partition(name, i, {}, list(some)) for i, some in enumerate(keys)]
        self._graph = graph
        self._divide(core)

    def __len__(self) -> int:
        return len(self._parts)

    def _divide(self, core: Any) -> None:
        """Give each partition the tasks that it alone needs."""
        reached = [_reached(self._graph, part.keys, core) for part in self._parts]
        n_users = Counter(key for some in reached for key in some)
        # What lies in the memory of workers already is no task that could be done elsewhere.
        shared = {key for key, n in n_users.items() if n > 1 or _is_future(self._graph[key])}
        for part, some in zip(self._parts, reached, strict=True):
            part.graph = {key: self._graph[key] for key in some if key not in shared}
            needed = {other for key in part.graph for other in some[key]} | set(part.keys)
            part.inputs = [key for key in some if key in shared and key in needed]

    def __iter__(self) -> Iterator[tuple[Partition, list[Any]]]:
        """Each partition, and the lazy values of its inputs."""
        delayed = optional("dask.delayed", "dask").Delayed
        for part in self._parts:
            yield part, [delayed(key, self._graph) for key in part.inputs]


def _reached(graph: dict[Key, Any], keys: list[Key], core: Any) -> dict[Key, set[Key]]:
    """Every task that these keys need, and what it needs itself."""
    found: dict[Key, set[Key]] = {}
    left = list(keys)
    while left:
        key = left.pop()
        if key not in found:
            found[key] = core.get_dependencies(graph, key)
            left.extend(found[key])
    return found


def _is_future(task: Any) -> bool:
    """Whether a task is a result on a cluster, also as newer versions of Dask wrap it."""
    value = getattr(task, "value", task)
    return any(base.__name__ == "Future" for base in type(value).__mro__)


def _check_kinds(named: dict[str, Any]) -> None:
    """Raise unless all are Dask arrays, frames or series."""
    X_name, *_ = named
    for name, rows in named.items():
        if not is_dask(rows):
            raise TypeError(
                f"{name} must be a Dask collection as {X_name} is, with the same partitions; got "
                f"{type(rows).__name__}. Make one of it: dask.array.from_array({name}, chunks=...)."
            )
        table = name == X_name
        if not hasattr(rows, "ndim") or (table and rows.ndim != 2):
            raise TypeError(
                f"{name} must be a Dask array of {'rows and columns' if table else 'one column'} "
                f"or a Dask {'dataframe' if table else 'series'}; got {type(rows).__name__}."
            )


def _aligned(named: dict[str, Any]) -> list[Any]:
    """The collections with the partitions of X; arrays of known sizes are divided anew."""
    array = optional("dask.array", "dask").Array
    (X_name, X), *others = named.items()
    if isinstance(X, array):
        if not np.isfinite(X.shape[1]):
            raise ValueError(
                f"the number of columns of {X_name} is not known. Call "
                f"{X_name}.compute_chunk_sizes() first."
            )
        if len(X.chunks[1]) > 1:
            X = X.rechunk({1: -1})
    parts = [X]
    for name, rows in others:
        if isinstance(rows, array):
            if rows.ndim > 1:
                rows = rows.rechunk(dict.fromkeys(range(1, rows.ndim), -1))
            rows = _divided_as(rows, name, X, X_name) if isinstance(X, array) else rows
        if _n_parts(rows) != _n_parts(X):
            raise ValueError(
                f"{X_name} has {_n_parts(X)} partitions and {name} has {_n_parts(rows)}. Partition "
                f"both alike: take {X_name} and {name} from one frame, or call rechunk or "
                "repartition."
            )
        parts.append(rows)
    return parts


def _divided_as(rows: Any, name: str, X: Any, X_name: str) -> Any:
    """An array with the blocks of X where both sizes are known."""
    if not np.isfinite([X.shape[0], rows.shape[0]]).all():
        return rows
    if X.shape[0] != rows.shape[0]:
        raise ValueError(
            f"{name} must hold one value for each of the {X.shape[0]} rows of {X_name}; it holds "
            f"{rows.shape[0]}."
        )
    return rows if rows.chunks[0] == X.chunks[0] else rows.rechunk({0: X.chunks[0]})


def _n_parts(rows: Any) -> int:
    count = rows.numblocks[0] if hasattr(rows, "numblocks") else rows.npartitions
    return int(count)


def _simplified(rows: Any) -> Any:
    """A frame that reads only the columns it needs; arrays are as they are."""
    return rows.optimize(fuse=False) if hasattr(rows, "optimize") else rows


def _meta(X: Any) -> Any:
    """A frame without rows as the partitions should be; None for an array."""
    return getattr(X, "_meta", None) if hasattr(X, "columns") else None


def check_columns(X: Any, meta: Any) -> None:
    """Raise unless a partition has the columns of the frame, and values of the same kind."""
    if meta is None:
        return
    names, known = list(X.columns), list(meta.columns)
    if names != known:
        raise ValueError(
            f"its columns are {names[:20]}; those of the frame are {known[:20]}. Give every "
            "partition the same columns in the same order."
        )
    for name in known:
        kinds = [_kind_of(rows[name].dtype) for rows in (X, meta)]
        if kinds[0] != kinds[1] and n_rows_of(X):
            raise ValueError(
                f"its column {name!r} holds {kinds[0]} ({X[name].dtype}); in the frame it holds "
                f"{kinds[1]} ({meta[name].dtype}). Give every partition the same types: astype."
            )


def _kind_of(dtype: Any) -> str:
    """What a column holds, in a word."""
    kind = getattr(dtype, "kind", "O")
    if str(dtype) == "category":
        return "categories"
    if kind in "iufb":
        return "numbers"
    return "dates" if kind in "mM" else "text"
