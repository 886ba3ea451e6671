"""A table of numbers and categories, and a parent that takes it."""

from __future__ import annotations

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier


def boosting(**kwargs):
    return HistGradientBoostingClassifier(**({"max_iter": 20, "random_state": 0} | kwargs))


def make_mixed(n=600, seed=0, missing=0.1):
    """Two numbers, one of them with holes, and two categories; the label depends on all."""
    rng = np.random.default_rng(seed)
    colour = rng.choice(["red", "green", "blue"], n, p=[0.5, 0.3, 0.2])
    size = rng.choice([1, 2], n)
    a, b = rng.normal(size=n), rng.normal(size=n) + (colour == "red")
    y = (a + b + 1.5 * (colour == "blue") + size + 0.3 * rng.normal(size=n) > 2.2).astype(int)
    b = np.where(rng.random(n) < missing, np.nan, b)
    table = {"a": a, "b": b, "colour": pd.Categorical(colour), "size": pd.Categorical(size)}
    return pd.DataFrame(table), y
