"""Networks: their weights. The code comes from the user, who gives the network to ``load``."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from .._utils.optional import optional
from ..parents import TorchParent
from ..parents.base import is_a
from ..parents.torch.hooks import unwrap
from ..parents.torch.plan import make_plan
from .container import NAMES
from .errors import AlteredFileError, UnknownTypeError, WrongModuleError
from .parameters import pack_parameters, unpack_parameters
from .values import Packer, Unpacker, of, one

HOW = "polycal.load(path, module=net), with the network as it was given to fit, trained or not"


def network_kind(estimator: Any) -> str | None:
    if is_a(estimator, "keras", "Model"):
        return "keras"
    if isinstance(estimator, TorchParent) or is_a(estimator, "torch", "Module"):
        return "torch"
    if is_a(estimator, "skorch", "NeuralNet"):
        return "skorch"
    return None


def pack_network(packer: Packer, estimator: Any) -> dict[str, Any]:
    kind = network_kind(estimator)
    more: dict[str, Any] = {}
    if kind == "keras":
        # Names of layers are numbered on, so that the same network has others each time.
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
    _, state, *more = one(node, "kind", "state", *keys)
    weights = {}
    for entry in of(list, state):
        if len(of(list, entry)) != 3:
            raise AlteredFileError(f"the file holds {str(entry)[:80]} in place of a weight.")
        name, dtype, array = entry
        stored = reader.array(array)
        if stored.dtype.name != ("int16" if of(str, dtype) == "bfloat16" else dtype):
            raise AlteredFileError(f"the file holds {stored.dtype} where {dtype[:20]} belongs.")
        weights[of(str, name)] = (stored, dtype)
    if kind == "keras":
        return _keras(module, weights)
    if kind == "torch":
        return _torch(reader, module, weights, *more)
    return _skorch(reader, module, weights, *more)


def _keras(module: Any, weights: dict) -> Any:
    if not is_a(module, "keras", "Model"):
        raise WrongModuleError(f"module is a {_came(module)}; expected the Keras model. Use {HOW}.")
    found = [(str(i), np.asarray(w)) for i, w in enumerate(module.get_weights())]
    _compare({name: (w.shape, str(w.dtype)) for name, w in found}, weights)
    network = optional("keras", "keras").models.clone_model(module)
    network.set_weights([array for array, _ in weights.values()])
    return network


def _torch(
    reader: Unpacker, module: Any, weights: dict, wrapped: Any, parts: Any, node: Any
) -> Any:
    parameters = unpack_parameters(reader, node)
    if not parameters.keys() <= TorchParent().get_params().keys() - {"module"}:
        raise AlteredFileError("the file gives parameters to TorchParent that it does not have.")
    if isinstance(module, TorchParent):
        module = (module.encoder, module.head) if of(bool, parts) else module.module
    if of(bool, parts):
        pair = module if isinstance(module, (tuple, list)) else ()
        if len(pair) != 2 or not all(is_a(part, "torch", "Module") for part in pair):
            raise WrongModuleError(
                f"module is a {_came(module)}; the model was fitted with an encoder and a head. "
                "Use polycal.load(path, module=(encoder, head))."
            )
        encoder, head = deepcopy(tuple(map(unwrap, pair)))
        parent = TorchParent(**parameters | {"encoder": encoder, "head": head})
    else:
        if not is_a(module, "torch", "Module"):
            raise WrongModuleError(
                f"module is a {_came(module)}; expected the PyTorch module. Use {HOW}."
            )
        parent = TorchParent(deepcopy(unwrap(module)), **parameters)
    try:
        network = make_plan(parent).model
    except (TypeError, ValueError) as error:
        raise WrongModuleError(
            f"the module given cannot be read as the saved one: {error}"
        ) from error
    _load_torch(network, weights)
    return parent if of(bool, wrapped) else parent.module


def _skorch(reader: Unpacker, module: Any, weights: dict, classes: Any) -> Any:
    if not is_a(module, "skorch", "NeuralNet"):
        raise WrongModuleError(f"module is a {_came(module)}; expected the skorch net. Use {HOW}.")
    net = clone(module).initialize()
    _load_torch(unwrap(net.module_), weights)
    classes = reader.value(classes)
    if classes is not None:
        net.classes_inferred_ = classes
    return net


def _load_torch(network: Any, weights: dict) -> None:
    torch = optional("torch", "torch")
    own = network.state_dict()
    _compare({k: (tuple(v.shape), str(v.dtype).split(".")[-1]) for k, v in own.items()}, weights)
    state = {}
    for name, (array, dtype) in weights.items():
        tensor = torch.from_numpy(array.copy())
        state[name] = tensor.view(torch.bfloat16) if dtype == "bfloat16" else tensor
    network.load_state_dict(state)


def _settings(parent: TorchParent, network: Any) -> dict[str, Any]:
    """Parameters of the parent without its modules: submodules by their names."""
    settings = parent.get_params(deep=False)
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


def _with_dtypes(state: dict[str, Any]) -> dict[str, tuple[NDArray, str]]:
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


def _compare(own: dict[str, tuple], weights: dict[str, tuple]) -> None:
    """Same names, shapes and types, or what is different first."""
    missing, more = sorted(weights.keys() - own.keys()), sorted(own.keys() - weights.keys())
    if missing or more:
        raise WrongModuleError(
            f"the network given is another than the saved one: it lacks {missing[:5]} and has "
            f"{more[:5]} beside it. Use {HOW}."
        )
    for name, (array, dtype) in weights.items():
        if own[name] != (array.shape, dtype):
            shape, kind = own[name]
            raise WrongModuleError(
                f"the network given is another than the saved one: {name!r} has shape {shape} of "
                f"{kind}; saved was {array.shape} of {dtype}. Use {HOW}."
            )


def _came(value: Any) -> str:
    return type(value).__name__
