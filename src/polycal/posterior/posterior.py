"""The posterior log pi of a row, and its mixture with the prior."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import log_softmax

from .._utils.arrays import Floats, Ints, are_shares
from .._utils.blocks import map_blocks
from .._utils.saved import saved_array, saved_log, saved_number, saved_part
from .class_matrix import ClassMatrix
from .levels import ConfidenceLevels

# Functions of each source's probability p in the pool; the first two have weights of at least 0.
VIEWS = ("log p", "-log(1 - p)", "p")
# Number of arrays of the result's size while the posterior of a block is computed, as measured.
ARRAYS_AT_ONCE = 18


@dataclass(frozen=True)
class Pool:
    """log pi = sum over sources and views of weight times view, plus offset, up to a constant.

    With log p alone this is the log-linear pool. With -log(1 - p) and p, the calibration curve of
    each source can bend at both ends (as in beta calibration) and in the middle. The matrix, where
    there is one, adds what differs between the classes.
    """

    weights: Floats = saved_log("float64 sources views")
    offset: Floats = saved_log("float64 classes")
    levels: ConfidenceLevels | None = saved_part(default=None)
    matrix: ClassMatrix | None = saved_part(default=None)

    def __call__(self, views: Floats) -> Floats:
        """Log probabilities from views of shape (n_sources, n_views, n_samples, n_classes)."""
        linear = np.tile(self.offset, (views.shape[2], 1))
        for source in zip(self.weights, views, strict=True):
            for weight, view in zip(*source, strict=True):
                linear += weight * view  # in a matrix product, rounding could depend on other rows
        if self.matrix is not None:
            linear += self.matrix(views[:, VIEWS.index("p")])
        log_pi = log_softmax(linear, axis=1)
        return log_pi if self.levels is None else self.levels(log_pi)


@dataclass(frozen=True)
class Posterior:
    """The posterior pi, from the probabilities of the parent and of the votes.

    Without a pool, pi is the probability of the votes (as in the paper).
    """

    # exponent of the votes in units of log n, where there is one; the pool takes several
    gamma: float | None = saved_number(float, optional=True, above=0.0, below=np.inf)
    pool: Pool | None = saved_part()
    train_prior: Floats = saved_array("float64 classes")  # of the labels that vote
    fitted_prior: Floats = saved_array("float64 classes")  # of the rows that the pool is fitted on
    prior: Floats = saved_array("float64 classes")  # where the model is used
    n_rows: int = saved_number(int, above=0, below=2**63)

    def log_proba(
        self, parent: Floats, votes: Floats | None = None, n_jobs: int | None = None
    ) -> Floats:
        """log pi under ``prior``, shape (n_queries, n_classes).

        ``parent`` has the same shape, ``votes`` one such array for each source.
        """
        sources = [parent] if votes is None else [parent, *votes]

        def block(rows: slice) -> Floats:
            return self._log_proba([proba[rows] for proba in sources])

        row_bytes = 8 * ARRAYS_AT_ONCE * len(self.prior)
        return np.concatenate(map_blocks(block, len(parent), row_bytes, n_jobs=n_jobs))

    def _log_proba(self, sources: list[Floats]) -> Floats:
        if self.pool is None:
            with np.errstate(divide="ignore"):
                log_pi = np.log(sources[1])
        else:
            views = [views_of(proba, self.train_prior, self.n_rows) for proba in sources]
            log_pi = self.pool(np.stack(views))
        return shift_prior(log_pi, self.fitted_prior, self.prior)

    def lift(self, log_posterior: Floats) -> Floats:
        """log of max_c pi_c / prior_c: how much likelier the best-fitting class is than usual.

        It is that under the class shares of the calibration rows, whatever ``prior`` is.
        """
        log_pi = shift_prior(log_posterior, self.prior, self.fitted_prior)
        lift: Floats = (log_pi - np.log(self.fitted_prior)).max(axis=1)
        return lift

    @property
    def n_votes(self) -> int:
        """Number of sources beside the parent."""
        return 1 if self.pool is None else len(self.pool.weights) - 1

    @property
    def pool_weights(self) -> Floats:
        """Weights of the parent and of each source of votes in each view."""
        if self.pool is None:
            return np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
        return self.pool.weights

    def odds(
        self, parent: Floats, votes: Floats | None, witnesses: Sequence[slice], between: Ints
    ) -> Floats:
        """What each witness adds to the log odds between two classes, (n_queries, n_witnesses).

        ``between`` has the numbers of the two classes of each row, and a witness is a range of
        sources. Offsets, the matrix, confidence levels and a change of the prior make up the rest.
        """
        sources = [parent] if votes is None else [parent, *votes]
        rows, added = np.arange(len(parent)), []
        for proba, weights in zip(sources, self.pool_weights, strict=True):
            views = views_of(proba, self.train_prior, self.n_rows)
            added.append(weights @ (views[:, rows, between[:, 0]] - views[:, rows, between[:, 1]]))
        return np.stack([np.sum(added[witness], axis=0) for witness in witnesses], axis=1)

    def contradictions(self) -> Iterator[str]:
        """Inconsistencies in a posterior that was read from a file, as messages."""
        for prior in (self.train_prior, self.fitted_prior, self.prior):
            if not are_shares(prior) or not prior.all():
                yield "a class has no prior"
        if self.pool is None and self.gamma is None:
            yield "a posterior has neither votes nor a pool"
        weights = None if self.pool is None else self.pool.weights
        if weights is not None and (len(weights) == 0 or weights.shape[1] != len(VIEWS)):
            yield "the pool has weights for other sources"


def views_of(proba: Floats, prior: Floats, n_rows: int) -> Floats:
    """log p, -log(1 - p) and p, shape (n_views, n_samples, n_classes).

    p is first averaged with the prior, which has the weight of one row beside the n rows that p
    was estimated from. So no p is exactly 0 or 1, and every logarithm is finite.
    """
    share = 1.0 / (n_rows + 1.0)
    p = (1.0 - share) * proba + share * prior
    return np.stack([np.log(p), -np.log1p(-p), p])


def shift_prior(log_posterior: Floats, from_prior: Floats, to_prior: Floats) -> Floats:
    """The posterior under another prior, by Bayes' rule."""
    if np.array_equal(from_prior, to_prior):
        return log_posterior
    shifted: Floats = log_softmax(log_posterior + np.log(to_prior) - np.log(from_prior), axis=1)
    return shifted


def mixture(alpha: Floats, log_posterior: Floats, prior: Floats) -> Floats:
    """g(x) = alpha pi + (1 - alpha) prior; exactly the prior where alpha is 0."""
    a = alpha[:, None]
    with np.errstate(invalid="ignore"):
        return np.where(a > 0, a * np.exp(log_posterior) + (1.0 - a) * prior, prior)


def most_probable(proba: Floats, log_posterior: Floats) -> Ints:
    """Class of highest probability; among equal ones, that of the highest posterior.

    Far from the data alpha is so small that classes of equal prior tie by rounding. Rounding is
    monotone, so the posterior gives the class that the exact mixture would give.
    """
    highest = proba == proba.max(axis=1, keepdims=True)
    columns: Ints = np.where(highest, log_posterior, -np.inf).argmax(axis=1)
    return columns
