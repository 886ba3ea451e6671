"""``polycal info``: the content of a model file, as text or as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..core.roles import LEFT_OUT, ColumnRoles
from ..estimators import model_facts, parent_name, witness_weights
from .tables import trained_mark


def facts_for_people(model: Any, path: Path) -> dict[str, str]:
    """Facts about the model as text."""
    facts = {**model_facts(model), "file": f"{path.stat().st_size:,} bytes"}
    roles = {} if model.columns_ is None else dict(model.columns_.items())
    if columns := _columns(model):
        shown = [f"{name} ({roles[name].role})" if name in roles else name for name in columns]
        facts["columns"] = ", ".join(shown)
    if (mark := trained_mark(model)) is not None:
        facts["decimal mark"] = {".": "point", ",": "comma"}[mark]
    unchanged = model.columns_ is None or model.columns_.unchanged
    if not unchanged and (left_out := model.columns_.with_role(*LEFT_OUT)):
        facts["left out"] = ", ".join(f"{name} ({roles[name].role})" for name in left_out)
    return facts


def facts_for_machines(model: Any, path: Path) -> dict[str, Any]:
    """Facts about the model with numbers, for JSON."""
    settings = model.get_params(deep=False)
    priors = zip(map(str, model.classes_), map(float, model.priors_), strict=True)
    return {
        "model": type(model).__name__,
        "parent": parent_name(model),
        "features": getattr(model, "n_features_in_", None),
        "training_rows": len(model.model_.reference.row_id),
        "polytopes": len(model.polytopes_),
        "calibration": model.calibration_,
        "calibration_rows": len(model.model_.scores.log_f),
        **{name: settings[name] for name in ("posterior", "gate", "bandwidth")},
        "false_alarm": float(model.false_alarm_),
        "guarantee": model.model_.guarantee,
        "caution": float(model.caution_),
        "log_floor": float(model.log_floor_),
        "witnesses": witness_weights(model),
        "search": model.search_,
        "gamma": None if model.gamma_ is None else float(model.gamma_),
        "priors": dict(priors),
        "bytes": path.stat().st_size,
        "columns": _columns(model),
        "decimal_mark": trained_mark(model),
        "roles": {} if model.columns_ is None else dict(_roles(model.columns_)),
    }


def _roles(columns: ColumnRoles) -> Iterator[tuple[str, dict[str, str]]]:
    for name, role in columns.items():
        yield name, {"role": role.role, "reason": role.reason}


def _columns(model: Any) -> list[str]:
    return [str(name) for name in getattr(model, "feature_names_in_", ())]
