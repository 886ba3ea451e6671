"""The verdict of a report, in plain words."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.stats import betabinom

from ..core.reading import ROUNDING
from ..gate.explanation import EDGE, INSIDE, OUTSIDE
from ..plotting import DistanceDisplay
from .findings import OOD, Findings

GOOD, CAREFUL, BAD = "good", "careful", "problem"
# Debiased calibration error up to which confidence may be read as a probability, and as a guide.
FINE, ROUGH = 0.02, 0.05
# Calibration error that the test rows must exclude before confidence may be read as a probability.
UNSURE = 0.1
# Largest difference from the prior that counts as having come down to it.
NEAR_PRIOR = 0.05
# Chance below which more alarms than allowed are no accident.
NO_ACCIDENT = 0.01
# Share of the out-of-distribution rows recognised that is good, and that is careful.
MOST, HALF = 0.9, 0.5


class Statement(NamedTuple):
    """One sentence of the verdict, with its grade."""

    grade: str
    head: str
    text: str


def verdict(found: Findings) -> list[Statement]:
    """Where the model can be believed, from the data to far away."""
    statements = [_calibration(found), _alarms(found), _distance(found)]
    if found.trust is not None:
        statements.append(_outside(found))
    return statements


def summary(statements: list[Statement]) -> str:
    grades = {s.grade for s in statements}
    if BAD in grades:
        return "There is a problem: read the marked lines before you use this model."
    if CAREFUL in grades:
        return "The model can be believed with care: read the marked lines."
    return "The model can be believed where it says so, and says where it cannot be."


def _calibration(found: Findings) -> Statement:
    ece, low, high = found.figure("polycal", "ece")
    debiased = found.figure("polycal", "ece_debiased")[0]
    parent = found.figure("parent", "ece")[0]
    why, n = found.sets[0].why, len(found.sets[0].why)
    grade = GOOD if debiased <= FINE else CAREFUL if debiased <= ROUGH else BAD
    # Not to have found an error is no proof. The interval is too short for a few rows that are
    # all alike: what happens once in n / 3 rows, n rows miss with a chance of 5 %.
    unsure = grade == GOOD and max(high, 3 / n) > UNSURE
    most_out = (why.verdict == OUTSIDE).mean() > HALF
    head = "On the test rows, most of them out, " if most_out else "Inside the data "
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
        f"rows; without what chance alone would give, {debiased:.3f}. The parent alone has "
        f"{parent:.3f}. On average it is {abs(found.bias):.3f} {lean}."
    )
    return Statement(grade, head, text)


def _alarms(found: Findings) -> Statement:
    """Are the test rows like the training data?"""
    why, n = found.sets[0].why, len(found.sets[0].why)
    out, edge = (why.verdict == OUTSIDE).sum(), (why.verdict == EDGE).sum()
    chances = [
        chance_of_alarms(alarms, n, level, found.n_familiar)
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
        text += "Something has shifted: see the features below"
    return Statement(grade, head, text + ".")


def chance_of_alarms(alarms: int, n: int, level: float, n_familiar: float) -> float:
    """Chance of so many alarms or more among n rows like the calibration rows.

    The threshold is the k-th of n_familiar exchangeable scores, so that the number of new ones
    below it is beta-binomial.
    """
    k = max(int(np.floor(level * (n_familiar + 1) * (1 + ROUNDING))), 1)
    return float(betabinom.sf(alarms - 1, n, k, n_familiar + 1 - k))


def _distance(found: Findings) -> Statement:
    display = found.distance
    if not isinstance(display, DistanceDisplay):
        return Statement(CAREFUL, "What happens far away was not tried", display)
    end, prior = display.distance[-1], found.priors.max()
    far, parent = display.confidence["polycal"][-1], display.confidence["parent"][-1]
    grade = GOOD if abs(far - prior) <= NEAR_PRIOR else BAD
    head = {
        GOOD: "Far from the data it falls back to the class priors",
        BAD: "Far from the data it is still confident",
    }[grade]
    text = (
        f"At {end:.0f} times the distance of the farthest row its mean confidence is {far:.3f}; "
        f"the largest prior is {prior:.3f}. The parent says {parent:.3f} there."
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
        GOOD: "It knows the out-of-distribution rows when it sees them",
        CAREFUL: "It knows many of the out-of-distribution rows, but not all"
        if trusted <= HALF
        else "It finds the out-of-distribution rows unusual, but answers most as if it knew them",
        BAD: "It does not know most of the out-of-distribution rows",
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
