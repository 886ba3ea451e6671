"""A fitted model to a manifest and arrays, and back."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import check_is_fitted

from ..estimators import (
    BaseCalibrator,
    GeodesicCalibrator,
    KernelDensityForest,
    KernelDensityNetwork,
)
from ..estimators.source import Source
from .container import read, write
from .errors import AlteredFileError, UnknownTypeError
from .parameters import pack_parameters, unpack_parameters
from .parents import Given, pack_parent, unpack_parent
from .state import (
    FAMILIAR,
    Reader,
    pack_fields,
    pack_gate,
    pack_landscape,
    pack_posterior,
    require,
    unpack_familiar,
    unpack_gate,
    unpack_landscape,
    unpack_posterior,
)
from .values import Packer, Unpacker, of, one

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
STATE = (
    "classes",
    "priors",
    "features",
    "names",
    "calibration",
    "false_alarm",
    "landscape",
    "posterior",
    "gate",
    "familiar",
)
PLANS = ("given", "holdout", "oob", "cv")


def save(model: BaseCalibrator, path: str | os.PathLike) -> None:
    """Write a fitted model; see ``BaseCalibrator.save``."""
    check_is_fitted(model, "polytopes_")
    name = type(model).__name__
    if type(model) is not CLASSES.get(name):
        raise UnknownTypeError(
            f"a model file does not hold {name}. Save the estimator it is made from: one of "
            f"{', '.join(CLASSES)}."
        )
    packer = Packer()
    parameters = model.get_params(deep=False)
    parent = parameters.pop("estimator", None)
    names = getattr(model, "feature_names_in_", None)
    manifest = {
        "class": name,
        "versions": {"python": platform.python_version()} | _versions(),
        "parameters": pack_parameters(packer, parameters, name),
        "state": {
            "classes": packer.value("classes", model.classes_),
            "priors": packer.array("priors", model.priors_),
            "features": getattr(model, "n_features_in_", None),
            "names": packer.value("feature_names_in_", names),
            "calibration": model.calibration_,
            "false_alarm": model.false_alarm_,
            "landscape": pack_landscape(packer, model._landscape),
            "posterior": pack_posterior(packer, model._posterior),
            "gate": pack_gate(model._gate),
            "familiar": pack_fields(packer, "familiar", model._familiar, FAMILIAR),
        },
        # How the parameter ``estimator`` came: not at all, frozen, or to be fitted.
        "given": None
        if parent is None
        else ("frozen" if isinstance(parent, FrozenEstimator) else "plain"),
        "parent": pack_parent(packer, model._parent.estimator),
    }
    write(path, manifest, packer.arrays)


def load(path: str | os.PathLike, module: Any, trusted: Sequence[Any]) -> BaseCalibrator:
    """The model of a file; see ``polycal.load``."""
    try:
        return _load(path, module, trusted)
    except RecursionError as error:
        raise AlteredFileError(f"{path} holds values inside each other without end.") from error


def _load(path: str | os.PathLike, module: Any, trusted: Sequence[Any]) -> BaseCalibrator:
    manifest, arrays = read(path)
    keys = ("class", "versions", "parameters", "state", "given", "parent")
    name, _, parameters, state, came, parent = one(manifest, *keys)
    if of(str, name) not in CLASSES:
        raise AlteredFileError(f"the file holds no model that polycal knows, but {name[:40]!r}.")
    plain = Unpacker(arrays)
    values = unpack_parameters(plain, parameters)
    known = CLASSES[name]().get_params(deep=False).keys() - {"estimator"}
    if not values.keys() <= known:  # one that came later has its default
        raise AlteredFileError(f"the file has other parameters than {name}.")
    model = CLASSES[name](**values)
    for setting in ("n_jobs", "verbose"):  # the two that queries use as they are
        value = getattr(model, setting)
        require(value is None or isinstance(value, (int, np.integer)), f"{setting} is no number")
    _restore(model, Reader(arrays, 0), state)
    _adopt(model, unpack_parent(plain, parent, Given(len(model.classes_), module, trusted)), came)
    return model


def _restore(model: BaseCalibrator, reader: Reader, node: Any) -> None:
    classes, priors, features, names, plan, level, landscape, posterior, gate, familiar = one(
        node, *STATE
    )
    require(plan in PLANS, "there is no such calibration")
    require(0 < of(float, level) < 1, "the false alarms are no share")
    model.calibration_, model.false_alarm_ = plan, level
    model.classes_ = of(np.ndarray, reader.value(classes))
    require(model.classes_.ndim == 1 and len(model.classes_) > 1, "there are no classes")
    reader.sizes["c"] = len(model.classes_)
    model.priors_ = reader.sized(priors, "float64 c")
    if of((int, type(None)), features) is not None:
        model.n_features_in_ = features
    if names is not None:
        names = of(np.ndarray, reader.value(names))
        words = names.shape == (features,) and all(type(name) is str for name in names.tolist())
        require(words, "names of features are none")
        model.feature_names_in_ = names
    place = unpack_landscape(reader, landscape)
    model._landscape, model.polytopes_ = place, place.polytopes
    model._posterior = unpack_posterior(reader, posterior, place.settings)
    model.gamma_, model.pool_weights_ = model._posterior.gamma, model._posterior.pool_weights
    model._gate = unpack_gate(reader, gate, place.settings)
    model.log_floor_ = model._gate.log_floor
    model._familiar = unpack_familiar(reader, familiar)


def _adopt(model: BaseCalibrator, restored: tuple[Any, Any], came: Any) -> None:
    """The parent in its places: read by, given as a parameter, and fitted anew."""
    parent, unfitted = restored
    require(came in (None, "frozen", "plain"), "the parent came in no way")
    model._parent = parent
    takes_parent = isinstance(model, GeodesicCalibrator)
    require(takes_parent or came is None, "the model takes no parent")
    if came is not None:
        model.estimator = FrozenEstimator(parent.estimator) if came == "frozen" else unfitted
    frozen = came == "frozen" or parent.pretrained
    model._source = Source(parent.estimator if frozen else unfitted, _family(parent), frozen)


def _family(parent: Any) -> Any:
    """The family as ``find_adapter`` names it."""
    return next(
        cls for cls in type(parent).__mro__ if cls.__module__.startswith("polycal.parents.")
    )


def _versions() -> dict[str, str]:
    """Of the libraries that are in use."""
    return {name: sys.modules[name].__version__ for name in LIBRARIES if name in sys.modules}
