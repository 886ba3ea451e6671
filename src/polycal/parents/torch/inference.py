"""Forward passes of a torch module that leave it as it was."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from ..._utils.arrays import Array
from ..._utils.optional import optional
from ..base import is_a
from .data import describe

# Held while hooks, training flags or the device of a module are not the user's own: another thread
# would record its rows too, or copy the hooks with the module.
CHANGED = threading.RLock()


@contextmanager
def inference(model: Any, device: Any) -> Iterator[Any]:
    """Run inside with eval(), no gradients, and the module on the device.

    Training flags and device of the module are restored at the end. Gives the device.
    """
    torch = optional("torch", "torch")
    with CHANGED:
        yield from _inference(torch, model, device)


def _inference(torch: Any, model: Any, device: Any) -> Iterator[Any]:
    devices = {tensor.device: None for tensor in [*model.parameters(), *model.buffers()]}
    original = next(iter(devices), torch.device("cpu"))
    target = original if device is None else torch.device(device)
    if target != original and len(devices) > 1:
        raise ValueError(
            f"device={device!r} would move a module that is spread over "
            f"{', '.join(map(str, devices))}. Leave device=None."
        )
    flags = [(module, module.training) for module in model.modules()]
    try:
        if target != original:
            model.to(target)
        model.eval()
        # no_grad and not inference_mode: what a module caches in a forward pass may be
        # needed for training later, and inference tensors cannot be.
        with torch.no_grad(), uncompiled(model):
            yield target
    finally:
        for module, training in flags:
            module.training = training
        if target != original:
            model.to(original)


def uncompiled(model: Any) -> AbstractContextManager[Any]:
    """Run inside without torch.compile: compiled code ignores hooks that were added after it."""
    compiled = any(
        is_a(module, "torch", "OptimizedModule")
        or getattr(module, "_compiled_call_impl", None) is not None
        for module in model.modules()
    )
    if not compiled:
        return nullcontext()
    eager: AbstractContextManager[Any] = optional("torch", "torch").compiler.set_stance(
        "force_eager"
    )
    return eager


def forward(
    model: Any,
    inputs: Any,
    device: Any,
    name: str = "the module",
    output: str = "class scores",
) -> Array:
    """What the module returns for one batch, float32 or float64.

    ``name`` and ``output`` say in error messages what is called and what it should return.
    """
    floats = [p.dtype for p in model.parameters() if p.is_floating_point()]

    def moved(tensor: Any) -> Any:
        dtype = floats[0] if floats and tensor.is_floating_point() else tensor.dtype
        # A copy: a first layer that works in place would write into the user's data.
        tensor = tensor.detach().to(device=device, dtype=dtype, copy=True)
        if tensor.is_floating_point() and not tensor.isfinite().all():
            raise ValueError(
                f"X must be finite as {dtype}; got NaN, infinity or a number beyond its range. "
                "Impute, scale or clip it."
            )
        return tensor

    if isinstance(inputs, dict):
        returned = model(**{key: moved(tensor) for key, tensor in inputs.items()})
    else:
        inputs = moved(inputs)
        try:
            returned = model(inputs)
        except RuntimeError as error:
            if not inputs.is_floating_point():
                error.add_note(
                    f"X holds {inputs.dtype}. If the network takes floats, use X.astype(float)."
                )
            raise
    returned = only_tensor(returned, "logits", "pooler_output")
    n_rows = n_inputs(inputs)
    if not is_a(returned, "torch", "Tensor"):
        raise TypeError(
            f"{name} must return one tensor of {output}; got {describe(returned)}. "
            "Wrap it in a module that returns only that."
        )
    if returned.ndim == 0 or len(returned) != n_rows:
        raise ValueError(
            f"{name} must return one row for each of the {n_rows} rows; got shape "
            f"{tuple(returned.shape)}."
        )
    return to_array(returned)


def only_tensor(returned: Any, *names: str) -> Any:
    """The first of these attributes that an object has, or the object itself."""
    if is_a(returned, "torch", "Tensor"):
        return returned
    found = (getattr(returned, name, None) for name in names)
    return next((tensor for tensor in found if tensor is not None), returned)


def n_inputs(inputs: Any) -> int:
    """Number of rows of a batch: a tensor, or a dict of tensors."""
    return len(next(iter(inputs.values())) if isinstance(inputs, dict) else inputs)


def to_array(tensor: Any) -> Array:
    """A tensor as an array of its own precision; half precision, which NumPy lacks, as float32."""
    tensor = tensor.detach().cpu()
    half = tensor.is_floating_point() and tensor.dtype.itemsize < 4
    array: Array = (tensor.float() if half else tensor).numpy()
    return array


def unwrap(module: Any) -> Any:
    """The user's module inside torch.compile or a data-parallel wrapper."""
    while True:
        if is_a(module, "torch", "OptimizedModule"):
            module = module._orig_mod
        elif is_a(module, "torch", "DataParallel", "DistributedDataParallel"):
            module = module.module
        else:
            return module
