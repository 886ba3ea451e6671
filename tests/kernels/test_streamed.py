"""Stored modes of a stream are found at the scale that suits them, beside sums of all rows."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from polycal.core.reading import ActivationModes
from polycal.kernels import PathTables, Sampling, StreamedTables, StreamTables
from polycal.kernels.streamed import scales_to_find
from tests.toys.kernels import EXECUTION

RNG = np.random.default_rng(0)
N, N_TREES, N_CENTRES = 2000, 60, 40
CENTRES = RNG.integers(0, 30, (N_CENTRES, N_TREES))
OWNER = RNG.integers(0, N_CENTRES, N + 100)


def near_centres(share):
    """Leaves of rows that agree with their centre in about this share of the trees."""
    moved = RNG.random((N + 100, N_TREES)) > share
    return np.where(moved, RNG.integers(0, 30, moved.shape), CENTRES[OWNER])


def tables(leaves, n_classes=2):
    modes = ActivationModes.from_leaves(leaves)
    how = Sampling(np.array([2, 8, 32]), 64, 2e7, 0)
    sums = StreamTables.empty(modes, n_classes, 1, how)
    sums.add(modes[:N], OWNER[:N] % 2, np.ones(N), EXECUTION)
    return sums, modes[:N], modes[N:]


def test_the_scale_follows_how_much_modes_have_in_common():
    finest = []
    for share in (0.0, 0.5, 0.95, 1.0):
        sums, stored, _ = tables(near_centres(share))
        scales = scales_to_find(stored, sums, EXECUTION)
        assert_array_equal(scales, np.sort(scales[-1] // 4 ** np.arange(len(scales))))
        finest.append(scales[-1])
    assert finest == sorted(finest)
    assert finest[0] <= 2
    assert finest[-1] == 32


@pytest.mark.parametrize("share", [0.3, 0.6, 0.9])
def test_the_nearest_stored_modes_are_found_at_any_share(share):
    sums, stored, queries = tables(near_centres(share))
    streamed = StreamedTables.of(sums, stored, 1e8, 1.0, EXECUTION)
    K = (queries.codes[:, None] == stored.codes[None]).mean(axis=2)
    best = np.sort(K, axis=1)[:, -5:].mean()

    def share_found(ids):
        near = np.where(ids >= 0, np.take_along_axis(K, ids, axis=1), 0.0)
        return np.sort(near, axis=1)[:, -5:].mean() / best

    as_sums = PathTables.along(sums.draws, sums.salt, sums.scales, 1)
    as_sums = as_sums.of(stored, np.eye(2)[OWNER[:N] % 2], N, EXECUTION)
    found = share_found(streamed.look_up(queries, 2, 32)[1])
    assert found > 0.75
    assert found > share_found(as_sums.look_up(queries, 2, 32)[1]) - 0.01
    # A mode that is stored is found itself.
    own = streamed.look_up(stored[:50], 2, 32)[1]
    assert np.mean([i in row for i, row in enumerate(own)]) > 0.9


def test_sums_are_those_of_all_rows():
    sums, stored, queries = tables(near_centres(0.8))
    streamed = StreamedTables.of(sums, stored[:100], 1e8, 20.0, EXECUTION)
    assert_array_equal(streamed.look_up(queries, 2, 5)[0], sums.look_up(queries))
    assert streamed.look_up(queries, 2, 0)[1].shape == (100, 0)
    assert list(streamed.contradictions()) == []
    assert list(streamed.contradictions_with(stored[:100], 2)) == []
    assert len(streamed.near.content) == 0  # a bucket has one mode, and no sums


def test_little_memory_finds_fewer_modes():
    sums, stored, queries = tables(near_centres(0.8))
    streamed = StreamedTables.of(sums, stored, 2e5, 1.0, EXECUTION)
    assert streamed.near.nbytes < 2.2e5
    assert streamed.near.left_out_bits.any()
    assert (streamed.look_up(queries, 2, 5)[1] >= 0).mean() > 0.5
