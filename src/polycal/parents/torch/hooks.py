"""Reading a torch module: hooks that record bits, and a state that is put back afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..._utils.optional import optional
from ..base import is_a
from ..networks import Rows, piece_bits


@dataclass(frozen=True)
class Tap:
    """A module whose calls are groups of bits."""

    name: str
    module: Any
    #: Named by the user: it is an error when it is never called.
    required: bool = False


def relu_pieces(module: Any) -> tuple[float, float | None] | None:
    """Where the linear pieces of a ReLU-type torch module meet; None for any other module."""
    if is_a(module, "torch", "Hardtanh"):  # ReLU6 is a subclass
        return module.min_val, module.max_val
    if is_a(module, "torch", "ReLU", "LeakyReLU", "PReLU"):
        return 0.0, None
    return None


class Recorder:
    """Hooks that turn each call of a tap into a group of bits, in call order.

    A context manager: the hooks are gone at its end, whatever happened inside. Each forward
    pass of ``root`` is one batch of ``rows``.

    Parameters
    ----------
    root : torch.nn.Module
        The module that is called, or the one inside its wrapper.
    taps : list of Tap
    encoder : torch.nn.Module, optional
        Its output is what the classifier sees; without it that is the input of ``root``.
    within, outside : torch.nn.Module, optional
        Record only the calls made inside, or outside, this module.
    rows : Rows, optional
        Where the batches go.
    on_batch : callable, optional
        Called with the number of rows after each batch.
    """

    def __init__(
        self,
        root: Any,
        taps: list[Tap],
        *,
        encoder: Any = None,
        within: Any = None,
        outside: Any = None,
        rows: Rows | None = None,
        on_batch: Callable[[int], Any] = lambda n: None,
    ):
        self.rows = Rows() if rows is None else rows
        self._root, self._taps, self._encoder = root, taps, encoder
        self._within, self._outside, self._on_batch = within, outside, on_batch
        self._muted = 0 if within is None else 1
        self._handles: list[Any] = []

    def __enter__(self) -> Recorder:
        try:
            self._hook()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _hook(self) -> None:
        self._start_batch()
        # The scopes come first: a module may be a scope and a tap at once.
        self._before(self._root, lambda x: self._start_batch())
        if self._encoder is None:
            self._before(self._root, self._see)
        for module, step in [(self._within, -1), (self._outside, 1)]:
            if module is not None:
                self._scope(module, step)
        for tap in self._taps:
            self._tap(tap)
        if self._encoder is not None:
            self._after(self._encoder, self._see)
        self._after(self._root, lambda y: self._end_batch())

    def __exit__(self, *error: object) -> None:
        for handle in self._handles:
            handle.remove()

    def _before(self, module: Any, action: Callable[[Any], None]) -> None:
        def hook(module, args, kwargs):
            action(next(iter([*args, *kwargs.values()]), None))

        self._handles.append(module.register_forward_pre_hook(hook, with_kwargs=True))

    def _after(self, module: Any, action: Callable[[Any], None]) -> None:
        def hook(module, args, output):
            action(output)

        self._handles.append(module.register_forward_hook(hook))

    def _scope(self, module: Any, step: int) -> None:
        def move(by: int) -> None:
            self._muted += by

        self._before(module, lambda x: move(step))
        self._after(module, lambda y: move(-step))

    def _tap(self, tap: Tap) -> None:
        pieces = relu_pieces(tap.module)

        def record(x: Any) -> None:
            if self._muted:
                return
            _check_tensor(x, f"layer {tap.name!r}")
            bits = piece_bits(x.detach().reshape(len(x), -1), *(pieces or (0.0, None)))
            self._groups.append(np.concatenate([b.cpu().numpy() for b in bits], axis=1))
            self._called.append(tap)

        # The input, not the output, of a ReLU-type: in place it overwrites its input, and
        # with a negative slope below zero the output is positive on both sides.
        (self._after if pieces is None else self._before)(tap.module, record)

    def _see(self, x: Any) -> None:
        what = "the input of the network" if self._encoder is None else "the encoder's output"
        _check_tensor(x, what)
        # A copy: the network may overwrite its own input.
        self._seen.append(to_array(x.detach().to("cpu", copy=True)).reshape(len(x), -1))

    def _start_batch(self) -> None:
        self._groups: list[NDArray] = []
        self._called: list[Tap] = []
        self._seen: list[NDArray] = []

    def _end_batch(self) -> None:
        missed = [tap.name for tap in self._taps if tap.required and tap not in self._called]
        if missed or not self._called:
            raise ValueError(
                f"the forward pass never calls {missed or [tap.name for tap in self._taps]}. "
                "Name layers that it calls, with layers=[...]."
            )
        if len(self._seen) != 1:
            raise ValueError(
                f"the forward pass calls the encoder {len(self._seen)} times; expected once. "
                "Give as encoder the submodule that is called once and returns the embedding."
            )
        n_rows = len(self._seen[0])
        for tap, bits in zip(self._called, self._groups, strict=True):
            if len(bits) != n_rows:
                raise ValueError(
                    f"layer {tap.name!r} must keep one row for each input row; got {len(bits)} "
                    f"rows for {n_rows}. Name the layers to read, with layers=[...]."
                )
        self.rows.add(self._groups, self._seen[0])
        self._on_batch(n_rows)


def to_array(x: Any) -> NDArray:
    """A tensor as an array of its own precision; half precision, which NumPy lacks, as float32."""
    x = x.detach().cpu()
    return (x if x.dtype.itemsize >= 4 or not x.is_floating_point() else x.float()).numpy()


def _check_tensor(x: Any, what: str) -> None:
    if not is_a(x, "torch", "Tensor") or x.ndim == 0:
        came = type(x).__name__ if not is_a(x, "torch", "Tensor") else "a number"
        raise TypeError(
            f"{what} must be one tensor with a row for each sample; got {came}. "
            "Wrap that part in a module that takes and returns one tensor."
        )


@contextmanager
def inference(model: Any, device: Any) -> Iterator[Any]:
    """eval() without gradients on the device; training flags and device are put back."""
    torch = optional("torch", "torch")
    homes = {tensor.device: None for tensor in [*model.parameters(), *model.buffers()]}
    home = next(iter(homes), torch.device("cpu"))
    target = home if device is None else torch.device(device)
    if target != home and len(homes) > 1:
        raise ValueError(
            f"device={device!r} would move a module that is spread over "
            f"{', '.join(map(str, homes))}. Leave device=None."
        )
    flags = [(module, module.training) for module in model.modules()]
    try:
        if target != home:
            model.to(target)
        model.eval()
        # no_grad and not inference_mode: what a module caches in a forward pass may be
        # needed for training later, and inference tensors cannot be.
        with torch.no_grad(), uncompiled(model):
            yield target
    finally:
        for module, training in flags:
            module.training = training
        if target != home:
            model.to(home)


def uncompiled(model: Any) -> AbstractContextManager:
    """Compiled code does not see hooks that came after it, so compiled parts run as written."""
    compiled = any(
        is_a(module, "torch", "OptimizedModule")
        or getattr(module, "_compiled_call_impl", None) is not None
        for module in model.modules()
    )
    if not compiled:
        return nullcontext()
    return optional("torch", "torch").compiler.set_stance("force_eager")


def unwrap(module: Any) -> Any:
    """The user's module inside torch.compile or a data-parallel wrapper."""
    while True:
        if is_a(module, "torch", "OptimizedModule"):
            module = module._orig_mod
        elif is_a(module, "torch", "DataParallel", "DistributedDataParallel"):
            module = module.module
        else:
            return module
