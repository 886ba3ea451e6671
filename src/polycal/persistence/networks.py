"""Networks: a file holds their weights. The user gives their code, the network, to ``load``."""

from __future__ import annotations

from copy import deepcopy
from typing import Any, TypeAlias

import numpy as np
from sklearn.base import clone

from .._utils.arrays import Array
from .._utils.optional import optional
from ..parents import TorchParent
from ..parents.base import is_a
from ..parents.torch.inference import unwrap
from ..parents.torch.plan import make_plan
from .container import NAMES
from .errors import AlteredFileError, UnknownTypeError, WrongModuleError
from .parameters import pack_parameters, unpack_parameters
from .values import Packer, Unpacker, expect_keys, expect_type

HOW = "polycal.load(path, module=net), with the network as it was given to fit, trained or not"
# Name of each weight -> its array, and its type in the network (NumPy has no bfloat16).
Weights: TypeAlias = dict[str, tuple[Array, str]]


def network_kind(estimator: Any) -> str | None:
    """The library of a network; None for anything else."""
    if is_a(estimator, "keras", "Model"):
        return "keras"
    if isinstance(estimator, TorchParent) or is_a(estimator, "torch", "Module"):
        return "torch"
    if is_a(estimator, "skorch", "NeuralNet"):
        return "skorch"
    return None


def pack_network(packer: Packer, estimator: Any) -> dict[str, Any]:
    """The weights, and the settings of a ``TorchParent``."""
    kind = network_kind(estimator)
    more: dict[str, Any] = {}
    if kind == "keras":
        # Not by name: Keras gives new numbers to the layers of a network each time it is built.
        state = {f"{i}": np.asarray(w) for i, w in enumerate(estimator.get_weights())}
    elif kind == "torch":
        wrapped = isinstance(estimator, TorchParent)
        parent = estimator if wrapped else TorchParent(estimator)
        network = make_plan(parent).model
        more = pack_parameters(packer, _settings(parent, network), "TorchParent")
        more = {"wrapped": wrapped, "parts": parent.module is None, "parameters": more}
        state = _arrays(network.state_dict())
    else:
        state = _arrays(unwrap(estimator.module_).state_dict())
        inferred = getattr(estimator, "classes_inferred_", None)
        more = {"classes": packer.value("classes", inferred)}
    return {
        "kind": kind,
        "state": [
            [name, packer.value(name, str(dtype)), packer.array(f"network.{name}", array)]
            for name, (array, dtype) in _with_dtypes(state).items()
        ],
        **more,
    }


def unpack_network(reader: Unpacker, node: Any, module: Any) -> Any:
    """A copy of the user's network with the weights of the file."""
    if module is None:
        raise WrongModuleError(f"the file holds the weights of a network, not its code. Use {HOW}.")
    kind = node["kind"]
    keys = {"keras": (), "torch": ("wrapped", "parts", "parameters"), "skorch": ("classes",)}[kind]
    _, state, *more = expect_keys(node, "kind", "state", *keys)
    weights = {}
    for entry in expect_type(list, state):
        if len(expect_type(list, entry)) != 3:
            raise AlteredFileError(f"the file holds {str(entry)[:80]} where a weight belongs.")
        name, dtype, array = entry
        stored = reader.array(array)
        if stored.dtype.name != ("int16" if expect_type(str, dtype) == "bfloat16" else dtype):
            raise AlteredFileError(f"the file holds {stored.dtype} where {dtype[:20]} belongs.")
        weights[expect_type(str, name)] = (stored, dtype)
    if kind == "keras":
        return _keras(module, weights)
    if kind == "torch":
        return _torch(reader, module, weights, *more)
    return _skorch(reader, module, weights, *more)


def _keras(module: Any, weights: Weights) -> Any:
    if not is_a(module, "keras", "Model"):
        raise WrongModuleError(
            f"module is a {type(module).__name__}; expected the Keras model. Use {HOW}."
        )
    found = [(str(i), np.asarray(w)) for i, w in enumerate(module.get_weights())]
    _compare({name: (w.shape, str(w.dtype)) for name, w in found}, weights)
    network = optional("keras", "keras").models.clone_model(module)
    network.set_weights([array for array, _ in weights.values()])
    return network


def _torch(
    reader: Unpacker, module: Any, weights: Weights, wrapped: Any, parts: Any, node: Any
) -> Any:
    parameters = unpack_parameters(reader, node)
    if not parameters.keys() <= TorchParent().get_params().keys() - {"module"}:
        raise AlteredFileError("the file gives parameters to TorchParent that it does not have.")
    if isinstance(module, TorchParent):
        module = (module.encoder, module.head) if expect_type(bool, parts) else module.module
    if expect_type(bool, parts):
        pair = module if isinstance(module, (tuple, list)) else ()
        if len(pair) != 2 or not all(is_a(part, "torch", "Module") for part in pair):
            raise WrongModuleError(
                f"module is a {type(module).__name__}; the model was fitted with an encoder and a "
                "head. Use polycal.load(path, module=(encoder, head))."
            )
        encoder, head = deepcopy(tuple(map(unwrap, pair)))
        parent = TorchParent(**parameters | {"encoder": encoder, "head": head})
    else:
        if not is_a(module, "torch", "Module"):
            raise WrongModuleError(
                f"module is a {type(module).__name__}; expected the PyTorch module. Use {HOW}."
            )
        parent = TorchParent(deepcopy(unwrap(module)), **parameters)
    try:
        network = make_plan(parent).model
    except (TypeError, ValueError) as error:
        raise WrongModuleError(
            f"the module given does not fit the model in the file: {error}"
        ) from error
    _load_torch(network, weights)
    return parent if expect_type(bool, wrapped) else parent.module


def _skorch(reader: Unpacker, module: Any, weights: Weights, classes: Any) -> Any:
    if not is_a(module, "skorch", "NeuralNet"):
        raise WrongModuleError(
            f"module is a {type(module).__name__}; expected the skorch net. Use {HOW}."
        )
    net = clone(module).initialize()
    _load_torch(unwrap(net.module_), weights)
    classes = reader.value(classes)
    if classes is not None:
        net.classes_inferred_ = classes
    return net


def _load_torch(network: Any, weights: Weights) -> None:
    torch = optional("torch", "torch")
    own = network.state_dict()
    _compare({k: (tuple(v.shape), str(v.dtype).split(".")[-1]) for k, v in own.items()}, weights)
    state = {}
    for name, (array, dtype) in weights.items():
        tensor = torch.from_numpy(array.copy())
        state[name] = tensor.view(torch.bfloat16) if dtype == "bfloat16" else tensor
    network.load_state_dict(state)


def _settings(parent: TorchParent, network: Any) -> dict[str, Any]:
    """Parameters of the parent; a name instead of each submodule, and no other modules."""
    settings: dict[str, Any] = parent.get_params(deep=False)
    del settings["module"]
    settings["device"] = None if parent.device is None else str(parent.device)
    for part in ("encoder", "head"):
        if parent.module is None:
            del settings[part]
        elif is_a(settings[part], "torch", "Module"):
            same = (unwrap(settings[part]), settings[part])
            names = (n for n, m in network.named_modules() if any(m is s for s in same))
            settings[part] = next(names)
    return settings


def _arrays(state: dict[str, Any]) -> dict[str, Any]:
    """Tensors as arrays; one of bfloat16 as a pair of its bits and its type."""
    torch = optional("torch", "torch")
    found: dict[str, Any] = {}
    for name, tensor in state.items():
        if not isinstance(tensor, torch.Tensor):
            raise UnknownTypeError(
                f"the network's state {name!r} is a {type(tensor).__name__}; a model file holds "
                "tensors. Keep it out of state_dict()."
            )
        tensor = tensor.detach().cpu().contiguous()
        if tensor.dtype is torch.bfloat16:  # NumPy has no such type
            found[name] = tensor.view(torch.int16).numpy(), "bfloat16"
        else:
            found[name] = tensor.numpy()
    return found


def _with_dtypes(state: dict[str, Any]) -> Weights:
    found = {
        name: value if isinstance(value, tuple) else (value, str(value.dtype))
        for name, value in state.items()
    }
    for name, (array, _) in found.items():
        if array.dtype not in NAMES:
            raise UnknownTypeError(
                f"the network's weight {name!r} is of {array.dtype}, which a model file does not "
                "hold. Use float32."
            )
    return found


def _compare(own: dict[str, tuple[tuple[int, ...], str]], weights: Weights) -> None:
    """Raise unless names, shapes and types are the same; the error names the first difference."""
    missing, extra = sorted(weights.keys() - own.keys()), sorted(own.keys() - weights.keys())
    if missing or extra:
        raise WrongModuleError(
            f"the network given is not the one that was saved: it lacks {missing[:5]} and has "
            f"{extra[:5]} in addition. Use {HOW}."
        )
    for name, (array, dtype) in weights.items():
        if own[name] != (array.shape, dtype):
            shape, kind = own[name]
            raise WrongModuleError(
                f"the network given is not the one that was saved: {name!r} has shape {shape} of "
                f"{kind}; saved was {array.shape} of {dtype}. Use {HOW}."
            )
