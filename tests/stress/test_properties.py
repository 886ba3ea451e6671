"""A few of the cases of stress/properties.py."""

from __future__ import annotations

import numpy as np
import pytest

from stress import properties

N_CASES = 8


@pytest.mark.slow
def test_models_of_hostile_data_keep_their_properties():
    tally = properties.run(N_CASES, seed=0)
    assert not tally.failures
    assert sum(tally.counts.values()) == N_CASES
    assert tally.counts["good"] > N_CASES / 3


CASE = properties.Case(
    "tree", ("telling", "normal"), 60, 2, "balanced", None, "float64", False, (), 0
)


@pytest.fixture(scope="module")
def fitted():
    X, y, _ = CASE.data()
    return CASE.model().fit(X, y), X


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda P, X: P * np.nan, "not finite"),
        (lambda P, X: 1.01 * P, "no probabilities"),
        (lambda P, X: np.where(len(X) == 1, P[:, ::-1], P), "one row: another answer"),
        (lambda P, X: np.where(abs(X).max() > 1e6, P[:, ::-1] ** 0 * [0.9, 0.1], P), "far rows"),
    ],
)
def test_a_broken_property_would_be_found(change, what, fitted, monkeypatch):
    model, X = fitted
    own = type(model).predict_proba
    monkeypatch.setattr(type(model), "predict_proba", lambda m, rows: change(own(m, rows), rows))
    with pytest.raises(properties.BrokenError, match=what):
        properties._check_answers(CASE, model, X)


def test_errors_and_warnings_would_be_found(monkeypatch):
    def crash(case):
        raise KeyError("x")

    monkeypatch.setattr(properties, "check", crash)
    assert properties.outcome(CASE) == ("wrong error", "KeyError('x')")
