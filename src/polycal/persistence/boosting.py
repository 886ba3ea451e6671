"""LightGBM, XGBoost and CatBoost: the library's own format, and the parameters beside it.

The checksum protects this content from damage. Against forged content it is only as safe as the
library that reads it.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.preprocessing import LabelEncoder

from .._utils.optional import optional
from .errors import AlteredFileError, ModelFileError, UnknownTypeError
from .isolated import try_in_child
from .parameters import pack_parameters, unpack_parameters
from .values import Packer, Unpacker, expect_keys, expect_type

CLASSES = {
    "LGBMClassifier": "lightgbm",
    "XGBClassifier": "xgboost",
    "XGBRFClassifier": "xgboost",
    "CatBoostClassifier": "catboost",
}
# What LightGBM's wrapper keeps beside its booster.
LIGHTGBM = {
    "_best_iteration": (int, type(None)),
    "_classes": np.ndarray,
    "_fitted_with_feature_names": (bool, type(None)),
    "_n_classes": int,
    "_n_features": int,
    "_n_features_in": int,
    "_objective": (str, type(None)),
    "_other_params": dict,
}


def is_boosting(estimator: Any) -> bool:
    """Whether the estimator is of one of these libraries."""
    return type(estimator).__module__.split(".")[0] in CLASSES.values()


def pack_boosting(packer: Packer, estimator: Any) -> dict[str, Any]:
    """The fitted estimator."""
    name = type(estimator).__name__
    if name not in CLASSES:
        raise UnknownTypeError(f"a model file does not hold {name}. Use {', '.join(CLASSES)}.")
    more: dict[str, Any] = {}
    if CLASSES[name] == "lightgbm":
        booster = estimator.booster_
        content = booster.model_to_string(num_iteration=-1).encode()
        more = {key: getattr(estimator, key) for key in LIGHTGBM if hasattr(estimator, key)}
        more["best_iteration"] = int(booster.best_iteration)
    elif CLASSES[name] == "xgboost":
        content = bytes(estimator.get_booster().save_raw("ubj"))
    else:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.cbm"
            estimator.save_model(str(path), format="cbm")
            content = path.read_bytes()
    return {
        "kind": "boosting",
        "class": name,
        "parameters": pack_parameters(packer, estimator.get_params(), name),
        "more": packer.value(name, more),
        "content": packer.bytes("booster", content),
    }


def unpack_boosting(reader: Unpacker, node: Any, isolate: bool = False) -> tuple[Any, Any]:
    """The fitted estimator, and an unfitted one; ``isolate`` tries it in a child process first."""
    _, name, parameters, more, content = expect_keys(
        node, "kind", "class", "parameters", "more", "content"
    )
    if expect_type(str, name) not in CLASSES:
        raise AlteredFileError(
            f"the file holds a {name[:40]!r}, which is no booster that polycal knows."
        )
    library = optional(CLASSES[name], "boosting")
    make = getattr(library, name)
    content = reader.bytes(content)
    if isolate:
        try_in_child(CLASSES[name], content)
    values, more = unpack_parameters(reader, parameters), expect_type(dict, reader.value(more))
    try:
        fitted, unfitted = make(**values), make(**values)
        load = {"lightgbm": _lightgbm, "xgboost": _xgboost, "catboost": _catboost}[CLASSES[name]]
        return load(library, fitted, content, more), unfitted
    except ModelFileError:
        raise
    except Exception as error:  # each library has errors of its own
        raise AlteredFileError(f"{name} cannot read its part of the file: {error}.") from error


def _lightgbm(library: Any, estimator: Any, content: bytes, more: dict[str, Any]) -> Any:
    booster = library.Booster(model_str=content.decode())
    booster.best_iteration = expect_type(int, more.pop("best_iteration"))
    if not more.keys() <= LIGHTGBM.keys():
        raise AlteredFileError("the file gives attributes to LightGBM that it does not have.")
    vars(estimator).update({key: expect_type(LIGHTGBM[key], value) for key, value in more.items()})
    classes = np.asarray(more["_classes"])
    estimator._le = LabelEncoder().fit(classes)
    estimator._class_map = dict(zip(classes, estimator._le.transform(classes), strict=True))
    estimator._Booster = booster
    estimator._evals_result, estimator._best_score = {}, {}
    estimator._class_weight = estimator.class_weight
    estimator.fitted_ = True
    return estimator


def _xgboost(library: Any, estimator: Any, content: bytes, more: dict[str, Any]) -> Any:
    estimator.load_model(bytearray(content))
    return estimator


def _catboost(library: Any, estimator: Any, content: bytes, more: dict[str, Any]) -> Any:
    own = dict(estimator._init_params)
    estimator.load_model(blob=content)
    estimator._init_params = own  # load_model puts in all parameters, some of which cannot be set
    return estimator
