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
from polycal.kernels import Search, reference
from polycal.posterior.votes import (
    COARSER_ROWS,
    HYPERPLANE_SCALES,
    HyperplaneVotes,
    LabelEvidence,
    PolytopeVotes,
    choose_gamma,
    exponents,
    normalize,
)
from tests.toys.models import random_modes, small_network
from tests.toys.polytopes import make_rows, polytopes_of


def test_gamma_to_infinity_gives_raw_counts():
    rows = make_rows()
    polytopes = polytopes_of(rows)
    prior = polytopes.counts.sum(axis=0) / polytopes.counts.sum()
    ratios = PolytopeVotes(LabelEvidence.build(polytopes.modes, polytopes.counts), prior, 60)
    every = Neighbours(np.ones((len(polytopes), 1)), np.arange(len(polytopes))[:, None])
    proba = ratios.on_grid(every, np.array([1e4]), Execution())[0]
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
        stored, asked = votes.evidence.index.modes, answer.reading.modes
        if (posterior, distance) == ("pooled", "geodesic"):
            known = model.model_.reference
            search = Search(known.density, known.n_neighbors, known.fill, *votes.searched_labels)
            found = votes.proba(known.index.nearest(asked, answer.X, search, Execution()))
            assert_allclose(found, votes.proba_of(asked, Execution()), rtol=1e-12)
            hidden = [
                ActivationModes.from_bits(list(modes.groups())[:-1]) for modes in (asked, stored)
            ]
            K = reference.similarity(*hidden)
            expected = [reference.class_sums(K, counts, e) for e in votes.exponents]
        else:
            found = votes.proba(near)
            gamma = np.array([model.gamma_])
            assert_allclose(found, votes.on_grid(near, gamma, Execution()), rtol=1e-12)
            exponent = exponents(model.gamma_, votes.n_samples)
            sums = reference.class_sums(reference.similarity(stored, stored), counts, exponent)
            expected = [votes.prior * (sums / sums.sum(axis=0))[near.index[:, 0]]]
        assert_allclose(found, normalize(np.stack(expected), votes.prior), rtol=1e-8)


PRIOR = np.array([0.5, 0.3, 0.2])


def hyperplane_rows(n, seed=0):
    """Sides of rows, their classes and their weights."""
    rng = np.random.default_rng(seed)
    return random_modes(rng, n, (100,)), rng.integers(0, 3, n), rng.uniform(0.2, 3, n)


def votes_by_hand(asked, modes, y, weight):
    K = reference.similarity(asked, modes)
    K /= K.max(axis=1, keepdims=True)
    counts = weight[:, None] * np.eye(3)[y]
    found = [np.tile(PRIOR, (len(K), 1))]
    for e in HYPERPLANE_SCALES:
        sums = reference.class_sums(K, counts, e) + COARSER_ROWS * found[-1]
        found.append(sums / sums.sum(axis=1, keepdims=True))
    return np.stack(found[1:])


def test_votes_by_hyperplanes_equal_their_definition():
    modes, y, weight = hyperplane_rows(90)
    asked, _, _ = hyperplane_rows(25, seed=1)
    votes = HyperplaneVotes.build(modes, y, weight, PRIOR)
    found = votes.proba_of(asked, Execution())
    assert_allclose(found, votes_by_hand(asked, modes, y, weight), rtol=1e-9)
    assert_allclose(found.sum(axis=2), 1.0, rtol=1e-12)
    assert list(votes.contradictions()) == []


def test_more_rows_vote_by_hyperplanes():
    modes, y, weight = hyperplane_rows(90)
    more, more_y, more_weight = hyperplane_rows(40, seed=2)
    asked, _, _ = hyperplane_rows(25, seed=1)
    votes = HyperplaneVotes.build(modes, y, weight, PRIOR)
    votes = votes.with_labels(more, more_y, more_weight)
    every = modes.append(more), np.r_[y, more_y], np.r_[weight, more_weight]
    assert_allclose(votes.proba_of(asked, Execution()), votes_by_hand(asked, *every), rtol=1e-9)
    assert_array_equal(votes.y[votes.place], np.r_[y, more_y])
    assert_array_equal(votes.bits[votes.place], modes.append(more).codes)


@pytest.mark.parametrize("rows", [[], [3], [0, 89, 90, 129], range(90, 130)], ids=str)
def test_votes_by_hyperplanes_without_some_rows(rows):
    rows = np.array(rows, dtype=int)
    modes, y, weight = hyperplane_rows(90)
    more, more_y, more_weight = hyperplane_rows(40, seed=2)
    asked, _, _ = hyperplane_rows(25, seed=1)
    votes = HyperplaneVotes.build(modes, y, weight, PRIOR)
    votes = votes.with_labels(more, more_y, more_weight)
    before = votes.proba_of(asked, Execution())
    rest = np.setdiff1d(np.arange(130), rows)
    left = modes.append(more)[rest], np.r_[y, more_y][rest], np.r_[weight, more_weight][rest]
    labels = np.r_[y, more_y][rows], np.r_[weight, more_weight][rows]
    found = votes.without(rows, *labels).proba_of(asked, Execution())
    assert_allclose(found, votes_by_hand(asked, *left), rtol=1e-9)
    assert_array_equal(votes.proba_of(asked, Execution()), before)  # a copy was changed


def test_votes_by_hyperplanes_without_all_rows_are_the_prior():
    modes, y, weight = hyperplane_rows(30)
    votes = HyperplaneVotes.build(modes, y, weight, PRIOR).without(np.arange(30), y, weight)
    assert_array_equal(votes.proba_of(modes, Execution()), np.tile(PRIOR, (3, 30, 1)))


def saved_votes(**changed):
    built = HyperplaneVotes.build(*hyperplane_rows(30), PRIOR)
    fields = ("bits", "n_planes", "y", "weight", "prior", "n_squares")
    return HyperplaneVotes.restore(**{name: getattr(built, name) for name in fields} | changed)


def test_votes_by_hyperplanes_from_a_file():
    modes, y, weight = hyperplane_rows(30)
    asked, _, _ = hyperplane_rows(25, seed=1)
    built, restored = HyperplaneVotes.build(modes, y, weight, PRIOR), saved_votes()
    assert list(restored.contradictions()) == []
    found = restored.proba_of(asked, Execution())
    assert_array_equal(found, built.proba_of(asked, Execution()))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"n_planes": 600}, "have other modes"),
        ({"bits": np.zeros((30, 3), dtype=np.uint64)}, "have other modes"),
        ({"y": np.full(30, 3)}, "have no classes"),
        ({"y": np.full(30, -1)}, "have no classes"),
        ({"y": np.arange(30)[::-1] // 15}, "not ordered"),
        ({"n_squares": np.empty(0, dtype=np.int64)}, "no exponents"),
        ({"n_squares": np.array([3, -1])}, "no exponents"),
        ({"n_squares": np.array([3, 300])}, "no exponents"),
        ({"n_squares": np.array([3, 3, 5])}, "no exponents"),
        ({"n_squares": np.array([3, 2**18, 7 - 2**63])}, "no exponents"),
    ],
)
def test_votes_by_hyperplanes_that_contradict_themselves(changed, message):
    (found,) = saved_votes(**changed).contradictions()
    assert message in found


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
    row_mode, y = np.zeros(51, dtype=int), np.r_[np.zeros(50, dtype=int), 1]
    evidence = LabelEvidence(None, counts, False, None, row_mode=row_mode)
    left = evidence.without(np.arange(51), y, np.r_[weight[::-1], 0.25])
    assert_array_equal(left.counts, [[0.0, 0.75]])


def test_normalize_gives_the_prior_where_there_is_no_mass():
    prior = np.array([0.3, 0.7])
    assert_allclose(normalize(np.array([[2.0, 6.0], [0.0, 0.0]]), prior), [[0.25, 0.75], prior])
