"""What a sampled and an exact query cost, in comparisons of a leaf id in the exact scan.

CPU seconds in one thread, since other work on the machine then matters less. Modes are those of a
LightGBM and an MLP that were fitted on the data of ``scale.py``, so that queries meet as many
buckets as they do in use.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from functools import partial

import numpy as np
from _record import Row
from _scale_growth import fit_parent, make_data
from sklearn.frozen import FrozenEstimator

from polycal import GeodesicCalibrator
from polycal.core.density import Density
from polycal.core.execution import Execution
from polycal.core.reading import ActivationModes
from polycal.kernels import (
    ForestIndex,
    Hyperplanes,
    LabelledSides,
    PathTables,
    Sampling,
    Search,
    path_tables,
    sampled,
)
from polycal.kernels.network import NetworkIndex
from polycal.posterior.votes import (
    HYPERPLANE_SQUARES,
    N_SEQUENCES,
    PARENT_SCALES,
    SAMPLED_HYPERPLANE_SCALES,
    SAMPLED_PARENT_POWERS,
    SAMPLED_PARENT_SCALES,
    LabelEvidence,
)

N_ASKED, N_PLANES = 500, 1024
REPEATS, N_NEIGHBORS = 3, 10
# Numbers of stored rows at which whole queries are measured too.
STEPS = (0.25, 1.0)
# A constant is off where what is measured differs by more than this factor.
TOLERANCE = 1.5
EXECUTION = Execution(n_jobs=1)


def cpu_time(function: Callable[[], object]) -> float:
    """CPU seconds of the fastest of a few calls, after one that compiles."""
    function()
    times = []
    for _ in range(REPEATS):
        start = time.process_time()
        function()
        times.append(time.process_time() - start)
    return min(times)


def modes_of(parent: str, X: np.ndarray, y: np.ndarray) -> ActivationModes:
    """What a parent that is fitted on the first rows reads from all of them."""
    fitted = fit_parent(parent, X, y, 1)
    small = slice(200)  # a calibrator is asked for its adapter alone
    model = GeodesicCalibrator(FrozenEstimator(fitted), search="exact", n_jobs=1)
    model.fit(X[small], y[small], X_cal=X[-200:], y_cal=y[-200:])
    return model.model_.parent.read(X, 0).modes


def scan_ns(stored: ActivationModes, asked: ActivationModes, counts: np.ndarray) -> float:
    """One comparison of the exact scan."""
    index = ForestIndex(stored, method="scan")
    seconds = cpu_time(partial(index.class_sums, asked, counts, PARENT_SCALES, EXECUTION))
    return 1e9 * seconds / (len(asked) * stored.codes.size)


def sampled_ns(
    stored: ActivationModes,
    asked: ActivationModes,
    counts: np.ndarray,
    scales: np.ndarray,
    n_groups: int,
    n_found: int,
) -> tuple[float, float]:
    """One draw, and one look-up without it."""
    sampling = Sampling(scales, N_SEQUENCES, 2.0**31, 0)
    tables = PathTables.build(stored, counts, len(stored), n_groups, sampling, EXECUTION)
    hashes = np.empty((N_SEQUENCES, len(scales), len(asked)), np.uint64)
    hashing = cpu_time(lambda: tables._hash(asked, hashes))
    seconds = cpu_time(lambda: tables.look_up(asked, counts.shape[1], n_found))
    draw = hashing / (len(asked) * tables.draws.size)
    look_up = (seconds - hashing) / (len(asked) * N_SEQUENCES * len(scales))
    return 1e9 * draw, 1e9 * look_up


def network_ns(
    stored: ActivationModes, asked: ActivationModes, counts: np.ndarray
) -> tuple[float, float]:
    """One word of a stored mode of a network, and the powers of its similarity."""
    index = NetworkIndex(stored, hidden_labels=True)
    some = asked[:100]
    words = cpu_time(lambda: index.similarity(some, EXECUTION))
    sums = cpu_time(lambda: index.class_sums(some, counts, PARENT_SCALES, EXECUTION))
    n_hidden = stored.column_ranges[-1][0]  # class sums are by the hidden layers
    word = words / (len(some) * stored.codes.size)
    power = (sums - word * len(some) * len(stored) * n_hidden) / (len(some) * len(stored))
    return 1e9 * word, 1e9 * power


def sides_ns(X: np.ndarray, y: np.ndarray, asked: np.ndarray) -> tuple[float, float]:
    """One word of a row that votes by hyperplanes, and the powers of its similarity."""
    order = np.argsort(y, kind="stable")
    starts = np.searchsorted(y[order], np.arange(y.max() + 2))
    times = []
    for n_planes in (N_PLANES, 4 * N_PLANES):
        planes = Hyperplanes.draw(X, np.zeros(1, np.int64), n_planes, 0)
        stored, some = (planes.modes(rows, EXECUTION) for rows in (X[order], asked))
        sums = partial(LabelledSides(stored, starts).class_sums, some, np.ones(len(X)))
        times.append(
            (stored.codes.shape[1], cpu_time(lambda s=sums: s(HYPERPLANE_SQUARES, EXECUTION)))
        )
    (few, short), (many, long) = times
    word = (long - short) / (many - few)
    pairs = len(X) * len(asked)
    return 1e9 * word / pairs, 1e9 * (short - few * word) / pairs


def visit_ns(stored: ActivationModes, asked: ActivationModes, counts: np.ndarray) -> float:
    """One visit to a stored mode through the inverted index of a forest."""
    index = ForestIndex(stored, method="index")
    seconds = cpu_time(partial(index.class_sums, asked, counts, PARENT_SCALES, EXECUTION))
    visits = sum(
        (np.bincount(column, minlength=asked.codes.max() + 1)[leaf]).sum()
        for column, leaf in zip(stored.codes.T, asked.codes.T, strict=True)
    )
    return 1e9 * seconds / visits


def query_us(
    stored: ActivationModes,
    asked: ActivationModes,
    X: np.ndarray,
    counts: np.ndarray,
) -> Row:
    """A query's neighbours and class sums in both ways, beside the works that are compared."""
    n_stored, scales = len(stored), SAMPLED_PARENT_SCALES
    density = Density.from_parts(X[:n_stored], np.ones((1, X.shape[1])), np.ones(n_stored))
    sampling = Sampling(scales, N_SEQUENCES, 2.0**31, 0)
    labels = (counts, True, None)
    found = {}
    for name, how, powers in (
        ("exact", None, PARENT_SCALES),
        ("sampled", sampling, SAMPLED_PARENT_POWERS),
    ):
        index = LabelEvidence.build(stored, *labels, how).index
        search = Search(density, N_NEIGHBORS, False, counts, powers)
        call = partial(index.nearest, asked, X[-len(asked) :], search, EXECUTION)
        found[name] = 1e6 * cpu_time(call) / len(asked)
    n_draws = int(scales[-1]) * len(stored.sizes)
    work = N_SEQUENCES * (path_tables.DRAW_WORK * n_draws + len(scales) * path_tables.LOOK_UP_WORK)
    counted, ratio = path_tables.exact_work(stored) / work, found["exact"] / found["sampled"]
    return found | {"exact / sampled": ratio, "by the constants": counted}


def measure(n: int) -> tuple[float, list[Row], list[Row]]:
    """Nanoseconds of a comparison, constants beside what is measured, and whole queries."""
    warnings.simplefilter("ignore")  # networks that stop before they converge
    X, y = make_data(n)
    by_planes = X[n:]
    X, y = X[: n + N_ASKED], y[: n + N_ASKED]
    counts = np.eye(int(y.max()) + 1)[y[:n]]
    leaves, units, forest = (modes_of(name, X, y) for name in ("lightgbm", "mlp", "forest"))
    unit = scan_ns(leaves[:n], leaves[n:], counts)
    planes = Hyperplanes.draw(X[:n], np.zeros(1, np.int64), N_PLANES, 0)
    sides = planes.modes(X, EXECUTION)
    parts = {
        "leaves": (leaves, SAMPLED_PARENT_SCALES, 1, sampled.CANDIDATES),
        "units": (units, SAMPLED_PARENT_SCALES, len(units.sizes) - 1, sampled.CANDIDATES),
        "hyperplanes": (sides, SAMPLED_HYPERPLANE_SCALES, 1, 0),
    }
    rows = [("VISIT_COST", "forest", visit_ns(forest[:n], forest[n:], counts))]
    for name, (modes, *how) in parts.items():
        draw, look_up = sampled_ns(modes[:n], modes[n:], counts, *how)
        rows += [("DRAW_WORK", name, draw), ("LOOK_UP_WORK", name, look_up)]
    exact = {
        "units": network_ns(units[:n], units[n:], counts),
        "hyperplanes": sides_ns(X[:n], y[:n], by_planes),
    }
    for name, (word, power) in exact.items():
        side = "SIDE_" if name == "hyperplanes" else ""
        rows += [(f"{side}WORD_WORK", name, word), (f"{side}POWER_WORK", name, power)]
    queries = [
        {"of": name, "stored": m} | query_us(modes[:m], modes[n:], X, counts[:m])
        for name, modes in (("leaves", leaves), ("units", units), ("forest", forest))
        for m in (int(step * n) for step in STEPS)
    ]
    return unit, [line(name, of, ns, unit) for name, of, ns in sorted(rows)], queries


def line(name: str, of: str, ns: float, unit: float) -> Row:
    """A constant of ``kernels/path_tables.py`` beside what is measured for some modes."""
    constant, found = getattr(path_tables, name), ns / unit
    off = not constant / TOLERANCE <= found <= constant * TOLERANCE
    figures = {"ns": ns, "measured": found, "in the code": constant, "ratio": found / constant}
    return {"constant": name, "of": of} | figures | {"": "OFF" if off else ""}
