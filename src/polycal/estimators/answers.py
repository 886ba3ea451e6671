"""The columns of an answer, as the command line writes them and MLflow returns them."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._utils.arrays import Array
from ..calibration.fitted_model import Answer


def answer_columns(model: Any, answer: Answer | None, prefix: str = "") -> dict[str, Array]:
    """Label, probability of each class, trust weight and verdict; empty columns without rows.

    Parameters
    ----------
    model : BaseCalibrator
        The model that gave the answer.
    answer : Answer or None
    prefix : str
        Beginning of each name.
    """
    if answer is None:
        labels, proba = model.classes_[:0], np.empty((0, len(model.classes_)))
        weight, verdict = np.empty(0), np.empty(0, dtype=str)
    else:
        why = model.explain_answer(answer)
        labels, proba = model.classes_[answer.most_probable], answer.probabilities
        weight, verdict = why.weight, why.verdict.astype(str)
    columns = {"prediction": labels}
    columns |= {f"p_{label}": proba[:, k] for k, label in enumerate(model.classes_)}
    columns |= {"trust": weight, "verdict": verdict}
    return {f"{prefix}{name}": values for name, values in columns.items()}
