"""The numbers of the report, for tables of every kind."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from polycal import GeodesicCalibrator, KernelDensityForest
from polycal.reporting.findings import Findings, _moved


def test_uneven_weights_count_as_fewer_rows(wine):
    _, X, y, _ = wine
    weight = np.where(np.arange(len(y)) % 3 == 0, 4.0, 1.0)
    model = KernelDensityForest(30, calibration="cv", random_state=0).fit(X, y, weight)
    found = Findings.of(model, X, y, None, 5, 0)
    assert found.n_calibration == pytest.approx(weight.sum() ** 2 / (weight**2).sum())


def test_similarity_of_euclidean_neighbours(wine):
    _, X, y, _ = wine
    model = KernelDensityForest(30, distance="euclidean", random_state=0).fit(X[::2], y[::2])
    rows = Findings.of(model, X[1::2], y[1::2], None, 100, 0).sets[0].detail
    shown = [row["near"][0]["similarity"] for row in rows]
    np.testing.assert_allclose(shown, model.explain(X[1::2]).similarity, rtol=1e-3)
    assert min(shown) < 1


def test_a_parent_that_refuses_in_its_own_way():
    def whole(X):
        if (np.round(X) != X).any():
            raise TypeError("whole numbers only")
        return X

    X = np.random.default_rng(0).integers(9, size=(120, 2)).astype(float)
    y = (X[:, 0] > 4).astype(int)
    parent = make_pipeline(FunctionTransformer(whole), RandomForestClassifier(20, random_state=0))
    found = Findings.of(GeodesicCalibrator(parent, random_state=0).fit(X, y), X, y, None, 5, 0)
    assert found.distance.endswith("other numbers: whole numbers only")


def test_moved_rows_keep_their_kind():
    picked, points = np.array([1, 0]), np.array([[7.0], [8.0]])
    rows = _moved(np.array([[1, 2], [3, 4]], dtype=np.float32), np.array([1]), points, picked)
    assert rows.dtype == np.float32
    assert rows.tolist() == [[3, 7], [1, 8]]
    table = _moved(pl.DataFrame({"a": [1, 2], "self": [3, 4]}), np.array([1]), points, picked)
    assert table.rows() == [(2, 7.0), (1, 8.0)]


def test_missing_values_of_every_kind():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": pd.array(rng.integers(9, size=200), dtype="Int64")})
    table["b"] = pd.Categorical(rng.choice(["u", "v"], 200))
    label = (table["a"] > 4).to_numpy().astype(int)
    table.loc[::5, "a"] = pd.NA
    table.loc[::5, "b"] = None
    parent = HistGradientBoostingClassifier(max_iter=5, random_state=0)
    model = GeodesicCalibrator(parent, random_state=0).fit(table, label)
    rows = Findings.of(model, table, label, None, 500, 0).sets[0].detail
    for row in rows[::5]:
        assert {f["value"] for f in row["features"]} == {"missing"}
    assert {f["value"] for f in rows[1]["features"]} == {str(v) for v in table.iloc[1]}


def test_images():
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    images = torch.rand(80, 1, 4, 4)
    label = (images.mean(dim=(1, 2, 3)) > 0.5).long().numpy()
    net = torch.nn.Sequential(
        torch.nn.Flatten(), torch.nn.Linear(16, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)
    )
    model = GeodesicCalibrator(net).fit(
        images[:40], label[:40], X_cal=images[40:], y_cal=label[40:]
    )
    found = Findings.of(model, images, label, None, 5, 0)
    assert found.distance == "The rows are no dense table, so there are no columns to move."
    flat = images.flatten(1)
    model = GeodesicCalibrator(net).fit(flat[:40], label[:40], X_cal=flat[40:], y_cal=label[40:])
    display = Findings.of(model, flat, label, None, 5, 0).distance
    assert display.confidence["polycal"][-1] == pytest.approx(model.priors_.max(), abs=0.01)


def test_methods_that_a_subclass_overrides_are_reported(wine):
    _, X, y, _ = wine

    class Shy(KernelDensityForest):
        def predict_proba(self, X):
            return 0.5 * super().predict_proba(X) + 0.5 / 3

    plain = KernelDensityForest(30, random_state=0).fit(X[::2], y[::2])
    shy = Shy(30, random_state=0).fit(X[::2], y[::2])
    found = [Findings.of(model, X[1::2], y[1::2], None, 5, 0) for model in (plain, shy)]
    np.testing.assert_allclose(found[1].sets[0].proba, 0.5 * found[0].sets[0].proba + 0.5 / 3)
    assert found[1].figure("polycal", "log_loss") != found[0].figure("polycal", "log_loss")
    assert found[1].figure("parent", "log_loss") == found[0].figure("parent", "log_loss")


def test_empty_rows_out_of_distribution_are_an_error(wine):
    _, X, y, _ = wine
    model = KernelDensityForest(30, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="OOD rows 'OOD' are empty"):
        Findings.of(model, X, y, X[:0], 5, 0)
