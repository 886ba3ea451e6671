"""Circles and rectangles under three shifts (Fig. 4 of the paper).

python -m studies.image_simulation [--jobs 2] [--quick]

A small CNN (one convolution of 3 x 3, then 10 nodes and 2) learns 2000 circles and 2000 rectangles
of 100 x 100 pixels at intensity 127. New images move away from them in three ways: another
intensity, a mixture of a circle and a rectangle, an ellipse in place of a circle. Figures: mean
highest probability of CNN and KDN at each step, 10 repetitions.

The paper gives the layers and no more; 3 channels are those of its published code. A pool of 4 x
4 pixels after the convolution, Adam at 1e-3 and the passes are ours; 70 % of the images train, 30 %
calibrate. The biases of the convolution begin at 0, so that the background does: a random one is on
in every pixel of every image, and the same step of 1728 weights then drove all 10 nodes below 0
in the first pass of one repetition in ten, where no gradient comes back. KDN reads the ReLU of the
10 nodes, and its density lives on what those 10 nodes see, not normalised: brightness is one of the
shifts.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split
from torch import nn

from polycal import PAPER, GeodesicCalibrator, TorchParent
from polycal.metrics import mean_max_confidence
from polycal.simulations import make_ellipse_images, make_mixed_images, make_shape_images

from ._claims import Claim, write_claims
from ._runner import Cell, Options, Study, main

INTENSITY = 127.0
SHIFTS = {
    "intensity": np.linspace(0, 254, 13),
    "mixture": np.linspace(0, 1, 11),
    "axis": np.array([0.01, 2.5, 5, 7.5, 10, 12.5, 15, 20, 25, 30, 35, 40]),
}
# Where a shift leaves the images in distribution.
HOME = {"intensity": (127.0,), "mixture": (0.0, 1.0), "axis": (10.0,)}
LABELS = {
    "intensity": "intensity of the object",
    "mixture": "share of the circle",
    "axis": "axis of the ellipse",
}
OURS = {"kdn": {}, "kdn PAPER": PAPER}
METHODS = ("cnn", *OURS)
STYLES = {
    "cnn": {"color": "#666666", "ls": "--", "marker": "s"},
    "kdn": {"color": "#0072B2", "ls": "-", "marker": "o"},
    "kdn PAPER": {"color": "#D55E00", "ls": "-.", "marker": "^"},
}
PRIOR = 0.5


def settings(options: Options) -> dict:
    few = options.quick
    return {
        "n_images": 600 if few else 4000,
        "n_test": 60 if few else 400,
        "epochs": 20,
        "channels": 3,
        "pool": 4,
        "bias": 0,
    }


def cells(options: Options) -> list[Cell]:
    return [{"rep": rep} for rep in options.repeat(10)]


def shifted(shift: str, value: float, n: int, seed: int) -> NDArray:
    """New images at one step of a shift."""
    if shift == "intensity":
        return make_shape_images(n, intensity=float(value), random_state=seed)[0]
    if shift == "mixture":
        return make_mixed_images(n, epsilon=float(value), random_state=seed)
    return make_ellipse_images(n, axis=float(value), random_state=seed)


def make_cnn(channels: int, pool: int, seed: int) -> tuple[nn.Sequential, nn.Sequential]:
    """The encoder (pixels 0 to 255 in, features out) and the dense layers."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        encoder = nn.Sequential(
            nn.Unflatten(1, (1, -1)),
            nn.AvgPool2d(1, divisor_override=255),  # pixels from 0 to 1
            nn.Conv2d(1, channels, 3),
            nn.ReLU(),
            nn.AvgPool2d(pool),
            nn.Flatten(),
        )
        nn.init.zeros_(encoder[2].bias)
        side = (100 - 2) // pool
        head = nn.Sequential(nn.Linear(channels * side**2, 10), nn.ReLU(), nn.Linear(10, 2))
    return encoder, head


def train_cnn(
    net: nn.Module, X: NDArray, y: NDArray, epochs: int, seed: int, device: str
) -> nn.Module:
    net.to(device).train()
    rows, target = torch.as_tensor(X, device=device), torch.as_tensor(y, device=device)
    step = torch.optim.Adam(net.parameters(), 1e-3)
    order = torch.Generator().manual_seed(seed)
    for _ in range(epochs):
        for batch in torch.randperm(len(rows), generator=order).to(device).split(64):
            step.zero_grad()
            nn.functional.cross_entropy(net(rows[batch]), target[batch]).backward()
            step.step()
    return net.eval()


def run(cell: Cell, options: Options) -> list[dict]:
    size, seed = settings(options), options.seed_of(**cell)
    X, y = make_shape_images(size["n_images"], random_state=seed)
    X_fit, X_cal, y_fit, y_cal = train_test_split(
        X, y, test_size=0.3, stratify=y, random_state=seed
    )
    encoder, head = make_cnn(size["channels"], size["pool"], seed)
    net = nn.Sequential(encoder, head)
    train_cnn(net, X_fit, y_fit, size["epochs"], seed, options.device)
    parent = TorchParent(encoder=encoder, head=head, normalize=False, device=options.device)
    kept = parent.embed(X_fit), parent.embed(X_cal)
    models = {
        name: GeodesicCalibrator(parent.on_embeddings(), **setting).fit(
            kept[0], y_fit, X_cal=kept[1], y_cal=y_cal
        )
        for name, setting in OURS.items()
    }

    def answers(images: NDArray) -> dict[str, NDArray]:
        embedding = parent.embed(images)
        with torch.no_grad():
            logits = head(torch.as_tensor(embedding, device=options.device))
        own = {"cnn": logits.double().softmax(dim=1).cpu().numpy()}
        return own | {name: model.predict_proba(embedding) for name, model in models.items()}

    X_test, y_test = make_shape_images(size["n_test"], random_state=seed + 1)
    rows = [
        {"method": name, "metric": "error", "value": float((P.argmax(axis=1) != y_test).mean())}
        for name, P in answers(X_test).items()
    ]
    for shift, values in SHIFTS.items():
        for value in values:
            found = answers(shifted(shift, value, size["n_test"], seed + 2))
            rows += [
                {
                    "method": name,
                    "metric": "confidence",
                    "shift": shift,
                    "at": float(value),
                    "value": mean_max_confidence(P),
                }
                for name, P in found.items()
            ]
    return rows


# ------------------------------------------------------------------ claims, figure


def find_claims(frame: pd.DataFrame) -> list[Claim]:
    """The paper's sentence on Fig. 4, for each shift."""
    mean = frame[frame["metric"] == "confidence"].groupby(["method", "shift", "at"])["value"].mean()
    error = frame[frame["metric"] == "error"].groupby("method")["value"].mean()
    claims = [
        Claim(
            "the CNN tells circles from rectangles",
            name,
            f"mean error on new images {error[name]:.4f}",
            bool(error[name] < 0.01),
        )
        for name in METHODS
    ]
    for name in OURS:
        for shift in SHIFTS:
            ours, cnn = mean[name, shift], mean["cnn", shift]
            home = ours[list(HOME[shift])].mean()
            away = ours.drop(list(HOME[shift]))
            lowest = away.idxmin()
            claims.append(
                Claim(
                    f"less sure of images out of distribution ({LABELS[shift]})",
                    name,
                    f"{home:.3f} at home, {away.mean():.3f} on average elsewhere, lowest "
                    f"{away.min():.3f} at {lowest:g}, where the CNN has {cnn[lowest]:.3f}",
                    bool(away.mean() < home and away.mean() < cnn.drop(list(HOME[shift])).mean()),
                )
            )
    return claims


def draw(frame: pd.DataFrame, folder: Path) -> list[Path]:
    return [*draw_figure(frame, folder), write_claims(find_claims(frame), folder)]


def draw_figure(frame: pd.DataFrame, folder: Path) -> list[Path]:
    """Three images above, three shifts below."""
    from ._figures import new_figure, save

    fig, axes = new_figure(2, [1.0, 1.0, 1.0], height=2.3, width=2.6)
    shapes, y = make_shape_images(2, random_state=4)
    pictures = {
        "circle": shapes[y == 0][0],
        "rectangle": shapes[y == 1][0],
        "ellipse, axis 30": make_ellipse_images(1, axis=30, random_state=3)[0],
    }
    for ax, (title, picture) in zip(axes[0], pictures.items(), strict=True):
        ax.imshow(picture, cmap="gray", vmin=0, vmax=254)
        ax.set(title=title, xticks=[], yticks=[])
    for ax, shift in zip(axes[1], SHIFTS, strict=True):
        own = frame[(frame["metric"] == "confidence") & (frame["shift"] == shift)]
        for name in METHODS:
            values = own[own["method"] == name].groupby("at")["value"]
            middle = values.median()
            ax.plot(middle.index, middle, lw=1.6, ms=3.5, label=name, **STYLES[name])
            edges = values.quantile(0.25), values.quantile(0.75)
            ax.fill_between(middle.index, *edges, color=STYLES[name]["color"], alpha=0.15, lw=0)
        for place in HOME[shift]:
            ax.axvline(place, color="black", lw=0.8, ls=":")
        ax.axhline(PRIOR, color="black", lw=0.8, ls=":")
        ax.set(xlabel=LABELS[shift], ylim=(0.46, 1.03), yticks=[0.5, 0.75, 1.0])
    axes[1, 0].set_ylabel("mean highest probability")
    handles, names = axes[1, 0].get_legend_handles_labels()
    fig.legend(handles, names, loc="outside lower center", ncols=len(names), frameon=False)
    return save(fig, folder / "image_simulation")


STUDY = Study("image_simulation", __doc__.splitlines()[0], cells, run, draw, settings)

if __name__ == "__main__":
    raise SystemExit(main(STUDY))
