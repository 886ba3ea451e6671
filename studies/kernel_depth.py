"""Mean kernel of pairs of the same class and of different classes, against depth and width.

python -m studies.kernel_depth [--jobs 2] [--device cuda] [--quick]

A network of 1 to 8 hidden layers of 10 to 1000 nodes, before training (random weights) and after.
K is polycal's kernel: the share of activation paths, through the hidden layers and the output
layer, that two rows activate alike. Its mean is taken over all pairs of 500 new rows.
``same_hidden`` and ``different_hidden`` leave the output layer out.

What random weights do depends on how they are drawn. Here they are N(0, 2 / inputs). PyTorch's own
are smaller, so that in depth the biases decide, and K hardly falls beyond two layers or so.

Gaussian XOR and scikit-learn's digits are always there. Fashion-MNIST, which is the paper's, and
MNIST take part where the data cache has them (python -m studies.data).
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from polycal.core.execution import Execution
from polycal.core.reading import ActivationModes
from polycal.kernels import build_index
from polycal.parents import find_adapter
from polycal.plotting.style import BLUE, ORANGE
from polycal.simulations import make_gaussian_xor

from . import data
from ._claims import Claim, write_claims
from ._networks import EPOCHS, NetworkClassifier, make_network, train_network
from ._runner import Cell, Options, Study, main
from ._variants import median_of

IMAGES = ("Fashion-MNIST", "mnist_784")
TITLES = {
    "gaussian_xor": "Gaussian XOR",
    "digits": "digits",
    "Fashion-MNIST": "Fashion-MNIST",
    "mnist_784": "MNIST",
}
DEPTHS, WIDTHS = (1, 2, 3, 4, 6, 8), (10, 100, 1000)
TIMES = ("before", "after")


def settings(options: Options) -> dict:
    if options.quick:
        return {"n_rows": 500, "n_test": 200, "epochs": 40}
    return {"n_rows": 5000, "n_test": 500, "epochs": EPOCHS}


def cells(options: Options) -> list[Cell]:
    folder = data.cache(options.data)
    images = [name for name in IMAGES if data.find(name, folder) is not None]
    depths, widths = (
        ((1, 2, 4), (10, 100)) if options.quick else ((1, 2, 3, 4, 6, 8), (10, 100, 1000))
    )
    return [
        {"data": name, "depth": depth, "width": width, "rep": rep}
        for rep in options.repeat(5)
        for name in ("gaussian_xor", "digits", *images)
        for depth in depths
        for width in widths
    ]


def load(name: str, n_rows: int, options: Options, seed: int) -> tuple[NDArray, NDArray]:
    """At most n_rows rows, half or a fair share of each class."""
    if name == "gaussian_xor":
        return make_gaussian_xor(n_rows, bounded=True, random_state=seed)
    if name == "digits":
        X, y = load_digits(return_X_y=True)
    else:
        path = data.find(name, data.cache(options.data))
        if path is None:
            raise FileNotFoundError(f"{name} is not in the data cache; see studies.data")
        X, y = data.read(path)
    if n_rows >= len(X):
        return X, y
    X, _, y, _ = train_test_split(X, y, train_size=n_rows, stratify=y, random_state=seed)
    return X, y


def run(cell: Cell, options: Options) -> list[dict]:
    sizes = settings(options)
    seed = options.seed_of(data=cell["data"], rep=cell["rep"])
    X, y = load(cell["data"], sizes["n_rows"] + sizes["n_test"], options, seed)
    X, X_test, y, y_test = train_test_split(
        X, y, test_size=sizes["n_test"], stratify=y, random_state=seed
    )
    shape: dict[str, Any] = {"hidden": (cell["width"],) * cell["depth"], "seed": seed}
    trained = train_network(X, y, epochs=sizes["epochs"], device=options.device, **shape)
    networks = {"before": make_network(X, len(np.unique(y)), **shape), "after": trained}
    rows = []
    for when, network in networks.items():
        wrong = NetworkClassifier(network, np.unique(y)).predict(X_test) != y_test
        values = {"error": float(wrong.mean()), **mean_kernels(network, X_test, y_test)}
        rows += [{"method": when, "metric": key, "value": v} for key, v in values.items()]
    return rows


def mean_kernels(network: Any, X: NDArray, y: NDArray) -> dict[str, float]:
    """Mean of K over pairs of two rows, by whether their class is the same."""
    modes = find_adapter(network).read(X).modes
    ends = modes.column_ranges[-1][0]
    hidden = ActivationModes(
        np.ascontiguousarray(modes.codes[:, :ends]), modes.sizes[:-1], packed=True
    )
    same = y[:, None] == y
    pair = ~np.eye(len(y), dtype=bool)
    means = {}
    for suffix, some in (("", modes), ("_hidden", hidden)):
        K = build_index(some).similarity(some, Execution())
        means["same" + suffix] = float(K[same & pair].mean())
        means["different" + suffix] = float(K[~same].mean())
    return means


# ------------------------------------------------------------------------ claims


def present(frame: pd.DataFrame) -> list[str]:
    return [name for name in TITLES if (frame["data"] == name).any()]


def find_claims(frame: pd.DataFrame) -> list[Claim]:
    """The paper's sentences on the figure, for each data set.

    A verdict is on the mean over widths; how many widths agree by themselves is said too.
    """
    claims = []
    for name in present(frame):
        own = frame[frame["data"] == name]
        alone = [_claims_of(some, name) for _, some in own.groupby("width")]
        for k, claim in enumerate(_claims_of(own, name)):
            agree = sum(one[k].holds for one in alone)
            found = f"{claim.found}; holds in {agree} of {len(alone)} widths alone"
            claims.append(replace(claim, found=found))
    return claims


def _claims_of(own: pd.DataFrame, name: str) -> list[Claim]:
    keys = ["method", "metric", "width", "depth"]
    medians = median_of(own, keys).groupby(["method", "metric", "depth"]).mean()
    tables = {
        (when, metric): medians[when, metric].sort_index()
        for when in TIMES
        for metric in ("same", "different", "same_hidden", "different_hidden")
    }
    return [
        _higher_for_same(tables, name),
        _falls_untrained(tables, name),
        *(_stays_trained(tables, name, suffix) for suffix in ("", "_hidden")),
        _tells_apart(tables, name),
    ]


def _higher_for_same(tables: dict, name: str) -> Claim:
    shares = [
        (tables[when, "same" + s] > tables[when, "different" + s]).to_numpy().mean()
        for when in TIMES
        for s in ("", "_hidden")
    ]
    return Claim(
        "K is higher for pairs of one class",
        name,
        f"at {np.mean(shares):.0%} of the depths, before and after training",
        bool(min(shares) == 1),
    )


def _falls_untrained(tables: dict, name: str) -> Claim:
    same = tables["before", "same"]
    falls = (np.diff(same) < 0).mean()
    return Claim(
        "before training K falls steadily with depth",
        name,
        f"{falls:.0%} of the steps fall; same class at depth {same.index[0]}: "
        f"{same.iloc[0]:.3f}, at {same.index[-1]}: {same.iloc[-1]:.3f}",
        bool(falls == 1),
    )


def _kept(values: pd.Series) -> float:
    """K at the largest depth in parts of K at the smallest."""
    return float(values.iloc[-1] / values.iloc[0])


def _stays_trained(tables: dict, name: str, suffix: str) -> Claim:
    after, before = (_kept(tables[when, "same" + suffix]) for when in ("after", "before"))
    where = "hidden layers alone" if suffix else "all layers"
    return Claim(
        f"trained kernels keep same-class similarity with depth ({where})",
        name,
        f"K at the largest depth is {after:.0%} of K at the smallest; before training {before:.0%}",
        bool(after > before),
    )


def _tells_apart(tables: dict, name: str) -> Claim:
    ratio = {when: tables[when, "same"] / tables[when, "different"] for when in TIMES}
    last = {when: ratio[when].iloc[-1] for when in TIMES}
    return Claim(
        "trained kernels tell the classes apart at any depth",
        name,
        f"K of one class / of two at the largest depth: {last['after']:.1f}, before training "
        f"{last['before']:.1f}",
        bool((ratio["after"] > ratio["before"]).to_numpy().all()),
    )


# ------------------------------------------------------------------------ figure


def draw(frame: pd.DataFrame, folder: Path) -> list[Path]:
    """A row for each data set, a column for before and after; a mark for each width."""
    from polycal._utils.optional import optional

    from ._figures import new_figure, save

    line = optional("matplotlib.lines", "plot").Line2D
    names = present(frame)
    widths = sorted(frame["width"].unique())
    fig, axes = new_figure(len(names), [1.0, 1.0], height=2.1, width=2.9)
    lines = {"same": (BLUE, "-"), "different": (ORANGE, "--")}
    top = 1.05 * frame[frame["metric"].isin(list(lines))]["value"].max()
    marks = dict(zip(widths, ("^", "o", "s", "D"), strict=False))
    for row, name in zip(axes, names, strict=True):
        for ax, when in zip(row, TIMES, strict=True):
            own = frame[(frame["data"] == name) & (frame["method"] == when)]
            for metric, (color, style) in lines.items():
                for width in widths:
                    some = own[(own["metric"] == metric) & (own["width"] == width)]
                    values = some.groupby("depth")["value"]
                    middle = values.median()
                    look = {"color": color, "ls": style, "marker": marks[width]}
                    ax.plot(middle.index, middle, lw=1.3, ms=4, **look)
                    edges = values.quantile(0.25), values.quantile(0.75)
                    ax.fill_between(middle.index, *edges, color=color, alpha=0.15, lw=0)
            ax.set(ylim=(0, top), xticks=sorted(frame["depth"].unique()))
            if name == names[0]:
                ax.set_title(f"{when} training")
            if name == names[-1]:
                ax.set_xlabel("hidden layers")
        row[0].set_ylabel(f"{TITLES.get(name, name)}\nmean kernel")
    handles = [
        line([], [], color=color, ls=style, lw=1.6, label=f"{metric} class")
        for metric, (color, style) in lines.items()
    ]
    handles += [
        line([], [], color="black", ls="", marker=marks[width], ms=4, label=f"{width} nodes")
        for width in widths
    ]
    fig.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False)
    return [*save(fig, folder / "kernel_depth"), write_claims(find_claims(frame), folder)]


STUDY = Study(
    name="kernel_depth",
    title="Mean kernel of pairs of the same and of different classes (Fig. kernel similarity).",
    cells=cells,
    run=run,
    draw=draw,
    settings=settings,
)

if __name__ == "__main__":
    raise SystemExit(main(STUDY))
