"""Reliability diagrams: the numbers by hand, and the picture shows the numbers."""

from __future__ import annotations

import numpy as np
import pytest

from polycal.metrics import expected_calibration_error
from polycal.plotting import ReliabilityDisplay
from polycal.plotting.reliability import wilson_interval
from tests.toys.plots import inside, plt


class Constant:
    """Answers one row of probabilities everywhere."""

    classes_ = np.array(["b", "c", "a"])  # unsorted on purpose

    def __init__(self, row):
        self.row = row

    def predict_proba(self, X):
        return np.tile(self.row, (len(X), 1))


# Confidences 0.9 (right), 0.7 (wrong), 0.7 (right), 0.5 (right: the edge closes bin 2 of 4)
Y = [0, 1, 1, 0]
P = [[0.9, 0.1], [0.7, 0.3], [0.3, 0.7], [0.5, 0.5]]


def test_reliability_by_hand():
    display = ReliabilityDisplay.from_predictions(Y, P, n_bins=4)
    np.testing.assert_array_equal(display.bin_edges, [0, 0.25, 0.5, 0.75, 1])
    np.testing.assert_array_equal(display.counts, [0, 1, 2, 1])
    np.testing.assert_allclose(display.confidence, [np.nan, 0.5, 0.7, 0.9])
    np.testing.assert_allclose(display.accuracy, [np.nan, 1, 0.5, 1])
    # (1/4) (1 * 0.5 + 2 * 0.2 + 1 * 0.1)
    assert display.ece == pytest.approx(0.25)
    assert display.ece == expected_calibration_error(Y, P, 4)


def test_wilson_by_hand():
    # 8 of 10: the interval of textbooks; 0 of 5 ends at z^2 / (n + z^2), z = 1.959964
    lower, upper = wilson_interval(np.array([0.8, 0.0, 1.0]), np.array([10.0, 5, 5]), 0.95)
    np.testing.assert_allclose(lower, [0.4901625, 0, 5 / 8.8414588], atol=1e-7)
    np.testing.assert_allclose(upper, [0.9433178, 3.8414588 / 8.8414588, 1], atol=1e-7)


def test_wilson_covers():
    rng = np.random.default_rng(0)
    hits = rng.binomial(40, 0.9, 4000)
    lower, upper = wilson_interval(hits / 40, np.full(4000, 40.0), 0.9)
    assert 0.87 < np.mean((lower <= 0.9) & (upper >= 0.9)) < 0.95


def test_reliability_weight_zero_is_no_row():
    weighted = ReliabilityDisplay.from_predictions(Y, P, n_bins=4, sample_weight=[1, 0, 1, 1])
    left_out = ReliabilityDisplay.from_predictions(
        np.delete(Y, 1), np.delete(P, 1, axis=0), n_bins=4
    )
    for key in ("counts", "confidence", "accuracy", "lower", "upper", "ece"):
        np.testing.assert_allclose(getattr(weighted, key), getattr(left_out, key))


def test_reliability_maps_labels():
    # "a" is column 2 of the model, whatever the alphabet says
    display = ReliabilityDisplay.from_estimator(
        Constant([0.1, 0.1, 0.8]), np.zeros((4, 1)), ["a", "a", "a", "c"], n_bins=5
    )
    assert display.name == "Constant"
    np.testing.assert_allclose(display.accuracy[3], 0.75)
    with pytest.raises(ValueError, match=r"it holds \['z'\]"):
        ReliabilityDisplay.from_estimator(Constant([1, 0, 0]), np.zeros((1, 1)), ["z"])


def test_reliability_plot():
    display = ReliabilityDisplay.from_predictions(Y, P, n_bins=4, name="toy")
    assert display.plot() is display
    bars = display.ax_.patches
    np.testing.assert_allclose([bar.get_height() for bar in bars], [1, 0.5, 1])
    np.testing.assert_allclose([bar.get_x() for bar in bars], [0.25, 0.5, 0.75])
    counts = [bar.get_height() for bar in display.ax_counts_.patches]
    np.testing.assert_array_equal(counts, [1, 2, 1])
    (errors,) = [c for c in display.ax_.containers if hasattr(c, "has_yerr")]
    np.testing.assert_allclose(errors[0].get_xdata(), [0.5, 0.7, 0.9])
    ends = np.array([segment[:, 1] for segment in errors[2][0].get_segments()])
    np.testing.assert_allclose(ends, np.stack([display.lower, display.upper], axis=1)[1:])
    assert "toy: ECE 0.250" in display.ax_.get_title()
    inside(display.figure_, ["toy", "confidence (", "rows", "perfect", "95 % interval"])


def test_reliability_in_given_axes():
    figure, axes = plt.subplots(1, 2, layout="constrained")
    display = ReliabilityDisplay.from_predictions(Y, P).plot(axes[1])
    assert display.ax_ is axes[1]
    assert display.figure_ is figure
    free = plt.figure().add_axes((0.2, 0.4, 0.7, 0.4))
    display.plot(free)
    assert display.ax_counts_.get_position().y1 < free.get_position().y0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"y": [0, 1, 2, 0]}, "y must hold a column"),
        ({"P": [[0.9, 0.3]] * 4}, "sum to 1"),
        ({"n_bins": 0}, "n_bins must be"),
        ({"level": 1}, "level must lie"),
    ],
)
def test_reliability_errors(change, words):
    with pytest.raises(ValueError, match=words):
        ReliabilityDisplay.from_predictions(**({"y": Y, "P": P} | change))
