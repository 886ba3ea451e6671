"""A few of the cases of stress/forge.py."""

from __future__ import annotations

import numpy as np
import pytest

import polycal
from stress import forge


@pytest.mark.parametrize("kind", ["forest", "network", "boosting"])
def test_forged_files_are_refused_or_answer_probabilities(kind):
    tally = forge.run(kind, n_cases=25, seed=2)
    assert not tally.failures
    assert tally.counts["refused"] > 10


def test_a_model_that_answers_nonsense_would_be_found(tmp_path, monkeypatch):
    path = tmp_path / "m.polycal"
    X = forge.make("forest", path)
    expected = polycal.load(path).predict_proba(X)
    assert forge.judge(path, X, expected) == ("same answers", "")
    assert forge.judge(path, X, expected + 1) == ("other answers", "")

    def nonsense(alpha, log_posterior, prior):
        return np.exp(log_posterior) * 1.001

    monkeypatch.setattr("polycal.calibration.fitted_model.mixture", nonsense)
    assert forge.judge(path, X, expected)[0] == "invalid"
    path.write_bytes(b"")
    assert forge.judge(path, X, expected)[0] == "refused"
