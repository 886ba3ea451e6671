"""The rows that a batch is compared with."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from polycal.monitoring.sides import LEAST_KNOWN, Sides, column_sources


def test_held_out_rows_are_known_and_fit_rows_are_learned_from(model):
    sides = Sides.of(model.model_, 100, np.random.default_rng(0))
    kept = model.model_.kept
    assert sides.exact
    assert len(sides.known) == len(kept.X) == 300
    assert len(sides.reference) == len(kept.X_fit) == 700
    np.testing.assert_allclose(np.sort(sides.known[:, -1]), np.sort(kept.log_f), rtol=1e-6)
    assert sides.known.shape[1] == 7
    assert not sides.is_symbol.any()


def test_training_rows_are_on_one_side_each(out_of_bag):
    sides = Sides.of(out_of_bag.model_, 100, np.random.default_rng(0))
    assert not sides.exact
    known = {tuple(row) for row in sides.known}
    assert len(known) == 666
    assert not known & {tuple(row) for row in sides.reference}


def test_a_small_batch_is_compared_with_some_of_many_rows(model):
    kept = model.model_.kept
    many = np.tile(np.arange(300), 10)
    kept = replace(
        kept,
        **{name: getattr(kept, name)[many] for name in ("log_f", "y", "weight", "X")},
        group=np.arange(3000),
        probabilities=kept.probabilities[many],
    )
    sides = Sides.of(replace(model.model_, kept=kept), 10, np.random.default_rng(0))
    assert len(sides.known) == LEAST_KNOWN
    assert len(sides.reference) == 700 + 2000


def test_too_few_rows_are_an_error(model):
    kept = model.model_.kept
    kept = replace(kept, group=np.zeros(300, dtype=int))
    with pytest.raises(ValueError, match="1 independent calibration rows .* 20 or more"):
        Sides.of(replace(model.model_, kept=kept), 10, np.random.default_rng(0))


def test_columns_come_from_features(model):
    assert column_sources(model.model_).tolist() == [0, 1, 2, 3, 4, 5]
