"""Tables, figures and pages of the OpenML-CC18 study, from its tidy results alone.

The summary comes as PNG and SVG; the many small panels as PNG alone, to keep them small.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from polycal.plotting.style import AMBER, BLUE, GREEN, GREY, ORANGE, PINK

from ._claims import Claim, write_claims
from ._figures import new_figure, save
from ._runner import fresh_folder, write_atomically
from ._variants import MODELS, PARENTS
from .data import Entry, entries

# The metrics of the tables, and their names in them.
METRICS = {
    "error": "error",
    "ece": "ECE",
    "oce": "OCE",
    "log_loss": "log-loss",
    "brier": "Brier",
}
STYLES = {
    "parent": {"color": GREY, "ls": "-", "marker": "s"},
    "isotonic": {"color": GREEN, "ls": "--", "marker": "^"},
    "sigmoid": {"color": PINK, "ls": ":", "marker": "v"},
    "temperature": {"color": AMBER, "ls": "-.", "marker": "D"},
    "polycal PAPER": {"color": ORANGE, "ls": "--", "marker": "P"},
    "polycal": {"color": BLUE, "ls": "-", "marker": "o"},
}
PEERS = ("isotonic", "sigmoid", "temperature")
QUARTILES = (0.25, 0.5, 0.75)
SIZES = ("100", "middle", "all")
FAR_BELOW = -1e3  # stands for minus infinity, a parent without error, in quantiles
HUGE = 0.99  # an improvement of OCE from which on a claim of a huge one holds
LOWEST = -1.0  # of the improvement in the figure; below it lines leave the panel
PER_ROW = 7


def draw(frame: pd.DataFrame, folder: Path) -> list[Path]:
    known = entries()
    means = mean_over_repetitions(frame)
    numeric = means[means.index.get_level_values("data").map(lambda name: known[name].numeric)]
    gains, numeric_gains = improvement(means), improvement(numeric)
    written = [
        summary(frame, folder, {"{} numeric sets": numeric, "all {} sets": means}),
        write_claims(find_claims(numeric, numeric_gains), folder, [RULE]),
    ]
    written += draw_improvement(numeric_gains, folder / "improvement")
    if len(numeric) < len(means):
        written += draw_improvement(gains, folder / "improvement_all")
    for parent in parents_of(means):
        own = means.xs(parent, level="parent")
        for metric in ("error", "ece", "oce"):
            title = f"{METRICS[metric]} of {MODELS[parent]} and the others"
            written += draw_sets(own, metric, title, folder / f"sets_{parent}_{metric}")
    pages = fresh_folder(folder / "pages")
    for name, own in means.groupby(level="data"):
        written += write_page(known[name], own.droplevel("data"), frame, pages)
    return written


RULE = (
    "Improvement is (parent's figure - method's figure) / parent's figure, of means over the "
    "repetitions. Over the numeric sets and the three sample sizes together; in brackets with "
    "100, a middle number of, and all training rows."
)


def mean_over_repetitions(frame: pd.DataFrame) -> pd.DataFrame:
    """One row for each data set, parent, size and method; one column for each metric."""
    keys = ["data", "parent", "size", "n", "method"]
    return frame.pivot_table("value", keys, "metric", aggfunc="mean", sort=False)


def improvement(means: pd.DataFrame) -> pd.DataFrame:
    """The paper's ratio of every method; 0 where parent and method have no error at all."""
    values = means[list(METRICS)]
    parent = values.xs("parent", level="method")
    others = values[values.index.get_level_values("method") != "parent"]
    base = parent.reindex(others.index.droplevel("method")).to_numpy()
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = (base - others.to_numpy()) / base
    both_zero = (base == 0) & (others.to_numpy() == 0)
    return pd.DataFrame(np.where(both_zero, 0.0, ratio), others.index, list(METRICS))


def parents_of(table: pd.DataFrame) -> list[str]:
    there = set(table.index.get_level_values("parent"))
    return [parent for parent in PARENTS if parent in there]


def methods_of(table: pd.DataFrame) -> list[str]:
    there = set(table.index.get_level_values("method"))
    return [method for method in STYLES if method in there]


# ----------------------------------------------------------------------- tables


def markdown(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    lines = ["| " + " | ".join(header) + " |", "|---" * len(list(header)) + "|"]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def summary(frame: pd.DataFrame, folder: Path, groups: dict[str, pd.DataFrame]) -> Path:
    """Improvement and means of each parent, for the numeric sets first, then for all."""
    reps = frame.groupby(["data", "parent", "size"])["rep"].nunique()
    few, many = reps.min(), reps.max()
    words = [f"# OpenML-CC18, {few if few == many else f'{few} to {many}'} repetition(s)"]
    words.append(
        "One setting for everything: polycal's defaults (`polycal`) and its paper setting "
        "(`polycal PAPER`, with the automatic floor). " + RULE.split(" Over")[0]
    )
    words.append("![Improvement over the parent](improvement.png)")
    for group, means in groups.items():
        gains = improvement(means)
        for parent in parents_of(means):
            n_sets = means.xs(parent, level="parent").index.get_level_values("data").nunique()
            title = f"{MODELS[parent]}, {group.format(n_sets)}"
            own = gains.xs(parent, level="parent")
            words += [f"## {title}: median improvement (quartiles)", gain_table(own)]
            words += [f"## {title}: mean", mean_table(means.xs(parent, level="parent"))]
    path = folder / "summary.md"
    write_atomically(path, "\n\n".join(words) + "\n")
    return path


def gain_table(gains: pd.DataFrame) -> str:
    """Each method at each size and over all of them."""
    rows = []
    for method in methods_of(gains):
        own = gains.xs(method, level="method")
        parts = {name: own.xs(place, level="size") for place, name in enumerate(SIZES)}
        for name, part in {**parts, "together": own}.items():
            cells = [_quartiles(part[metric]) for metric in METRICS]
            rows.append([_bold(method), name, *cells])
    return markdown(["method", "training rows", *METRICS.values()], rows)


def _quartiles(values: pd.Series) -> str:
    low, middle, high = values.clip(lower=FAR_BELOW).quantile(QUARTILES)
    return f"{_sign(middle)} ({_sign(low)} to {_sign(high)})"


def _sign(value: float) -> str:
    return f"{value:+.3f}".replace("-", "\N{MINUS SIGN}")


def _bold(method: str) -> str:
    return f"**{method}**" if method == "polycal" else method


def mean_table(means: pd.DataFrame) -> str:
    """Of every metric, with all training rows, and over the three sizes."""
    rows = []
    for words, part in (("all", means.xs(len(SIZES) - 1, level="size")), ("together", means)):
        averages = part.groupby(level="method", sort=False)[list(METRICS)].mean()
        best = averages.min()
        for method in methods_of(part):
            values = averages.loc[method]
            cells = [
                f"**{values[m]:.4f}**" if values[m] == best[m] else f"{values[m]:.4f}"
                for m in METRICS
            ]
            rows.append([_bold(method), words, *cells])
    return markdown(["method", "training rows", *METRICS.values()], rows)


def find_claims(means: pd.DataFrame, gains: pd.DataFrame) -> list[Claim]:
    """What the paper says of its Fig. 3, and what this study asks of polycal."""
    claims = []
    for parent in parents_of(means):
        own = gains.xs(parent, level="parent")
        together = own.groupby(level="method")[list(METRICS)].median()
        by_size = own.groupby(level=["method", "size"])[list(METRICS)].median()

        def say(method: str, metric: str, together=together, by_size=by_size) -> str:
            at = ", ".join(_sign(value) for value in by_size.loc[method, metric])
            return f"{_sign(together.loc[method, metric])} ({at})"

        for method in ("polycal", "polycal PAPER"):
            words, at = f"{MODELS[parent]}, {method}", together.loc[method]
            peers = together.loc[list(PEERS)]
            best, far = peers["ece"].idxmax(), peers["oce"]
            claims += [
                Claim(
                    "similar or better accuracy than the parent",
                    words,
                    f"median improvement of error {say(method, 'error')}",
                    at["error"] >= 0,
                ),
                Claim(
                    "calibration in distribution similar to the baselines",
                    words,
                    f"median improvement of ECE {say(method, 'ece')}, best baseline "
                    f"{best} {say(best, 'ece')}",
                    at["ece"] >= peers["ece"].max(),
                ),
                Claim(
                    "out-of-distribution calibration improved by a huge margin, baselines fail",
                    words,
                    f"median improvement of OCE {say(method, 'oce')}, baselines "
                    f"{_sign(far.min())} to {_sign(far.max())}",
                    at["oce"] >= HUGE,
                ),
            ]
        mean = means.xs(parent, level="parent").groupby(level="method")[list(METRICS)].mean()
        for metric in ("log_loss", "brier"):
            order = mean[metric].sort_values()
            first, second = order.index[:2]
            claims.append(
                Claim(
                    f"(ours) lowest mean {METRICS[metric]} of all methods",
                    f"{MODELS[parent]}, polycal",
                    f"{first} {order.iloc[0]:.4f}, then {second} {order.iloc[1]:.4f}",
                    first == "polycal",
                )
            )
    return claims


def write_page(entry: Entry, means: pd.DataFrame, frame: pd.DataFrame, folder: Path) -> list[Path]:
    """One set: what it is, a figure, and a table for each parent."""
    own = frame[frame["data"] == entry.name]
    facts = f"OpenML {entry.id}: {entry.rows} rows, {entry.features} features, "
    facts += f"{entry.classes} classes; {entry.kind}"
    facts += f" ({entry.note})." if entry.note else "."
    words = [f"# {entry.name}", facts, f"![Figures of {entry.name}]({entry.name}.png)"]
    for parent in parents_of(means):
        rows = []
        part = means.xs(parent, level="parent")
        for (_, n), at in part.groupby(level=["size", "n"]):
            for method in methods_of(at):
                values = at.xs(method, level="method").iloc[0]
                rows.append([f"{n}", _bold(method), *(f"{values[m]:.4f}" for m in METRICS)])
        reps = own[own["parent"] == parent]["rep"].nunique()
        words.append(f"## {MODELS[parent]}, mean of {reps} repetitions")
        words.append(markdown(["training rows", "method", *METRICS.values()], rows))
    page = folder / f"{entry.name}.md"
    write_atomically(page, "\n\n".join(words) + "\n")
    return [page, *draw_page(means, folder / entry.name)]


# ---------------------------------------------------------------------- figures


def draw_improvement(gains: pd.DataFrame, path: Path) -> list[Path]:
    """Median and quartiles over the sets against sample size, a row for each parent."""
    parents = parents_of(gains)
    fig, axes = new_figure(len(parents), [1.0] * len(METRICS), height=2.0, width=1.9)
    middle = gains.reset_index().groupby("size")["n"].median()
    ticks = [f"{SIZES[0]}", f"{SIZES[1]}\n({middle[1]:.0f})", f"{SIZES[2]}\n({middle[2]:.0f})"]
    for row, parent in zip(axes, parents, strict=True):
        own = gains.xs(parent, level="parent")
        for ax, (metric, words) in zip(row, METRICS.items(), strict=True):
            for method in methods_of(own):
                values = own.xs(method, level="method")[metric].clip(lower=FAR_BELOW)
                low, median, high = (values.groupby(level="size").quantile(q) for q in QUARTILES)
                style = STYLES[method]
                front = 3 if method == "polycal" else 2
                ax.plot(range(3), median, ms=3, label=method, zorder=front, **style)
                ax.fill_between(range(3), low, high, color=style["color"], alpha=0.12, lw=0)
            ax.axhline(0, color="black", lw=0.6)
            bottom, top = ax.get_ylim()
            ax.set_ylim(max(bottom, LOWEST), min(top, 1.05))
            ax.set_xticks(range(3), ticks)
            if parent == parents[0]:
                ax.set_title(words)
        row[0].set_ylabel(f"{MODELS[parent]}\nimprovement over the parent")
    fig.supxlabel("training rows (median over the sets)", fontsize=8)
    _legend(fig, axes[0, 0], len(STYLES) - 1)
    return save(fig, path)


def draw_sets(means: pd.DataFrame, metric: str, title: str, path: Path) -> list[Path]:
    """A small panel for each set, all methods against sample size."""
    names = list(dict.fromkeys(means.index.get_level_values("data")))
    n_rows = -(-len(names) // PER_ROW)
    fig, axes = new_figure(n_rows, [1.0] * PER_ROW, height=1.1, width=1.5)
    for ax, name in zip(axes.flat, names, strict=False):
        _lines(ax, means.xs(name, level="data"), metric)
        ax.set_title(name if len(name) < 22 else name[:20] + "...", fontsize=6.5)
        ax.tick_params(labelsize=5.5)
    for ax in axes.flat[len(names) :]:
        ax.set_axis_off()
    fig.supxlabel("training rows", fontsize=8)
    fig.supylabel(title, fontsize=8)
    _legend(fig, axes[0, 0], len(STYLES))
    return save(fig, path, dpi=110, formats=["png"])


def draw_page(means: pd.DataFrame, path: Path) -> list[Path]:
    """Every metric of one set, a row for each parent, for its page."""
    parents = parents_of(means)
    fig, axes = new_figure(len(parents), [1.0] * len(METRICS), height=1.6, width=1.7)
    for row, parent in zip(axes, parents, strict=True):
        for ax, (metric, words) in zip(row, METRICS.items(), strict=True):
            _lines(ax, means.xs(parent, level="parent"), metric)
            ax.set_title(words if parent == parents[0] else "")
        row[0].set_ylabel(MODELS[parent])
    fig.supxlabel("training rows", fontsize=8)
    _legend(fig, axes[0, 0], len(STYLES))
    return save(fig, path, dpi=80, formats=["png"])


def _lines(ax: Any, means: pd.DataFrame, metric: str) -> None:
    for method in methods_of(means):
        values = means.xs(method, level="method")[metric]
        front = 3 if method == "polycal" else 2
        n = values.index.get_level_values("n")
        ax.plot(n, values, ms=2, lw=0.9, label=method, zorder=front, **STYLES[method])
    ax.set_xscale("log")
    ax.set_ylim(bottom=0)
    ax.set_xticks(n, [str(value) for value in n])
    ax.minorticks_off()


def _legend(fig: Any, ax: Any, n_columns: int) -> None:
    handles, labels = ax.get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside upper center", ncols=n_columns, frameon=False)
