"""Hooks that record the activations of a torch module as bits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._utils.arrays import Array
from ..base import is_a
from ..networks import RELU, Bounds, ReadingBuilder, piece_bits
from .inference import CHANGED, only_tensor, to_array


@dataclass(frozen=True)
class RecordedModule:
    """A module of which each call gives one group of bits."""

    name: str
    module: Any
    #: The user named it, so a forward pass that never calls it is an error.
    required: bool = False


# Activations without linear pieces. The unit of one is on where its input is positive.
SMOOTH = ("GELU", "SiLU", "Mish", "Hardswish", "ELU", "CELU", "SELU", "Softplus", "Tanh", "Sigmoid")


def is_smooth(module: Any) -> bool:
    """Whether a torch module is an activation without linear pieces."""
    return is_a(module, "torch", *SMOOTH)


def relu_bounds(module: Any) -> Bounds | None:
    """Bounds of a ReLU-type torch module; None for any other module."""
    if is_a(module, "torch", "Hardtanh"):  # ReLU6 is a subclass
        return Bounds(module.min_val, module.max_val)
    if is_a(module, "torch", "ReLU", "LeakyReLU", "PReLU"):
        return RELU
    return None


class Recorder:
    """Hooks that turn each call of the recorded modules into a group of bits, in call order.

    A context manager: the hooks are removed at its end, also after an error. Each forward pass
    of ``root`` is one batch of ``builder``.

    Parameters
    ----------
    root : torch.nn.Module
        The module that is called, or the one inside its wrapper.
    recorded : list of RecordedModule
    encoder : torch.nn.Module, optional
        Its output gives the features; without an encoder, the input of ``root`` does.
    within, outside : torch.nn.Module, optional
        Record only the calls made inside, or outside, this module.
    builder : ReadingBuilder, optional
        Where the batches go.
    on_batch : callable, optional
        Called with the number of rows after each batch.
    """

    def __init__(
        self,
        root: Any,
        recorded: list[RecordedModule],
        *,
        encoder: Any = None,
        within: Any = None,
        outside: Any = None,
        builder: ReadingBuilder | None = None,
        on_batch: Callable[[int], Any] = lambda n: None,
    ):
        self.builder = ReadingBuilder() if builder is None else builder
        self._root, self._recorded, self._encoder = root, recorded, encoder
        self._within, self._outside, self._on_batch = within, outside, on_batch
        # Calls are recorded while this is 0.
        self._paused = 0 if within is None else 1
        self._handles: list[Any] = []

    def __enter__(self) -> Recorder:
        CHANGED.acquire()
        try:
            self._add_hooks()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _add_hooks(self) -> None:
        self._start_batch()
        # Pausing comes before recording: one module may do both.
        self._before(self._root, lambda x: self._start_batch())
        if self._encoder is None:
            self._before(self._root, self._record_features)
        for module, step in [(self._within, -1), (self._outside, 1)]:
            if module is not None:
                self._pause_during(module, step)
        for recorded in self._recorded:
            self._record(recorded)
        if self._encoder is not None:
            self._after(self._encoder, self._record_features)
        self._after(self._root, lambda y: self._end_batch())

    def __exit__(self, *error: object) -> None:
        for handle in self._handles:
            handle.remove()
        CHANGED.release()

    def _before(self, module: Any, action: Callable[[Any], None]) -> None:
        """Call ``action`` with the first argument of each call of the module."""

        def hook(module: Any, args: Any, kwargs: Any) -> None:
            action(next(iter([*args, *kwargs.values()]), None))

        self._handles.append(module.register_forward_pre_hook(hook, with_kwargs=True))

    def _after(self, module: Any, action: Callable[[Any], None]) -> None:
        """Call ``action`` with the output of each call of the module."""

        def hook(module: Any, args: Any, output: Any) -> None:
            action(output)

        self._handles.append(module.register_forward_hook(hook))

    def _pause_during(self, module: Any, step: int) -> None:
        """Add ``step`` to the counter of pauses while the module runs."""

        def add(number: int) -> None:
            self._paused += number

        self._before(module, lambda x: add(step))
        self._after(module, lambda y: add(-step))

    def _record(self, recorded: RecordedModule) -> None:
        bounds = RELU if is_smooth(recorded.module) else relu_bounds(recorded.module)

        def record(x: Any) -> None:
            if self._paused:
                return
            _check_tensor(x, f"layer {recorded.name!r}")
            bits = piece_bits(x.detach().reshape(len(x), -1), bounds or RELU)
            self._groups.append(np.concatenate([b.cpu().numpy() for b in bits], axis=1))
            self._called.append(recorded)

        # The input, not the output, of a ReLU-type: in place it overwrites its input, and
        # with a negative slope below zero the output is positive on both sides.
        (self._after if bounds is None else self._before)(recorded.module, record)

    def _record_features(self, x: Any) -> None:
        name = "the input of the network" if self._encoder is None else "the encoder's output"
        x = only_tensor(x, "pooler_output")
        _check_tensor(x, name)
        # A copy: the network may overwrite its own input.
        self._features.append(to_array(x.detach().to("cpu", copy=True)).reshape(len(x), -1))

    def _start_batch(self) -> None:
        self._groups: list[Array] = []
        self._called: list[RecordedModule] = []
        self._features: list[Array] = []

    def _end_batch(self) -> None:
        names = [recorded.name for recorded in self._recorded]
        missed = [r.name for r in self._recorded if r.required and r not in self._called]
        if missed or (names and not self._called):
            raise ValueError(
                f"the forward pass never calls {missed or names}. "
                "Name layers that it calls, with layers=[...]."
            )
        if len(self._features) != 1:
            raise ValueError(
                f"the forward pass calls the encoder {len(self._features)} times; expected once. "
                "Give as encoder the submodule that is called once and returns the embedding."
            )
        (features,) = self._features
        for recorded, bits in zip(self._called, self._groups, strict=True):
            if len(bits) != len(features):
                raise ValueError(
                    f"layer {recorded.name!r} must keep one row for each input row; got "
                    f"{len(bits)} rows for {len(features)}. Name the layers to read, with "
                    "layers=[...]."
                )
        self.builder.add(self._groups, features)
        self._on_batch(len(features))


def _check_tensor(x: Any, name: str) -> None:
    is_tensor = is_a(x, "torch", "Tensor")
    if not is_tensor or x.ndim == 0:
        found = "a single number" if is_tensor else type(x).__name__
        raise TypeError(
            f"{name} must be one tensor with a row for each sample; got {found}. "
            "Wrap that part in a module that takes and returns one tensor."
        )
