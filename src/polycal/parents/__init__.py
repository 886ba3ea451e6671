"""X -> activation modes. One small adapter for each family; knows nothing of kernels."""

from __future__ import annotations

from typing import Any

from sklearn.pipeline import Pipeline

from ._bagging import BaggingParent
from ._base import Parent
from ._forest import ForestParent
from ._mlp import MLPParent

__all__ = ["Parent", "find_family"]

FAMILIES: list[type[Parent]] = [ForestParent, BaggingParent, MLPParent]


def find_family(estimator: Any) -> type[Parent]:
    """The adapter that reads this estimator, fitted or not; an error says what to use."""
    if isinstance(estimator, type):
        raise TypeError(
            f"estimator must be an instance; got the class. Use {estimator.__name__}()."
        )
    reasons = [family.problem(estimator) for family in FAMILIES]
    for family, reason in zip(FAMILIES, reasons, strict=True):
        if reason is None:
            return family
    reason = next((r for r in reasons if r), f"{type(estimator).__name__} is not a known family")
    if isinstance(estimator, Pipeline):
        reason = (
            "a Pipeline is not read yet; put the calibrator around its last step instead, as in "
            "make_pipeline(StandardScaler(), GeodesicCalibrator(MLPClassifier()))"
        )
    known = "; ".join(family.family for family in FAMILIES)
    raise TypeError(f"estimator={estimator!r} is not supported: {reason}. Supported: {known}.")
