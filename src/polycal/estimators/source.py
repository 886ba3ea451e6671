"""Where the parent comes from: an estimator to fit, or one that is fitted already."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import has_fit_parameter

from ..calibration.splits import Rows
from ..parents import Adapter, find_adapter

# With 20 trees one row in 10,000 is seen by all of them and cannot be calibrated on.
TREES_FOR_OUT_OF_BAG = 20


@dataclass(frozen=True)
class Source:
    estimator: Any
    family: type[Adapter]
    fitted: bool

    @classmethod
    def of(cls, estimator: Any) -> Source:
        frozen = isinstance(estimator, FrozenEstimator)
        inner = estimator.estimator if frozen else estimator
        family = find_adapter(inner)
        if frozen:
            family.check_fitted(inner)
        elif family.pretrained:
            inner = family.copy(inner)  # later changes of the user's object are not ours
        return cls(inner, family, frozen or family.pretrained)

    def fit(self, rows: Rows, classes: NDArray, unit: float | None) -> Adapter:
        """A fresh copy of the estimator, fitted on these rows.

        ``unit`` is the user's weight of a row of weight 1 here; None without weights.
        """
        estimator = self.family.copy(self.estimator)
        y = self.family.labels(estimator, rows.y, classes)
        weights = {} if unit is None else weight_argument(estimator, unit * rows.weight)
        estimator.fit(rows.raw, y, **weights)
        return self.family(estimator)

    def plan(self, calibration: str, weighted: bool = False) -> str:
        """What the parameter ``calibration`` means here: "holdout", "oob" or "cv"."""
        bagged = not self.fitted and self.family.has_out_of_bag(self.estimator)
        if calibration == "auto":
            if self.fitted:
                return "holdout"
            # A Pipeline's first steps see all rows, so its out-of-bag rows are not quite new.
            enough = getattr(self.estimator, "n_estimators", 0) >= TREES_FOR_OUT_OF_BAG
            # Rows of large weight are drawn for nearly every tree: few are left to judge them.
            even = getattr(self.estimator, "class_weight", None) in (None, "balanced_subsample")
            return "oob" if bagged and enough and even and not weighted else "cv"
        if self.fitted and calibration != "holdout":
            raise ValueError(
                f'calibration="{calibration}" needs a parent that polycal fits itself; this one is '
                'fitted already. Give it unfitted, or use calibration="holdout", or X_cal and '
                "y_cal with rows that are new to it."
            )
        if calibration == "oob" and not bagged:
            raise ValueError(
                'calibration="oob" needs a forest or a bagging of trees with bootstrap=True; got '
                f'{self.estimator!r}. Use calibration="cv".'
            )
        return calibration

    def check_features(self, n_features: int | None, names: NDArray | None) -> None:
        """A fitted parent was fitted on the features of X."""
        known = getattr(self.estimator, "feature_names_in_", None)
        same = self.family.same_names
        if known is not None and names is not None and not same(known, names):
            raise ValueError(
                f"X has the feature names {list(names)}; the frozen estimator was fitted on "
                f"{list(known)}. Give the same columns in the same order."
            )
        wanted = self.family.known_features(self.estimator)
        if wanted is not None and n_features is not None and wanted != n_features:
            raise ValueError(
                f"X has {n_features} features; the frozen estimator was fitted on {wanted}. Give "
                "the features it was fitted on."
            )

    def check_classes(self, classes: NDArray, proba: NDArray) -> None:
        """A fitted parent knows exactly the classes of y, or their codes."""
        if proba.shape[1] != len(classes):
            raise ValueError(
                f"the parent gives {proba.shape[1]} probabilities to each row; y holds the "
                f"{len(classes)} classes {classes.tolist()[:20]}. Give rows of exactly its classes."
            )
        known = self.family.known_classes(self.estimator)
        if known is None:
            return
        coded = self.family.wants_codes(self.estimator) and np.array_equal(
            known, np.arange(len(classes))
        )
        if not coded and not np.array_equal(known, classes):
            raise ValueError(
                f"the frozen estimator knows the classes {list(known)}, y holds "
                f"{classes.tolist()}. Give rows of exactly its classes."
            )


def weight_argument(estimator: Any, weight: NDArray) -> dict[str, NDArray]:
    """The fit argument that carries the weights; a Pipeline hands them to its last step."""
    steps, last = [], estimator
    while isinstance(last, Pipeline):
        step, last = last.steps[-1]
        steps.append(step)
    name = "__".join([*steps, "sample_weight"])
    if not has_fit_parameter(last, "sample_weight"):
        raise ValueError(
            f"sample_weight was given, but {type(last).__name__}.fit does not take it. Leave it "
            "out, or fit the parent yourself and freeze it."
        )
    return {name: weight}
