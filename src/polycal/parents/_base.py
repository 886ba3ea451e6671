"""What the rest of polycal asks of a parent."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._types import ActivationModes


class Parent(ABC):
    """A fitted classifier of one family.

    A new family is one file with one subclass, listed in ``parents/__init__.py``.
    """

    #: How the family is named in messages.
    family: str

    def __init__(self, estimator: Any):
        self.estimator = estimator

    @staticmethod
    @abstractmethod
    def problem(estimator: Any) -> str | None:
        """None if this family reads the estimator (fitted or not).

        Otherwise "" when it is another family, or a sentence that says what to do when
        it is this family with an unsupported setting.
        """

    @abstractmethod
    def read(self, X: Any) -> tuple[ActivationModes, NDArray]:
        """Activation modes and ``predict_proba`` of the rows of X, in one look."""


def check_float32(X: Any) -> None:
    """scikit-learn's trees compare in float32: larger numbers get a clear error."""
    largest = np.abs(np.asarray(X, dtype=float)).max(initial=0.0)
    if largest > np.finfo(np.float32).max:
        raise ValueError(
            f"X holds values up to {largest:.3g}, beyond the range of float32 (3.4e38) that "
            "scikit-learn's trees can compare. Rescale or clip that feature."
        )
