"""scikit-learn's forests and trees, without skops: smaller, faster, and built at first use."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier

from .._utils.arrays import Array
from ..parents import Adapter
from ..parents.forest import ForestAdapter, PackedTrees
from .errors import AlteredFileError
from .parameters import pack_parameters, unpack_parameters
from .trees import Trees
from .values import Packer, Unpacker, expect_keys, expect_type

CLASSES = {
    cls.__name__: cls
    for cls in (
        RandomForestClassifier,
        ExtraTreesClassifier,
        DecisionTreeClassifier,
        ExtraTreeClassifier,
    )
}
TREE_OF = {
    "RandomForestClassifier": DecisionTreeClassifier,
    "ExtraTreesClassifier": ExtraTreeClassifier,
}
# All attributes that a fit sets beside the trees. A forest with others is stored through skops.
FITTED = (
    "n_features_in_",
    "feature_names_in_",
    "n_outputs_",
    "classes_",
    "n_classes_",
    "max_features_",
    "_n_samples",
    "_n_samples_bootstrap",
    "_sample_weight",
    "oob_score_",
    "oob_decision_function_",
)


class StoredForest(ForestAdapter):
    """A forest from a file. Its packed trees and its estimator are made at their first use."""

    def __init__(self, trees: Trees, settings: ForestSettings) -> None:
        self._trees, self._settings = trees, settings
        self.is_fitted = True

    @cached_property
    def estimator(self) -> Any:
        return self._settings.estimator(self._trees)

    @cached_property
    def _packed(self) -> PackedTrees:
        return PackedTrees(*self._trees.walkable())

    # The methods below are overridden because those of the base class use the estimator.

    @cached_property
    def allows_missing(self) -> bool:
        return ForestAdapter(self.copy()).allows_missing

    @property
    def _n_jobs(self) -> int | None:
        n_jobs: int | None = self._settings.parameters.get("n_jobs")
        return n_jobs

    def copy(self) -> Any:
        return self._settings.estimator(None)

    def fit(
        self,
        X: Any,
        codes: Array,
        classes: Array,
        sample_weight: Array | None = None,
        **parameters: Any,
    ) -> Adapter:
        return ForestAdapter(self.copy()).fit(X, codes, classes, sample_weight)


@dataclass(frozen=True)
class ForestSettings:
    """Everything about a forest but its trees."""

    name: str  # of its class
    parameters: dict[str, Any]
    fitted: dict[str, Any]  # attributes that the fit has set
    tree: dict[str, Any]  # the same of each tree, which all trees share
    states: list[Any]  # random_state of each tree

    @classmethod
    def from_estimator(cls, estimator: Any) -> ForestSettings | None:
        """None for an estimator that these fields do not describe completely."""
        name = type(estimator).__name__
        if type(estimator) is not CLASSES.get(name):
            return None
        parameters = estimator.get_params(deep=False)
        fitted = _fitted(estimator, set(parameters))
        if fitted is None:
            return None
        if name not in TREE_OF:
            return cls(name, parameters, fitted, {}, [])
        parts, blank = estimator.estimators_, _blank(estimator)
        trees = [_fitted(tree, set(blank)) for tree in parts]
        made = [{key: vars(tree).get(key) for key in blank} for tree in parts]
        states = [own.pop("random_state") for own in made]
        del blank["random_state"]
        for tree, own, part in zip(trees, made, parts, strict=True):
            if (
                type(part) is not TREE_OF[name]
                or not _same(own, blank)
                or not _same(tree, trees[0])
            ):
                return None  # fitted with warm_start, and its settings changed in between
        return cls(name, parameters, fitted, trees[0] or {}, states)

    def estimator(self, trees: Trees | None) -> Any:
        """The fitted estimator; without trees, an unfitted one."""
        estimator = CLASSES[self.name](**self.parameters)
        if trees is None:
            return estimator
        vars(estimator).update(self.fitted)
        single = self.name not in TREE_OF
        fitted = self.fitted if single else self.tree
        n_classes = np.atleast_1d(np.asarray(fitted["n_classes_"], dtype=np.intp))
        built = trees.build(fitted["n_features_in_"], n_classes)
        if single:
            (estimator.tree_,) = built
            return estimator
        estimator.estimator_ = clone(estimator.estimator)
        estimator.estimators_ = []
        names = estimator.estimator_params
        shared = {key: getattr(estimator, key) for key in names}
        for tree_, state in zip(built, self.states, strict=True):
            tree = TREE_OF[self.name](**shared | {"random_state": state})
            vars(tree).update(self.tree)
            tree.tree_ = tree_
            estimator.estimators_.append(tree)
        return estimator


def _blank(forest: Any) -> dict[str, Any]:
    """Parameters of the trees that the forest would make."""
    shared = {key: getattr(forest, key) for key in forest.estimator_params}
    tree = clone(forest.estimator).set_params(**shared | {"random_state": None})
    return dict(tree.get_params())


def _fitted(estimator: Any, parameters: set[str]) -> dict[str, Any] | None:
    """Attributes that the fit has set; None if there is one that a file does not hold."""
    made = {"estimator", "estimator_params", "estimator_", "estimators_", "tree_"}
    left = {key: value for key, value in vars(estimator).items() if key not in parameters}
    found = {key: value for key, value in left.items() if key not in made}
    return found if found.keys() <= set(FITTED) else None


def _same(a: dict[str, Any] | None, b: dict[str, Any] | None) -> bool:
    if a is None or b is None or a.keys() != b.keys():
        return False
    return all(a[key] is b[key] or np.array_equal(a[key], b[key]) for key in a)


def _is_number(found: Any, number: int) -> bool:
    return isinstance(found, (int, np.integer)) and found == number


def pack_forest(packer: Packer, estimator: Any, settings: ForestSettings) -> dict[str, Any]:
    """A forest or a single tree."""
    trees = [tree.tree_ for tree in getattr(estimator, "estimators_", [estimator])]
    return {
        "kind": "forest",
        "class": settings.name,
        "parameters": pack_parameters(packer, settings.parameters, settings.name),
        "fitted": packer.value("forest", settings.fitted),
        "tree": packer.value("tree", settings.tree),
        "states": packer.value("random_state of a tree", settings.states),
        "trees": Trees.from_sklearn(trees).pack(packer, "trees"),
    }


def unpack_forest(reader: Unpacker, node: Any, n_classes: int) -> StoredForest:
    """The forest that ``pack_forest`` stored; its trees are checked, and not built yet."""
    keys = ("kind", "class", "parameters", "fitted", "tree", "states", "trees")
    _, name, parameters, *packed, trees = expect_keys(node, *keys)
    parameters = unpack_parameters(reader, parameters)
    fitted, tree, states = (reader.value(part) for part in packed)
    for value, kind in ((fitted, dict), (tree, dict), (states, list)):
        expect_type(kind, value)
    known = CLASSES.get(expect_type(str, name))
    if known is None or not parameters.keys() <= known().get_params().keys():
        raise AlteredFileError(
            f"the file holds a {name[:40]!r}, which is no forest that polycal knows."
        )
    if not fitted.keys() | tree.keys() <= set(FITTED):
        raise AlteredFileError("the file gives attributes to a forest that it does not have.")
    n_features = expect_type(int, fitted.get("n_features_in_"))
    found = Trees.unpack(reader, trees, n_features)
    # scikit-learn checks the rows against the forest, and walks down the trees without checks.
    expected = {"n_features_in_": n_features, "n_outputs_": 1, "n_classes_": found.shape[1]}
    parts = (fitted, tree) if name in TREE_OF else (fitted,)
    fits = all(
        _is_number(part.get(key), value) for part in parts for key, value in expected.items()
    )
    n_jobs = parameters.get("n_jobs")
    fits &= n_jobs is None or isinstance(n_jobs, (int, np.integer))
    n_trees = len(states) if name in TREE_OF else 1
    fits &= found.holds_probabilities
    if not fits or found.shape[1] != n_classes or n_trees != len(found.n_nodes):
        raise AlteredFileError("the forest of the file does not fit its trees or its classes.")
    return StoredForest(found, ForestSettings(name, parameters, fitted, tree, states))
