"""One call that says how far each of several models can be believed, and where."""

from .evaluate_models import evaluate
from .result import INSIDE, TITLES, Evaluation, Figure

__all__ = ["INSIDE", "TITLES", "Evaluation", "Figure", "evaluate"]
