"""Keras 3 models, on any back-end: a second model with the same layers returns the activations."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from tqdm.auto import tqdm

from .._utils.arrays import Array
from .._utils.optional import optional
from ..core.reading import Reading
from .base import Adapter, is_a
from .networks import RELU, Bounds, ReadingBuilder, piece_bits, to_proba

BATCH_SIZE = 256
RELU6 = Bounds(0.0, 6.0)
#: Bounds of Keras's activation functions.
FUNCTIONS = {"relu": RELU, "leaky_relu": RELU, "relu6": RELU6, "hard_tanh": Bounds(-1.0, 1.0)}
#: What smooth activation functions return for 0: a unit is on where its input is positive.
SMOOTH_FUNCTIONS = dict.fromkeys(
    ("gelu", "silu", "hard_silu", "mish", "elu", "celu", "selu", "tanh", "softsign"), RELU
) | {"sigmoid": Bounds(0.5), "hard_sigmoid": Bounds(0.5), "softplus": Bounds(math.log(2.0))}
#: Smooth activations that are layers, or keras.ops in a functional model.
SMOOTH_LAYERS = (
    *("ELU", "Gelu", "Silu", "HardSilu", "Mish", "Elu", "Celu", "Selu", "Tanh", "Softsign"),
    *("Sigmoid", "HardSigmoid", "Softplus"),
)


class Read(NamedTuple):
    """Where an activation is read, and its bounds there."""

    bounds: Bounds
    at_input: bool  # or at the output


Find = Callable[[Any], Read | None]


class ActivationModel(NamedTuple):
    """A function from rows to the activations of a Keras model and its scores."""

    graph: Any  # of the user's model, when this was made
    forward: Callable[[Array], Any]
    bounds: list[Bounds]  # of each activation


class KerasAdapter(Adapter):
    family = "a trained Keras 3 Sequential or functional model with ReLU-type or smooth activations"
    # With Keras's torch back-end a layer is a torch module too: it must not be read as one.
    handles = (("keras", "Model"), ("keras", "Layer"))
    pretrained = True
    needs_codes = True
    raw_input = True
    #: Kept for the next rows: JAX and TensorFlow compile each new model anew.
    _cached: ActivationModel | None = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_cached": None}  # a compiled function cannot be pickled

    def copy(self) -> Any:
        return self.estimator

    def problem(self) -> str | None:
        model = self.estimator
        if not is_a(model, "keras", "Model"):
            return (
                "a single Keras layer is not a classifier; give the trained keras.Sequential or "
                "keras.Model(inputs, outputs) that it is part of"
            )
        if not _is_graph(model):
            return (
                "a subclassed Keras model has no graph of layers to read; write it as "
                "keras.Model(inputs, outputs) or keras.Sequential with the same trained layers"
            )
        if _graph(model) is None:
            return "the Keras model is not built; put a keras.Input first, train it, then give it"
        if len(model.inputs) != 1 or len(model.outputs) != 1:
            return (
                f"the Keras model has {len(model.inputs)} inputs and {len(model.outputs)} outputs; "
                "expected one of each. Give a model with the class scores as its only output"
            )
        if not any(_has(model, find, _last_layer(model)) for find in (_bounds, _smooth_bounds)):
            return (
                "the Keras model has no hidden activation (relu, relu6, leaky_relu, hard_tanh, "
                "the layers ReLU, LeakyReLU, PReLU, or smooth ones such as gelu, silu and tanh); "
                "train one that has"
            )
        if _output_kind(model) is None:
            return (
                "the last layer of the Keras model must be linear, softmax or sigmoid; got "
                f"activation {_name(_last_layer(model).activation)!r}. End it with softmax"
            )
        return None

    @cached_property
    def allows_missing(self) -> bool:
        return False

    def read(self, X: Any, verbose: int = 0) -> Reading:
        model, X = self.estimator, np.asarray(X)
        _check_rows(X, model.inputs[0])
        activations = self._activation_model()
        builder, outputs = ReadingBuilder(len(X)), []
        with tqdm(total=len(X), desc="reading", unit="row", disable=not verbose) as bar:
            for start in range(0, len(X), BATCH_SIZE):
                batch = X[start : start + BATCH_SIZE]
                *values, scores = map(np.asarray, activations.forward(batch))
                bits = [_bits(v, b) for v, b in zip(values, activations.bounds, strict=True)]
                builder.add(bits, batch.reshape(len(batch), -1))
                outputs.append(np.asarray(scores, dtype=np.float64))
                bar.update(len(batch))
        kind = _output_kind(model) or "logits"
        remedy = "End the model with a softmax over the classes (or one sigmoid unit)."
        return builder.reading(to_proba(np.concatenate(outputs), kind, remedy))

    def _activation_model(self) -> ActivationModel:
        model, graph = self.estimator, _graph(self.estimator)
        cached = self._cached
        if cached is None or cached.graph is not graph:  # layers were added to a Sequential
            tensors, bounds = _activations(model)
            outputs = [*tensors, model.outputs[0]]
            extended = optional("keras", "keras").Model(model.inputs[0], outputs)
            cached = self._cached = ActivationModel(graph, _forward(extended), bounds)
        return cached


def _forward(model: Any) -> Callable[[Array], Any]:
    """A function from rows to what the model returns, with the weights it has at that time."""
    if optional("keras", "keras").backend.backend() != "jax":
        predict: Callable[[Array], Any] = model.predict_on_batch
        return predict
    # With JAX, predict_on_batch donates the memory of the weights and takes it back at the end:
    # in between other threads find them deleted, and arrays that the user kept stay deleted.

    def call(trainable: list[Any], other: list[Any], rows: Array) -> Any:
        return model.stateless_call(trainable, other, rows, training=False)[0]

    run = optional("jax", "keras").jit(call) if model.jit_compile else call

    def forward(rows: Array) -> Any:
        trainable = [variable.value for variable in model.trainable_variables]
        other = [variable.value for variable in model.non_trainable_variables]
        return run(trainable, other, rows)

    return forward


def _check_rows(X: Array, input_tensor: Any) -> None:
    """Raise for rows that the model's input tensor does not take.

    The back-ends have different errors, or none: the ReLU of TensorFlow makes zero of NaN.
    """
    if X.ndim == 0 or len(X) == 0:
        raise ValueError(f"X must have at least one row; got shape {X.shape}.")
    if not np.can_cast(X.dtype, np.float64, "same_kind"):
        raise ValueError(f"X must hold numbers; got dtype {X.dtype}. Encode it as numbers first.")
    expected, shape = tuple(input_tensor.shape[1:]), X.shape[1:]
    # Keras itself adds or drops a last axis of length 1.
    same = [shape, (*shape, 1)] + [shape[:-1]] * (shape[-1:] == (1,))
    if not any(_fits(other, expected) for other in same):
        raise ValueError(
            f"X must have rows of shape {expected}, as the Keras model takes them; got {shape}. "
            "Reshape or resize them."
        )
    dtype = {"float16": np.float16, "float64": np.float64}.get(input_tensor.dtype, np.float32)
    with np.errstate(over="ignore"):
        finite = np.isfinite(X.astype(dtype, copy=False)).all()
    if not finite:
        raise ValueError(
            f"X must be finite as {dtype.__name__}; got NaN, infinity or a number beyond its "
            "range. Impute, scale or clip it."
        )


def _fits(shape: tuple[int, ...], expected: tuple[int | None, ...]) -> bool:
    return len(shape) == len(expected) and all(
        length in (None, n) for n, length in zip(shape, expected, strict=True)
    )


def _bits(values: Array, bounds: Bounds) -> Array:
    highest = values.max(initial=bounds.low)
    if np.isnan(highest) or (bounds.high is None and np.isinf(highest)):
        raise ValueError(
            "an activation of the network is NaN or infinite: the numbers of X are too large for "
            "its weights, or a weight is not finite. Scale or clip the input."
        )
    return np.concatenate(piece_bits(values.reshape(len(values), -1), bounds), axis=1)


def _activations(model: Any) -> tuple[list[Any], list[Bounds]]:
    """Symbolic tensors to read in the graph of a model, in call order, and their bounds.

    Those of ReLU-type activations; without any, those of smooth ones. The last layer is the output.
    """
    output = _last_layer(model)
    find = _bounds if _has(model, _bounds, output) else _smooth_bounds
    return _tensors(model, find, output)


def _has(model: Any, find: Find, output: Any) -> bool:
    """Whether ``find`` finds an activation in the graph of a model."""
    layers = (node.operation for node in _nodes(model))
    return any(
        _has(layer, find, output) if _is_graph(layer) else layer is not output and find(layer)
        for layer in layers
    )


def _tensors(model: Any, find: Find, output: Any) -> tuple[list[Any], list[Bounds]]:
    """Tensors of the activations that ``find`` finds, in call order, and their bounds."""
    keras = optional("keras", "keras")
    tensors: list[Any] = []
    bounds: list[Bounds] = []
    for node in _nodes(model):
        layer = node.operation
        if _is_graph(layer):
            inner, inner_bounds = _tensors(layer, find, output)
            if inner:  # tensors of the inner graph: run that part on the outer input
                tensors += keras.Model(layer.inputs, inner)(list(node.input_tensors))
                bounds += inner_bounds
        elif layer is not output and (found := find(layer)):
            tensors.append(node.input_tensors[0] if found.at_input else node.outputs[0])
            bounds.append(found.bounds)
    return tensors, bounds


def _is_graph(layer: Any) -> bool:
    return is_a(layer, "keras", "Functional", "Sequential")


def _nodes(model: Any) -> list[Any]:
    """Calls of layers in the graph, in order.

    Keras's public lists do not tell apart the calls of a shared layer.
    """
    by_depth = _graph(model)._nodes_by_depth
    return [
        node
        for depth in sorted(by_depth, reverse=True)
        for node in by_depth[depth]
        if not node.is_input
    ]


def _graph(model: Any) -> Any:
    """The functional model inside a Sequential, None before it is built; else the model."""
    return getattr(model, "_functional", model)


def _bounds(layer: Any) -> Read | None:
    """How to read a layer that is, or ends with, a ReLU-type activation; None for any other."""
    # PReLU may rise on both sides of zero, so activation layers are read at their input.
    if found := _layer_bounds(layer):
        return Read(found, at_input=True)
    activation = _function(layer)
    found = FUNCTIONS.get(_name(activation)) or _layer_bounds(activation)
    return Read(found, at_input=False) if found else None


def _smooth_bounds(layer: Any) -> Read | None:
    """How to read a layer that is, or ends with, a smooth activation; None for any other."""
    if is_a(layer, "keras", *SMOOTH_LAYERS):
        return Read(RELU, at_input=True)
    found = SMOOTH_FUNCTIONS.get(_name(_function(layer)))
    return Read(found, at_input=False) if found else None


def _layer_bounds(layer: Any) -> Bounds | None:
    """Bounds of a layer that is a ReLU-type activation; None for any other."""
    if is_a(layer, "keras", "ReLU"):
        return Bounds(float(layer.threshold), layer.max_value)
    if is_a(layer, "keras", "Relu6"):  # this and the next two: keras.ops in a functional model
        return RELU6
    relu_like = is_a(layer, "keras", "LeakyReLU", "PReLU", "Relu", "LeakyRelu")
    return RELU if relu_like else None


def _function(layer: Any) -> Any:
    """The activation function whose output is that of the layer; a recurrent layer has none."""
    return None if is_a(layer, "keras", "RNN") else getattr(layer, "activation", None)


def _name(activation: Any) -> str:
    return str(getattr(activation, "__name__", type(activation).__name__))


def _last_layer(model: Any) -> Any:
    layer = _nodes(model)[-1].operation
    return _last_layer(layer) if _is_graph(layer) else layer


def _output_kind(model: Any) -> str | None:
    """What the model returns; None if neither logits nor probabilities."""
    layer = _last_layer(model)
    if is_a(layer, "keras", "Softmax", "Sigmoid"):
        return "probabilities"
    names = {"softmax": "probabilities", "sigmoid": "probabilities", "linear": "logits"}
    if not hasattr(layer, "activation"):
        return "logits"
    return names.get(_name(layer.activation))
