"""What a fitted model answers: probabilities, familiarity, neighbours, reasons."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from .._utils import validation
from .._utils.blocks import map_blocks
from ..calibration.reference_set import ReferenceSet
from ..core.neighbours import Neighbours
from ..core.polytopes import Polytopes
from ..core.reading import Reading
from ..gate.explanation import Explanation, surprises
from ..gate.gate import CalibrationScores, Gate, GateInput
from ..kernels import Execution, Search, build_index, euclidean_nearest, pair_similarity
from ..parents import Adapter
from ..posterior.posterior import Posterior, decide, mixture
from .input import check_rows
from .source import Source

# Arrays of the answer's size while the posterior of a block is made, as measured.
POSTERIOR_ARRAYS = 18


class Queries:
    """Every method that asks a fitted model; ``fit`` leaves what they need."""

    # Parameters
    distance: str
    categorical_features: Any
    n_jobs: int | None
    verbose: int

    # Of the fit
    classes_: NDArray
    priors_: NDArray
    gamma_: float | None
    false_alarm_: float
    polytopes_: Polytopes
    _source: Source
    _parent: Adapter
    _landscape: ReferenceSet
    _posterior: Posterior
    _gate: Gate
    _familiar: CalibrationScores

    def _check_rows(self, X: Any, y: Any = None, *, reset: bool = False) -> tuple[Any, Any]:
        return check_rows(self, self._source, self.categorical_features, X, y, reset)

    @property
    def _place(self) -> ReferenceSet:
        """The landscape, for queries with the present ``n_jobs`` and ``verbose``."""
        execution = Execution(self.n_jobs, self.verbose)
        return replace(
            self._landscape, settings=replace(self._landscape.settings, execution=execution)
        )

    def _query(self, X: Any) -> tuple[Reading, NDArray]:
        """New rows as the parent reads them, and encoded."""
        check_is_fitted(self, "polytopes_")
        if not self._source.family.in_order(X):
            raise ValueError(
                "X is a DataLoader that does not keep the order of its rows, so no answer could be "
                "matched to its row. Use shuffle=False and no sampler."
            )
        reading = self._parent.read(self._check_rows(X)[0], self.verbose)
        known = self.polytopes_.modes
        if (reading.modes.sizes, reading.modes.packed) != (known.sizes, known.packed):
            raise ValueError(
                f"the parent reads X into groups of {reading.modes.sizes} symbols; the model was "
                f"fitted on groups of {known.sizes}. Give rows of the shape that it was fitted on."
            )
        return reading, self._landscape.table.encode(reading.features)

    def _log_f(self, reading: Reading, values: NDArray, near: Neighbours) -> NDArray:
        density = self._landscape.density
        return self._gate.log_f(GateInput(values, near, density, reading.energy, self.n_jobs))

    def _answers(self, X: Any) -> tuple[NDArray, NDArray]:
        """log f and log pi of each row, in one look."""
        reading, values = self._query(X)
        place, modes = self._place, reading.modes
        near = place.nearest(modes, values, gamma=self.gamma_)
        sources = [reading.proba]
        if self.gamma_ is not None:
            gammas = np.array([self.gamma_])
            sources.append(place.kernel.proba(modes, near, gammas, place.settings.execution)[0])

        def log_posterior(rows: slice) -> NDArray:
            return self._posterior.log_proba(*(proba[rows] for proba in sources))

        row_bytes = 8 * POSTERIOR_ARRAYS * len(self.classes_)
        blocks = map_blocks(log_posterior, len(values), row_bytes, n_jobs=self.n_jobs)
        return self._log_f(reading, values, near), np.concatenate(blocks)

    def _mixture(self, log_f: NDArray, log_posterior: NDArray) -> NDArray:
        return mixture(self._gate.alpha(log_f), log_posterior, self.priors_)

    def predict_proba(self, X: Any) -> NDArray:
        """alpha(x) pi(x) + (1 - alpha(x)) prior, shape (n_samples, n_classes)."""
        return self._mixture(*self._answers(X))

    def predict_log_proba(self, X: Any) -> NDArray:
        """Logarithm of ``predict_proba``."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def predict(self, X: Any) -> NDArray:
        """Class of highest probability; with equal priors, that of pi."""
        log_f, log_posterior = self._answers(X)
        return self.classes_[decide(self._mixture(log_f, log_posterior), log_posterior)]

    def score_samples(self, X: Any) -> NDArray:
        """log f of each row: higher means more in distribution."""
        reading, values = self._query(X)
        return self._log_f(reading, values, self._place.nearest(reading.modes, values))

    def in_distribution(self, X: Any) -> NDArray:
        """alpha of each row, in [0, 1]: the weight of pi against the prior."""
        log_f = self.score_samples(X)
        return self._gate.alpha(log_f)

    def nearest(self, X: Any, k: int = 1) -> tuple[NDArray, NDArray]:
        """Similarity and index (into ``polytopes_``) of the k nearest polytopes.

        Ties: highest similarity, then highest log density, then lowest index.
        """
        check_is_fitted(self, "polytopes_")
        validation.count(k=k)
        if k > len(self.polytopes_):
            raise ValueError(f"k must be at most {len(self.polytopes_)}, the polytopes; got {k}.")
        reading, values = self._query(X)
        place = self._place
        execution = place.settings.execution
        if self.distance == "euclidean":
            _, index = euclidean_nearest(values, place.density, k, execution)
            return pair_similarity(reading.modes, self.polytopes_.modes, index, execution), index
        search = Search(place.density, k)
        near = place.kernel.evidence.index.nearest(reading.modes, values, search, execution)
        return near.similarity, near.index

    def explain(self, X: Any) -> Explanation:
        """Why each row is, or is not, in distribution.

        Returns
        -------
        Explanation
            For each row: the trust weight, the verdict ("in distribution", "edge" or "out") and
            the p-value behind it; the nearest polytope with its similarity, class counts and
            training rows; and how surprising each feature is there.
        """
        reading, values = self._query(X)
        place = self._place
        # Also where nothing agrees (K = 0), there is a polytope to compare with.
        near = place.nearest(reading.modes, values, fill=True)
        log_f = self._log_f(reading, values, near)
        nearest = near.index[:, 0]
        similarity = near.similarity[:, 0]
        if self.distance == "euclidean":
            similarity = pair_similarity(
                reading.modes, self.polytopes_.modes, near.index[:, :1], place.settings.execution
            )[:, 0]
        members = place.members(nearest)
        return Explanation.judge(
            log_f,
            self._familiar,
            self.false_alarm_,
            weight=self._gate.alpha(log_f),
            similarity=similarity,
            polytope=nearest,
            counts=self.polytopes_.counts[nearest],
            rows=[members[r] for r in nearest],
            surprise=surprises(values, nearest, place.density, place.table),
            features=self._parent.feature_names(
                reading.features, getattr(self, "feature_names_in_", None)
            ),
        )

    def similarity(self, X: Any, Y: Any) -> NDArray:
        """Geodesic kernel K between the rows of X and of Y, shape (n_X, n_Y)."""
        left, right = self._query(X)[0].modes, self._query(Y)[0].modes
        execution = self._place.settings.execution
        return build_index(right, execution.device).similarity(left, execution)
