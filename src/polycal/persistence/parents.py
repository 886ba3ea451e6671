"""Parents: each family in the form that is safest and smallest for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sklearn.pipeline import Pipeline

from ..parents import Adapter, find_adapter
from .boosting import is_boosting, pack_boosting, unpack_boosting
from .errors import AlteredFileError, WrongModuleError
from .forests import Recipe, pack_forest, unpack_forest
from .networks import network_kind, pack_network, unpack_network
from .parameters import pack_parameters, unpack_parameters
from .sklearn import pack_sklearn, unpack_sklearn
from .values import Packer, Unpacker, of, one

NETWORKS = ("keras", "torch", "skorch")


@dataclass(frozen=True)
class Given:
    """What the user gives to ``load``, and what is known of the model."""

    n_classes: int
    module: Any
    trusted: Sequence[Any]


def pack_parent(packer: Packer, estimator: Any) -> dict[str, Any]:
    recipe = Recipe.of(estimator)
    if recipe is not None:
        return pack_forest(packer, estimator, recipe)
    if type(estimator) is Pipeline:
        *first, (name, last) = estimator.steps
        parameters = estimator.get_params(deep=False)
        del parameters["steps"]
        return {
            "kind": "pipeline",
            "parameters": pack_parameters(packer, parameters, "Pipeline"),
            "first": pack_sklearn(packer, first, "steps"),
            "name": name,
            "last": pack_parent(packer, last),
        }
    if is_boosting(estimator):
        return pack_boosting(packer, estimator)
    if network_kind(estimator):
        return pack_network(packer, estimator)
    return pack_sklearn(packer, estimator)


def unpack_parent(reader: Unpacker, node: Any, given: Given) -> tuple[Adapter, Any]:
    """The parent, and an unfitted copy of it (None where the family can make one)."""
    kind = node.get("kind") if isinstance(node, dict) else None
    if kind == "forest" and given.module is None:
        forest = unpack_forest(reader, node, given.n_classes)
        return forest, forest.unfitted()
    estimator, unfitted = unpack_estimator(reader, node, given)
    try:
        family = find_adapter(estimator)
        return family(estimator), family.copy(estimator) if unfitted is None else unfitted
    except (TypeError, ValueError, AttributeError) as error:
        raise AlteredFileError(f"the parent of the file cannot be read: {error}") from error


def unpack_estimator(reader: Unpacker, node: Any, given: Given) -> tuple[Any, Any]:
    kind = node.get("kind") if isinstance(node, dict) else None
    if kind == "pipeline":
        return _pipeline(reader, node, given)
    if kind in NETWORKS:
        network = unpack_network(reader, node, given.module)
        return network, network
    if given.module is not None:
        raise WrongModuleError(
            "module is given, but the file holds the whole model. Use polycal.load(path)."
        )
    if kind == "forest":
        forest = unpack_forest(reader, node, given.n_classes)
        return forest.estimator, forest.unfitted()
    if kind == "boosting":
        return unpack_boosting(reader, node)
    if kind == "sklearn":
        return unpack_sklearn(reader, node, given.trusted), None
    raise AlteredFileError(f"the file holds an unknown kind of parent, {str(kind)[:40]!r}.")


def _pipeline(reader: Unpacker, node: Any, given: Given) -> tuple[Pipeline, Any]:
    _, parameters, first, name, last = one(node, "kind", "parameters", "first", "name", "last")
    steps = unpack_sklearn(reader, first, given.trusted)
    fitted, unfitted = unpack_estimator(reader, last, given)
    values = unpack_parameters(reader, parameters)
    if not values.keys() <= {"memory", "transform_input", "verbose"}:
        raise AlteredFileError("the file gives parameters to a Pipeline that it does not have.")
    pipeline = Pipeline([*of(list, steps), (of(str, name), fitted)], **values)
    if unfitted is not None and unfitted is not fitted:
        try:
            copied = find_adapter(pipeline).copy(pipeline)
        except (TypeError, ValueError, AttributeError) as error:
            raise AlteredFileError(f"the Pipeline of the file is not whole: {error}") from error
        copied.steps[-1] = (name, unfitted)
        return pipeline, copied
    return pipeline, None
