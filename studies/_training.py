"""Training and reading of image classifiers: all pixels on the device, one loop for every loss.

Losses: cross-entropy; focal (Lin et al. 2017; gamma 3 as in Mukhoti et al. 2020); dual focal (Tao
et al. 2023, gamma 5); outlier exposure (Hendrycks et al. 2019, weight 0.5); ACET (Hein et al.
2019: noise whose confidence an attack has raised).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from ._encoders import Recipe

FOCAL_GAMMA = 3.0
DUAL_GAMMA = 5.0
OUTLIER_WEIGHT = 0.5
ATTACK_RADIUS = 0.3  # of pixels from 0 to 1
ATTACK_STEPS = 5
PAD = 4


def focal_loss(logits: Tensor, y: Tensor, gamma: float = FOCAL_GAMMA) -> Tensor:
    """-(1 - p_y)^gamma log p_y."""
    log_p = functional.log_softmax(logits, dim=1).gather(1, y[:, None])[:, 0]
    return (-((1 - log_p.exp()) ** gamma) * log_p).mean()


def dual_focal_loss(logits: Tensor, y: Tensor, gamma: float = DUAL_GAMMA) -> Tensor:
    """-(1 - p_y + p_j)^gamma log p_y, where p_j is the highest probability below p_y."""
    log_p = functional.log_softmax(logits, dim=1)
    p, log_own = log_p.exp(), log_p.gather(1, y[:, None])
    own = log_own.exp()
    below = torch.where(p < own, p, 0.0).amax(dim=1, keepdim=True)
    return (-((1 - own + below) ** gamma) * log_own).mean()


def uniform_loss(logits: Tensor) -> Tensor:
    """Cross-entropy from the uniform distribution: outlier exposure's term."""
    return -functional.log_softmax(logits, dim=1).mean()


def confidence_loss(logits: Tensor) -> Tensor:
    """Mean highest log probability: ACET's term."""
    return functional.log_softmax(logits, dim=1).amax(dim=1).mean()


OWN_LOSS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "cross-entropy": functional.cross_entropy,
    "oe": functional.cross_entropy,
    "focal": focal_loss,
    "dual focal": dual_focal_loss,
    "acet": functional.cross_entropy,
}
LOSSES = tuple(OWN_LOSS)


@dataclass(frozen=True)
class Images:
    """Pixels (uint8, rows x 3 x side x side) and labels, on one device."""

    x: Tensor
    y: Tensor

    @classmethod
    def put(cls, x: NDArray, y: NDArray, device: str) -> Images:
        return cls(to_pixels(x, device), torch.as_tensor(y, device=device))


def to_pixels(x: NDArray, device: str) -> Tensor:
    return torch.as_tensor(np.ascontiguousarray(x.transpose(0, 3, 1, 2)), device=device)


def augment(x: Tensor, flip: bool, generator: torch.Generator) -> Tensor:
    """A random crop of the image padded by 4 black pixels, and a random mirror image."""
    n, side = len(x), x.shape[-1]
    padded = functional.pad(x, (PAD,) * 4)
    shift = torch.randint(2 * PAD + 1, (2, n), device=x.device, generator=generator)
    place = torch.arange(side, device=x.device) + shift[..., None]  # (2, n, side)
    row, column = place[0][:, None, :, None], place[1][:, None, None, :]
    samples = torch.arange(n, device=x.device)[:, None, None, None]
    colours = torch.arange(x.shape[1], device=x.device)[None, :, None, None]
    x = padded[samples, colours, row, column]
    if flip:
        mirrored = torch.rand(n, device=x.device, generator=generator) < 0.5
        x = torch.where(mirrored[:, None, None, None], x.flip(3), x)
    return x


def make_noise(n: int, side: int, generator: torch.Generator) -> Tensor:
    """Uniform noise, every second image smoothed and stretched to full contrast, in [0, 1]."""
    x = torch.rand(n, 3, side, side, device=generator.device, generator=generator)
    smooth = x[::2]
    width = 1.0 + 1.5 * torch.rand(len(smooth), device=x.device, generator=generator)
    distance = torch.arange(-5, 6, device=x.device)
    kernel = torch.exp(-0.5 * (distance / width[:, None]) ** 2)
    kernel = (kernel / kernel.sum(dim=1, keepdim=True)).repeat_interleave(3, dim=0)
    flat = smooth.reshape(1, -1, side, side)
    for shape, pad in (((-1, 1, 11, 1), (0, 0, 5, 5)), ((-1, 1, 1, 11), (5, 5, 0, 0))):
        flat = functional.pad(flat, pad, mode="reflect")
        flat = functional.conv2d(flat, kernel.reshape(shape), groups=flat.shape[1])
    smooth = flat.reshape(smooth.shape)
    low, high = (f(smooth, dim=(1, 2, 3), keepdim=True) for f in (torch.amin, torch.amax))
    x[::2] = (smooth - low) / (high - low)
    return x


def raise_confidence(
    model: nn.Module,
    x: Tensor,
    generator: torch.Generator,
    radius: float = ATTACK_RADIUS,
    steps: int = ATTACK_STEPS,
) -> Tensor:
    """The neighbour of x (each pixel within ``radius``) that the model is most sure of.

    Projected gradient ascent on the highest log probability, from a random start, in evaluation
    mode; the mode is put back.
    """
    training = model.training
    model.eval()
    low, high = (x - radius).clamp(0, 1), (x + radius).clamp(0, 1)
    start = torch.rand(x.shape, device=x.device, generator=generator)
    moved = low + (high - low) * start
    for _ in range(steps):
        moved = moved.detach().requires_grad_()
        (slope,) = torch.autograd.grad(confidence_loss(model(moved)), moved)
        step = 2.5 * radius / steps * slope.sign()
        moved = torch.minimum(torch.maximum(moved.detach() + step, low), high)
    model.train(training)
    return moved


def low_precision(device: str) -> Any:
    """bfloat16 where that is fast."""
    if str(device).startswith("cuda"):
        return torch.autocast("cuda", torch.bfloat16)
    return nullcontext()


def train(
    model: nn.Module,
    rows: Images,
    recipe: Recipe,
    *,
    loss: str = "cross-entropy",
    outliers: Tensor | None = None,
    flip: bool = True,
    seed: int = 0,
    compiled: bool = False,
    on_step: Callable[[int, int], Any] = lambda done, total: None,
) -> nn.Module:
    """Train in place for ``recipe.images`` images and leave the model in evaluation mode.

    ``outliers`` are pixels for "oe". The learning rate rises for a fifth of the steps and falls to
    nothing by the end.
    """
    device = rows.x.device
    model.to(device).train()
    call = torch.compile(model) if compiled else model
    batch = min(recipe.batch, len(rows.x))
    total = max(1, recipe.images // batch)
    optimizer = _optimizer(model, recipe, fused=device.type == "cuda")
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, recipe.learning_rate, total_steps=total, pct_start=0.2, cycle_momentum=False
    )
    generator = torch.Generator(device).manual_seed(seed)
    # Every batch has the same shape, so it pays to try which convolutions are fastest.
    torch.backends.cudnn.benchmark = True
    own_loss = OWN_LOSS[loss]
    for done, places in enumerate(_batches(len(rows.x), batch, total, generator), start=1):
        x, y = augment(rows.x[places], flip, generator).float() / 255, rows.y[places]
        with low_precision(device.type):
            other = _others(loss, model, outliers, batch, x.shape[-1], flip, generator)
            logits = call(x if other is None else torch.cat([x, other])).float()
            value = own_loss(logits[: len(x)], y)
            if loss == "oe":
                value = value + OUTLIER_WEIGHT * uniform_loss(logits[len(x) :])
            elif loss == "acet":
                value = value + confidence_loss(logits[len(x) :])
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        schedule.step()
        on_step(done, total)
    torch.backends.cudnn.benchmark = False
    return model.eval()


def _others(
    loss: str,
    model: nn.Module,
    outliers: Tensor | None,
    batch: int,
    side: int,
    flip: bool,
    generator: torch.Generator,
) -> Tensor | None:
    """Images beside the batch that no class shall be sure of, in [0, 1]."""
    if loss == "oe":
        if outliers is None:
            raise ValueError('loss "oe" needs outliers, the pixels of an auxiliary set; got None')
        places = torch.randint(
            len(outliers), (batch // 2,), device=generator.device, generator=generator
        )
        return augment(outliers[places], flip, generator).float() / 255
    if loss == "acet":
        noise = make_noise(max(2, batch // 4), side, generator)
        return raise_confidence(model, noise, generator)
    return None


def _batches(n: int, size: int, total: int, generator: torch.Generator) -> Iterator[Tensor]:
    """Places of whole batches, epoch after epoch."""
    done = 0
    while done < total:
        order = torch.randperm(n, device=generator.device, generator=generator)
        for start in range(0, n - size + 1, size):
            if done == total:
                return
            yield order[start : start + size]
            done += 1


def _optimizer(model: nn.Module, recipe: Recipe, fused: bool) -> torch.optim.Optimizer:
    # Biases and scales are not pulled to zero.
    decay = [p for p in model.parameters() if p.ndim > 1]
    others = [p for p in model.parameters() if p.ndim <= 1]
    groups = [
        {"params": decay, "weight_decay": recipe.weight_decay},
        {"params": others, "weight_decay": 0.0},
    ]
    if recipe.optimizer == "adamw":
        return torch.optim.AdamW(groups, recipe.learning_rate, fused=fused or None)
    return torch.optim.SGD(
        groups, recipe.learning_rate, momentum=0.9, nesterov=True, fused=fused or None
    )


@contextmanager
def fast_products() -> Iterator[None]:
    """TF32 on a GPU."""
    before = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.allow_tf32 = True
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before[0])
        torch.backends.cudnn.allow_tf32 = before[1]


def read(model: nn.Module, x: Tensor, batch: int = 1000) -> tuple[NDArray, NDArray]:
    """Embeddings and logits of pixels, float32; on a GPU products are in TF32."""
    embeddings, logits = [], []
    with fast_products(), torch.no_grad():
        for part in x.split(batch):
            embedding = model.encoder(part)
            embeddings.append(embedding)
            logits.append(model.head(embedding))
    return torch.cat(embeddings).cpu().numpy(), torch.cat(logits).cpu().numpy()
