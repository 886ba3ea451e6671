"""What the test rows say of each class, and how accuracy grows where fewer rows are answered."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._utils.arrays import Floats, Ints
from ..metrics.calibration import equal_width
from ..plotting.reliability import wilson_interval

BINS = 10
LEVEL = 0.95
# Shares of the rows that are answered, in the curve.
SHARES = np.linspace(0.02, 1.0, 50)


@dataclass(frozen=True)
class ClassReliability:
    """The probability of one class, bin by bin, beside how often a row is of it."""

    n_rows: int  # of the class
    found: float  # share of them that is predicted as the class
    mean: float  # mean probability over all rows
    share: float  # share of all rows that is of the class
    error: float  # calibration error of the probability
    edges: Floats  # (BINS + 1,)
    counts: Floats  # (BINS,), rows in each bin
    confidence: Floats  # mean probability in each bin, NaN where it is empty
    accuracy: Floats  # share of the class in each bin
    lower: Floats
    upper: Floats


@dataclass(frozen=True)
class ClassReport:
    """Figures by class, the confusion matrix, and accuracy against the share of rows answered."""

    classes: list[ClassReliability]
    confusion: Ints  # (n_classes, n_classes), true class by predicted class
    answered: dict[str, Floats]  # of each model, accuracy at SHARES

    @classmethod
    def of(cls, y: Ints, guess: Ints, P: Floats, P_parent: Floats) -> ClassReport:
        """From the true and the predicted classes, and the probabilities of model and parent."""
        n_classes = P.shape[1]
        confusion = np.zeros((n_classes, n_classes), dtype=int)
        np.add.at(confusion, (y, guess), 1)
        by_class = [_reliability(P[:, k], y == k, guess[y == k] == k) for k in range(n_classes)]
        right = {
            "polycal": (P.max(axis=1), guess == y),
            "parent": (P_parent.max(axis=1), P_parent.argmax(axis=1) == y),
        }
        return cls(by_class, confusion, {name: accuracy(*known) for name, known in right.items()})

    def common_mistakes(self, most: int) -> list[tuple[int, int, int]]:
        """True class, predicted class and number of rows of the most common mistakes."""
        wrong = self.confusion * (1 - np.eye(len(self.confusion), dtype=int))
        order = np.argsort(-wrong, axis=None, kind="stable")[:most]
        pairs = [divmod(int(place), len(wrong)) for place in order]
        return [(y, guess, int(wrong[y, guess])) for y, guess in pairs if wrong[y, guess]]


def _reliability(p: Floats, is_class: Floats, found: Floats) -> ClassReliability:
    bins = equal_width(p, BINS)
    counts = np.bincount(bins, minlength=BINS).astype(float)
    size = np.where(counts > 0, counts, np.nan)  # NaN marks an empty bin
    mean, share = np.bincount(bins, p, BINS) / size, np.bincount(bins, is_class, BINS) / size
    lower, upper = wilson_interval(share, size, LEVEL)
    return ClassReliability(
        int(is_class.sum()),
        float(found.mean()) if len(found) else np.nan,
        float(p.mean()),
        float(is_class.mean()),
        float(np.nansum(counts * np.abs(mean - share)) / len(p)),
        np.linspace(0, 1, BINS + 1),
        *(counts, mean, share, lower, upper),
    )


def accuracy(confidence: Floats, right: Floats) -> Floats:
    """Accuracy among the most confident rows, for each of ``SHARES``.

    Rows of equal confidence are answered together, as many of each as the share needs on average.
    """
    value, group = np.unique(-confidence, return_inverse=True)
    size = np.bincount(group, minlength=len(value)).cumsum()
    n_right = np.bincount(group, right, len(value)).cumsum()
    n = SHARES * len(right)
    known: Floats = np.interp(n, np.append(0, size), np.append(0.0, n_right)) / n
    return known
