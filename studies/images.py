"""The image sets of the vision study: read, import, and pack for a journey.

python -m studies.images list
python -m studies.images import FOLDER         copies sets from a folder into the cache
python -m studies.images pack TARGET [--megabytes 58]   cuts them into parts of lossless WebP

A set is NAME.npz (cifar10_train, cifar10_test, cifar100_..., svhn_..., tinyimagenet) with x
(uint8, rows x side x side x 3) and y; or packed: mosaics of lossless WebP, whole or cut into
files NAME-000.npz, NAME-001.npz, ...; or the original JPEG files in one array. The cache is that
of ``studies.data``. With Tiny ImageNet come ``classes``, the WordNet id of each class, since
those that CIFAR has too are left out of it.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from polycal._utils.files import atomic_file
from polycal._utils.optional import optional

from .data import cache

SETS = {"cifar10": 10, "cifar100": 100, "svhn": 10}
SIZES = {
    "cifar10_train": 50_000,
    "cifar10_test": 10_000,
    "cifar100_train": 50_000,
    "cifar100_test": 10_000,
    "svhn_train": 73_257,
    "svhn_test": 26_032,
    "tinyimagenet": 10_000,
}
SIDE = 32
PER_MOSAIC = 2500  # 1600 pixels square
# Classes of Tiny ImageNet that CIFAR-10, CIFAR-100 or SVHN show too (digits on a scoreboard).
# All animals are left out beside these: they end with this id.
LAST_ANIMAL = "n02509815"
# fmt: off
SHARED = frozenset((
    "n02793495", "n02795169", "n02814533", "n02823428", "n02909870", "n02917067", "n02950826",
    "n03042490", "n03085013", "n03100240", "n03179701", "n03201208", "n03393912", "n03444034",
    "n03447447", "n03544143", "n03599486", "n03637318", "n03649909", "n03662601", "n03670208",
    "n03796401", "n03891332", "n03902125", "n03937543", "n03977966", "n03983396", "n04008634",
    "n04099969", "n04146614", "n04149813", "n04285008", "n04311004", "n04328186", "n04366367",
    "n04417672", "n04465501", "n04487081", "n04532670", "n04560804", "n04596742", "n06596364",
    "n07579787", "n07720875", "n07734744", "n07747607", "n07920052", "n09193705", "n09246464",
    "n09256479", "n09332890", "n09428293",
))
# fmt: on


def read(name: str, folder: Path) -> tuple[NDArray, NDArray]:
    """x (uint8, rows x 32 x 32 x 3) and y of a set."""
    files = find(name, folder)
    if not files:
        raise SystemExit(
            f"{folder} holds no image set {name}: fill it with python -m studies.images import "
            "FOLDER, or name another folder in POLYCAL_DATA"
        )
    parts = [_read_file(path) for path in files]
    x, y = (np.concatenate([part[k] for part in parts]) for k in (0, 1))
    if len(x) != len(y) or x.shape[1:] != (SIDE, SIDE, 3) or x.dtype != np.uint8:
        raise ValueError(
            f"{name} must hold uint8 images of {SIDE} x {SIDE} x 3 and as many labels; got "
            f"{x.dtype} {x.shape} and {len(y)} labels"
        )
    if len(x) != SIZES[name]:
        raise ValueError(f"{name} must hold {SIZES[name]} images; got {len(x)} from {len(files)}")
    return x, y.astype(np.int64)


def read_outliers(folder: Path) -> NDArray:
    """Tiny ImageNet without the classes that an ID set has too, at 32 x 32."""
    files = find("tinyimagenet", folder)
    x, y = read("tinyimagenet", folder)
    with np.load(files[0], allow_pickle=False) as arrays:
        classes = arrays["classes"]
    kept = np.array([word > LAST_ANIMAL and word not in SHARED for word in classes])
    return x[kept[y]]


def find(name: str, folder: Path) -> list[Path]:
    """The files of a set, in order; none where it is not there."""
    whole = [folder / f"{name}.npz"]
    return whole if whole[0].exists() else sorted(folder.glob(f"{name}-*.npz"))


def noise(n: int, seed: int) -> NDArray:
    """Uniform noise, the easiest set out of distribution."""
    shape = (n, SIDE, SIDE, 3)
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def _read_file(path: Path) -> tuple[NDArray, NDArray]:
    with np.load(path, allow_pickle=False) as arrays:
        y = arrays["y"]
        if "x" in arrays.files:
            x = arrays["x"]
        elif "jpeg" in arrays.files:
            x = _from_jpeg(arrays["jpeg"].tobytes(), arrays["offsets"])
        else:
            names = [name for name in arrays.files if name.startswith("mosaic")]
            mosaics = [arrays[f"mosaic{i}"].tobytes() for i in range(len(names))]
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                tiles = list(pool.map(lambda m: _cut(m, int(arrays["side"])), mosaics))
            x = np.concatenate(tiles)[: len(y)]
    return _to_side(x), y


def _from_jpeg(blob: bytes, offsets: NDArray) -> NDArray:
    image = optional("PIL.Image", "plot")
    files = [blob[a:b] for a, b in pairwise(offsets)]
    return np.stack([np.asarray(image.open(io.BytesIO(f)).convert("RGB")) for f in files])


def _cut(mosaic: bytes, side: int) -> NDArray:
    """The tiles of a mosaic, row by row."""
    pixels = np.asarray(optional("PIL.Image", "plot").open(io.BytesIO(mosaic)).convert("RGB"))
    rows, columns = pixels.shape[0] // side, pixels.shape[1] // side
    tiles = pixels.reshape(rows, side, columns, side, 3).transpose(0, 2, 1, 3, 4)
    return tiles.reshape(rows * columns, side, side, 3)


def _to_side(x: NDArray) -> NDArray:
    """Larger squares become 32 x 32, each pixel the mean of a block."""
    if x.shape[1] == SIDE:
        return x
    step = x.shape[1] // SIDE
    blocks = x.reshape(len(x), SIDE, step, SIDE, step, 3).astype(np.float32)
    return np.rint(blocks.mean(axis=(2, 4))).astype(np.uint8)


def pack(folder: Path, target: Path, megabytes: float) -> list[str]:
    """Every set of a folder in parts of limited size; one line for each part.

    What is packed already goes as it is, mosaic by mosaic; other sets become lossless WebP.
    """
    # Test sets first: every ID set needs all of them. Then one training set after the other.
    order = [name for name in SIZES if not name.endswith("train")]
    order += [name for name in SIZES if name.endswith("train")]
    part, used, lines, limit = 0, 0, [], megabytes * 2**20
    for name in order:
        for number, content in enumerate(_pieces(name, folder)):
            if used + len(content) > limit:
                lines.append(f"part{part}: {used / 2**20:.1f} MiB")
                part, used = part + 1, 0
            path = target / f"part{part}" / f"{name}-{number:03}.npz"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            used += len(content)
    return [*lines, f"part{part}: {used / 2**20:.1f} MiB"]


def _pieces(name: str, folder: Path) -> Iterator[bytes]:
    """The files that a set is cut into."""
    for path in find(name, folder):
        with np.load(path, allow_pickle=False) as arrays:
            files = set(arrays.files)
            if "jpeg" in files:
                yield path.read_bytes()
                continue
            y = arrays["y"].astype(np.int16)
            count = sum(file.startswith("mosaic") for file in files)
            if "x" in files:
                parts = [arrays["x"][i : i + PER_MOSAIC] for i in range(0, len(y), PER_MOSAIC)]
                stream: Iterator = ((_encode(x), len(x)) for x in map(_to_side, parts))
            else:
                mosaics = (arrays[f"mosaic{i}"].tobytes() for i in range(count))
                stream = ((mosaic, _tiles(mosaic)) for mosaic in mosaics)
            start = 0
            for mosaic, n in stream:
                out = io.BytesIO()
                code = np.frombuffer(mosaic, dtype=np.uint8)
                np.savez(out, mosaic0=code, y=y[start : start + n], side=SIDE)
                start += n
                yield out.getvalue()


def _encode(x: NDArray) -> bytes:
    """A mosaic as lossless WebP, compared with its source."""
    buffer = io.BytesIO()
    picture = optional("PIL.Image", "plot").fromarray(_join(x))
    picture.save(buffer, "WEBP", lossless=True, quality=75, method=4)
    if not np.array_equal(_cut(buffer.getvalue(), SIDE)[: len(x)], x):
        raise ValueError("WebP did not keep every pixel; install a Pillow with lossless WebP")
    return buffer.getvalue()


def _tiles(mosaic: bytes) -> int:
    width, height = optional("PIL.Image", "plot").open(io.BytesIO(mosaic)).size
    return (width // SIDE) * (height // SIDE)


def _join(x: NDArray) -> NDArray:
    """Images as one square mosaic, filled up with black."""
    n = int(np.ceil(np.sqrt(len(x))))
    tiles = np.zeros((n * n, *x.shape[1:]), dtype=np.uint8)
    tiles[: len(x)] = x
    return tiles.reshape(n, n, SIDE, SIDE, 3).transpose(0, 2, 1, 3, 4).reshape(n * SIDE, -1, 3)


def import_folder(source: Path, target: Path) -> list[str]:
    """Copy the image sets of a folder that pass; one line for each."""
    lines = []
    for name in SIZES:
        files = find(name, source)
        if not files:
            continue
        try:
            read(name, source)
        except ValueError as error:
            lines.append(f"refused {name}: {error}")
            continue
        target.mkdir(parents=True, exist_ok=True)
        for path in files:
            with atomic_file(target / path.name) as part:
                part.write_bytes(path.read_bytes())
        lines.append(f"taken   {name}")
    if not lines:
        raise SystemExit(f"{source} holds none of {', '.join(SIZES)}")
    return lines


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m studies.images", description="Image sets.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list", help="what the cache holds")
    commands.add_parser("import", help="copy sets").add_argument("folder", type=Path)
    packing = commands.add_parser("pack", help="cut the cache's sets into parts")
    packing.add_argument("target", type=Path)
    packing.add_argument("--megabytes", type=float, default=58.0)
    args = parser.parse_args(argv)
    folder = cache()
    if args.command == "list":
        lines = [f"{name:16} {len(find(name, folder))} file(s)" for name in SIZES]
    elif args.command == "import":
        lines = import_folder(args.folder, folder)
    else:
        lines = pack(folder, args.target, args.megabytes)
    print(f"cache: {folder}", *lines, sep="\n")
    return int(any(line.startswith("refused") for line in lines))


if __name__ == "__main__":
    sys.exit(main())
