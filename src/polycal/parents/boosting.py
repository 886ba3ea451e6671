"""Boosted trees: one group of leaf ids, for exactly the trees that predict_proba uses."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier

from .._utils.sklearn_compat import hist_gradient_boosting_leaves
from ..core.reading import ActivationModes, Reading
from ..core.table import numbers_of
from .base import Adapter, check_float32, is_a

FLOAT32_MAX = float(np.finfo(np.float32).max)
# Probabilities in float32 sum to 1 within this, whatever the number of classes.
ROUNDING = 1e-4


class BoostingAdapter(Adapter):
    """What the libraries share: leaves and probabilities are the library's own."""

    #: The objective that gives probabilities, for the error message.
    objective: str
    #: polars data types that end the whole process in this library.
    deadly: tuple[str, ...] = ()
    takes_categories = True
    reads_sparse = True

    @classmethod
    def check_table(cls, X: Any) -> None:
        if not is_a(X, "polars", "DataFrame"):
            return
        for name, dtype in X.schema.items():
            if str(dtype).startswith(cls.deadly):
                raise TypeError(
                    f"X is a polars frame whose column {name!r} is {dtype}, on which "
                    f"{cls.family} crashes. Cast it to pl.Categorical and give X.to_pandas(), "
                    "to fit and to predict alike."
                )

    def read(self, X: Any, verbose: int = 0) -> Reading:
        self.check_table(X)
        leaves = self.leaves(X)
        modes = ActivationModes.from_leaves(leaves.reshape(len(leaves), -1))
        return Reading(modes, check_proba(self.proba(X), self.family, self.objective), X)

    @abstractmethod
    def leaves(self, X: Any) -> NDArray:
        """Leaf ids; the first axis is the rows, all others are trees."""

    def proba(self, X: Any) -> NDArray:
        return self.estimator.predict_proba(X)


class LightGBMAdapter(BoostingAdapter):
    """Any boosting_type. With linear_tree=True rows of one leaf differ in probability."""

    family = "LGBMClassifier"
    objective = 'objective="binary" or "multiclass"'
    deadly = ("Categorical", "Enum", "String")

    @staticmethod
    def problem(estimator: Any) -> str | None:
        if is_a(estimator, "lightgbm", "Booster"):
            return (
                "a lightgbm.Booster does not know its classes; train LGBMClassifier, and save it "
                "with joblib"
            )
        if not is_a(estimator, "lightgbm", "LGBMClassifier"):
            return ""
        return own_objective(estimator.objective, LightGBMAdapter)

    @classmethod
    def same_names(cls, known: NDArray, names: NDArray) -> bool:
        # LightGBM keeps "mean radius" as "mean_radius".
        return [str(n).replace(" ", "_") for n in names] == list(known)

    def leaves(self, X: Any) -> NDArray:
        return self.estimator.predict(X, pred_leaf=True)


class XGBoostAdapter(BoostingAdapter):
    family = "XGBClassifier, XGBRFClassifier"
    objective = 'objective="binary:logistic" or "multi:softprob"'
    needs_codes = True

    @staticmethod
    def problem(estimator: Any) -> str | None:
        if is_a(estimator, "xgboost", "Booster"):
            return (
                "an xgboost.Booster is not a classifier; save it with save_model(path), then use "
                "model = XGBClassifier() and model.load_model(path)"
            )
        if not is_a(estimator, "xgboost", "XGBClassifier"):
            return ""
        if estimator.booster == "gblinear":
            return 'booster="gblinear" has no leaves; use booster="gbtree"'
        if estimator.objective == "binary:logitraw":
            return f'objective="binary:logitraw" gives no probabilities; use {XGBoostAdapter.objective}'
        return own_objective(estimator.objective, XGBoostAdapter)

    def read(self, X: Any, verbose: int = 0) -> Reading:
        reading = super().read(X, verbose)
        return replace(reading, features=with_missing(X, self.estimator.missing))

    def leaves(self, X: Any) -> NDArray:
        missing = self.estimator.missing
        # A marker beyond float32 must reach the library as it is.
        marked = missing is not None and abs(missing) > FLOAT32_MAX
        return self.estimator.apply(X if marked else within_float32(X))


class CatBoostAdapter(BoostingAdapter):
    """One tree a round for all classes: its leaf holds a score for each."""

    family = "CatBoostClassifier"
    objective = 'loss_function="Logloss" or "MultiClass"'
    deadly = ("Categorical",)

    @staticmethod
    def problem(estimator: Any) -> str | None:
        if is_a(estimator, "catboost", "CatBoostClassifier"):
            return None
        if is_a(estimator, "catboost", "CatBoost"):
            return (
                f"a catboost {type(estimator).__name__} has no predict_proba; train "
                "CatBoostClassifier, or use catboost.to_classifier(model) on a trained one"
            )
        return ""

    @classmethod
    def copy(cls, estimator: Any) -> Any:
        return estimator.copy()  # clone fails on a list of cat_features

    @classmethod
    def known_classes(cls, estimator: Any) -> NDArray:
        return np.sort(estimator.classes_)

    @classmethod
    def known_features(cls, estimator: Any) -> int:
        return len(estimator.feature_names_)  # n_features_in_ is 0 in a loaded model

    def leaves(self, X: Any) -> NDArray:
        with np.errstate(over="ignore"):  # it compares in float32, where huge is infinite
            return self.estimator.calc_leaf_indexes(X, thread_count=self._threads)

    def proba(self, X: Any) -> NDArray:
        # CatBoost sorts the labels "8", "9", "10" as numbers, or as class_names says.
        order = np.argsort(self.estimator.classes_, kind="stable")
        with np.errstate(over="ignore"):
            return self.estimator.predict_proba(X, thread_count=self._threads)[:, order]

    @property
    def _threads(self) -> int:
        """The model's own number of threads, which CatBoost itself asks for again."""
        return self.estimator.get_param("thread_count") or -1


class GradientBoostingAdapter(BoostingAdapter):
    family = "GradientBoostingClassifier"
    objective = 'loss="log_loss"'
    takes_categories = False

    @staticmethod
    def problem(estimator: Any) -> str | None:
        if not isinstance(estimator, GradientBoostingClassifier):
            return ""
        if estimator.init is None or isinstance(estimator.init, str):
            return None
        return (
            f"init={estimator.init!r} adds scores to a GradientBoostingClassifier that no leaf "
            'shows; use init=None or "zero"'
        )

    def leaves(self, X: Any) -> NDArray:
        if not issparse(X):
            values = numbers_of(X)
            check_float32(values)
            # As its trees compare; they were fitted without names and would warn of a frame's.
            X = values.astype(np.float32)
        return self.estimator.apply(X)


class HistGradientBoostingAdapter(BoostingAdapter):
    family = "HistGradientBoostingClassifier"
    objective = 'loss="log_loss"'

    @staticmethod
    def problem(estimator: Any) -> str | None:
        return None if isinstance(estimator, HistGradientBoostingClassifier) else ""

    def leaves(self, X: Any) -> NDArray:
        return hist_gradient_boosting_leaves(self.estimator, X)


def own_objective(objective: Any, family: type[BoostingAdapter]) -> str | None:
    """The sentence against a function of the user's own as objective."""
    if not callable(objective):
        return None
    return (
        f"with a function as objective, predict_proba of {family.family} gives raw scores; use "
        f"{family.objective}"
    )


def check_proba(proba: Any, family: str, objective: str) -> NDArray:
    """Rows of probabilities as float64, or an error that shows the first row that is none."""
    rows = np.asarray(proba, dtype=np.float64)
    if rows.ndim == 2:
        with np.errstate(invalid="ignore"):
            good = (rows >= 0).all(axis=1) & (np.abs(rows.sum(axis=1) - 1) <= ROUNDING)
        if good.all():
            return rows
        rows = rows[~good]
    raise ValueError(
        f"predict_proba of {family} must give rows of probabilities (at least 0, sum 1); got "
        f"{rows[0].tolist()}. Train it with {objective}, on one label for each row; and if the "
        "row is NaN, clip the huge numbers of X."
    )


def with_missing(X: Any, marker: Any) -> Any:
    """The table with NaN in place of the number that means "missing" to XGBoost."""
    if marker is None or np.isnan(marker):
        return X
    if isinstance(X, np.ndarray) and X.dtype.kind in "fiu":
        return np.where(marker == X, np.nan, X)
    if hasattr(X, "select_dtypes"):  # pandas
        numbers = X.select_dtypes("number")
        return X.assign(**{name: numbers[name].where(numbers[name] != marker) for name in numbers})
    return X


def within_float32(X: Any) -> Any:
    """Numbers beyond float32 moved to its ends, where they take the same side of every split.

    XGBoost's leaf walk refuses them; its predict_proba does not.
    """
    if isinstance(X, np.ndarray) and X.dtype.kind == "f":
        return np.clip(X, -FLOAT32_MAX, FLOAT32_MAX)
    if hasattr(X, "select_dtypes"):  # pandas
        floats = X.select_dtypes("floating")
        X = X.copy()
        X[floats.columns] = floats.clip(-FLOAT32_MAX, FLOAT32_MAX)
    elif is_a(X, "polars", "DataFrame"):
        floats = [column for column in X if column.dtype.is_float()]
        X = X.with_columns(column.clip(-FLOAT32_MAX, FLOAT32_MAX) for column in floats)
    return X
