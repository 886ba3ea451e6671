"""skorch classifiers: hooks on the fitted module while skorch itself predicts."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted
from tqdm.auto import tqdm

from ..core.reading import Reading
from .base import Adapter, is_a
from .networks import to_proba
from .torch.hooks import Recorder, Tap, uncompiled, unwrap
from .torch.plan import relu_taps


class SkorchAdapter(Adapter):
    family = "skorch NeuralNetClassifier with ReLU-type activations"
    needs_codes = True
    raw_input = True

    @staticmethod
    def problem(estimator: Any) -> str | None:
        if not is_a(estimator, "skorch", "NeuralNetClassifier", "NeuralNetBinaryClassifier"):
            return ""
        module = getattr(estimator, "module_", estimator.module)
        if not is_a(module, "torch", "Module"):
            return None  # a class: its layers are known once it is built
        try:
            _check(module)
        except (TypeError, ValueError) as error:
            return str(error).rstrip(".")
        return None

    @classmethod
    def allows_missing(cls, estimator: Any) -> bool:
        return False

    @classmethod
    def labels(cls, estimator: Any, codes: NDArray, classes: NDArray) -> NDArray:
        binary = is_a(estimator, "skorch", "NeuralNetBinaryClassifier")
        return codes.astype(np.float32 if binary else np.int64)  # as the losses want them

    def read(self, X: Any, verbose: int = 0) -> Reading:
        net = self.estimator
        check_is_fitted(net, "module_")
        taps = _check(net.module_)
        bar = tqdm(desc="reading", unit="row", disable=not verbose)
        recorder = Recorder(unwrap(net.module_), taps, on_batch=bar.update)
        with bar, uncompiled(net.module_), recorder:
            values = np.asarray(net.predict_proba(X), dtype=np.float64)
        proba = to_proba(
            values,
            "probabilities",
            "Set predict_nonlinearity of the skorch net so that predict_proba gives "
            "probabilities, as in predict_nonlinearity=torch.nn.Softmax(dim=-1).",
        )
        return recorder.rows.reading(proba)


def _check(module: Any) -> list[Tap]:
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
    return relu_taps(unwrap(module))
