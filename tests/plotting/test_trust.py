"""Histograms of trust: the numbers by hand, and the picture shows the numbers."""

from __future__ import annotations

import numpy as np
import pytest

from polycal.plotting import TrustDisplay
from tests.toys.plots import Slope, inside


def test_trust_by_hand():
    # Edges 0.25, 0.5, 0.75: each belongs to the bin that it closes; 0 to the first
    display = TrustDisplay.from_predictions([1.0, 0.5, 0.8, 0.75], [0.0, 0.25, 0.8], n_bins=4)
    np.testing.assert_allclose(display.id_share, [0, 0.25, 0.25, 0.5])
    np.testing.assert_allclose(display.ood_share, [2 / 3, 0, 0, 1 / 3])
    assert display.id_trusted == 0.75  # 0.5 is not above 1/2
    assert display.ood_trusted == pytest.approx(1 / 3)
    # 12 pairs: 8 above the two low ones; against 0.8: 1.0 wins, 0.8 ties
    assert display.auroc == pytest.approx(9.5 / 12)


def test_trust_plot():
    display = TrustDisplay.from_predictions([1.0, 0.5, 0.8, 0.75], [0.0, 0.25, 0.8], n_bins=4)
    assert display.plot() is display
    outside, inner = display.ax_.containers
    np.testing.assert_allclose([bar.get_height() for bar in outside], display.ood_share)
    np.testing.assert_allclose([bar.get_height() for bar in inner], display.id_share)
    np.testing.assert_allclose([bar.get_x() for bar in inner], [0.125, 0.375, 0.625, 0.875])
    assert outside[0].get_hatch() != inner[0].get_hatch()
    labels = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert labels[-1] == "AUROC 0.792"
    inside(display.figure_, ["in-distribution weight", "share", "ID (4 rows, 75% above 0.5)"])


def test_trust_of_an_estimator(plane):
    X, _, model = plane
    display = TrustDisplay.from_estimator(model, X, X + 100)
    assert display.ood_share[0] == 1
    assert display.auroc > 0.95
    assert display.name == "GeodesicCalibrator"


def test_trust_errors(plane):
    X, _, model = plane
    with pytest.raises(ValueError, match="X_ood must hold at least one row"):
        TrustDisplay.from_estimator(model, X, X[:0])
    with pytest.raises(ValueError, match="ood_scores must hold at least one"):
        TrustDisplay.from_predictions([1.0], [])
    with pytest.raises(ValueError, match="id_scores must lie between 0 and 1"):
        TrustDisplay.from_predictions([-3.0], [0.0])
    with pytest.raises(TypeError, match="method in_distribution; Slope has none"):
        TrustDisplay.from_estimator(Slope(), X, X)
