"""The method ``check``: what it takes, and what it refuses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from polycal import BatchCheck, KernelDensityForest


@pytest.fixture(scope="module")
def model(blobs):
    X, y = blobs
    return KernelDensityForest(20, calibration="holdout", random_state=0).fit(X[:400], y[:400])


def test_check(model, blobs):
    found = model.check(blobs[0][400:])
    assert isinstance(found, BatchCheck)
    assert not found.alarm
    assert found.n_rows == 200
    assert [f.name for f in model.check(blobs[0][400:] + 9).features]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"level": 0}, "level must lie strictly between 0 and 1; got 0"),
        ({"level": 0.001}, "level must be at least 0.002, the smallest p-value"),
        ({"level": 10**400}, "level must lie strictly between 0 and 1"),
        ({"false_discovery": 1}, "false_discovery must lie strictly"),
        ({"smallest": -0.1}, "smallest must lie between 0 and 1"),
        ({"random_state": None}, "random_state must be an integer"),
    ],
)
def test_bad_options(model, blobs, options, message):
    with pytest.raises(ValueError, match=message):
        model.check(blobs[0][400:], **options)


def test_models_without_kept_rows(model, blobs):
    old = KernelDensityForest()
    old.__dict__.update(vars(model))
    old.model_ = replace(model.model_, kept=None)
    with pytest.raises(ValueError, match="did not keep its calibration rows.*Fit it again"):
        old.check(blobs[0])


def test_before_the_fit():
    with pytest.raises(NotFittedError):
        KernelDensityForest().check(np.zeros((3, 5)))
