"""Polytopes, fit time and predict time against the nodes of a network (Fig. scaling).

python -m studies.scaling [--device cuda] [--quick]

Four hidden layers of 10 to 10,000 nodes, 10,000 training rows of 784 features. MNIST, which the
published code takes, where the data cache has it; otherwise images of circles and rectangles,
28 x 28 pixels, with noise so that no two are alike.

fit      seconds of ``GeodesicCalibrator.fit`` with a trained network: its pass over 10,000 rows
         and over 2000 more that calibrate, the polytopes, their bandwidths and the posterior.
         Training the network is not counted, nor is the compilation of polycal's loops, which
         is done before.
predict  seconds of ``predict_proba`` of 1000 new rows.

The network's passes run on --device, all else on the CPU with as many threads as it has. So run
it alone, with --jobs 1. The paper counts its fit on 10,000 rows, without calibration rows.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from polycal import PAPER, GeodesicCalibrator, TorchParent
from polycal._utils.optional import optional
from polycal.plotting.style import BLUE, ORANGE
from polycal.simulations import make_gaussian_xor, make_shape_images

from . import data
from ._claims import Claim, write_claims
from ._networks import train_network
from ._runner import Cell, Options, Study, main
from ._variants import median_of

N_LAYERS = 4
PAPER_NODES, PAPER_SECONDS = 40_000, 200.0  # "only 200 seconds", on an Apple M1 Max
NODES = (10, 100, 1000, 2500, 5000, 10_000)
SIDE, BLOCK = 28, 4  # pixels of an image, and of what each is the mean of
NOISE = 4.0  # grey values, of 127
METHODS = {"paper": PAPER, "default": {}}


def settings(options: Options) -> dict:
    if options.quick:
        return {"n_rows": 1000, "n_calibrate": 300, "n_predict": 200, "epochs": 5}
    return {"n_rows": 10_000, "n_calibrate": 2000, "n_predict": 1000, "epochs": 20}


def cells(options: Options) -> list[Cell]:
    found = data.find("mnist_784", data.cache(options.data)) is not None
    name = "mnist_784" if found and not options.quick else "shapes"
    nodes = (10, 50, 250) if options.quick else NODES
    return [{"data": name, "nodes": n, "rep": rep} for rep in options.repeat(3) for n in nodes]


def make_images(n: int, seed: int) -> tuple[NDArray, NDArray]:
    """Circles and rectangles of 28 x 28 pixels, each the mean of 4 x 4, with Gaussian noise."""
    X, y = make_shape_images(n, size=SIDE * BLOCK, random_state=seed)
    X = X.reshape(n, SIDE, BLOCK, SIDE, BLOCK).mean(axis=(2, 4)).reshape(n, -1)
    return X + NOISE * np.random.default_rng(seed).standard_normal(X.shape), y


def load(name: str, n: int, options: Options, seed: int) -> tuple[NDArray, NDArray]:
    if name == "shapes":
        return make_images(n, seed)
    path = data.find(name, data.cache(options.data))
    if path is None:
        raise FileNotFoundError(f"{name} is not in the data cache; see studies.data")
    X, y = data.read(path)
    chosen = np.random.default_rng(seed).choice(len(X), n, replace=False)
    return X[chosen], y[chosen]


def run(cell: Cell, options: Options) -> list[dict]:
    sizes = settings(options)
    seed = options.seed_of(data=cell["data"], rep=cell["rep"])
    parts = [sizes["n_rows"], sizes["n_calibrate"], sizes["n_predict"]]
    X, y = load(cell["data"], sum(parts), options, seed)
    ends = np.cumsum(parts)[:-1]
    (X, X_cal, X_new), (y, y_cal, _) = np.split(X, ends), np.split(y, ends)
    network = train_network(
        X,
        y,
        hidden=(cell["nodes"],) * N_LAYERS,
        epochs=sizes["epochs"],
        device=options.device,
        seed=seed,
    )
    threads = os.cpu_count() or 1
    rows = []
    for method, setting in METHODS.items():
        compile_loops(setting, options.device)
        model = GeodesicCalibrator(TorchParent(network, batch_size=1024), n_jobs=threads, **setting)
        start = time.perf_counter()
        model.fit(X, y, X_cal=X_cal, y_cal=y_cal)
        fitted = time.perf_counter()
        model.predict_proba(X_new)
        done = time.perf_counter()
        values = {
            "polytopes": len(model.polytopes_),
            "fit": fitted - start,
            "predict": done - fitted,
        }
        rows += [
            {"method": method, "metric": key, "value": v, "machine": machine(options.device)}
            for key, v in values.items()
        ]
    return rows


def compile_loops(setting: dict, device: str) -> None:
    """The same calls on a toy, so that no compilation is timed."""
    X, y = make_gaussian_xor(300, random_state=0)
    network = train_network(X, y, hidden=(8,) * N_LAYERS, epochs=1, device=device)
    model = GeodesicCalibrator(TorchParent(network), n_jobs=2, **setting)
    model.fit(X[:200], y[:200], X_cal=X[200:], y_cal=y[200:]).predict_proba(X)


def machine(device: str) -> str:
    """What the figures were measured on."""
    threads = f"{os.cpu_count()} CPU threads"
    if not device.startswith("cuda"):
        return threads
    torch = optional("torch", "torch")
    return f"{threads}, {torch.cuda.get_device_name(device)}"


# ------------------------------------------------------------------------ claims


def find_claims(frame: pd.DataFrame) -> list[Claim]:
    """The paper's sentences on the figure, for each setting."""
    n_rows = _n_rows(frame)
    claims = []
    for method in METHODS:
        medians = median_of(frame[frame["method"] == method], ["metric", "nodes"])
        polytopes, fit, predict = (
            medians[metric].sort_index() for metric in ("polytopes", "fit", "predict")
        )
        most = polytopes.index[-1]
        claims.append(
            Claim(
                "polytopes saturate at the number of training rows",
                method,
                f"{polytopes.iloc[-1]:g} of {n_rows} rows at {most} nodes a layer",
                bool(polytopes.iloc[-1] >= 0.999 * n_rows),
            )
        )
        for what, values in (("fit", fit), ("predict", predict)):
            power = growth(values)
            claims.append(
                Claim(
                    f"{what} time grows no faster than the number of nodes",
                    method,
                    f"grows as nodes^{power:.2f} (from {values.index[-3]} to {most} a layer); "
                    f"{values.iloc[-1]:.2f} s at {N_LAYERS * most} nodes",
                    bool(power <= 1.1),
                )
            )
        if N_LAYERS * most >= PAPER_NODES:
            claims.append(
                Claim(
                    f"fit takes {PAPER_SECONDS:g} s at {PAPER_NODES} nodes",
                    method,
                    f"{fit.iloc[-1]:.1f} s, {frame['machine'].iloc[0]}",
                    bool(fit.iloc[-1] <= PAPER_SECONDS),
                )
            )
    return claims


def _n_rows(frame: pd.DataFrame) -> int:
    """Of the training rows, from the settings that the table carries."""
    return int(json.loads(frame["settings"].iloc[0])["n_rows"])


def growth(seconds: pd.Series) -> float:
    """Slope of log seconds over log nodes, for the three largest networks."""
    last = seconds.iloc[-3:]
    return float(np.polyfit(np.log(last.index), np.log(last), 1)[0])


# ------------------------------------------------------------------------ figure


def draw(frame: pd.DataFrame, folder: Path) -> list[Path]:
    """Polytopes, fit and predict time against all nodes of the network."""
    from ._figures import new_figure, save

    fig, axes = new_figure(1, [1.0, 1.0, 1.0], height=2.3, width=2.7)
    titles = {"polytopes": "polytopes", "fit": "fit (s)", "predict": "predict (s)"}
    looks = {"paper": (ORANGE, "--", "^"), "default": (BLUE, "-", "o")}
    for ax, (metric, title) in zip(axes[0], titles.items(), strict=True):
        own = frame[frame["metric"] == metric]
        for method, (color, style, mark) in looks.items():
            values = own[own["method"] == method].groupby("nodes")["value"]
            middle = values.median()
            nodes = N_LAYERS * middle.index
            ax.plot(nodes, middle, color=color, ls=style, marker=mark, ms=4, lw=1.6, label=method)
            ax.fill_between(nodes, values.min(), values.max(), color=color, alpha=0.15, lw=0)
        ax.set(xscale="log", yscale="log", title=title, xlabel="nodes of the network")
    n_rows = _n_rows(frame)
    axes[0, 0].axhline(n_rows, color="black", lw=0.8, ls=":", label="training rows")
    axes[0, 0].set(yscale="linear", ylim=(0, 1.1 * n_rows))
    label = f"the paper: {PAPER_SECONDS:g} s"
    axes[0, 1].plot([PAPER_NODES], [PAPER_SECONDS], "*", color="black", ms=9, label=label)
    for ax in axes[0, :2]:
        ax.legend(frameon=False, fontsize=7, loc="lower right" if ax is axes[0, 0] else "best")
    fig.suptitle(f"{frame['data'].iloc[0]}, {frame['machine'].iloc[0]}", fontsize=8)
    return [*save(fig, folder / "scaling"), write_claims(find_claims(frame), folder)]


STUDY = Study(
    name="scaling",
    title="Polytopes, fit and predict time against the nodes of a network (Fig. scaling).",
    cells=cells,
    run=run,
    draw=draw,
    settings=settings,
)

if __name__ == "__main__":
    raise SystemExit(main(STUDY))
