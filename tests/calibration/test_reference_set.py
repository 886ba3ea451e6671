"""The rows that new ones are compared with."""

from __future__ import annotations

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal

from polycal.calibration import reference_set
from polycal.calibration.reference_set import ReferenceSet, ReferenceSettings
from polycal.core.execution import Execution
from polycal.core.neighbours import Neighbours
from polycal.core.reading import ActivationModes, LabelledRows, Reading
from polycal.gate.bandwidth import GeodesicBandwidth
from polycal.kernels import Search
from polycal.posterior.votes import PolytopeVotes, QueryVotes


def test_own_polytope_is_dropped_or_else_the_last():
    near = Neighbours(np.array([[0.9, 0.8, 0.7]] * 3), np.array([[4, 2, 1], [2, 4, 1], [2, 1, 5]]))
    left = reference_set._without_own(near, np.array([4, 4, -1]), 2)
    assert_array_equal(left.index, [[2, 1], [2, 1], [2, 1]])
    assert_allclose(left.similarity, [[0.8, 0.7], [0.9, 0.7], [0.9, 0.8]])
    few = reference_set._without_own(near, np.array([4, 4, -1]), 3)
    assert_array_equal(few.index, [[2, 1, -1], [2, 1, -1], [2, 1, 5]])
    assert_array_equal(few.similarity[:2, 2], [0, 0])


EXACT, SAMPLED = (False, False, 2.0**30), (True, True, 2.0**30)


def build(votes=QueryVotes, n=80, seed=0, search=EXACT):
    """A reference set of random leaves, with the rows that it is made of."""
    rng = np.random.default_rng(seed)
    modes = ActivationModes.from_leaves(rng.integers(0, 3, (n, 4)))
    X, y = rng.normal(size=(n, 2)), np.arange(n) % 2
    reading = Reading(modes, np.full((n, 2), 0.5), X)
    rows = LabelledRows(X, y, rng.uniform(0.5, 2, n), np.arange(n) + 1000, None, reading)
    settings = ReferenceSettings(
        votes, GeodesicBandwidth(1e-6), False, 5, True, False, None, 2, None, 64, 0, *search
    )
    return ReferenceSet.build(reading, rows, settings, Execution()), rows


def test_members_are_the_rows_of_a_polytope_by_the_users_numbers():
    reference, rows = build()
    members = reference.members(np.array([3, 0, 3]))
    assert sorted(members) == [0, 3]
    for polytope, ids in members.items():
        code = reference.polytopes.modes.codes[polytope]
        same = (rows.reading.modes.codes == code).all(axis=1)
        assert_array_equal(ids, rows.ids[same])


def test_more_labels_are_evidence_and_no_neighbours_and_can_be_taken_back():
    reference, rows = build()
    _, held = build(seed=1)
    more = reference.with_labels(held.reading, held, Execution())
    known, evidence = reference.votes.evidence, more.votes.evidence
    stored = evidence.row_mode[len(rows) :]
    assert (stored >= len(reference.polytopes)).all()
    assert_array_equal(evidence.modes.codes[stored], held.reading.modes.codes)
    assert_allclose(evidence.counts.sum(), rows.weight.sum() + held.weight.sum())
    assert more.index is evidence.index
    search = Search(more.density, 5, more.fill)
    modes, X = held.reading.modes, held.X
    before, after = (r.index.nearest(modes, X, search, Execution()) for r in (reference, more))
    assert_array_equal(after.index, before.index)
    assert_array_equal(after.similarity, before.similarity)
    without = more.without_labels(len(rows) + np.arange(len(held)), held)
    left = without.votes.evidence
    assert_array_equal(left.counts[: len(known.counts)], known.counts)
    assert_array_equal(left.counts[len(known.counts) :], 0.0)
    assert (evidence.counts[len(known.counts) :].sum(axis=1) > 0).all()  # a copy was changed
    planes = more.planes.modes(X, Execution())
    place = more.hyperplanes.place[len(rows) :]
    assert_array_equal(more.hyperplanes.bits[place], planes.codes)
    assert_allclose(more.hyperplanes.weight.sum(), rows.weight.sum() + held.weight.sum())
    assert_allclose(
        without.hyperplanes.proba_of(planes, Execution()),
        reference.hyperplanes.proba_of(planes, Execution()),
    )


def test_widths_from_all_rows_are_the_widths():
    reference, rows = build()
    again = reference.with_widths_from(
        rows.reading, rows, reference.row_polytope, GeodesicBandwidth(1e-6), Execution()
    )
    assert_allclose(again.density.precision, reference.density.precision, rtol=1e-12)
    assert_array_equal(again.density.mean, reference.density.mean)


def test_a_gamma_gives_the_papers_ratios_the_mass_of_the_prior():
    prior = np.array([0.3, 0.7])
    reference, _ = build(PolytopeVotes)
    assert reference.with_gamma(None, prior, Execution()) is reference
    at = reference.with_gamma(0.5, prior, Execution())
    assert_allclose(np.exp(at.density.log_mass), at.votes.ratios @ prior)
    assert_allclose(np.exp(at.density.log_mass).sum(), 1)
    by_query, _ = build(QueryVotes)
    assert by_query.with_gamma(0.5, prior, Execution()) is by_query


def test_ranges_of_a_part_are_those_of_the_other_rows():
    """Out of bag, a row must not have widened the range that it is judged by."""
    reference, rows = build()
    highest = np.argmax(rows.X[:, 0])
    others = np.delete(np.arange(len(rows)), highest)
    known = rows.take(others), reference.row_polytope[others], GeodesicBandwidth(1e-6), Execution()
    partial = reference.with_widths_from(rows.reading.take(others), *known)
    assert reference.density.ranges.high[0] == rows.X[highest, 0]
    assert partial.density.ranges.high[0] == np.sort(rows.X[:, 0])[-2]
    first = np.maximum(rows.X, 0) * [1.0, 0.0]
    assert reference.density.beyond(first).max() == 0
    assert partial.density.beyond(first).argmax() == highest


def test_sampled_labels_are_evidence_and_can_be_taken_back():
    reference, rows = build(search=SAMPLED)
    _, held = build(seed=1)
    assert reference.search == "sampled"
    assert list(reference.sampled) == ["kernel", "hyperplanes"]
    more = reference.with_labels(held.reading, held, Execution())
    assert more.votes.evidence.index.n_candidates == len(reference.polytopes)
    without = more.without_labels(len(rows) + np.arange(len(held)), held)
    modes, planes = held.reading.modes, more.planes.modes(held.X, Execution())
    for found, expected in ((without, reference), (more, more.with_tables())):
        by_modes = [r.votes.proba_of(modes, Execution()) for r in (found, expected)]
        by_planes = [r.hyperplanes.proba_of(planes, Execution()) for r in (found, expected)]
        assert_allclose(*by_modes, atol=1e-9)
        assert_allclose(*by_planes, atol=1e-9)
    tables = more.with_tables().votes.evidence.tables
    assert tables is more.sampled["kernel"]
    more.forget_tables()
    again = more.sampled["kernel"]
    assert again is not tables
    assert_array_equal(again.value, tables.value)
