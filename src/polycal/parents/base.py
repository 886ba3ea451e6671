"""What the rest of polycal asks of a parent: one adapter for each family of classifiers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from .._utils.arrays import Array, Floats, Ints
from .._utils.labels import class_columns
from ..core.reading import ActivationModes, Reading
from ..core.table import n_columns, numbers_of

# A leaf id above every other: a row that holds it agrees with no stored row in that tree.
NO_LEAF = np.int32(np.iinfo(np.int32).max)

# (top-level package, class name) -> the adapter that handles that class and its subclasses.
_ADAPTERS: dict[tuple[str, str], type[Adapter]] = {}


class Adapter(ABC):
    """An estimator of one family, fitted or not, and how polycal uses it.

    A new family is one file with one subclass; the subclass registers itself by its ``handles``
    when ``parents/__init__.py`` imports the file. No optional library is imported before an
    estimator of that library is there.

    Parameters
    ----------
    estimator : object
        It is stored as it is: not copied, not checked, not read.
    is_fitted : bool, default=False
        The estimator is fitted, and polycal does not fit it again. Always True for a family
        that is ``pretrained``.
    """

    #: Name of the family in messages.
    family: ClassVar[str]
    #: (top-level package, class name) of the estimators, and of those refused with a reason.
    handles: ClassVar[tuple[tuple[str, str], ...]] = ()
    #: The estimator is always fitted: polycal never trains it.
    pretrained: ClassVar[bool] = False
    #: The estimator compares numbers in float32, and refuses larger ones without their column.
    single_precision: ClassVar[bool] = False
    #: The estimator is fitted on codes 0..K-1, in the order of the sorted classes.
    needs_codes: ClassVar[bool] = False
    #: X goes to the estimator unchecked and unconverted: it may be something else than a table.
    raw_input: ClassVar[bool] = False
    #: The estimator accepts columns of categories that are not numbers.
    takes_categories: ClassVar[bool] = False
    #: ``read`` accepts a sparse matrix, which may mean something else than a dense one.
    reads_sparse: ClassVar[bool] = False

    def __init__(self, estimator: Any, *, is_fitted: bool = False):
        self.estimator = estimator
        self.is_fitted = is_fitted or self.pretrained

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        # Inherited handles stay with the class that declares them.
        for handle in cls.__dict__.get("handles", ()):
            _ADAPTERS[handle] = cls

    @classmethod
    def find(cls, estimator: Any) -> Adapter:
        """The adapter of an estimator as the user gives it, fitted or not.

        An estimator inside a ``FrozenEstimator`` is used as it is and must be fitted. A
        pretrained one is copied, so that polycal does not follow later changes of the user's
        object.

        Raises
        ------
        TypeError
            If no family reads this estimator. The message says what to use instead.
        """
        if isinstance(estimator, FrozenEstimator):
            adapter = wrap(estimator.estimator, is_fitted=True)
            adapter.check_fitted()
            return adapter
        adapter = wrap(estimator)
        if adapter.pretrained:
            adapter.estimator = adapter.copy()
        return adapter

    @classmethod
    def opened(cls, estimator: Any) -> Any:
        """The estimator in the form that the family reads; a raw booster becomes a classifier.

        Raises
        ------
        TypeError
            If that cannot be. The message says what to use instead.
        """
        return estimator

    @classmethod
    def is_for(cls, estimator: Any) -> bool:
        """Whether an estimator of the handled classes has modes that this family reads."""
        return True

    def problem(self) -> str | None:
        """None if rows can be read with this estimator; else a sentence that says what to do."""
        return None

    # ------------------------------------------------------------ before and during the fit

    @property
    def wants_codes(self) -> bool:
        """Whether this estimator is fitted on class codes in place of the labels."""
        return self.needs_codes

    def labels(self, codes: Ints, classes: Array) -> Array:
        """The y that ``fit`` of the estimator takes."""
        return codes if self.wants_codes else classes[codes]

    @cached_property
    def allows_missing(self) -> bool:
        """Whether the estimator accepts NaN."""
        return bool(get_tags(self.estimator).input_tags.allow_nan)

    def check_table(self, X: Any) -> None:
        """Raise for a table that would crash the library."""
        return

    def in_order(self, X: Any) -> bool:
        """Whether the rows of X come in the same order each time."""
        return True

    @property
    def has_out_of_bag(self) -> bool:
        """Whether each tree leaves out some training rows, and it is known which ones."""
        return False

    def copy(self) -> Any:
        """An unfitted copy of the estimator; of a pretrained one, a copy that is trained too."""
        return clone(self.estimator)

    def fit(
        self,
        X: Any,
        codes: Ints,
        classes: Array,
        sample_weight: Floats | None = None,
        **parameters: Any,
    ) -> Adapter:
        """The adapter of a new copy of the estimator, fitted on these rows.

        Parameters
        ----------
        X : table of shape (n_samples, n_features), or what the estimator takes
        codes : ndarray of shape (n_samples,)
            Position of each row's class in ``classes``.
        classes : ndarray of shape (n_classes,), sorted
        sample_weight : ndarray of shape (n_samples,), optional
        **parameters : dict
            Other arguments of ``fit`` of the estimator. An ``eval_set`` is a list of rows with
            their labels, which are given as the estimator takes them.
        """
        estimator = self.copy()
        weights = {} if sample_weight is None else self.weight_argument(sample_weight)
        if "eval_set" in parameters:
            shown = [
                (rows, self.labels(class_columns(y, classes), classes))
                for rows, y in parameters["eval_set"]
            ]
            parameters = parameters | {"eval_set": shown}
        if self.single_precision:
            check_float32(X)
        estimator.fit(X, self.labels(codes, classes), **weights, **parameters)
        return type(self)(estimator, is_fitted=True)

    def weight_argument(self, sample_weight: Floats) -> dict[str, Floats]:
        """The keyword argument of ``fit`` that carries the weights."""
        if not has_fit_parameter(self.estimator, "sample_weight"):
            raise ValueError(
                f"sample_weight was given, but {type(self.estimator).__name__}.fit does not take "
                "it. Leave it out, or fit the parent yourself and freeze it."
            )
        return {"sample_weight": sample_weight}

    # ------------------------------------------------------------ of a fitted estimator

    def check_fitted(self) -> None:
        """Raise if the estimator is not fitted."""
        if not self.pretrained:
            check_is_fitted(self.estimator)

    @property
    def known_classes(self) -> Array | None:
        """Classes of a fitted estimator, in the order of the columns of ``Reading.proba``."""
        return getattr(self.estimator, "classes_", None)

    @property
    def known_features(self) -> int | None:
        """Number of features of a fitted estimator."""
        return getattr(self.estimator, "n_features_in_", None)

    def same_names(self, known: Array, names: Array) -> bool:
        """Whether the feature names of a fitted estimator are these, in this order."""
        return np.array_equal(known, names)

    def check_features(self, n_features: int | None, names: Array | None) -> None:
        """Raise if a fitted estimator was fitted on other features than those of X."""
        known = getattr(self.estimator, "feature_names_in_", None)
        if known is not None and names is not None and not self.same_names(known, names):
            raise ValueError(
                f"X has the feature names {list(names)}; the frozen estimator was fitted on "
                f"{list(known)}. Give the same columns in the same order."
            )
        expected = self.known_features
        if expected is not None and n_features is not None and expected != n_features:
            raise ValueError(
                f"X has {n_features} features; the frozen estimator was fitted on {expected}. "
                "Give the features it was fitted on."
            )

    def check_classes(self, classes: Array, proba: Array) -> None:
        """Raise if a fitted estimator has other classes than those of y, or than their codes."""
        if proba.shape[1] != len(classes):
            raise ValueError(
                f"the parent gives {proba.shape[1]} probabilities to each row; y holds the "
                f"{len(classes)} classes {classes.tolist()[:20]}. Give rows of exactly its classes."
            )
        known = self.known_classes
        if known is None:
            return
        coded = self.wants_codes and np.array_equal(known, np.arange(len(classes)))
        if not coded and not np.array_equal(known, classes):
            raise ValueError(
                f"the frozen estimator knows the classes {np.asarray(known).tolist()}, y holds "
                f"{classes.tolist()}. Give rows of exactly its classes."
            )

    def feature_names(self, features: Any, given: Array | None) -> list[str]:
        """Names of the columns of ``Reading.features``.

        Parameters
        ----------
        features : table
            ``Reading.features``.
        given : ndarray of str, optional
            Names of the columns of the user's X.
        """
        n_features = n_columns(features)
        if hasattr(features, "columns"):
            return [str(name) for name in features.columns]
        if given is not None and len(given) == n_features:
            return [str(name) for name in given]
        return [f"x{j}" for j in range(n_features)]

    @property
    def gpu(self) -> str | None:
        """The CUDA device that the estimator runs on, and kernels may run on; None without."""
        return None

    @abstractmethod
    def read(self, X: Any, verbose: int = 0) -> Reading:
        """Activation modes and probabilities of the rows, and the classifier's own input."""

    def out_of_bag(self, reading: Reading, groups: Ints | None = None) -> tuple[Reading, Floats]:
        """The training rows, each read by the trees that were not fitted on it.

        Parameters
        ----------
        reading : Reading
            The training rows, read by all trees.
        groups : ndarray of shape (n_samples,), default=None
            Group of each row, from 0 on. A tree that was fitted on a row of the group does not
            count as one that was not fitted on the others.

        Returns
        -------
        reading : Reading
            A row has the leaf ``NO_LEAF`` in the trees that were fitted on it.
        share : ndarray of shape (n_samples,)
            The share of the trees that were not fitted on the row.
        """
        raise NotImplementedError


def check_float32(X: Any) -> None:
    """Raise for numbers beyond float32, in which scikit-learn's trees compare."""
    values = numbers_of(X)
    largest = np.fmax.reduce(np.abs(values), axis=0, initial=0.0)
    column = int(largest.argmax())
    if largest[column] > np.finfo(np.float32).max:
        name = repr(str(X.columns[column])) if hasattr(X, "columns") else column
        raise ValueError(
            f"column {name} holds values up to {largest[column]:.3g}, beyond the range of float32 "
            "(3.4e38) that scikit-learn's trees can compare. If they stand for missing values, "
            "make them NaN; otherwise rescale or clip that feature."
        )


def wrap(estimator: Any, *, is_fitted: bool = False) -> Adapter:
    """The adapter of this very object: ``Adapter.find`` without unfreezing and copying."""
    if isinstance(estimator, type):
        raise TypeError(
            f"estimator must be an instance; got the class. Use {estimator.__name__}()."
        )
    from .classifier import ClassifierAdapter  # a subclass of what is defined here

    name, family = type(estimator).__name__, _registered(estimator)
    if family is None or not family.is_for(estimator):
        family = ClassifierAdapter
    try:
        opened = family.opened(estimator)
    except TypeError as error:
        raise TypeError(f"estimator={name} is not supported: {error}.") from error
    adapter = family(opened, is_fitted=is_fitted or opened is not estimator)
    reason = adapter.problem()
    if reason is None:
        return adapter
    if "; use " in reason or "Available: " in reason:  # it says what to do
        raise TypeError(f"estimator={name} is not supported: {reason.rstrip('.')}.")
    families: dict[type[Adapter], None] = dict.fromkeys([*_ADAPTERS.values(), ClassifierAdapter])
    supported = "; ".join(known.family for known in families)
    raise TypeError(
        f"estimator={name} is not supported: {reason.rstrip('.')}. Supported: {supported}."
    )


def _registered(estimator: Any) -> type[Adapter] | None:
    """The adapter that is registered for the class of the estimator, or for its nearest base."""
    handles = ((_package(base), base.__name__) for base in type(estimator).__mro__)
    return next((_ADAPTERS[handle] for handle in handles if handle in _ADAPTERS), None)


def is_a(value: Any, package: str, *names: str) -> bool:
    """Whether the class of a value, or a base of it, has one of these names in the package.

    As ``isinstance``, without importing the package.
    """
    return any(base.__name__ in names and _package(base) == package for base in type(value).__mro__)


def _package(cls: type) -> str:
    return cls.__module__.split(".")[0]


def out_of_bag_reading(
    reading: Reading,
    estimator: Any,
    votes: Callable[[int, Array], Array],
    groups: Ints | None = None,
) -> tuple[Reading, Floats]:
    """``Adapter.out_of_bag`` of an ensemble.

    ``votes(t, leaves)`` gives the class probabilities in these leaves of tree t.
    """
    leaves = reading.modes.codes
    out = np.ones(leaves.shape, dtype=bool)  # (n_samples, n_trees)
    for tree, samples in enumerate(estimator.estimators_samples_):
        out[samples, tree] = False
    if groups is not None:
        order = np.argsort(groups, kind="stable")
        first = np.searchsorted(groups[order], np.arange(groups.max() + 1))
        out = np.logical_and.reduceat(out[order], first, axis=0)[groups]
    proba = np.zeros_like(reading.proba)
    for tree in range(leaves.shape[1]):
        rows = out[:, tree]
        proba[rows] += votes(tree, leaves[rows, tree])
    n_out = out.sum(axis=1)
    modes = ActivationModes.from_leaves(np.where(out, leaves, NO_LEAF))
    proba /= np.maximum(n_out, 1)[:, None]
    return Reading(modes, proba, reading.features), n_out / leaves.shape[1]
