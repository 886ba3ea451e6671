"""Values as people read them: numbers, categories, and codes that a Pipeline has made of them."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder

from polycal import GeodesicCalibrator
from polycal.reporting.findings import Findings
from polycal.reporting.values import MISSING, date_text, decoded_levels, number_text


def test_numbers_as_people_read_them():
    shown = [number_text(v) for v in (127_432.2, -55_060.0, 1e9, 1e13, 0.00001234, 12.3456, np.nan)]
    assert shown == ["127,400", "-55,060", "1,000,000,000", "1e+13", "1.234e-05", "12.35", MISSING]


def test_a_category_that_was_never_seen_is_named():
    rng = np.random.default_rng(0)
    city = pd.Categorical(
        rng.choice(["Oslo", "Bergen"], 200), categories=["Oslo", "Bergen", "Bonn"]
    )
    X = pd.DataFrame({"city": city, "age": rng.normal(size=200)})
    y = (X["city"] == "Oslo").to_numpy() ^ (rng.random(200) < 0.2)
    parent = HistGradientBoostingClassifier(max_iter=5, categorical_features="from_dtype")
    model = GeodesicCalibrator(parent, calibration="holdout", random_state=0).fit(X, y)
    new = X[:20].copy()
    new.loc[3, "city"] = "Bonn"
    found = Findings.of(model, new, y[:20], None, 20, 0)
    top = found.sets[0].detail[3]["features"][0]
    assert (top["name"], top["value"]) == ("city", "never seen: 'Bonn'")


def test_codes_of_a_pipeline_are_shown_as_their_categories():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"age": rng.normal(size=300), "city": rng.choice(["Oslo", "Bergen"], 300)})
    y = (X["city"] == "Oslo").to_numpy() ^ (rng.random(300) < 0.2)
    encoder = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
    columns = make_column_transformer(
        (encoder, ["city"]), remainder="passthrough", verbose_feature_names_out=False
    )
    parent = make_pipeline(columns, RandomForestClassifier(20, random_state=0))
    model = GeodesicCalibrator(
        parent, calibration="holdout", categorical_features=[0], random_state=0
    ).fit(X, y)
    assert [list(v) for v in decoded_levels(model.estimator_).values()] == [["Bergen", "Oslo"]]
    new = X[:20].copy()
    new.loc[3, "city"] = "Reykjavik"
    found = Findings.of(model, new, y[:20], None, 20, 0)
    detail = found.sets[0].detail
    shown = {part["name"]: part for part in detail[3]["features"]}
    assert shown["city"]["value"] == "never seen: 'Reykjavik'"
    assert shown["city"]["usual"] in ("Oslo", "Bergen")
    others = {part["name"]: part for part in detail[4]["features"]}
    assert others["city"]["value"] == X.loc[4, "city"]


def test_dates_are_shown_as_dates():
    assert date_text(19_799.0) == "2024-03-17"
    assert date_text(19_799.25) == "2024-03-17 06:00"
    assert date_text(-1.0) == "1969-12-31"
    assert date_text(np.nan) == MISSING
    assert date_text(1e9) == "1,000,000,000"
    rng = np.random.default_rng(0)
    days = rng.integers(0, 900, 200).astype("timedelta64[D]")
    X = pd.DataFrame({"when": np.datetime64("2022-01-01") + days, "x": rng.normal(size=200)})
    model = GeodesicCalibrator(
        RandomForestClassifier(20, random_state=0), calibration="holdout", random_state=0
    ).fit(X, X["x"] > 0)
    found = Findings.of(model, X[:20], (X["x"] > 0)[:20], None, 20, 0)
    shown = {part["name"]: part for part in found.sets[0].detail[0]["features"]}
    assert shown["when"]["value"] == str(X["when"][0].date())
    assert re.fullmatch(r"202\d-\d\d-\d\d ± [\d.]+ days", shown["when"]["usual"])
