"""Images of the vision study, cut for one seed, and the store of what a training made of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split

from polycal._utils.files import atomic_file

from . import images
from ._runner import Cell, Options, cell_name
from .data import cache

IDS = ("cifar10", "cifar100", "svhn")
CALIBRATION_SHARE = 0.1
N_NOISE = 10_000


# -------------------------------------------------------------------------- data


@dataclass(frozen=True)
class Problem:
    """The images of one ID set, cut, and those of every test set."""

    fit: tuple[NDArray, NDArray]
    cal: tuple[NDArray, NDArray]
    tests: dict[str, NDArray]
    n_classes: int


_read_sets: dict[tuple, Any] = {}


def read_set(name: str, options: Options) -> tuple[NDArray, NDArray]:
    """A set as it is read once in a process."""
    key = name, options.quick, options.data
    if key not in _read_sets:
        make = toy_set if options.quick else images.read
        _read_sets[key] = make(name, cache(options.data))
    return _read_sets[key]


def toy_set(name: str, folder: Path | None = None) -> tuple[NDArray, NDArray]:
    """Gratings that stand for a set in ``--quick``: a class is a direction, a set a frequency."""
    which, part = name.split("_")
    n, seed = (480, 0) if part == "train" else (150, 1)
    rng = np.random.default_rng([seed, IDS.index(which)])
    y = np.arange(n) % 4
    angle, phase = y * np.pi / 4, rng.uniform(0, 2 * np.pi, n)
    place = np.arange(images.SIDE)
    wave = np.cos(angle)[:, None, None] * place[:, None] + np.sin(angle)[:, None, None] * place
    wave = np.sin(wave * (0.5 + 0.6 * IDS.index(which)) + phase[:, None, None])
    x = 128 + 60 * wave[..., None] + rng.normal(0, 20, (n, images.SIDE, images.SIDE, 3))
    return x.clip(0, 255).astype(np.uint8), y


def split_seed(cell: Cell, options: Options) -> int:
    """The same rows to fit and to calibrate for every encoder, loss and method."""
    return options.seed_of(id=cell["id"], rep=cell["rep"])


def make_problem(cell: Cell, options: Options) -> Problem:
    x, y = read_set(f"{cell['id']}_train", options)
    fit, held = train_test_split(
        np.arange(len(y)),
        test_size=CALIBRATION_SHARE,
        stratify=y,
        random_state=split_seed(cell, options),
    )
    tests = {name: read_set(f"{name}_test", options)[0] for name in IDS}
    n_noise = N_NOISE if not options.quick else 150
    tests["noise"] = images.noise(n_noise, split_seed(cell, options))
    return Problem((x[fit], y[fit]), (x[held], y[held]), tests, int(y.max()) + 1)


# ------------------------------------------------------------------------- store


def place_of(cell: Cell, options: Options, loss: str) -> Path:
    """Where a training leaves its files."""
    root = options.extra.get("store") or cache(options.data) / "vision_store"
    key = {"id": cell["id"], "encoder": cell["encoder"], "loss": loss, "rep": cell["rep"]}
    return root / (cell_name(key) + "-quick" * options.quick)


def keep(place: Path, name: str, arrays: dict[str, NDArray]) -> None:
    """Arrays as float16 (labels as they are), the whole file or none."""
    small = {k: v.astype(np.float16) if v.dtype.kind == "f" else v for k, v in arrays.items()}
    with atomic_file(place / name) as part, open(part, "wb") as file:
        np.savez(file, **small)


def load(place: Path, name: str, *keys: str) -> dict[str, NDArray]:
    """Arrays that a training left, as float32."""
    if not (place / name).exists():
        raise FileNotFoundError(
            f"{place / name} is not there: run the cell that makes it first (delete that cell's "
            "file if it ran on another machine), or name the folder that has it"
        )
    with np.load(place / name, allow_pickle=False) as arrays:
        found = {k: arrays[k] for k in keys or arrays.files}
    return {k: v.astype(np.float32) if v.dtype.kind == "f" else v for k, v in found.items()}
