"""What the rest of polycal asks of a parent."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from ..core.reading import ActivationModes, Reading
from ..core.table import n_columns

# A leaf id above every other; a query that holds it agrees with nothing there.
NO_LEAF = np.iinfo(np.int32).max


class Adapter(ABC):
    """A fitted classifier of one family.

    A new family is one file with one subclass, listed in ``parents/__init__.py``. Nothing here
    imports an optional library before an estimator of that library is there.
    """

    #: How the family is named in messages.
    family: str
    #: The estimator is always fitted: polycal never trains it.
    pretrained: bool = False
    #: Labels reach the estimator as codes 0..K-1, in the order of the sorted classes.
    needs_codes: bool = False
    #: Rows go to the estimator as they came: it has its own idea of what a table is.
    raw_input: bool = False
    #: Categories that are no numbers may reach the estimator.
    takes_categories: bool = False
    #: ``read`` takes a sparse matrix, which may mean something else than a dense one.
    reads_sparse: bool = False

    def __init__(self, estimator: Any):
        self.estimator = estimator

    @staticmethod
    @abstractmethod
    def problem(estimator: Any) -> str | None:
        """None if this family reads the estimator (fitted or not).

        Otherwise "" when it is another family, or a sentence that says what to do when
        it is this family with an unsupported setting.
        """

    @classmethod
    def wants_codes(cls, estimator: Any) -> bool:
        return cls.needs_codes

    @classmethod
    def labels(cls, estimator: Any, codes: NDArray, classes: NDArray) -> NDArray:
        """What goes into ``fit`` as y."""
        return codes if cls.wants_codes(estimator) else classes[codes]

    @classmethod
    def allows_missing(cls, estimator: Any) -> bool:
        """Whether NaN may reach the estimator."""
        return get_tags(estimator).input_tags.allow_nan

    @classmethod
    def check_table(cls, X: Any) -> None:
        """Refuse a table on which the library itself would crash."""
        return

    @classmethod
    def copy(cls, estimator: Any) -> Any:
        """An unfitted copy."""
        return clone(estimator)

    @classmethod
    def check_fitted(cls, estimator: Any) -> None:
        """Raise if the estimator was not fitted."""
        if not cls.pretrained:
            check_is_fitted(estimator)

    @classmethod
    def in_order(cls, X: Any) -> bool:
        """Whether the rows of X come in the same order each time."""
        return True

    @classmethod
    def same_names(cls, known: NDArray, names: NDArray) -> bool:
        """Whether the columns that a fitted estimator knows are these, in this order."""
        return np.array_equal(known, names)

    @classmethod
    def known_classes(cls, estimator: Any) -> NDArray | None:
        """Classes of a fitted estimator, in the order of the columns of ``read``."""
        return getattr(estimator, "classes_", None)

    @classmethod
    def known_features(cls, estimator: Any) -> int | None:
        """Number of features of a fitted estimator."""
        return getattr(estimator, "n_features_in_", None)

    @classmethod
    def has_out_of_bag(cls, estimator: Any) -> bool:
        """Whether each of its trees leaves out some rows, and which ones is known."""
        return False

    def feature_names(self, seen: Any, given: NDArray | None) -> list[str]:
        """Names of the columns of ``Reading.features``; ``given`` are those of the user's rows."""
        width = n_columns(seen)
        if hasattr(seen, "columns"):
            return [str(name) for name in seen.columns]
        if given is not None and len(given) == width:
            return [str(name) for name in given]
        return [f"x{j}" for j in range(width)]

    @property
    def gpu(self) -> str | None:
        """The CUDA device that the estimator runs on, where kernels may run too."""
        return None

    @abstractmethod
    def read(self, X: Any, verbose: int = 0) -> Reading:
        """Activation modes, probabilities, and the rows as the classifier sees them."""

    def out_of_bag(self, reading: Reading) -> tuple[Reading, NDArray]:
        """The training rows, each read by the trees that did not see it, and their share.

        In the other trees a row has the symbol ``NO_LEAF``, which equals no stored one.
        """
        raise NotImplementedError


def is_a(estimator: Any, package: str, *names: str) -> bool:
    """Whether the class or a base of it is called so in the package, without importing it."""
    return any(
        base.__name__ in names and base.__module__.split(".")[0] == package
        for base in type(estimator).__mro__
    )


def check_float32(values: NDArray) -> None:
    """scikit-learn's trees compare in float32: larger numbers get a clear error."""
    largest = np.fmax.reduce(np.abs(values), axis=None, initial=0.0)
    if largest > np.finfo(np.float32).max:
        raise ValueError(
            f"X holds values up to {largest:.3g}, beyond the range of float32 (3.4e38) that "
            "scikit-learn's trees can compare. Rescale or clip that feature."
        )


def out_of_bag_reading(reading: Reading, estimator: Any, votes: Any) -> tuple[Reading, NDArray]:
    """``Adapter.out_of_bag`` of an ensemble; votes(t, leaves) are a tree's probabilities."""
    leaves = reading.modes.codes
    out = np.ones(leaves.shape, dtype=bool)
    for tree, samples in enumerate(estimator.estimators_samples_):
        out[samples, tree] = False
    proba = np.zeros_like(reading.proba)
    for tree in range(leaves.shape[1]):
        rows = out[:, tree]
        proba[rows] += votes(tree, leaves[rows, tree])
    n_out = out.sum(axis=1)
    modes = ActivationModes.from_leaves(np.where(out, leaves, NO_LEAF))
    proba /= np.maximum(n_out, 1)[:, None]
    return Reading(modes, proba, reading.features), n_out / leaves.shape[1]
