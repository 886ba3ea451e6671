"""Growth of time and memory with the rows, for every family of parents, beside the parent's own.

python benchmarks/scale.py OUT.csv --parent lightgbm hgb [--sizes 10000 40000] [--jobs 2]
    [--search auto] [--plot PICTURE.png]
python benchmarks/scale.py OUT.csv --quality FOLDER [--seeds 0 1] [--only TEXT]
python benchmarks/scale.py --work

Growth: made-up data of 20 features and 3 classes, a fifth of the labels random. 70 % of the rows
fit the parent, 30 % calibrate it. Fit is the time of calibration, beside that of the parent's fit;
predict is ``predict_proba`` of 4000 new rows, beside the parent's, the best of 3. Log-loss and the
share of rows called "out" are those of the new rows. Every size runs in its own process; memory
beyond the parent's is the peak of calibration and predict, less what was resident after the
parent's fit. The loops are compiled before the clock runs. ``--plot`` draws what OUT.csv holds.

Quality: electricity, jungle chess, connect-4 and adult from a folder of .npz files, 5000 test rows
and 5000 calibration rows; the exact and the sampled search for one fitted parent. AUROC is that of
``score_samples`` between test rows and test rows with shuffled columns.

Work: what the constants in ``kernels/path_tables.py`` say, measured.

Results are appended to OUT.csv one by one, and a second start goes on where the first one stopped.
"""

from __future__ import annotations

import argparse
import json
from functools import partial
from itertools import product
from pathlib import Path

import _scale_growth as growth
import _scale_quality as quality
from _record import ONLY, chosen, commit, read, run_cells, table

PACKAGES = ("lightgbm", "xgboost", "torch", "numba")
SHOWN = (
    *("parent", "n", "jobs", "search", "planes", "parent_fit_s", "fit_s", "fit_ratio"),
    *("parent_predict_us", "predict_us", "predict_ratio", "resident_GiB", "beyond_GiB"),
    *("tables_GiB", "kept", "parent_log_loss", "log_loss", "out", "save_s", "load_s", "file_GiB"),
)


def measure_growth(args: argparse.Namespace) -> None:
    cells = [
        growth.Cell(parent, n, args.search, args.jobs)
        for n, parent in product(args.sizes, args.parent)
    ]
    settings = {"benchmark": "growth", "seed": growth.SEED, "queries": growth.N_QUERIES}
    found = run_cells(growth.run, cells, args.out, growth.COLUMNS, 1, settings, PACKAGES)
    rows = of_these(found, args)
    groups = [[row for row in rows if row["parent"] == parent] for parent in args.parent]
    groups = [group for group in groups if group]
    print(table([{key: row[key] for key in SHOWN} for group in groups for row in group]))
    print("\nGrowth: the e of n^e\n")
    print(table([line for group in groups for line in growth.growth(group)]))
    print("\nTargets\n")
    print(table([line for group in groups for line in growth.targets(group)]))
    print(f"\ncommit {commit()}")


def of_these(found: list[dict[str, str]], args: argparse.Namespace) -> list[dict]:
    """The rows of one search and number of jobs."""
    rows = growth.numbers(found)
    return [row for row in rows if (row["wanted"], row["jobs"]) == (args.search, args.jobs)]


def measure_quality(args: argparse.Namespace) -> None:
    cells = chosen(
        map(quality.Cell._make, product(quality.SETS, quality.PARENTS, args.seeds)), args.only
    )
    missing = {cell.data for cell in cells if not (args.quality / f"{cell.data}.npz").exists()}
    if missing:
        raise SystemExit(
            f"{args.quality} has no .npz data set called {sorted(missing)}. Add it, or choose "
            "others by --only."
        )
    rows = run_cells(
        partial(quality.run, folder=args.quality, max_rows=args.max_rows, jobs=args.jobs),
        cells,
        args.out,
        quality.COLUMNS,
        1,
        {"benchmark": "quality", "max_rows": args.max_rows, "held": quality.HELD},
        PACKAGES,
    )
    lines = quality.differences(rows)
    print("Sampled less exact\n")
    print(table(lines))
    if lines:
        print("\nTargets\n")
        print(table(quality.targets(lines)))
    print(f"\ncommit {commit()}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path, nargs="?", help="CSV of the results")
    parser.add_argument("--parent", nargs="+", choices=growth.PARENTS, default=[])
    parser.add_argument("--sizes", type=int, nargs="+", default=list(growth.SIZES))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--search", choices=("auto", "exact", "sampled"), default="auto")
    parser.add_argument("--plot", type=Path, metavar="PICTURE.png")
    parser.add_argument("--quality", type=Path, metavar="FOLDER", help="exact against sampled")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1], help="of --quality")
    parser.add_argument("--only", default="", help=f"of --quality: {ONLY}")
    parser.add_argument("--max-rows", type=int, help="of each set of --quality")
    parser.add_argument(
        "--work", action="store_true", help="the constants of kernels/path_tables.py"
    )
    parser.add_argument("--work-rows", type=int, default=10_000, help="stored rows of --work")
    parser.add_argument("--one", nargs=4, metavar=growth.Cell._fields, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        parent, n, wanted, jobs = args.one
        print(json.dumps(growth.run_here(growth.Cell(parent, int(n), wanted, int(jobs)))))
        return
    if args.work:
        from _scale_work import measure

        unit, rows, queries = measure(args.work_rows)
        print(f"One comparison of the scan: {unit:.4f} ns of CPU time, {args.work_rows} rows\n")
        print(table(rows))
        print("\nNeighbours and class sums of a query, microseconds of CPU time\n")
        print(table(queries))
        print(f"\ncommit {commit()}")
        return
    if args.out is None or not (args.quality or args.parent or args.plot):
        parser.error("name OUT.csv, and --parent, --quality or --plot; or use --work")
    if args.quality:
        measure_quality(args)
    if args.parent:
        measure_growth(args)
    if args.plot:
        from _scale_plot import draw

        draw(of_these(read(args.out), args), args.plot)


if __name__ == "__main__":
    main()
