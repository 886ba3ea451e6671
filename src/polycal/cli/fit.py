"""``polycal fit``: a table, the name of a parent, and a fitted model."""

from __future__ import annotations

from ast import literal_eval
from dataclasses import dataclass
from difflib import get_close_matches
from inspect import signature
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
from ..calibration.guards import SURE
from ..core.copies import copies_between
from ..core.roles import CATEGORY, NUMBER, ColumnRoles, Role
from ..estimators import GeodesicCalibrator
from .columns import typed
from .files import place_of
from .roles import decide
from .tables import labels_of

N_TREES = 300
# HistGradientBoosting takes fewer levels than this as categories, and more as ordered codes.
MOST_LEVELS = 255
# Rows from which a tenth of those of a fit, which tell a network when to stop, holds every class.
ROWS_TO_STOP_BY = 100


@dataclass(frozen=True)
class FitOptions:
    """What the user has chosen, beside the columns and their roles."""

    parent: str
    settings: list[str]  # of the parent, as NAME=VALUE
    weight: str | None  # column of row weights
    false_alarm: str | float
    memory_limit: str
    seed: int
    jobs: int
    show: bool  # progress bars


def fit_table(
    table: Any, held: Any, target: str, chosen: dict[str, Role], options: FitOptions
) -> tuple[GeodesicCalibrator, dict[str, Any]]:
    """Fit a model on a table; returns the model and a summary.

    ``held`` is the table to calibrate on, if there is one, and ``chosen`` has the roles that the
    user has given to columns.
    """
    y, weights = labels_of(table, target), weights_of(table, options.weight)
    roles = decide(table, chosen, [target, options.weight])
    check_features(roles)
    X = typed(table, roles)
    out_of_bag = options.parent == "forest" and weights is None and held is None
    model = calibrator(X, roles, options, "oob" if out_of_bag else "auto")
    if held is None:
        model.fit(X, y, sample_weight=weights)
    else:
        X_cal, y_cal = _features(held, roles), labels_of(held, target)
        _check_new_rows(X, X_cal, table, held)
        model.fit(X, y, sample_weight=weights, X_cal=X_cal, y_cal=y_cal)
    model.columns_ = roles  # those of the file, before they became numbers and text
    return model, summary(model, options, len(X))


def weights_of(table: Any, weight: str | None) -> Any:
    """The column of weights as numbers; None without one."""
    if weight is None:
        return None
    return typed(table, ColumnRoles.of({weight: Role(NUMBER, "")}))[weight].to_numpy()


def check_features(roles: ColumnRoles) -> None:
    """Raise an error where no column is a feature."""
    if not roles.features:
        shown = ", ".join(f"{name!r} ({role.role})" for name, role in roles.items())
        cure = "Drop fewer, or say --number or --category for one of them."
        raise ValueError(
            f"DATA has no column left that says something about the target: {shown}. {cure}"
            if shown
            else "DATA has no column but the target. Give a table with columns to predict it from."
        )


def calibrator(
    X: Any, roles: ColumnRoles, options: FitOptions, calibration: str
) -> GeodesicCalibrator:
    """A calibrator of the parent that the user has named, for features like X."""
    categories = roles.with_role(CATEGORY)
    estimator = make_estimator(options.parent, X, categories, options.seed, options.jobs)
    set_parameters(estimator.steps[-1][1], options.settings)
    # Trees get codes, which the density treats as categories; a network gets a column per level.
    coded = list(range(len(categories))) if options.parent != "mlp" else None
    return GeodesicCalibrator(
        estimator,
        calibration=calibration,
        categorical_features=coded,
        false_alarm=options.false_alarm,
        memory_limit=options.memory_limit,
        n_jobs=options.jobs,
        random_state=options.seed,
        verbose=int(options.show),
    )


def summary(model: GeodesicCalibrator, options: FitOptions, n_rows: int) -> dict[str, Any]:
    """What there is to say about a fitted model."""
    assert model.columns_ is not None
    shares = {
        str(c): round(float(p), 4) for c, p in zip(model.classes_, model.priors_, strict=True)
    }
    return {
        "parent": options.parent,
        "rows": n_rows,
        "features": len(model.columns_.features),
        "categories": len(model.columns_.with_role(CATEGORY)),
        "classes": shares,
        "polytopes": len(model.polytopes_),
        "calibration": model.calibration_,
        "false_alarm": model.false_alarm_,
    }


def _features(table: Any, roles: ColumnRoles) -> Any:
    missing = [name for name in roles.features if name not in table.columns]
    if missing:
        raise ValueError(f"{table.attrs['file']} lacks the column(s) {missing[:10]} of DATA.")
    return typed(table, roles)


def _check_new_rows(X: Any, X_cal: Any, table: Any, held: Any) -> None:
    """``guards.check_new_rows`` in words of the command line."""
    shared, chance = copies_between(X, X_cal)
    if chance < SURE:
        data, first = table.attrs["file"], place_of(held, int(np.argmax(shared)))
        raise ValueError(
            f"{int(shared.sum())} of the {len(shared)} rows of --calibration-file also stand in "
            f"{data}, the first is {first}. The parent knows the labels of these rows, so that a "
            f"calibration on them would be far too sure. Leave them out of {data}, or leave "
            "--calibration-file out: polycal then calibrates by rows that it holds out."
        )


def set_parameters(estimator: Any, settings: list[str]) -> None:
    """Set parameters of the parent, each given as NAME=VALUE."""
    # CatBoost's get_params has those alone that were set.
    known = {*estimator.get_params(deep=False), *signature(type(estimator)).parameters}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals:
            raise ValueError(f"--set takes NAME=VALUE, as in n_estimators=500; got {setting!r}.")
        if name not in known:
            near = get_close_matches(name, known, n=1)
            meant = f" Did you mean {near[0]}?" if near else f" It has {', '.join(sorted(known))}."
            kind = type(estimator).__name__
            raise ValueError(f"--set {name}: {kind} has no such parameter.{meant}")
        try:
            parsed = literal_eval(value)
        except (ValueError, SyntaxError):
            parsed = {"true": True, "false": False, "none": None}.get(value.lower(), value)
        estimator.set_params(**{name: parsed})


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
        stops = len(X) >= ROWS_TO_STOP_BY
        network = MLPClassifier((256,) * 2, early_stopping=stops, random_state=seed)
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
    if parent == "catboost":
        library = optional("catboost", "boosting")
        quiet = {"verbose": 0, "allow_writing_files": False}
        return library.CatBoostClassifier(200, thread_count=jobs, random_seed=seed, **quiet)
    library = optional("xgboost", "boosting")
    return library.XGBClassifier(n_estimators=200, n_jobs=jobs, random_state=seed)
