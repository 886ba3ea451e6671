"""A linear head beside a ReLU head on the embeddings of a frozen encoder, CIFAR-10.

python -m studies.linear_head [--reps 5]

A linear head has no activations, so that polycal reads its embeddings by random hyperplanes. Both
heads are trained on the same embeddings of EfficientNet-Lite0 with its ImageNet weights, which
nothing trains further, and calibrated by the same rows. They are judged on CIFAR-10's test images,
and by score_samples against images of SVHN and CIFAR-100.

A cell of stage "embed" keeps the embeddings of 1000 images in the store (a folder in the data
cache); a cell of stage "score" trains and judges one head.
"""

from __future__ import annotations

import sys
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.model_selection import train_test_split
from torch import nn
from torch.nn import functional

from polycal import GeodesicCalibrator
from polycal.metrics import auroc

from ._encoders import HEAD, RECIPES, make_head, make_model
from ._runner import Cell, Options, Study, main, write_atomically
from ._training import read, to_pixels
from ._vision_data import keep, load, read_set
from .data import cache
from .vision import in_distribution_figures, kept_parent

# Images of each set, at most; of the first, a third calibrates.
IMAGES = {"cifar10_train": 15_000, "cifar10_test": 10_000, "svhn_test": 5000, "cifar100_test": 5000}
OUTSIDE = {"svhn_test": "SVHN", "cifar100_test": "CIFAR-100"}
METRICS = {
    "accuracy": "accuracy",
    "log_loss": "log-loss",
    "ece": "ECE",
    **{f"auroc {name}": f"AUROC {words}" for name, words in OUTSIDE.items()},
    "false alarms": "false alarms",
}
# How much worse than with a ReLU head a figure may be.
WITHIN = {"ece": 0.003, **{f"auroc {name}": 0.005 for name in OUTSIDE}}
CALIBRATION_SHARE = 1 / 3
PART = 1000  # images of one cell
BATCH = 64  # images in one pass of the encoder
HEADS: dict[str, tuple[int, ...]] = {"linear": (), "relu": HEAD}
EPOCHS = 20
ROWS = 256  # embeddings in one step of a head's training


def encoder_name(options: Options) -> str:
    return "tiny" if options.quick else "lite0"


def settings(options: Options) -> dict:
    return {
        "encoder": encoder_name(options),
        "images": IMAGES,
        "calibration": CALIBRATION_SHARE,
        "epochs": EPOCHS,
        "heads": HEADS,
    }


def cells(options: Options) -> list[Cell]:
    found: list[Cell] = [
        {"stage": "embed", "set": name, "part": part}
        for name in IMAGES
        for part in range(n_parts(name, options))
    ]
    found += [
        {"stage": "score", "head": head, "rep": rep} for rep in options.repeat(5) for head in HEADS
    ]
    return found


def n_parts(name: str, options: Options) -> int:
    return -(-len(chosen(name, options)) // PART)


def chosen(name: str, options: Options) -> NDArray:
    """Which images of a set are used: the same for every seed, since some sets lie by class."""
    n = len(read_set(name, options)[1])
    return np.random.default_rng(0).permutation(n)[: IMAGES[name]]


def run(cell: Cell, options: Options) -> list[dict]:
    return (run_embedding if cell["stage"] == "embed" else run_score)(cell, options)


# -------------------------------------------------------------------- embeddings


def store(options: Options) -> Path:
    return cache(options.data) / f"embeddings-{encoder_name(options)}"


def run_embedding(cell: Cell, options: Options) -> list[dict]:
    x, y = read_set(cell["set"], options)
    places = np.array_split(chosen(cell["set"], options), n_parts(cell["set"], options))
    mine = places[cell["part"]]
    model = make_model(encoder_name(options), 2, seed=0).to(options.device).eval()
    embeddings, _ = read(model, to_pixels(x[mine], options.device), BATCH)
    store(options).mkdir(parents=True, exist_ok=True)
    keep(store(options), f"{cell['set']}-{cell['part']}.npz", {"x": embeddings, "y": y[mine]})
    return [{"metric": "images", "value": len(mine)}]


def embedded(name: str, options: Options) -> tuple[NDArray, NDArray]:
    files = [f"{name}-{part}.npz" for part in range(n_parts(name, options))]
    parts = [load(store(options), file) for file in files]
    return np.concatenate([p["x"] for p in parts]), np.concatenate([p["y"] for p in parts])


# -------------------------------------------------------------------------- heads


def run_score(cell: Cell, options: Options) -> list[dict]:
    """Train one head, calibrate it, and judge both."""
    seed = options.seed_of(study="linear_head", rep=cell["rep"])
    X, y = embedded("cifar10_train", options)
    X_fit, X_cal, y_fit, y_cal = train_test_split(
        X, y, test_size=CALIBRATION_SHARE, stratify=y, random_state=seed
    )
    head = train_head(X_fit, y_fit, HEADS[cell["head"]], seed)
    model = GeodesicCalibrator(kept_parent(head, "cpu"), random_state=seed)
    model.fit(X_fit, y_fit, X_cal=X_cal, y_cal=y_cal)

    X_test, y_test = embedded("cifar10_test", options)
    outside = {name: embedded(name, options)[0] for name in OUTSIDE}

    def confidence(X: NDArray) -> NDArray:
        return network_proba(head, X).max(axis=1)

    methods = {
        "network": (network_proba(head, X_test), confidence),
        "polycal": (model.predict_proba(X_test), model.score_samples),
    }
    rows = []
    for method, (P, score) in methods.items():
        inside = score(X_test)
        found = in_distribution_figures(P, y_test)
        found += [
            {"metric": f"auroc {name}", "value": auroc(inside, score(X_out))}
            for name, X_out in outside.items()
        ]
        rows += [{"method": method, **row} for row in found]
    false_alarms = float((inside < model.out_floor_).mean())
    return [*rows, {"method": "polycal", "metric": "false alarms", "value": false_alarms}]


def train_head(X: NDArray, y: NDArray, hidden: tuple[int, ...], seed: int) -> nn.Module:
    """AdamW with the encoder's rate and decay; without hidden layers the head is linear."""
    recipe = RECIPES["lite0"]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        n_classes = int(y.max()) + 1
        head: nn.Module = nn.Linear(X.shape[1], n_classes)
        if hidden:
            head = make_head(X.shape[1], n_classes, hidden)
        rows, labels = torch.as_tensor(X), torch.as_tensor(y)
        optimizer = torch.optim.AdamW(
            head.parameters(), recipe.learning_rate, weight_decay=recipe.weight_decay
        )
        n_steps = EPOCHS * -(-len(X) // ROWS)
        schedule = torch.optim.lr_scheduler.OneCycleLR(
            optimizer, recipe.learning_rate, total_steps=n_steps, cycle_momentum=False
        )
        for _ in range(EPOCHS):
            for places in torch.randperm(len(rows)).split(ROWS):
                optimizer.zero_grad()
                functional.cross_entropy(head(rows[places]), labels[places]).backward()
                optimizer.step()
                schedule.step()
    return head.eval()


def network_proba(head: nn.Module, X: NDArray) -> NDArray:
    with torch.no_grad():
        return softmax(head(torch.as_tensor(X)).numpy().astype(float), axis=1)


# -------------------------------------------------------------------------- table


def draw(frame: pd.DataFrame, folder: Path) -> list[Path]:
    """Mean of each figure over the repetitions, and whether the heads are as near as asked."""
    frame = frame[frame["stage"] == "score"]
    figures = frame.groupby(["method", "head", "metric"])["value"].agg(["mean", "std"])
    lines = ["| | " + " | ".join(METRICS.values()) + " |", "|---" * (len(METRICS) + 1) + "|"]
    for method, head in product(("network", "polycal"), HEADS):
        pairs = figures.loc[(method, head)].reindex(list(METRICS))
        shown = [
            "" if np.isnan(pair["mean"]) else f"{pair['mean']:.4f} ± {pair['std']:.4f}"
            for _, pair in pairs.iterrows()
        ]
        lines.append(f"| {method}, {head} head | " + " | ".join(shown) + " |")
    text = [
        "# A linear head beside a ReLU head",
        f"Mean and standard deviation over {frame['rep'].nunique()} repetitions.",
        "\n".join(lines),
        "\n".join(verdicts(figures["mean"]["polycal"].unstack("head"))),
    ]
    path = folder / "linear_head.md"
    write_atomically(path, "\n\n".join(text) + "\n")
    return [path]


def verdicts(means: pd.DataFrame) -> list[str]:
    """How much worse a linear head is than asked; ``means`` has a column for each head."""
    found = []
    for metric, most in WITHIN.items():
        linear, relu = means.loc[metric, ["linear", "relu"]]
        worse = linear - relu if metric == "ece" else relu - linear
        verdict = "met" if worse <= most else "missed"
        words = f"{METRICS[metric]}, at most {most} worse: linear {linear:.4f}, ReLU {relu:.4f}"
        found.append(f"- {words}: {verdict}")
    return found


STUDY = Study("linear_head", __doc__.splitlines()[0], cells, run, draw, settings)

if __name__ == "__main__":
    sys.exit(main(STUDY))
