"""``save`` and ``load``: a fitted model as a manifest and arrays, and the model from them."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import check_is_fitted

from ..calibration.fitted_model import FittedModel
from ..core.roles import ColumnRoles
from ..estimators import (
    BaseCalibrator,
    GeodesicCalibrator,
    KernelDensityForest,
    KernelDensityNetwork,
)
from .container import read, write
from .errors import AlteredFileError, UnknownTypeError
from .format1 import convert_state
from .parameters import pack_parameters, unpack_parameters
from .parents import Given, pack_parent, unpack_parent
from .state import PartReader, check_part, pack_part, require
from .values import Packer, Unpacker, expect_keys, expect_type

CLASSES: dict[str, type[BaseCalibrator]] = {
    cls.__name__: cls for cls in (GeodesicCalibrator, KernelDensityForest, KernelDensityNetwork)
}
LIBRARIES = (
    "polycal",
    "numpy",
    "sklearn",
    "skops",
    "lightgbm",
    "xgboost",
    "catboost",
    "torch",
    "skorch",
    "keras",
)


def save(model: BaseCalibrator, path: str | os.PathLike[str]) -> None:
    """Write a fitted model; see ``BaseCalibrator.save``."""
    check_is_fitted(model, "model_")
    name = type(model).__name__
    if type(model) is not CLASSES.get(name):
        raise UnknownTypeError(
            f"a model file does not hold {name}. Save an estimator of one of the classes "
            f"{', '.join(CLASSES)}."
        )
    if vars(model).get("stream_", model.model_.stream) is not model.model_.stream:
        raise ValueError(
            "rows were added that the model does not answer by yet, since a call of partial_fit "
            "was interrupted. Call recalibrate() first."
        )
    packer = Packer()
    parameters = model.get_params(deep=False)
    parent = parameters.pop("estimator", None)
    names = getattr(model, "feature_names_in_", None)
    manifest = {
        "class": name,
        "versions": {},
        "parameters": pack_parameters(packer, parameters, name),
        "state": {
            "classes": packer.value("classes", model.classes_),
            "features": getattr(model, "n_features_in_", None),
            "names": packer.value("feature_names_in_", names),
            "columns": model.columns_ and pack_part(packer, model.columns_, "columns"),
            "model": pack_part(packer, model.model_, "model"),
        },
        # How the user gave the parameter ``estimator``: not at all, frozen, or to be fitted.
        "given": None
        if parent is None
        else ("frozen" if isinstance(parent, FrozenEstimator) else "plain"),
        "parent": pack_parent(packer, model.estimator_),
    }
    # Now that the parent is packed, all libraries that it took are imported.
    manifest["versions"] = {"python": platform.python_version()} | _versions()
    write(path, manifest, packer.arrays)


def load(
    path: str | os.PathLike[str], module: Any, trusted: Sequence[Any], isolate: bool = False
) -> BaseCalibrator:
    """The model of a file; see ``polycal.load``."""
    try:
        return _load(path, module, trusted, isolate)
    except RecursionError as error:
        raise AlteredFileError(f"{path} holds values inside each other without end.") from error


def _load(
    path: str | os.PathLike[str], module: Any, trusted: Sequence[Any], isolate: bool
) -> BaseCalibrator:
    version, manifest, arrays = read(path)
    keys = ("class", "versions", "parameters", "state", "given", "parent")
    name, _, parameters, state, given, parent = expect_keys(manifest, *keys)
    if expect_type(str, name) not in CLASSES:
        raise AlteredFileError(
            f"the file holds a {name[:40]!r}, which is no model that polycal knows."
        )
    plain = Unpacker(arrays)
    values = unpack_parameters(plain, parameters)
    known = CLASSES[name]().get_params(deep=False).keys() - {"estimator"}
    if not values.keys() <= known:  # a parameter that is newer than the file has its default
        raise AlteredFileError(f"the file has parameters that {name} does not have.")
    model = CLASSES[name](**values)
    for setting in ("n_jobs", "verbose"):  # queries use these two without another check
        value = getattr(model, setting)
        require(value is None or isinstance(value, (int, np.integer)), f"{setting} is not a number")
    if version == 1:
        state = convert_state(state, arrays)
    state = {"columns": None, **expect_type(dict, state)}  # files that are older have no roles
    parts = ("classes", "features", "names", "columns", "model")
    classes, features, names, columns, node = expect_keys(state, *parts)
    reader = PartReader(arrays)
    model.classes_ = expect_type(np.ndarray, reader.value(classes))
    require(model.classes_.ndim == 1 and len(model.classes_) > 1, "there are no classes")
    reader.lengths["classes"] = len(model.classes_)
    _restore_features(model, reader, features, names)
    if columns is not None:
        columns = {"decimal": None, **expect_type(dict, columns)}  # older files have no mark
        model.columns_ = reader.part(columns, (ColumnRoles,))
        known = set(getattr(model, "feature_names_in_", ()))
        require(known <= set(model.columns_.names), "a feature has no role")
    # older files have no kept rows, no streams, and nothing that one can go on from
    node = {"kept": None, "stream": None, "start": None, **expect_type(dict, node)}
    fields = reader.fields(node, FittedModel)
    context = Given(len(model.classes_), given == "frozen", module, trusted, isolate)
    adapter, unfitted = unpack_parent(plain, parent, context)
    model.model_ = FittedModel(parent=adapter, **fields)
    check_part(model.model_)
    if model.model_.stream is not None:
        require(isinstance(model, GeodesicCalibrator), "the model has no stream")
        model.stream_ = model.model_.stream
    _restore_estimator(model, unfitted, given)
    return model


def _restore_features(model: BaseCalibrator, reader: PartReader, features: Any, names: Any) -> None:
    if expect_type((int, type(None)), features) is not None:
        model.n_features_in_ = features
    if names is not None:
        names = expect_type(np.ndarray, reader.value(names))
        words = names.shape == (features,) and all(type(name) is str for name in names.tolist())
        require(words, "the feature names are not text, or there is not one for each feature")
        model.feature_names_in_ = names


def _restore_estimator(model: BaseCalibrator, unfitted: Any, given: Any) -> None:
    """The parameter ``estimator``, as the user gave it to the calibrator."""
    require(given in (None, "frozen", "plain"), "it is unknown how the parent was given")
    if given is None:
        return
    require(isinstance(model, GeodesicCalibrator), "the model takes no parent")
    model.estimator = FrozenEstimator(model.estimator_) if given == "frozen" else unfitted


def _versions() -> dict[str, str]:
    """Versions of the libraries that have been imported."""
    return {name: sys.modules[name].__version__ for name in LIBRARIES if name in sys.modules}
