"""What can be looked at in a fitted estimator: its attributes, neighbours, reasons, its file."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any

from sklearn.utils.validation import check_is_fitted

from .._utils import validation
from .._utils.arrays import Array, Floats, Ints
from ..calibration.fitted_model import Answer, FittedModel
from ..core.execution import Execution
from ..core.polytopes import Polytopes
from ..gate.explanation import Explanation


class Inspection(ABC):
    """Attributes that end in an underscore, and methods that ask for more than predictions."""

    classes_: Array
    model_: FittedModel

    @property
    @abstractmethod
    def _execution(self) -> Execution:
        """How a query may use the machine."""

    @abstractmethod
    def _check_query(self, X: Any) -> Any:
        """New rows as the parent takes them."""

    @abstractmethod
    def answer(self, X: Any) -> Answer:
        """Everything that the model says about each row."""

    def nearest(self, X: Any, k: int = 1) -> tuple[Floats, Ints]:
        """Find the k nearest polytopes of each row.

        Polytopes are ordered by similarity; equal ones by their density at the row, highest first,
        and then by index.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, in any form that the parent takes.
        k : int, default=1
            Number of polytopes to find.

        Returns
        -------
        similarity : ndarray of shape (n_samples, k)
            Geodesic kernel K between the row and the polytope, from 0 to 1.
        index : ndarray of shape (n_samples, k)
            Index of the polytope, into ``polytopes_``.
        """
        check_is_fitted(self, "model_")
        validation.count(k=k)
        if k > len(self.polytopes_):
            raise ValueError(
                f"k must be at most {len(self.polytopes_)}, the number of polytopes; got {k}."
            )
        found = self.model_.nearest(self._check_query(X), k, self._execution)
        return found.similarity, found.index

    def explain(self, X: Any) -> Explanation:
        """Explain why each row is, or is not, in distribution.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, in any form that the parent takes.

        Returns
        -------
        Explanation
            For each row: the trust weight, the verdict ("in distribution", "edge" or "out") and
            its p-value; the nearest polytope with its similarity, class counts and training rows;
            and how unusual each feature is there.
        """
        explanation = self.explain_answer(self.answer(X))
        return replace(explanation, index=X.index if hasattr(X, "iloc") else None)

    def explain_answer(self, answer: Answer) -> Explanation:
        """Explain rows that ``answer`` was called with, without a second pass of the parent.

        Parameters
        ----------
        answer : Answer
            What ``answer`` returned.

        Returns
        -------
        Explanation
            As ``explain`` returns it for the same rows.
        """
        check_is_fitted(self, "model_")
        if not isinstance(answer, Answer):
            raise TypeError(
                f"answer must be what model.answer(X) returns; got {type(answer).__name__}."
            )
        modes, known = answer.reading.modes, self.polytopes_.modes
        if (modes.sizes, modes.packed) != (known.sizes, known.packed):
            raise ValueError("answer is that of another model. Use the answer of this one.")
        names = getattr(self, "feature_names_in_", None)
        return self.model_.explain(answer, names, self._execution)

    def similarity(self, X: Any, Y: Any) -> Floats:
        """Compute the geodesic kernel K between the rows of X and the rows of Y.

        Parameters
        ----------
        X : array-like of shape (n_samples_X, n_features)
            Rows, in any form that the parent takes.
        Y : array-like of shape (n_samples_Y, n_features)
            Rows to compare them with.

        Returns
        -------
        ndarray of shape (n_samples_X, n_samples_Y)
            Similarities from 0 to 1. K is 1 where the parent treats two rows alike: the same leaf
            in each tree, or the same active units in each layer.
        """
        rows = self._check_query(X), self._check_query(Y)
        return self.model_.similarity(*rows, self._execution)

    @property
    def estimator_(self) -> Any:
        """The fitted parent."""
        return self.model_.parent.estimator

    @property
    def polytopes_(self) -> Polytopes:
        """Polytopes of the rows that the parent was fitted on: their distinct modes."""
        return self.model_.reference.polytopes

    @property
    def priors_(self) -> Floats:
        """Class priors: the probabilities far from all training data."""
        return self.model_.posterior.prior

    @property
    def gamma_(self) -> float | None:
        """Sharpness of votes that have one exponent, gamma log n; None where they have several."""
        return self.model_.posterior.gamma

    @property
    def pool_weights_(self) -> Floats:
        """Weights of each source in the pool: the parent first, then the votes."""
        return self.model_.posterior.pool_weights

    @property
    def log_floor_(self) -> float:
        """The floor log b of alpha, which the score log f is compared with."""
        return self.model_.gate.log_floor

    @property
    def out_floor_(self) -> float:
        """The score below which ``explain`` calls a row "out"."""
        return self.model_.scores.verdict_floor(self.model_.false_alarm)

    @property
    def false_alarm_(self) -> float:
        """False-alarm level of the verdict "out"."""
        return self.model_.false_alarm

    @property
    def caution_(self) -> float:
        """Level of alpha's floor ``log_floor_``."""
        return self.model_.caution

    @property
    def calibration_(self) -> str:
        """Source of the calibration rows: "given", "holdout", "oob" or "cv"."""
        return self.model_.plan

    @property
    def search_(self) -> str:
        """How rows are compared with the training rows: "exact", "sampled", or which part is."""
        return self.model_.reference.search

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model into one file, which ``polycal.load`` reads.

        An interrupted call leaves no partial file. An existing file is replaced (a link to one
        stays, and leads to the new file); a pipe or a device is refused. The file holds no code:
        networks (PyTorch, skorch, Keras) must be passed to ``load`` again. A constructor parameter
        that a file cannot hold (a ``RandomState``, a splitter, a function) gives a warning and is
        None in the loaded model.

        Parameters
        ----------
        path : str or path-like
            Path of the file.
        """
        from ..persistence import save  # the only import of a package above this one

        save(self, path)
