"""``polycal fit``: a table, the name of a parent, and a fitted model."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import (
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.impute import SimpleImputer
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

from .._utils.optional import optional
from ..estimators import GeodesicCalibrator
from .tables import is_category, same_type, typed

N_TREES = 300
# HistGradientBoosting takes fewer levels than this as categories, and more as ordered codes.
MOST_LEVELS = 255


def fit_table(
    table: Any,
    target: str,
    parent: str,
    drop: list[str],
    weight: str | None,
    false_alarm: str | float,
    seed: int,
    jobs: int,
    show: bool,
) -> tuple[GeodesicCalibrator, dict[str, Any]]:
    """Fit a model on a table; returns the model and a summary."""
    for name, option in [(target, "--target"), *((d, "--drop") for d in drop)]:
        if name not in table.columns:
            raise ValueError(
                f"{option} {name!r} is not a column of DATA: {list(table.columns)[:20]}."
            )
    if weight is not None and weight not in table.columns:
        raise ValueError(
            f"--weight {weight!r} is not a column of DATA: {list(table.columns)[:20]}."
        )
    kept = [c for c in table.columns if c not in {target, weight, *drop}]
    if not kept:
        raise ValueError(
            "DATA has no feature columns left. Give a table with more columns, or drop fewer."
        )
    X = table[kept]
    X.columns = [str(name) for name in kept]
    categories = [str(name) for name in kept if is_category(table[name])]
    X = typed(X, categories)
    y = labels(table[target])
    weights = None if weight is None else typed(table[[weight]], [])[weight].to_numpy()
    estimator = make_estimator(parent, X, categories, seed, jobs)
    # Trees get codes, which the density treats as categories; a network gets a column per level.
    coded = list(range(len(categories))) if parent != "mlp" else None
    model = GeodesicCalibrator(
        estimator,
        calibration="oob" if parent == "forest" and weight is None else "auto",
        categorical_features=coded,
        false_alarm=false_alarm,
        n_jobs=jobs,
        random_state=seed,
        verbose=int(show),
    )
    model.fit(X, y, sample_weight=weights)
    shares = {
        str(c): round(float(p), 4) for c, p in zip(model.classes_, model.priors_, strict=True)
    }
    return model, {
        "parent": parent,
        "rows": len(X),
        "features": len(kept),
        "categories": len(categories),
        "classes": shares,
        "polytopes": len(model.polytopes_),
        "calibration": model.calibration_,
        "false_alarm": model.false_alarm_,
    }


def labels(column: Any) -> np.ndarray:
    """Labels: numbers and booleans unchanged, all others as text."""
    return same_type(column, np.empty(0, dtype=column.dtype if column.dtype.kind in "iub" else "U"))


def make_estimator(parent: str, X: Any, categories: list[str], seed: int, jobs: int) -> Any:
    """A Pipeline that encodes the table and ends in the parent."""
    numbers = [name for name in X.columns if name not in categories]
    few = [X[name].nunique(dropna=False) < MOST_LEVELS for name in categories]
    codes = OrdinalEncoder(
        handle_unknown="use_encoded_value", unknown_value=-1, encoded_missing_value=-2
    )
    if parent == "mlp":
        columns = ColumnTransformer(
            [
                (
                    "categories",
                    OneHotEncoder(handle_unknown="ignore", sparse_output=False),
                    categories,
                ),
                ("numbers", make_pipeline(SimpleImputer(), StandardScaler()), numbers),
            ]
        )
        network = MLPClassifier((256,) * 2, early_stopping=True, random_state=seed)
        return make_pipeline(columns, network)
    columns = ColumnTransformer(
        [("categories", codes, categories), ("numbers", "passthrough", numbers)],
        verbose_feature_names_out=False,
    )
    return make_pipeline(columns, _trees(parent, few, seed, jobs))


def _trees(parent: str, few: list[bool], seed: int, jobs: int) -> Any:
    if parent == "forest":
        return RandomForestClassifier(N_TREES, n_jobs=jobs, random_state=seed)
    if parent == "extra-trees":
        return ExtraTreesClassifier(N_TREES, n_jobs=jobs, random_state=seed)
    if parent == "hgb":
        mask = [j for j, small in enumerate(few) if small]
        return HistGradientBoostingClassifier(categorical_features=mask or None, random_state=seed)
    if parent == "lightgbm":
        library = optional("lightgbm", "boosting")
        return library.LGBMClassifier(n_estimators=200, n_jobs=jobs, random_state=seed, verbose=-1)
    library = optional("xgboost", "boosting")
    return library.XGBClassifier(n_estimators=200, n_jobs=jobs, random_state=seed)
