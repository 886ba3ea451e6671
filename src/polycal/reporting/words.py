"""The verdict of a report, as sentences with grades."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.stats import betabinom

from .._utils.significance import WEIGHT_ROUNDING
from ..gate.explanation import EDGE, INSIDE, OUTSIDE
from ..plotting import DistanceDisplay
from .findings import OOD, Findings

GOOD, CAREFUL, BAD = "good", "careful", "problem"
# Debiased calibration error up to which confidence is graded as a probability, and as a guide.
FINE, ROUGH = 0.02, 0.05
# With a larger upper end of the interval there are too few test rows for the best grade.
UNSURE = 0.1
# Largest difference from the prior that counts as equal to it.
NEAR_PRIOR = 0.05
# Probability below which more alarms than allowed are not explained by chance.
NO_ACCIDENT = 0.01
# Share of the out-of-distribution rows that must be recognised for "good", and for "careful".
MOST, HALF = 0.9, 0.5


class Statement(NamedTuple):
    """One sentence of the verdict, with its grade."""

    grade: str
    head: str
    text: str


def verdict(found: Findings) -> list[Statement]:
    """Statements on the model: in distribution, far from the data, and out of distribution."""
    statements = [_calibration(found), _alarms(found), _distance(found)]
    if found.trust is not None:
        statements.append(_outside(found))
    return statements


def summary(statements: list[Statement]) -> str:
    grades = {s.grade for s in statements}
    if BAD in grades:
        return "There is a problem: read the marked lines before you use this model."
    if CAREFUL in grades:
        return "The model can be used with care: read the marked lines."
    return "The model can be relied on near the data, and falls back to the priors far from it."


def _calibration(found: Findings) -> Statement:
    ece, low, high = found.figure("polycal", "ece")
    debiased = found.figure("polycal", "ece_debiased")[0]
    parent = found.figure("parent", "ece")[0]
    why, n = found.sets[0].why, len(found.sets[0].why)
    grade = GOOD if debiased <= FINE else CAREFUL if debiased <= ROUGH else BAD
    # Few test rows may miss an error. The interval is too short for a few rows that are all alike:
    # an event that happens once in n / 3 rows is absent from n rows with probability 5 %.
    unsure = grade == GOOD and max(high, 3 / n) > UNSURE
    most_out = (why.verdict == OUTSIDE).mean() > HALF
    head = "On the test rows, most of which are out, " if most_out else "Inside the data "
    head += {
        GOOD: "its confidence can be read as a probability",
        CAREFUL: "its confidence is a guide, not a probability",
        BAD: "its confidence is off",
    }[grade]
    if unsure:
        grade = CAREFUL
        head = "Too few test rows to be sure that its confidence can be read as a probability"
    lean = "too sure" if found.bias > 0 else "too cautious"
    text = (
        f"Calibration error (ECE) {ece:.3f}, interval {low:.3f} to {high:.3f} from {n:,} test "
        f"rows; without the part that is due to chance, {debiased:.3f}. The parent alone has "
        f"{parent:.3f}. On average it is {abs(found.bias):.3f} {lean}."
    )
    return Statement(grade, head, text)


def _alarms(found: Findings) -> Statement:
    """Whether the test rows are like the training data."""
    why, n = found.sets[0].why, len(found.sets[0].why)
    out, edge = (why.verdict == OUTSIDE).sum(), (why.verdict == EDGE).sum()
    chances = [
        chance_of_alarms(alarms, n, level, found.n_calibration)
        for alarms, level in zip((out, out + edge), why.levels, strict=True)
    ]
    grade = GOOD if min(chances) >= NO_ACCIDENT else BAD
    head = {
        GOOD: "The test rows are like the training data",
        BAD: "The test rows are not like the training data",
    }[grade]
    text = (
        f"{out:,} of {n:,} rows ({out / n:.1%}) are out of distribution and {edge:,} at the edge; "
        f"{why.levels[0]:.1%} may be out by chance"
    )
    if grade == BAD:
        text += f", and {why.levels[1]:.1%} out or at the edge. "
        text += "The distribution has shifted: see the features below"
    return Statement(grade, head, text + ".")


def chance_of_alarms(alarms: int, n: int, level: float, n_calibration: float) -> float:
    """Probability of at least this many alarms among n rows like the calibration rows.

    The threshold is the k-th of n_calibration exchangeable scores, so the number of new scores
    below it is beta-binomial.
    """
    k = max(int(np.floor(level * (n_calibration + 1) * (1 + WEIGHT_ROUNDING))), 1)
    return float(betabinom.sf(alarms - 1, n, k, n_calibration + 1 - k))


def _distance(found: Findings) -> Statement:
    display = found.distance
    if not isinstance(display, DistanceDisplay):
        return Statement(CAREFUL, "Points far from the data were not tried", display)
    end, prior = display.distance[-1], found.priors.max()
    far, parent = display.confidence["polycal"][-1], display.confidence["parent"][-1]
    grade = GOOD if abs(far - prior) <= NEAR_PRIOR else BAD
    head = {
        GOOD: "Far from the data it falls back to the class priors",
        BAD: "Far from the data it is still confident",
    }[grade]
    text = (
        f"At {end:.0f} times the distance of the farthest row its mean confidence is {far:.3f}; "
        f"the largest prior is {prior:.3f}. That of the parent is {parent:.3f}."
    )
    return Statement(grade, head, text)


def _outside(found: Findings) -> Statement:
    why = found.sets[1].why
    share = {word: (why.verdict == word).mean() for word in (OUTSIDE, EDGE, INSIDE)}
    known = share[OUTSIDE] + share[EDGE]
    assert found.trust is not None
    trusted = found.trust.ood_trusted
    grade = GOOD if known >= MOST and trusted <= HALF else CAREFUL if known >= HALF else BAD
    head = {
        GOOD: "It recognises the out-of-distribution rows",
        CAREFUL: "It recognises many of the out-of-distribution rows, but not all"
        if trusted <= HALF
        else "It finds the out-of-distribution rows unusual, but answers most as if it knew them",
        BAD: "It does not recognise most of the out-of-distribution rows",
    }[grade]
    auroc = found.figure("polycal", "auroc", OOD)[0]
    text = (
        f"Of {len(why):,} rows {share[OUTSIDE]:.1%} are called out and {share[EDGE]:.1%} edge; "
        f"{share[INSIDE]:.1%} pass as in distribution. {trusted:.1%} still get an answer that is "
        f"more the model's than the prior's. A random test row scores higher than a "
        f"random one of these with probability {auroc:.3f} (AUROC; parent's confidence "
        f"{found.figure('parent', 'auroc', OOD)[0]:.3f}). Mean confidence on them "
        f"{found.figure('polycal', 'confidence', OOD)[0]:.3f}, the parent's "
        f"{found.figure('parent', 'confidence', OOD)[0]:.3f}."
    )
    return Statement(grade, head, text)
