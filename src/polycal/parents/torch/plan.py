"""Which module of a PyTorch classifier to call, and what to record of it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..._utils.optional import optional
from ..base import is_a
from ..networks import check_output
from .data import describe
from .hooks import RecordedModule, is_smooth, relu_bounds
from .inference import unwrap

if TYPE_CHECKING:
    from .parent import TorchParent

NO_ACTIVATION = (
    "no activation module (such as nn.ReLU or nn.GELU) in the module ({where}). Put nn.ReLU "
    "modules in place of F.relu, or name the layers before it with layers=[...], or give the part "
    "that makes embeddings as encoder="
)
# Names of submodules that an error message lists at most.
MAX_NAMES = 12


@dataclass(frozen=True)
class Plan:
    """The module to call and what to record of it; see ``Recorder``."""

    model: Any
    recorded: list[RecordedModule]
    encoder: Any = None
    within: Any = None
    outside: Any = None


def make_plan(parent: TorchParent) -> Plan:
    """Find the named submodules and check everything that can be checked without data."""
    check_output(parent.output)
    if not isinstance(parent.batch_size, (int, np.integer)) or parent.batch_size < 1:
        raise ValueError(f"batch_size must be an integer above 0; got {parent.batch_size!r}.")
    model = full_model(parent)
    if parent.encoder is None:
        if parent.head is not None:
            raise ValueError(
                "head is given without an encoder; expected both. Give encoder=, or name the "
                "layers to read with layers=[...]."
            )
        return Plan(model, listed_modules(model, parent.layers) or activations_of(model))

    encoder = find_part(model, parent.encoder, "encoder")
    head = None if parent.head is None else find_part(model, parent.head, "head")
    if parent.layers is not None:
        if head is not None and parent.module is not None:
            raise ValueError(
                "head and layers both say which activations to read; expected one of them. Leave "
                "one out."
            )
        return Plan(model, listed_modules(model, parent.layers), encoder)
    if head is not None:
        if _holds(encoder, head) or _holds(head, encoder):
            raise ValueError(
                "encoder and head must be two separate submodules; got one inside the other. "
                "Give as head what comes after the encoder."
            )
        return Plan(model, recorded_of(head.named_modules()), encoder, within=head)
    encoder_names = [name for name, module in _all_names(model) if module is encoder]
    if encoder is model:
        raise ValueError(
            "encoder is the whole module; expected the part of it whose output is the embedding."
        )
    outside = [
        (name, module)
        for name, module in _all_names(model)
        if not any(f"{name}.".startswith(f"{part}.") for part in encoder_names)
    ]
    # One module may have two names; it is recorded once.
    found = list({id(r.module): r for r in reversed(recorded_of(outside))}.values())[::-1]
    return Plan(model, found, encoder, outside=encoder)


def full_model(parent: TorchParent) -> Any:
    """The classifier itself, or head(encoder(x)) of two modules."""
    for name in ("module", "encoder", "head"):
        value = getattr(parent, name)
        if value is None or (isinstance(value, str) and name != "module"):
            continue
        if not is_a(value, "torch", "Module"):
            raise TypeError(
                f"{name} must be a torch.nn.Module instance; got {describe(value)}. "
                "Build it and load its weights first."
            )
        if name != "encoder" and is_a(unwrap(value), "torch", "ScriptModule"):
            raise TypeError(
                f"{name} is a torch.jit.ScriptModule, whose activations cannot be read; "
                "expected an ordinary nn.Module. Pass the module that was scripted or traced, "
                "with its state_dict loaded."
            )
    if parent.module is not None:
        return unwrap(parent.module)
    parts = {"encoder": parent.encoder, "head": parent.head}
    if any(part is None or isinstance(part, str) for part in parts.values()):
        raise ValueError(
            "module=None needs encoder and head as modules; got encoder="
            f"{describe(parent.encoder)}, head={describe(parent.head)}. Give the module, or both "
            "parts."
        )
    torch = optional("torch", "torch")
    return torch.nn.Sequential(OrderedDict((name, unwrap(part)) for name, part in parts.items()))


def activations_of(model: Any) -> list[RecordedModule]:
    """All ReLU-type submodules; without any, the smooth ones; an error without those."""
    found = recorded_of(model.named_modules())
    if not found:
        raise ValueError(NO_ACTIVATION.format(where=type(model).__name__) + ".")
    return found


def recorded_of(modules: Iterable[tuple[str, Any]]) -> list[RecordedModule]:
    """Those among some modules that are recorded where the user names none.

    ReLU-type ones, or else smooth ones. A head that has none, such as a linear one, is read by
    hyperplanes among the encoder's embeddings.
    """
    named = list(modules)
    sharp = [RecordedModule(name, module) for name, module in named if relu_bounds(module)]
    return sharp or [RecordedModule(name, module) for name, module in named if is_smooth(module)]


def listed_modules(model: Any, layers: Any) -> list[RecordedModule]:
    """The submodules that the user named; none when ``layers`` is None."""
    if layers is None:
        return []
    if isinstance(layers, str) or not isinstance(layers, Iterable) or not list(layers):
        raise ValueError(
            f"layers must be a list of submodule names; got {layers!r}. Available: {_names(model)}."
        )
    found = [
        RecordedModule(str(layer), find_part(model, layer, "layers"), required=True)
        for layer in layers
    ]
    return list({id(recorded.module): recorded for recorded in found}.values())


def find_part(model: Any, part: Any, parameter: str) -> Any:
    """A submodule by its dotted name, or checked to be one."""
    if isinstance(part, str):
        found = dict(_all_names(model)).get(part) if part else None
        if found is None:
            raise ValueError(
                f"{parameter} names {part!r}, which the module does not have. "
                f"Available: {_names(model)}."
            )
        # The hook sits inside torch.compile, but on a data-parallel part that is called as such:
        # inside, each device would see its own share of the rows.
        return found._orig_mod if is_a(found, "torch", "OptimizedModule") else found
    if not _holds(model, part) or is_a(part, "torch", "OptimizedModule"):
        part = unwrap(part)
    if not is_a(part, "torch", "Module") or not _holds(model, part):
        raise ValueError(
            f"{parameter} must be a submodule of the module, or its name; got {describe(part)} "
            f"that is not part of it. Available: {_names(model)}."
        )
    return part


def _all_names(model: Any) -> list[tuple[str, Any]]:
    return list(model.named_modules(remove_duplicate=False))


def _names(model: Any) -> str:
    names = [name for name, _ in model.named_modules() if name]
    more = f", ... ({len(names)} in all)" if len(names) > MAX_NAMES else ""
    return ", ".join(map(repr, names[:MAX_NAMES])) + more if names else "none"


def _holds(model: Any, part: Any) -> bool:
    return any(module is part for module in model.modules())
