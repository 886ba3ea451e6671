"""Searches and tuned thresholds: the adapter of what is inside reads the rows."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from sklearn.base import is_regressor

from .._utils.arrays import Array, Floats, Ints
from ..core.reading import Reading
from .base import Adapter, is_a, wrap

THRESHOLDS = ("TunedThresholdClassifierCV", "FixedThresholdClassifier")


class SearchAdapter(Adapter):
    """A forest that a search finds is read as a forest.

    A threshold that was tuned is not used: polycal predicts the most probable class.
    """

    family = "GridSearchCV and other searches, tuned and fixed thresholds"
    handles = (("sklearn", "BaseSearchCV"), *(("sklearn", name) for name in THRESHOLDS))

    @cached_property
    def _inside(self) -> Adapter:
        """The adapter of what the search found, or searches among."""
        found = [vars(self.estimator).get(name) for name in ("best_estimator_", "estimator_")]
        if self.is_fitted and any(part is not None for part in found):
            fitted = next(part for part in found if part is not None)
            return wrap(fitted, is_fitted=True)
        return wrap(self.estimator.estimator)

    def problem(self) -> str | None:
        if getattr(self.estimator, "refit", True) is False:
            return "with refit=False it keeps no fitted estimator; use refit=True"
        try:
            inside = self._inside
        except TypeError as error:
            return f"what is inside cannot be read: {str(error).removesuffix('.')}"
        if inside.pretrained and not self.is_fitted:
            return "what is inside is trained already; use that alone"
        if is_regressor(inside.estimator):
            return "it searches among regressors; use a classifier"
        return None

    @property
    def wants_codes(self) -> bool:
        return self._inside.wants_codes

    @property
    def raw_input(self) -> bool:  # type: ignore[override]
        """As of what is inside, like the next two."""
        return self._inside.raw_input

    @property
    def takes_categories(self) -> bool:  # type: ignore[override]
        return self._inside.takes_categories

    @property
    def reads_sparse(self) -> bool:  # type: ignore[override]
        return self._inside.reads_sparse

    @cached_property
    def allows_missing(self) -> bool:
        return self._inside.allows_missing

    def labels(self, codes: Ints, classes: Array) -> Array:
        return self._inside.labels(codes, classes)

    def weight_argument(self, sample_weight: Floats) -> dict[str, Floats]:
        if is_a(self.estimator, "sklearn", *THRESHOLDS):
            raise ValueError(
                f"{type(self.estimator).__name__} passes no sample_weight on to what is inside. "
                "Give that alone: polycal does not use the threshold."
            )
        return self._inside.weight_argument(sample_weight)

    def check_table(self, X: Any) -> None:
        self._inside.check_table(X)

    @property
    def known_classes(self) -> Array | None:
        return self._inside.known_classes

    @property
    def known_features(self) -> int | None:
        return self._inside.known_features

    @property
    def has_out_of_bag(self) -> bool:
        return self._inside.has_out_of_bag

    def out_of_bag(self, reading: Reading, groups: Ints | None = None) -> tuple[Reading, Floats]:
        return self._inside.out_of_bag(reading, groups)

    def feature_names(self, features: Any, given: Array | None) -> list[str]:
        return self._inside.feature_names(features, given)

    def read(self, X: Any, verbose: int = 0) -> Reading:
        return self._inside.read(X, verbose)
