"""Pipelines: the last step's family reads what the steps before it make of the rows."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from ..core.reading import Reading
from .base import Adapter


class PipelineAdapter(Adapter):
    """The density lives in the space that the last step sees."""

    family = "Pipeline that ends in one of these"
    raw_input = True

    def __init__(self, estimator: Any):
        super().__init__(estimator)
        self._family = _family(estimator)(_last(estimator))

    @staticmethod
    def problem(estimator: Any) -> str | None:
        if not isinstance(estimator, Pipeline):
            return ""
        try:
            _family(estimator)
        except TypeError as error:
            return f"of its last step: {error}"
        return None

    @classmethod
    def allows_missing(cls, estimator: Any) -> bool:
        try:
            return super().allows_missing(estimator)
        except (AttributeError, TypeError):  # the last step is no scikit-learn estimator
            return False

    @classmethod
    def check_fitted(cls, estimator: Any) -> None:
        for _, step in estimator.steps[:-1]:
            if not isinstance(step, str):
                check_is_fitted(step)
        _family(estimator).check_fitted(_last(estimator))

    @classmethod
    def copy(cls, estimator: Any) -> Any:
        if _family(estimator).pretrained:
            raise TypeError(
                f"the Pipeline ends in a {type(_last(estimator)).__name__} that is trained "
                "already, and polycal would fit its first steps anew. Fit those, and give "
                "FrozenEstimator(pipeline)."
            )
        steps = [(name, clone(step, safe=False)) for name, step in estimator.steps[:-1]]
        last = _family(estimator).copy(_last(estimator))
        parameters = estimator.get_params(deep=False)
        return type(estimator)(**parameters | {"steps": [*steps, (estimator.steps[-1][0], last)]})

    @classmethod
    def wants_codes(cls, estimator: Any) -> bool:
        return _family(estimator).wants_codes(_last(estimator))

    @classmethod
    def labels(cls, estimator: Any, codes: NDArray, classes: NDArray) -> NDArray:
        return _family(estimator).labels(_last(estimator), codes, classes)

    @classmethod
    def known_classes(cls, estimator: Any) -> NDArray | None:
        return _family(estimator).known_classes(_last(estimator))

    @classmethod
    def known_features(cls, estimator: Any) -> int | None:
        return getattr(estimator, "n_features_in_", None) if len(estimator.steps) > 1 else None

    @classmethod
    def has_out_of_bag(cls, estimator: Any) -> bool:
        # Other kinds of Pipeline may draw rows of their own on the way.
        plain = type(estimator) is Pipeline
        return plain and _family(estimator).has_out_of_bag(_last(estimator))

    def out_of_bag(self, reading: Reading) -> tuple[Reading, NDArray]:
        return self._family.out_of_bag(reading)

    def feature_names(self, seen: Any, given: NDArray | None) -> list[str]:
        if len(self.estimator.steps) > 1 and not hasattr(seen, "columns"):
            given = None  # names of the first step's columns
            with suppress(AttributeError, ValueError):  # a step that does not name its own
                given = self.estimator[:-1].get_feature_names_out()
        return super().feature_names(seen, given)

    def read(self, X: Any, verbose: int = 0) -> Reading:
        seen = self.estimator[:-1].transform(X) if len(self.estimator.steps) > 1 else X
        if issparse(seen):
            dense = seen.toarray()
            # To XGBoost what a sparse matrix leaves out is missing, not zero.
            reading = self._family.read(seen if self._family.reads_sparse else dense, verbose)
            return replace(reading, features=dense)
        return self._family.read(seen if hasattr(seen, "columns") else np.asarray(seen), verbose)


def _last(pipeline: Pipeline) -> Any:
    return pipeline.steps[-1][1]


def _family(pipeline: Pipeline) -> type[Adapter]:
    from . import find_adapter  # the registry holds this class

    return find_adapter(_last(pipeline))
