"""X -> activation modes. One small adapter for each family; knows nothing of kernels."""

from __future__ import annotations

from typing import Any

from .bagging import BaggingAdapter
from .base import Adapter
from .boosting import (
    CatBoostAdapter,
    GradientBoostingAdapter,
    HistGradientBoostingAdapter,
    LightGBMAdapter,
    XGBoostAdapter,
)
from .forest import ForestAdapter
from .keras import KerasAdapter
from .mlp import MLPAdapter
from .pipeline import PipelineAdapter
from .skorch import SkorchAdapter
from .torch.adapter import TorchAdapter, TorchParent

__all__ = ["Adapter", "TorchParent", "find_adapter"]

FAMILIES: list[type[Adapter]] = [
    ForestAdapter,
    BaggingAdapter,
    GradientBoostingAdapter,
    HistGradientBoostingAdapter,
    LightGBMAdapter,
    XGBoostAdapter,
    CatBoostAdapter,
    MLPAdapter,
    TorchAdapter,
    SkorchAdapter,
    KerasAdapter,
    PipelineAdapter,
]


def find_adapter(estimator: Any) -> type[Adapter]:
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
