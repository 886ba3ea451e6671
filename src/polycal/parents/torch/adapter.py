"""PyTorch modules: activations read by hooks, in batches; the module stays as it was."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.base import clone
from tqdm.auto import tqdm

from ..._utils.arrays import Array
from ...core.reading import Reading
from ..base import Adapter
from ..networks import ReadingBuilder, to_proba
from . import data
from .hooks import Recorder
from .inference import forward, inference
from .parent import TorchParent
from .plan import full_model, make_plan


class TorchAdapter(Adapter):
    family = "a PyTorch module with ReLU-type or smooth activations, or TorchParent(module)"
    handles = (("torch", "Module"), ("polycal", "TorchParent"))
    pretrained = True
    needs_codes = True
    raw_input = True

    def problem(self) -> str | None:
        try:
            make_plan(self._parent)
        except (TypeError, ValueError) as error:
            return str(error).rstrip(".")
        return None

    @property
    def _parent(self) -> TorchParent:
        estimator = self.estimator
        return estimator if isinstance(estimator, TorchParent) else TorchParent(estimator)

    @cached_property
    def allows_missing(self) -> bool:
        return False

    def copy(self) -> Any:
        # The settings are copied; the module is shared.
        return clone(self.estimator) if isinstance(self.estimator, TorchParent) else self.estimator

    def in_order(self, X: Any) -> bool:
        return data.in_order(X)

    @property
    def gpu(self) -> str | None:
        parent = self._parent
        tensors = full_model(parent).parameters()
        device = str(parent.device or next((t.device for t in tensors), "cpu"))
        return device if device.startswith("cuda") else None

    def read(self, X: Any, verbose: int = 0) -> Reading:
        parent = self._parent
        plan = make_plan(parent)
        unit_length = plan.encoder is not None and parent.normalize
        n_rows, batches = data.iterate(X, parent.batch_size)
        outputs, labels = [], []
        bar = tqdm(total=n_rows, desc="reading", unit="row", disable=not verbose)
        recorder = Recorder(
            plan.model,
            plan.recorded,
            encoder=plan.encoder,
            within=plan.within,
            outside=plan.outside,
            builder=ReadingBuilder(n_rows, unit_length=unit_length),
            on_batch=bar.update,
        )
        with bar, inference(plan.model, parent.device) as device, recorder:
            for batch in batches:
                inputs, label = data.split_batch(batch)
                outputs.append(forward(plan.model, inputs, device).astype(np.float64))
                if label is not None:
                    labels.append(label)
        if not outputs:
            raise ValueError("X must have at least one row; got none.")
        other = "probabilities" if parent.output == "logits" else "logits"
        remedy = f'Set output="{other}", or what else the module returns.'
        scores = np.concatenate(outputs)
        proba = to_proba(scores, parent.output, remedy)
        reading = recorder.builder.reading(proba, np.concatenate(labels) if labels else None)
        if unit_length and parent.output == "logits":
            return replace(reading, energy=energy(scores, proba))
        return reading


def energy(logits: Array, proba: Array) -> Array:
    """Energy of the logits: log sum exp around their mean, which softmax leaves undetermined.

    It is the highest logit less the log of its probability, less the mean. One column s stands
    for the logits -s/2 and s/2.
    """
    if logits.ndim == 1 or logits.shape[1] == 1:
        highest, mean = np.abs(logits.reshape(len(logits))) / 2, 0.0
    else:
        highest, mean = logits.max(axis=1), logits.mean(axis=1)
    centred: Array = highest - np.log(proba.max(axis=1)) - mean
    return centred
