"""Files of format 1: the layout of the fitted state before the dataclasses declared it."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._utils.arrays import Array
from ..posterior.votes import exponents
from .errors import AlteredFileError
from .values import Unpacker, expect_keys, expect_type

WORDS = {
    "posterior": ("pooled", "kernel", "parent"),
    "gate": ("geodesic", "gaussian"),
    "bandwidth": ("geodesic", "polytope"),
    "distance": ("geodesic", "euclidean"),
}
SETTINGS = ("n_neighbors", "regularization", "categorical_features", "n_jobs", "verbose")
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


def convert_state(state: Any, arrays: dict[str, Array]) -> dict[str, Any]:
    """The state of a file of format 1 in the layout of format 2.

    Only the layout is changed and checked here; the values are checked as those of any file. An
    array that format 2 has in addition is added to ``arrays``.
    """
    classes, _, features, names, plan, level, rows, posterior, gate, scores = expect_keys(
        state, *STATE
    )
    settings = expect_type(dict, expect_type(dict, rows).get("settings"))
    expect_keys(settings, *WORDS, *SETTINGS)
    for name, allowed in WORDS.items():
        if settings[name] not in allowed:
            raise AlteredFileError(f"{name} is {str(settings[name])[:40]!r} in the file.")
    if expect_type(int, settings["n_neighbors"]) < 1:
        raise AlteredFileError("n_neighbors is not above 0 in the file.")
    model = {
        "type": "FittedModel",
        "reference": _reference(rows, settings, posterior, arrays),
        "posterior": _posterior(posterior, settings),
        "gate": _gate(gate, settings),
        "scores": _typed("CalibrationScores", scores)
        | {"new_weight": None, "confidence": None, "y": None},
        "false_alarm": level,
        "caution": level,
        "plan": plan,
    }
    return {"classes": classes, "features": features, "names": names, "model": model}


def _reference(
    node: Any, settings: dict[str, Any], posterior: Any, arrays: dict[str, Array]
) -> dict[str, Any]:
    keys = ("settings", "table", "modes", "polytopes", "density", "kernel", "owner", "ids")
    _, table, modes, polytopes, density, kernel, owner, ids = expect_keys(node, *keys)
    polytopes = _typed("Polytopes", polytopes)
    polytopes["variance"] = _variance(polytopes, arrays)
    # A Gaussian gate has always looked at the nearest polytope alone.
    gaussian = settings["gate"] == "gaussian"
    return {
        "type": "ReferenceSet",
        "table": _table(table, arrays),
        "polytopes": polytopes,
        "density": _renamed("Density", density, {"start": "level_offsets"}) | {"ranges": None},
        "votes": _votes(kernel, modes, settings, posterior, arrays),
        "row_polytope": owner,
        "row_id": ids,
        "n_neighbors": 1 if gaussian else settings["n_neighbors"],
        "fill": gaussian or settings["posterior"] == "kernel",
        "euclidean": settings["distance"] == "euclidean",
        "n_views": 1,
        "planes": None,
        "hyperplanes": None,
    }


def _table(node: Any, arrays: dict[str, Array]) -> dict[str, Any]:
    """The first files had no codes and no fences."""
    table = _renamed("Table", node, {"sometimes": "with_missing", "start": "level_offsets"})
    arrays["no codes"], arrays["of no number"] = np.zeros(0), np.zeros(0, dtype=np.int64)
    table |= {"codes": {"array": "no codes"}, "code_number": {"array": "of no number"}}
    return table | {"fences": None}


def _variance(polytopes: dict[str, Any], arrays: dict[str, Array]) -> Any:
    """Rows and their values; the first files had all rows, or 0 where no polytope varies."""
    node = polytopes.get("variance")
    if node == 0:
        mean = Unpacker(arrays).array(polytopes.get("mean"))
        values, node = np.zeros((0, *mean.shape[1:])), {"array": "no variance"}
        arrays["no variance"] = values
    elif type(node) is dict and node.keys() == {"array"}:
        values = Unpacker(arrays).array(node)
    else:
        return node
    arrays["rows that vary"] = np.arange(len(np.atleast_1d(values)), dtype=np.int64)
    return {"rows": {"array": "rows that vary"}, "values": node}


def _votes(
    node: Any,
    modes: Any,
    settings: dict[str, Any],
    posterior: Any,
    arrays: dict[str, Array],
) -> dict[str, Any]:
    # The first files weighted labels by all layers.
    node = {"hidden_labels": False, **expect_type(dict, node)}
    names = ("counts", "prior", "n_samples", "ratios", "hidden_labels")
    counts, prior, n_samples, ratios, hidden = expect_keys(node, *names)
    evidence = {
        "type": "LabelEvidence",
        "modes": _typed("ActivationModes", modes)
        | {"sizes": {"tuple": expect_type(dict, modes).get("sizes")}},
        "counts": counts,
        "hidden_labels": hidden,
        "tables": None,
    }
    votes = {"evidence": evidence, "prior": prior, "n_samples": n_samples}
    if settings["posterior"] == "pooled" and settings["distance"] == "geodesic":
        if ratios is not None:
            raise AlteredFileError("the file holds ratios of polytopes that are not used.")
        gamma = expect_type(float, expect_type(dict, posterior).get("gamma"))
        if not 1 < expect_type(int, n_samples) < 2**63:
            raise AlteredFileError("the number of samples is out of range in the file.")
        arrays["exponents"] = exponents(np.array([gamma]), n_samples)
        return {"type": "QueryVotes", **votes, "exponents": {"array": "exponents"}}
    return {"type": "PolytopeVotes", **votes, "ratios": ratios}


def _posterior(node: Any, settings: dict[str, Any]) -> dict[str, Any]:
    pool, gamma = expect_type(dict, node).get("pool"), node.get("gamma")
    kind = settings["posterior"]
    if (pool is None) != (kind == "kernel") or (gamma is None) != (kind == "parent"):
        raise AlteredFileError(f"the file holds another posterior than {kind!r}.")
    if pool is not None:
        weights, offset, levels = expect_keys(pool, "weights", "offset", "confidence")
        levels = None if levels is None else _typed("ConfidenceLevels", levels) | {"share": 0.95}
        pool = {"type": "Pool", "weights": weights, "offset": offset, "levels": levels}
    return _typed("Posterior", node) | {"pool": pool}


def _gate(node: Any, settings: dict[str, Any]) -> dict[str, Any]:
    by_similarity = settings["distance"] == "geodesic"
    if settings["gate"] == "gaussian":
        return _typed("GaussianGate", node) | {"by_similarity": by_similarity}
    without = {"ceiling": None, "reach": None, "lifts": False, "by_similarity": by_similarity}
    return _typed("GeodesicGate", without | expect_type(dict, node))


def _typed(name: str, node: Any) -> dict[str, Any]:
    return {**expect_type(dict, node), "type": name}


def _renamed(name: str, node: Any, fields: dict[str, str]) -> dict[str, Any]:
    renamed = {fields.get(key, key): value for key, value in expect_type(dict, node).items()}
    return _typed(name, renamed)
