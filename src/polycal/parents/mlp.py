"""scikit-learn MLPClassifier with ReLU: one group of bits for each layer, the output last."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit, softmax
from sklearn.neural_network import MLPClassifier

from ..core.reading import ActivationModes, Reading
from ..core.table import numbers_of
from .base import Adapter


class MLPAdapter(Adapter):
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

    @classmethod
    def wants_codes(cls, estimator: Any) -> bool:
        # Before scikit-learn 1.9, early stopping fails on labels that are words.
        return estimator.early_stopping

    def read(self, X: Any, verbose: int = 0) -> Reading:
        net = self.estimator
        h = numbers_of(X)
        if np.isnan(h).any():
            raise ValueError(
                "Input X contains NaN, and MLPClassifier does not take missing values. Put an "
                "imputer before it in a Pipeline."
            )
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
        return Reading(ActivationModes.from_bits(bits), proba, X)
