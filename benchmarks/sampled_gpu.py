"""Sampled tables of millions of rows on a GPU, beside the CPU's compiled loops.

python benchmarks/sampled_gpu.py FOLDER [--rows 10000000] [--cpu-rows 1000000] [--queries 100000]
    [--device cuda] [--jobs 16]

Rows are made on the device by a seeded generator: 200 oblivious trees of 32 leaves ask for the
sides of 10 hidden features, the class is one of 3, a fifth of the labels are random. The tables are
those of a model (128 sequences of paths, scales 2, 8 and 32), nothing is left out of them, and a
query is answered as a model does it: class sums, the 64 modes that it meets most, their exact K,
the 10 nearest. Times are of one build after a small one, and the best of 3 for queries, with the
device synchronized.

Three checks: the sums of some queries are compared with those by plain comparison of all rows along
all paths (a slot knows 16 bits of its bucket, so one bucket in 65,536 is taken for another); the
tables of the first rows are those of the compiled loops, slot by slot; and so are the answers.

The share of the memory bandwidth has bytes that were counted, not measured: what each operation
reads and writes (``counted_bytes``), and the least that any way must move (``least_bytes``).

Where numba is missing, polycal's compiled loops are left out; torch and numpy are enough then. What
is found is printed and written to FOLDER/sampled_gpu.json.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

SOURCE = Path(__file__).resolve().parent.parent / "src"
sys.path.insert(0, str(SOURCE))
try:
    import numba  # noqa: F401

    import polycal.kernels  # noqa: F401

    COMPILED = ""
except ImportError as error:  # without numba: the files that need torch alone
    COMPILED = str(error)
    for name in ("polycal", "polycal._utils", "polycal.kernels"):
        package = types.ModuleType(name)
        package.__path__ = [str(SOURCE.joinpath(*name.split(".")))]
        sys.modules[name] = package

from polycal.kernels import torch_buckets as buckets  # noqa: E402

SEED, N_CLASSES, N_HIDDEN, DEPTH = 0, 3, 10, 5
SCALES, N_SEQUENCES, N_NEAR, N_NEIGHBORS = np.array([2, 8, 32]), 128, 64, 10
N_CHECKED, N_WARM, REPEATS, N_TIMED = 8, 100_000, 3, 8
# Vendor's peak, bytes a second.
PEAKS = {"H200": 4.8e12, "H100": 3.35e12, "A100": 2.0e12}
# Queries whose exact K is computed at once.
K_BLOCK = 10_000


def make_codes(n: int, n_symbols: int, device: str, seed: int) -> tuple[Any, Any]:
    """Leaf ids, column by column, and labels."""
    trees = np.random.default_rng(SEED)
    generator = torch.Generator(device).manual_seed(seed)
    hidden = torch.randn((N_HIDDEN, n), device=device, generator=generator)
    codes = torch.zeros((n_symbols, n), dtype=torch.int32, device=device)
    for code in codes:
        for feature, threshold in zip(
            trees.integers(0, N_HIDDEN, DEPTH), trees.normal(size=DEPTH), strict=True
        ):
            code.mul_(2).add_(hidden[int(feature)] > float(threshold))
    y = (hidden[0] + hidden[1] * hidden[2] > 0.5).int() + (hidden[3] > 0.5).int()
    random = torch.randint(0, N_CLASSES, (n,), device=device, generator=generator).int()
    flipped = torch.rand(n, device=device, generator=generator) < 0.2
    return codes, torch.where(flipped, random, y)


def labelled(codes: Any, y: Any) -> Any:
    n, device = codes.shape[1], codes.device
    return buckets.DeviceModes(
        codes,
        False,
        buckets.hash_of_all(codes),
        n,
        torch.arange(n + 1, device=device),
        y,
        torch.ones(n, dtype=torch.float64, device=device),
        y,
    )


def draws_of(n_symbols: int) -> tuple[np.ndarray, np.ndarray]:
    """Paths and salts as ``PathTables.build`` draws them."""
    shape = (N_SEQUENCES, int(SCALES[-1]))
    draws = np.random.default_rng(SEED).integers(0, n_symbols, shape).astype(np.int32)
    salt = np.random.default_rng(SEED).integers(0, 2**64, N_SEQUENCES, dtype=np.uint64)
    return draws, salt


def synchronized(device: str) -> None:
    if device.startswith("cuda"):
        torch.cuda.synchronize()


def seconds(function: Callable[[], Any], device: str, repeats: int = 1) -> tuple[float, Any]:
    times = []
    for _ in range(repeats):
        synchronized(device)
        start = time.perf_counter()
        found = function()
        synchronized(device)
        times.append(time.perf_counter() - start)
    return min(times), found


def answers(codes: Any, stored: Any, tables: Any, modes: Any, paths: tuple[Any, ...]) -> Any:
    """Class sums, the modes that queries meet most, and the nearest of them with their K."""
    hashes = buckets.path_hashes(codes, False, *paths, SCALES)
    labels = (modes.label, modes.label_weight)
    sums, met = buckets.look_up(hashes, tables, *labels, N_CLASSES)
    ids = buckets.most_met(met, SCALES, modes.n_candidates, N_NEAR)
    asked = codes.T.contiguous()
    K = [
        buckets.shared_leaves(asked[i : i + K_BLOCK], stored, ids[i : i + K_BLOCK])
        for i in range(0, len(asked), K_BLOCK)
    ]
    near, place = torch.cat(K).topk(N_NEIGHBORS, dim=1)
    return sums, ids, near, ids.gather(1, place)


def plain_sums(codes: Any, stored: Any, y: Any, draws: np.ndarray) -> Any:
    """Class sums of rows that agree with a query along the paths, without any hash."""
    sums = torch.zeros((len(SCALES), codes.shape[1], N_CLASSES), dtype=torch.float64)
    one = torch.stack([y == c for c in range(N_CLASSES)]).to(torch.int8)
    for i in range(codes.shape[1]):
        for path in draws:
            agree, done = torch.ones_like(y, dtype=torch.bool), 0
            for e, scale in enumerate(SCALES):
                for column in path[done:scale].tolist():
                    agree &= stored[column] == codes[column, i]
                done = scale
                sums[e, i] += (one & agree).sum(dim=1).cpu()
    return sums


def phases(modes: Any, draws: np.ndarray, salt: np.ndarray, device: str) -> dict[str, Any]:
    """Seconds of each part of the build, for a few sequences, and the bytes that it moves."""
    paths, salts = (buckets.on_device(a, device) for a in (draws, salt))
    weight, names = buckets.WholeWeights.of(modes), ("hashes", "order", "sort", "sums", "slots")
    times, moved = dict.fromkeys(names, 0.0), dict.fromkeys(names, 0.0)
    for r in range(N_TIMED):
        some = (paths[r : r + 1], salts[r : r + 1])
        parts = {}
        parts["hashes"], h = seconds(
            lambda s=some: buckets.path_hashes(modes.symbols, False, *s, SCALES), device
        )
        parts["order"], order = seconds(
            lambda r=r: buckets.standing_order(
                buckets.mixed(modes.hash ^ salts[r]), modes.n_candidates
            ),
            device,
        )
        parts["sort"], groups = seconds(
            lambda h=h, o=order: [buckets.Buckets.of(x, o, 0) for x in h[0]], device
        )
        parts["sums"], held = seconds(
            lambda g=groups: [x.content(modes, weight, N_CLASSES) for x in g], device
        )
        values = [v for v, _ in held]
        parts["slots"], _ = seconds(
            lambda g=groups, v=values: [
                buckets.fill_slots(x.key, y, 2 * len(x.key) + 1) for x, y in zip(g, v, strict=True)
            ],
            device,
        )
        n_larger = [
            int(((v < 0)[g.is_first.cumsum(0) - 1]).sum())
            for g, v in zip(groups, values, strict=True)
        ]
        counted = counted_bytes(
            modes.symbols.shape[1],
            [len(g.key) for g in groups],
            n_larger,
            modes.symbols.element_size(),
        )
        for name in names:
            times[name] += parts[name]
            moved[name] += counted[name]
        least = least_bytes(
            modes.symbols, [len(g.key) for g in groups], sum(len(c) for _, c in held)
        )
        moved["least"] = moved.get("least", 0.0) + least
    return {"seconds": times, "bytes": moved}


def counted_bytes(n: int, n_buckets: list[int], n_larger: list[int], item: int) -> dict[str, float]:
    """What the operations of one sequence read and write.

    A number that is gathered counts with its own bytes, though memory gives 32 at least. A sort by
    32 bits is 4 passes that read and write keys and places, and one that counts keys.
    """
    steps, tables, total = int(SCALES[-1]), len(n_buckets), sum(n_buckets)
    mixing, sort = 226, 4 * 2 * 12 + 4
    # Upper halves in the order of the rows, sort, rows and keys in the new order, comparisons.
    sorting = 16 + 12 + 16 + sort + 24 + 24 + 9 + 17 + 4
    return {
        # A draw: the column is copied, xor, product, the upper half into the lower.
        "hashes": n * (steps * (2 * item + 16 + item + 16 + 16) + tables * (mixing + 16)),
        "order": n * (24 + mixing + 16 + 8 + sorting),
        "sort": tables * n * (sorting + 18) + total * 16,
        # The bucket of each row; of rows that share one: labels, sort by bucket and class, sums.
        "sums": tables * n * 53 + sum(n_larger) * (282 + sort) + total * 64,
        # Place, running maximum in a square, slot, what is past the end, tag and value.
        "slots": total * (24 + 16 + 24 + 80 + 24 + 9 + 34 + 24) + 2 * total * 6,
    }


def least_bytes(symbols: Any, n_buckets: list[int], n_content: int) -> float:
    """Drawn symbols and labels are read once, slots and content are written once."""
    n = symbols.shape[1]
    read = n * (int(SCALES[-1]) * symbols.element_size() + len(SCALES) * 12)
    return float(read + 2 * sum(n_buckets) * 6 + n_content * 8)


def on_gpu(n: int, args: argparse.Namespace, check: bool) -> tuple[dict[str, Any], Any]:
    device = args.device
    draws, salt = draws_of(args.symbols)
    codes, y = make_codes(n, args.symbols, device, SEED)
    asked, _ = make_codes(args.queries, args.symbols, device, SEED + 1)
    modes = labelled(codes, y)
    paths = tuple(buckets.on_device(a, device) for a in (draws, salt))
    nothing = np.zeros(len(SCALES), np.uint64)
    build, tables = seconds(
        lambda: buckets.build_tables(modes, draws, salt, SCALES, nothing, N_CLASSES), device
    )
    stored = codes.T.contiguous()
    ask = lambda: answers(asked, stored, tables, modes, paths)  # noqa: E731
    query, found = seconds(ask, device, REPEATS)
    held = (tables.start, tables.tag, tables.value, tables.content_start, tables.content)
    row = {"rows": n, "build_s": build, "rows_per_s": n / build, "queries": args.queries}
    row |= {"query_s": query, "query_us": 1e6 * query / args.queries}
    row["tables_GiB"] = sum(t.numel() * t.element_size() for t in held) / 2**30
    row["buckets"] = [
        int((tables.start[e + 1 :: len(SCALES)] - tables.start[e : -1 : len(SCALES)]).sum() // 2)
        for e in range(len(SCALES))
    ]
    if device.startswith("cuda"):
        row["peak_GiB"] = torch.cuda.max_memory_allocated() / 2**30
    if check:
        few = asked[:, :N_CHECKED]
        expected = plain_sums(few, codes, y, draws)
        away = (found[0][:, :N_CHECKED].cpu() - expected).abs()
        row["sums_checked"], row["sums_equal"] = away.numel(), int((away < 1e-9).sum())
        row["largest_difference"], row["largest_sum"] = float(away.max()), float(expected.max())
        own = buckets.shared_leaves(few.T.contiguous(), stored, found[3][:N_CHECKED])
        assert torch.equal(own, found[2][:N_CHECKED])
        best = torch.stack(
            [
                (codes == few[:, i, None]).sum(dim=0).topk(N_NEIGHBORS).values
                for i in range(N_CHECKED)
            ]
        )
        recall = found[2][:N_CHECKED] >= best[:, -1:].double() / args.symbols
        row["recall"] = float(recall.double().mean())
        del tables, found
        row["phases"] = phases(modes, draws, salt, device)
    return row, (codes, y, asked, draws, salt, None if check else tables, None if check else found)


def on_cpu(parts: Any, args: argparse.Namespace) -> dict[str, Any]:
    """The compiled loops for the same rows, and whether tables and answers are the same."""
    from polycal._utils.blocks import map_blocks
    from polycal.core.execution import Execution
    from polycal.core.reading import ActivationModes
    from polycal.kernels import PathTables, SampledIndex, Sampling

    codes, y, asked, draws, salt, tables, found = parts
    rows, queries = (
        ActivationModes(np.ascontiguousarray(c.cpu().numpy().T), (len(c),), packed=False)
        for c in (codes, asked)
    )
    counts = np.eye(N_CLASSES)[y.cpu().numpy()]
    how = Sampling(SCALES, N_SEQUENCES, 1e12, SEED)
    execution = Execution(n_jobs=args.jobs)

    def build(n: int) -> Any:
        empty = PathTables.build(rows[:100], counts[:100], 100, 1, how, execution)
        assert np.array_equal(empty.draws, draws)
        assert np.array_equal(empty.salt, salt)
        return empty.of(rows[:n], counts[:n], n, execution)

    def ask(index: Any, some: Any) -> Any:
        def block(which: slice) -> Any:
            sums, ids = index.tables.look_up(some[which], N_CLASSES, N_NEAR)
            return sums, ids, index._similarity(some[which], ids)

        return map_blocks(block, len(some), 8.0 * 6 * N_SEQUENCES, n_jobs=args.jobs)

    warm = SampledIndex.restore(rows[:1000], counts[:1000], build(1000), False)
    ask(warm, queries[:1000])
    cpu = time.process_time()
    build_s, built = seconds(lambda: build(len(rows)), "cpu")
    build_cpu = time.process_time() - cpu
    index = SampledIndex.restore(rows, counts, built, False)
    query_s, answered = seconds(lambda: ask(index, queries), "cpu", REPEATS)
    sums = np.concatenate([a[0] for a in answered], axis=1)
    ids = np.concatenate([a[1] for a in answered])
    n = len(rows)
    same = {
        "tags_equal": np.array_equal(tables.tag.cpu().numpy().view(np.uint16), built.tag),
        "sums_equal": np.allclose(found[0].cpu().numpy(), sums, rtol=1e-12),
        "near_modes_equal": np.array_equal(found[1].cpu().numpy(), ids),
    }
    row = {"rows": n, "jobs": args.jobs, "build_s": build_s, "build_cpu_s": build_cpu}
    row |= {"rows_per_s": n / build_s, "queries": len(queries), "query_s": query_s}
    return row | {"query_us": 1e6 * query_s / len(queries)} | same


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--cpu-rows", type=int, default=1_000_000)
    parser.add_argument("--queries", type=int, default=100_000)
    parser.add_argument("--symbols", type=int, default=200)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    result: dict[str, Any] = {"torch": torch.__version__, "numpy": np.__version__}
    result |= {"python": platform.python_version(), "cores": os.cpu_count()}
    result["settings"] = {k: str(v) for k, v in vars(args).items()}
    peak = None
    if args.device.startswith("cuda"):
        result["device"] = torch.cuda.get_device_name()
        peak = next((p for name, p in PEAKS.items() if name in result["device"]), None)
    out = args.folder / "sampled_gpu.json"

    def keep() -> None:
        out.write_text(json.dumps(result, indent=1, default=str))

    warm = argparse.Namespace(**vars(args) | {"queries": 1000})
    on_gpu(min(N_WARM, args.rows), warm, check=False)
    small, parts = on_gpu(args.cpu_rows, args, check=False)
    result["gpu_small"] = small
    keep()
    print("On the device, small:", json.dumps(small, default=str), flush=True)
    if COMPILED:
        print(f"No compiled loops here: {COMPILED}", flush=True)
    else:
        result["cpu"] = on_cpu(parts, args)
        keep()
        print("On the CPU:", json.dumps(result["cpu"], default=str), flush=True)
    del parts
    large, _ = on_gpu(args.rows, args, check=True)
    result["gpu"] = large
    keep()
    print("On the device:", json.dumps(large, default=str), flush=True)

    timed = large["phases"]
    print(f"\nBuild of {args.rows:,} rows, part by part ({N_TIMED} of {N_SEQUENCES} sequences)")
    for name, s in timed["seconds"].items():
        rate = timed["bytes"][name] / max(s, 1e-12)
        share = f", {100 * rate / peak:.0f} % of the peak" if peak else ""
        print(f"  {name:8} {1e3 * s / N_TIMED:8.2f} ms a sequence, {rate / 1e12:.2f} TB/s{share}")
    total, counted = (
        sum(timed["seconds"].values()),
        sum(timed["bytes"][name] for name in timed["seconds"]),
    )
    for name, n_bytes in (("counted", counted), ("least", timed["bytes"]["least"])):
        share = f", {100 * n_bytes / total / peak:.1f} % of the peak" if peak else ""
        print(f"  {name:8} {n_bytes / total / 1e12:.2f} TB/s{share}")
    print("\n| | rows | build | rows a second | query |\n|---|---|---|---|---|")
    lines = [("device", large), ("device", small)]
    lines += [(f"CPU, {args.jobs} threads", result["cpu"])] if "cpu" in result else []
    for name, row in lines:
        print(
            f"| {name} | {row['rows']:,} | {row['build_s']:.2f} s | {row['rows_per_s']:,.0f} | "
            f"{row['query_us']:.2f} us |"
        )


if __name__ == "__main__":
    main()
