"""Facts about a fitted model, as text."""

from __future__ import annotations

from typing import Any

LONGEST_LABEL = 40  # characters of a label that are shown
MOST_CLASSES = 30  # that are shown


def parent_name(model: Any) -> str:
    """Name of the parent's class; for a Pipeline, also that of its last step."""
    parent = model.estimator_
    name = type(parent).__name__
    steps = getattr(parent, "steps", None)
    return f"{name} with {type(steps[-1][1]).__name__}" if steps else name


def model_facts(model: Any) -> dict[str, str]:
    """Facts about the model, as names and values."""
    parameters = model.get_params(deep=False)
    return {
        "model": type(model).__name__,
        "parent": parent_name(model),
        "features": str(getattr(model, "n_features_in_", "not a table")),
        "training rows": f"{n_training_rows(model):,}",
        "polytopes": f"{len(model.polytopes_):,}",
        "calibration": f"{model.calibration_}, {len(model.model_.scores.log_f):,} rows",
        "posterior, gate, bandwidth": ", ".join(
            str(parameters[name]) for name in ("posterior", "gate", "bandwidth")
        ),
        "false alarms allowed": f"{model.false_alarm_:.2%}",
        "guarantee": model.model_.guarantee,
        "caution": f"{model.caution_:.2%}",
        "log floor": f"{model.log_floor_:.4g}",
        "witnesses": ", ".join(
            f"{name} {weight:.2f}" for name, weight in witness_weights(model).items()
        ),
        "search": describe_search(model),
        "gamma": "none" if model.gamma_ is None else f"{model.gamma_:.4g}",
        "class priors": shares_as_text(dict(zip(model.classes_, model.priors_, strict=True))),
    }


def shares_as_text(shares: dict[Any, float]) -> str:
    """The share of each class; of very many classes, those of the first."""
    shown = [f"{shortened(str(c))}: {p:.3g}" for c, p in list(shares.items())[:MOST_CLASSES]]
    others = len(shares) - len(shown)
    return ", ".join([*shown, *([f"and {others} other classes"] if others else [])])


def n_training_rows(model: Any) -> int:
    """Rows that the model knows; a stream keeps none of them, and counts them."""
    fitted = model.model_
    return len(fitted.reference.row_id) if fitted.stream is None else int(fitted.stream.n_rows)


def shortened(label: str) -> str:
    """A label of at most LONGEST_LABEL characters: its beginning, and dots for the rest."""
    return label if len(label) <= LONGEST_LABEL else f"{label[: LONGEST_LABEL - 3]}..."


def describe_search(model: Any) -> str:
    """How rows are compared with the training rows, and what sampled tables take and leave out."""
    facts = [model.search_]
    for name, tables in model.model_.reference.sampled.items():
        kept = tables.share_kept.min()
        facts.append(
            f"{name}: {len(tables.draws)} random sequences at scales "
            f"{', '.join(map(str, tables.scales))}; {tables.nbytes / 2**20:,.0f} MiB, "
            f"{'all buckets' if kept == 1 else f'at least {kept:.1%} of the buckets'} kept"
        )
    return "; ".join(facts)


def witness_weights(model: Any) -> dict[str, float]:
    """Weight of each witness in the pool: the sum of its weights of log p and -log(1 - p)."""
    weights = model.pool_weights_[:, :2].sum(axis=1)
    parts = model.model_.witnesses
    return {name: float(weights[sources].sum()) for name, sources in parts.items()}
