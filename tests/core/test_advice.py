"""Messages about columns of words: the advice works when it is followed to the letter."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder

from polycal import GeodesicCalibrator
from tests.toys.models import small_forest


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=150), "city": rng.choice(["Rom", "Bern"], 150)})
    return frame, (frame["a"] > 0).to_numpy()


def frames(frame):
    polars = pytest.importorskip("polars")
    return {"pandas": frame, "polars": polars.from_pandas(frame)}


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_a_parent_of_numbers_alone(kind, table):
    X, y = frames(table[0])[kind], table[1]
    parent = small_forest()
    with pytest.raises(ValueError, match="holds '(Rom|Bern)', which is not a number") as raised:
        GeodesicCalibrator(parent).fit(X, y)
    code = re.search(r"make_pipeline\(.*\)", str(raised.value)).group()
    names = {"make_pipeline": make_pipeline, "make_column_transformer": make_column_transformer}
    encoded = eval(code, names | {"OrdinalEncoder": OrdinalEncoder, "parent": parent})
    model = GeodesicCalibrator(encoded, calibration="holdout", random_state=0).fit(X, y)
    assert model.score(X, y) > 0.9


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_a_parent_that_takes_categories(kind, table):
    polars = pytest.importorskip("polars")
    X, y = frames(table[0])[kind], table[1]
    parent = HistGradientBoostingClassifier(max_iter=5)
    with pytest.raises(ValueError, match="Make the column a category") as raised:
        GeodesicCalibrator(parent).fit(X, y)
    code = re.search(r"category \((.*)\), (leave|list) it", str(raised.value)).group(1)
    made = eval(code, {"X": X, "polars": polars})
    X = made if kind == "polars" else X.assign(city=made)
    GeodesicCalibrator(parent, calibration="holdout", random_state=0).fit(X, y).predict(X)
