"""Growth curves of ``scale.py``: fit, predict and memory against the rows, for every family."""

from __future__ import annotations

from pathlib import Path

from _record import Row

from polycal.plotting.style import COLORS, GREY, MARKERS, SMALL

NAMES = {
    "lightgbm": "LightGBM",
    "hgb": "HistGradientBoosting",
    "xgboost": "XGBoost",
    "mlp": "MLP",
    "torch": "PyTorch",
    "forest": "forest",
}
# Title, what polycal takes, and what the parent takes.
PANELS = (
    ("Fit (s)", "fit_s", "parent_fit_s"),
    ("Predict a row (µs)", "predict_us", "parent_predict_us"),
    # What polycal adds, and the process after the parent's fit, with the data and the libraries.
    ("Memory (GiB)", "beyond_GiB", "resident_GiB"),
)


def draw(rows: list[Row], picture: Path) -> None:
    """One line for each family, the parent's own dashed."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.lines import Line2D

    sizes = sorted({row["n"] for row in rows})
    figure, axes = plt.subplots(1, 3, figsize=(11, 4.2), layout="constrained")
    for ax, (title, ours, parents) in zip(axes, PANELS, strict=True):
        for i, name in enumerate(NAMES):
            some = [row for row in rows if row["parent"] == name]
            n, style = [row["n"] for row in some], {"color": COLORS[i], "marker": MARKERS[i]}
            ax.plot(n, [row[ours] for row in some], "-", **style)
            ax.plot(n, [row[parents] for row in some], "--", alpha=0.6, markersize=3, **style)
        ax.set(title=title, xlabel="rows", xscale="log", yscale="log")
        ax.set_xticks(sizes, [size_name(n) for n in sizes])
        ax.set_xticks([], minor=True)
        ax.yaxis.set_major_formatter("{x:g}")
        ax.grid(True, alpha=0.25, linewidth=0.6)
        ax.spines[["top", "right"]].set_visible(False)
    found = [i for i, name in enumerate(NAMES) if any(row["parent"] == name for row in rows)]
    labels = list(NAMES.values())
    handles = [Line2D([], [], color=COLORS[i], marker=MARKERS[i], label=labels[i]) for i in found]
    handles.append(Line2D([], [], color=GREY, label="polycal"))
    handles.append(Line2D([], [], color=GREY, linestyle="--", label="the parent's own"))
    figure.legend(
        handles=handles,
        loc="outside lower center",
        ncols=len(handles),
        fontsize=SMALL,
        frameon=False,
        columnspacing=1.2,
        handlelength=2.8,
    )
    figure.savefig(picture, dpi=130)
    plt.close(figure)


def size_name(n: int) -> str:
    """10k for 10,000 rows, 1M for a million."""
    return f"{n / 1e6:g}M" if n >= 1e6 else f"{n / 1e3:g}k"
