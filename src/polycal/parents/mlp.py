"""scikit-learn MLPClassifier: one group of bits for each layer, the output last."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit, softmax

from ..core.reading import ActivationModes, Reading
from ..core.table import numbers_of
from .base import Adapter

# The unit of a smooth activation is on where its input is positive, as that of a ReLU.
ACTIVATIONS = {"relu": lambda z: np.maximum(z, 0.0), "tanh": np.tanh, "logistic": expit}


class MLPAdapter(Adapter):
    family = "MLPClassifier"
    handles = (("sklearn", "MLPClassifier"),)

    @classmethod
    def is_for(cls, estimator: Any) -> bool:
        return estimator.activation in ACTIVATIONS

    @property
    def wants_codes(self) -> bool:
        # Before scikit-learn 1.9, early stopping fails on labels that are strings.
        return bool(self.estimator.early_stopping)

    def read(self, X: Any, verbose: int = 0) -> Reading:
        net = self.estimator
        activation = ACTIVATIONS[net.activation]
        h = numbers_of(X)
        if np.isnan(h).any():
            raise ValueError(
                "Input X contains NaN, and MLPClassifier does not take missing values. Put an "
                "imputer before it in a Pipeline."
            )
        if len(h) == 1:  # one row goes another way through BLAS, which rounds in another way
            twice = self.read(np.repeat(h, 2, axis=0))
            return Reading(twice.modes[:1], twice.proba[:1], X)
        bits = []
        # Layers may overflow on rows far from the data. The gate returns the prior there, so a
        # warning would not help.
        with np.errstate(over="ignore", invalid="ignore"):
            for weight, bias in zip(net.coefs_[:-1], net.intercepts_[:-1], strict=True):
                z = h @ weight + bias
                bits.append(z > 0)
                h = activation(z)
            logits = h @ net.coefs_[-1] + net.intercepts_[-1]
            if net.out_activation_ == "softmax":
                proba = softmax(logits, axis=1)
            else:
                positive = expit(logits[:, 0])
                proba = np.stack([1.0 - positive, positive], axis=1)
        # Where the logits overflow to infinities of both signs, the network says nothing.
        proba[np.isnan(proba).any(axis=1)] = 1.0 / proba.shape[1]
        bits.append(proba > 1.0 / proba.shape[1])
        return Reading(ActivationModes.from_bits(bits), proba, X)
