"""scikit-learn MLPClassifier with ReLU: one group of bits for each layer, the output last."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax
from sklearn.neural_network import MLPClassifier

from .._types import ActivationModes
from ._base import Parent


class MLPParent(Parent):
    family = 'MLPClassifier(activation="relu")'

    @staticmethod
    def problem(estimator: Any) -> str | None:
        if not isinstance(estimator, MLPClassifier):
            return ""
        if estimator.activation == "relu":
            return None
        return (
            f"an MLPClassifier with activation={estimator.activation!r} has no on/off units; "
            'use activation="relu"'
        )

    def read(self, X: Any) -> tuple[ActivationModes, NDArray]:
        net = self.estimator
        h = np.asarray(X, dtype=float)
        bits = []
        # Far away the layers may overflow; the gate is closed there, so no warning.
        with np.errstate(over="ignore", invalid="ignore"):
            for weight, bias in zip(net.coefs_[:-1], net.intercepts_[:-1], strict=True):
                h = np.maximum(h @ weight + bias, 0.0)
                bits.append(h > 0)
            logits = h @ net.coefs_[-1] + net.intercepts_[-1]
            if net.out_activation_ == "softmax":
                proba = softmax(logits, axis=1)
            else:
                positive = expit(logits[:, 0])
                proba = np.stack([1.0 - positive, positive], axis=1)
        bits.append(proba > 1.0 / proba.shape[1])
        return ActivationModes.from_bits(bits), proba
