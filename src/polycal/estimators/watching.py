"""What a fitted estimator says about a batch of new rows as a whole."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from sklearn.utils.validation import check_is_fitted

from .._utils import validation
from ..calibration.fitted_model import Answer, FittedModel
from ..core.execution import Execution
from ..monitoring.check import BatchCheck, check_batch, check_limits


class Watching(ABC):
    """The method ``check``."""

    model_: FittedModel

    @property
    @abstractmethod
    def _execution(self) -> Execution:
        """How a query may use the machine."""

    @abstractmethod
    def answer(self, X: Any) -> Answer:
        """Everything that the model says about each row."""

    def check(
        self,
        X: Any,
        *,
        level: float = 0.01,
        smallest: float = 0.01,
        false_discovery: float = 0.1,
        random_state: int = 0,
    ) -> BatchCheck:
        """Check whether a batch of new rows is like the calibration rows; no labels are needed.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The batch, in any form that the parent takes. Its rows should be independent.
        level : float, default=0.01
            Share of batches without a shift that may raise an alarm; at least 0.002, the smallest
            p-value that there is.
        smallest : float, default=0.01
            Smallest difference that is worth an alarm: the share of the batch that would have to
            be replaced. However many rows a batch has, a smaller one raises none.
        false_discovery : float, default=0.1
            Share of the rows in ``selected`` that, on average, may not be new.
        random_state : int, default=0
            Seed of the permutations and of the classifier's folds.

        Returns
        -------
        BatchCheck
            Alarm, p-value and size of the shift, the share of new rows with an interval, which rows
            they are, and the features behind it.
        """
        check_limits(level, smallest)
        validation.share(false_discovery=false_discovery)
        validation.count(0, random_state=random_state)
        check_is_fitted(self, "model_")
        self.model_.known_rows  # noqa: B018 - an error before the work, where there are none
        names = getattr(self, "feature_names_in_", None)
        return check_batch(
            self.model_,
            self.answer(X),
            names,
            self._execution.n_jobs,
            level=level,
            smallest=smallest,
            false_discovery=false_discovery,
            seed=random_state,
        )
