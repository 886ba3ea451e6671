"""Checks of batches by a fitted model."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingClassifier

from polycal import GeodesicCalibrator
from tests.toys.models import small_forest


@pytest.mark.parametrize("plan", ["holdout", "oob"])
def test_a_shift_is_seen_with_its_rows_and_features(plan, model, out_of_bag, shifted):
    found = (model if plan == "holdout" else out_of_bag).check(shifted)
    assert found.alarm
    assert found.p_value <= 0.01
    assert found.interval[0] > 0.05
    assert abs(found.share_new - 0.15) < 0.05
    assert found.selected[:45].mean() > 0.8
    assert found.selected[45:].sum() <= 0.2 * found.selected.sum()
    assert {f.name for f in found.features[:2]} == {"x0", "x1"}
    assert found.features[0].distance_selected > 0.5
    assert ("approximately" in found.guarantee) == (plan == "oob")


def test_no_shift(model, rows):
    found = model.check(rows[2][300:800])
    assert not found.alarm
    assert found.interval[0] < 0.02
    assert found.size < 0.2
    assert len(found.row_p_values) == 500
    assert np.isnan(found.features[0].distance_selected) == (not found.selected.any())


def test_an_alarm_needs_a_size(model, shifted):
    found = model.check(shifted, smallest=0.5)
    assert not found.alarm
    assert found.p_value <= 0.01
    assert found.size < 0.5


@pytest.mark.slow
@pytest.mark.parametrize("plan", ["holdout", "oob"])
def test_alarms_without_a_shift(plan):
    """Over calibration sets, at most the level of the batches; each model checks several."""
    alarms, n = [], 0
    for seed in range(8):
        X, y = make_classification(1000, n_features=4, n_redundant=0, random_state=seed)
        parent = small_forest(max_depth=5)
        fitted = GeodesicCalibrator(parent, calibration=plan, n_hyperplanes=64, random_state=seed)
        fitted.fit(X[:400], y[:400])
        for k in range(4):
            batch = X[400 + 150 * k : 550 + 150 * k]
            alarms.append(fitted.check(batch, level=0.1, random_state=k).alarm)
            n += 1
    assert np.mean(alarms) <= 0.1 + 3 * np.sqrt(0.1 * 0.9 / n)


def test_categories_and_missing_values():
    rng = np.random.default_rng(0)
    n = 900
    table = pd.DataFrame(
        {
            "size": rng.normal(size=n),
            "color": pd.Categorical(rng.choice(["red", "blue"], n), ["red", "blue", "new"]),
        }
    )
    table.loc[rng.random(n) < 0.1, "size"] = np.nan
    y = (table["size"].fillna(0) + (table["color"] == "red") + rng.normal(size=n) > 0.5).astype(int)
    parent = HistGradientBoostingClassifier(max_iter=20, random_state=0)
    model = GeodesicCalibrator(parent, calibration="holdout", random_state=0)
    model.fit(table[:600], y[:600])
    assert not model.check(table[600:]).alarm
    strange = table[600:].copy()
    strange.loc[strange.index[:40], "color"] = "new"
    found = model.check(strange)
    assert found.alarm
    assert found.features[0].name == "color"
    gone = table[600:].copy()
    gone.loc[gone.index[:100], "size"] = np.nan
    assert model.check(gone).features[0].name == "size"


def test_the_same_seed_gives_the_same_answer_and_the_result_is_plain(model, shifted):
    one, two = model.check(shifted), model.check(shifted)
    assert one.to_dict() == two.to_dict()
    np.testing.assert_array_equal(one.row_p_values, two.row_p_values)
    assert json.loads(json.dumps(one.to_dict())) == one.to_dict()
    assert "The batch has shifted" in repr(one)
    assert "<table>" in one._repr_html_()


@pytest.mark.parametrize("n", [1, 2, 5])
def test_very_small_batches(model, rows, n):
    assert not model.check(rows[2][:n]).alarm
    assert model.check(rows[2][:n] + 100).share_new >= 0


def test_features_that_go_together_no_longer():
    """Each feature alone is as it was, and so are the means; log f and novelty see it."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1600, 1)) + 0.3 * rng.normal(size=(1600, 4))
    y = (X.sum(axis=1) + rng.normal(size=1600) > 0).astype(int)
    model = GeodesicCalibrator(small_forest(), calibration="holdout", random_state=0)
    model.fit(X[:1000], y[:1000])
    new = X[1000:].copy()
    assert not model.check(new).alarm
    new[:150] = np.stack([rng.permutation(column) for column in new.T], axis=1)[:150]
    found = model.check(new)
    assert found.alarm
    assert found.parts["columns"] > 0.01


def test_a_feature_without_any_value():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(700, 3))
    X[:, 1] = np.nan
    y = (X[:, 0] > 0).astype(int)
    parent = HistGradientBoostingClassifier(max_iter=5, random_state=0)
    model = GeodesicCalibrator(parent, calibration="holdout", random_state=0)
    model.fit(X[:500], y[:500])
    assert not model.check(X[500:]).alarm
    assert model.check(rng.normal(size=(100, 3))).features[0].name == "x1"
