"""Boosted trees: one group of leaf ids, for exactly the trees that predict_proba uses."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from scipy.sparse import issparse
from sklearn.utils import gen_batches

from .._utils.arrays import Array, Floats, Ints
from .._utils.labels import class_columns
from .._utils.sklearn_compat import hist_gradient_boosting_leaves, n_rows_of, take_rows
from ..core.reading import ActivationModes, Reading, leaf_type
from ..core.table import numbers_of, only_numbers
from .base import Adapter, check_float32, is_a
from .boosted_trees import BoostedTrees
from .boosters import RAW, lightgbm_classifier, xgboost_classifier
from .frames import FLOAT32_MAX, clip_to_float32, fill_empty_columns, nan_for_missing

# Rows whose leaves are asked for together.
ROWS_AT_ONCE = 100_000
# Rows on which each call proves leaves and probabilities, which differ by rounding alone.
N_VERIFIED, PROVEN = 5, 1e-9
FLOATS = (np.dtype(np.float32), np.dtype(np.float64))
# pandas data types of text.
TEXT_TYPES = ("object", "str", "string")
# polars data types of categories.
CODED = ("Categorical", "Enum")
# What stands for a missing category in CatBoost, which takes none.
NO_CATEGORY = "missing"
# Probabilities in float32 sum to 1 within this, whatever the number of classes.
FLOAT32_SUM_TOLERANCE = 1e-4


class BoostingAdapter(Adapter):
    """What the libraries have in common: leaves and probabilities are the library's own."""

    #: The objective that gives probabilities, for error messages.
    objective: ClassVar[str]
    #: polars data types on which this library ends the Python process.
    crashing_dtypes: ClassVar[tuple[str, ...]] = ()
    takes_categories = True
    reads_sparse = True

    def check_table(self, X: Any) -> None:
        if not is_a(X, "polars", "DataFrame"):
            return
        for name, dtype in X.schema.items():
            if str(dtype).startswith(self.crashing_dtypes):
                raise TypeError(
                    f"X is a polars frame whose column {name!r} is {dtype}, on which "
                    f"{self.family} crashes. Cast it to pl.Categorical and give X.to_pandas(), "
                    "to fit and to predict alike."
                )

    def fit(
        self,
        X: Any,
        codes: Ints,
        classes: Array,
        sample_weight: Floats | None = None,
        **parameters: Any,
    ) -> Adapter:
        if "eval_set" in parameters:
            pairs = [(self.prepared(rows), labels) for rows, labels in parameters["eval_set"]]
            parameters = parameters | {"eval_set": pairs}
        if "eval_X" in parameters:
            parameters = parameters | {"eval_X": _each(self.prepared, parameters["eval_X"])}
        if "eval_y" in parameters:  # which LightGBM, unlike y, does not encode

            def encode(labels: Any) -> Ints:
                return class_columns(labels, classes)

            parameters = parameters | {"eval_y": _each(encode, parameters["eval_y"])}
        return super().fit(self.prepared(X), codes, classes, sample_weight, **parameters)

    def prepared(self, X: Any) -> Any:
        """X as the library takes it: columns of text, which are declared categories, as such."""
        if not self.takes_categories or not hasattr(X, "select_dtypes"):
            return X
        types = dict.fromkeys([name for name in X if str(X[name].dtype) == "object"], "float64")
        types |= dict.fromkeys(_text_columns(X), "category")
        return X.astype(types) if types else X

    def read(self, X: Any, verbose: int = 0) -> Reading:
        self.check_table(X)
        own = self.prepared(X)
        found = self._walk(own)
        leaves, proba = (self._all_leaves(own), self.proba(own)) if found is None else found
        modes = ActivationModes.from_leaves(leaves)
        return Reading(modes, check_proba(proba, self.family, self.objective), X)

    @cached_property
    def _trees(self) -> BoostedTrees | None:
        """The trees for a walk of our own, where there is one."""
        return self.walkable_trees()

    def walkable_trees(self) -> BoostedTrees | None:
        """The fitted trees, unless the library itself must walk down them."""
        return None

    def _walk(self, X: Any) -> tuple[Array, Array] | None:
        """Leaves and probabilities by one walk, which a few rows prove to be the library's own.

        None where the library must be asked.
        """
        trees = self._trees
        if trees is None or issparse(X) or not only_numbers(X):
            return None
        numbers = numbers_of(X)
        if numbers.shape[1] != self.known_features or numbers.shape[1] < trees.width:
            return None  # the library says what is wrong
        leaves, proba = trees.read(numbers, self._n_jobs)
        some = np.unique(np.linspace(0, len(numbers) - 1, N_VERIFIED).astype(int))
        few = take_rows(X, some)
        known = self.leaves(few).reshape(len(some), -1), self.proba(few)
        same = np.array_equal(leaves[some], known[0]) and proba.shape[1] == known[1].shape[1]
        if same and np.allclose(proba[some], known[1], rtol=PROVEN, atol=PROVEN):
            return leaves, proba
        return None

    @property
    def _n_jobs(self) -> int | None:
        return None

    def _all_leaves(self, X: Any) -> Array:
        """Leaf ids, shape (n_samples, n_trees), some rows at a time: libraries take eight bytes."""
        n_rows, blocks = n_rows_of(X), []
        for rows in gen_batches(n_rows, ROWS_AT_ONCE):
            part = X if n_rows <= ROWS_AT_ONCE else take_rows(X, np.arange(rows.start, rows.stop))
            found = self.leaves(part).reshape(rows.stop - rows.start, -1)
            blocks.append(found.astype(leaf_type(found)))
        return blocks[0] if len(blocks) == 1 else np.concatenate(blocks)

    @abstractmethod
    def leaves(self, X: Any) -> Array:
        """Leaf ids; the first axis is the rows, all others are trees."""

    def proba(self, X: Any) -> Array:
        """Class probabilities of the rows; the columns are the sorted classes."""
        proba: Array = self.estimator.predict_proba(X)
        return proba

    def custom_objective_problem(self) -> str | None:
        """``problem`` of an objective that is a function of the user's own."""
        if not callable(self.estimator.objective):
            return None
        return (
            f"with a function as objective, predict_proba of {self.family} gives raw scores; use "
            f"{self.objective}"
        )


class LightGBMAdapter(BoostingAdapter):
    """Any boosting_type. With linear_tree=True rows of one leaf differ in probability."""

    family = "LGBMClassifier"
    handles = (("lightgbm", "LGBMClassifier"), ("lightgbm", "Booster"))
    objective = 'objective="binary" or "multiclass"'
    crashing_dtypes = ("Categorical", "Enum", "String")

    @classmethod
    def opened(cls, estimator: Any) -> Any:
        if is_a(estimator, "lightgbm", "Booster"):
            return lightgbm_classifier(estimator)
        # One that was fitted on a cluster predicts on Dask collections only, but holds all trees.
        on_dask = is_a(estimator, "lightgbm", "DaskLGBMClassifier")
        return estimator.to_local() if on_dask and hasattr(estimator, "fitted_") else estimator

    @property
    def wants_codes(self) -> bool:
        """A raw booster knows its classes as 0, 1, ... only."""
        return hasattr(self.estimator, RAW)

    def problem(self) -> str | None:
        return self.custom_objective_problem()

    def same_names(self, known: Array, names: Array) -> bool:
        # LightGBM keeps "mean radius" as "mean_radius".
        return [str(name).replace(" ", "_") for name in names] == list(known)

    def prepared(self, X: Any) -> Any:
        # LightGBM itself turns an array of other numbers into float32, which rounds large ones.
        if isinstance(X, np.ndarray) and X.dtype.kind in "iubf" and X.dtype not in FLOATS:
            return X.astype(np.float32)
        return super().prepared(X)

    def leaves(self, X: Any) -> Array:
        leaves: Array = self.estimator.predict(X, pred_leaf=True)
        return leaves

    def walkable_trees(self) -> BoostedTrees | None:
        # Other ways to predict, such as pred_early_stop, are parameters too.
        if any(name.startswith("pred") for name in self.estimator.get_params()):
            return None
        return BoostedTrees.of_lightgbm(self.estimator.booster_)

    @property
    def _n_jobs(self) -> int | None:
        jobs: int | None = self.estimator.n_jobs
        return -1 if jobs is None else jobs or None


class XGBoostAdapter(BoostingAdapter):
    family = "XGBClassifier, XGBRFClassifier"
    handles = (
        ("xgboost", "XGBClassifier"),
        ("xgboost", "Booster"),
        ("xgboost", "DaskXGBClassifier"),
    )
    objective = 'objective="binary:logistic" or "multi:softprob"'
    needs_codes = True

    @classmethod
    def opened(cls, estimator: Any) -> Any:
        # One that was fitted on a cluster predicts on Dask collections only, but holds all trees.
        on_dask = is_a(estimator, "xgboost", "DaskXGBClassifier")
        if on_dask and estimator.__sklearn_is_fitted__():
            estimator = estimator.get_booster()
        return xgboost_classifier(estimator) if is_a(estimator, "xgboost", "Booster") else estimator

    def problem(self) -> str | None:
        if self.estimator.booster == "gblinear":
            return 'booster="gblinear" has no leaves; use booster="gbtree"'
        if self.estimator.objective == "binary:logitraw":
            return f'objective="binary:logitraw" gives no probabilities; use {self.objective}'
        return self.custom_objective_problem()

    def read(self, X: Any, verbose: int = 0) -> Reading:
        reading = super().read(X, verbose)
        return replace(reading, features=nan_for_missing(X, self.estimator.missing))

    def check_table(self, X: Any) -> None:
        super().check_table(X)
        if hasattr(X, "select_dtypes"):
            self._check_categories(list(X.select_dtypes("category")))
        elif is_a(X, "polars", "DataFrame"):
            named = [name for name, dtype in X.schema.items() if str(dtype).startswith(CODED)]
            self._check_categories(named)

    def prepared(self, X: Any) -> Any:
        if hasattr(X, "select_dtypes"):
            self._check_categories(_text_columns(X))
        return super().prepared(X)

    def _check_categories(self, named: list[Any]) -> None:
        if named and not self.estimator.enable_categorical:
            raise ValueError(
                f"column {named[0]!r} is a category, which XGBClassifier takes with "
                "enable_categorical=True only. Use XGBClassifier(enable_categorical=True)."
            )

    def leaves(self, X: Any) -> Array:
        missing = self.estimator.missing
        # A marker of missing values that is beyond float32 must not be clipped.
        large_marker = missing is not None and abs(missing) > FLOAT32_MAX
        leaves: Array = self.estimator.apply(X if large_marker else clip_to_float32(X))
        return leaves


class CatBoostAdapter(BoostingAdapter):
    """One tree a round for all classes: its leaf holds a score for each."""

    family = "CatBoostClassifier"
    handles = (("catboost", "CatBoostClassifier"), ("catboost", "CatBoost"))
    objective = 'loss_function="Logloss" or "MultiClass"'
    crashing_dtypes = ("Categorical",)

    def problem(self) -> str | None:
        if is_a(self.estimator, "catboost", "CatBoostClassifier"):
            return None
        return (
            f"a catboost {type(self.estimator).__name__} has no predict_proba; train "
            "CatBoostClassifier, or use catboost.to_classifier(model) on a trained one"
        )

    def check_table(self, X: Any) -> None:
        super().check_table(X)
        if not hasattr(X, "select_dtypes"):
            return
        self._check_categories(X, X.select_dtypes("category"))

    def _check_categories(self, X: Any, columns: Iterable[Any]) -> None:
        known = self._categories(X)
        named = [str(name) for name in columns if name not in known]
        if named:
            raise ValueError(
                f"column {named[0]!r} is a category, and cat_features of CatBoostClassifier does "
                f"not name it. Use CatBoostClassifier(cat_features={named})."
            )

    def _categories(self, X: Any) -> list[Any]:
        """Names of the columns of a frame that CatBoost treats as categories."""
        given = self.estimator.get_param("cat_features")
        if given is None:
            fitted = self.estimator.is_fitted()
            given = self.estimator.get_cat_feature_indices() if fitted else []
        return [name if isinstance(name, str) else X.columns[name] for name in given]

    def prepared(self, X: Any) -> Any:
        if not hasattr(X, "select_dtypes"):
            return X
        others = ("text_features", "embedding_features")
        given = [name for other in others for name in self.estimator.get_param(other) or []]
        text = [name if isinstance(name, str) else X.columns[name] for name in given]
        words = [name for name in _text_columns(X) if name not in text and not _numerals(X[name])]
        self._check_categories(X, words)
        missing = [name for name in self._categories(X) if X[name].isna().any()]
        filled = {n: X[n].astype(object).where(X[n].notna(), NO_CATEGORY) for n in missing}
        return X.assign(**filled) if filled else X

    def copy(self) -> Any:
        # clone fails on a list of cat_features. The copy of a fitted model is fitted too, and its
        # next fit begins anew.
        return self.estimator.copy()

    @property
    def known_classes(self) -> Array:
        return np.sort(self.estimator.classes_)

    @property
    def known_features(self) -> int:
        return len(self.estimator.feature_names_)  # n_features_in_ is 0 in a loaded model

    def leaves(self, X: Any) -> Array:
        with np.errstate(over="ignore"):  # it compares in float32, where huge is infinite
            leaves: Array = self.estimator.calc_leaf_indexes(X, thread_count=self._n_threads)
        return leaves

    def proba(self, X: Any) -> Array:
        # CatBoost sorts the labels "8", "9", "10" as numbers, or as class_names says.
        order = np.argsort(self.estimator.classes_, kind="stable")
        with np.errstate(over="ignore"):
            proba: Array = self.estimator.predict_proba(X, thread_count=self._n_threads)
        return proba[:, order]

    @property
    def _n_threads(self) -> int:
        """The model's own thread_count, which CatBoost does not use for predictions by itself."""
        return self.estimator.get_param("thread_count") or -1


class GradientBoostingAdapter(BoostingAdapter):
    family = "GradientBoostingClassifier"
    handles = (("sklearn", "GradientBoostingClassifier"),)
    objective = 'loss="log_loss"'
    takes_categories = False
    single_precision = True

    def problem(self) -> str | None:
        init = self.estimator.init
        if init is None or isinstance(init, str):
            return None
        return (
            f"init={init!r} adds scores to a GradientBoostingClassifier that no leaf shows; use "
            'init=None or "zero"'
        )

    def leaves(self, X: Any) -> Array:
        if not issparse(X):
            values = numbers_of(X)
            check_float32(values)
            # As its trees compare. Its trees know no column names and would warn about a frame.
            X = values.astype(np.float32)
        leaves: Array = self.estimator.apply(X)
        return leaves


class HistGradientBoostingAdapter(BoostingAdapter):
    family = "HistGradientBoostingClassifier"
    handles = (("sklearn", "HistGradientBoostingClassifier"),)
    objective = 'loss="log_loss"'

    def fit(
        self,
        X: Any,
        codes: Ints,
        classes: Array,
        sample_weight: Floats | None = None,
        **parameters: Any,
    ) -> Adapter:
        return super().fit(fill_empty_columns(X), codes, classes, sample_weight, **parameters)

    def leaves(self, X: Any) -> Array:
        return hist_gradient_boosting_leaves(self.estimator, X)

    def walkable_trees(self) -> BoostedTrees | None:
        return BoostedTrees.of_hist_gradient_boosting(self.estimator)

    @property
    def _n_jobs(self) -> int | None:
        return -1  # as its own predictions


def check_proba(proba: Any, family: str, objective: str) -> Array:
    """Probabilities as float64; an error shows the first row that does not hold probabilities."""
    rows = np.asarray(proba, dtype=np.float64)
    if rows.ndim == 2:
        with np.errstate(invalid="ignore"):
            sums_to_one = np.abs(rows.sum(axis=1) - 1) <= FLOAT32_SUM_TOLERANCE
            good = (rows >= 0).all(axis=1) & sums_to_one
        if good.all():
            return rows
        rows = rows[~good]
    raise ValueError(
        f"predict_proba of {family} must give rows of probabilities (at least 0, sum 1); got "
        f"{rows[0].tolist()}. Train it with {objective}, on one label for each row; and if the "
        "row is NaN, clip the huge numbers of X."
    )


def _each(function: Callable[[Any], Any], given: Any) -> Any:
    """A function of each part of a tuple, or of what is no tuple."""
    return tuple(map(function, given)) if isinstance(given, tuple) else function(given)


def _text_columns(X: Any) -> list[Any]:
    """Names of the columns of a pandas frame that hold text."""
    named = [name for name in X if str(X[name].dtype) in TEXT_TYPES]
    return [name for name in named if any(isinstance(value, str) for value in X[name])]


def _numerals(column: Any) -> bool:
    """Whether all values that are not missing can be read as numbers."""
    try:
        column.astype(float)
    except (TypeError, ValueError):
        return False
    return True
