"""The report: its rows are the model's answers, and its file is complete or absent."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_iris
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import polycal.reporting as report_module
from polycal import GeodesicCalibrator, KernelDensityForest, report
from polycal.reporting.findings import Findings
from tests.toys.reports import SECTIONS, embedded


def test_rows_are_what_the_model_says(wine, page_path):
    model, X, y, X_ood = wine
    data = embedded(page_path)
    assert data["classes"] == [str(c) for c in model.classes_]
    assert [r["set"] for r in data["rows"]] == ["test"] * len(X) + ["OOD"] * len(X_ood)
    P = np.concatenate([model.predict_proba(X), model.predict_proba(X_ood)])
    parent = np.concatenate(
        [model.estimator_.predict_proba(X), model.estimator_.predict_proba(X_ood)]
    )
    np.testing.assert_allclose([r["proba"] for r in data["rows"]], P, atol=5e-5)
    np.testing.assert_allclose([r["parent"] for r in data["rows"]], parent, atol=5e-5)
    labels = [None if r["label"] is None else data["classes"][r["label"]] for r in data["rows"]]
    assert labels == [*y, *[None] * len(X_ood)]
    why = model.explain(X)
    for i, row in enumerate(data["rows"][: len(X)]):
        assert row["verdict"] == why.verdict[i]
        assert row["weight"] == pytest.approx(why.weight[i], rel=1e-3)
        assert row["p"] == pytest.approx(why.p_value[i], rel=1e-3)
        assert row["near"][0]["rows"] == why.rows[i].tolist()[:10]
        names, surprise = why.top_features(5)
        assert [f["name"] for f in row["features"]] == names[i].tolist()
        np.testing.assert_allclose([f["surprise"] for f in row["features"]], surprise[i], rtol=1e-3)
        assert float(row["features"][0]["value"]) == pytest.approx(X.iloc[i][names[i, 0]], rel=1e-3)


def test_at_most_so_many_rows(wine, tmp_path):
    model, X, y, _ = wine
    rows = embedded(report(model, X, y, path=tmp_path / "few.html", max_rows=10))["rows"]
    assert len(rows) == 10
    least = np.argsort(model.score_samples(X), kind="stable")[:5]
    assert set(least) <= {r["row"] for r in rows}


def test_prediction_where_all_classes_tie(tmp_path):
    """With equal priors the prediction far away is the posterior's, as that of ``predict``."""
    X, y = load_iris(return_X_y=True)
    model = KernelDensityForest(30, random_state=0).fit(X, y)
    far = X * [1000, 1, 1, 1]
    label = model.predict(far)
    rows = embedded(report(model, far, label, path=tmp_path / "r.html"))["rows"]
    assert len(set(label)) > 1
    assert [row["prediction"] for row in rows] == [row["label"] for row in rows]


def test_without_other_rows(wine, tmp_path):
    model, X, y, _ = wine
    text = report(model, X, y, path=str(tmp_path / "r.html")).read_text("utf-8")
    assert [s for s in SECTIONS if f'<section id="{s}">' in text] == [
        s for s in SECTIONS if s != "outside"
    ]


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_categories_and_missing_values(kind, tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"age": rng.normal(50, 10, 300), "visits": rng.integers(9, size=300)})
    table["ward"] = pd.Categorical(rng.choice(["A", "B"], 300))
    table.loc[::10, "age"] = np.nan
    label = (table["visits"] > 4).astype(int).to_numpy()
    if kind == "polars":
        table = pl.DataFrame(
            {
                "age": table["age"].to_numpy(),
                "visits": table["visits"].to_numpy(),
                "ward": pl.Series(table["ward"].astype(str).tolist(), dtype=pl.Categorical),
            }
        )
    parent = HistGradientBoostingClassifier(max_iter=10, random_state=0)
    model = GeodesicCalibrator(parent, random_state=0).fit(table[:200], label[:200])
    found = Findings.of(model, table[200:], label[200:], None, 100, 0)
    assert found.distance.confidence["polycal"][-1] == pytest.approx(found.priors.max(), abs=0.01)
    path = report(model, table[200:], label[200:], path=tmp_path / "r.html")
    row = embedded(path)["rows"][0]  # its age is missing
    values = {f["name"]: f["value"] for f in row["features"]}
    assert values["age"] == "missing"
    assert values["ward"] in "AB"


def test_an_encoder_that_refuses_other_values(tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"kind": rng.integers(3, size=200), "size": rng.normal(size=200)})
    label = (table["size"] > 0).astype(int)
    encode = make_column_transformer((OneHotEncoder(), ["kind"]), remainder="passthrough")
    parent = make_pipeline(encode, RandomForestClassifier(20, random_state=0))
    model = GeodesicCalibrator(parent, random_state=0).fit(table, label)
    found = Findings.of(model, table, label, None, 5, 0)
    assert "refuses rows with other numbers" in found.distance
    text = report(model, table, label, path=tmp_path / "r.html").read_text("utf-8")
    assert "Not tried." in text


def test_bad_input(wine, tmp_path):
    model, X, y, _ = wine
    with pytest.raises(TypeError, match="fitted polycal estimator; got RandomForestClassifier"):
        report(RandomForestClassifier(), X, y, path=tmp_path / "r.html")
    with pytest.raises(FileNotFoundError, match="there is no such folder"):
        report(model, X, y, path=tmp_path / "no" / "r.html")
    with pytest.raises(NotFittedError):
        report(KernelDensityForest(), X, y, path=tmp_path / "r.html")
    with pytest.raises(IsADirectoryError, match="add a name for the file"):
        report(model, X, y, path=tmp_path)
    with pytest.raises(ValueError, match="path is empty"):
        report(model, X, y, path="")
    with pytest.raises(ValueError, match="max_rows"):
        report(model, X, y, path=tmp_path / "r.html", max_rows=0)
    with pytest.raises(ValueError, match="four"):
        report(model, X, ["four"] * len(X), path=tmp_path / "r.html")
    assert list(tmp_path.iterdir()) == []


def test_an_older_file_survives_a_crash(wine, tmp_path, monkeypatch):
    model, X, y, _ = wine
    path = tmp_path / "r.html"
    path.write_text("older")

    def crash(_):
        raise OSError("disk full")

    monkeypatch.setattr(report_module.os, "fsync", crash)
    with pytest.raises(OSError, match="disk full"):
        report(model, X, y, path=path)
    assert path.read_text() == "older"
    assert list(tmp_path.iterdir()) == [path]
