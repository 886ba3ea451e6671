"""Bad and odd inputs, each with the message that it gets, or the answer that is right.

A case is a name, a call without arguments, and what must come of it: a part of the message (of an
error or of a warning), or ``OK``. A fit is of few rows and trees.
"""

from __future__ import annotations

import datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
from scipy.sparse import csr_matrix
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.cluster import KMeans
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import (
    BaggingClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
    VotingClassifier,
)
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, StratifiedKFold
from sklearn.multioutput import MultiOutputClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from polycal import (
    GeodesicCalibrator,
    KernelDensityForest,
    KernelDensityNetwork,
    evaluate,
    load,
    metrics,
    report,
)

OK = None
RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 3))
Y = (X[:, 0] + 0.5 * RNG.normal(size=120) > 0).astype(int)
NEW = RNG.normal(size=(30, 3))
FRAME = pd.DataFrame(X, columns=["a", "b", "c"])
NEW_FRAME = pd.DataFrame(NEW, columns=["a", "b", "c"])
WORDS = FRAME.assign(city=np.where(X[:, 1] > 0, "Rom", "Oslo"))
CITY = WORDS.astype({"city": "category"})


def tree():
    return DecisionTreeClassifier(max_depth=3, random_state=0)


def forest(**settings):
    return RandomForestClassifier(**({"n_estimators": 20, "random_state": 0} | settings))


FITTED = GeodesicCalibrator(forest(), random_state=0).fit(X, Y)
FITTED_FRAME = GeodesicCalibrator(forest(), random_state=0).fit(FRAME, Y)
BOOSTING = HistGradientBoostingClassifier(max_iter=3, random_state=0)
FITTED_CITY = GeodesicCalibrator(
    BOOSTING, calibration="holdout", false_alarm=0.05, random_state=0
).fit(CITY, Y)
EARLY = HistGradientBoostingClassifier(max_iter=3, early_stopping=True, random_state=0)
FROZEN = FrozenEstimator(forest().fit(X, Y))


def fit(rows=X, y=Y, parent=None, *, fit_params=None, **settings):
    """A call that fits a small tree, or another parent."""

    def call():
        model = GeodesicCalibrator(
            tree() if parent is None else parent,
            **{"calibration": "holdout", "random_state": 0, "n_hyperplanes": 64} | settings,
        )
        return model.fit(rows, y, **(fit_params or {}))

    return call


def with_value(value, row=3, column=1):
    changed = X.copy()
    changed[row, column] = value
    return changed


def with_label(value, kind=object):
    changed = Y.astype(kind)
    changed[3] = value
    return changed


def kept(**given):
    """A fit with calibration rows or other arguments of fit."""
    return fit(fit_params=given)


class NoClasses(ClassifierMixin, BaseEstimator):
    def fit(self, X, y):
        return self

    def predict_proba(self, X):
        return np.full((len(X), 2), 0.5)


class Wrong(NoClasses):
    """predict_proba returns what it was given."""

    def __init__(self, proba=None):
        self.proba = proba

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X):
        return self.proba


LABELS = {
    "no y": (fit(y=None), "y is missing"),
    "no y, a frame": (fit(WORDS, None), r"y is missing: .*table\[\"label\"\]"),
    "the name of a column as y": (fit(WORDS, "city"), "got 'city'. If that is the name of a"),
    "bytes as y": (fit(y=b"abc"), "one label for each row; got b'abc'"),
    "one number as y": (fit(y=3), "one label for each row; got 3"),
    "None in y": (fit(y=with_label(None)), "NaN or None in 1 of 120 rows, the first is row 3"),
    "decimals in y": (fit(y=[Decimal(int(v)) for v in Y]), r"objects \(Decimal\).*y\.astype"),
    "objects in y": (fit(y=Y.astype(object)), r"objects \(int\).*y\.astype\(int\)"),
    "NaN in y": (fit(y=with_label(np.nan, float)), "NaN or None in 1 of 120 rows.*notna"),
    "NaN among words": (fit(y=with_label(np.nan)), "NaN or None in 1 of 120 rows"),
    "pandas.NA in y": (fit(y=pd.Series(with_label(pd.NA))), "NaN or None in 1 of 120"),
    "nullable integers with NA": (
        fit(y=pd.Series(Y).astype("Int64").mask(np.arange(120) < 2)),
        "NaN or None in 2 of 120 rows, the first is row 0",
    ),
    "a missing date as y": (
        fit(y=pd.to_datetime(pd.Series(Y)).mask(np.arange(120) == 5)),
        "NaN or None in 1 of 120",
    ),
    "numbers and words in y": (fit(y=with_label("a")), r"such as 1 and 'a'.*y\.astype\(str\)"),
    "a regression target": (fit(y=X[:, 0]), "numbers with fractions, such as .*pandas.cut"),
    "infinity in y": (fit(y=with_label(np.inf, float)), "infinity|Unknown label"),
    "an id as y": (fit(y=np.arange(120)), "120 classes in 120 rows.*pandas.cut"),
    "words that all differ as y": (
        fit(y=[f"id{i}" for i in range(120)]),
        "120 classes in 120 rows.*the column that holds the classes",
    ),
    "X and y in another order": (
        fit(FRAME, pd.Series(Y, index=FRAME.index[::-1])),
        r"same index, but in another order.*y\.loc\[X\.index\]",
    ),
    "rows to judge by in another order": (
        lambda: evaluate(
            {"a": FITTED_FRAME}, NEW_FRAME, pd.Series(Y[:30], index=NEW_FRAME.index[::-1])
        ),
        "same index, but in another order",
    ),
    "calibration rows in another order": (
        fit(
            FRAME,
            fit_params={"X_cal": NEW_FRAME, "y_cal": pd.Series(Y[:30], NEW_FRAME.index[::-1])},
        ),
        r"X_cal and y_cal have the same index.*y_cal\.loc\[X_cal\.index\]",
    ),
    "labels of another kind to judge by": (
        lambda: evaluate({"a": FITTED}, NEW, np.where(Y[:30], "a", "b")),
        r"it holds \['a', 'b'\]\. Give labels as the fit had them",
    ),
    "X and y in another order, as the message says": (
        fit(FRAME, pd.Series(Y, index=FRAME.index[::-1]).loc[FRAME.index]),
        OK,
    ),
    "X and y of other indices": (fit(FRAME, pd.Series(Y, index=FRAME.index + 1)), OK),
    "the label as a column": (fit(FRAME.assign(t=Y), Y), "column 't' tells the label of every"),
    "the label in words as a column": (
        fit(FRAME.assign(t=pd.Categorical(np.where(Y, "a", "b"))), Y, parent=BOOSTING),
        "column 't' tells the label of every row",
    ),
    "the label in an array": (fit(np.c_[X, 7.0 * Y], Y), "column 3 tells the label of every row"),
    "the label but for one row": (fit(np.c_[X, np.r_[1 - Y[:1], Y[1:]]], Y), OK),
    "two columns as y": (fit(y=np.c_[Y, Y]), r"1d array.*shape \(120, 2\).*one column"),
    "lists of labels": (fit(y=[[1, 2]] * 120), r"shape \(120, 2\)"),
    "lists of different lengths": (fit(y=[[1, 2]] * 119 + [[1]]), "rows differ in length"),
    "three axes as y": (fit(y=np.zeros((120, 1, 1))), r"shape \(120, 1, 1\)"),
    "too few labels": (fit(y=Y[:-1]), "119|inconsistent"),
    "too many labels": (fit(y=np.r_[Y, 0]), "121|inconsistent"),
    "no labels at all": (fit(y=[]), "0"),
    "one class": (fit(y=np.zeros(120)), r"at least 2 classes.*one class, \[0"),
    "one class of words": (fit(y=["a"] * 120), r"one class, \['a'\]"),
    "a class of one row": (fit(y=with_label(7, int)), "class 7 has 1 row"),
    "booleans": (fit(y=Y > 0), OK),
    "words": (fit(y=np.where(Y, "yes", "no")), OK),
    "a category as y": (fit(y=pd.Series(Y).astype("category")), OK),
    "floats that are whole": (fit(y=Y.astype(float)), OK),
    "negative labels": (fit(y=2 * Y - 1), OK),
    "a list of words": (fit(y=np.where(Y, "b", "a").tolist()), OK),
    "one column, two axes": (fit(y=Y[:, None]), "column-vector y was passed"),
    "empty words as labels": (fit(y=np.where(Y, "", "a")), OK),
    "labels that look like numbers": (fit(y=np.where(Y, "01", "1")), OK),
}

ROWS = {
    "NaN for a parent that takes none": (
        fit(with_value(np.nan), parent=LogisticRegression()),
        "NaN",
    ),
    "NaN in a frame, and its column": (
        fit(FRAME.assign(b=np.nan), parent=LogisticRegression()),
        r"NaN in column \['b'\].*imputer",
    ),
    "NaN for a parent that takes it": (fit(with_value(np.nan), parent=forest()), OK),
    "infinity": (fit(with_value(np.inf)), "infinity"),
    "minus infinity": (fit(with_value(-np.inf)), "infinity"),
    "beyond float32": (fit(with_value(1e200), parent=forest()), r"^column 1 holds .* to 1e\+200"),
    "beyond float32 in a frame": (
        fit(FRAME.assign(b=1e39), parent=forest()),
        r"^column 'b' holds values up to 1e\+39, beyond the range of float32",
    ),
    "beyond float32, bagging": (fit(with_value(1e39), parent=BaggingClassifier()), "^column 1 "),
    "beyond float32, boosting": (
        fit(with_value(1e39), parent=GradientBoostingClassifier(n_estimators=2)),
        "^column 1 holds values up to",
    ),
    "complex numbers": (fit(X.astype(complex)), "[Cc]omplex"),
    "one axis": (fit(X[:, 0]), "2D array, got 1D array"),
    "three axes": (fit(X[:, :, None]), "dim 3|expected <= 2"),
    "no rows": (fit(X[:0], Y[:0]), "0 sample"),
    "one row": (fit(X[:1], Y[:1]), "minimum of 2|1 sample"),
    "no columns": (fit(X[:, :0]), "0 feature"),
    "None as X": (fit(None), "table of rows and columns.*got NoneType"),
    "text as X": (fit("table.csv"), "got the text 'table.csv'.*pandas.read_csv"),
    "a number as X": (fit(3.0), "got float. Make one"),
    "a dict as X": (fit({"a": [1, 2]}), "got dict. Make one of it: pandas.DataFrame"),
    "lists of different lengths as X": (
        fit([[1, 2]] * 119 + [[1]]),
        "rows of X differ in length: the first has 2",
    ),
    "a list of lists": (fit(X.tolist()), OK),
    "integers": (fit((10 * X).astype(int)), OK),
    "booleans in X": (fit(X > 0), OK),
    "float16": (fit(X.astype(np.float16)), OK),
    "a sparse matrix": (fit(csr_matrix(X)), "[Ss]parse"),
    "text in an array": (
        fit(np.c_[X.astype(object), np.where(Y, "a", "b")]),
        r"X holds '[ab]' in row 0, column 3, which is not a number.*category",
    ),
    "a masked array": (fit(np.ma.masked_array(X, X > 2)), OK),
    "a constant column": (fit(np.c_[X, np.ones(120)]), OK),
    "all columns constant": (fit(np.ones((120, 2))), OK),
    "all rows twice": (fit(np.r_[X, X], np.r_[Y, Y]), OK),
    "one feature": (fit(X[:, :1]), OK),
    "huge numbers": (fit(X * 1e30), OK),
    "tiny numbers": (fit(X * 1e-30), OK),
    "a structured array": (
        fit(np.array([(1.0, 2.0)] * 120, dtype=[("a", float), ("b", float)])),
        "structured array. Give a frame",
    ),
    "Fortran order": (fit(np.asfortranarray(X)), OK),
    "a view with steps": (fit(np.repeat(X, 2, axis=0)[::2]), OK),
    "read-only rows": (fit(np.frombuffer(X.tobytes()).reshape(X.shape)), OK),
}

FRAMES = {
    "a text column, a forest": (fit(WORDS), "'city' holds '(Oslo|Rom)'.*OrdinalEncoder.*\\['city"),
    "a category, a forest": (fit(CITY), "'city' is a category.*only numbers.*make_column_tr"),
    "a text column, boosting": (
        fit(WORDS, parent=BOOSTING),
        r"'city' holds.*X\['city'\]\.astype\('category'\)",
    ),
    "a category, boosting": (fit(CITY, parent=BOOSTING), OK),
    "a date column": (
        fit(FRAME.assign(when=pd.Timestamp("2020-01-01")), parent=BOOSTING),
        "later dates will be out.*'when' .2020-01-01 to 2020-01-01; after about 2020-01-01",
    ),
    "a column without a value, boosting": (fit(FRAME.assign(b=np.nan), parent=BOOSTING), OK),
    "a column without a value, a forest": (fit(FRAME.assign(b=np.nan), parent=forest()), OK),
    "an array without a value in a column": (fit(X * [1, np.nan, 1], parent=BOOSTING), OK),
    "a polars frame without a value in a column": (
        fit(pl.DataFrame({"a": X[:, 0], "b": [None] * 120}), parent=BOOSTING),
        OK,
    ),
    "durations": (
        fit(FRAME.assign(d=pd.to_timedelta(np.arange(120) % 9, unit="h"))),
        r"X\['d'\]\.dt\.total_seconds",
    ),
    "times of day": (
        fit(FRAME.assign(d=[datetime.time(i % 9) for i in range(120)])),
        "hours since midnight",
    ),
    "dates of birth": (fit(FRAME.assign(born=pd.date_range("1930", "2000", 120))), OK),
    "decimals": (fit(FRAME.assign(d=[Decimal(i) / 7 for i in range(120)])), OK),
    "nullable numbers": (fit(FRAME.convert_dtypes(), parent=forest()), OK),
    "numbers of pyarrow": (fit(FRAME.astype("float64[pyarrow]"), parent=forest()), OK),
    "dates with a zone": (
        fit(FRAME.assign(d=pd.date_range("2024", periods=120, tz="Europe/Berlin"))),
        "later dates will be out.*'d' .2023-12-31 to",
    ),
    "sparse columns": (fit(FRAME.astype(pd.SparseDtype(float, 0.0))), r"X\.sparse\.to_dense"),
    "names of two levels": (
        fit(pd.DataFrame(X, columns=pd.MultiIndex.from_product([["a"], ["x", "y", "z"]]))),
        OK,
    ),
    "a lazy polars frame": (fit(pl.LazyFrame({"a": X[:, 0]})), r"X\.collect\(\)"),
    "polars lists": (fit(pl.DataFrame({"a": X[:, 0], "l": [[1, 2]] * 120})), "'l' holds array"),
    "polars structs": (fit(pl.DataFrame({"a": X[:, 0], "l": [{"k": 1}] * 120})), "'l' holds"),
    "1e39, a forest": (fit(with_value(1e39), parent=forest()), "range of float32.*make them NaN"),
    "1e39, boosting": (fit(with_value(1e39), parent=BOOSTING), OK),
    "a column of lists": (fit(FRAME.assign(l=[[1, 2]] * 120)), r"'l' holds \[1, 2\]"),
    "a column of dicts": (fit(FRAME.assign(d=[{"k": 1}] * 120)), "'d' holds {'k': 1}"),
    "None among numbers": (
        fit(FRAME.assign(b=[None] * 5 + [1.0] * 115), parent=LogisticRegression()),
        "NaN",
    ),
    "two columns of one name": (
        fit(pd.DataFrame(X, columns=["a", "a", "b"])),
        "several columns of the name 'a'",
    ),
    "names of two types": (fit(pd.DataFrame(X, columns=["a", 1, "b"])), r"columns\.astype\(str\)"),
    "names that are numbers": (fit(pd.DataFrame(X)), OK),
    "an empty name": (fit(FRAME.rename(columns={"a": ""})), OK),
    "a nullable column": (fit(FRAME.assign(n=pd.array([1, 2] * 60, dtype="Int64"))), OK),
    "a nullable column with NA": (
        fit(FRAME.assign(n=pd.array([1, None] * 60, dtype="Int64")), parent=LogisticRegression()),
        "NaN",
    ),
    "booleans in a frame": (fit(FRAME.assign(is_old=X[:, 0] > 0)), OK),
    "an index that does not count": (fit(FRAME.set_index(FRAME.index[::-1])), OK),
    "a frame without rows": (fit(FRAME[:0], Y[:0]), "0 sample|0"),
    "a frame without columns": (fit(FRAME[[]]), "0 feature"),
    "a series as X": (fit(FRAME["a"]), "2D array|1D|1-dimensional|Series"),
    "an unknown categorical feature": (
        fit(FRAME, categorical_features=["town"]),
        r"names 'town'.*columns are \['a', 'b', 'c'\]",
    ),
    "categorical_features as one name": (
        fit(FRAME, categorical_features="a"),
        "categorical_features must be",
    ),
    "a column number that is not there": (fit(categorical_features=[7]), "7.*3 columns"),
    "a name without names": (fit(categorical_features=["a"]), "no column names"),
    "a number as categorical_features": (fit(categorical_features=1), "categorical_features must"),
    "declared words, boosting": (
        fit(WORDS, parent=BOOSTING.set_params(), categorical_features=["city"]),
        OK,
    ),
}

PARENTS = {
    "a regressor": (fit(parent=RandomForestRegressor()), "regressor.*such as RandomForestClass"),
    "linear regression": (fit(parent=LinearRegression()), "such as LogisticRegression"),
    "a clustering": (fit(parent=KMeans()), "KMeans has no predict_proba"),
    "a scaler": (fit(parent=StandardScaler()), "no predict_proba, so it is no classifier"),
    "a class": (fit(parent=RandomForestClassifier), r"Use RandomForestClassifier\(\)"),
    "a name as parent": (fit(parent="forest"), "str is not a known family.*Supported"),
    "a number as parent": (fit(parent=3), "int is not a known family"),
    "a function as parent": (fit(parent=len), "not a known family"),
    "SVC": (fit(parent=SVC()), r"use CalibratedClassifierCV\(SVC\(\.\.\.\), ensemble=False\)"),
    "SVC as the message says": (
        fit(parent=CalibratedClassifierCV(SVC(), ensemble=False, cv=2)),
        OK,
    ),
    "CalibratedClassifierCV": (fit(parent=CalibratedClassifierCV(tree(), cv=2)), OK),
    "a hard vote": (
        fit(parent=VotingClassifier([("a", tree()), ("b", tree())])),
        'voting="soft"',
    ),
    "a soft vote": (fit(parent=VotingClassifier([("a", tree())], voting="soft")), OK),
    "a search": (fit(parent=GridSearchCV(tree(), {"max_depth": [2]}, cv=2)), OK),
    "a search without refit": (
        fit(parent=GridSearchCV(tree(), {"max_depth": [2]}, refit=False)),
        "use refit=True",
    ),
    "a search among regressors": (
        fit(parent=GridSearchCV(Ridge(), {"alpha": [1]})),
        "Ridge is a regressor",
    ),
    "a search among SVC": (
        fit(parent=GridSearchCV(SVC(), {"C": [1]})),
        r"CalibratedClassifierCV\(SVC",
    ),
    "a pipeline of a regressor": (
        fit(parent=make_pipeline(StandardScaler(), Ridge())),
        "its last step.*Ridge is a regressor",
    ),
    "a pipeline": (fit(parent=make_pipeline(StandardScaler(), tree())), OK),
    "an unfitted frozen parent": (fit(parent=FrozenEstimator(forest())), "not fitted"),
    "frozen twice": (fit(parent=FrozenEstimator(FROZEN)), "freeze the outermost"),
    "other classes than the frozen parent's": (
        fit(y=Y + 1, parent=FROZEN),
        "knows the classes.*exactly its classes",
    ),
    "words for a frozen parent of numbers": (
        fit(y=np.where(Y, "a", "b"), parent=FROZEN),
        "knows the classes",
    ),
    "several labels": (fit(parent=MultiOutputClassifier(tree())), "several labels; use the clas"),
    "a regressor without a classifier of its name": (
        fit(parent=TransformedTargetRegressor(LinearRegression())),
        "such as RandomForestClassifier",
    ),
    "a Pipeline that passes through": (
        fit(parent=make_pipeline(StandardScaler(), "passthrough")),
        "it ends in 'passthrough'; use a Pipeline whose last step is a classifier",
    ),
    "a frozen parent of other labels": (
        fit(y=np.where(Y, "b", "a"), parent=FROZEN),
        r"knows the classes \[0, 1\], y holds \['a', 'b'\]",
    ),
    "folds by groups without groups": (
        fit(calibration=GroupKFold(3)),
        r"calibration=GroupKFold splits by groups, and there are none.*groups=\.\.\.",
    ),
    "folds by groups": (
        fit(calibration=GroupKFold(3), fit_params={"groups": np.arange(120) // 4}),
        OK,
    ),
    "arguments of fit for a Pipeline": (
        fit(parent=make_pipeline(StandardScaler(), tree()), fit_params={"check_input": False}),
        "a Pipeline, whose steps.*Give decisiontreeclassifier__check_input",
    ),
    "arguments of fit for a step": (
        fit(
            parent=make_pipeline(StandardScaler(), tree()),
            fit_params={"decisiontreeclassifier__check_input": False},
        ),
        OK,
    ),
    "rows to stop by that calibrate": (
        fit(
            parent=EARLY,
            fit_params={"X_val": X[:30], "y_val": Y[:30]},
        ),
        "30 of the 30 rows of X_val also stand in X",
    ),
    "new rows to stop by": (fit(parent=EARLY, fit_params={"X_val": NEW, "y_val": Y[:30]}), OK),
    "narrow rows to stop by": (
        fit(parent=EARLY, fit_params={"X_val": NEW[:, :2], "y_val": Y[:30]}),
        "X_val: X has 2 features",
    ),
    "one feature less than the frozen parent": (fit(X[:, :2], parent=FROZEN), "2 features.*on 3"),
    "no classes_": (fit(parent=NoClasses()), "no classes_"),
    "probabilities of one row": (fit(parent=Wrong(np.full((1, 2), 0.5))), "one row for each"),
    "probabilities that are NaN": (
        fit(NEW, Y[:30], parent=FrozenEstimator(Wrong(np.full((30, 2), np.nan)).fit(X, Y))),
        "returns NaN or infinity for 30 of 30 rows",
    ),
    "probabilities above 1": (
        fit(NEW, Y[:30], parent=FrozenEstimator(Wrong(np.full((30, 2), 2.0)).fit(X, Y))),
        "probabilities",
    ),
    "three columns for two classes": (
        fit(NEW, Y[:30], parent=FrozenEstimator(Wrong(np.full((30, 3), 1 / 3)).fit(X, Y))),
        "3 probabilities.*2 classes",
    ),
    "out of bag without bags": (fit(calibration="oob"), 'needs a forest.*calibration="cv"'),
    "folds for a frozen parent": (
        fit(parent=FROZEN, calibration="cv"),
        "unfitted, or give X_cal and y_cal",
    ),
    "a frozen parent alone": (fit(parent=FROZEN, calibration="auto"), "taken to be new to it"),
    "arguments of fit for a frozen parent": (
        fit(parent=FROZEN, fit_params={"eval_set": []}),
        "eval_set, which go to the parent's fit",
    ),
    "arguments that the parent does not know": (
        kept(early=3),
        "unexpected keyword argument 'early'",
    ),
}

SETTINGS = {
    f"{name}={value!r}": (fit(**{name: value}), message)
    for name, value, message in [
        ("posterior", "pool", "posterior must be one of 'pooled'"),
        ("posterior", None, "posterior must be one of"),
        ("gate", "gauss", "gate must be one of"),
        ("bandwidth", 3, "bandwidth must be one of"),
        ("distance", "l2", "distance must be one of"),
        ("gamma", "best", 'gamma must be "auto" or a number'),
        ("gamma", 0, "gamma must be a finite number above 0"),
        ("gamma", -1.0, "gamma must be a finite number above 0"),
        ("gamma", np.nan, "gamma must be"),
        ("floor", "low", "floor must be"),
        ("floor", np.inf, "floor must be below infinity"),
        ("false_alarm", 0, "false_alarm must lie strictly between 0 and 1"),
        ("false_alarm", 1, "false_alarm must lie strictly"),
        ("false_alarm", "1%", 'false_alarm must be "auto" or a number'),
        ("false_alarm", None, "false_alarm must be"),
        ("caution", 2, "caution must lie strictly"),
        ("confidence", 95, "confidence must lie strictly between 0 and 1; got 95"),
        ("confidence", "high", "confidence must lie"),
        ("n_neighbors", 0, "n_neighbors must be an integer of at least 1"),
        ("n_neighbors", 2.5, "n_neighbors must be an integer"),
        ("n_neighbors", True, "n_neighbors must be an integer"),
        ("n_hyperplanes", -1, "n_hyperplanes must be an integer of at least 0"),
        ("search", "fast", "search must be one of"),
        ("memory_limit", "much", "memory_limit must be a number of bytes"),
        ("memory_limit", -1, "memory_limit must be"),
        ("memory_limit", "2 GiB", OK),
        ("regularization", 0, "regularization must be a finite number above 0"),
        ("scoring", "accuracy", "scoring must be one of"),
        ("calibration", "loo", "calibration must be one of"),
        ("calibration", 1, "at least 2 folds"),
        ("calibration", KFold, "calibration must be one of"),
        ("calibration", 2, OK),
        ("calibration", StratifiedKFold(2), OK),
        ("calibration_size", 0, "calibration_size must lie strictly"),
        ("calibration_size", 1.5, "calibration_size must lie strictly"),
        ("prior", [0.5, 0.6], "prior must sum to 1; it sums to 1.1"),
        ("prior", [1.0], r"each of the 2 classes \[0, 1\]"),
        ("prior", [1.0, 0.0], "prior must be positive"),
        ("prior", "even", "prior must hold one probability"),
        ("prior", {0: 0.2, 1: 0.8}, OK),
        ("prior", {0: 1.0}, r"name each of the classes \[0, 1\]"),
        ("prior", {"0": 0.2, "1": 0.8}, r"it names \['0', '1'\]"),
        ("n_jobs", "all", "-1 for all processors"),
        ("n_jobs", 0, "integer other than 0"),
        ("n_jobs", 1.5, "n_jobs must be None or an integer"),
        ("random_state", "seed", "seed|RandomState"),
    ]
}

OTHER_ROWS = {
    "X_cal without y_cal": (kept(X_cal=NEW), "X_cal and y_cal go together"),
    "y_cal without X_cal": (kept(y_cal=Y[:30]), "X_cal and y_cal go together"),
    "X_cal that is X": (kept(X_cal=X, y_cal=Y), "120 of the 120 rows of X_cal also stand in X"),
    "X_cal that is X in single precision": (
        kept(X_cal=X[:40].astype(np.float32), y_cal=Y[:40]),
        "40 of the 40 rows of X_cal also stand in X",
    ),
    "X_cal of copies": (
        kept(X_cal=np.repeat(RNG.normal(size=(60, 3)), 4, axis=0), y_cal=np.repeat(Y[:60], 4)),
        "60 independent calibration rows are too few",
    ),
    "X_cal that is X of few values": (
        fit(X.round(), Y, fit_params={"X_cal": X.round(), "y_cal": Y}),
        "120 of the 120 rows of X_cal also stand in X",
    ),
    "y_cal of another type": (
        kept(X_cal=NEW, y_cal=Y[:30].astype(str)),
        r"y_cal holds str, such as '\d', and y int.*y_cal\.astype\(y\.dtype\)",
    ),
    "X_cal with rows of X": (
        kept(X_cal=np.r_[NEW, X[:20]], y_cal=np.r_[Y[:30], Y[:20]]),
        "20 of the 50 rows of X_cal.*the first is row 30",
    ),
    "X_cal of other width": (kept(X_cal=NEW[:, :2], y_cal=Y[:30]), "2 features.*3"),
    "X_cal of one row": (kept(X_cal=NEW[:1], y_cal=Y[:1]), "at least 2 are needed"),
    "y_cal of one class": (kept(X_cal=NEW, y_cal=np.zeros(30)), r"no row of class \[1\]"),
    "y_cal of a new class": (kept(X_cal=NEW, y_cal=np.arange(30) % 3), r"y_cal holds \[2\]"),
    "y_cal of other length": (
        kept(X_cal=NEW, y_cal=Y[:29]),
        "^y_cal must hold one label for each of",
    ),
    "None in y_cal": (kept(X_cal=NEW, y_cal=[None] + [1] * 29), "NaN or None in 1 of 30"),
    "weights of other length": (kept(sample_weight=np.ones(3)), "each of the 120 rows; it holds 3"),
    "negative weights": (kept(sample_weight=-np.ones(120)), "must not be negative"),
    "weights that are NaN": (kept(sample_weight=np.full(120, np.nan)), "NaN or infinity"),
    "weights of 0": (kept(sample_weight=np.zeros(120)), "at least one non-zero"),
    "words as weights": (kept(sample_weight=["a"] * 120), "one number for each row"),
    "weights in two columns": (kept(sample_weight=np.ones((120, 2))), "1D array or scalar"),
    "one weight for all": (kept(sample_weight=2.0), OK),
    "groups of other length": (kept(groups=[1, 2]), "one group for each of the 120 rows"),
    "one group": (kept(groups=np.zeros(120)), "at least 2 groups"),
    "groups of mixed types": (kept(groups=[1, "a"] * 60), OK),
    "None as groups": (kept(groups=None), OK),
    "too few rows for the floor": (kept(), "36 independent calibration rows are too few"),
}

FAR = np.full((30, 3), 50.0)
QUERIES = {
    "before fit": (lambda: GeodesicCalibrator().predict(X), "not fitted"),
    "fewer features": (lambda: FITTED.predict(X[:, :2]), "2 features.*3 features"),
    "more features": (lambda: FITTED.predict(np.c_[X, X]), "6 features.*3 features"),
    "no rows to predict": (lambda: FITTED.predict(X[:0]), "0 sample"),
    "one axis to predict": (lambda: FITTED.predict(X[0]), "1D array"),
    "infinity to predict": (lambda: FITTED.predict(with_value(np.inf)), "infinity"),
    "beyond float32 to predict": (lambda: FITTED.predict(with_value(1e200)), "float32"),
    "NaN to predict": (lambda: FITTED.predict(with_value(np.nan)), OK),
    "words to predict": (lambda: FITTED.predict([["a", "b", "c"]]), "X holds 'a' in row 0"),
    "None to predict": (lambda: FITTED.predict(None), "got NoneType"),
    "text to predict": (lambda: FITTED.predict("new.csv"), "got the text 'new.csv'"),
    "columns in another order": (
        lambda: FITTED_FRAME.predict(FRAME[["c", "b", "a"]]),
        r"same order.*X\[list\(model.feature_names_in_\)\] has them in order",
    ),
    "a column that is missing": (lambda: FITTED_FRAME.predict(FRAME[["a", "b"]]), "missing.*c|- c"),
    "a column of another name": (
        lambda: FITTED_FRAME.predict(FRAME.rename(columns={"a": "z"})),
        "unseen at fit time|- z",
    ),
    "a column too many": (lambda: FITTED_FRAME.predict(FRAME.assign(z=1.0)), "unseen|- z"),
    "an array for a frame": (lambda: FITTED_FRAME.predict(X), "does not have valid feature names"),
    "all rows far": (lambda: FITTED.predict(FAR), "100% of the 30 rows are out of distribution"),
    "one row far": (lambda: FITTED.predict(FAR[:1]), OK),
    "a category never seen": (
        lambda: FITTED_CITY.predict_proba(CITY.assign(city=pd.Categorical(["Bern"] * 120))),
        "column 'city' holds values never seen, such as 'Bern'",
    ),
    "k above the polytopes": (lambda: FITTED.nearest(X, 10**6), "k must be at most"),
    "k of 0": (lambda: FITTED.nearest(X, 0), "k must be an integer of at least 1"),
    "an answer that is none": (lambda: FITTED.explain_answer(X), "must be what model.answer"),
    "save before fit": (lambda: GeodesicCalibrator().save("m.polycal"), "not fitted"),
    "load what is not there": (lambda: load("no/such.polycal"), "no/such"),
    "evaluate on training rows": (
        lambda: evaluate(FITTED, X, Y, n_rounds=2),
        "of the 120 rows stand among the training rows",
    ),
    "evaluate an unfitted model": (lambda: evaluate(forest(), X, Y), "Fit it first"),
    "evaluate nothing": (lambda: evaluate([], X, Y), "models is empty"),
    "evaluate with unknown labels": (lambda: evaluate(FITTED, NEW, Y[:30] + 5), "classes of the"),
    "evaluate with too few labels": (
        lambda: evaluate(FITTED, NEW, Y[:29]),
        "30 rows and y 29 labels",
    ),
    "evaluate without OOD rows": (
        lambda: evaluate(FITTED, NEW, Y[:30], ood=NEW[:0]),
        "are empty; give rows",
    ),
    "report of another model": (lambda: report(forest(), X, Y), "must be a fitted polycal"),
    "report before fit": (lambda: report(GeodesicCalibrator(), X, Y), "not fitted"),
    "report into no folder": (
        lambda: report(FITTED, NEW, Y[:30], path="no/such/page.html"),
        "there is no such folder",
    ),
    "report with no rows shown": (
        lambda: report(FITTED, NEW, Y[:30], max_rows=0),
        "max_rows must be an integer",
    ),
    "words as labels of a metric": (
        lambda: metrics.expected_calibration_error(["a"], [[0.5, 0.5]]),
        "searchsorted",
    ),
    "probabilities that sum to 2": (
        lambda: metrics.expected_calibration_error([0], [[1.0, 1.0]]),
        "sum|probabilit",
    ),
    "a network of no such size": (
        lambda: KernelDensityNetwork("huge").fit(X, Y),
        "hidden_layer_sizes must be one of 'auto', 'paper'",
    ),
    "a forest of no trees": (lambda: KernelDensityForest(0).fit(X, Y), "n_estimators"),
}

GROUPS = {
    "labels": LABELS,
    "rows": ROWS,
    "frames": FRAMES,
    "parents": PARENTS,
    "settings": SETTINGS,
    "other rows": OTHER_ROWS,
    "queries": QUERIES,
}
CASES = {
    f"{group}: {name}": case for group, cases in GROUPS.items() for name, case in cases.items()
}
