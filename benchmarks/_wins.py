"""Wins and losses by set against the strongest single peer: tables, and a picture."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
from _record import Row, table

OURS = ("polycal", "polycal PAPER")
FIGURES = ("error", "ece", "log_loss", "brier", "oce")
# What is wanted of polycal beside all peers.
LOWER, ECE_MARGIN, WON = 0.08, 0.002, 19 / 27


def by_method(rows: list[dict[str, str]]) -> dict[str, dict[str, Row]]:
    """Method -> set -> figures, of the methods that answered for every set."""
    found: dict[str, dict[str, Row]] = {}
    for row in rows:
        figures = {figure: float(row[figure]) for figure in FIGURES}
        found.setdefault(row["method"], {})[row["data"]] = figures
    most = max(map(len, found.values()))
    return {method: sets for method, sets in found.items() if len(sets) == most}


def mean(sets: dict[str, Row], figure: str) -> float:
    return float(np.mean([figures[figure] for figures in sets.values()]))


def strongest(found: dict[str, dict[str, Row]], figure: str = "log_loss") -> str:
    """The peer of lowest mean; chosen with hindsight, which favours the peer."""
    return min((m for m in found if m not in OURS), key=lambda method: mean(found[method], figure))


def report(rows: list[dict[str, str]]) -> None:
    """Means of every method, the strongest peer, and what of the targets is reached."""
    names = [sorted({row[field] for row in rows}) for field in ("plan", "parent", "seed")]
    for plan, parent, seed in product(*names):
        wanted = {"plan": plan, "parent": parent, "seed": seed}
        some = [row for row in rows if all(row[key] == value for key, value in wanted.items())]
        if some:
            report_one(some, f"{parent}, {plan}, seed {seed}")


def report_one(rows: list[dict[str, str]], title: str) -> None:
    found = by_method(rows)
    ours, peer = found["polycal"], strongest(found)
    print(f"\n## {title}: {len(ours)} sets\n")
    lines = []
    for method, sets in sorted(found.items(), key=lambda item: mean(item[1], "log_loss")):
        won = sum(ours[name]["log_loss"] < sets[name]["log_loss"] for name in sets)
        means = {figure: mean(sets, figure) for figure in FIGURES}
        lines.append({"method": method, **means, "polycal is below on": won})
    print(table(lines))
    left_out = sorted({row["method"] for row in rows} - found.keys())
    if left_out:
        print(f"\nLeft out, since they lack an answer for some set: {', '.join(left_out)}.")
    lower = 1 - mean(ours, "log_loss") / mean(found[peer], "log_loss")
    won = sum(ours[name]["log_loss"] < found[peer][name]["log_loss"] for name in ours)
    best = {figure: mean(found[strongest(found, figure)], figure) for figure in FIGURES}
    checks = {
        f"log-loss {lower:.1%} below the strongest peer ({peer})": lower >= LOWER,
        f"better than it on {won} of {len(ours)} sets": won >= WON * len(ours) - 1e-9,
        "lowest Brier": mean(ours, "brier") <= best["brier"],
        "lowest error": mean(ours, "error") <= best["error"],
        f"ECE lowest, or within {ECE_MARGIN}": mean(ours, "ece") <= best["ece"] + ECE_MARGIN,
    }
    print()
    for what, reached in checks.items():
        print(f"- {what}: {'reached' if reached else '**missed**'}")


def draw(rows: list[dict[str, str]], picture: Path) -> None:
    """Log-loss by set, polycal less the strongest peer; one mark for each parent."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    from polycal.plotting.style import COLORS, GREY, MARKERS

    parents = list(dict.fromkeys(row["parent"] for row in rows))
    differences: dict[str, dict[str, float]] = {}
    for parent in parents:
        groups = {(row["plan"], row["seed"]) for row in rows if row["parent"] == parent}
        for plan, seed in groups:
            key = (parent, plan, seed)
            some = [row for row in rows if (row["parent"], row["plan"], row["seed"]) == key]
            found = by_method(some)
            peer = found[strongest(found)]
            for name, figures in found["polycal"].items():
                less = (figures["log_loss"] - peer[name]["log_loss"]) / len(groups)
                by_set = differences.setdefault(name, {})
                by_set[parent] = by_set.get(parent, 0.0) + less
    names = sorted(differences, key=lambda name: np.mean(list(differences[name].values())))
    figure, ax = plt.subplots(figsize=(7.5, 0.24 * len(names) + 1.2), layout="constrained")
    ax.axvline(0.0, color=GREY, linewidth=1)
    for i, parent in enumerate(parents):
        places = [j for j, name in enumerate(names) if parent in differences[name]]
        values = [differences[names[j]][parent] for j in places]
        how = {"color": COLORS[i % len(COLORS)], "marker": MARKERS[i % len(MARKERS)]}
        ax.scatter(values, places, s=22, label=parent, zorder=3, **how)
    ax.set_yticks(range(len(names)), [name.partition("_")[2] or name for name in names], fontsize=8)
    ax.set_xscale("symlog", linthresh=0.01)
    ax.grid(axis="y", color="0.92")
    ax.set_xlabel("log-loss, polycal less the strongest peer (left: polycal is better)")
    ax.legend(frameon=False)
    figure.savefig(picture, dpi=120)
    plt.close(figure)
