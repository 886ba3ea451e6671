"""PyTorch modules: ReLU-type activations read by hooks, in batches, without a trace left."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from tqdm.auto import tqdm

from .._optional import optional
from .._types import Reading
from . import _torch_data
from ._base import Parent, is_a
from ._hooks import Recorder, Tap, inference, relu_pieces, to_array, unwrap
from ._network import Rows, check_output, to_proba
from ._torch_data import came, iterate, split

NO_ACTIVATION = (
    "no ReLU-type activation (ReLU, ReLU6, LeakyReLU, PReLU, Hardtanh) in {where}. Put nn.ReLU "
    "modules in place of F.relu, or name the layers before it with layers=[...], or give an "
    "encoder and a head that has a ReLU"
)
MAX_NAMES = 12


class TorchParent(BaseEstimator):
    """A trained PyTorch classifier, and how to read it.

    Parameters
    ----------
    module : torch.nn.Module, optional
        The classifier. None when ``encoder`` and ``head`` are modules: then it is
        ``head(encoder(x))``.
    encoder : torch.nn.Module or str, optional
        A submodule of ``module``, or its dotted name. The density then lives on its output,
        flattened, and not on the input.
    head : torch.nn.Module or str, optional
        The submodule whose activations are the modes. None with an encoder: all activations
        that are called outside of it.
    layers : list of str, optional
        Dotted names of the submodules to read, in place of all activations. A ReLU-type is
        read at its input; any other module at its output (on where it is above 0), so name
        the ``Linear`` before an ``F.relu``. With ``module=None`` the names begin with
        ``encoder.`` or ``head.``.
    normalize : bool, default=True
        Scale each embedding to length 1, so that the density is one of directions; how loudly
        the head speaks (the energy of its logits) then joins it in the gate. Without an encoder
        it has no effect.
    output : {"logits", "probabilities", "log_probabilities"}, default="logits"
        What the module returns. One column is the score of the second of two classes.
    device : str or torch.device, optional
        Where to run; the module goes back afterwards. None: where its parameters are.
    batch_size : int, default=256
        Rows in one forward pass. A ``DataLoader`` keeps its own.

    Notes
    -----
    The module is never trained nor copied: a clone of this object shares it.
    """

    def __init__(
        self,
        module: Any = None,
        *,
        encoder: Any = None,
        head: Any = None,
        layers: Any = None,
        normalize: bool = True,
        output: str = "logits",
        device: Any = None,
        batch_size: int = 256,
    ):
        optional("torch", "torch")
        self.module = module
        self.encoder = encoder
        self.head = head
        self.layers = layers
        self.normalize = normalize
        self.output = output
        self.device = device
        self.batch_size = batch_size

    def __sklearn_clone__(self) -> TorchParent:
        return type(self)(**self.get_params(deep=False))

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def embed(self, X: Any, *, return_labels: bool = False, verbose: int = 0) -> Any:
        """The encoder's output for each row, to be kept: one forward pass of the encoder.

        Parameters
        ----------
        X : array-like, tensor, Dataset or DataLoader
        return_labels : bool, default=False
            Also return the labels that a Dataset or a DataLoader brings along.
        verbose : int, default=0
            1 shows progress.

        Returns
        -------
        embeddings : ndarray of shape (n_samples, ...)
            As the encoder returns them, not normalised; float32, or float64 if they were.
        labels : ndarray of shape (n_samples,)
            Only with ``return_labels``.
        """
        if self.encoder is None:
            raise ValueError(
                "embed needs an encoder; this TorchParent has none. Give encoder= and head=."
            )
        encoder = find_part(_model(self), self.encoder, "encoder")
        if not return_labels and not _torch_data.in_order(X):
            raise ValueError(
                "X is a DataLoader that does not keep the order of its rows. Use shuffle=False and "
                "no sampler, or return_labels=True."
            )
        n_rows, batches = iterate(X, self.batch_size)
        found, labels = [], []
        bar = tqdm(total=n_rows, desc="embedding", unit="row", disable=not verbose)
        with bar, inference(encoder, self.device) as device:
            for batch in batches:
                inputs, label = split(batch)
                found.append(_forward(encoder, inputs, device, "the encoder", "embeddings"))
                bar.update(len(inputs))
                if label is not None:
                    labels.append(label)
        if not found:
            raise ValueError("X must have at least one row; got none.")
        embeddings = np.concatenate(found)
        if not return_labels:
            return embeddings
        if not labels:
            raise ValueError(
                "return_labels=True needs an X that yields (input, label); got inputs alone."
            )
        return embeddings, np.concatenate(labels)

    def on_embeddings(self) -> TorchParent:
        """The same parent for rows that ``embed`` has made: it runs the head alone.

        A calibrator that is fitted on embeddings answers as one that is fitted on the rows
        themselves, without a second forward pass of the encoder.
        """
        parts = (self.encoder, self.head)
        if self.module is not None or any(p is None or isinstance(p, str) for p in parts):
            raise ValueError(
                "on_embeddings needs a classifier that is head(encoder(x)) and nothing else; got "
                f"module={came(self.module)}, encoder={came(self.encoder)}, "
                f"head={came(self.head)}. Give TorchParent(encoder=..., head=...), two modules."
            )
        nothing = optional("torch", "torch").nn.Identity()
        return type(self)(**{**self.get_params(deep=False), "encoder": nothing})


class TorchFamily(Parent):
    family = "a PyTorch module with ReLU-type activations, or TorchParent(module)"
    pretrained = True
    needs_codes = True
    raw_input = True

    @staticmethod
    def problem(estimator: Any) -> str | None:
        # With Keras's torch back-end a Keras model is a torch module too.
        if is_a(estimator, "keras", "Layer"):
            return ""
        if not (isinstance(estimator, TorchParent) or is_a(estimator, "torch", "Module")):
            return ""
        try:
            make_plan(_wrapped(estimator))
        except (TypeError, ValueError) as error:
            return str(error).rstrip(".")
        return None

    @classmethod
    def allows_missing(cls, estimator: Any) -> bool:
        return False

    @classmethod
    def copy(cls, estimator: Any) -> Any:
        return clone(estimator) if isinstance(estimator, TorchParent) else estimator

    @classmethod
    def in_order(cls, X: Any) -> bool:
        return _torch_data.in_order(X)

    @property
    def gpu(self) -> str | None:
        parent = _wrapped(self.estimator)
        tensors = _model(parent).parameters()
        device = str(parent.device or next((t.device for t in tensors), "cpu"))
        return device if device.startswith("cuda") else None

    def read(self, X: Any, verbose: int = 0) -> Reading:
        parent = _wrapped(self.estimator)
        plan = make_plan(parent)
        unit_length = plan.encoder is not None and parent.normalize
        n_rows, batches = iterate(X, parent.batch_size)
        outputs, labels = [], []
        bar = tqdm(total=n_rows, desc="reading", unit="row", disable=not verbose)
        recorder = Recorder(
            plan.model,
            plan.taps,
            encoder=plan.encoder,
            within=plan.within,
            outside=plan.outside,
            rows=Rows(n_rows, unit_length=unit_length),
            on_batch=bar.update,
        )
        with bar, inference(plan.model, parent.device) as device, recorder:
            for batch in batches:
                inputs, label = split(batch)
                outputs.append(_forward(plan.model, inputs, device).astype(np.float64))
                if label is not None:
                    labels.append(label)
        if not outputs:
            raise ValueError("X must have at least one row; got none.")
        other = "probabilities" if parent.output == "logits" else "logits"
        remedy = f'Set output="{other}", or what else the module returns.'
        scores = np.concatenate(outputs)
        proba = to_proba(scores, parent.output, remedy)
        reading = recorder.rows.reading(proba, np.concatenate(labels) if labels else None)
        if unit_length and parent.output == "logits":
            return replace(reading, energy=energy(scores, proba))
        return reading


@dataclass(frozen=True)
class Plan:
    """The module to call and what to record of it."""

    model: Any
    taps: list[Tap]
    encoder: Any = None
    within: Any = None
    outside: Any = None


def make_plan(parent: TorchParent) -> Plan:
    """Resolve names and check everything that can be known without data."""
    check_output(parent.output)
    if not isinstance(parent.batch_size, (int, np.integer)) or parent.batch_size < 1:
        raise ValueError(f"batch_size must be an integer above 0; got {parent.batch_size!r}.")
    model = _model(parent)
    if parent.encoder is None:
        if parent.head is not None:
            raise ValueError(
                "head is given without an encoder; expected both. Give encoder=, or name the "
                "layers to read with layers=[...]."
            )
        return Plan(model, named_taps(model, parent.layers) or relu_taps(model))

    encoder = find_part(model, parent.encoder, "encoder")
    head = None if parent.head is None else find_part(model, parent.head, "head")
    if parent.layers is not None:
        if head is not None and parent.module is not None:
            raise ValueError(
                "head and layers both say where the modes come from; expected one of them."
            )
        return Plan(model, named_taps(model, parent.layers), encoder)
    if head is not None:
        if _holds(encoder, head) or _holds(head, encoder):
            raise ValueError(
                "encoder and head must be two separate submodules; got one inside the other. "
                "Give as head what comes after the encoder."
            )
        return Plan(model, relu_taps(head, "the head"), encoder, within=head)
    inside = [name for name, module in _all_names(model) if module is encoder]
    taps = [
        Tap(name, module)
        for name, module in _all_names(model)
        if relu_pieces(module) and not any(f"{name}.".startswith(f"{part}.") for part in inside)
    ]
    if not taps or encoder is model:
        raise ValueError(NO_ACTIVATION.format(where="the module outside its encoder") + ".")
    # One module may go by two names; it is hooked once.
    unique = list({id(tap.module): tap for tap in reversed(taps)}.values())[::-1]
    return Plan(model, unique, encoder, outside=encoder)


def _model(parent: TorchParent) -> Any:
    for name in ("module", "encoder", "head"):
        value = getattr(parent, name)
        if value is None or (isinstance(value, str) and name != "module"):
            continue
        if not is_a(value, "torch", "Module"):
            raise TypeError(
                f"{name} must be a torch.nn.Module instance; got {came(value)}. "
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
            f"{came(parent.encoder)}, head={came(parent.head)}. Give the module, or both parts."
        )
    torch = optional("torch", "torch")
    return torch.nn.Sequential(OrderedDict((name, unwrap(part)) for name, part in parts.items()))


def relu_taps(model: Any, where: str = "the module") -> list[Tap]:
    """All ReLU-type submodules; an error when there is none."""
    taps = [Tap(name, module) for name, module in model.named_modules() if relu_pieces(module)]
    if not taps:
        raise ValueError(NO_ACTIVATION.format(where=f"{where} ({type(model).__name__})") + ".")
    return taps


def named_taps(model: Any, layers: Any) -> list[Tap]:
    """The submodules that the user named; none when ``layers`` is None."""
    if layers is None:
        return []
    if isinstance(layers, str) or not isinstance(layers, Iterable) or not list(layers):
        raise ValueError(
            f"layers must be a list of submodule names; got {layers!r}. Available: {_names(model)}."
        )
    taps = [Tap(str(layer), find_part(model, layer, "layers"), True) for layer in layers]
    return list({id(tap.module): tap for tap in taps}.values())


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
            f"{parameter} must be a submodule of the module, or its name; got {came(part)} that "
            f"is not part of it. Available: {_names(model)}."
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


def _wrapped(estimator: Any) -> TorchParent:
    return estimator if isinstance(estimator, TorchParent) else TorchParent(estimator)


def _forward(
    model: Any,
    inputs: Any,
    device: Any,
    name: str = "the module",
    what: str = "class scores",
) -> NDArray:
    """What the module returns for one batch, float32 or float64."""
    dtypes = (p.dtype for p in model.parameters() if p.is_floating_point())
    dtype = next(dtypes, inputs.dtype) if inputs.is_floating_point() else inputs.dtype
    # A copy: a first layer that works in place would write into the user's data.
    inputs = inputs.detach().to(device=device, dtype=dtype, copy=True)
    if inputs.is_floating_point() and not inputs.isfinite().all():
        raise ValueError(
            f"X must be finite as {dtype}; got NaN, infinity or a number beyond its range. "
            "Impute, scale or clip it."
        )
    try:
        scores = model(inputs)
    except RuntimeError as error:
        if not inputs.is_floating_point():
            error.add_note(f"X holds {dtype}. If the network takes floats, use X.astype(float).")
        raise
    if not is_a(scores, "torch", "Tensor"):
        raise TypeError(
            f"{name} must return one tensor of {what}; got {came(scores)}. "
            "Wrap it in a module that returns only that."
        )
    if scores.ndim == 0 or len(scores) != len(inputs):
        raise ValueError(
            f"{name} must return one row for each of the {len(inputs)} rows; got shape "
            f"{tuple(scores.shape)}."
        )
    return to_array(scores)


def energy(logits: NDArray, proba: NDArray) -> NDArray:
    """log sum exp of the logits around their mean, which softmax leaves undetermined.

    It is the highest logit less the log of its probability. One column s stands for the logits
    -s/2 and s/2.
    """
    if logits.ndim == 1 or logits.shape[1] == 1:
        half = logits.reshape(len(logits), 1) / 2
        logits = np.concatenate([-half, half], axis=1)
    return logits.max(axis=1) - np.log(proba.max(axis=1)) - logits.mean(axis=1)
