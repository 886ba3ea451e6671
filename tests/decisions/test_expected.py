"""Expected figures: closed forms, and intervals by simulation."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from polycal.decisions.expected import (
    FIGURES,
    Figure,
    beyond_chance,
    expected_confusion,
    expected_figures,
    expected_of_rows,
    realised_of_rows,
)
from polycal.decisions.rows import JudgedRows


def judged(P, y):
    n, even = len(y), np.ones(P.shape[1])
    return JudgedRows.with_prior(P, y, np.ones(n), np.arange(n), np.zeros(n, bool), even)


def test_mean_and_variance_are_those_over_all_labels():
    """Each label with its probability, summed by hand."""
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.ones(4) / 2, 50)
    P[0] = [1, 0, 0, 0]
    predicted = P.argmax(axis=1)
    found = np.stack([realised_of_rows(P, predicted, np.full(50, c)) for c in range(4)])
    mean = (found * P.T[:, None]).sum(axis=0)
    variance = (found**2 * P.T[:, None]).sum(axis=0) - mean**2
    ours = expected_of_rows(P, predicted)
    assert_allclose(ours[0], mean, atol=1e-12)
    assert_allclose(ours[1], variance, atol=1e-12)


def test_realised_figures():
    P = np.array([[0.7, 0.2, 0.1]])
    right, log_loss, brier = realised_of_rows(P, np.array([0]), np.array([1]))
    assert (right[0], log_loss[0]) == (0.0, pytest.approx(-np.log(0.2)))
    assert brier[0] == pytest.approx(0.49 + 0.64 + 0.01)


def labels(rng, true):
    return (rng.random((len(true), 1)) > true.cumsum(axis=1)).sum(axis=1)


def world(rng, n, strength=0.0):
    """Said and true probabilities; a shift makes unsure rows frequent."""
    logits = rng.normal(size=(n, 3)) * np.exp(-strength) * 2
    true = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    said = true**1.2 / (true**1.2).sum(axis=1, keepdims=True)  # a little too sure
    return said, labels(rng, true)


@pytest.mark.parametrize("strength", [0.0, 0.7])
@pytest.mark.parametrize("n", [60, 1000])
def test_intervals_hold_the_realised_figures(n, strength):
    rng = np.random.default_rng(4)
    inside, off, raw = np.zeros(3), [], []
    for _ in range(200):
        known, (P, y) = judged(*world(rng, 800)), world(rng, n, strength)
        predicted = P.argmax(axis=1)
        figures = expected_figures(P, predicted, known, 0.9)
        assert tuple(figures) == FIGURES
        realised = realised_of_rows(P, predicted, y).mean(axis=1)
        pairs = zip(figures.values(), realised, strict=True)
        inside += [f.low <= value <= f.high for f, value in pairs]
        off.append(figures["accuracy"].value - realised[0])
        raw.append(P.max(axis=1).mean() - realised[0])
    assert (inside / 200 > 0.9 - 0.09).all()  # where the model is too sure on purpose
    assert (inside / 200 < 0.99).all()
    # What the labelled rows show of too much confidence is taken off, part of it.
    assert abs(np.mean(off)) < 0.75 * abs(np.mean(raw))


def test_a_model_that_was_never_wrong_is_not_quite_sure():
    P = np.tile([1.0, 0.0], (500, 1))
    known = judged(P, np.zeros(500, int))
    figure = expected_figures(P, np.zeros(500, int), known, 0.95)["accuracy"]
    assert (figure.value, figure.high) == (1.0, 1.0)
    assert 0.99 < figure.low < 1.0


def test_no_labelled_row_is_as_sure():
    """Nothing is known of such rows: the probabilities stand, and may be half wrong."""
    known = judged(np.tile([0.5, 0.5], (40, 1)), np.tile([0, 1], 20))
    P = np.tile([0.9, 0.1], (10_000, 1))
    figure = expected_figures(P, np.zeros(10_000, int), known, 0.95)["accuracy"]
    assert figure.value == pytest.approx(0.9)
    assert figure.deviation == pytest.approx(0.5, abs=1e-3)
    assert figure.low == 0.0


def test_the_confusion_matrix():
    P = np.array([[0.8, 0.2], [0.6, 0.4], [0.1, 0.9]])
    counts, low, high = expected_confusion(P, P.argmax(axis=1), 0.95)
    assert_allclose(counts, [[1.4, 0.1], [0.6, 0.9]])
    reach = 1.959964 * np.sqrt([[0.16 + 0.24, 0.09], [0.16 + 0.24, 0.09]])
    assert_allclose(low, np.maximum(counts - reach, 0), atol=1e-6)
    assert_allclose(high, np.minimum(counts + reach, [2, 1]), atol=1e-6)


def test_chance_of_a_difference():
    figure = Figure(0.8, 0.1, 0.6, 1.0)
    assert figure.p_value(0.8) == 1.0
    assert figure.p_value(0.6) == pytest.approx(0.0455, abs=1e-4)
    sure = Figure(1.0, 0.0, 1.0, 1.0)
    assert (sure.p_value(1.0), sure.p_value(0.9)) == (1.0, 0.0)
    figures = {"accuracy": figure, "brier": Figure(0.3, 0.1, 0.1, 0.5)}
    assert beyond_chance(figures, {"accuracy": 0.6, "brier": 0.3}) == pytest.approx(0.091, abs=1e-3)
    assert beyond_chance(figures, {"accuracy": 0.8, "brier": 0.3}) == 1.0
