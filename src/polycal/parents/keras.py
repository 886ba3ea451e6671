"""Keras 3 models, on any back-end: a second model with the same layers returns the activations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm.auto import tqdm

from .._utils.optional import optional
from ..core.reading import Reading
from .base import Adapter, is_a
from .networks import Rows, piece_bits, to_proba

BATCH_SIZE = 256
#: Where the linear pieces of Keras's activation functions meet.
FUNCTIONS: dict[str, tuple[float, float | None]] = {
    "relu": (0.0, None),
    "leaky_relu": (0.0, None),
    "relu6": (0.0, 6.0),
    "hard_tanh": (-1.0, 1.0),
}


class KerasAdapter(Adapter):
    family = "a trained Keras 3 Sequential or functional model with ReLU-type activations"
    pretrained = True
    needs_codes = True
    raw_input = True
    #: The graph that was read last, the function that runs it, and the pieces it returns.
    _kept: tuple[Any, Callable[[NDArray], Any], list] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_kept": None}  # a compiled function has no pickle

    @classmethod
    def copy(cls, estimator: Any) -> Any:
        return estimator

    @staticmethod
    def problem(estimator: Any) -> str | None:
        if not is_a(estimator, "keras", "Model"):
            return ""
        if not _is_graph(estimator):
            return (
                "a subclassed Keras model has no graph of layers to read; write it as "
                "keras.Model(inputs, outputs) or keras.Sequential with the same trained layers"
            )
        if _graph(estimator) is None:
            return "the Keras model is not built; put a keras.Input first, train it, then give it"
        if len(estimator.inputs) != 1 or len(estimator.outputs) != 1:
            return (
                f"the Keras model has {len(estimator.inputs)} inputs and "
                f"{len(estimator.outputs)} outputs; expected one of each. Give a model with the "
                "class scores as its only output"
            )
        if not _has_pieces(estimator):
            return (
                "the Keras model has no ReLU-type activation (relu, relu6, leaky_relu, hard_tanh, "
                "or the layers ReLU, LeakyReLU, PReLU); train one that has"
            )
        if _output_kind(estimator) is None:
            return (
                "the last layer of the Keras model must be linear, softmax or sigmoid; got "
                f"activation {_name(_last(estimator).activation)!r}. End it with softmax"
            )
        return None

    @classmethod
    def allows_missing(cls, estimator: Any) -> bool:
        return False

    def read(self, X: Any, verbose: int = 0) -> Reading:
        model, X = self.estimator, np.asarray(X)
        _check_rows(X, model.inputs[0])
        activations, pieces = self._reader()
        rows, outputs = Rows(len(X)), []
        with tqdm(total=len(X), desc="reading", unit="row", disable=not verbose) as bar:
            for start in range(0, len(X), BATCH_SIZE):
                batch = X[start : start + BATCH_SIZE]
                *values, scores = map(np.asarray, activations(batch))
                bits = [_bits(v, *p) for v, p in zip(values, pieces, strict=True)]
                rows.add(bits, batch.reshape(len(batch), -1))
                outputs.append(np.asarray(scores, dtype=np.float64))
                bar.update(len(batch))
        kind = _output_kind(model) or "logits"
        remedy = "End the model with a softmax over the classes (or one sigmoid unit)."
        return rows.reading(to_proba(np.concatenate(outputs), kind, remedy))

    def _reader(self) -> tuple[Callable[[NDArray], Any], list]:
        """Rows -> activations and scores, and the pieces of the activations.

        Kept for the next rows: JAX and TensorFlow compile each new model anew.
        """
        model, graph = self.estimator, _graph(self.estimator)
        kept = self._kept
        if kept is None or kept[0] is not graph:  # layers were added to a Sequential
            tensors, pieces = _taps(model)
            probe = optional("keras", "keras").Model(model.inputs[0], [*tensors, model.outputs[0]])
            kept = self._kept = graph, _forward(probe), pieces
        return kept[1:]


def _forward(probe: Any) -> Callable[[NDArray], Any]:
    """Rows -> what the model returns. The weights are those of the moment."""
    if optional("keras", "keras").backend.backend() != "jax":
        return probe.predict_on_batch
    # With JAX, Keras's own prediction gives the memory of the weights away and takes it back at
    # the end: in between they are deleted for other threads, and for good where the user held one.

    def call(trainable: list, other: list, rows: NDArray) -> Any:
        return probe.stateless_call(trainable, other, rows, training=False)[0]

    run = optional("jax", "keras").jit(call) if probe.jit_compile else call

    def forward(rows: NDArray) -> Any:
        trainable = [variable.value for variable in probe.trainable_variables]
        other = [variable.value for variable in probe.non_trainable_variables]
        return run(trainable, other, rows)

    return forward


def _check_rows(X: NDArray, taken: Any) -> None:
    """Rows as the input tensor takes them. Each back-end has another error, or none: the ReLU
    of TensorFlow makes zero of NaN."""
    if X.ndim == 0 or len(X) == 0:
        raise ValueError(f"X must have at least one row; got shape {X.shape}.")
    if not np.can_cast(X.dtype, np.float64, "same_kind"):
        raise ValueError(f"X must hold numbers; got dtype {X.dtype}. Encode it as numbers first.")
    expected, shape = tuple(taken.shape[1:]), X.shape[1:]
    # Keras itself adds or drops a last axis of length 1.
    same = [shape, (*shape, 1)] + [shape[:-1]] * (shape[-1:] == (1,))
    if not any(_fits(other, expected) for other in same):
        raise ValueError(
            f"X must have rows of shape {expected}, as the Keras model takes them; got {shape}. "
            "Reshape or resize them."
        )
    dtype = {"float16": np.float16, "float64": np.float64}.get(taken.dtype, np.float32)
    with np.errstate(over="ignore"):
        finite = np.isfinite(X.astype(dtype, copy=False)).all()
    if not finite:
        raise ValueError(
            f"X must be finite as {dtype.__name__}; got NaN, infinity or a number beyond its "
            "range. Impute, scale or clip it."
        )


def _fits(shape: tuple, expected: tuple) -> bool:
    return len(shape) == len(expected) and all(
        length in (None, n) for n, length in zip(shape, expected, strict=True)
    )


def _bits(values: NDArray, low: float, high: float | None) -> NDArray:
    top = values.max(initial=low)
    if np.isnan(top) or (high is None and np.isinf(top)):
        raise ValueError(
            "an activation of the network is NaN or infinite: the numbers of X are too large for "
            "its weights, or a weight is not finite. Scale or clip the input."
        )
    return np.concatenate(piece_bits(values.reshape(len(values), -1), low, high), axis=1)


def _taps(model: Any) -> tuple[list, list]:
    """Symbolic tensors to read in the graph of a model, in call order, and their pieces."""
    keras = optional("keras", "keras")
    tensors, pieces = [], []
    for node in _nodes(model):
        layer = node.operation
        if _is_graph(layer):
            inner, inner_pieces = _taps(layer)
            if inner:  # its tensors live in its own graph: run that part on the outer input
                tensors += keras.Model(layer.inputs, inner)(list(node.input_tensors))
                pieces += inner_pieces
        elif found := _layer_pieces(layer):
            # PReLU may rise on both sides of zero, so layers of activation are read before.
            tensors.append(node.input_tensors[0])
            pieces.append(found)
        elif found := _function_pieces(layer):
            tensors.append(node.outputs[0])
            pieces.append(found)
    return tensors, pieces


def _has_pieces(model: Any) -> bool:
    layers = (node.operation for node in _nodes(model))
    return any(
        _has_pieces(layer) if _is_graph(layer) else _layer_pieces(layer) or _function_pieces(layer)
        for layer in layers
    )


def _is_graph(layer: Any) -> bool:
    return is_a(layer, "keras", "Functional", "Sequential")


def _nodes(model: Any) -> list:
    """Calls of layers in the graph, in order. Keras has no public list that tells apart the
    calls of a shared layer."""
    by_depth = _graph(model)._nodes_by_depth
    return [
        node
        for depth in sorted(by_depth, reverse=True)
        for node in by_depth[depth]
        if not node.is_input
    ]


def _graph(model: Any) -> Any:
    """The functional model that a Sequential builds; None before."""
    return getattr(model, "_functional", model)


def _layer_pieces(layer: Any) -> tuple[float, float | None] | None:
    if is_a(layer, "keras", "ReLU"):
        return float(layer.threshold), layer.max_value
    if is_a(layer, "keras", "Relu6"):  # this and the next two: keras.ops in a functional model
        return FUNCTIONS["relu6"]
    relu_like = is_a(layer, "keras", "LeakyReLU", "PReLU", "Relu", "LeakyRelu")
    return (0.0, None) if relu_like else None


def _function_pieces(layer: Any) -> tuple[float, float | None] | None:
    # The output of a recurrent layer is not the output of its activation.
    if is_a(layer, "keras", "RNN"):
        return None
    activation = getattr(layer, "activation", None)
    return FUNCTIONS.get(_name(activation)) or _layer_pieces(activation)


def _name(activation: Any) -> str:
    return getattr(activation, "__name__", type(activation).__name__)


def _last(model: Any) -> Any:
    layer = _nodes(model)[-1].operation
    return _last(layer) if _is_graph(layer) else layer


def _output_kind(model: Any) -> str | None:
    """What the model returns; None if neither logits nor probabilities."""
    layer = _last(model)
    if is_a(layer, "keras", "Softmax", "Sigmoid"):
        return "probabilities"
    names = {"softmax": "probabilities", "sigmoid": "probabilities", "linear": "logits"}
    if not hasattr(layer, "activation"):
        return "logits"
    return names.get(_name(layer.activation))
