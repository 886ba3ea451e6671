"""Votes by polytope and by query, and the choice of gamma."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.frozen import FrozenEstimator

from polycal import GeodesicCalibrator
from polycal.core.execution import Execution
from polycal.core.neighbours import Neighbours
from polycal.core.reading import ActivationModes
from polycal.kernels import reference
from polycal.posterior.votes import LabelEvidence, PolytopeVotes, choose_gamma, exponents, normalize
from tests.toys.models import small_network
from tests.toys.polytopes import make_rows, polytopes_of


def test_gamma_to_infinity_gives_raw_counts():
    rows = make_rows()
    polytopes = polytopes_of(rows)
    prior = polytopes.counts.sum(axis=0) / polytopes.counts.sum()
    ratios = PolytopeVotes(LabelEvidence.build(polytopes.modes, polytopes.counts), prior, 60)
    every = Neighbours(np.ones((len(polytopes), 1)), np.arange(len(polytopes))[:, None])
    proba = ratios.on_grid(polytopes.modes, every, np.array([1e4]), Execution())[0]
    expected = polytopes.counts / polytopes.size[:, None]
    assert_allclose(proba, expected, atol=1e-12)
    kept = ratios.with_gamma(1e4, Execution())
    assert_allclose(kept.ratios, polytopes.counts / polytopes.counts.sum(axis=0), atol=1e-12)


def test_smoothed_ratios_equal_their_definition():
    rows = make_rows()
    polytopes = polytopes_of(rows)
    gamma, n = 0.7, 60
    w = reference.similarity(polytopes.modes, polytopes.modes) ** (gamma * np.log(n))
    top = w @ polytopes.counts
    evidence = LabelEvidence.build(polytopes.modes, polytopes.counts)
    kept = PolytopeVotes(evidence, np.ones(3) / 3, n).with_gamma(gamma, Execution())
    assert_allclose(kept.ratios, top / top.sum(axis=0), rtol=1e-9)


@pytest.mark.parametrize("layers", [(16,), (16, 8)], ids=["one", "two"])
def test_labels_of_a_network_leave_out_its_output_layer(layers, blobs):
    """Of the pool's witness; the paper's ratios are by all layers."""
    X, y = blobs
    network = FrozenEstimator(small_network(hidden_layer_sizes=layers).fit(X[:300], y[:300]))
    held = {"X_cal": X[300:450], "y_cal": y[300:450]}
    for posterior, distance in (
        ("pooled", "geodesic"),
        ("pooled", "euclidean"),
        ("kernel", "geodesic"),
    ):
        model = GeodesicCalibrator(network, posterior=posterior, distance=distance)
        model.fit(X[:300], y[:300], **held)
        answer, votes = model.answer(X[450:]), model.model_.reference.votes
        near, counts = answer.neighbours, votes.evidence.counts
        exponent = exponents(model.gamma_, votes.n_samples)
        stored, asked = votes.evidence.index.modes, answer.reading.modes
        found = votes.on_grid(asked, near, np.array([model.gamma_]), Execution())[0]
        assert_allclose(votes.proba(near), found, rtol=1e-12)
        if (posterior, distance) == ("pooled", "geodesic"):
            hidden = [
                ActivationModes.from_bits(list(modes.groups())[:-1]) for modes in (asked, stored)
            ]
            expected = reference.class_sums(reference.similarity(*hidden), counts, exponent)
        else:
            sums = reference.class_sums(reference.similarity(stored, stored), counts, exponent)
            expected = votes.prior * (sums / sums.sum(axis=0))[near.index[:, 0]]
        assert_allclose(found, normalize(expected, votes.prior), rtol=1e-8)


@pytest.mark.parametrize("target", [1e-3, 0.02, 0.3, 15.0, 900.0])
def test_gamma_grid_widens_to_the_optimum(target):
    asked = []

    def loss(gammas):
        asked.extend(gammas)
        return np.log(gammas / target) ** 2

    gamma = choose_gamma(loss)
    assert abs(np.log2(gamma / target)) <= 0.51  # the nearest point of a grid of factor 2
    assert len(asked) == len(set(asked))


def test_counts_without_all_their_rows_are_exactly_zero():
    """A rest of rounding at K = 1 would outweigh every real neighbour at a large gamma."""
    weight = np.random.default_rng(0).uniform(0.1, 1, 50)
    counts = np.array([[weight.sum(), 1.0]])
    stored, y = np.zeros(51, dtype=int), np.r_[np.zeros(50, dtype=int), 1]
    evidence = LabelEvidence(None, counts, False, None)
    left = evidence.without(stored, y, np.r_[weight[::-1], 0.25])
    assert_array_equal(left.counts, [[0.0, 0.75]])


def test_normalize_gives_the_prior_where_there_is_no_mass():
    prior = np.array([0.3, 0.7])
    assert_allclose(normalize(np.array([[2.0, 6.0], [0.0, 0.0]]), prior), [[0.25, 0.75], prior])
