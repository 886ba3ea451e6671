"""Pipelines: the adapter of the last step reads the output of the steps before it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OrdinalEncoder
from sklearn.utils.validation import check_is_fitted

from .._utils.arrays import Array, Floats, Ints
from ..core.reading import Reading
from .base import Adapter, wrap


class PipelineAdapter(Adapter):
    """The density is over the features that the last step gets."""

    family = "a Pipeline that ends in a supported classifier"
    handles = (("sklearn", "Pipeline"),)
    raw_input = True

    @cached_property
    def _last(self) -> Adapter:
        """The adapter of the last step."""
        return wrap(self.estimator.steps[-1][1], is_fitted=self.is_fitted)

    def problem(self) -> str | None:
        last = self.estimator.steps[-1][1]
        if last is None or isinstance(last, str):
            return f"it ends in {last!r}; use a Pipeline whose last step is a classifier"
        try:
            self._last  # noqa: B018
        except TypeError as error:
            return f"its last step cannot be read: {error}"
        return None

    @cached_property
    def allows_missing(self) -> bool:
        try:
            return super().allows_missing
        except (AttributeError, TypeError):  # the last step is not a scikit-learn estimator
            return False

    def check_fitted(self) -> None:
        for _, step in self.estimator.steps[:-1]:
            if not isinstance(step, str):
                check_is_fitted(step)
        self._last.check_fitted()

    def copy(self) -> Any:
        pipeline = self.estimator
        if self._last.pretrained:
            raise TypeError(
                f"the Pipeline ends in a {type(self._last.estimator).__name__} that is trained "
                "already, and polycal would fit its first steps anew. Fit those, and give "
                "FrozenEstimator(pipeline)."
            )
        steps = [(name, clone(step, safe=False)) for name, step in pipeline.steps[:-1]]
        steps.append((pipeline.steps[-1][0], self._last.copy()))
        return type(pipeline)(**pipeline.get_params(deep=False) | {"steps": steps})

    @property
    def wants_codes(self) -> bool:
        return self._last.wants_codes

    def labels(self, codes: Ints, classes: Array) -> Array:
        return self._last.labels(codes, classes)

    def weight_argument(self, sample_weight: Floats) -> dict[str, Floats]:
        step = self.estimator.steps[-1][0]
        arguments = self._last.weight_argument(sample_weight)
        return {f"{step}__{name}": weight for name, weight in arguments.items()}

    @property
    def known_classes(self) -> Array | None:
        return self._last.known_classes

    @property
    def known_features(self) -> int | None:
        return super().known_features if len(self.estimator.steps) > 1 else None

    @property
    def has_out_of_bag(self) -> bool:
        # Subclasses of Pipeline may resample the rows before the last step.
        return type(self.estimator) is Pipeline and self._last.has_out_of_bag

    def out_of_bag(self, reading: Reading, groups: Ints | None = None) -> tuple[Reading, Floats]:
        return self._last.out_of_bag(reading, groups)

    def feature_names(self, features: Any, given: Array | None) -> list[str]:
        if len(self.estimator.steps) > 1 and not hasattr(features, "columns"):
            given = None  # those are the input names of the first step
            with suppress(AttributeError, ValueError):  # a step without names for its output
                given = self.estimator[:-1].get_feature_names_out()
        return super().feature_names(features, given)

    def read(self, X: Any, verbose: int = 0) -> Reading:
        features = self.estimator[:-1].transform(X) if len(self.estimator.steps) > 1 else X
        if issparse(features):
            dense = features.toarray()
            # To XGBoost the entries that a sparse matrix leaves out are missing, not zero.
            reading = self._last.read(features if self._last.reads_sparse else dense, verbose)
            return replace(reading, features=dense)
        if not hasattr(features, "columns"):
            features = np.asarray(features)
        return self._last.read(features, verbose)


def decoded_levels(parent: Any) -> dict[int, Array]:
    """Levels of each column that a Pipeline of one ColumnTransformer and a classifier encodes."""
    if not isinstance(parent, Pipeline) or len(parent.steps) != 2:
        return {}
    columns = parent.steps[0][1]
    if not isinstance(columns, ColumnTransformer):
        return {}
    found: dict[int, Array] = {}
    for name, encoder, _ in columns.transformers_:
        if isinstance(encoder, OrdinalEncoder):
            first = columns.output_indices_[name].start
            known = getattr(encoder, "categories_", ())  # an encoder of no columns is not fitted
            found |= {first + k: levels for k, levels in enumerate(known)}
    return found
