"""Evaluation of one or several models, in and out of distribution, in one call."""

from .evaluate_models import compare_with_parent, evaluate, evaluate_with_parent, name_rows
from .model_scores import ask
from .result import INSIDE, TITLES, Evaluation, Figure

__all__ = [
    "INSIDE",
    "TITLES",
    "Evaluation",
    "Figure",
    "ask",
    "compare_with_parent",
    "evaluate",
    "evaluate_with_parent",
    "name_rows",
]
