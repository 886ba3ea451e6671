"""X -> activation modes. One small adapter for each family; knows nothing of kernels."""

from __future__ import annotations

from typing import Any

from .bagging import BaggingParent
from .base import Parent
from .boosting import (
    CatBoostFamily,
    GradientBoostingFamily,
    HistGradientBoostingFamily,
    LightGBMFamily,
    XGBoostFamily,
)
from .forest import ForestParent
from .keras import KerasFamily
from .mlp import MLPParent
from .pipeline import PipelineParent
from .skorch import SkorchFamily
from .torch.adapter import TorchFamily, TorchParent

__all__ = ["Parent", "TorchParent", "find_family"]

FAMILIES: list[type[Parent]] = [
    ForestParent,
    BaggingParent,
    GradientBoostingFamily,
    HistGradientBoostingFamily,
    LightGBMFamily,
    XGBoostFamily,
    CatBoostFamily,
    MLPParent,
    TorchFamily,
    SkorchFamily,
    KerasFamily,
    PipelineParent,
]


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
    known = "; ".join(family.family for family in FAMILIES)
    raise TypeError(
        f"estimator={type(estimator).__name__} is not supported: {reason}. Supported: {known}."
    )
