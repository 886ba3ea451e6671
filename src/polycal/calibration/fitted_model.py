"""The fitted model, and its answer for new rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .._utils.arrays import Array, Bools, Floats, Ints
from .._utils.saved import saved_number, saved_part, saved_value, unsaved
from ..core.execution import Execution
from ..core.neighbours import Neighbours
from ..core.reading import Reading
from ..gate.explanation import Explanation, surprises
from ..gate.floor import CalibrationScores
from ..gate.gate import DirectionGate, GateInput, GaussianGate, GeodesicGate
from ..kernels import Search, build_index
from ..parents import Adapter
from ..posterior.posterior import Posterior, mixture, most_probable
from ..posterior.votes import PolytopeVotes, QueryVotes
from .kept_rows import KeptRows
from .reference_set import ReferenceSet
from .stream import Stream
from .stream_start import StreamStart

PLANS = ("given", "holdout", "oob", "cv", "stream")
# The model that is calibrated is the one that answers.
EXACT_PLANS = ("given", "holdout")
# Probabilities in single precision sum to 1 within this, whatever the number of classes.
SUM_TOLERANCE = 1e-4


@dataclass(frozen=True)
class Answer:
    """Everything that a fitted model computes for some rows.

    Parameters
    ----------
    reading : Reading
        What the parent computes for the rows: activation modes, probabilities, features.
    X : ndarray of shape (n_samples, n_numbers + n_symbols)
        The features, encoded for the density.
    neighbours : Neighbours
        The nearest polytopes.
    log_f : ndarray of shape (n_samples,)
        Score of each row: how much training data there is near it.
    alpha : ndarray of shape (n_samples,)
        Weight of the posterior against the prior, in [0, 1].
    log_posterior : ndarray of shape (n_samples, n_classes)
        Logarithm of the posterior pi, which is estimated from the labels.
    probabilities : ndarray of shape (n_samples, n_classes)
        The mixture alpha pi + (1 - alpha) prior.
    votes : ndarray of shape (n_sources, n_samples, n_classes) or None
        Probabilities by the votes of labelled rows, one array for each source of the pool beside
        the parent. None with ``posterior="parent"``.
    """

    reading: Reading
    X: Floats
    neighbours: Neighbours
    log_f: Floats
    alpha: Floats
    log_posterior: Floats
    probabilities: Floats
    votes: Floats | None = None

    def __len__(self) -> int:
        return len(self.log_f)

    def take(self, index: Ints) -> Answer:
        """Select rows.

        Parameters
        ----------
        index : ndarray of shape (n_selected,)
            Numbers of the rows.

        Returns
        -------
        Answer
            The answer for these rows.
        """
        return Answer(
            self.reading.take(index),
            self.X[index],
            self.neighbours.take(index),
            self.log_f[index],
            self.alpha[index],
            self.log_posterior[index],
            self.probabilities[index],
            None if self.votes is None else self.votes[:, index],
        )

    @property
    def most_probable(self) -> Ints:
        """Column of the most probable class of each row; with equal priors, that of pi."""
        return most_probable(self.probabilities, self.log_posterior)


@dataclass(frozen=True)
class FittedModel:
    """Everything that answers a query: the parent, its polytopes, the posterior and the gate."""

    parent: Adapter = unsaved("stored by its own library's format")
    reference: ReferenceSet = saved_part()
    posterior: Posterior = saved_part()
    gate: GeodesicGate | GaussianGate | DirectionGate = saved_part()
    scores: CalibrationScores = saved_part()
    false_alarm: float = saved_number(float, above=0.0, below=1.0)  # level of the verdict's floor
    caution: float = saved_number(float, above=0.0, below=1.0)  # level of alpha's floor
    plan: str = saved_value()  # source of the calibration rows, one of PLANS
    # calibration rows as they were scored; None in files of versions that did not keep them
    kept: KeptRows | None = saved_part(default=None)
    # what rows are added to, where the model is one of a stream
    stream: Stream | None = saved_part(default=None)
    # what a stream can go on from, where a plain fit had a frozen parent
    start: StreamStart | None = saved_part(default=None)

    def answer(self, X: Any, execution: Execution) -> Answer:
        """X -> reading -> neighbours -> posterior -> gate -> answer."""
        reference = self.reference
        reading, features = self.read(X, execution)
        counts, exponents = reference.votes.searched_labels
        k, fill = reference.n_neighbors, reference.fill
        search = Search(reference.density, k, fill, counts, exponents, reference.n_views)
        neighbours = reference.index.nearest(reading.modes, features, search, execution)
        votes = None
        if self.posterior.n_votes:
            votes = reference.vote_sources(neighbours, features, execution)
        log_posterior = self.posterior.log_proba(reading.proba, votes, execution.n_jobs)
        log_f = self._log_f(reading, features, neighbours, execution)
        log_f = self.gate.lifted(log_f, self.posterior.lift(log_posterior))
        alpha = self.gate.alpha(log_f)
        probabilities = mixture(alpha, log_posterior, self.posterior.prior)
        found = (log_f, alpha, log_posterior, probabilities, votes)
        return Answer(reading, features, replace(neighbours, class_sums=None), *found)

    def read(self, X: Any, execution: Execution) -> tuple[Reading, Floats]:
        """What the parent computes for the rows, and their features, encoded."""
        reading = self.parent.read(X, execution.verbose)
        check_proba(reading.proba)
        features = self.reference.table.encode(reading.features)
        reading = self.reference.read_modes(reading, features, execution)
        known = self.reference.polytopes.modes
        if (reading.modes.sizes, reading.modes.packed) != (known.sizes, known.packed):
            raise ValueError(
                f"the parent reads X into groups of {reading.modes.sizes} symbols; the model was "
                f"fitted on groups of {known.sizes}. Give rows of the shape that it was fitted on."
            )
        return reading, features

    def nearest(self, X: Any, k: int, execution: Execution) -> Neighbours:
        """The k nearest polytopes of each row, also where K is 0."""
        return self._nearest(*self.read(X, execution), k, execution)

    def similarity(self, X: Any, Y: Any, execution: Execution) -> Floats:
        """K between the rows of X and of Y (Algorithm 1)."""
        left, right = (self.read(rows, execution)[0].modes for rows in (X, Y))
        return build_index(right, self.parent.gpu).similarity(left, execution)

    def explain(
        self, answer: Answer, feature_names: Array | None, execution: Execution
    ) -> Explanation:
        """Why each row is, or is not, in distribution."""
        reference = self.reference
        index, similarity = self.polytopes_shown(answer, 1, execution)
        nearest = index[:, 0]
        members = reference.members(nearest)
        favoured = np.argsort(-answer.log_posterior, axis=1, kind="stable")[:, :2]
        return Explanation.judge(
            answer.log_f,
            self.scores,
            self.false_alarm,
            guarantee=self.guarantee,
            weight=answer.alpha,
            similarity=similarity[:, 0],
            polytope=nearest,
            counts=reference.polytopes.counts[nearest],
            rows=[members[r] for r in nearest],
            surprise=surprises(answer.X, nearest, reference.density, reference.table),
            features=self.parent.feature_names(answer.reading.features, feature_names),
            witnesses=list(self.witnesses),
            favoured=favoured,
            odds=self.posterior.odds(
                answer.reading.proba, answer.votes, list(self.witnesses.values()), favoured
            ),
        )

    def is_out(self, log_f: Floats) -> Bools:
        """Which rows the verdict calls "out", by their scores."""
        return self.scores.is_below(log_f, self.scores.verdict_floor(self.false_alarm))

    @property
    def known_rows(self) -> KeptRows:
        """The kept rows, which a model from an older file lacks."""
        if self.kept is None:
            raise ValueError(
                "this model was saved by a version of polycal that did not keep its calibration "
                "rows, which this needs. Fit it again, and save it anew."
            )
        return self.kept

    @property
    def witnesses(self) -> dict[str, slice]:
        """The sources of the pool that are each witness's."""
        sizes = self.reference.witnesses
        if not self.posterior.n_votes:
            sizes = {"parent": 1}
        stop = np.cumsum(list(sizes.values())).tolist()
        return {name: slice(b - n, b) for (name, n), b in zip(sizes.items(), stop, strict=True)}

    def polytopes_shown(self, answer: Answer, k: int, execution: Execution) -> tuple[Ints, Floats]:
        """Index and similarity of the k nearest polytopes, also of those with K = 0."""
        k = min(k, answer.neighbours.index.shape[1])
        index = answer.neighbours.index[:, :k].copy()
        similarity = answer.neighbours.similarity[:, :k].copy()
        few = np.flatnonzero((index < 0).any(axis=1))
        if len(few):
            reading = answer.reading.take(few)
            found = self._nearest(reading, answer.X[few], k, execution)
            index[few], similarity[few] = found.index, found.similarity
        return index, similarity

    def _nearest(
        self, reading: Reading, features: Floats, k: int, execution: Execution
    ) -> Neighbours:
        search = Search(self.reference.density, k)
        return self.reference.index.nearest(reading.modes, features, search, execution)

    def _log_f(
        self,
        reading: Reading,
        features: Floats,
        neighbours: Neighbours,
        execution: Execution,
    ) -> Floats:
        """log f of each row; with parts of the trees, the mean over the parts."""
        density, n_jobs = self.reference.density, execution.n_jobs
        rows = (density, reading.energy, n_jobs, density.beyond(features, n_jobs))
        if isinstance(self.gate, DirectionGate):
            on_device = replace(execution, device=self.parent.gpu)
            terms = self.reference.direction_terms(features, on_device)
            return self.gate.log_f(GateInput(features, neighbours, *rows, directions=terms))
        parts = neighbours.parts or (neighbours,)
        scores = [self.gate.log_f(GateInput(features, near, *rows)) for near in parts]
        log_f: Floats = np.mean(scores, axis=0) if len(scores) > 1 else scores[0]
        return log_f

    @property
    def guarantee(self) -> str:
        """What is promised about the share of new in-distribution rows that are called "out"."""
        promised = self.scores.guarantee(self.false_alarm)
        if self.plan in EXACT_PLANS or promised.startswith("none"):
            return promised
        return f"{promised}; approximately, since stand-ins for the model were calibrated"

    def contradictions(self) -> Iterator[str]:
        """What does not fit together, in a model from a file."""
        if not isinstance(self.plan, str) or self.plan not in PLANS:
            yield "there is no such calibration"
        if self.stream is not None:
            tables = [found.sums for found in self.reference.streamed]
            yield from self.stream.contradictions_with(tables)
        if self.start is not None:
            yield from self.start.contradictions_with(self.reference)
        if self.scores.y is not None and self.scores.y.max() >= len(self.posterior.prior):
            yield "a calibration row has no class of the model"
        if self.kept is not None:
            table = self.reference.table
            n_columns = len(table.numbers) + len(table.level_offsets) - 1
            if self.kept.X.shape[1] != n_columns:
                yield "the kept rows have other columns than the table"
        if self.gate.by_similarity == self.reference.euclidean:
            yield "the gate and the reference set find neighbours in different ways"
        reach = self.gate.reach if isinstance(self.gate, GeodesicGate) else None
        if reach is not None and self.reference.density.ranges is None:
            yield "the gate judges by ranges that the density does not have"
        if isinstance(self.gate, DirectionGate) and self.reference.directions is None:
            yield "the gate judges by directions that the reference set does not have"
        votes, gamma = self.reference.votes, self.posterior.gamma
        by_nearest = isinstance(votes, PolytopeVotes) and self.posterior.n_votes > 0
        found = self.reference.fill or self.reference.euclidean
        if (by_nearest or isinstance(self.gate, GaussianGate)) and not found:
            yield "a nearest polytope is needed, and may not be found"
        voting = isinstance(votes, QueryVotes) or votes.ratios is not None
        n_votes = sum(self.reference.witnesses.values()) - 1 if voting else 0
        if self.posterior.n_votes != n_votes:
            yield "the pool has weights for other sources"
        if isinstance(votes, QueryVotes):
            if self.reference.euclidean:
                yield "a query has votes of its own only among neighbours by similarity"
        elif (votes.ratios is None) != (gamma is None):
            yield "gamma and the ratios of the polytopes do not go together"


def check_proba(proba: Floats) -> None:
    """Raise where a parent's numbers are no probabilities.

    Families check this too, with their own advice. A file may hold a parent that was forged.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        good = (np.abs(proba.sum(axis=1) - 1.0) <= SUM_TOLERANCE) & (proba >= 0).all(axis=1)
    if not good.all():
        row = int(np.argmin(good))
        raise ValueError(
            f"the parent gives row {row} of X {proba[row].tolist()[:10]}, which are no "
            "probabilities. Scale or clip the numbers of X, and load the model from a source that "
            "you trust."
        )
