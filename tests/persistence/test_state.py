"""The fitted state in a file: levels, polytopes, votes and modes."""

from __future__ import annotations

import itertools
import json
import typing
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from safetensors import safe_open
from sklearn.datasets import load_iris
from sklearn.ensemble import HistGradientBoostingClassifier

import polycal
from polycal import GeodesicCalibrator, KernelDensityForest
from polycal._utils.saved import Array, Number, Part, Unsaved, declarations, saved_number
from polycal.calibration.fitted_model import FittedModel
from polycal.core.roles import ColumnRoles, Role
from polycal.persistence import AlteredFileError
from polycal.persistence.container import read, write
from polycal.persistence.state import PartReader, check_part, pack_part
from polycal.persistence.values import Packer, Unpacker
from tests.toys.model_files import again, assert_same, forged, mixed
from tests.toys.models import small_forest, small_network

CODES = "model.reference.votes.evidence.modes.codes"


def test_a_pool_without_levels(rows, tmp_path):
    X, y = rows
    model = GeodesicCalibrator(small_forest(), random_state=0).fit(X[:300], y[:300])
    posterior = model.model_.posterior
    without = replace(posterior, pool=replace(posterior.pool, levels=None))
    model.model_ = replace(model.model_, posterior=without)
    loaded = again(model, tmp_path)
    assert loaded.model_.posterior.pool.levels is None
    assert_same(loaded, model, X[250:])


def test_levels_keep_their_type(tmp_path):
    """2, 2.5 and missing are levels of their own type; so are others that a frame may hold."""
    X = pd.DataFrame({"a": np.tile([2.0, 2.5, 7.0], 50), "b": np.arange(150.0)})
    model = KernelDensityForest(10, categorical_features=["a"], random_state=0)
    model.fit(X, np.arange(150) % 3 < 1)
    loaded = again(model, tmp_path)
    assert_same(loaded, model, X)
    levels, known = (m.model_.reference.table.levels[0] for m in (loaded, model))
    assert [(type(v), v) for v in levels] == [(type(v), v) for v in known]
    others = np.array([True, 1.5, 2, "x", None, float("inf"), np.float32(2.5)], dtype=object)
    packer = Packer()
    node = json.loads(json.dumps(packer.value("levels", others), allow_nan=False))
    found = Unpacker(packer.arrays).value(node)
    assert [(type(v), v) for v in found] == [(type(v), v) for v in others]


def test_only_polytopes_that_vary_keep_their_variance(blobs, tmp_path):
    X, y = blobs
    model = KernelDensityForest(n_estimators=8, random_state=0).fit(X, y)
    variance, path = model.polytopes_.variance, tmp_path / "forest.polycal"
    varies = variance.any(axis=1)
    assert 0 < varies.sum() < len(varies)
    model.save(path)
    loaded = polycal.load(path)
    assert_array_equal(loaded.polytopes_.variance, variance)
    with safe_open(path, "numpy") as file:
        assert file.get_slice("model.reference.polytopes.variance").get_shape() == [
            varies.sum(),
            X.shape[1],
        ]


@pytest.mark.parametrize("leaf", [-1, 2**31 - 2])
def test_leaves_that_are_none(leaf, small, tmp_path):
    (tmp_path / "m").write_bytes(small[0])
    _, manifest, arrays = read(tmp_path / "m")
    arrays[CODES] = arrays[CODES].astype(np.int32)
    write(tmp_path / "m", manifest, arrays)
    assert_array_equal(polycal.load(tmp_path / "m").predict_proba(small[1]), small[2])
    arrays[CODES][3] = leaf
    write(tmp_path / "m", manifest, arrays)
    with pytest.raises(AlteredFileError):
        polycal.load(tmp_path / "m")


def test_leaves_that_would_take_all_memory(file):
    def edit(manifest, arrays):
        arrays[CODES] = arrays[CODES].astype(np.int32)
        arrays[CODES][0, 0] = 2**27

    with pytest.raises(AlteredFileError, match="leaves in"):
        polycal.load(forged(file, edit))


# ------------------------------------------------------------- every field of every setting

SETTINGS = [
    dict(zip(("posterior", "gate", "bandwidth", "distance"), values, strict=True))
    for values in itertools.product(
        ("pooled", "kernel", "parent"),
        ("geodesic", "gaussian"),
        ("geodesic", "polytope"),
        ("geodesic", "euclidean"),
    )
]
CASES = [(name, settings) for name in ("forest", "network") for settings in SETTINGS]
NAMES = ["-".join((name, *settings.values())) for name, settings in CASES]


@cache
def fitted(name, *values):
    """A fitted model, kept for the tests of this file."""
    X, y = load_iris(return_X_y=True)
    if name == "categories":
        X, y = mixed()
        X, y = X[:150].assign(colour=X["colour"].astype("category")), y[:150]
        X.loc[1::10, "b"], X.loc[2::10, "b"] = -999.0, 99999.0  # two codes
        parent = HistGradientBoostingClassifier(max_iter=4, min_samples_leaf=5, random_state=0)
    elif name == "forest":
        parent = small_forest(n_estimators=4, max_depth=4)
    else:
        parent = small_network(hidden_layer_sizes=(8, 6), max_iter=20)
    settings = dict(zip(("posterior", "gate", "bandwidth", "distance"), values, strict=False))
    model = GeodesicCalibrator(parent, calibration="holdout", random_state=0, **settings)
    return model.fit(X, y).model_


def packed(model):
    """The node and the arrays of a model, as a file has them."""
    packer = Packer()
    node = json.loads(json.dumps(pack_part(packer, model, "model"), allow_nan=False))
    return node, {name: array.copy() for name, array in packer.arrays.items()}


def unpacked(node, arrays, model):
    """The model of a node, checked as ``load`` does."""
    reader = PartReader(dict(arrays))
    reader.lengths["classes"] = len(model.posterior.prior)
    found = FittedModel(parent=model.parent, **reader.fields(node, FittedModel))
    check_part(found)
    return found


def dataclasses_in(kind):
    """The dataclasses among the types of each field."""
    return {
        field: [k for k in (typing.get_args(hint) or (hint,)) if is_dataclass(k)]
        for field, hint in typing.get_type_hints(kind).items()
        if field != "own_axes"
    }


def reachable(kind):
    found = {kind}
    types = dataclasses_in(kind)
    for field, spec in declarations(kind).items():
        if not isinstance(spec, Unsaved):
            found = found.union(*map(reachable, types[field]))
    return found


def assert_equal_parts(ours, theirs):
    """Equal types and equal saved fields, all the way down."""
    assert type(ours) is type(theirs)
    for field, spec in declarations(type(theirs)).items():
        a, b = getattr(ours, field), getattr(theirs, field)
        if isinstance(spec, Part) and b is not None:
            assert_equal_parts(a, b)
        elif isinstance(spec, Array) and b is not None:
            assert (a.dtype, a.shape) == (b.dtype, b.shape)
            assert_array_equal(a, b)
        elif not isinstance(spec, Unsaved):
            assert type(a) is type(b)
            assert repr(a) == repr(b)


def parts_of(model):
    """The values of all dataclasses in a model."""
    yield model
    for field, spec in declarations(type(model)).items():
        value = getattr(model, field)
        if isinstance(spec, Part) and value is not None:
            yield from parts_of(value)


def test_every_field_of_a_fitted_model_is_declared():
    kinds = reachable(FittedModel)
    assert {"Polytopes", "ConfidenceLevels", "GaussianGate", "PolytopeVotes"} <= {
        kind.__name__ for kind in kinds
    }
    for kind in kinds:
        declared = declarations(kind)
        assert list(declared) == [field.name for field in fields(kind)]
        for field, types in dataclasses_in(kind).items():
            if not isinstance(declared[field], Unsaved):
                assert isinstance(declared[field], Part) == bool(types), (kind, field)


def test_a_field_without_a_declaration_is_an_error():
    @dataclass(frozen=True)
    class Forgetful:
        known: float = saved_number(float)
        forgotten: float = 0.0

    for use in (lambda: pack_part(Packer(), Forgetful(1.0), "x"), lambda: declarations(Forgetful)):
        with pytest.raises(TypeError, match="Forgetful.forgotten does not say how it is saved"):
            use()


@pytest.mark.parametrize(("name", "settings"), CASES, ids=NAMES)
def test_every_part_comes_back(name, settings):
    model = fitted(name, *settings.values())
    kinds = reachable(FittedModel)
    assert all(type(part) in kinds for part in parts_of(model))
    found = unpacked(*packed(model), model)
    assert_equal_parts(found, model)
    assert_equal_parts(found.reference.polytopes.modes, model.reference.polytopes.modes)
    assert type(found.reference.index) is type(model.reference.index)


def test_categories_and_a_ceiling_come_back():
    model = fitted("categories")
    assert len(model.reference.table.level_offsets) > 2
    assert_equal_parts(unpacked(*packed(model), model), model)
    model = fitted("network")
    for ceiling in (2.5, 2e30):
        changed = replace(model, gate=replace(model.gate, ceiling=ceiling))
        assert_equal_parts(unpacked(*packed(changed), changed), changed)


DIFFERENT = [
    ("categories",),
    ("forest",),
    ("network", "kernel", "gaussian"),
    ("forest", "pooled", "geodesic", "polytope", "euclidean"),
]


@pytest.mark.parametrize("case", DIFFERENT, ids="-".join)
def test_lengths_that_disagree_are_refused(case):
    """One array after another, one shorter or one longer along each axis."""
    model = fitted(*case)
    node, arrays = packed(model)
    # One row of widths and one column of observed weights may stand for all.
    one_for_all = {"model.reference.density.precision", "model.reference.polytopes.observed"}
    n = 0
    for name, array in arrays.items():
        for axis, length in enumerate(array.shape):
            longer, shorter = np.r_[:length, length - 1], np.arange(length - 1)
            for index in (longer, shorter) if length else ():
                if len(index) == 1 and name in one_for_all:
                    continue
                if len(index) < length and axis == 0 and name == "model.kept.X":
                    continue  # the first of the kept rows have features
                other = np.ascontiguousarray(np.take(array, index, axis=axis))
                with pytest.raises(AlteredFileError):
                    unpacked(node, arrays | {name: other}, model)
                n += 1
    assert n > 50


@pytest.mark.parametrize("case", DIFFERENT, ids="-".join)
def test_arrays_of_another_type_are_refused(case):
    model = fitted(*case)
    node, arrays = packed(model)
    for name, array in arrays.items():
        other = array.astype(np.float32 if array.dtype != np.float32 else np.float64)
        with pytest.raises(AlteredFileError):
            unpacked(node, arrays | {name: other}, model)


def numbers(node, kind):
    """Each number in a node: the object that holds it, its key, its declaration."""
    types = dataclasses_in(kind)
    for field, spec in declarations(kind).items():
        if isinstance(spec, Number):
            yield node, field, spec
        elif isinstance(spec, Part) and node[field] is not None:
            (own,) = [k for k in types[field] if k.__name__ == node[field]["type"]]
            yield from numbers(node[field], own)


@pytest.mark.parametrize("case", DIFFERENT, ids="-".join)
def test_numbers_out_of_their_interval_are_refused(case):
    model = fitted(*case)
    node, arrays = packed(model)
    tried = set()
    for owner, field, spec in numbers(node, FittedModel):
        known = owner[field]
        bad = ["1", [], {"number": ["F64", 1.0]}]
        bad += [] if spec.optional else [None]
        bad += [1, 1.0] if spec.kind is bool else [True]
        bad += [0.5] if spec.kind is int else []
        for bound, step in ((spec.above, -1), (spec.below, 1)):
            if bound is not None:
                at_bound = {"float": "inf"} if bound == np.inf else spec.kind(bound)
                bad += [at_bound] if bound == np.inf else [at_bound, at_bound + step]
        if spec.kind is float:
            bad += [{"float": "nan"}]
            bad += [] if spec.infinite else [{"float": "inf"}, {"float": "-inf"}]
        for value in bad:
            owner[field] = value
            with pytest.raises(AlteredFileError):
                unpacked(node, arrays, model)
        owner[field] = known
        tried.add(field)
    assert tried >= {"n_samples", "log_floor", "gamma", "n_neighbors", "false_alarm", "packed"}
    unpacked(node, arrays, model)


def number_arrays(node, kind):
    """Name of each stored array of floats, and how it is declared."""
    for field, spec in declarations(kind).items():
        if isinstance(spec, Part) and node[field] is not None:
            types = dataclasses_in(kind)[field]
            (own,) = [k for k in types if k.__name__ == node[field]["type"]]
            yield from number_arrays(node[field], own)
        elif isinstance(spec, Array) and spec.dtype.startswith("float") and node[field] is not None:
            yield node[field].get("values", node[field])["array"], spec


@pytest.mark.parametrize("case", DIFFERENT, ids="-".join)
def test_arrays_with_values_that_are_none_are_refused(case):
    """NaN and infinity unless they are declared, and what is out of the declared limits."""
    model = fitted(*case)
    node, arrays = packed(model)
    tried = 0
    for name, spec in number_arrays(node, FittedModel):
        known = arrays[name]
        if known.size == 0:
            continue
        bad = {v for v in (-np.inf, np.inf) if not spec.least <= v <= spec.most}
        bad |= set() if spec.missing else {np.nan}
        bad |= {-1e-3} if spec.least == 0 else set()
        bad |= {2 * spec.most} if spec.most < 1e300 else set()
        for value in bad:
            changed = known.copy()
            changed.flat[-1] = value
            with pytest.raises(AlteredFileError):
                unpacked(node, arrays | {name: changed}, model)
            tried += 1
    unpacked(node, arrays, model)
    assert tried > 40


PRIORS = [
    ("posterior", "train_prior"),
    ("posterior", "fitted_prior"),
    ("posterior", "prior"),
    ("reference", "votes", "prior"),
    ("reference", "hyperplanes", "prior"),
]


@pytest.mark.parametrize("place", PRIORS, ids=".".join)
def test_priors_that_are_none_are_refused(place):
    model = fitted("forest")
    for lie in ([0.5, 0.5, 0.5], [1.2, -0.1, -0.1]):
        node, arrays = packed(model)
        at(*place[:-1])(node)[place[-1]] = {"array": "lie"}
        with pytest.raises(AlteredFileError):
            unpacked(node, arrays | {"lie": np.array(lie)}, model)


def test_levels_and_weights_that_are_none_are_refused():
    model = fitted("forest")
    node, arrays = packed(model)
    value, weight = "model.posterior.pool.levels.value", "model.scores.weight"
    for name, lie in ((value, 0.0 * arrays[value]), (weight, 0.0 * arrays[weight])):
        with pytest.raises(AlteredFileError):
            unpacked(node, arrays | {name: lie}, model)


def test_the_matrix_of_the_pool_is_kept_and_may_be_absent():
    model = fitted("forest")
    node, arrays = packed(model)
    name, matrix = "model.posterior.pool.matrix.shares", model.posterior.pool.matrix
    assert_array_equal(unpacked(node, arrays, model).posterior.pool.matrix.weights, matrix.weights)
    with pytest.raises(AlteredFileError):
        unpacked(node, arrays | {name: 2 * arrays[name]}, model)
    del node["posterior"]["pool"]["matrix"]  # as in files of earlier versions
    assert unpacked(node, arrays, model).posterior.pool.matrix is None


def at(*path):
    def find(node):
        for key in path:
            node = node[key]
        return node

    return find


REFERENCE = at("reference")
# Values that are good by themselves, and not beside the others.
CONTRADICTIONS = {
    "plan": (("forest",), at(), {"plan": "none"}),
    "plan of no text": (("forest",), at(), {"plan": {"array": "model.posterior.prior"}}),
    "type": (("forest",), at(), {"type": "ReferenceSet"}),
    "votes without exponents": (("forest",), at("reference", "votes"), {"exponents": None}),
    "neither votes nor pool": (("forest", "parent"), at("posterior"), {"pool": None}),
    "pool of other sources": (("forest",), REFERENCE, {"hyperplanes": None}),
    "votes by no hyperplanes": (("forest",), REFERENCE, {"planes": None}),
    "votes by other hyperplanes": (
        ("forest",),
        at("reference", "hyperplanes"),
        {"n_planes": 1000},
    ),
    "votes by many hyperplanes": (
        ("forest",),
        at("reference", "hyperplanes"),
        {"n_planes": 2**30},
    ),
    "no ratios": (("network", "kernel", "gaussian"), at("reference", "votes"), {"ratios": None}),
    "nearest not found": (("network", "kernel"), REFERENCE, {"fill": False}),
    "nearest of a Gaussian gate": (("forest", "pooled", "gaussian"), REFERENCE, {"fill": False}),
    "gate by similarity": (("forest",), at("gate"), {"by_similarity": False}),
    "distance": (("forest", "parent"), REFERENCE, {"euclidean": True}),
    "hidden layers": (("forest",), at("reference", "votes", "evidence"), {"hidden_labels": True}),
    "packed": (("forest",), at("reference", "votes", "evidence", "modes"), {"packed": True}),
    "groups": (
        ("forest",),
        at("reference", "votes", "evidence", "modes"),
        {"sizes": {"tuple": [2, 2]}},
    ),
    "groups of no symbols": (
        ("network",),
        at("reference", "votes", "evidence", "modes"),
        {"sizes": {"tuple": [0, 8, 6, 3]}},
    ),
    "other groups": (
        ("network",),
        at("reference", "votes", "evidence", "modes"),
        {"sizes": {"tuple": [8]}},
    ),
    "levels": (("categories",), at("reference", "table"), {"levels": {"tuple": []}}),
    "no levels": (("categories",), at("reference", "table"), {"levels": []}),
}


@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_contradictions_are_refused(name):
    case, find, edit = CONTRADICTIONS[name]
    model = fitted(*case)
    node, arrays = packed(model)
    owner = find(node)
    assert owner | edit != owner
    owner.update(edit)
    with pytest.raises(AlteredFileError):
        unpacked(node, arrays, model)


def test_a_euclidean_distance_over_symbols_is_refused():
    """The compiled loop takes every column for a number."""
    model = fitted("categories", "parent")
    node, arrays = packed(model)
    node["reference"]["euclidean"], node["gate"]["by_similarity"] = True, False
    with pytest.raises(AlteredFileError, match="Euclidean"):
        unpacked(node, arrays, model)


def test_votes_of_the_query_among_euclidean_neighbours_are_refused():
    model = fitted("forest")
    node, arrays = packed(model)
    node["reference"]["euclidean"], node["gate"]["by_similarity"] = True, False
    with pytest.raises(AlteredFileError, match="votes of its own"):
        unpacked(node, arrays, model)


@pytest.mark.parametrize(
    ("name", "edit"),
    [
        ("model.reference.row_polytope", lambda a: a.__setitem__(0, 10**9)),
        ("model.reference.row_polytope", lambda a: a.__setitem__(0, -1)),
        ("model.reference.table.numbers", lambda a: a.__setitem__(0, 7)),
        ("model.reference.table.categories", lambda a: a.__setitem__(0, 0)),
        ("model.reference.table.with_missing", lambda a: a.__setitem__(0, 2)),
        ("model.reference.table.with_missing", lambda a: a.__setitem__(0, -1)),
        ("model.reference.table.level_offsets", lambda a: a.__setitem__(1, 1)),
        ("model.reference.table.codes", lambda a: a.__setitem__(0, np.nan)),
        ("model.reference.table.codes", lambda a: a.__setitem__(0, 10**9)),
        ("model.reference.table.code_number", lambda a: a.__setitem__(0, -1)),
        ("model.reference.table.code_number", lambda a: a.__setitem__(0, 10**9)),
        ("model.reference.table.code_number", lambda a: a.__setitem__(0, 0)),
        ("model.reference.density.ranges.low", lambda a: a.__setitem__(0, 10**9)),
        ("model.reference.density.ranges.unit", lambda a: a.__setitem__(0, 0)),
        ("model.reference.polytopes.variance.rows", lambda a: a.__setitem__(-1, 10**9)),
        ("model.reference.polytopes.variance.rows", lambda a: a.__setitem__(0, -1)),
        ("model.reference.polytopes.variance.rows", lambda a: a.__setitem__(0, a[1])),
    ],
)
def test_positions_out_of_range_are_refused(name, edit):
    model = fitted("categories")
    node, arrays = packed(model)
    edit(arrays[name])
    with pytest.raises(AlteredFileError):
        unpacked(node, arrays, model)


def test_offsets_of_density_and_table_are_equal():
    model = fitted("categories")
    node, arrays = packed(model)
    arrays["other"] = model.reference.table.level_offsets.copy()
    arrays["other"][1] += 1
    node["reference"]["density"]["level_offsets"] = {"array": "other"}
    with pytest.raises(AlteredFileError, match="other level offsets"):
        unpacked(node, arrays, model)


def test_more_polytopes_than_modes_are_refused():
    model = fitted("forest")
    node, arrays = packed(model)
    evidence = node["reference"]["votes"]["evidence"]
    arrays["codes"] = model.reference.votes.evidence.modes.codes[:3].copy()
    arrays["counts"] = model.reference.votes.evidence.counts[:3].copy()
    evidence["modes"]["codes"], evidence["counts"] = {"array": "codes"}, {"array": "counts"}
    with pytest.raises(AlteredFileError, match="more polytopes than modes"):
        unpacked(node, arrays, model)


def test_shares_of_levels_that_no_column_has_are_refused():
    model = fitted("categories")
    node, arrays = packed(model)
    name = "model.reference.density.log_share"
    arrays[name] = np.pad(arrays[name], ((0, 0), (0, 1)))
    node["reference"]["polytopes"]["levels"]["shape"][1] += 1
    with pytest.raises(AlteredFileError, match="shares for other levels"):
        unpacked(node, arrays, model)


def test_levels_are_stored_sparsely():
    """And as they are in files that are older."""
    model = fitted("categories")
    node, arrays = packed(model)
    levels = model.reference.polytopes.levels
    stored = arrays["model.reference.polytopes.levels.values"]
    assert len(stored) == np.count_nonzero(levels) < levels.size / 2
    assert_array_equal(unpacked(node, arrays, model).reference.polytopes.levels, levels)
    node["reference"]["polytopes"]["levels"] = {"array": "levels"}
    found = unpacked(node, {**arrays, "levels": levels}, model)
    assert_array_equal(found.reference.polytopes.levels, levels)


@pytest.mark.parametrize(
    ("shape", "place", "message"),
    [
        ([10**9, 10**9], 0, "wrong shape"),
        ([3], 0, "wrong shape"),
        ([-1, -1], 0, "wrong shape"),
        ([1, 1], 0, "another shape than others"),
        (None, -1, "out of order or range"),
        (None, 10**9, "out of order or range"),
    ],
)
def test_a_damaged_sparse_array_is_refused(shape, place, message):
    model = fitted("categories")
    node, arrays = packed(model)
    if shape is not None:
        node["reference"]["polytopes"]["levels"]["shape"] = shape
    else:
        name = "model.reference.polytopes.levels.places"
        arrays[name] = np.append(arrays[name][:-1], place)
    with pytest.raises(AlteredFileError, match=message):
        unpacked(node, arrays, model)


def test_a_model_without_polytopes_is_refused():
    model = fitted("forest")
    node, arrays = packed(model)
    n = len(model.reference.polytopes)
    arrays = {name: a[:0].copy() if len(a) == n else a for name, a in arrays.items()}
    arrays["model.reference.polytopes.variance"] = np.empty((0, 4))
    arrays["model.reference.polytopes.variance.rows"] = np.empty(0, dtype=np.int64)
    with pytest.raises(AlteredFileError, match="no polytopes"):
        unpacked(node, arrays, model)


@pytest.mark.parametrize(
    "value", [[1], {"tuple": []}, {"dict": []}, {"objects": ["object", [0], []]}]
)
def test_a_level_that_no_column_can_hold_is_refused(value):
    model = fitted("categories")
    node, arrays = packed(model)
    (levels,) = node["reference"]["table"]["levels"]["tuple"]
    levels["objects"][2][0] = value
    with pytest.raises(AlteredFileError, match="no value of a column"):
        unpacked(node, arrays, model)


def test_roles_of_a_file_from_before_units():
    packer = Packer()
    node = pack_part(packer, ColumnRoles.of({"a": Role("number", "")}), "columns")
    del node["units"]
    found = PartReader(dict(packer.arrays)).part(node, (ColumnRoles,))
    assert found == ColumnRoles.of({"a": Role("number", "")})
