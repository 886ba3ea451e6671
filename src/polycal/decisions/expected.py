"""How right a model is on rows without labels, from probabilities that are calibrated."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

from .._utils.arrays import Floats, Ints
from .rows import JudgedRows, n_groups_worth

# Parts of the labelled rows, by confidence, whose mean error of the expectation is taken off.
N_PARTS = 10
# Squared error that a part has beside those of its rows: one row that is half wrong.
HALF_WRONG = 0.25
# Rows whose mean error is worth as much as the belief that there is none.
BELIEF = 100.0
# Smallest probability in a logarithm.
SMALLEST = 1e-300
FIGURES = ("accuracy", "log_loss", "brier")
HIGHEST = {"accuracy": 1.0, "log_loss": np.inf, "brier": 2.0}


@dataclass(frozen=True)
class Figure:
    """An expected figure of a batch, with what it may be by chance.

    Parameters
    ----------
    value : float
        The expectation.
    deviation : float
        Standard deviation of the realised figure around it: by the chance of these rows, and by
        what the calibration rows leave open.
    low, high : float
        Interval that holds the realised figure with the wanted probability.
    """

    value: float
    deviation: float
    low: float
    high: float

    def p_value(self, realised: float) -> float:
        """Chance that a realised figure is as far away.

        Parameters
        ----------
        realised : float
            The figure by labels.

        Returns
        -------
        float
            Two-sided p-value of a normal distribution.
        """
        away = abs(realised - self.value)
        if away == 0:
            return 1.0
        return 2 * float(ndtr(-away / self.deviation)) if self.deviation > 0 else 0.0


def expected_of_rows(probabilities: Floats, predicted: Ints) -> tuple[Floats, Floats]:
    """Mean and variance of each figure of each row, if the probabilities p are right.

    The shape is (n_figures, n_rows). Whether it is right: p of the prediction, p (1 - p);
    log-loss: the entropy H, sum p (log p)^2 - H^2; Brier score of class c:
    1 - 2 p_c + sum p^2, so that the mean is 1 - sum p^2, and the variance four times that of p_c.
    """
    right = probabilities[np.arange(len(predicted)), predicted]
    log_p = np.log(np.maximum(probabilities, SMALLEST))
    entropy = -(probabilities * log_p).sum(axis=1)
    squares = (probabilities**2).sum(axis=1)
    mean = np.stack([right, entropy, 1.0 - squares])
    variance = np.stack(
        [
            right * (1.0 - right),
            (probabilities * log_p**2).sum(axis=1) - entropy**2,
            4.0 * ((probabilities**3).sum(axis=1) - squares**2),
        ]
    )
    return mean, np.maximum(variance, 0.0)


def realised_of_rows(probabilities: Floats, predicted: Ints, y: Ints) -> Floats:
    """The figures of each row, with its label: shape (n_figures, n_rows)."""
    own = probabilities[np.arange(len(y)), y]
    squares = (probabilities**2).sum(axis=1)
    log_loss = -np.log(np.maximum(own, SMALLEST))
    return np.stack([(predicted == y).astype(float), log_loss, 1.0 - 2.0 * own + squares])


def expected_figures(
    probabilities: Floats, predicted: Ints, known: JudgedRows, level: float
) -> dict[str, Figure]:
    """Expected figures of rows, in the order of ``FIGURES``.

    The mean over the rows, plus what the same expectation of labelled rows is usually off by, in
    rows of like confidence: regression estimation. Its variance is that of sums of independent
    rows, and that of these means.
    """
    mean, variance = expected_of_rows(probabilities, predicted)
    guess = known.probabilities.argmax(axis=1)
    off = realised_of_rows(known.probabilities, guess, known.y)
    off -= expected_of_rows(known.probabilities, guess)[0]
    confidence = known.probabilities.max(axis=1)
    shift, uncertainty = _off_by_parts(off, confidence, known, probabilities.max(axis=1))
    n, z = len(predicted), float(ndtri(0.5 + level / 2))
    value = mean.mean(axis=1) + shift
    deviation = np.sqrt(variance.sum(axis=1) / n**2 + uncertainty)
    found = {}
    for name, middle, sd in zip(FIGURES, value.tolist(), deviation.tolist(), strict=True):
        middle = float(np.clip(middle, 0.0, HIGHEST[name]))
        low, high = np.clip([middle - z * sd, middle + z * sd], 0.0, HIGHEST[name]).tolist()
        found[name] = Figure(middle, sd, low, high)
    return found


def _off_by_parts(
    off: Floats, confidence: Floats, known: JudgedRows, new_confidence: Floats
) -> tuple[Floats, Floats]:
    """Mean error of the expectation at the confidences of new rows, and its squared error.

    Labelled rows are cut into parts of like confidence; each part's mean error leans on 0, and
    what it loses by that may be true.
    """
    edges = np.unique(np.quantile(confidence, np.arange(1, N_PARTS) / N_PARTS))
    part, new_part = (np.searchsorted(edges, c) for c in (confidence, new_confidence))
    share = np.bincount(new_part, minlength=len(edges) + 1) / len(new_part)
    shift, lost, uncertainty = np.zeros((3, len(off)))
    for number in np.flatnonzero(share):
        own = part == number
        n, weight = n_groups_worth(known.weight[own], known.group[own]), known.weight[own]
        mean = np.zeros(len(off)) if n == 0 else np.average(off[:, own], axis=1, weights=weight)
        squares = np.zeros(len(off))
        if n > 0:
            squares = np.average((off[:, own] - mean[:, None]) ** 2, axis=1, weights=weight)
        lean = n / (n + BELIEF)
        shift += share[number] * lean * mean
        lost += share[number] * (1 - lean) * mean
        uncertainty += share[number] ** 2 * (n * squares + HALF_WRONG) / (n + 1) / max(n, 1.0)
    return shift, uncertainty + lost**2


def expected_confusion(
    probabilities: Floats, predicted: Ints, level: float
) -> tuple[Floats, Floats, Floats]:
    """Expected number of rows of each class (rows) that are predicted as each (columns).

    Also the ends of the interval of each number, by the chance of these rows alone.
    """
    n_classes, z = probabilities.shape[1], float(ndtri(0.5 + level / 2))
    counts, variance = np.zeros((2, n_classes, n_classes))
    for code in range(n_classes):
        some = probabilities[predicted == code]
        counts[:, code] = some.sum(axis=0)
        variance[:, code] = (some * (1.0 - some)).sum(axis=0)
    reach = z * np.sqrt(variance)
    most = np.bincount(predicted, minlength=n_classes).astype(float)
    return counts, np.maximum(counts - reach, 0.0), np.minimum(counts + reach, most)


def beyond_chance(figures: dict[str, Figure], realised: dict[str, float]) -> float:
    """Chance that realised figures differ as much as these do from the expected ones.

    The lowest of the p-values times their number.
    """
    return min(1.0, len(figures) * min(figures[name].p_value(realised[name]) for name in figures))
