"""Do the tests notice a change? Small changes of the program, one at a time.

    python -m stress.mutants --share 0.05 --seed 0

First the tests run once, to see which of them reach which line and how long each takes. Then each
change of a random sample is made in a copy of the source, and tests that reach its line run until
one fails: those of the file that mirrors the source first, then the others, the quick ones first,
up to some seconds of CPU. A function that Numba compiles is reached by whatever calls it, and is
compiled anew. What was found is kept in a folder, so that a second start goes on.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import resource
import shutil
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numba  # noqa: F401  imported once here, not in each child
import pandas  # noqa: F401
import pytest
import sklearn.ensemble  # noqa: F401

from stress.mutations import Mutant, mutants_of, mutated

ROOT = Path(__file__).parent.parent
PACKAGES = ("kernels", "posterior", "gate", "calibration", "metrics", "persistence")
# Tests that may notice a change in these packages.
TESTS = (
    *PACKAGES,
    "estimators/test_families.py",
    "estimators/test_groups.py",
    "estimators/test_search.py",
)
# Seconds of CPU that the tests of a mutant take together, without the change.
MOST_SECONDS = 12
# A mutant is stopped after so many times the CPU that its tests take, and these seconds for Numba.
TIMES, COMPILING = 3, 60
# Places that are looked at of those that name what is changed.
MOST_PLACES = 40
# Memory of a mutant, in bytes: a wrong size should not take the machine down.
ROOM = 12 << 30
PYTEST = ["-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", "--no-header", "--tb=line"]


class Times:
    """CPU seconds of each test that passed, and the first that failed."""

    def __init__(self) -> None:
        self.passed: dict[str, float] = {}
        self.failed: list[str] = []
        self.start = 0.0

    def pytest_runtest_logstart(self) -> None:
        """Begin to measure."""
        self.start = time.process_time()

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Note how a test went."""
        if report.failed:
            self.failed.append(report.nodeid)
        elif report.when == "teardown":
            self.passed[report.nodeid] = round(time.process_time() - self.start, 3)


def in_child(work: Callable[[], Any], folder: Path, seconds: int, log: Path) -> Any:
    """What work returns in a forked child of this process, in a folder; None where it ended."""
    result = log.with_suffix(".json")
    result.unlink(missing_ok=True)
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return json.loads(result.read_text()) if result.exists() else None
    try:
        out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(out, 1)
        os.dup2(out, 2)
        os.chdir(folder)
        os.environ["PYTHONPATH"] = str(folder / "src")
        for name in [name for name in sys.modules if name.split(".")[0] in ("stress", "polycal")]:
            del sys.modules[name]
        here = [str(ROOT), str(ROOT / "src"), ""]
        sys.path[:] = [str(folder), str(folder / "src"), *(p for p in sys.path if p not in here)]
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
        resource.setrlimit(resource.RLIMIT_AS, (ROOM, ROOM))
        sys.dont_write_bytecode = True
        result.write_text(json.dumps(work()))
    finally:
        os._exit(0)


def run_tests(names: list[str], more: list[str]) -> tuple[int, dict[str, float], list[str]]:
    """The status of pytest, CPU seconds of tests that passed, and those that failed."""
    times = Times()
    status = pytest.main([*PYTEST, *more, *names], plugins=[times])
    return int(status), times.passed, times.failed


def copy_of(root: Path, folder: Path) -> None:
    """The files of the repository that tests need, with what Numba has compiled."""
    for name in ("src", "tests", "benchmarks", "studies", "stress", "examples", "docs"):
        ignored = shutil.ignore_patterns("cells", "_build")
        shutil.copytree(root / name, folder / name, dirs_exist_ok=True, ignore=ignored)
    shutil.copy2(root / "pyproject.toml", folder)


@dataclass(eq=False)  # it can be hashed then, which its caches need
class Reach:
    """Which tests reach which lines, and how long each takes."""

    seconds: dict[str, float]
    lines: dict[str, dict[int, set[str]]]
    folder: Path

    @classmethod
    def measure(cls, folder: Path, log: Path) -> Reach:
        """Run all tests once, with coverage."""
        data = log.parent / "coverage"
        if not data.exists():
            names = [f"tests/{name}" for name in TESTS]
            os.environ["COVERAGE_FILE"] = str(data)
            more = ["--cov", "--cov-context=test", "--cov-report=", "--maxfail=1000"]
            found = in_child(lambda: run_tests(names, more), folder, 7200, log)
            if not found:
                raise SystemExit(f"the tests did not end; see {log}")
            (log.parent / "seconds.json").write_text(json.dumps(found[1:]))
        passed, failed = json.loads((log.parent / "seconds.json").read_text())
        seconds = {name: s for name, s in passed.items() if name not in failed}
        return cls(seconds, cls._lines(data, folder, seconds), folder)

    @staticmethod
    def _lines(data: Path, folder: Path, seconds: dict[str, float]) -> Any:
        from coverage import CoverageData

        measured = CoverageData(str(data))
        measured.read()
        of_file = defaultdict(set)
        for name in seconds:
            of_file[name.split("::")[0]].add(name)
        lines: dict[str, dict[int, set[str]]] = {}
        for path in measured.measured_files():
            found = lines[Path(path).relative_to(folder).as_posix()] = {}
            for line, contexts in measured.contexts_by_lineno(path).items():
                tests = found[line] = set()
                for context in filter(None, contexts):
                    name, _, phase = context.rpartition("|")
                    # What a fixture makes once is looked at by other tests of the file, too.
                    tests |= of_file[name.split("::")[0]] if phase == "setup" else {name}
                tests &= set(seconds)
        return lines

    @cached_property
    def trees(self) -> dict[str, ast.Module]:
        """The source, read."""
        paths = sorted((self.folder / "src").rglob("*.py"))
        return {
            path.relative_to(self.folder).as_posix(): ast.parse(path.read_text("utf-8"))
            for path in paths
        }

    @cached_property
    def naming(self) -> dict[str, set[tuple[str, int]]]:
        """Places that name a function, a class or a constant."""
        found = defaultdict(set)
        for path, tree in self.trees.items():
            for node in ast.walk(tree):
                if isinstance(node, ast.Name):
                    found[node.id].add((path, node.lineno))
                elif isinstance(node, ast.Attribute):
                    found[node.attr].add((path, node.lineno))
        return found

    @cache  # noqa: B019
    def tests_of(self, path: str, line: int, depth: int = 3) -> frozenset[str]:
        """Tests that reach a line, or else what holds it, or else whatever names that."""
        known = self.lines.get(path, {})
        if known.get(line):
            return frozenset(known[line])
        found: set[str] = set()
        names: list[str] = []
        for node in ast.walk(self.trees[path]):
            if not isinstance(node, ast.stmt) or not node.lineno <= line <= (node.end_lineno or 0):
                continue
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                names.append(node.name)
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                names += [n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)]
            if not isinstance(node, ast.ClassDef):
                for k in range(node.lineno, (node.end_lineno or 0) + 1):
                    found |= known.get(k, set())
        if not found and depth:
            for place in sorted({p for name in names[:2] for p in self.naming[name]})[:MOST_PLACES]:
                if place != (path, line):
                    found |= self.tests_of(*place, depth - 1)
        return frozenset(found)

    def changed_since(self, measured: float) -> list[str]:
        """Test files that are newer than what is known of the tests."""
        files = sorted((self.folder / "tests").rglob("test_*.py"))
        newer = [path for path in files if path.stat().st_mtime > measured]
        return [path.relative_to(self.folder).as_posix() for path in newer]

    def chosen(self, mutant: Mutant) -> list[str]:
        """Tests for a mutant, in the order in which they are to run."""
        mirror = Path("tests", *Path(mutant.path).parts[2:])
        mirror = mirror.with_name(f"test_{mirror.name.replace('_loops', '')}")
        reaching = self.tests_of(mutant.path, mutant.line)

        def order(name: str) -> tuple[bool, bool, float]:
            path = Path(name.split("::")[0])
            return path != mirror, path.parent != mirror.parent, self.seconds[name]

        found, total = [], 0.0
        for name in sorted(reaching, key=order):
            if total + self.seconds[name] <= MOST_SECONDS:
                found.append(name)
                total += self.seconds[name]
        return found


def forget_compiled(folder: Path, path: str, reach: Reach) -> None:
    """Remove what Numba has compiled of a file and of compiled files that import from it."""
    changed, n_before = {Path(path)}, 0
    compiled = {name for name in reach.trees if "njit" in (reach.folder / name).read_text("utf-8")}
    while len(changed) != n_before:
        n_before = len(changed)
        changed |= {
            Path(name)
            for name in compiled
            if changed & set(imported(Path(name), reach.trees[name]))
        }
    for source in changed:
        for file in (folder / source.parent / "__pycache__").glob(f"{source.stem}.*.nb?"):
            file.unlink()


def imported(path: Path, tree: ast.Module) -> Iterator[Path]:
    """Files of the source that a file of it imports from, directly."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = path.parents[node.level - 1].joinpath(*(node.module or "").split("."))
            yield base.with_suffix(".py")
            yield from (base / f"{alias.name}.py" for alias in node.names)


def try_one(
    mutant: Mutant, reach: Reach, folder: Path, log: Path, first: list[str]
) -> dict[str, Any]:
    """Whether a test notices a mutant, and which."""
    tests = [*first, *reach.chosen(mutant)]
    source = folder / mutant.path
    text = source.read_text("utf-8")
    started = time.monotonic()
    outcome, by = "no test", ""
    if tests:
        copied = folder.with_name("mutant")
        shutil.rmtree(copied, ignore_errors=True)
        shutil.copytree(folder, copied)
        (copied / mutant.path).write_text(mutated(text, mutant.number), "utf-8")
        forget_compiled(copied, mutant.path, reach)
        limit = int(TIMES * sum(reach.seconds.get(name, 5) for name in tests)) + COMPILING
        found = in_child(lambda: run_tests(tests, []), copied, limit, log)
        if "ERROR: not found:" in log.read_text("utf-8", "replace"):
            raise SystemExit("tests have changed since they were measured; name another --folder")
        outcome = "killed" if found is None or found[0] else "survived"
        by = "ended" if found is None else (found[2] or ["collection"])[0] if found[0] else ""
    seconds = round(time.monotonic() - started, 1)
    more = {"outcome": outcome, "by": by, "n_tests": len(tests), "seconds": seconds}
    return asdict(mutant) | more


def sample(share: float, seed: int, packages: list[str]) -> list[Mutant]:
    """A random share of all changes, in random order: a part of it is a sample, too."""
    paths = [p for name in packages for p in sorted((ROOT / "src/polycal" / name).rglob("*.py"))]
    every = [mutant for path in paths for mutant in mutants_of(ROOT, path)]
    rng = random.Random(seed)
    rng.shuffle(every)
    print(f"{len(every)} changes in {len(paths)} files")
    return every[: round(share * len(every))]


def report(found: list[dict[str, Any]]) -> int:
    """Print the share that was killed, with its standard error; 1 if it is below 85 %."""
    counts: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for case in found:
        for name in (Path(case["path"]).parts[2], "all"):
            counts[name][0] += case["outcome"] == "killed"
            counts[name][1] += 1
    for name, (killed, n) in sorted(counts.items()):
        share = killed / n
        error = (share * (1 - share) / n) ** 0.5
        print(f"{name}: {killed} of {n} killed, {100 * share:.1f} % +- {100 * error:.1f}")
    for case in found:
        if case["outcome"] != "killed":
            print(f"  {case['path']}:{case['line']} {case['what']} ({case['n_tests']} tests)")
    return int(counts["all"][0] < 0.85 * counts["all"][1])


def main() -> int:
    """Run the mutants of the command line that were not tried before."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--share", type=float, default=0.05)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--package", choices=PACKAGES, action="append")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "mutants")
    parser.add_argument(
        "--again",
        action="store_true",
        help="try those again that no test noticed, with all tests of files changed since then",
    )
    asked = parser.parse_args()
    folder, log = asked.folder.resolve() / "source", asked.folder.resolve() / "log.txt"
    folder.mkdir(parents=True, exist_ok=True)
    copy_of(ROOT, folder)
    reach = Reach.measure(folder, log)
    kept = asked.folder / "found.jsonl"
    lines = kept.read_text().splitlines() if kept.exists() else []
    known = {case["key"]: case for case in map(json.loads, lines)}
    measured = (asked.folder / "seconds.json").stat().st_mtime
    first = reach.changed_since(measured) if asked.again else []
    wanted = sample(asked.share, asked.seed, asked.package or list(PACKAGES))
    for mutant in wanted:
        before = known.get(mutant.key)
        if before and (before["outcome"] == "killed" or not asked.again):
            continue
        found = try_one(mutant, reach, folder, log, first)
        known[mutant.key] = case = found | {"key": mutant.key}
        with kept.open("a") as file:
            file.write(json.dumps(case) + "\n")
        print(case["outcome"], mutant.key, case["by"], f"{case['seconds']} s", flush=True)
    return report([known[mutant.key] for mutant in wanted])


if __name__ == "__main__":
    raise SystemExit(main())
