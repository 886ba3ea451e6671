"""``polycal explain``: explanations of rows as text."""

from __future__ import annotations

from typing import Any

import numpy as np

LEAST = 10


def explain_rows(
    model: Any, X: Any, rows: list[int] | None, n_features: int
) -> list[dict[str, Any]]:
    """Explanations of the given rows, or of the least trusted."""
    beyond = [row for row in rows or [] if row >= len(X)]
    if beyond:
        raise ValueError(
            f"--rows must be below the number of rows of DATA, {len(X)}; got {beyond[0]}."
        )
    if rows:
        chosen = np.array(rows)
        X = X.iloc[chosen]
    why = model.explain(X)
    if not rows:
        chosen = np.argsort(why.score, kind="stable")[:LEAST]
    names, surprise = why.top_features(n_features)
    found = []
    for i, row in enumerate(chosen):
        at = i if rows else row
        top = {str(n): float(s) for n, s in zip(names[at], surprise[at], strict=True)}
        counts = {
            str(c): float(v) for c, v in zip(model.classes_, why.counts[at], strict=True) if v > 0
        }
        line = {
            "row": int(row),
            "verdict": str(why.verdict[at]),
            "trust": float(why.weight[at]),
            "p_value": float(why.p_value[at]),
            "similarity": float(why.similarity[at]),
            "training_rows": why.rows[at].tolist(),
            "labels": counts,
            "surprise": top,
            "between": [str(model.classes_[c]) for c in why.favoured[at]],
            "odds": dict(zip(why.witnesses, why.odds[at].tolist(), strict=True)),
        }
        found.append({**line, "text": _text(line)})
    return found


def _text(line: dict[str, Any]) -> str:
    odd = ", ".join(f"{name} ({value:.3g})" for name, value in line["surprise"].items())
    near = ", ".join(map(str, line["training_rows"][:5]))
    labels = ", ".join(f"{name}: {value:g}" for name, value in line["labels"].items())
    odds = ", ".join(f"{name} {value:+.2f}" for name, value in line["odds"].items())
    return (
        f"row {line['row']}: {line['verdict']}, trust {line['trust']:.3f} "
        f"(p = {line['p_value']:.3g}); nearest training rows {near} ({labels}, similarity "
        f"{line['similarity']:.2f}); most surprising: {odd}; log odds of "
        f"{' against '.join(line['between'])}: {odds}"
    )
