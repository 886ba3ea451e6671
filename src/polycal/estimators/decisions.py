"""What may be done with answers: sets of classes, decisions, expected accuracy."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._utils import validation
from .._utils.arrays import Array, Bools
from .._utils.labels import class_columns
from .._utils.warnings import FewRowsWarning, ShiftWarning, warn
from ..calibration.fitted_model import EXACT_PLANS, Answer, FittedModel
from ..decisions.accept import highest_doubt
from ..decisions.costs import cheapest, cost_matrix
from ..decisions.expected import (
    FIGURES,
    beyond_chance,
    expected_confusion,
    expected_figures,
    realised_of_rows,
)
from ..decisions.result import ACCEPT, REFUSE, REVIEW, Decisions, ExpectedScores
from ..decisions.rows import JudgedRows
from ..decisions.sets import least_probabilities, least_rows, sets_above, unpromised

# Chance of a warning that labels differ from what was expected, where all is as before.
CHANCE = 0.01
STAND_INS = "approximately, since stand-ins for the model scored its training rows"


class DecisionMethods(ABC):
    """Methods that promise something about what is done with the answers."""

    classes_: Array
    model_: FittedModel

    @abstractmethod
    def _watched_answer(self, X: Any) -> Answer:
        """The answer, with a warning where most rows are out of distribution."""

    def predict_set(
        self,
        X: Any,
        coverage: float = 0.9,
        *,
        by_class: bool = False,
        all_if_out: bool = True,
        return_out: bool = False,
    ) -> Bools | tuple[Bools, Bools]:
        """Predict a set of classes for each row, which holds the right one as often as wanted.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, in any form that the parent takes.
        coverage : float, default=0.9
            Share of new in-distribution rows whose set holds their class, at least.
        by_class : bool, default=False
            Whether the share holds for the rows of each class too, and not only for all together.
            Sets are larger then. A class with too few calibration rows for this is in every set,
            with a warning.
        all_if_out : bool, default=True
            Whether a row that is out of distribution has all classes: it may be of any. Otherwise
            its set is made as any other is, from probabilities that are nearly the class priors.
            The coverage holds with both.
        return_out : bool, default=False
            Whether to return which rows are out of distribution too.

        Returns
        -------
        sets : ndarray of bool, shape (n_samples, n_classes)
            Whether each class is in the set, in the order of ``classes_``. A set may be empty,
            most often where the coverage is below the accuracy of the model.
        out : ndarray of bool, shape (n_samples,)
            Whether each row is out; with ``return_out`` only.
        """
        validation.share(coverage=coverage)
        answer = self._watched_answer(X)
        rows, out = self._judged_rows(), self._is_out(answer)
        if not all_if_out:
            rows = replace(rows, out=np.zeros(len(rows), dtype=bool))
        least = least_probabilities(rows, coverage, by_class)
        self._warn_of_few_rows(rows, coverage, by_class)
        sets = sets_above(answer.probabilities, out & all_if_out, least)
        return (sets, out) if return_out else sets

    def decide(
        self,
        X: Any,
        costs: Any = None,
        *,
        review: float | None = None,
        error_rate: float | None = None,
        confidence: float = 0.95,
    ) -> Decisions:
        """Decide for each row whether to accept the answer, to review the row, or to refuse it.

        A row that is out of distribution is refused. Of the others, a label is accepted if its
        expected cost is at most that of a review, and, with ``error_rate``, if it is sure enough
        for that rate.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, in any form that the parent takes.
        costs : dict or array-like of shape (n_classes, n_classes), default=None
            Cost of each label (columns) where another is right (rows), in the order of
            ``classes_``; or a dict with pairs (right label, predicted label), in which a wrong
            label that is not listed costs 1 and a right one 0. None is the empty dict.
        review : float, default=None
            Cost of a review of a row. At least one of ``review`` and ``error_rate`` must be given.
        error_rate : float, default=None
            Share of accepted labels that may be wrong.
        confidence : float, default=0.95
            Confidence that the labels accepted by this model are wrong no more often.

        Returns
        -------
        Decisions
            Action, label, probability of an error and expected cost of each row, and what is
            promised.
        """
        if review is None and error_rate is None:
            raise ValueError(
                "give review, the cost of looking at a row (a wrong answer costs 1 unless costs "
                "says otherwise), or error_rate, the share of accepted answers that may be wrong."
            )
        if review is not None:
            validation.not_negative(review=review)
        validation.share(confidence=confidence)
        matrix = cost_matrix(costs, self.classes_)
        answer = self._watched_answer(X)
        chosen, cost = cheapest(answer.probabilities, matrix, answer.most_probable)
        doubt = 1.0 - answer.probabilities[np.arange(len(answer)), chosen]
        out, highest = self._is_out(answer), np.inf if review is None else float(review)
        accepted, threshold = ~out & (cost <= highest), None
        guarantee = "none; expected costs are those of calibrated probabilities"
        if error_rate is not None:
            validation.share(error_rate=error_rate)
            threshold = self._threshold(matrix, highest, error_rate, confidence)
            accepted &= doubt < threshold
            guarantee = self._promise(threshold, error_rate, confidence)
        action = np.where(out, REFUSE, np.where(accepted, ACCEPT, REVIEW))
        return Decisions(
            action=action,
            label=self.classes_[chosen],
            error=doubt,
            cost=cost,
            review=review,
            threshold=threshold,
            guarantee=guarantee,
            index=X.index if hasattr(X, "iloc") else None,
        )

    def expected_scores(
        self, X: Any, y: ArrayLike | None = None, *, level: float = 0.95
    ) -> ExpectedScores:
        """Estimate how right the model is on rows without labels.

        It rests on calibrated probabilities, and on how right they were on the calibration rows.
        Where the features of new rows differ from those of the training rows, the probabilities
        say what that does to the accuracy. Where the classes of equal rows have changed, only
        labels can tell: give them as ``y`` when they come, and a warning says if they differ from
        what was expected by more than chance.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, in any form that the parent takes.
        y : array-like of shape (n_samples,), default=None
            Labels of the rows, where they are known by now.
        level : float, default=0.95
            Share of batches whose realised figures lie in their intervals.

        Returns
        -------
        ExpectedScores
            Expected accuracy, log-loss, Brier score and confusion matrix of the rows that are not
            out of distribution, and the number of rows that are.
        """
        validation.share(level=level)
        codes = None if y is None else class_columns(y, self.classes_)
        answer = self._watched_answer(X)
        out = self._is_out(answer)
        if codes is not None and len(codes) != len(out):
            raise ValueError(
                f"y must hold one label for each row of X; got {len(codes)} for {len(out)} rows."
            )
        if out.all():
            raise ValueError(
                f"all {len(out)} rows are out of distribution, so nothing is known about the "
                "accuracy on them. explain(X) says why for each row."
            )
        P, predicted = answer.probabilities[~out], answer.most_probable[~out]
        rows = self._judged_rows()
        figures = expected_figures(P, predicted, rows.take(~rows.out), level)
        confusion, low, high = expected_confusion(P, predicted, level)
        realised = numbers = chance = None
        if codes is not None:
            mean = realised_of_rows(P, predicted, codes[~out]).mean(axis=1)
            realised = dict(zip(FIGURES, mean.tolist(), strict=True))
            numbers = np.zeros_like(confusion)
            np.add.at(numbers, (codes[~out], predicted), 1.0)
            chance = beyond_chance(figures, realised)
            _warn_of_change(figures, realised, chance)
        note = "They hold if the classes of equal rows are as they were in training"
        if self.model_.plan not in EXACT_PLANS:
            note += f"; {STAND_INS}"
        return ExpectedScores(
            **figures,
            confusion=confusion,
            confusion_low=low,
            confusion_high=high,
            classes=self.classes_,
            n_rows=len(out),
            n_out=int(out.sum()),
            level=level,
            realised=realised,
            realised_confusion=numbers,
            p_value=chance,
            note=f"{note}.",
        )

    # ------------------------------------------------------------------- helpers

    def _is_out(self, answer: Answer) -> Bools:
        return self.model_.is_out(answer.log_f)

    def _judged_rows(self) -> JudgedRows:
        """The kept calibration rows, weighed for the class priors of the model."""
        model, kept = self.model_, self.model_.known_rows
        ratio = model.posterior.prior / model.posterior.fitted_prior
        judged = (kept.probabilities, kept.y, kept.weight, kept.group, model.is_out(kept.log_f))
        return JudgedRows.with_prior(*judged, ratio / ratio[kept.y].mean())

    def _warn_of_few_rows(self, rows: JudgedRows, coverage: float, by_class: bool) -> None:
        if by_class:
            few = unpromised(rows, coverage)
            if len(few):
                names = ", ".join(repr(label) for label in self.classes_[few].tolist()[:5])
                more = f" and {len(few) - 5} more" if len(few) > 5 else ""
                warn(
                    f"too few calibration rows of class {names}{more} for a coverage of "
                    f"{coverage:g} of its own, which needs {least_rows(coverage)}: the class is in "
                    "every set. Give more rows of it, or a lower coverage, or by_class=False.",
                    FewRowsWarning,
                )
        elif (least_probabilities(rows, coverage) == 0).all():
            warn(
                f"{len(rows)} calibration rows are too few for a coverage of {coverage:g}, which "
                f"needs {least_rows(coverage)} independent ones: every set holds all classes. Give "
                "more rows, or a lower coverage.",
                FewRowsWarning,
            )

    def _threshold(
        self, costs: Any, highest_cost: float, error_rate: float, confidence: float
    ) -> float:
        """Probability of an error below which labels are accepted; 0 accepts none."""
        rows = self._judged_rows()
        P = rows.probabilities
        chosen, cost = cheapest(P, costs, P.argmax(axis=1))
        some = np.flatnonzero(~rows.out & (cost <= highest_cost))
        doubt, wrong = 1.0 - P[np.arange(len(P)), chosen], chosen != rows.y
        weight, group = rows.weight[some], rows.group[some]
        found = highest_doubt(doubt[some], wrong[some], weight, group, error_rate, confidence)
        return 0.0 if found is None else found

    def _promise(self, threshold: float, error_rate: float, confidence: float) -> str:
        if threshold == 0.0:
            return (
                f"none: no answers can be accepted so that surely at most {error_rate:.2%} of them "
                "are wrong; give more calibration rows, or a higher error_rate"
            )
        promised = (
            f"at most {error_rate:.2%} of accepted in-distribution rows are wrong, with "
            f"{confidence:.0%} confidence"
        )
        exact = self.model_.plan in EXACT_PLANS
        return promised if exact else f"{promised}; {STAND_INS}"


def _warn_of_change(figures: Any, realised: dict[str, float], chance: float) -> None:
    if chance >= CHANCE:
        return
    name = min(figures, key=lambda name: figures[name].p_value(realised[name]))
    figure = figures[name]
    warn(
        f"the {name.replace('_', '-')} by these labels is {realised[name]:.4f}, and "
        f"{figure.value:.4f} was expected ({figure.low:.4f} to {figure.high:.4f}); chance makes "
        f"such a difference with p = {chance:.2g}. Rows of equal features have other classes than "
        "in training, or the labels are wrong: fit the model again with rows of today.",
        ShiftWarning,
    )
