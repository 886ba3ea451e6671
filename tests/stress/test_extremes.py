"""A few of the cases of stress/extremes.py."""

from __future__ import annotations

import numpy as np
import pytest

from polycal import GeodesicCalibrator
from stress import extremes, properties


@pytest.mark.slow
@pytest.mark.parametrize("name", ["weights, forest", "huge and denormal, forest"])
def test_extreme_data_keep_the_properties(name):
    assert extremes.check(name, 1) == ("good", "")


def test_classes_of_one_row_are_refused_with_advice():
    outcome, message = extremes.check("one row a class, forest", 0)
    assert outcome == "refused"
    assert "at least 2 are needed" in message


def test_sampled_votes_are_those_of_the_exact_search_within_their_error(monkeypatch):
    assert extremes.sampled_beside_exact(0)[0] == "good"
    monkeypatch.setattr(extremes, "ERRORS", 1.0)  # a third is beyond: they are not too wide
    assert extremes.sampled_beside_exact(0)[0] == "broken"


def test_a_model_that_is_wrong_would_be_found(monkeypatch):
    own = GeodesicCalibrator.predict_proba
    monkeypatch.setattr(
        GeodesicCalibrator, "predict_proba", lambda m, X: own(m, X) + np.eye(2)[[1]] * 1e-6
    )
    with pytest.raises(properties.BrokenError, match="no probabilities"):
        extremes.check("weights, forest", 0)
