"""Out-of-distribution detection by a score that is higher for in-distribution rows."""

from __future__ import annotations

from numbers import Real

import numpy as np
from numpy.typing import ArrayLike

from .._utils.significance import WEIGHT_ROUNDING
from .._utils.validation import check_weights
from .input import check_scores


def auroc(
    id_scores: ArrayLike,
    ood_scores: ArrayLike,
    *,
    id_weight: ArrayLike | None = None,
    ood_weight: ArrayLike | None = None,
) -> float:
    """Probability that an in-distribution row scores above an out-of-distribution row.

    AUROC = mean over all pairs (i, o) of [s_i > s_o] + 1/2 [s_i = s_o].

    Parameters
    ----------
    id_scores : array-like of shape (n_id,)
        Scores of in-distribution rows; higher means more in distribution.
    ood_scores : array-like of shape (n_ood,)
        Scores of out-of-distribution rows.
    id_weight, ood_weight : array-like of shape (n_id,) and (n_ood,), default=None
        Weights of the rows, equal by default. A pair has the product of its weights.

    Returns
    -------
    float
        From 0 to 1: 1 when all ID rows score above all OOD rows, 1/2 for a random score.

    Notes
    -----
    Guarantees: ties count one half; auroc(a, b) = 1 - auroc(b, a); only the order of scores
    matters; a row of weight 2 counts as two. It takes the time of a sort.

    Edge cases: infinite scores are allowed, and equal to each other; NaN and empty scores are
    errors.

    Examples
    --------
    >>> auroc([2.0, 3.0], [1.0, 2.0])
    0.875
    """
    inside, outside = check_scores(id_scores, "id_scores"), check_scores(ood_scores, "ood_scores")
    inside_weight = check_weights(id_weight, len(inside), "id_weight")
    outside_weight = check_weights(ood_weight, len(outside), "ood_weight")
    order = np.argsort(outside)
    outside = outside[order]
    below = np.concatenate([[0.0], np.cumsum(outside_weight[order])])
    lower = below[np.searchsorted(outside, inside, side="left")]
    up_to = below[np.searchsorted(outside, inside, side="right")]
    return float(np.average(lower + up_to, weights=inside_weight) / (2 * below[-1]))


def fpr_at_tpr(
    id_scores: ArrayLike,
    ood_scores: ArrayLike,
    tpr: float = 0.95,
    *,
    id_weight: ArrayLike | None = None,
    ood_weight: ArrayLike | None = None,
) -> float:
    """Share of out-of-distribution rows accepted at the threshold that keeps ``tpr`` of the others.

    The threshold t is the highest score for which the share of ID rows with score >= t is at
    least ``tpr``; the result is the share of OOD rows with score >= t.

    Parameters
    ----------
    id_scores : array-like of shape (n_id,)
        Scores of in-distribution rows; higher means more in distribution.
    ood_scores : array-like of shape (n_ood,)
        Scores of out-of-distribution rows.
    tpr : float, default=0.95
        Share of the ID rows to keep, above 0, at most 1.
    id_weight, ood_weight : array-like of shape (n_id,) and (n_ood,), default=None
        Weights of the rows, equal by default.

    Returns
    -------
    float
        From 0 (no OOD row is accepted) to 1.

    Notes
    -----
    Guarantees: at least ``tpr`` of the ID weight is kept, ties included; never falls when ``tpr``
    rises; only the order of scores matters; a row of weight 2 counts as two.

    Edge cases: an OOD row on the threshold is accepted; the curve is not interpolated; ``tpr=1``
    keeps every ID row of positive weight; infinite scores are allowed; NaN and empty scores are
    errors.

    Examples
    --------
    >>> fpr_at_tpr([1.0, 2.0, 3.0, 4.0], [0.0, 0.5, 2.0, 2.5], tpr=0.75)
    0.5
    """
    if not isinstance(tpr, Real) or isinstance(tpr, bool) or not 0 < float(tpr) <= 1:
        raise ValueError(
            f"tpr must be above 0 and at most 1; got {tpr!r}. Give the share of in-distribution "
            "rows to keep, for instance 0.95."
        )
    inside, outside = check_scores(id_scores, "id_scores"), check_scores(ood_scores, "ood_scores")
    inside_weight = check_weights(id_weight, len(inside), "id_weight")
    outside_weight = check_weights(ood_weight, len(outside), "ood_weight")
    order = np.argsort(-inside)
    kept = np.cumsum(inside_weight[order])
    enough = kept >= float(tpr) * kept[-1] * (1 - WEIGHT_ROUNDING)
    # A row of weight 0 keeps nobody, so it is no threshold either.
    enough &= inside_weight[order] > 0
    threshold = inside[order[np.argmax(enough)]]
    return float(np.average(outside >= threshold, weights=outside_weight))
