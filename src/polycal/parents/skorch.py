"""skorch classifiers: hooks on the fitted module while skorch itself predicts."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted
from tqdm.auto import tqdm

from .._utils.arrays import Array, Ints
from ..core.reading import Reading
from .base import Adapter, is_a
from .networks import to_proba
from .torch.hooks import RecordedModule, Recorder
from .torch.inference import uncompiled, unwrap
from .torch.plan import activations_of


class SkorchAdapter(Adapter):
    family = "skorch NeuralNetClassifier with ReLU-type or smooth activations"
    handles = (("skorch", "NeuralNetClassifier"), ("skorch", "NeuralNetBinaryClassifier"))
    needs_codes = True
    raw_input = True

    def problem(self) -> str | None:
        module = getattr(self.estimator, "module_", self.estimator.module)
        if not is_a(module, "torch", "Module"):
            return None  # a class: its layers are known once it is built
        try:
            _recorded_modules(module)
        except (TypeError, ValueError) as error:
            return str(error).rstrip(".")
        return None

    @cached_property
    def allows_missing(self) -> bool:
        return False

    def labels(self, codes: Ints, classes: Array) -> Array:
        binary = is_a(self.estimator, "skorch", "NeuralNetBinaryClassifier")
        return codes.astype(np.float32 if binary else np.int64)  # as the losses need them

    def read(self, X: Any, verbose: int = 0) -> Reading:
        net = self.estimator
        check_is_fitted(net, "module_")
        recorded = _recorded_modules(net.module_)
        bar = tqdm(desc="reading", unit="row", disable=not verbose)
        recorder = Recorder(unwrap(net.module_), recorded, on_batch=bar.update)
        with bar, uncompiled(net.module_), recorder:
            values = np.asarray(net.predict_proba(X), dtype=np.float64)
        proba = to_proba(
            values,
            "probabilities",
            "Set predict_nonlinearity of the skorch net so that predict_proba gives "
            "probabilities, as in predict_nonlinearity=torch.nn.Softmax(dim=-1).",
        )
        return recorder.builder.reading(proba)


def _recorded_modules(module: Any) -> list[RecordedModule]:
    if is_a(module, "torch", "ScriptModule"):
        raise TypeError(
            "module is a torch.jit.ScriptModule, whose activations cannot be read; expected an "
            "ordinary nn.Module. Give skorch the module that was scripted."
        )
    if is_a(module, "torch", "DataParallel", "DistributedDataParallel"):
        # skorch calls the wrapper, which runs the parts of a batch at once, in any order.
        raise TypeError(
            "the skorch module is wrapped in DataParallel, whose batches cannot be read in order; "
            "expected the plain module. Set net.module_ = net.module_.module after training."
        )
    return activations_of(unwrap(module))
