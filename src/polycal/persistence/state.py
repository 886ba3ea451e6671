"""The fitted state: which fields there are, and how their types and shapes hang together.

The tables below are all that a file can fill. A letter is a size: wherever it appears in one
model it stands for the same number. Compiled loops index by these sizes without checks of
their own, so nothing passes here that does not fit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..calibration.reference_set import ReferenceSet, Settings
from ..core.density import Density
from ..core.polytopes import Polytopes
from ..core.reading import ActivationModes
from ..core.table import Table
from ..gate.gate import CalibrationScores, Gate, GaussianGate, GeodesicGate
from ..kernels import Execution, build_index
from ..posterior.levels import ConfidenceLevels
from ..posterior.pool import Pool
from ..posterior.posterior import Posterior
from ..posterior.votes import Evidence, PolytopeVotes, QueryVotes
from .errors import AlteredFileError
from .values import Packer, Unpacker, of, one

# Sizes: p polytopes, e stored modes of the evidence, c classes, n numbers, k categories,
# l levels of all symbols, s symbols and one, o numbers that are sometimes missing, r rows of
# the fit, v calibration rows, q bandwidths (p, or one for all), u polytopes that vary.
DENSITY = {
    "mean": "float64 p n",
    "precision": "float64 q n",
    "log_norm": "float64 p",
    "log_missing": "float64 n",
    "log_share": "float64 p l",
    "start": "int64 s",
    "log_mass": "float64 p",
}
POLYTOPES = {
    "counts": "float64 p c",
    "mean": "float64 p n",
    "observed": "float64 p w",
    "levels": "float64 p l",
}
TABLE = {"numbers": "int64 n", "categories": "int64 k", "sometimes": "int64 o", "start": "int64 s"}
POOL = {"weights": "float64 a b", "offset": "float64 c"}
CONFIDENCE = {"edge": "float64 d", "value": "float64 f"}
POSTERIOR = {"train_prior": "float64 c", "fitted_prior": "float64 c", "prior": "float64 c"}
FAMILIAR = {"log_f": "float64 v", "weight": "float64 v"}
LANDSCAPE = {"owner": "int64 r", "ids": "int64 r"}
GATES = {"gaussian": GaussianGate, "geodesic": GeodesicGate}
GATE_NUMBERS = {
    "gaussian": ("n_samples", "log_floor"),
    "geodesic": ("n_samples", "log_floor", "kappa", "scale"),
}
WORDS = {
    "posterior": ("pooled", "kernel", "parent"),
    "gate": ("geodesic", "gaussian"),
    "bandwidth": ("geodesic", "polytope"),
    "distance": ("geodesic", "euclidean"),
}
# A count of rows beyond this is none.
MOST_ROWS = 2**63


def pack_fields(packer: Packer, name: str, owner: Any, fields: dict[str, str]) -> dict[str, Any]:
    return {field: packer.array(f"{name}.{field}", getattr(owner, field)) for field in fields}


class Reader(Unpacker):
    """Unpacks fields, and sees to it that their sizes agree."""

    def __init__(self, arrays: dict[str, NDArray], n_classes: int):
        super().__init__(arrays)
        self.sizes = {"c": n_classes}

    def fields(self, node: Any, fields: dict[str, str]) -> dict[str, NDArray]:
        nodes = dict(zip(fields, one_tuple(node, *fields), strict=True))
        return {name: self.sized(nodes[name], fields[name]) for name in fields}

    def sized(self, node: Any, wanted: str) -> NDArray:
        found = self.array(node)
        dtype, *letters = wanted.split()
        shape = tuple(
            self.sizes.setdefault(letter, size)
            for letter, size in zip(letters, found.shape, strict=False)
        )
        if found.dtype != dtype or found.ndim != len(letters) or found.shape != shape:
            raise AlteredFileError(
                f"the array {node['array'][:80]!r} has shape {found.shape} of {found.dtype}; "
                f"expected {shape} of {dtype}."
            )
        return found


def one_tuple(node: Any, *keys: str) -> tuple:
    found = one(node, *keys)
    return found if len(keys) > 1 else (found,)


def require(good: Any, what: str) -> None:
    if not good:
        raise AlteredFileError(f"the file contradicts itself: {what}.")


# ------------------------------------------------------------------ landscape


def pack_landscape(packer: Packer, place: ReferenceSet) -> dict[str, Any]:
    polytopes, evidence = place.polytopes, place.kernel.evidence
    stored = evidence.index.modes
    # Most polytopes hold one row, and a row does not vary: they are left out.
    varies = np.flatnonzero(polytopes.variance.any(axis=1))
    variance = {
        "rows": packer.array("polytopes.varies", varies),
        "values": packer.array("polytopes.variance", polytopes.variance[varies]),
    }
    ratios = place.kernel.ratios if isinstance(place.kernel, PolytopeVotes) else None
    return {
        "settings": _pack_settings(packer, place.settings),
        "table": pack_fields(packer, "table", place.table, TABLE)
        | {"levels": packer.value("category levels", place.table.levels)},
        "modes": {
            "codes": packer.array("modes", _narrow(stored)),
            "sizes": list(stored.sizes),
            "packed": stored.packed,
        },
        "polytopes": pack_fields(packer, "polytopes", polytopes, POLYTOPES)
        | {"variance": variance},
        "density": pack_fields(packer, "density", place.density, DENSITY),
        "kernel": {
            "counts": packer.array("evidence.counts", evidence.counts),
            "prior": packer.array("evidence.prior", place.kernel.prior),
            "n_samples": int(place.kernel.n_samples),
            "ratios": None if ratios is None else packer.array("evidence.ratios", ratios),
            "hidden_labels": evidence.index.hidden_labels,
        },
        **pack_fields(packer, "rows", place, LANDSCAPE),
    }


def unpack_landscape(reader: Reader, node: Any) -> ReferenceSet:
    parts = one(node, "settings", "table", "modes", "polytopes", "density", "kernel", *LANDSCAPE)
    settings, table, modes, polytopes, density, kernel, *_ = parts
    settings = _settings(reader, settings)
    density = Density(**reader.fields(density, DENSITY))
    require(reader.sizes["q"] in (1, reader.sizes["p"]), "bandwidths are not of these polytopes")
    table = _table(reader, table, density.start)
    stored = _modes(reader, modes)
    polytopes = _polytopes(reader, polytopes, stored)
    rows = {name: reader.sized(node[name], spec) for name, spec in LANDSCAPE.items()}
    require(_within(rows["owner"], 0, len(polytopes)), "a row belongs to a polytope that is not")
    return ReferenceSet(
        settings, table, polytopes, density, _kernel(reader, kernel, stored, settings), **rows
    )


def _pack_settings(packer: Packer, settings: Settings) -> dict[str, Any]:
    plain = {name: getattr(settings, name) for name in WORDS}
    execution = settings.execution
    return plain | {
        "n_neighbors": int(settings.n_neighbors),
        "regularization": float(settings.regularization),
        "categorical_features": packer.value("categorical_features", settings.categorical_features),
        "n_jobs": None if execution.n_jobs is None else int(execution.n_jobs),
        "verbose": int(execution.verbose),
    }


def _settings(reader: Reader, node: Any) -> Settings:
    names = ("n_neighbors", "regularization", "categorical_features", "n_jobs", "verbose")
    *words, neighbors, regularization, categorical, n_jobs, verbose = one(node, *WORDS, *names)
    for (name, allowed), word in zip(WORDS.items(), words, strict=True):
        require(word in allowed, f"{name} is {str(word)[:40]!r}")
    require(of(int, neighbors) > 0, "n_neighbors is not above 0")
    return Settings(
        **dict(zip(WORDS, words, strict=True)),
        n_neighbors=neighbors,
        regularization=of(float, regularization),
        categorical_features=reader.value(categorical),
        n_classes=reader.sizes["c"],
        execution=Execution(of((int, type(None)), n_jobs), of(int, verbose)),
    )


def _table(reader: Reader, node: Any, start: NDArray) -> Table:
    levels = reader.value(one(node, *TABLE, "levels")[-1])
    parts = {name: reader.sized(node[name], spec) for name, spec in TABLE.items()}
    known = isinstance(levels, tuple) and all(
        isinstance(level, np.ndarray) and level.ndim == 1 and level.dtype == object
        for level in levels
    )
    require(known and all(_is_level(v) for level in levels for v in level), "a level is none")
    columns = np.sort(np.concatenate([parts["numbers"], parts["categories"]]))
    require(np.array_equal(columns, np.arange(len(columns))), "its columns do not add up")
    require(len(levels) == reader.sizes["k"], "a category lacks its levels")
    require(_within(parts["sometimes"], 0, reader.sizes["n"]), "a number that is missing is not")
    width = [len(level) + 1 for level in levels] + [2] * reader.sizes["o"]
    wanted = np.concatenate([[0], np.cumsum(width, dtype=np.int64)])
    fits = np.array_equal(start, wanted) and np.array_equal(parts["start"], wanted)
    require(fits and reader.sizes.setdefault("l", wanted[-1]) == wanted[-1], "levels do not fit")
    return Table(levels=levels, **parts)


def _is_level(value: Any) -> bool:
    """A value that a column may hold, as ``Packer`` took it."""
    return value is None or isinstance(value, (bool, int, float, str, np.generic))


def _narrow(modes: ActivationModes) -> NDArray:
    """Leaf ids in as few bytes as they need."""
    if modes.packed:
        return modes.codes
    top = int(modes.codes.max())
    return modes.codes.astype(np.uint8 if top < 2**8 else np.uint16 if top < 2**16 else np.int32)


def _modes(reader: Reader, node: Any) -> ActivationModes:
    codes, sizes, packed = one(node, "codes", "sizes", "packed")
    require(
        isinstance(sizes, list) and sizes and all(type(s) is int and s > 0 for s in sizes),
        "modes have no groups",
    )
    found = reader.array(codes)
    if not of(bool, packed):
        require(
            found.dtype.name in ("uint8", "uint16", "int32") and found.size, "there are no modes"
        )
        # A negative number is a huge one without its sign.
        unsigned = found.view(np.uint32) if found.dtype == np.int32 else found
        total = int((unsigned.max(axis=0).astype(np.int64) + 1).sum())
        # The index takes memory for each. A leaf of the parent takes more than a byte.
        size = sum(array.nbytes for array in reader.arrays.values())
        require(total <= size, f"its trees have {total} leaves in {size} bytes")
        reader.arrays[codes["array"]] = found.astype(np.int32, copy=False)
    found = reader.sized(codes, f"{'uint64' if packed else 'int32'} e m")
    stored = ActivationModes(found, tuple(sizes), packed)
    require(packed or len(sizes) == 1, "leaves come in more than one group")
    require(stored.column_ranges[-1][1] == reader.sizes["m"], "modes have another width")
    require(len(stored) > 0, "there are no modes")
    return stored


def _polytopes(reader: Reader, node: Any, stored: ActivationModes) -> Polytopes:
    variance = one(node, *POLYTOPES, "variance")[-1]
    parts = {name: reader.sized(node[name], spec) for name, spec in POLYTOPES.items()}
    require(reader.sizes["w"] in (1, reader.sizes["n"]), "weights of numbers do not fit")
    require(0 < reader.sizes["p"] <= len(stored), "polytopes have no modes")
    # The evidence begins with the polytopes.
    own = stored if len(stored) == reader.sizes["p"] else stored[: reader.sizes["p"]]
    return Polytopes(modes=own, variance=_variance(reader, variance), **parts)


def _variance(reader: Reader, node: Any) -> NDArray:
    """Of all polytopes; the first files had it whole, or 0 where none varies."""
    if isinstance(node, dict) and "array" in node:
        return reader.sized(node, "float64 p n")
    whole = np.zeros((reader.sizes["p"], reader.sizes["n"]))
    if node != 0:
        rows, values = one(node, "rows", "values")
        rows, values = reader.sized(rows, "int64 u"), reader.sized(values, "float64 u n")
        require(_within(rows, 0, len(whole)), "a variance belongs to a polytope that is not")
        require((np.diff(rows) > 0).all(), "variances are not in the order of the polytopes")
        whole[rows] = values
    return whole


def _kernel(
    reader: Reader, node: Any, stored: ActivationModes, settings: Settings
) -> QueryVotes | PolytopeVotes:
    node = {"hidden_labels": False, **of(dict, node)}  # the first files weighed by all layers
    names = ("counts", "prior", "n_samples", "ratios", "hidden_labels")
    counts, prior, n_samples, ratios, hidden = one(node, *names)
    require(not of(bool, hidden) or len(stored.sizes) > 1, "there are no hidden layers")
    index = build_index(stored, hidden_labels=hidden)
    evidence = Evidence(index, reader.sized(counts, "float64 e c"))
    prior = reader.sized(prior, "float64 c")
    require(1 < of(int, n_samples) < MOST_ROWS, "there are no rows")
    if settings.posterior == "pooled" and settings.distance == "geodesic":
        require(ratios is None, "ratios are not of this posterior")
        return QueryVotes(evidence, prior, n_samples)
    if ratios is not None:
        ratios = reader.sized(ratios, "float64 p c")
    require(ratios is not None or settings.posterior == "parent", "ratios are missing")
    return PolytopeVotes(evidence, prior, n_samples, ratios)


# ----------------------------------------------------------- posterior and gate


def pack_posterior(packer: Packer, posterior: Posterior) -> dict[str, Any]:
    pool = None
    if posterior.pool is not None:
        levels = posterior.pool.confidence
        pool = pack_fields(packer, "pool", posterior.pool, POOL)
        pool["confidence"] = levels and pack_fields(packer, "confidence", levels, CONFIDENCE)
    gamma = None if posterior.gamma is None else float(posterior.gamma)
    return pack_fields(packer, "posterior", posterior, POSTERIOR) | {
        "gamma": gamma,
        "n_rows": int(posterior.n_rows),
        "pool": pool,
    }


def unpack_posterior(reader: Reader, node: Any, settings: Settings) -> Posterior:
    *_, gamma, n_rows, pool = one(node, *POSTERIOR, "gamma", "n_rows", "pool")
    priors = {name: reader.sized(node[name], spec) for name, spec in POSTERIOR.items()}
    require((gamma is None) == (settings.posterior == "parent"), "gamma is not of this posterior")
    require(gamma is None or of(float, gamma) > 0, "gamma is not above 0")
    require((pool is None) == (settings.posterior == "kernel"), "the pool is not of this posterior")
    require(0 < of(int, n_rows) < MOST_ROWS, "there are no rows")
    if pool is not None:
        weights, offset, confidence = one(pool, *POOL, "confidence")
        levels = None
        if confidence is not None:
            levels = ConfidenceLevels(**reader.fields(confidence, CONFIDENCE))
            require(len(levels.value) == len(levels.edge) + 1, "levels of confidence do not fit")
        pool = Pool(
            reader.sized(weights, POOL["weights"]), reader.sized(offset, "float64 c"), levels
        )
        wanted = (1 if gamma is None else 2, 3)
        require(pool.weights.shape == wanted, "the pool has other sources")
    return Posterior(gamma, pool, n_rows=n_rows, **priors)


def pack_gate(gate: Gate) -> dict[str, Any]:
    kind = "gaussian" if isinstance(gate, GaussianGate) else "geodesic"
    packer = Packer()
    n_samples, *numbers = (getattr(gate, name) for name in GATE_NUMBERS[kind])
    values = [packer.value("gate", float(number)) for number in numbers]
    packed = dict(zip(GATE_NUMBERS[kind], [int(n_samples), *values], strict=True))
    if isinstance(gate, GeodesicGate) and gate.ceiling is not None:
        packed["ceiling"] = packer.value("gate", gate.ceiling)
    return packed


def unpack_gate(reader: Reader, node: Any, settings: Settings) -> GaussianGate | GeodesicGate:
    names = GATE_NUMBERS[settings.gate]
    if settings.gate == "geodesic" and "ceiling" in of(dict, node):  # the head of an encoder
        names = (*names, "ceiling")
    n_samples, *numbers = one(node, *names)
    require(1 < of(int, n_samples) < MOST_ROWS, "there are no rows")
    return GATES[settings.gate](n_samples, *(of(float, reader.value(n)) for n in numbers))


def unpack_familiar(reader: Reader, node: Any) -> CalibrationScores:
    found = CalibrationScores(**reader.fields(node, FAMILIAR))
    require(len(found.log_f) > 0, "there are no calibration rows")
    return found


def _within(values: NDArray, low: int, high: int) -> bool:
    return len(values) == 0 or bool(values.min() >= low and values.max() < high)
