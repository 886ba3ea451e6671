"""PyTorch modules: ReLU-type activations read by hooks, in batches, without a trace left."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from tqdm.auto import tqdm

from ..._utils.optional import optional
from ...core.reading import Reading
from ..base import Adapter, is_a
from ..networks import Rows, to_proba
from . import data
from .data import came, iterate, split
from .hooks import Recorder, inference, to_array
from .plan import find_part, full_model, make_plan


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
        encoder = find_part(full_model(self), self.encoder, "encoder")
        if not return_labels and not data.in_order(X):
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


class TorchAdapter(Adapter):
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
        return data.in_order(X)

    @property
    def gpu(self) -> str | None:
        parent = _wrapped(self.estimator)
        tensors = full_model(parent).parameters()
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
        highest, mean = np.abs(logits.reshape(len(logits))) / 2, 0.0
    else:
        highest, mean = logits.max(axis=1), logits.mean(axis=1)
    return highest - np.log(proba.max(axis=1)) - mean
