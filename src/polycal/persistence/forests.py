"""scikit-learn's forests and trees, without skops: their trees are most of a file."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier

from ..core.reading import Reading
from ..parents.forest import ForestAdapter
from .errors import AlteredFileError
from .parameters import pack_parameters, unpack_parameters
from .trees import Trees
from .values import Packer, Unpacker, of, one

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
# All that a fit leaves beside the trees; another attribute is not ours to store.
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
    """A forest from a file; nodes to walk, or the estimator, are made when asked for."""

    def __init__(self, trees: Trees, make: Recipe):
        self._trees, self._make = trees, make

    def read(self, X: Any, verbose: int = 0) -> Reading:
        if not hasattr(self, "_nodes"):
            self._start, self._nodes, self._value = self._trees.walkable()
        return super().read(X, verbose)

    @cached_property
    def estimator(self) -> Any:
        return self._make.estimator(self._trees)

    @property
    def _jobs(self) -> int | None:
        return self._make.parameters.get("n_jobs")  # without making the estimator

    def unfitted(self) -> Any:
        return self._make.estimator(None)


class Recipe:
    """Everything about a forest but its trees."""

    def __init__(self, name: str, parameters: dict, fitted: dict, tree: dict, states: list):
        self.name, self.parameters, self.fitted = name, parameters, fitted
        self.tree, self.states = tree, states  # of each tree: fitted attributes, random_state

    @classmethod
    def of(cls, estimator: Any) -> Recipe | None:
        """None for an estimator that has more to it."""
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
                return None  # a forest that grew in parts, with other settings in between
        return cls(name, parameters, fitted, trees[0] or {}, states)

    def estimator(self, trees: Trees | None) -> Any:
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
    return clone(forest.estimator).set_params(**shared | {"random_state": None}).get_params()


def _fitted(estimator: Any, parameters: set[str]) -> dict[str, Any] | None:
    made = {"estimator", "estimator_params", "estimator_", "estimators_", "tree_"}
    left = {key: value for key, value in vars(estimator).items() if key not in parameters}
    found = {key: value for key, value in left.items() if key not in made}
    return found if found.keys() <= set(FITTED) else None


def _same(a: dict | None, b: dict | None) -> bool:
    if a is None or b is None or a.keys() != b.keys():
        return False
    return all(a[key] is b[key] or np.array_equal(a[key], b[key]) for key in a)


def _is(found: Any, number: int) -> bool:
    return isinstance(found, (int, np.integer)) and found == number


def pack_forest(packer: Packer, estimator: Any, recipe: Recipe) -> dict[str, Any]:
    trees = [tree.tree_ for tree in getattr(estimator, "estimators_", [estimator])]
    return {
        "kind": "forest",
        "class": recipe.name,
        "parameters": pack_parameters(packer, recipe.parameters, recipe.name),
        "fitted": packer.value("forest", recipe.fitted),
        "tree": packer.value("tree", recipe.tree),
        "states": packer.value("random_state of a tree", recipe.states),
        "trees": Trees.of(trees).pack(packer, "trees"),
    }


def unpack_forest(reader: Unpacker, node: Any, n_classes: int) -> StoredForest:
    keys = ("kind", "class", "parameters", "fitted", "tree", "states", "trees")
    _, name, parameters, *packed, trees = one(node, *keys)
    parameters = unpack_parameters(reader, parameters)
    fitted, tree, states = (reader.value(part) for part in packed)
    for value, kind in ((fitted, dict), (tree, dict), (states, list)):
        of(kind, value)
    known = CLASSES.get(of(str, name))
    if known is None or not parameters.keys() <= known().get_params().keys():
        raise AlteredFileError(f"the file holds no forest that polycal knows, but {name[:40]!r}.")
    if not fitted.keys() | tree.keys() <= set(FITTED):
        raise AlteredFileError("the file gives attributes to a forest that it does not have.")
    n_features = of(int, fitted.get("n_features_in_"))
    found = Trees.unpack(reader, trees, n_features)
    # scikit-learn compares rows with the forest alone, and walks down its trees without checks.
    wanted = {"n_features_in_": n_features, "n_outputs_": 1, "n_classes_": found.shape[1]}
    parts = (fitted, tree) if name in TREE_OF else (fitted,)
    plain = all(_is(part.get(key), value) for part in parts for key, value in wanted.items())
    n_trees = len(states) if name in TREE_OF else 1
    if not plain or found.shape[1] != n_classes or n_trees != len(found.n_nodes):
        raise AlteredFileError("the forest of the file does not fit its trees or its classes.")
    return StoredForest(found, Recipe(name, parameters, fitted, tree, states))
