"""What the figures of the studies share: a grid of small axes, and two formats of a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from polycal._utils.optional import optional

# Two ends of the map of probabilities, so that a row has the colour of its class there.
CLASS_COLORS = ("#d8b400", "#00224e")
DPI = 160
STYLE = {
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.hashsalt": "polycal",  # the same figure is the same file
}


def new_figure(n_rows: int, widths: Sequence[float], *, height: float, width: float) -> Any:
    """Figure and axes of shape (n_rows, n_columns); sizes in inches, for one row and column."""
    matplotlib = optional("matplotlib", "plot")
    matplotlib.use("Agg")
    plt = optional("matplotlib.pyplot", "plot")
    plt.rcParams.update(STYLE)
    return plt.subplots(
        n_rows,
        len(widths),
        figsize=(width * sum(widths), height * n_rows + 0.5),
        width_ratios=list(widths),
        layout="constrained",
        squeeze=False,
    )


def bare(ax: Any) -> None:
    """No ticks and no frame."""
    ax.set(xticks=[], yticks=[])
    ax.spines[:].set_visible(False)


def method_legend(
    fig: Any, methods: Sequence[str], styles: dict[str, dict], parent: str, dotted: str
) -> None:
    """One row below the figure; what the dotted black lines are comes last."""
    line = optional("matplotlib.lines", "plot").Line2D
    handles = [
        line(
            [],
            [],
            label=parent if method == "parent" else method,
            markersize=5,
            lw=1.6,
            **styles[method],
        )
        for method in methods
    ]
    handles.append(line([], [], color="black", lw=0.8, ls=":", label=dotted))
    fig.legend(
        handles=handles,
        loc="outside lower center",
        ncols=len(handles),
        frameon=False,
        handlelength=3.2,
    )


def save(
    fig: Any, path: Path, *, dpi: int = DPI, formats: Sequence[str] = ("png", "svg")
) -> list[Path]:
    """PNG to look at, SVG to print."""
    plt = optional("matplotlib.pyplot", "plot")
    files = [path.with_name(f"{path.name}.{ending}") for ending in formats]
    for file in files:
        fig.savefig(file, dpi=dpi, metadata={"Date": None} if file.suffix == ".svg" else None)
    plt.close(fig)
    return files
