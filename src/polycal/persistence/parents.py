"""Parents: a form of storage for each family, the safest and smallest that there is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sklearn.pipeline import Pipeline

from ..parents import Adapter
from ..parents.base import wrap
from .boosting import is_boosting, pack_boosting, unpack_boosting
from .errors import AlteredFileError, WrongModuleError
from .forests import ForestSettings, pack_forest, unpack_forest
from .networks import network_kind, pack_network, unpack_network
from .parameters import pack_parameters, unpack_parameters
from .sklearn import pack_sklearn, unpack_sklearn
from .values import Packer, Unpacker, expect_keys, expect_type

NETWORKS = ("keras", "torch", "skorch")


@dataclass(frozen=True)
class Given:
    """What a parent is restored with: facts about the model, and what the user gave ``load``."""

    n_classes: int
    frozen: bool  # the parent was fitted before, and is never fitted again
    module: Any
    trusted: Sequence[Any]
    isolate: bool = False  # whether boosters are tried in a child process first


def pack_parent(packer: Packer, estimator: Any) -> dict[str, Any]:
    """A fitted estimator, in the form of its family."""
    settings = ForestSettings.from_estimator(estimator)
    if settings is not None:
        return pack_forest(packer, estimator, settings)
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
    """The fitted parent, and an estimator to fit again; None if the parent was frozen.

    Not every frozen parent has an unfitted copy: a Pipeline that ends in a trained network has
    none.
    """
    kind = node.get("kind") if isinstance(node, dict) else None
    if kind == "forest" and given.module is None:
        forest = unpack_forest(reader, node, given.n_classes)
        return forest, None if given.frozen else forest.copy()
    fitted, unfitted = unpack_estimator(reader, node, given)
    try:
        adapter = wrap(fitted, is_fitted=True)
        if given.frozen:
            return adapter, None
        return adapter, adapter.copy() if unfitted is None else unfitted
    except (TypeError, ValueError, AttributeError) as error:
        raise AlteredFileError(f"the parent of the file cannot be read: {error}") from error


def unpack_estimator(reader: Unpacker, node: Any, given: Given) -> tuple[Any, Any]:
    """The fitted estimator, and one to fit again; None if its adapter can make one."""
    kind = node.get("kind") if isinstance(node, dict) else None
    if kind == "pipeline":
        return _pipeline(reader, node, given)
    if kind in NETWORKS:
        network = unpack_network(reader, node, given.module)
        return network, network
    if given.module is not None:
        raise WrongModuleError(
            "module is given, but the file holds the complete model. Use polycal.load(path)."
        )
    if kind == "forest":
        forest = unpack_forest(reader, node, given.n_classes)
        return forest.estimator, forest.copy()
    if kind == "boosting":
        return unpack_boosting(reader, node, given.isolate)
    if kind == "sklearn":
        return unpack_sklearn(reader, node, given.trusted), None
    raise AlteredFileError(f"the file holds an unknown kind of parent, {str(kind)[:40]!r}.")


def _pipeline(reader: Unpacker, node: Any, given: Given) -> tuple[Pipeline, Any]:
    _, parameters, first, name, last = expect_keys(
        node, "kind", "parameters", "first", "name", "last"
    )
    steps = unpack_sklearn(reader, first, given.trusted)
    fitted, unfitted = unpack_estimator(reader, last, given)
    values = unpack_parameters(reader, parameters)
    if not values.keys() <= {"memory", "transform_input", "verbose"}:
        raise AlteredFileError("the file gives parameters to a Pipeline that it does not have.")
    pipeline = Pipeline([*expect_type(list, steps), (expect_type(str, name), fitted)], **values)
    if not given.frozen and unfitted is not None and unfitted is not fitted:
        try:
            copied = wrap(pipeline).copy()
        except (TypeError, ValueError, AttributeError) as error:
            raise AlteredFileError(f"the Pipeline of the file is not complete: {error}") from error
        copied.steps[-1] = (name, unfitted)
        return pipeline, copied
    return pipeline, None
